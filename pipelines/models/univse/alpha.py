"""Retrieval metrics as a function of α, the sentence's weight in a caption's vector (UniVSE, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from ..evaluation.embed import embed_in_batches, embed_sentences
from ..evaluation.retrieval import (
    TOP,
    count_outranking,
    rank,
    recall_metrics,
    retrieval_metrics,
)
from ..evaluation.split import EmbeddedSplit
from ..texts import Texts
from .model import UniVSE, blend

ALPHAS = tuple(n / 10 for n in range(11))


def alpha_curve(model: UniVSE, split: EmbeddedSplit, attacks: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """By α from "0.0" to "1.0": rsum without attack, and image-to-text R@1 under each attack, in %.

    The entry `attacked` is the sum of R@1, R@5 and R@10 over all attacks. attacks: negatives (P,) of UniVSE's attacks
    by name. Every text is embedded only once.
    """
    parts = partial(_concatenated_parts, model)
    captions = embed_sentences(parts, split.texts, split.captions)
    owner = split.owner.to(split.images.device)
    plain = {alpha: rank(split.images, _blend_parts(captions, alpha), owner) for alpha in ALPHAS}
    curve = {alpha: {"rsum": retrieval_metrics(ranks)["rsum"], "attacked": 0.0} for alpha, ranks in plain.items()}
    for name, rows in attacks.items():
        above = {alpha: torch.zeros_like(plain[alpha].images) for alpha in ALPHAS}
        for _, vectors in embed_in_batches(parts, split.texts, split.corpus.captions + rows):
            for alpha in ALPHAS:
                above[alpha] += count_outranking(split.images, plain[alpha].best, _blend_parts(vectors, alpha))
        for alpha in ALPHAS:
            attacked = recall_metrics(plain[alpha].images + above[alpha])
            curve[alpha][f"{name} R@1"] = attacked["R@1"]
            curve[alpha]["attacked"] += sum(attacked[f"R@{k}"] for k in TOP)
    return {f"{alpha:.1f}": values for alpha, values in curve.items()}


def _concatenated_parts(model: UniVSE, texts: Texts, rows: Tensor) -> Tensor:
    """Sentence vector, component vector, and 1 or 0 for texts with or without components, joined: (B, 2 d + 1)."""
    sentences, components, present = model.sentences_and_components(texts, rows)
    return torch.cat([sentences, components, present[:, None].to(sentences.dtype)], 1)


def _blend_parts(parts: Tensor, alpha: float) -> Tensor:
    d = (parts.shape[1] - 1) // 2
    return blend(parts[:, :d], parts[:, d : 2 * d], parts[:, -1] > 0, alpha)
