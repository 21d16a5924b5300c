"""Measure a cloze model: its perplexity, and how well scores tell the negatives that readers find odd."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from negcap.augment.cloze.units import SPECIAL
from negcap.pipelines.resources.cloze.network import Cloze
from negcap.pipelines.resources.cloze.train import UNKNOWN_UNIT

BATCH = 256
ALL = "all"


class Label(NamedTuple):
    """A negative that was read: its operator, the caption it was made from, its text, and whether it was found odd."""

    operator: str
    caption: str
    negative: str
    odd: bool


@torch.no_grad()
def perplexity(net: Cloze, captions: list[np.ndarray]) -> tuple[float, float]:
    """The perplexity of encoded captions, and the mean log of the sum of all probabilities, which is 0 at best.

    The perplexity is exp of the mean of -log p(word | the rest of its caption), over the words that are units and with
    p normalised over the whole vocabulary. Switches dropout off. Raises ValueError if no word is a unit.
    """
    net.eval()
    loss, log_sum, words = 0.0, 0.0, 0
    for _, group in groupby(sorted(captions, key=len), key=len):
        rows = list(group)
        for at in range(0, len(rows), BATCH):
            units = torch.from_numpy(np.stack(rows[at : at + BATCH])).long()
            targets = units[:, 1:-1].flatten()
            known = targets != UNKNOWN_UNIT
            contexts, targets = net.contexts(units).flatten(0, 1)[known], targets[known]
            scores = contexts @ net.embedding.weight.T + net.bias
            scores[:, : len(SPECIAL)] = -torch.inf
            total = torch.logsumexp(scores, -1)
            loss += float((total - scores.gather(1, targets[:, None])[:, 0]).sum())
            log_sum += float(total.sum())
            words += len(targets)
    if not words:
        raise ValueError("the captions to measure perplexity on must have words that the model knows, have none")
    return math.exp(loss / words), log_sum / words


def read_labels(path: Path) -> list[Label]:
    """The rows of a file `operator<TAB>caption<TAB>negative<TAB>odd`, where odd is 0 or 1; without a header.

    Raises ValueError naming the file and the line of a row of another form.
    """
    labels = []
    with path.open(encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
            if len(row) != 4 or row[3] not in ("0", "1"):
                expected = "operator, caption, negative and 0 or 1"
                raise ValueError(f"{path}, line {line}: must be {expected}, was: {str(row)[:200]}")
            operator, caption, negative, odd = row
            labels.append(Label(operator, caption, negative, odd == "1"))
    return labels


def odd_auc(labels: Sequence[Label], scores: Sequence[float]) -> dict[str, float]:
    """By operator, and for ALL together: the area under the ROC curve of telling odd negatives by a low score.

    scores: of each label, the higher the more plausible. 0.5 is chance. Operators of which all or none are odd are left
    out. Raises ValueError if the numbers of labels and scores differ.
    """
    from sklearn.metrics import roc_auc_score

    if len(labels) != len(scores):
        raise ValueError(f"there must be a score for each of the {len(labels)} labels, was: {len(scores)}")
    rows: dict[str, list[tuple[bool, float]]] = {ALL: []}
    for label, score in zip(labels, scores, strict=True):
        for name in (label.operator, ALL):
            rows.setdefault(name, []).append((label.odd, -score))
    return {
        name: float(roc_auc_score(*zip(*pairs, strict=True)))
        for name, pairs in sorted(rows.items())
        if len({odd for odd, _ in pairs}) == 2
    }
