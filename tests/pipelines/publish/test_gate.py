"""The gate: what can be guessed without the images, and train captions or images in another split."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.publish.gate import LEAST_PAIRS, PASSED, REFUSED, TOO_FEW, GateVerdict, judge_negatives, text_hash
from negcap.pipelines.publish.publish import RefusedError
from negcap.pipelines.quality.bias.baselines import TextPair, most_telling
from negcap.pipelines.quality.bias.measure import FOLDER
from tests.pipelines.publish.fixtures import Rows, changed, published, refine_attributes, report


def test_what_can_be_guessed_is_refused_and_named(run: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = ["publish", str(run), "--format", "sugarcrepe", "--license", "CC0-1.0", "--split", "test"]
    arguments += ["--output", str(tmp_path / "out")]
    assert main(arguments) == 1
    told = capsys.readouterr().out
    assert re.search(r"^ numeral +36 +\S.* +100\.0 \(\d\d\.\d–100\.0\) +refused$", told, re.M)
    assert re.search(r"^ numeral +dozen 0:36$", told, re.M) and re.search(r"^ noun +45 ", told, re.M)
    assert "--allow-blind publishes them all the same" in told and not list(tmp_path.glob("*out*"))
    assert main([*arguments, "--allow-blind"]) == 0
    assert re.search("published although .* numeral, all\n", capsys.readouterr().err)
    card = " ".join((tmp_path / "out" / "README.md").read_text().split())
    assert "**Published although it can be guessed without the images**" in card and "numeral, all." in card
    files = published(run, tmp_path / "noun", operators=("noun",), allow_blind=False, max_blind=75.0)
    card = files["README.md"].decode()
    assert "Published although" not in card and "limit was 75" in card
    assert "Not held to the limit, fewer than 100 pairs: noun (45)." in card


@pytest.mark.usefixtures("unmeasured")
def test_negatives_that_were_not_checked_are_refused_and_marked(tmp_path: Path) -> None:
    def unchecked(captions: Rows, negatives: Rows) -> None:
        for row in negatives:
            row["operator"] = row["operator"].replace("noun", "uniform_noun")

    run = changed(tmp_path, unchecked)
    with pytest.raises(RefusedError, match="not checked to be false of their images: negatives of uniform_noun\n"):
        published(run, tmp_path / "out")
    assert "Not checked" not in published(run, tmp_path / "out", operators=("numeral",))["README.md"].decode()
    card = published(run, tmp_path / "other", allow_unchecked=True)["README.md"].decode()
    assert "some may be true of their image: uniform\\_noun." in " ".join(card.replace(">", "").split())


@pytest.mark.parametrize(("right", "pairs", "outcome"), [
    (51, 77, TOO_FEW),  # 66 %, but its interval begins at 55
    (66, 100, PASSED),  # 66 %, from 56
    (70, 100, REFUSED),  # from 60.4
    (620, 1000, PASSED),  # from 58.9
    (29, 29, REFUSED),  # from 88
])  # fmt: skip
def test_the_lower_end_of_the_interval_decides(right: int, pairs: int, outcome: str) -> None:
    verdict = GateVerdict(60, {"noun": report(right, pairs)})
    assert verdict.outcome("noun") == outcome
    assert verdict.refused == (["noun"] if outcome == REFUSED else [])
    assert verdict.doubtful == ({"noun": pairs} if outcome == TOO_FEW else {})


def test_a_handful_of_an_operator_does_not_stop_a_set_that_passes_as_a_whole() -> None:
    few, many, told = report(29, 29), report(150, 300), report(290, 300)
    for preposition, noun, refused in (
        (few, many, []), (few, told, ["preposition", "noun", "all"]), (told, many, ["preposition"]),
    ):  # fmt: skip
        assert GateVerdict(60, {"preposition": preposition, "noun": noun, "all": noun}).refused == refused


def test_a_baseline_that_is_mostly_wrong_counts_reversed() -> None:
    for told, named in ((report(100, 200, shorter=(40, 200)), "shorter is true"), (report(40, 200), "n-gram")):
        baseline, cue = most_telling(told.baselines)
        assert baseline.startswith(named) and baseline.endswith(", reversed")
        assert GateVerdict(60, {"noun": told}).outcome("noun") == REFUSED and 60 < cue.low < cue.percent == 80


def test_what_cannot_be_measured_is_refused_unless_it_is_little() -> None:
    few, many = ([TextPair(f"A dog {i}.", f"A cat {i}.", "1") for i in range(n)] for n in (1, LEAST_PAIRS))
    verdict = judge_negatives({"noun": few}, 60)
    assert verdict.refused == [] and verdict.doubtful == {"noun": 1}
    verdict = judge_negatives({"noun": many}, 60)
    assert verdict.doubtful == {} and verdict.unmeasured == {"noun": "too few images: 1, needs 5"}


def test_a_measure_is_kept_for_other_formats_and_made_again_if_damaged(run, tmp_path, monkeypatch):
    shutil.rmtree(run / FOLDER)
    first = published(run, tmp_path / "a", "huggingface")
    whole = {path: path.read_text() for path in (run / FOLDER).iterdir()}
    damages = ["", "null", "cut", "percent"]
    for n in range(0, len(damages), len(whole)):  # each of the files is damaged in another way
        for damage, (path, text) in zip(damages[n:], whole.items(), strict=False):
            changes = {"cut": text[:-9], "percent": text.replace('"percent": ', '"percent": 1')}
            path.write_text(changes.get(damage, damage))
        assert published(run, tmp_path / str(n), "huggingface") == first
        assert {path: path.read_text() for path in (run / FOLDER).iterdir()} == whole

    def measured(*_: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("negcap.pipelines.quality.bias.measure.blind", measured)
    table = first["README.md"].decode().partition("| operator | pairs")[2].partition("\n\n")[0]
    assert table in published(run, tmp_path / "c", "coco")["README.md"].decode()
    for number, other in enumerate(({"seed": 1}, {"split": ("train",)})):
        with pytest.raises(AssertionError, match="measured again"):
            published(run, tmp_path / f"d{number}", "huggingface", **other)


@pytest.mark.usefixtures("unmeasured")
def test_what_refine_kept_is_published(sample_run: Path, tmp_path: Path) -> None:
    run = refine_attributes(sample_run, tmp_path / "run")
    files = published(run, tmp_path / "out", split=(), refined=True)
    kept = {row["text"] for table in read_table(run, "refined", ["text"]) for row in table.to_pylist()}
    assert {row["negative_caption"] for row in json.loads(files["attribute.json"]).values()} == kept
    assert b"those that `negcap refine` kept" in files["README.md"]


# train and test


def train_caption(captions: Rows, negatives: Rows) -> None:
    """The last caption, of the test split, says what the first says, in other case and spacing."""
    said = f"  {captions[0]['text'].upper()} ".replace(".", " .")
    captions[-1]["text"] = said
    for row in negatives:
        if row["caption_id"] == captions[-1]["caption_id"]:
            row["caption"] = said


def train_sibling(captions: Rows, negatives: Rows) -> None:
    """The same, but the caption has no negatives: it is only the sibling of others."""
    train_caption(captions, negatives)
    negatives[:] = [row for row in negatives if row["caption_id"] != captions[-1]["caption_id"]]


def train_image(captions: Rows, negatives: Rows) -> None:
    """Two captions of a train image are in the test split."""
    for row in [*captions, *negatives]:
        if row["caption_id"] in ("toy:p000:3", "toy:p000:4"):
            row["split"] = "test"


@pytest.mark.parametrize(("leak", "format", "said", "gone"), [
    (train_caption, "sugarcrepe", "1 caption of the train split also in another split", "  A "),
    (train_sibling, "sugarcrepe++", "1 caption of the train split", "  A "),
    (train_image, "sugarcrepe", "1 image of the train split also in another split: p000.jpg", "p000.jpg"),
])  # fmt: skip
@pytest.mark.usefixtures("unmeasured")
def test_what_is_in_train_does_not_enter_test(leak, format, said, gone, tmp_path):
    run = changed(tmp_path, leak)
    with pytest.raises(RefusedError, match=said):
        published(run, tmp_path / "out", format)
    files = published(run, tmp_path / "out", format, skip_leaks=True)
    assert gone.encode() not in files["noun.json"]
    assert b"captions were left out for this reason" in files["README.md"]
    if leak is train_sibling:
        assert published(run, tmp_path / "plain")  # nothing of it is published there
    else:
        assert published(run, tmp_path / "train", split=("train",))


def test_folding_ignores_case_and_space_only() -> None:
    assert text_hash("A dog , a cat.") == text_hash("a  DOG, a cat .")
    assert text_hash("A dog.") != text_hash("A dig.") and text_hash("a nice day") != text_hash("an ice day")
