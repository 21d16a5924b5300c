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
PAIRS = 9 * TESTS


def asked(body: dict[str, Any]) -> tuple[str, bool]:
    """The text of a request, and whether it shows an image."""
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return content, False
    assert content[0]["image_url"]["url"].startswith("data:image/")
    return content[1]["text"], True


def seeing(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Knows the truth when it sees the image; without it, says A. Does not decide about sleds."""
    text, image = asked(body)
    if "sled" in text and image:
        return {"text": "Both could be right."}
    if "\nA. " not in text:
        (caption,) = re.findall(r'"(.*)"', text)
        return {"text": "Yes." if caption in TRUE else "No, it does not."}
    options = dict(re.findall(r"^([AB])\. (.*)$", text, re.M))
    right = next(name for name, caption in options.items() if caption in TRUE)
    return {"text": f"The answer is {right}." if image else "A"}


def score(run: Path, images: Path, url: str, *flags: str) -> int:
    model = ["--model", f"endpoint:{url}#mock", "--images", str(images), "--split", "test", "--resamples", "20"]
    return main(["score", str(run), *model, "--attempts", "1", "--quiet", "--json", *flags])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", CAPTIONS, NEGATIVES)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), [f"p{i:03d}.jpg" for i in range(IMAGES)])


def test_a_model_is_asked_in_both_orders_and_blind(run: Path, images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(seeing) as server:
        assert score(run, images, server.url) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert len(server.bodies) == 6 * PAIRS - _repeated()
        assert score(run, images, server.url) == 0
        assert json.loads(capsys.readouterr().out) == [found]
        assert len(server.bodies) == 6 * PAIRS - _repeated()  # every answer was on the disk
    scores = {(one["protocol"], one["group"]): one for one in found["scores"]}
    first = [row for row in NEGATIVES if row["split"] == "test" and row["negative_id"].endswith(":0")]
    for operator in ("noun", "numeral"):
        some = [row for row in first if row["operator"] == operator]
        clear = 100 * sum("sled" not in row["caption"] + row["text"] for row in some) / len(some)
        assert scores["pairs", operator]["model"]["value"] == pytest.approx(clear)
        assert scores["both orders", operator]["model"]["value"] == pytest.approx(clear)
        assert scores["pairs", operator]["without_image"]["value"] == 50.0  # A is right in one order of two
        assert scores["both orders", operator]["without_image"]["value"] == 0.0
        assert scores["yes or no", operator]["model"]["value"] == pytest.approx(clear)
    unclear = sum(2 * ("sled" in row["caption"] + row["text"]) + ("sled" in row["caption"]) + ("sled" in row["text"])
                  for row in first)  # fmt: skip
    assert found["about"]["undecided answers"] == unclear > 0


def _repeated() -> int:
    """Questions that are the same for the noun and the numeral of a caption: is the caption true?"""
    of = [row["caption"] for row in NEGATIVES if row["split"] == "test" and row["negative_id"].endswith(":0")]
    return len(of) - len(set(of))


def test_a_budget_is_kept_and_goes_on(run: Path, images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(seeing) as server:
        assert score(run, images, server.url, "--max-requests", "60") == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert len(server.bodies) == 60
        done = found["about"]["pairs"]
        assert 9 <= done < PAIRS and found["about"]["pairs not asked, the budget is spent"] == PAIRS - done
        assert score(run, images, server.url) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert len(server.bodies) == 6 * PAIRS - _repeated() and found["about"]["pairs"] == PAIRS


def broken(after: int) -> Behaviour:
    return lambda body, number: {"status": 500} if number >= after else seeing(body, number)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (broken(20), "no answer after 1 attempts; the last: HTTP 500"),
        (lambda body, number: {"status": 401}, "HTTP 401"),
        (lambda body, number: {"body": b"<html>"}, "not a chat completion"),
    ],
)
def test_an_endpoint_that_fails_is_one_line_and_loses_nothing(
    behaviour: Behaviour, message: str, run: Path, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(behaviour) as server:
        assert score(run, images, server.url, "--concurrency", "1") == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        before = server.answered
        server.behaviour = seeing
        assert score(run, images, server.url) == 0
        good = before if "completion" not in message else 0
        assert server.answered == (before - good) + 6 * PAIRS - _repeated()
    if "500" in message:
        assert good == 20


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "endpoint:http://localhost:1"], "endpoint must be endpoint:URL#MODEL"),
        (["--model", "endpoint:ftp://x#m", "--images", "{images}"], "url must be http(s)://host[:port]/path"),
        (["--model", "endpoint:http://localhost:1#m"], "needs the image files: --images FOLDER"),
        (["--model", "endpoint:http://localhost:1/v1#m", "--images", "{images}", "--attempts", "1"], "no connection"),
    ],
)
def test_what_cannot_be_asked_is_named(
    flags: list[str], message: str, run: Path, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["score", str(run), "--split", "test", "--quiet", *(flag.format(images=images) for flag in flags)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A", "A"), ("b.", "B"), ("(A) The dog", "A"), ("**B**", "B"), ("The answer is B.", "B"), ("Option A", "A"),
        ("<think>B?</think>\nA", "A"), ("Answer: B", "B"), ("A. A dog runs.", "A"), ("B is right", "B"), ("Both", ""),
        ("", ""), ("An image of", ""), ("A dog runs.", ""), ("Neither A nor B", ""), ("I cannot tell", ""),
        ("Aren't they equal?", ""),
    ],
)  # fmt: skip
def test_letters_are_read_or_undecided(text: str, read: str) -> None:
    assert letter(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [("Yes", "yes"), ("no.", "no"), ("**Yes**, it does", "yes"), ("Not quite", ""), ("Maybe", ""), ("Nothing", "")],
)
def test_yes_and_no_are_read_or_undecided(text: str, read: str) -> None:
    assert yes(text) == read
