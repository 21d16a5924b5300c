"""Why there are no negatives."""

import csv
from pathlib import Path
from typing import Any

import pytest

import negcap
from negcap.pipelines.cli import main

NOTHING = "noun, numeral, shuffle, preposition found nothing to change"
GERMAN = ["Ein Hund schläft auf dem roten Sofa.", "Zwei Männer reiten am Strand."]
REASONS = [
    (GERMAN, {}, r"only \d of \d+ words are English"),
    (["A dog sleeps on a couch.", "A man rides a horse."], {"lexicon": "own"}, r"the vocabulary has only \d+ words"),
    (["Hello.", "Thanks!"], {}, f'{NOTHING}. The first caption, "Hello.", was read as without any content word'),
    (["A dog sleeps."], {"operators": "swap_attribute"}, "swap_attribute found nothing to change.* excluded=true"),
    (["A man rides a horse."], {"operators": "noun", "max_true": 0.0}, r"all candidates .* \(.*likely_true \d+"),
]


@pytest.mark.parametrize(("sentences", "settings", "reason"), REASONS)
def test_the_reason_is_told(sentences: list[str], settings: dict[str, Any], reason: str) -> None:
    with pytest.warns(UserWarning, match=f"no negatives: {reason}"):
        assert negcap.negatives(sentences, **{"lexicon": "reference", **settings}).empty


def test_paraphrases_are_no_negatives_but_something(recwarn: pytest.WarningsRecorder) -> None:
    assert negcap.negatives(["A cat next to a dog."], operators="paraphrase").empty
    assert not recwarn.list


@pytest.mark.parametrize(
    ("sentences", "options", "reason"),
    [(["Hello.", "Thanks!"], [], NOTHING), (GERMAN, ["--language", "de"], "no caption is in English")],
)
def test_a_command_tells_it_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sentences: list[str], options: list[str], reason: str
) -> None:
    with (tmp_path / "captions.csv").open("w") as file:
        csv.writer(file).writerows([("image", "caption"), *enumerate(sentences)])
    arguments = ["build", str(tmp_path / "captions.csv"), "--output", str(tmp_path / "run"), "--quiet"]
    arguments += ["--set", "lexicon=reference", "--scheduler", "synchronous"]
    assert main([*arguments, *options]) == 0
    assert f"no negatives: {reason}" in capsys.readouterr().out
