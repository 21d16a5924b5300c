"""The gate: what can be guessed without the images, and train captions or images in another split."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.publish.gate import LEAST_PAIRS, PASSED, REFUSED, TOO_FEW, GateVerdict, judge_negatives, text_hash
from negcap.pipelines.publish.publish import RefusedError
from negcap.pipelines.quality.bias.baselines import TextPair, most_telling
from negcap.pipelines.quality.bias.measure import FOLDER
from tests.pipelines.publish.fixtures import IMAGES, TESTS, changed, published, report, rows, write_run

# the gate


def test_what_can_be_guessed_is_refused_and_named(run: Path, tmp_path: Path, capsys: Any) -> None:
    options = ["--format", "sugarcrepe", "--license", "CC0-1.0", "--output", tmp_path / "out", "--split", "test"]
    arguments = ["publish", run, *options]
    assert main([str(a) for a in arguments]) == 1
    told = capsys.readouterr().out
    assert re.search(r"^ numeral +36 +\S.* +100\.0 \(\d\d\.\d–100\.0\) +refused$", told, re.M)
    assert re.search(r"^ numeral +dozen 0:36$", told, re.M)
    assert re.search(r"^ noun +45 ", told, re.M)
    assert told.endswith("--allow-blind publishes them all the same, and the data card says so\n")
    assert max(map(len, told.partition("negcap refine")[0].splitlines())) <= 100
    assert not list(tmp_path.glob("*out*"))
    assert main([str(a) for a in [*arguments, "--allow-blind"]]) == 0
    said = capsys.readouterr().err
    assert "negcap: published although they can be guessed without the images: " in said and " numeral, all\n" in said
    card = " ".join((tmp_path / "out" / "README.md").read_text().split())
    assert "**Published although it can be guessed without the images**" in card
    assert "since they were not measured: " in card and "numeral, all." in card


@pytest.mark.usefixtures("unmeasured")
def test_negatives_that_were_not_checked_are_refused_and_marked(tmp_path: Path) -> None:
    captions, negatives = rows(IMAGES, TESTS)
    for row in negatives:
        if row["operator"] == "noun":
            row["operator"] = "uniform_noun"
    run = write_run(tmp_path / "run", captions, negatives)
    with pytest.raises(RefusedError, match="not checked to be false of their images: negatives of uniform_noun\n"):
        published(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert "Not checked" not in published(run, tmp_path / "out", operators=("numeral",))["README.md"].decode()
    card = published(run, tmp_path / "other", allow_unchecked=True)["README.md"].decode()
    assert "some may be true of their image: uniform\\_noun." in " ".join(card.replace(">", "").split())


@pytest.mark.parametrize(
    "right, pairs, outcome",
    [
        (51, 77, TOO_FEW),  # 66 %, but its interval begins at 55
        (18, 29, TOO_FEW),
        (66, 100, PASSED),  # 66 %, from 56
        (70, 100, REFUSED),  # from 60.4
        (640, 1000, REFUSED),  # from 61
        (620, 1000, PASSED),  # from 58.9
        (29, 29, REFUSED),  # from 88
        (50, 100, PASSED),
    ],
)
def test_the_lower_end_of_the_interval_decides(right: int, pairs: int, outcome: str) -> None:
    told = report(right, pairs)
    assert (most_telling(told.baselines)[1].low > 60) == (outcome == REFUSED)
    verdict = GateVerdict(60, {"noun": told})
    assert verdict.outcome("noun") == outcome
    assert verdict.refused == (["noun"] if outcome == REFUSED else [])
    assert verdict.doubtful == ({"noun": pairs} if outcome == TOO_FEW else {})


def test_a_handful_of_an_operator_does_not_stop_a_set_that_passes_as_a_whole() -> None:
    few, many, told = report(29, 29), report(150, 300), report(290, 300)
    assert GateVerdict(60, {"preposition": few, "noun": many, "all": many}).refused == []
    assert GateVerdict(60, {"preposition": few, "noun": told, "all": told}).refused == ["preposition", "noun", "all"]
    assert GateVerdict(60, {"preposition": told, "noun": many, "all": many}).refused == ["preposition"]


def test_a_baseline_that_is_mostly_wrong_counts_reversed() -> None:
    for told, named in ((report(100, 200, shorter=(40, 200)), "shorter is true"), (report(40, 200), "n-gram")):
        baseline, accuracy = most_telling(told.baselines)
        assert baseline.startswith(named) and baseline.endswith(", reversed")
        assert GateVerdict(60, {"noun": told}).outcome("noun") == REFUSED
        assert 60 < accuracy.low < accuracy.percent == 80 < accuracy.high


def test_what_cannot_be_measured_is_refused_unless_it_is_little() -> None:
    verdict = judge_negatives({"noun": [TextPair("A dog.", "A cat.", "1")]}, 60)
    assert verdict.refused == [] and verdict.doubtful == {"noun": 1}
    verdict = judge_negatives({"noun": [TextPair(f"A dog {i}.", f"A cat {i}.", "1") for i in range(LEAST_PAIRS)]}, 60)
    assert verdict.refused == ["noun"] and verdict.doubtful == {}
    assert verdict.unmeasured == {"noun": "too few images: 1, needs 5"}


# the measure is kept


def test_a_second_format_measures_nothing_again(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(run / FOLDER)
    first = published(run, tmp_path / "a", "huggingface")
    names = sorted(path.name for path in (run / FOLDER).iterdir())
    assert len(names) == 3  # noun, numeral, all

    def measured(*_: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("negcap.pipelines.quality.bias.measure.blind", measured)
    assert published(run, tmp_path / "b", "huggingface") == first
    table = first["README.md"].decode().partition("| operator | pairs")[2].partition("\n\n")[0]
    assert table in published(run, tmp_path / "c", "coco")["README.md"].decode()
    assert sorted(path.name for path in (run / FOLDER).iterdir()) == names
    with pytest.raises(AssertionError, match="measured again"):
        published(run, tmp_path / "d", "huggingface", seed=1)
    with pytest.raises(AssertionError, match="measured again"):
        published(run, tmp_path / "e", "huggingface", split=("train",))


def test_without_scikit_learn_the_extra_is_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(run / FOLDER)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r'pip install "negcap\[quality\]"'):
        published(run, tmp_path / "a")
    assert not (tmp_path / "a").exists() and not (run / FOLDER).exists()


def test_a_damaged_measure_is_made_again(run: Path, tmp_path: Path) -> None:
    first = published(run, tmp_path / "out")
    whole = {path: path.read_text() for path in (run / FOLDER).iterdir()}
    damages = ["", "{}", "[1]", "null", '{"sha256": "0", "report": {}}', "\x00", "cut", "percent", "cut"]
    for n in range(0, len(damages), len(whole)):  # each of the three files is damaged in another way
        for damage, (path, text) in zip(damages[n:], whole.items(), strict=False):
            changes = {"cut": text[:-9], "percent": text.replace('"percent": ', '"percent": 1')}
            path.write_text(changes.get(damage, damage))
            assert path.read_text() != text
        assert published(run, tmp_path / f"{n}") == first
        assert {path: path.read_text() for path in (run / FOLDER).iterdir()} == whole


def test_what_refine_kept_is_published(sample_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sample_run, tmp_path / "run"))
    with pytest.raises(FileNotFoundError, match=r"has no refined negatives yet: run negcap refine"):
        published(run, tmp_path / "out", split=(), refined=True)
    assert main(["refine", str(run), "--operator", "attribute", "--scheduler", "synchronous", "--quiet"]) == 0
    files = published(run, tmp_path / "out", split=(), refined=True)
    kept = {row["text"] for table in read_table(run, "refined", ["text"]) for row in table.to_pylist()}
    assert {row["negative_caption"] for row in json.loads(files["attribute.json"]).values()} == kept
    assert b"those that `negcap refine` kept" in files["README.md"]


# train and test


@pytest.mark.usefixtures("unmeasured")
def test_a_train_caption_in_test_is_refused(tmp_path: Path) -> None:
    def leak(captions: list[dict], negatives: list[dict]) -> None:
        said = f"  {captions[0]['text'].upper()} ".replace(".", " .")
        captions[-1]["text"] = said
        for row in negatives:
            if row["caption_id"] == captions[-1]["caption_id"]:
                row["caption"] = said

    run = changed(tmp_path, leak)
    with pytest.raises(RefusedError, match="1 caption of the train split also in another split"):
        published(run, tmp_path / "out")
    card = published(run, tmp_path / "out", skip_leaks=True)["README.md"].decode()
    assert "1 captions were left out for this reason" in card
    assert published(run, tmp_path / "train", split=("train",))


@pytest.mark.usefixtures("unmeasured")
def test_a_train_caption_does_not_enter_test_as_a_sibling(tmp_path: Path) -> None:
    def leak(captions: list[dict], negatives: list[dict]) -> None:
        captions[-1]["text"] = captions[0]["text"]
        gone = captions[-1]["caption_id"]
        negatives[:] = [row for row in negatives if row["caption_id"] != gone]

    run = changed(tmp_path, leak)
    with pytest.raises(RefusedError, match="1 caption of the train split"):
        published(run, tmp_path / "out", "sugarcrepe++")
    files = published(run, tmp_path / "out", "sugarcrepe++", skip_leaks=True)
    assert rows(IMAGES, TESTS)[0][0]["text"].encode() not in files["noun.json"]
    assert published(run, tmp_path / "plain")  # nothing of it is published there


@pytest.mark.usefixtures("unmeasured")
def test_a_train_image_in_test_is_refused(tmp_path: Path) -> None:
    def leak(captions: list[dict], negatives: list[dict]) -> None:
        for row in [*captions, *negatives]:
            if row["caption_id"] in ("toy:p000:3", "toy:p000:4"):
                row["split"] = "test"

    run = changed(tmp_path, leak)
    with pytest.raises(RefusedError, match="1 image of the train split also in another split: p000.jpg"):
        published(run, tmp_path / "out")
    files = published(run, tmp_path / "out", skip_leaks=True)
    assert b"p000.jpg" not in files["noun.json"]


def test_folding_ignores_case_and_space_only() -> None:
    assert text_hash("A dog , a cat.") == text_hash("a  DOG, a cat .")
    assert text_hash("A dog.") != text_hash("A dig.") and text_hash("a nice day") != text_hash("an ice day")


def test_what_cannot_be_guessed_is_not_refused(run: Path, tmp_path: Path) -> None:
    files = published(run, tmp_path / "out", operators=("noun",), allow_blind=False, max_blind=75.0)
    card = files["README.md"].decode()
    assert "Published although" not in card and "The\nlimit was 75: an operator exceeds it" in card
    assert "Not held to the limit, fewer than 100 pairs: noun (45)." in card
