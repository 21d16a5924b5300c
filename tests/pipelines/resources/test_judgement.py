"""The fit of the raters' model: labels, raters of lists and of pairs, what is written, and the command."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from negcap.augment.cloze.file import JUDGEMENT, read_about, read_arrays
from negcap.augment.cloze.model import ClozeModel
from negcap.augment.raters import FEATURES, Inputs, RaterModel, rater_model_of
from negcap.pipelines.resources.__main__ import main
from negcap.pipelines.resources.cloze.config import JudgementConfig
from negcap.pipelines.resources.cloze.network import write_arrays
from negcap.pipelines.resources.judgement import COLUMNS, Labels, fit, predict, read_labels

WIDTH = 160
COUNT = 240


def test_what_is_written_rates_as_raters_of_pairs_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    each, features = np.arange(COUNT), rng.normal(size=(COUNT, len(FEATURES)))
    # Without vectors: each of random ones could be learned by heart.
    given = Inputs(np.zeros(COUNT, int), features, np.zeros((COUNT, 2 * WIDTH)), np.zeros((COUNT, WIDTH)))
    lists, unnatural = each % 2 == 0, features[:, 0] > 0
    compatible = np.where(each % 4 < 2, 1.0, np.nan)  # who was not asked has not said no
    answers = np.stack([(unnatural & ~lists).astype(float), compatible], axis=1)
    labels = Labels([""] * COUNT, [""] * COUNT, answers, lists, np.ones(COUNT))
    config = JudgementConfig(hidden=8, products=2, epochs=20, batch=20, learning_rate=2e-2, weight_decay=0.01)
    network = fit(given, labels, config)
    of_pairs, of_lists = (predict(network, given, np.full(COUNT, shown)) for shown in (False, True))
    assert of_pairs[unnatural, 0].mean() > of_pairs[~unnatural, 0].mean() + 0.2
    assert of_lists[:, 0].mean() < of_pairs[:, 0].mean() - 0.2 and of_pairs[:, 1].mean() > 0.9
    weighed = fit(given, labels._replace(weights=np.where(unnatural, 9.0, 1.0)), config)
    assert predict(weighed, given, np.zeros(COUNT))[:, 0].mean() > of_pairs[:, 0].mean()

    write_arrays(tmp_path / "raters.npz", network.arrays())
    raters = RaterModel(read_arrays(tmp_path / "raters.npz", JUDGEMENT), own=True)
    projected = raters.project_places(given.places), raters.project_units(given.units)
    written = raters.predict(given.changes, given.features, *projected, each, each)
    assert np.stack(written, axis=1) == pytest.approx(of_pairs, abs=2e-3)


def table(path: Path, *rows: tuple[object, ...], columns: tuple[str, ...] = COLUMNS) -> Path:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in (columns, *rows)), encoding="utf-8")
    return path


def test_the_command_gives_a_model_raters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "own.npz"
    rows = [
        (f"A {old} stands near a {place}.", f"A {new} stands near a {place}.", shown, 1, int(new in ("bus", "boat")), 0)
        for (old, new), place, shown in product(
            permutations(("dog", "cat", "horse", "man", "bus", "boat"), 2), ("tree", "house"), ("list", "pair")
        )
    ]
    unanswered = ("A dog stands near a tree.", "A cow stands near a tree.", "pair", 1, "", "")
    labels = table(tmp_path / "labels.tsv", *rows, unanswered)
    assert main(["judgement", str(labels), "--output", str(output), "--epochs", "2"]) == 0
    record = read_about(output)["judgement"]
    assert (record["labels"], record["pairs"], record["kept"]) == (len(rows), len(rows) // 2, 1)
    assert record["odd"]["auc"] > 0.5 and record["both"]["auc"] is None  # of which all said the same
    assert sum(count for count, _ in record["odd"]["by_tenth"]) == len(rows) // 2
    assert str(record["odd"]["auc"]) in capsys.readouterr().out
    rater_model_of(ClozeModel.load(output))


@pytest.mark.parametrize(("row", "message"), [
    (("A dog.", "A cat.", "both", "1", "0", "0"), "shown must be list or pair, was: both"),
    (("A dog.", "A cat.", "pair", "many", "0", "0"), "weight must be a number: .*many"),
    (("A dog.", "A cat.", "pair", "1", "2", "0"), "odd must be 1, 0 or empty, was: 2"),
])  # fmt: skip
def test_bad_labels_are_answered(row: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_labels(table(tmp_path / "labels.tsv", row))
    with pytest.raises(ValueError, match=r"must have the columns .* lacks both, odd, shown, weight"):
        read_labels(table(tmp_path / "labels.tsv", columns=("caption", "text")))
