"""Why there are no negatives."""

import csv
from pathlib import Path

import pytest

import negcap
from negcap.pipelines.cli import main

REASONS = [
    (
        ["Ein Hund schläft auf dem roten Sofa.", "Zwei Männer reiten am Strand."],
        {},
        r"only \d of \d+ words are English",
    ),
    (["A dog sleeps on a couch.", "A man rides a horse."], {"lexicon": "own"}, r"the lexicon has only \d+ words"),
    (
        ["Hello.", "Thanks!"],
        {},
        'noun, numeral, shuffle, preposition found nothing to change; .* the first is "Hello."',
    ),
    (["A dog sleeps."], {"operators": "swap_attribute"}, "swap_attribute found nothing to change"),
]


@pytest.mark.parametrize(("sentences", "settings", "reason"), REASONS)
def test_the_reason_is_told(sentences: list[str], settings: dict[str, str], reason: str) -> None:
    with pytest.warns(UserWarning, match=f"no negatives: {reason}"):
        assert negcap.negatives(sentences, **settings).empty


def test_refused_candidates_are_counted_by_reason() -> None:
    with pytest.warns(UserWarning, match=r"all \d+ candidates were rejected, see the rejections \(.*likely_true \d+"):
        assert negcap.negatives(["A man rides a horse."], operators="noun", max_true=0.0).empty


def test_paraphrases_are_no_negatives_but_something(recwarn: pytest.WarningsRecorder) -> None:
    assert negcap.negatives(["A cat next to a dog."], operators="paraphrase").empty
    assert not recwarn.list


def build(tmp_path: Path, sentences: list[str], *options: str) -> None:
    with (tmp_path / "captions.csv").open("w") as file:
        csv.writer(file).writerows([("image", "caption"), *enumerate(sentences)])
    arguments = ["build", str(tmp_path / "captions.csv"), "--output", str(tmp_path / "run"), "--quiet"]
    assert main([*arguments, "--scheduler", "synchronous", *options]) == 0


def test_a_command_tells_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, ["Hello.", "Thanks!"])
    assert "no negatives: noun, numeral, shuffle, preposition found nothing to change" in capsys.readouterr().out


def test_captions_of_another_language_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, ["Ein Hund schläft."], "--language", "de")
    assert "no negatives: none of the captions is in English" in capsys.readouterr().out
