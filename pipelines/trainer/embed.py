"""Many images or sentences into the joint space, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pipelines.trainer.models import EmbeddingModel
from pipelines.trainer.sampling import pack

IMAGES, WORDS = 4096, 16384  # at a time: so much memory for states, whatever there is to embed


def embed_images(model: EmbeddingModel, features: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """Unit vectors (n, d) of images `rows` (n,) of features (I, …)."""
    with torch.inference_mode():
        return torch.cat([model.image(features[some].to(device)) for some in rows.to(features.device).split(IMAGES)])


def embed_sentences(model: EmbeddingModel, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
    """Unit vectors (n, d) of sentences `rows` (n,) of a flat array of words, in their order."""
    vectors = torch.empty(0)
    for places, some in embedded(model, tokens, offsets, rows):
        if not len(vectors):
            vectors = some.new_empty(len(rows), some.shape[1])
        vectors[places.to(some.device)] = some
    return vectors


def embedded(model: EmbeddingModel, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Sentences `rows` (n,), those of like length together: their places in `rows` (b,), unit vectors (b, d).

    Memory does not grow with n but for the indices. tokens may be on a GPU; offsets and rows are on the CPU.
    """
    device = model.image.linear.weight.device
    lengths = offsets[rows + 1] - offsets[rows]
    order = lengths.argsort(descending=True, stable=True)
    at = 0
    while at < len(order):
        places = order[at : at + max(1, WORDS // int(lengths[order[at]]))]
        packed = pack(offsets, rows[places])
        with torch.inference_mode():
            words = tokens[packed.positions.to(tokens.device)].to(device)
            yield places, model.text(words, packed)
        at += len(places)
