"""The gate: what can be guessed without the images, and train captions or images in another split."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import read_table
from negcap.pipelines.publish.gate import LEAST_PAIRS, RefusedError, cue, folded, judge
from negcap.pipelines.quality.bias import Pair
from tests.pipelines.publish.fixtures import IMAGES, TESTS, changed, published, rows, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", *rows(IMAGES, TESTS))


# the gate


def test_what_can_be_guessed_is_refused_and_named(run: Path, tmp_path: Path, capsys: Any) -> None:
    options = ["--format", "sugarcrepe", "--license", "CC0-1.0", "--output", tmp_path / "out", "--split", "test"]
    arguments = ["publish", run, *options]
    assert main([str(a) for a in arguments]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^numeral: n-gram regression tells 100.0 % of the pairs .*, limit 60 %;.*'dozen'", said, re.M)
    assert re.search(r"^numeral: shorter is true, reversed, tells", said, re.M) or "numeral: shorter is true" in said
    assert said.endswith("--allow-blind publishes all the same, and says so in the data card\n")
    assert not list(tmp_path.glob("*out*"))
    assert main([str(a) for a in [*arguments, "--allow-blind"]]) == 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "**Published although it can be guessed without the images.**" in card
    assert "> - numeral: n-gram regression tells 100.0 % of the pairs" in card


def test_what_cannot_be_guessed_is_not_refused(run: Path, tmp_path: Path) -> None:
    card = published(run, tmp_path / "out", operators=("noun",), allow_blind=False, max_blind=75.0)[
        "README.md"
    ].decode()
    assert "Published although" not in card and "75 was the limit." in card


def test_the_gate_counts_a_fixed_rule_both_ways() -> None:
    pairs = [Pair(f"A boat at {i} sea.", f"A cow {i}.", str(i)) for i in range(40)]
    verdict = judge({"noun": pairs}, 60)
    assert "shorter is true, reversed," in [finding.measure for finding in verdict.findings]
    assert verdict.lines[0].startswith("noun: shorter is true, reversed, tells 100.0 %")
    assert "'cow' (0 true, 40 negative)" in cue(verdict.reports[0])


def test_every_baseline_and_all_operators_together_count() -> None:
    cows = [Pair(f"A boat {i}.", f"A cow {i}.", str(i)) for i in range(40)]
    hens = [Pair(f"A barn {i}.", f"A hen {i}.", str(i)) for i in range(40)]
    verdict = judge({"noun": cows, "verb": hens}, 60)
    assert [report.name for report in verdict.reports] == ["noun", "verb", "all"]
    assert {f.measure for f in verdict.findings if f.operator == "all"} >= {"word log-odds", "n-gram regression"}


def test_too_few_to_measure_is_refused_too() -> None:
    verdict = judge({"noun": [Pair("A dog.", "A cat.", "1")]}, 60)
    assert verdict.lines == ["noun: cannot be measured, images must be >= 5 for 5 folds, were: 1"]


def test_of_few_pairs_it_is_not_said_that_none_can_tell() -> None:
    colours = "red blue green black".split()

    def pairs(number: int) -> list[Pair]:
        both = [(colours[i % 4], colours[(i // 2 + 2 * i) % 4]) for i in range(number)]
        return [Pair(f"A {one} boat.", f"A {other} boat.", str(i)) for i, (one, other) in enumerate(both)]

    assert judge({"noun": pairs(40)}, 100).doubts == [
        "noun: 40 pairs are too few to call it unguessable, fewer than 100"
    ]
    assert judge({"noun": pairs(LEAST_PAIRS)}, 100).doubts == []
    told = judge({"noun": [Pair(f"A boat {i}.", f"A cow {i}.", str(i)) for i in range(40)]}, 60)
    assert told.lines and not told.doubts


def test_what_refine_kept_is_published(sample_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sample_run, tmp_path / "run"))
    with pytest.raises(FileNotFoundError, match=r"has no refined: run negcap refine .* first"):
        published(run, tmp_path / "out", split=(), refined=True)
    assert main(["refine", str(run), "--operators", "noun", "--scheduler", "synchronous", "--quiet"]) == 0
    files = published(run, tmp_path / "out", split=(), refined=True)
    kept = {row["text"] for table in read_table(run, "refined", ["text"]) for row in table.to_pylist()}
    assert {row["negative_caption"] for row in json.loads(files["noun.json"]).values()} == kept
    assert b"those that `negcap refine` kept" in files["README.md"]


# train and test


@pytest.mark.parametrize("text", ["{}", "{}".upper, "  {} "])
def test_a_train_caption_in_test_is_refused(text: Any, tmp_path: Path) -> None:
    def leak(captions: list[dict], negatives: list[dict]) -> None:
        train = captions[0]["text"]
        said = train.upper() if callable(text) else text.format(train).replace(".", " .")
        captions[-1]["text"] = said
        for row in negatives:
            if row["caption_id"] == captions[-1]["caption_id"]:
                row["caption"] = said

    run = changed(tmp_path, leak)
    with pytest.raises(RefusedError, match="1 captions of the train split stand in another split"):
        published(run, tmp_path / "out")
    card = published(run, tmp_path / "out", skip_leaks=True)["README.md"].decode()
    assert "1 captions were left out for it" in card
    assert published(run, tmp_path / "train", split=("train",))


def test_a_train_caption_does_not_enter_test_as_a_sibling(tmp_path: Path) -> None:
    def leak(captions: list[dict], negatives: list[dict]) -> None:
        captions[-1]["text"] = captions[0]["text"]
        gone = captions[-1]["caption_id"]
        negatives[:] = [row for row in negatives if row["caption_id"] != gone]

    run = changed(tmp_path, leak)
    with pytest.raises(RefusedError, match="1 captions of the train split"):
        published(run, tmp_path / "out", "sugarcrepe++")
    files = published(run, tmp_path / "out", "sugarcrepe++", skip_leaks=True)
    assert rows(IMAGES, TESTS)[0][0]["text"].encode() not in files["noun.json"]
    assert published(run, tmp_path / "plain")  # nothing of it is published there


def test_a_train_image_in_test_is_refused(tmp_path: Path) -> None:
    def leak(captions: list[dict], negatives: list[dict]) -> None:
        for row in [*captions, *negatives]:
            if row["caption_id"] in ("toy:p000:3", "toy:p000:4"):
                row["split"] = "test"

    run = changed(tmp_path, leak)
    with pytest.raises(RefusedError, match="1 images of the train split stand in another split: p000.jpg"):
        published(run, tmp_path / "out")
    files = published(run, tmp_path / "out", skip_leaks=True)
    assert b"p000.jpg" not in files["noun.json"]


def test_folding_ignores_case_and_space_only() -> None:
    assert folded("A dog , a cat.") == folded("a  DOG, a cat .")
    assert folded("A dog.") != folded("A dig.") and folded("a nice day") != folded("an ice day")
