"""Many images or sentences into the joint space, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from negcap.pipelines.models.texts import Texts

Embed = Callable[[Texts, Tensor], Tensor]  # of a model: sentences rows (B,) to (B, d)
IMAGES, WORDS = 4096, 1 << 15  # at a time: so much memory for states, whatever there is to embed


def embed_images(embed: Callable[[Tensor], Tensor], features: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """Unit vectors (n, d) of images `rows` (n,) of features (I, …)."""
    with torch.inference_mode():
        return torch.cat([embed(features[some].to(device)) for some in rows.to(features.device).split(IMAGES)])


def embed_sentences(embed: Embed, texts: Texts, rows: Tensor) -> Tensor:
    """Unit vectors (n, d) of sentences `rows` (n,), in their order."""
    vectors = torch.empty(0)
    for places, some in embedded(embed, texts, rows):
        if not len(vectors):
            vectors = some.new_empty(len(rows), some.shape[1])
        vectors[places.to(some.device)] = some
    return vectors


def embedded(embed: Embed, texts: Texts, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Sentences `rows` (n,), some at a time: their places in `rows` (b,), unit vectors (b, d).

    Memory does not grow with n but for the indices. rows: on the CPU. On a GPU
    sentences of like length go together; on a CPU neighbours do, so that a caption's negatives share what they can.
    """
    lengths = texts.offsets[rows + 1] - texts.offsets[rows]
    order = lengths.argsort(descending=True, stable=True) if texts.tokens.is_cuda else torch.arange(len(rows))
    cuts = torch.div(lengths[order].cumsum(0), WORDS, rounding_mode="floor").bincount() if len(rows) else lengths
    for places in order.split(cuts[cuts > 0].tolist()) if len(rows) else ():
        with torch.inference_mode():
            yield places, embed(texts, rows[places])
