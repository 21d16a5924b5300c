"""Negatives that language models write, and their verdicts on negatives: servers on the loopback of known quality."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.tables import verify
from negcap.pipelines.stages.vet import read_verdict
from negcap.pipelines.tables.pairs import likelihoods, p_true_by_readers
from tests.cases import cases_of
from tests.conftest import HERE
from tests.pipelines.endpoint.server import Server, serving
from tests.runs import caption_row, write_run
from tests.tables import rows_of

# What the server answers, by caption: texts, and why each is refused, or "none".
ANSWERS = cases_of(__file__)["propose"]["answers"]
PROPOSED = [(text, None if why == "none" else why) for answers in ANSWERS.values() for text, why in answers]
IMAGES = (1, 1, 2, 3, 4)  # of these captions


def known_quality(body: dict[str, Any], number: int) -> dict[str, Any]:
    asked = body["messages"][-1]["content"].split("\nCaption: ")[1].splitlines()[0]
    if asked.startswith("A woman"):
        return {"text": "I am sorry, I cannot write false captions."}
    if asked.startswith("A boy"):
        return {"status": 400, "body": b"content filter"}
    answer = json.dumps({"negatives": [text for text, _ in ANSWERS[asked]]})
    return {"text": f"Here you are:\n```json\n{answer}\n```"}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with captions, parses, lexicon and truth; to be copied."""
    run = tmp_path_factory.mktemp("propose") / "run"
    write_run(run, captions=[caption_row(text, str(IMAGES[number]), number) for number, text in enumerate(ANSWERS)])
    for verb in ("parse", "lexicon", "truth"):
        flags = ["--set", "lexicon=reference"] if verb != "parse" else []
        assert main(["build", "--output", str(run), "--only", verb, *flags, *HERE]) == 0
    return run


@pytest.fixture
def run(parsed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(parsed, tmp_path / "run"))


def propose(run: Path, server: Server, *more: str) -> int:
    flags = "--model mock --kind replace_object --no-plausible --set temperature=0.5 --set max_true=1".split()
    return main(["propose", str(run), "--url", server.url, *flags, *HERE, *more])


def test_proposals_are_judged_and_all_are_kept_with_reasons(run, capsys):
    with serving(known_quality) as server:
        assert propose(run, server) == 0
        said = capsys.readouterr().out
        assert "9 proposals for 5 captions: 3 kept (33.3 %)" in said and "spent now: 4 requests, 120 tokens" in said
        assert propose(run, server) == 0
        assert "4 answered (4 from the cache)" in capsys.readouterr().out
        assert len(server.bodies) == 6  # only the refused request was sent again
    judged = rows_of(run, "judged")
    unusable = [("I am sorry, I cannot write false captions.", "malformed")]
    unusable += [("HTTP 400 Bad Request: content filter", "refused")]
    assert [(row["text"], row["reason"]) for row in judged] == [*PROPOSED, *unusable]
    assert {(row["asked"], row["temperature"], len(row["prompt"])) for row in judged} == {("replace_object", 0.5, 64)}
    assert {row["source"] for row in judged if row["reason"] != "refused"} == {"mock-1"}
    assert [row["text"] for row in rows_of(run, "negatives")] == [text for text, reason in PROPOSED if reason is None]
    assert not verify(run).problems


def test_a_larger_budget_continues_and_a_broken_server_stops_in_one_line(run, capsys):
    with serving(known_quality) as server:
        assert propose(run, server, "--max-requests", "2", "--set", "concurrency=1") == 0
        assert "2 answered (0 from the cache), 0 refused, 3 not sent" in capsys.readouterr().out
        assert len(server.bodies) == 2 and len(rows_of(run, "judged")) == 5
        assert propose(run, server, "--max-requests", "2") == 0 and len(server.bodies) == 2
        server.behaviour = lambda body, number: {"status": 503}
        capsys.readouterr()
        assert propose(run, server, "--set", "attempts=1", "--set", "concurrency=1") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{server.url}/chat/completions: HTTP 503" in line
        server.behaviour = known_quality
        assert propose(run, server, "--max-requests", "100") == 0
        assert "4 answered (2 from the cache)" in capsys.readouterr().out
        assert len(server.bodies) == 6 and len(rows_of(run, "judged")) == 9
        assert propose(run, server, "--k", "2") == 2  # something else is asked for


def test_negatives_of_operators_are_not_replaced_unasked(sample_copy, capsys):
    with serving(known_quality) as server:
        assert propose(sample_copy, server) == 2
        assert "was made by negcap negatives: --overwrite replaces it" in capsys.readouterr().err
        assert not server.bodies


def test_prompts_are_edited_by_copying_them(run, tmp_path, capsys):
    folder = tmp_path / "prompts"
    assert main(["propose", str(run), "--copy-prompts", str(folder)]) == 0
    path = folder / "replace_object.txt"
    path.write_text(path.read_text().replace("You write", "Write"))
    with serving(known_quality) as server:
        assert propose(run, server, "--prompts", str(folder), "--max-requests", "1") == 0
        assert server.bodies[0]["messages"][0]["content"].startswith("Write negative captions")
        path.write_text("no dashes")
        assert propose(run, server, "--prompts", str(folder)) == 2
    assert f"{path}: is not a prompt: it must have a line of three dashes" in capsys.readouterr().err


