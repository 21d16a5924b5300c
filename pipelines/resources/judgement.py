"""Fit the network that judges negatives (see `negcap.augment.raters`) to what readers said."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...augment.cloze.file import JUDGEMENT, PARTS, read_arrays, stored
from ...augment.cloze.model import ClozeModel
from ...augment.language.parse import parse
from ...augment.plausibility import compare, encode
from ...augment.raters import CHANGES, FEATURES, Inputs, RaterModel, inputs
from ...augment.recovery import recover
from .cloze.config import JudgementConfig
from .cloze.network import write_part
from .cloze.train import one_cycle

COLUMNS = ("caption", "text", "shown", "weight", "odd", "both")
SHOWN = ("list", "pair")  # a reader saw many changes of a caption; a caption and a negative, which in random order
FOLDS = 5


class Labels(NamedTuple):
    """Captions, their negatives, and what readers said of them: (negatives, 2), whether the negative is odd and whether
    one photo could be rightly described by both texts; NaN where nothing was said. lists: whether the reader saw a list
    of changes, not a pair; weights: the inverse of how often negatives like this one were chosen: both (negatives,).
    """

    captions: Sequence[str]
    texts: Sequence[str]
    said: np.ndarray
    lists: np.ndarray
    weights: np.ndarray

    def take(self, rows: np.ndarray) -> Labels:
        """Some of the negatives; rows: their numbers."""
        captions, texts = ([its[row] for row in rows.tolist()] for its in (self.captions, self.texts))
        return Labels(captions, texts, *(its[rows] for its in self[2:]))


class Network(nn.Module):
    """log-odds = A relu(P v + Q e + T t + K_k + b) + C (R v * S e) + c, see `negcap.augment.raters`.

    Readers of lists are milder than those of pairs, each kind of change by another measure: for lists, and only in
    training, there are a vector that is added to b and for each kind one that is added to c. In training some inputs
    are dropped: each number of v and e by itself, and both wholly for some of the negatives. width: of the vectors.
    """

    def __init__(self, width: int, config: JudgementConfig) -> None:
        super().__init__()
        sizes = 2 * width, width, len(FEATURES), len(CHANGES)
        rows = config.hidden + config.products, config.hidden + config.products, config.hidden, config.hidden
        self.parts = nn.ModuleDict(
            {name: nn.Linear(size, row, bias=False) for name, size, row in zip(PARTS, sizes, rows, strict=False)}
        )
        for name in ("place", "unit"):
            nn.init.normal_(self.parts[name].get_parameter("weight"), std=0.05)
        self.bias = nn.Parameter(torch.zeros(config.hidden))
        self.output = nn.Linear(rows[0], 2)
        self.of_lists = nn.Parameter(torch.zeros(config.hidden))
        self.kinds_of_lists = nn.Parameter(torch.zeros(len(CHANGES), 2))
        self.config = config

    def forward(self, given: Sequence[Tensor]) -> Tensor:
        """The log-odds of odd and both: (negatives, 2); given: see `tensors_of`."""
        vectors = given[:2]
        (terms, kinds, lists) = given[2:]
        if self.training:
            known = (torch.rand(len(terms), 1) >= self.config.without_vectors).float()
            vectors = [known * nn.functional.dropout(its, self.config.dropout) for its in vectors]
        place = self.parts["place"](vectors[0])
        unit = self.parts["unit"](vectors[1])
        size = self.config.hidden
        hidden = place[:, :size] + unit[:, :size] + self.parts["terms"](terms) + self.parts["kind"](kinds) + self.bias
        hidden = torch.cat([torch.relu(hidden + lists * self.of_lists), place[:, size:] * unit[:, size:]], dim=1)
        odds = self.output(nn.functional.dropout(hidden, self.config.dropout / 2, self.training))
        return odds + lists * (kinds @ self.kinds_of_lists)

    def start_from(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the parameters of a network that was written before, whose sizes are the same."""
        with torch.no_grad():
            for name, parameter in self._stored().items():
                parameter.copy_(torch.from_numpy(arrays[f"{JUDGEMENT}{name}"]))

    def arrays(self) -> dict[str, np.ndarray]:
        """The parameters as they stand in the file of a cloze model, see `negcap.augment.cloze.file`."""
        found: dict[str, np.ndarray] = {}
        for name, parameter in self._stored().items():
            found |= stored(f"{JUDGEMENT}{name}", parameter.detach().numpy())
        return found

    def _stored(self) -> dict[str, Tensor]:
        """The parameters that are written, by name; those for lists are not."""
        parts = [part.get_parameter("weight") for part in self.parts.values()]
        weights = [*parts, self.output.weight]
        named = {f"{name}.weight": weight for name, weight in zip(PARTS, weights, strict=True)}
        return named | {"hidden.bias": self.bias, "output.bias": self.output.bias}


@torch.random.fork_rng(devices=[])
def fit(
    given: Inputs, asked: Labels, config: JudgementConfig, start: Mapping[str, np.ndarray] | None = None
) -> Network:
    """The network, fitted to what readers said of negatives.

    Args:
        given: its inputs.
        asked: the answers, one for each.
        config: how it is fitted.
        start: the parameters to start from, as in a model's file; None: random ones.
    """
    torch.manual_seed(config.seed)
    tensors = tensors_of(given, asked.lists)
    target = torch.from_numpy(asked.said).float()
    weights = torch.from_numpy(asked.weights * np.where(asked.lists, 1.0, config.pair_weight)).float()[:, None]
    weights = weights * ~target.isnan()
    target = target.nan_to_num()
    net = Network(given.units.shape[1], config)
    if start is not None:
        net.start_from(start)

    def error(numbers: np.ndarray) -> Tensor:
        asked_of = net([its[numbers] for its in tensors]), target[numbers], weights[numbers]
        total = nn.functional.binary_cross_entropy_with_logits(*asked_of, reduction="sum")
        return total / (2 * len(numbers))

    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=config.weight_decay)
    one_cycle(net, optimizer, len(target), error, config)
    return net.eval()


