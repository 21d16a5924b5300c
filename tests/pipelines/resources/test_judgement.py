"""The fit of the raters' model: labels, raters of lists and of pairs, what is written, and the command."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from negcap.augment.cloze.file import JUDGEMENT, read_about, read_arrays
from negcap.augment.cloze.model import ClozeModel
from negcap.augment.raters import CHANGES, FEATURES, Inputs, RaterModel, rater_model_of
from negcap.pipelines.resources.__main__ import main
from negcap.pipelines.resources.cloze.config import JudgementConfig
from negcap.pipelines.resources.cloze.network import write_arrays
from negcap.pipelines.resources.judgement import COLUMNS, Labels, Network, fit, read_labels, tensors_of

WIDTH = 160


def inputs(count: int, seed: int = 0) -> Inputs:
    rng = np.random.default_rng(seed)
    of = [rng.normal(size=(count, size)) for size in (len(FEATURES), 2 * WIDTH, WIDTH)]
    return Inputs(rng.integers(0, len(CHANGES), count), *of)


def rated(arrays: dict[str, np.ndarray], given: Inputs) -> np.ndarray:
    raters = RaterModel(arrays, own=True)
    each = np.arange(len(given.changes))
    ratings = raters.predict(
        changes=given.changes,
        features=given.features,
        places=raters.project_places(given.places),
        units=raters.project_units(given.units),
        place=each,
        unit=each,
    )
    return np.stack(ratings, axis=1)


def said_by(network: Network, given: Inputs, *, lists: bool) -> np.ndarray:
    with torch.no_grad():
        odds = network.eval()(tensors_of(given, np.full(len(given.changes), lists)))
    return np.asarray(torch.sigmoid(odds))


def test_what_is_written_rates_as_raters_of_pairs_do(tmp_path: Path) -> None:
    given = inputs(400)
    none = given.places * 0, given.units * 0  # of random vectors, each could be learned by heart
    given = given._replace(changes=np.zeros(400, int), places=none[0], units=none[1])
    lists, unnatural = np.arange(400) % 2 == 0, given.features[:, 0] > 0
    said = np.stack([np.where(lists, False, unnatural), np.zeros(400)], axis=1).astype(float)
    said[5] = np.nan
    config = JudgementConfig(hidden=8, products=2, epochs=40, batch=20, learning_rate=1e-2, weight_decay=0.01)
    network = fit(given, Labels([""] * 400, [""] * 400, said, lists, np.ones(400)), config)
    pairs = said_by(network, given, lists=False)
    write_arrays(tmp_path / "judge.npz", network.arrays())
    written = read_arrays(tmp_path / "judge.npz", JUDGEMENT)
    assert rated(written, given) == pytest.approx(pairs, abs=2e-3)
    assert pairs[unnatural, 0].mean() > pairs[~unnatural, 0].mean() + 0.2
    assert said_by(network, given, lists=True)[:, 0].mean() < pairs[:, 0].mean() - 0.2
    assert written[f"{JUDGEMENT}output.weight"].shape == (2, 10)
    weighed = fit(given, Labels([""] * 400, [""] * 400, said, lists, np.where(unnatural, 9.0, 1.0)), config)
    assert said_by(weighed, given, lists=False)[:, 0].mean() > pairs[:, 0].mean()


def test_the_command_gives_a_model_raters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, output = tmp_path / "labels.tsv", tmp_path / "own.npz"
    nouns = ("dog", "cat", "horse", "man", "bus", "boat")
    rows = [
        (
            f"A {old} stands near a {place}.",
            f"A {new} stands near a {place}.",
            shown,
            1,
            int(new in ("bus", "boat")),
            "",
        )
        for old in nouns
        for new in nouns
        for place in ("tree", "house")
        for shown in ("list", "pair")
        if old != new
    ]
    with labels.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([COLUMNS, *((*row[:5], row[5] or "0") for row in rows)])
    assert main(["judgement", str(labels), "--output", str(output), "--epochs", "2"]) == 0
    record = read_about(output)["judgement"]
    assert record["labels"] == len(rows) and record["pairs"] == len(rows) // 2 and record["odd"]["auc"] > 0.5
    assert str(record["odd"]["auc"]) in capsys.readouterr().out
    rater_model_of(ClozeModel.load(output))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("A dog.", "A cat.", "both", "1", "0", "0"), "shown must be list or pair, was: both"),
        (("A dog.", "A cat.", "pair", "many", "0", "0"), "weight must be a number: .*many"),
        (("A dog.", "A cat.", "pair", "1", "2", "0"), "odd must be 1, 0 or empty, was: 2"),
    ],
)
def test_bad_labels_are_answered(row: tuple[str, ...], message: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text("\t".join(COLUMNS) + "\n" + "\t".join(row) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_labels(path)
    path.write_text("caption\ttext\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"must have the columns .* lacks both, odd, shown, weight"):
        read_labels(path)
