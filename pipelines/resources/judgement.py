"""Fit the network that judges negatives (see `negcap.augment.judgement`) to what readers said."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...augment.cloze.file import ABOUT, JUDGEMENT, PARTS, stored
from ...augment.cloze.model import ClozeModel
from ...augment.judgement import KINDS, TERMS, Inputs, inputs
from ...augment.language.parse import parse
from ...augment.plausibility import compare, read
from ...augment.recovery import recover
from .cloze.config import JudgementConfig
from .cloze.network import write_arrays

COLUMNS = ("caption", "text", "odd", "both")
FOLDS = 5


class Network(nn.Module):
    """log-odds = A relu(P v + Q e + T t + K_k + b) + c, see `negcap.augment.judgement`.

    Some inputs are dropped in training: each number of v and e by itself, and both wholly for some of the negatives.
    """

    def __init__(self, width: int, config: JudgementConfig) -> None:
        """width: of the vectors."""
        super().__init__()
        sizes = width, width, len(TERMS), len(KINDS)
        self.parts = nn.ModuleDict(
            {name: nn.Linear(size, config.hidden, bias=False) for name, size in zip(PARTS, sizes, strict=False)}
        )
        self.bias = nn.Parameter(torch.zeros(config.hidden))
        self.output = nn.Linear(config.hidden, 2)
        self.config = config

    def forward(self, given: Sequence[Tensor]) -> Tensor:
        """The log-odds of odd and both: (negatives, 2); given: v, e, t and the kinds as one-hot vectors."""
        place, unit, terms, kinds = given
        if self.training:
            known = (torch.rand(len(place), 1) >= self.config.without_vectors).float()
            place, unit = (known * nn.functional.dropout(its, self.config.dropout) for its in (place, unit))
        hidden = sum(
            (part(its) for part, its in zip(self.parts.values(), (place, unit, terms, kinds), strict=True)), self.bias
        )
        return self.output(nn.functional.dropout(torch.relu(hidden), self.config.dropout / 2, self.training))

    def arrays(self) -> dict[str, np.ndarray]:
        """The parameters as they stand in the file of a cloze model, see `negcap.augment.cloze.file`."""
        weights = [part.weight for part in self.parts.values()] + [self.output.weight]
        named = {f"{name}.weight": its for name, its in zip(PARTS, weights, strict=True)}
        named |= {"hidden.bias": self.bias, "output.bias": self.output.bias}
        found: dict[str, np.ndarray] = {}
        for name, its in named.items():
            found |= stored(f"{JUDGEMENT}{name}", torch.as_tensor(its).detach().numpy())
        return found


@torch.random.fork_rng(devices=[])
def fit(given: Inputs, said: np.ndarray, config: JudgementConfig) -> Network:
    """Fit a network to what readers said of negatives, odd and both: (negatives, 2), NaN where nobody was asked."""
    torch.manual_seed(config.seed)
    tensors, target = tensors_of(given), torch.from_numpy(said).float()
    net = Network(given.places.shape[1], config)
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=config.weight_decay)
    steps = max(1, len(said) // config.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.learning_rate, total_steps=config.epochs * steps)
    order = np.random.default_rng(config.seed)
    for _ in range(config.epochs):
        for numbers in np.array_split(order.permutation(len(said)), steps):
            odds, wanted = net([its[numbers] for its in tensors]), target[numbers]
            known = ~wanted.isnan()
            error = nn.functional.binary_cross_entropy_with_logits(odds[known], wanted[known])
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def tensors_of(given: Inputs) -> list[Tensor]:
    """The inputs of the network; kinds as one-hot vectors."""
    kinds = np.eye(len(KINDS))[given.kinds]
    return [torch.from_numpy(its).float() for its in (given.places, given.units, given.terms, kinds)]


def read_labels(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    """Captions, negatives, and what was said of them: (negatives, 2), NaN where nothing was. Raises ValueError if a
    column is missing, or a label is another than 1, 0 or nothing.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        if missing := set(COLUMNS).difference(reader.fieldnames or ()):
            raise ValueError(f"{path} must have the columns {', '.join(COLUMNS)}, lacks {', '.join(sorted(missing))}")
        rows = list(reader)
    labels = {"1": 1.0, "0": 0.0, "": np.nan}
    for name in COLUMNS[2:]:
        if wrong := [row[name] for row in rows if row[name] not in labels]:
            raise ValueError(f"{path}: {name} must be 1, 0 or empty, was: {wrong[0]}")
    said = np.array([[labels[row[name]] for name in COLUMNS[2:]] for row in rows])
    return [row["caption"] for row in rows], [row["text"] for row in rows], said


def fit_to(labels: Path, model: Path, output: Path, config: JudgementConfig) -> dict[str, Any]:
    """Give a cloze model a judge, fitted to what readers said, and write the model to `output`; returns its record.

    labels: a tab-separated file with the columns COLUMNS, a row for what a reader said of a caption and its negative;
    odd and both are 1, 0 or empty. The record has the number of labels, the area under the ROC curve, and by predicted
    probability the number of negatives and the share of which it was said, all for captions of folds that were left
    out. Raises OSError or ValueError for bad input.
    """
    from sklearn.metrics import roc_auc_score

    torch.set_num_threads(1)
    loaded = ClozeModel.load(model)
    of_captions, of_negatives, said = read_labels(labels)
    captions, texts = parse(of_captions), parse(of_negatives)
    readings = read(captions, loaded)
    candidates = [recover(one, other).candidate for one, other in zip(captions, texts, strict=True)]
    given = inputs(captions, readings, candidates, compare(captions, readings, candidates))
    number = {text: i for i, text in enumerate(dict.fromkeys(of_captions))}
    fold = np.random.default_rng(config.seed).integers(0, FOLDS, len(number))[[number[text] for text in of_captions]]
    predicted = np.zeros(said.shape)
    for left_out in range(FOLDS):
        apart = fold == left_out
        net = fit(given.take(~apart), said[~apart], config)
        predicted[apart] = torch.sigmoid(net(tensors_of(given.take(apart)))).detach().numpy()
    record: dict[str, Any] = {"labels": len(said), "training": config.model_dump()}
    for name, its, of in zip(COLUMNS[2:], predicted.T, said.T, strict=True):
        known = ~np.isnan(of)
        tenths = np.minimum((its * 10).astype(int), 9)
        record[name] = {
            "auc": round(float(roc_auc_score(of[known], its[known])), 3),
            "by_tenth": [
                [int(at.sum()), round(float(of[at].mean()), 3)]
                for at in (known & (tenths == tenth) for tenth in range(10))
                if at.any()
            ],
        }
    with np.load(model) as archive:
        arrays = {name: archive[name] for name in archive.files if not name.startswith(JUDGEMENT)}
    about = json.loads(arrays[ABOUT].tobytes()) | {"judgement": record}
    arrays[ABOUT] = np.frombuffer(json.dumps(about, sort_keys=True, ensure_ascii=False).encode(), np.uint8)
    write_arrays(output, {**arrays, **fit(given, said, config).arrays()})
    return record
