"""The page of `negcap demo`: what its server answers, whom it answers, and how it ends."""

import csv
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import negcap
from negcap.pipelines.cli import main
from negcap.pipelines.demo import Demo
from negcap.pipelines.demo.server import EXAMPLE, MOST
from negcap.pipelines.report.rows import pieces
from tests.browser import IN_BROWSER, document
from tests.conftest import ROOT
from tests.tables import rows_of


@pytest.fixture(scope="module")
def server() -> Iterator[Demo]:
    with Demo() as demo:
        loading, serving = demo.load(), Thread(target=demo.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield demo
        demo.shutdown()
        serving.join()
        loading.join()


def request(demo: Demo, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", demo.server_port, timeout=300)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def ask(demo: Demo, headers: dict[str, str] | None = None, **question: Any) -> tuple[int, Any]:
    headers = {"Content_Type": "application/json", "Origin": demo.address.rstrip("/"), **(headers or {})}
    status, text = request(demo, "POST", "/negatives", json.dumps(question), **headers)
    return status, json.loads(text)


def test_the_answer_has_the_rows_of_the_library_and_of_the_code_it_shows(server, tmp_path, monkeypatch):
    captions = ["A dog 🐕 sleeps on a red couch.", 'It\'s a "puppy", in the living room.']
    status, answer = ask(server, captions=captions, max_unnatural=0.4, operators="vse-c")
    assert status == 200 and [rows["caption"] for rows in answer["captions"]] == captions
    shown = []
    for rows in answer["captions"]:
        assert rows["graph"] == json.loads(json.dumps(negcap.graph(rows["caption"])._asdict()))
        for _, _, edits, *_ in rows["negatives"]:
            named = [{"start": start, "end": end, "old": "", "new": new} for start, end, new in edits]
            shown.append("".join(text for _, text in pieces(rows["caption"], named)))
        assert rows["rejections"].keys() <= answer["reasons"].keys()
    code: dict[str, Any] = {}
    exec(answer["python"], code)
    assert shown == code["negatives"]["text"].tolist() and len(shown) > 5
    rejected = sum(len(same) for rows in answer["captions"] for same in rows["rejections"].values())
    assert rejected == len(code["rejections"]) > 5
    monkeypatch.chdir(tmp_path)
    head, _, rest = answer["commands"].partition("\nEND\n")
    Path("captions.csv").write_text(head.partition("\n")[2] + "\n", "utf-8")
    commands = [line.split()[1:] for line in rest.splitlines()]
    commands[0].append("--quiet")
    assert [main(command) for command in commands] == [0, 0, 0]
    assert [row["text"] for row in rows_of(Path("outputs/demo"), "negatives")] == shown


@pytest.mark.parametrize(("question", "fact"), [
    ({"captions": [" "]}, "captions must have one that is not blank"),
    ({"captions": ["A dog."], "operators": "noun"}, "operators must be a preset (vse-c, "),
    ({"captions": ["A dog."], "operators": ["vse-c"]}, "operator"),
    ({"captions": ["A dog."], "lexicon": "/etc"}, "lexicon is no setting"),
    ({"captions": ["A" * 10_001]}, "captions left out: "),
])  # fmt: skip
def test_an_error_is_one_line(question: dict[str, Any], fact: str, server: Demo) -> None:
    status, answer = ask(server, **question)
    assert status == 400 and answer["error"].startswith(fact) and "\n" not in answer["error"]


def test_a_caption_of_several_lines_is_one_row_of_the_commands(server: Demo, tmp_path: Path) -> None:
    captions = [f"A dog.{end}END{end}touch injected{end}cat > captions.csv <<'END'" for end in ("\n", "\r", "\u2028")]
    _, answer = ask(server, captions=captions, operators=["noun"])
    commands, _, build = answer["commands"].partition("\nnegcap build")
    assert "--operator noun" in build
    subprocess.run(["sh"], input=commands, text=True, cwd=tmp_path, check=True)
    assert not (tmp_path / "injected").exists()
    with open(tmp_path / "captions.csv", newline="") as file:
        assert [row["caption"] for row in csv.DictReader(file)] == [" ".join(caption.split()) for caption in captions]


def test_a_closed_connection_is_no_error(server: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps({"captions": ["A dog."]}).encode()
    head = f"POST /negatives HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nContent-Type: application/json\r\n"
    for sent in (f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body, head.encode(), b"GET / HTTP/1.1\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
            # a reset, not an orderly end
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(sent)
    assert ask(server, captions=["A dog."])[0] == 200  # after the others, as they are answered one at a time
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_its_end_says_what_has_ended() -> None:
    command = [sys.executable, "-m", "negcap", "demo", "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    with subprocess.Popen(
        command, cwd=ROOT.parent, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline().startswith("http://127.0.0.1:")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        line = process.communicate(timeout=300)[1].strip()  # after an empty one
    assert process.returncode == 130 and line.endswith("; the page is closed") and "\n" not in line


def test_words_that_were_refused_before_a_draw_are_named(server: Demo) -> None:
    (rows,) = ask(server, captions=["The kids on the swings."], operators=["noun"])[1]["captions"]
    assert not rows["negatives"] and any("boy" in change for _, change, *_ in rows["rejections"]["compatible"])


def test_only_the_page_itself_may_ask(server: Demo) -> None:
    foreign = f"rebound.example:{server.server_port}"
    assert ask(server, {"Host": foreign}, captions=["A dog."])[0] == 403
    assert request(server, "GET", "/", Host=foreign)[0] == 403
    for origin in ("https://rebound.example", "null", "http://127.0.0.1:1"):
        assert ask(server, {"Origin": origin}, captions=["A dog."])[0] == 403
    assert ask(server, {"Content_Type": "text/plain"}, captions=["A dog."])[0] == 415
    assert ask(server, captions=["A dog."] * MOST)[0] == 413
    assert request(server, "POST", "/negatives", "{", Content_Type="application/json")[0] == 400
    assert request(server, "GET", "/negatives")[0] == request(server, "GET", "/../answers.py")[0] == 404


class TestInBrowser:
    pytestmark = IN_BROWSER

    def test_the_page_shows_the_best_negatives_of_its_example(self, server: Demo, tmp_path: Path) -> None:
        page = document(server.address, tmp_path)
        _, answer = ask(server, captions=EXAMPLE)
        negatives = sum(len(rows["negatives"]) for rows in answer["captions"])
        reasons = [reason for rows in answer["captions"] for reason, same in rows["rejections"].items() for _ in same]
        rejected = len(reasons) - reasons.count("no_candidate")
        assert "no_candidate" in reasons and f">{negatives} negatives, {rejected} rejected candidates.<" in page
        assert page.count("<article") == len(EXAMPLE) and all(f"<h2>{text}</h2>" in page for text in EXAMPLE)
        for rows, shown in zip(answer["captions"], page.split("<article")[1:], strict=True):
            best, _, refused = shown.partition("<details")
            kept = Counter(re.findall(r"</span>(\w+): ", best))
            assert kept and set(kept) == {row[0] for row in rows["negatives"]} and set(kept.values()) <= {1, 2}
            assert f"Show all {len(rows['negatives'])}" in best and best.count('class="score ') == kept.total()
            assert all(answer["reasons"][reason] in refused.lower() for reason in rows["rejections"])
        assert "negcap build captions.csv" in page
