"""Fit the probability that a reader calls a negative odd (see `negcap.augment.oddness`) to what readers said."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = ("operator", "caption", "text", "odd")
FOLDS = 10


def build(labels: Path, output: Path, cloze: Path | None = None) -> dict[str, Any]:
    """Write the coefficients to `output` as JSON, and return what it holds.

    labels: a tab-separated file with the columns COLUMNS, a row for what a reader said of a caption and its negative;
    odd is 1 or 0. cloze: the cloze model; None: the shipped one. Also measured: area under the ROC curve and the share
    of odd ones by predicted probability, both for pairs of folds that were left out. Raises ValueError if a column is
    missing, or a label is another.
    """
    from sklearn.metrics import roc_auc_score

    from ...augment.language.parse import parse
    from ...augment.oddness import ANY, features, kind_of
    from ...augment.plausibility import compare, read
    from ...augment.recovery import recover
    from ...augment.reproducible import sigmoid
    from ...augment.truth.fit import fit
    from ..tables.corpus import load_cloze

    with labels.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        if missing := set(COLUMNS).difference(reader.fieldnames or ()):
            raise ValueError(f"{labels} must have the columns {', '.join(COLUMNS)}, lacks {', '.join(sorted(missing))}")
        rows = list(reader)
    if wrong := [row["odd"] for row in rows if row["odd"] not in ("0", "1")]:
        raise ValueError(f"{labels}: odd must be 0 or 1, was: {wrong[0]}")
    captions, texts = (parse([row[name] for row in rows]) for name in ("caption", "text"))
    readings = read(captions, load_cloze(cloze))
    candidates = [recover(one, other).candidate for one, other in zip(captions, texts, strict=True)]
    terms = features(compare(captions, readings, candidates))
    odd = np.array([row["odd"] == "1" for row in rows], float)
    kinds, of = zip(*(kind_of(row["operator"], one) for row, one in zip(rows, candidates, strict=True)), strict=True)
    names = sorted(set(of))
    finer = sorted(set(kinds).difference(names))
    is_of = np.array([[one == name for name in names] for one in of], float)
    is_kind = np.array([[one == name for name in finer] for one in kinds], float)
    inputs = np.concatenate([np.ones((len(rows), 1)), terms, is_of, is_of * terms[:, 2:], is_kind], axis=1)
    nothing = np.zeros(inputs.shape[1])
    predicted, fold = np.zeros(len(rows)), np.random.default_rng(0).integers(0, FOLDS, len(rows))
    for left_out in range(FOLDS):
        weights = fit(inputs[fold != left_out], odd[fold != left_out], nothing)
        predicted[fold == left_out] = sigmoid((inputs[fold == left_out] * weights).sum(1))
    bias, loss, lowest, whole, *own = fit(inputs, odd, nothing).round(3).tolist()
    biases, slopes, more = np.split(own, [len(names), 2 * len(names)])
    operators = {ANY: [bias, whole]}
    operators |= {name: [bias + b, whole + c] for name, b, c in zip(names, biases, slopes, strict=True)}
    for kind, b in zip(finer, more, strict=True):
        own_bias, slope = operators[of[kinds.index(kind)]]
        operators[kind] = [own_bias + b, slope]
    tenths = np.minimum((predicted * 10).astype(int), 9)
    model = {
        "loss": loss,
        "lowest": lowest,
        "operators": {name: [round(float(value), 3) for value in its] for name, its in operators.items()},
        "labels": len(rows),
        "auc": round(float(roc_auc_score(odd, predicted)), 3),
        "odd_by_tenth": [[int((tenths == n).sum()), round(float(odd[tenths == n].mean()), 3)] for n in set(tenths)],
    }
    output.write_text(json.dumps(model, indent=1, sort_keys=True) + "\n", "utf-8")
    return model
