"""How retrieval changes with the share of the sentence in a caption (UniVSE, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from negcap.pipelines.models.embed import embed_sentences, embedded
from negcap.pipelines.models.retrieval import outranking, rank, recalls, retrieval
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.protocols import Split
from negcap.pipelines.models.univse.model import UniVSE, blend

ALPHAS = tuple(n / 10 for n in range(11))


def _parts(model: UniVSE, texts: Texts, rows: Tensor) -> Tensor:
    """u_sent, u_comp and whether there is any, side by side: (B, 2 d + 1)."""
    sentences, components, there = model.parts(texts, rows)
    return torch.cat([sentences, components, there[:, None].to(sentences.dtype)], 1)


def _blended(parts: Tensor, alpha: float) -> Tensor:
    d = (parts.shape[1] - 1) // 2
    return blend(parts[:, :d], parts[:, d : 2 * d], parts[:, -1] > 0, alpha)


def alpha_curve(model: UniVSE, split: Split, crowds: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """Of each α from 0 to 1: rsum without attack, R@1 of images under each attack, and all their recalls added up.

    crowds: the negatives (P,) of UniVSE's attacks. Every sentence is embedded once.
    """
    parts = partial(_parts, model)
    captions = embed_sentences(parts, split.texts, split.captions)
    owner = split.owner.to(split.images.device)
    plain = {alpha: rank(split.images, _blended(captions, alpha), owner) for alpha in ALPHAS}
    found = {alpha: {"rsum": retrieval(ranks)["rsum"], "attacked": 0.0} for alpha, ranks in plain.items()}
    for name, rows in crowds.items():
        above = {alpha: torch.zeros_like(plain[alpha].images) for alpha in ALPHAS}
        for _, some in embedded(parts, split.texts, split.corpus.captions + rows):
            for alpha in ALPHAS:
                above[alpha] += outranking(split.images, plain[alpha].best, _blended(some, alpha))
        for alpha in ALPHAS:
            under = recalls(plain[alpha].images + above[alpha])
            found[alpha][f"{name} R@1"] = under["R@1"]
            found[alpha]["attacked"] += sum(under[f"R@{k}"] for k in (1, 5, 10))
    return {f"{alpha:.1f}": values for alpha, values in found.items()}
