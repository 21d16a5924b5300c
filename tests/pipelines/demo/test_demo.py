import csv
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
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
    from threading import Thread

    with Demo() as demo:
        loading, serving = demo.load(), Thread(target=demo.serve_forever)
        serving.start()
        yield demo
        demo.shutdown()
        serving.join()
        loading.join()


def request(demo: Demo, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", demo.server_port, timeout=60)
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


@pytest.mark.parametrize("operators", ["vse-c", ["noun", "attribute"]])
def test_the_answer_has_the_rows_of_the_library_and_of_the_code_it_shows(
    operators: str | list[str], server: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions = ["A dog 🐕 sleeps on a red couch.", 'It\'s a "puppy", in the living room.']
    status, answer = ask(server, captions=captions, max_unnatural=0.4, operators=operators)
    assert status == 200 and [one["caption"] for one in answer["captions"]] == captions
    shown = []
    for one in answer["captions"]:
        assert one["graph"] == {
            name: [*map(_plain, some)] for name, some in negcap.graph(one["caption"])._asdict().items()
        }
        for _, _, edits, *_ in one["negatives"]:
            named = [{"start": start, "end": end, "old": "", "new": new} for start, end, new in edits]
            shown.append("".join(text for _, text in pieces(one["caption"], named)))
        assert one["rejections"].keys() <= answer["reasons"].keys()
    code: dict[str, Any] = {}
    exec(answer["python"], code)
    assert shown == code["negatives"]["text"].tolist() and len(shown) > 5
    rejected = [row for one in answer["captions"] for some in one["rejections"].values() for row in some]
    assert len(rejected) == len(code["rejections"]) > 5
    monkeypatch.chdir(tmp_path)
    head, _, rest = answer["commands"].partition("\nEND\n")
    Path("captions.csv").write_text(head.partition("\n")[2] + "\n", "utf-8")
    build, *shows = [line.split()[1:] for line in rest.splitlines()]
    assert main([*build, "--quiet"]) == 0 and [main(line) for line in shows] == [0, 0]
    made = [row["text"] for row in rows_of(Path("outputs/demo"), "negatives")]
    assert made == shown


def _plain(value: Any) -> Any:
    return [*value] if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ({"captions": [" "]}, "captions must have one that is not blank"),
        ({"captions": []}, "captions must not be empty"),
        ({"captions": ["A dog."], "max_unnatural": "2"}, "max_unnatural must be <= 1, was: 2"),
        ({"captions": ["A dog."], "operators": "nouns"}, "operators must be a preset (vse-c, "),
        ({"captions": ["A dog."], "operators": []}, "operators must not be empty"),
        ({"captions": ["A dog."], "operators": "noun"}, "operators must be a preset (vse-c, "),
        ({"captions": ["A dog."], "operators": "noun attribute"}, "operators must be a preset (vse-c, "),
        ({"captions": ["A dog."], "operators": ["vse-c"]}, "operator"),
        ({"captions": ["A dog."], "lexicon": "/etc"}, "lexicon is no setting of Question"),
        ({"captions": ["A" * 10_001]}, "captions left out: "),
    ],
)
def test_an_error_is_one_line(question: dict[str, Any], error: str, server: Demo) -> None:
    status, answer = ask(server, **question)
    assert status == 400 and answer["error"].startswith(error) and "\n" not in answer["error"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x0b", "\u2028", "\n\n"])
def test_a_caption_of_several_lines_is_one_row_of_the_commands(end: str, server: Demo, tmp_path: Path) -> None:
    caption = f"A dog sleeps.{end}END{end}touch {tmp_path}/injected{end}cat > captions.csv <<'END'"
    status, answer = ask(server, captions=[caption, "A cat sits on a mat."], operators=["noun"])
    assert status == 200
    *commands, _, _, _ = answer["commands"].splitlines()
    assert [line.partition(",")[0] for line in commands] == [
        "cat > captions.csv <<'END'",
        "image",
        "photo",
        "photo",
        "END",
    ]
    subprocess.run(["sh"], input="\n".join(commands), text=True, cwd=tmp_path, check=True)
    assert not (tmp_path / "injected").exists()
    with open(tmp_path / "captions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["caption"] for row in rows] == [one["caption"] for one in answer["captions"]]


def test_a_closed_connection_is_no_error(server: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps({"captions": ["A dog sleeps on a red couch."]}).encode()
    head = f"POST /negatives HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nContent-Type: application/json\r\n"
    for sent in (f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body, head.encode(), b"GET / HTTP/1.1\r\n"):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
                # a reset, not an orderly end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.sendall(sent)
    assert ask(server, captions=["A dog."])[0] == 200  # after the others, as they are answered one at a time
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_its_end_says_what_has_ended(number: signal.Signals, status: int) -> None:
    command = [sys.executable, "-m", "negcap", "demo", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT.parent, env={**os.environ, "PYTHONPATH": str(ROOT.parent)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline().startswith("http://127.0.0.1:")
        time.sleep(0.2)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    line = err.strip()  # of Ctrl-C, after an empty one
    assert process.returncode == status and line.startswith("negcap: ") and line.endswith("; the page is closed")
    assert "\n" not in line


def test_words_that_were_refused_before_a_draw_are_named(server: Demo) -> None:
    _, answer = ask(server, captions=["The kids on the swings."], operators=["noun"])
    (one,) = answer["captions"]
    assert not one["negatives"] and any("boy" in change for _, change, *_ in one["rejections"]["compatible"])


def test_only_the_page_itself_may_ask(server: Demo) -> None:
    foreign = f"rebound.example:{server.server_port}"
    assert ask(server, {"Host": foreign}, captions=["A dog."]) == (403, {"error": "only the page itself may ask"})
    assert request(server, "GET", "/", Host=foreign)[0] == 403
    for origin in ("https://rebound.example", "null", "http://127.0.0.1:1"):
        assert ask(server, {"Origin": origin}, captions=["A dog."])[0] == 403
    assert ask(server, {"Content_Type": "text/plain"}, captions=["A dog."])[0] == 415
    assert ask(server, captions=["A dog."] * MOST)[0] == 413
    assert request(server, "POST", "/negatives", "{", Content_Type="application/json")[0] == 400
    assert request(server, "GET", "/negatives")[0] == request(server, "GET", "/../answers.py")[0] == 404


@pytest.mark.slow
class TestInBrowser:
    pytestmark = IN_BROWSER

    def test_the_page_shows_the_negatives_of_its_example(self, server: Demo, tmp_path: Path) -> None:
        found = document(server.address, tmp_path)
        _, answer = ask(server, captions=EXAMPLE)
        made = sum(len(one["negatives"]) for one in answer["captions"])
        reasons = [reason for one in answer["captions"] for reason, rows in one["rejections"].items() for _ in rows]
        rejected = len(reasons) - reasons.count("no_candidate")
        assert "no_candidate" in reasons and f">{made} negatives, {rejected} rejected candidates.<" in found
        assert found.count("<article") == len(EXAMPLE) and all(f"<h2>{text}</h2>" in found for text in EXAMPLE)
        assert answer["reasons"] and all(meaning in found for meaning in answer["reasons"].values())
        assert found.count("<ins>") >= made and "negcap build captions.csv" in found