def tensors_of(given: Inputs, lists: np.ndarray) -> list[Tensor]:
    """The inputs of the network: v, e, t, kinds as one-hot vectors, and whether readers saw lists, (negatives, 1)."""
    kinds = np.eye(len(CHANGES))[given.changes]
    return [torch.from_numpy(its).float() for its in (given.places, given.units, given.features, kinds, lists[:, None])]


def read_labels(path: Path) -> Labels:
    """The labels of a file, see `fit_to`. Raises OSError, or ValueError if a column is missing, odd or both is another
    than 1, 0 or nothing, shown is none of SHOWN, or weight is no number.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        if missing := set(COLUMNS).difference(reader.fieldnames or ()):
            raise ValueError(f"{path} must have the columns {', '.join(COLUMNS)}, lacks {', '.join(sorted(missing))}")
        rows = list(reader)
    if wrong := [row["shown"] for row in rows if row["shown"] not in SHOWN]:
        raise ValueError(f"{path}: shown must be list or pair, was: {wrong[0]}")
    labels = {"1": 1.0, "0": 0.0, "": np.nan}
    for name in ("odd", "both"):
        if wrong := [row[name] for row in rows if row[name] not in labels]:
            raise ValueError(f"{path}: {name} must be 1, 0 or empty, was: {wrong[0]}")
    said = np.array([[labels[row["odd"]], labels[row["both"]]] for row in rows]).reshape(-1, 2)
    lists = np.array([row["shown"] == "list" for row in rows], bool)
    try:
        weights = np.array([float(row["weight"]) for row in rows])
    except ValueError as error:
        raise ValueError(f"{path}: weight must be a number: {error}") from None
    return Labels([row["caption"] for row in rows], [row["text"] for row in rows], said, lists, weights)


def fit_to(labels: Path, model: Path, output: Path, config: JudgementConfig) -> dict[str, Any]:
    """Give a cloze model a judge, fitted to what readers said, and write the model to `output`; returns its record.

    labels: a tab-separated file with the columns COLUMNS, a row for what a reader said of a caption and its negative;
    shown is one of SHOWN, weight a number, odd and both are 1, 0 or empty. The network judges as readers of pairs do,
    and learns from those of lists as well. Of a negative of which nobody was asked (odd and both are empty) it learns
    to say what the model's network says now; if there are such, it starts from that network, and so keeps what it has
    learnt from readings that are not among the labels. The record has the number of labels, the area under the ROC
    curve (None if all said the same), and by predicted probability the number of negatives and the share of which it
    was said, all of pairs (of lists, if there are no pairs) with captions of folds that were left out. Raises OSError
    or ValueError for bad input.
    """
    from sklearn.metrics import roc_auc_score

    torch.set_num_threads(1)
    loaded = ClozeModel.load(model)
    asked = read_labels(labels)
    captions = parse(asked.captions)
    texts = parse(asked.texts)
    encodings = encode(captions, loaded)
    rows = [recover(caption, text).row for caption, text in zip(captions, texts, strict=True)]
    given = inputs(captions, encodings, rows, compare(captions, encodings, rows))
    is_read = ~np.isnan(asked.said).all(axis=1)
    start = None
    if not is_read.all():
        start = read_arrays(model, JUDGEMENT)
        if not start:
            raise ValueError(f"{model} has no network that could say what no reader has said: fill in odd or both")
        each = np.arange(len(is_read))
        raters = RaterModel(start, own=True)
        places = raters.project_places(given.places)
        units = raters.project_units(given.units)
        now = np.stack(raters.predict(given.changes, given.features, places, units, each, each), axis=1)
        asked = asked._replace(said=np.where(is_read[:, None], asked.said, now))
    number = {text: i for i, text in enumerate(dict.fromkeys(asked.captions))}
    fold = np.random.default_rng(config.seed).integers(0, FOLDS, len(number))[[number[text] for text in asked.captions]]
    predicted = np.zeros(asked.said.shape)
    for left_out in range(FOLDS):
        apart = np.flatnonzero(fold == left_out)
        others = np.flatnonzero(fold != left_out)
        net = fit(given.take(others), asked.take(others), config, start)
        predicted[apart] = torch.sigmoid(net(tensors_of(given.take(apart), asked.lists[apart]))).detach().numpy()
    measured = is_read & (asked.lists.all() | ~asked.lists)
    record: dict[str, Any] = {
        "labels": int(is_read.sum()),
        "pairs": int((is_read & ~asked.lists).sum()),
        "kept": int((~is_read).sum()),
        "training": config.model_dump(),
    }
    for name, its, of in zip(("odd", "both"), predicted.T, asked.said.T, strict=True):
        known = ~np.isnan(of) & measured
        tenths = np.minimum((its * 10).astype(int), 9)
        record[name] = {
            "auc": round(float(roc_auc_score(of[known], its[known], sample_weight=asked.weights[known])), 3)
            if len(set(of[known])) == 2
            else None,
            "by_tenth": [
                [int(at.sum()), round(float(np.average(of[at], weights=asked.weights[at])), 3)]
                for at in (known & (tenths == tenth) for tenth in range(10))
                if at.any()
            ],
        }
    write_part(model, output, JUDGEMENT, fit(given, asked, config, start).arrays(), {"judgement": record})
    return record