def vet(run: Path, server: Server, *more: str, model: str = "mock") -> int:
    return main(["vet", str(run), "--url", server.url, "--model", model, "--quiet", *more])


def reader(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Takes A for the person's text unless B has a dog; finds camels odd, and kittens true together with puppies."""
    a, b = (line[3:] for line in body["messages"][-1]["content"].splitlines()[:2])
    odd = "A" if "camel" in a else "B" if "camel" in b else "none"
    choice = "B" if "dog" in b else "A"
    return {"text": json.dumps({"choice": choice, "odd": odd, "both": "kitten" in a + b, "confidence": 0.75})}


@pytest.fixture(scope="module")
def proposed(parsed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Path(shutil.copytree(parsed, tmp_path_factory.mktemp("vet") / "run"))
    with serving(known_quality) as server:
        assert propose(run, server) == 0
    return run


def test_pairs_are_read_in_both_orders_and_only_what_no_reader_refuses_is_published(proposed, tmp_path, capsys):
    run = Path(shutil.copytree(proposed, tmp_path / "run"))
    publish = ["publish", str(run), "--output", str(tmp_path / "out"), "--format", "sugarcrepe", "--quiet", "--vetted"]
    publish += ["--license", "CC0-1.0", "--allow-blind"]
    assert main(publish) == 2  # nothing was read
    capsys.readouterr()
    with serving(reader) as server:
        assert vet(run, server, "--json") == 0
        assert len(server.bodies) == 6 and not any("." in body["messages"][-1]["content"] for body in server.bodies)
        (report,) = json.loads(capsys.readouterr().out)
        assert (report["reader"], report["reading"], report["negatives"], report["unread"]) == ("mock", "blind", 3, 0)
        shares = {name: round(report[name]["percent"] * 0.06) for name in ("told", "odd", "both_true", "steady")}
        assert shares == {"told": 4, "odd": 2, "both_true": 2, "steady": 2} and round(report["first"]["percent"]) == 83
        assert {row["first"] for row in rows_of(run, "verdicts")} == {"caption", "negative"}
        assert vet(run, server) == 0 and len(server.bodies) == 6
        assert vet(run, server, model="other") == 0 and len(server.bodies) == 12
        assert {row["reader"] for row in rows_of(run, "verdicts")} == {"mock", "other"}
    assert main(publish) == 0
    files = [path for path in (tmp_path / "out").glob("*.json") if "croissant" not in path.name]
    published = [row["negative_caption"] for path in files for row in json.loads(path.read_text()).values()]
    assert published == ["A cat sleeps on a red couch."]


def test_negatives_are_read_with_their_photos(proposed, tmp_path):
    run = Path(shutil.copytree(proposed, tmp_path / "run"))
    (tmp_path / "1.jpg").write_bytes(b"1")

    def sees(body: dict[str, Any], number: int) -> dict[str, Any]:
        image, text = body["messages"][-1]["content"]
        assert image["image_url"]["url"].startswith("data:image/jpeg;base64,")
        return {"text": json.dumps({"false": "cat" in text["text"], "odd": False, "confidence": 1})}

    with serving(sees) as server:
        assert vet(run, server, "--reading", "image", "--images", str(tmp_path)) == 0
    read = {(row["image_id"], row["false"], row["problem"]) for row in rows_of(run, "verdicts")}
    assert read == {("1", True, ""), ("1", False, ""), ("2", None, "no_image")}


def test_what_readers_of_the_photo_say_is_a_probability(proposed):
    row = {"negative_id": "a", "reading": "image", "problem": "", "false": True, "confidence": 0.9}
    unsure = [row | {"false": False, "confidence": 0.5}, row | {"negative_id": "b", "false": False, "confidence": None}]
    unread = [row | {"negative_id": "c", "problem": "no_image"}, row | {"negative_id": "c", "reading": "blind"}]
    assert likelihoods([row, *unsure, *unread]) == pytest.approx({"a": 0.3, "b": 1.0})
    assert p_true_by_readers(proposed) == {}


@pytest.mark.parametrize("text, first, read", [
    ('{"choice": "b", "odd": "Both", "both": "no"}', "negative", (True, "both", False)),
    ('<think>{"choice": 1}</think> {"choice": "A", "odd": "b", "both": true}', "caption", (True, "negative", True)),
])  # fmt: skip
def test_verdicts_are_read_out_of_answers(text, first, read):
    verdict = read_verdict(text, first)
    assert (verdict["told"], verdict["odd"], verdict["both_true"]) == read


@pytest.mark.parametrize("answer", ["", "A", "[1]", '{"choice": "C", "odd": "none", "both": true}', '{"choice": "A"}'])
def test_what_is_no_verdict_is_refused(answer):
    with pytest.raises(ValueError, match="must be|must be true or false"):
        read_verdict(answer, "caption")
