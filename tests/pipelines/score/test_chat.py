"""A vision-language model behind an endpoint, played by a server on the loopback."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.score.chat import letter, yes
from tests.pipelines.endpoint.server import Behaviour, serving
from tests.pipelines.publish.fixtures import rows, write_images, write_run

IMAGES, TESTS = 7, 4
CAPTIONS, NEGATIVES = rows(IMAGES, TESTS)
TRUE = {row["text"] for row in CAPTIONS}
FIRST = [row for row in NEGATIVES if row["split"] == "test" and row["negative_id"].endswith(":0")]
PAIRS = 9 * TESTS
REPEATED = len(FIRST) - len({row["caption"] for row in FIRST})  # noun and numeral both ask whether a caption is true
ASKED = 6 * PAIRS - REPEATED


def seeing(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Knows the truth when it sees the image; without it, says A. Does not decide about sleds."""
    content = body["messages"][-1]["content"]
    image = not isinstance(content, str)
    text = content[1]["text"] if image else content
    assert not image or content[0]["image_url"]["url"].startswith("data:image/")
    if "sled" in text and image:
        return {"text": "Both could be right."}
    if "\nA. " not in text:
        (caption,) = re.findall(r'"(.*)"', text)
        return {"text": "Yes." if caption in TRUE else "No, it does not."}
    options = dict(re.findall(r"^([AB])\. (.*)$", text, re.M))
    right = next(name for name, caption in options.items() if caption in TRUE)
    return {"text": f"The answer is {right}." if image else "A"}


def score(run: Path, images: Path, url: str, *flags: str) -> int:
    model = ["--model", f"endpoint:{url}#mock", "--images", str(images), "--split", "test", "--set", "resamples=20"]
    return main(["score", str(run), *model, "--set", "attempts=1", "--quiet", "--json", *flags])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", CAPTIONS, NEGATIVES)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), [f"p{i:03d}.jpg" for i in range(IMAGES)])


def test_a_model_is_asked_in_both_orders_and_blind_within_a_budget(
    run: Path, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(seeing) as server:
        assert score(run, images, server.url, "--set", "max_requests=60") == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert len(server.bodies) == 60
        done = found["about"]["pairs"]
        assert 9 <= done < PAIRS and found["about"]["pairs not asked, the budget is spent"] == PAIRS - done
        assert score(run, images, server.url) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert len(server.bodies) == ASKED and found["about"]["pairs"] == PAIRS
        assert score(run, images, server.url) == 0
        assert json.loads(capsys.readouterr().out) == [found]
        assert len(server.bodies) == ASKED  # every answer was on the disk
    scores = {(one["protocol"], one["group"]): one for one in found["scores"]}
    for operator in ("noun", "numeral"):
        some = [row for row in FIRST if row["operator"] == operator]
        clear = 100 * sum("sled" not in row["caption"] + row["text"] for row in some) / len(some)
        for protocol, blind in (("pairs", 50.0), ("both orders", 0.0), ("yes or no", None)):  # A is right in one order
            one = scores[protocol, operator]
            assert one["model"]["value"] == pytest.approx(clear)
            assert (one["without_image"] or {}).get("value") == blind
    unclear = sum(2 * ("sled" in row["caption"] + row["text"]) + ("sled" in row["caption"]) + ("sled" in row["text"])
                  for row in FIRST)  # fmt: skip
    assert found["about"]["undecided answers"] == unclear > 0


def broken(after: int) -> Behaviour:
    return lambda body, number: {"status": 500} if number >= after else seeing(body, number)


@pytest.mark.parametrize(
    ("behaviour", "good", "message"),
    [
        (broken(20), 20, "chat/completions: HTTP 500"),
        (lambda body, number: {"status": 401}, 0, "HTTP 401"),
        (lambda body, number: {"body": b"<html>"}, 0, "not a chat completion"),
    ],
)
def test_an_endpoint_that_fails_is_one_line_and_loses_nothing(
    behaviour: Behaviour, good: int, message: str, run: Path, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(behaviour) as server:
        assert score(run, images, server.url, "--set", "concurrency=1") == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        before = server.answered
        server.behaviour = seeing
        assert score(run, images, server.url) == 0
        assert server.answered - before == ASKED - good


def test_answers_are_read_or_undecided() -> None:
    letters = {
        "A": ["A", "(A) The dog", "Option A", "<think>B?</think>\nA", "A. A dog runs."],
        "B": ["b.", "**B**", "The answer is B.", "Answer: B", "B is right"],
        "": ["Both", "", "An image of", "A dog runs.", "Neither A nor B", "I cannot tell", "Aren't they equal?"],
    }
    words = {"yes": ["Yes", "**Yes**, it does"], "no": ["no."], "": ["Not quite", "Maybe", "Nothing"]}
    for read, answers in ((letter, letters), (yes, words)):
        for wanted, texts in answers.items():
            assert {text: read(text) for text in texts} == dict.fromkeys(texts, wanted)
