"""The protocols of an evaluation: plain retrieval, attacks, the plural split, and pairs of caption and negative."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .attacks import Attacks, NegativeScores, ranks_with_own_negatives, score_negatives
from .retrieval import (
    TOP,
    EmbeddedSplit,
    Ranks,
    bootstrap_intervals,
    count_hits,
    mean_over_folds,
    own_scores,
    rank,
    recall_metrics,
    retrieval_metrics,
)

FOLD, FOLDED_FROM = 1000, 5000  # images per fold; folds are used for splits of at least 5,000 images


class RankList(NamedTuple):
    """The ranks (n,) of the n queries of one retrieval, counted from 1.

    candidates: "plain", "plain:de" for captions of a further language, or the attack whose negatives are added, such as
    "vse-c:noun". direction: "i2t" (an image
    queries captions) or "t2i". queries: n image ids or caption ids.
    """

    candidates: str
    direction: str
    queries: list[str]
    ranks: Tensor


def run_protocols(split: EmbeddedSplit, attacks: Attacks) -> tuple[dict[str, Any], list[RankList]]:
    """Metrics by protocol, and the ranks they are computed from; without negatives, only plain retrieval."""
    plain = rank(split.images, split.vectors, split.owner.to(split.images.device), split.model.similarity)
    metrics, lists = _retrieval_metrics(split, plain), _rank_lists(split, plain, "plain")
    if not len(split.corpus.operator):
        return metrics, lists
    scores = score_negatives(split, attacks, plain.best)
    metrics["vse-c"], metrics["univse"] = {}, {}
    for name, rows in {"total": torch.cat(list(attacks.own.values())), **attacks.own}.items():
        if len(rows):
            ranks = ranks_with_own_negatives(plain, scores.own, rows, split.image_of_negative(rows))
            metrics["vse-c"][name] = _attack_metrics(ranks, rows, split)
            lists.append(RankList(f"vse-c:{name}", "i2t", split.image_ids, ranks))
    for name, rows in attacks.shared.items():
        if len(rows):
            ranks = (plain.images + scores.outranking[name]).cpu()
            metrics["univse"][name] = _attack_metrics(ranks, rows, split)
            lists.append(RankList(f"univse:{name}", "i2t", split.image_ids, ranks))
    if len(plural := attacks.plural["numeral"]):
        metrics["plural"], counted = _plural_split(split, plural, scores)
        lists += counted
    metrics["pairwise"] = {name: _pairwise(split, rows, scores) for name, rows in attacks.pairs.items() if len(rows)}
    return metrics, lists


def plain_retrieval(split: EmbeddedSplit, language: str) -> tuple[dict[str, Any], list[RankList]]:
    """Metrics of retrieval by the captions of a further language, and their ranks, with the candidates "plain:de"."""
    plain = rank(split.images, split.vectors, split.owner.to(split.images.device), split.model.similarity)
    return _retrieval_metrics(split, plain), _rank_lists(split, plain, f"plain:{language}")


def _rank_lists(split: EmbeddedSplit, plain: Ranks, candidates: str) -> list[RankList]:
    return [
        RankList(candidates, "i2t", split.image_ids, plain.images),
        RankList(candidates, "t2i", split.caption_ids, plain.captions),
    ]


def _retrieval_metrics(split: EmbeddedSplit, plain: Ranks) -> dict[str, Any]:
    """Metrics of retrieval without attack, with intervals; for a large split also their means over folds."""
    images = len(split.images)
    tables = [
        count_hits(plain.images.cpu(), torch.arange(images), images),
        count_hits(plain.captions.cpu(), split.owner, images),
    ]
    i2t, t2i, both = bootstrap_intervals(tables, split.seed)
    metrics: dict[str, Any] = {"retrieval": retrieval_metrics(plain)}
    metrics["intervals"] = {
        **{f"i2t R@{k}": list(bounds) for k, bounds in zip(TOP, i2t, strict=False)},
        **{f"t2i R@{k}": list(bounds) for k, bounds in zip(TOP, t2i, strict=False)},
        "rsum": list(both[0]),
    }
    if images >= FOLDED_FROM:
        owner = split.owner.to(split.images.device)
        metrics["folds of 1000"] = mean_over_folds(split.images, split.vectors, owner, FOLD, split.model.similarity)
    return metrics


def _recalls_with_intervals(ranks: Tensor, seed: int) -> dict[str, Any]:
    bounds = bootstrap_intervals([count_hits(ranks, torch.arange(len(ranks)), len(ranks))], seed)[0]
    intervals = {f"R@{k}": list(both) for k, both in zip(TOP, bounds, strict=False)}
    return {**recall_metrics(ranks), "intervals": intervals}


def _attack_metrics(ranks: Tensor, negatives: Tensor, split: EmbeddedSplit) -> dict[str, Any]:
    return {
        **_recalls_with_intervals(ranks, split.seed),
        "negatives": len(negatives),
        "captions_with_negatives": len(split.corpus.negative_caption[negatives].unique()),
        "negatives_a_caption": len(negatives) / len(split.captions),
    }


def _plural_split(
    split: EmbeddedSplit, numeral: Tensor, scores: NegativeScores
) -> tuple[dict[str, Any], list[RankList]]:
    """VSE-C's Table 4: all captions of the images with a caption that counts more than one, plain and attacked.

    A caption counts more than one if one of its numeral negatives replaces a number above one. numeral: (P,) the
    negatives of the split that replace such a number by another number above one ("3 dogs" -> "5 dogs"); only they
    attack, so that singular and plural forms tell nothing.
    """
    counting = torch.zeros(split.corpus.captions, dtype=torch.bool)
    counting[split.corpus.negative_caption[split.corpus.was_plural]] = True
    inside = torch.isin(split.owner, split.owner[counting[split.captions]])
    image, owner = split.owner[inside].unique(return_inverse=True)
    device = split.images.device
    plain = rank(
        split.images[image.to(device)], split.vectors[inside.to(device)], owner.to(device), split.model.similarity
    )
    index = torch.zeros(len(split.images), dtype=torch.long)
    index[image] = torch.arange(len(image))
    attacked = ranks_with_own_negatives(plain, scores.own, numeral, index[split.image_of_negative(numeral)])
    metrics = {
        "images": len(image),
        "captions": int(inside.sum()),
        "negatives": len(numeral),
        "plain": _recalls_with_intervals(plain.images.cpu(), split.seed),
        "numeral": _recalls_with_intervals(attacked, split.seed),
    }
    ids = [split.image_ids[n] for n in image.tolist()]
    return metrics, [RankList("plural", "i2t", ids, plain.images), RankList("plural:numeral", "i2t", ids, attacked)]


def _pairwise(split: EmbeddedSplit, negatives: Tensor, scores: NegativeScores) -> dict[str, Any]:
    """How often, in %, a caption scores higher with its image than its negative does; a tie counts as a failure."""
    true = torch.zeros(split.corpus.captions)
    owner = split.owner.to(split.images.device)
    true[split.captions] = own_scores(split.images, split.vectors, owner, split.model.similarity).cpu()
    right = (true[split.corpus.negative_caption[negatives]] > scores.own[negatives]).double()
    table = torch.zeros(len(split.images), 2, dtype=torch.double)
    table.index_add_(0, split.image_of_negative(negatives), torch.stack([right, torch.ones_like(right)], 1))
    interval = bootstrap_intervals([table], split.seed)[0][0]
    return {"pairs": len(negatives), "accuracy": 100.0 * right.mean().item(), "interval": list(interval)}
