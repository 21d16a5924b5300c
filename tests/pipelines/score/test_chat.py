"""A vision-language model behind an endpoint, played by a server on the loopback."""

import re
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.score.chat import read_letter, read_yes_or_no
from negcap.pipelines.score.score import ModelScores, score
from negcap.pipelines.score.test_set import ScoreConfig
from tests.pipelines.endpoint.server import serving
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
    assert re.search(r"\bAnswer with (A or B|yes or no) only\.$", text)
    assert not image or content[0]["image_url"]["url"].startswith("data:image/")
    if "sled" in text and image:
        return {"text": "Both could be right."}
    if "\nA. " not in text:
        (caption,) = re.findall(r'"(.*)"', text)
        return {"text": "Yes." if caption in TRUE else "No, it does not."}
    options = dict(re.findall(r"^([AB])\. (.*)$", text, re.M))
    right = next(name for name, caption in options.items() if caption in TRUE)
    return {"text": f"The answer is {right}." if image else "A"}


def test_a_model_is_asked_in_both_orders_and_blind_within_a_budget(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", CAPTIONS, NEGATIVES)
    images = write_images(tmp_path / "images", [f"p{i:03d}.jpg" for i in range(IMAGES)])

    def ask(**settings: int) -> ModelScores:
        config = ScoreConfig(images=images, splits=("test",), resamples=20, attempts=1, **settings)
        return score(run, [f"endpoint:{server.url}#mock"], config, Progress())[0]

    with serving(seeing) as server:
        about = ask(max_requests=60)["about"]
        assert len(server.bodies) == 60 and 9 <= about["pairs"] < PAIRS
        assert about["pairs not asked, the budget is spent"] == PAIRS - about["pairs"]
        found = ask()
        assert ask() == found and found["about"]["pairs"] == PAIRS
        assert len(server.bodies) == ASKED  # every answer is asked for once, and then on the disk
    scores = {(row["protocol"], row["group"]): row for row in found["scores"]}
    for operator in ("noun", "numeral"):
        texts = [row["caption"] + row["text"] for row in FIRST if row["operator"] == operator]
        clear = 100 * sum("sled" not in text for text in texts) / len(texts)
        for protocol, blind in (("pairs", 50.0), ("both orders", 0.0), ("yes or no", None)):  # A is right in one order
            row = scores[protocol, operator]
            assert row["model"]["value"] == pytest.approx(clear)
            assert (row["without_image"] or {}).get("value") == blind
    of_pair = [("sled" in row["caption"], "sled" in row["text"]) for row in FIRST]
    assert found["about"]["undecided answers"] == sum(2 * any(pair) + sum(pair) for pair in of_pair) > 0


def test_answers_are_read_or_undecided() -> None:
    letters = {
        "A": ["A", "(A) The dog", "Option A", "<think>B?</think>\nA", "A. A dog runs."],
        "B": ["b.", "**B**", "The answer is B.", "Answer: B", "B is right"],
        "": ["Both", "", "An image of", "A dog runs.", "Neither A nor B", "I cannot tell", "Aren't they equal?"],
    }
    words = {"yes": ["Yes", "**Yes**, it does"], "no": ["no."], "": ["Not quite", "Maybe", "Nothing"]}
    for read, answers in ((read_letter, letters), (read_yes_or_no, words)):
        for wanted, texts in answers.items():
            assert {text: read(text) for text in texts} == dict.fromkeys(texts, wanted)
