"""The protocols of an evaluation: retrieval plain and attacked, captions that count, and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from negcap.pipelines.models.data import Corpus
from negcap.pipelines.models.retrieval import TOP, Ranks, folds, hits, intervals, own_scores, rank, recalls, retrieval
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.attacks import FAMILIES, attacked, choose, preset_operators, score
from negcap.pipelines.models.trainer.config import EvaluateConfig
from negcap.pipelines.models.trainer.objective import Model

FOLD, FOLDED_FROM = 1000, 5000
Found = list[tuple[str, str, list[str], Tensor]]  # candidates, direction, ids of the queries, ranks


@dataclass(frozen=True)
class Split:
    """A split in the joint space.

    captions: (n,) numbers of its captions in the corpus; owner: (n,) the row of each one's image; images: (I, d);
    vectors: (n, d) of the captions. owner and captions are on the CPU.
    """

    model: Model
    corpus: Corpus
    texts: Texts
    captions: Tensor
    owner: Tensor
    caption_ids: list[str]
    image_ids: list[str]
    images: Tensor
    vectors: Tensor
    seed: int

    @property
    def row(self) -> Tensor:
        """(C,) the row of the image of any caption of the corpus; 0 for those of other splits."""
        rows = torch.zeros(self.corpus.captions, dtype=torch.long)
        rows[self.captions] = self.owner
        return rows

    def image_of(self, negatives: Tensor) -> Tensor:
        """The row of the image that each of some negatives (P,) is false of."""
        return self.row[self.corpus.negative_caption[negatives]]


class Attacks(NamedTuple):
    """The negatives (P,) of each attack by name: VSE-C's families, UniVSE's crowds, the first of each operator."""

    families: dict[str, Tensor]
    crowds: dict[str, Tensor]
    firsts: dict[str, Tensor]

    @property
    def rows(self) -> Tensor:
        """All of them once, in order."""
        return torch.cat([rows for attacks in self for rows in attacks.values()]).unique()


def choose_attacks(corpus: Corpus, captions: Tensor, config: EvaluateConfig) -> Attacks:
    """The negatives of captions (n,) that the protocols ask for."""
    return Attacks(
        {name: choose(corpus, captions, made, config.per_family) for name, made in FAMILIES.items()},
        {name: choose(corpus, captions, [name], config.per_attack) for name in preset_operators(corpus, "univse")},
        {name: choose(corpus, captions, [name], 1) for name in corpus.operators},
    )


def run_protocols(split: Split, attacks: Attacks) -> tuple[dict[str, Any], Found]:
    """Metrics by protocol and the ranks behind them; attacks where there are negatives, each embedded once for all."""
    metrics: dict[str, Any] = {}
    plain = rank(split.images, split.vectors, split.owner.to(split.images.device))
    found: Found = [
        ("plain", "i2t", split.image_ids, plain.images),
        ("plain", "t2i", split.caption_ids, plain.captions),
    ]
    _retrieve(split, plain, metrics)
    corpus = split.corpus
    if not len(corpus.operator):
        return metrics, found
    families, crowds, firsts = attacks
    alone = [*families.values(), *firsts.values()]
    scores = score(split.model, corpus, split.texts, split.images, split.row, plain.best, alone, crowds)
    metrics["vse-c"], metrics["univse"] = {}, {}
    for name, rows in {"total": torch.cat(list(families.values())), **families}.items():
        if len(rows):
            under = attacked(plain, scores.own, rows, split.image_of(rows))
            metrics["vse-c"][name] = _described(under, rows, split)
            found.append((f"vse-c:{name}", "i2t", split.image_ids, under))
    for name, rows in crowds.items():
        if len(rows):
            under = (plain.images + scores.crowded[name]).cpu()
            metrics["univse"][name] = _described(under, rows, split)
            found.append((f"univse:{name}", "i2t", split.image_ids, under))
    _plural(split, families["numeral"], scores.own, metrics, found)
    metrics["pairwise"] = {name: _pairs(split, rows, scores.own) for name, rows in firsts.items() if len(rows)}
    return metrics, found


def _retrieve(split: Split, plain: Ranks, metrics: dict[str, Any]) -> None:
    """Without attack, with intervals; and the means of folds for a large split."""
    images = len(split.images)
    tables = [hits(plain.images.cpu(), torch.arange(images), images), hits(plain.captions.cpu(), split.owner, images)]
    i2t, t2i, both = intervals(tables, split.seed)
    metrics["retrieval"] = retrieval(plain)
    metrics["intervals"] = {
        **{f"i2t R@{k}": list(bounds) for k, bounds in zip(TOP, i2t, strict=False)},
        **{f"t2i R@{k}": list(bounds) for k, bounds in zip(TOP, t2i, strict=False)},
        "rsum": list(both[0]),
    }
    if images >= FOLDED_FROM:
        metrics["folds of 1000"] = folds(split.images, split.vectors, split.owner.to(split.images.device), FOLD)


def _with_intervals(ranks: Tensor, seed: int) -> dict[str, Any]:
    bounds = intervals([hits(ranks, torch.arange(len(ranks)), len(ranks))], seed)[0]
    return {**recalls(ranks), "intervals": {f"R@{k}": list(both) for k, both in zip(TOP, bounds, strict=False)}}


def _described(under: Tensor, rows: Tensor, split: Split) -> dict[str, Any]:
    return {
        **_with_intervals(under, split.seed),
        "negatives": len(rows),
        "captions_with_negatives": len(split.corpus.negative_caption[rows].unique()),
        "negatives_a_caption": len(rows) / len(split.captions),
    }


def _plural(split: Split, numeral: Tensor, own: Tensor, metrics: dict[str, Any], found: Found) -> None:
    """The captions that count beyond one and their images, alone; then with the numeral negatives of them."""
    inside = split.corpus.plural[split.captions]
    if not inside.any():
        return
    image, owner = split.owner[inside].unique(return_inverse=True)
    device = split.images.device
    plain = rank(split.images[image.to(device)], split.vectors[inside.to(device)], owner.to(device))
    rows = numeral[split.corpus.plural[split.corpus.negative_caption[numeral]]]
    place = torch.zeros(len(split.images), dtype=torch.long)
    place[image] = torch.arange(len(image))
    under = attacked(plain, own, rows, place[split.image_of(rows)])
    metrics["plural"] = {
        "images": len(image),
        "captions": int(inside.sum()),
        "negatives": len(rows),
        "plain": _with_intervals(plain.images.cpu(), split.seed),
        "numeral": _with_intervals(under, split.seed),
    }
    ids = [split.image_ids[n] for n in image.tolist()]
    found += [("plural", "i2t", ids, plain.images), ("plural:numeral", "i2t", ids, under)]


def _pairs(split: Split, rows: Tensor, own: Tensor) -> dict[str, Any]:
    """How often a caption scores above its negative, in %."""
    true = torch.zeros(split.corpus.captions)
    true[split.captions] = own_scores(split.images, split.vectors, split.owner.to(split.images.device)).cpu()
    right = (true[split.corpus.negative_caption[rows]] > own[rows]).double()
    table = torch.zeros(len(split.images), 2, dtype=torch.double)
    table.index_add_(0, split.image_of(rows), torch.stack([right, torch.ones_like(right)], 1))
    bounds = intervals([table], split.seed)[0][0]
    return {"pairs": len(rows), "accuracy": 100.0 * right.mean().item(), "interval": list(bounds)}
