"""The interface of embedding models, and functions that embed many images or sentences in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from ..encoders import ImageEncoder
from ..features import take
from ..similarities import Similarity
from ..texts import Phrase, Texts
from ..vocabulary import WordVocabulary

EmbedTexts = Callable[[Texts, Tensor], Tensor]  # texts, rows (B,) -> (B, d)
IMAGES, WORDS = 4096, 1 << 15  # per batch; this bounds the memory for activations
NUMBERS = 1 << 25  # of features per batch


class JointEmbedding(Protocol):
    """A model that maps images and sentences to vectors of one space."""

    @property
    def similarity(self) -> Similarity:
        """What compares the vectors."""

    @property
    def image(self) -> ImageEncoder:
        """The image encoder: features (B, …) to vectors (B, d)."""

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """Vectors (B, d) of texts `rows` (B,)."""

    def queries(self, vocabulary: WordVocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Vectors (Q, d) of Q phrases of the same kind (objects, attributed objects or triples)."""


def embed_images(embed: Callable[[Tensor], Tensor], features: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """Vectors (n, d) of images `rows` (n,), whose features are in `features` (I, …)."""
    with torch.inference_mode():
        return torch.cat([embed(take(features, part, device)) for part in rows.split(images_at_once(features))])


def images_at_once(features: Tensor) -> int:
    """How many images with these features (I, …) are embedded at a time."""
    return max(1, min(IMAGES, NUMBERS // features[0].numel()))


def embed_sentences(embed: EmbedTexts, texts: Texts, rows: Tensor) -> Tensor:
    """Vectors (n, d) of texts `rows` (n,), in the order of `rows`."""
    vectors = torch.empty(0)
    for places, part in embed_in_batches(embed, texts, rows):
        if not len(vectors):
            vectors = part.new_empty(len(rows), part.shape[1])
        vectors[places.to(part.device)] = part
    return vectors


def embed_in_batches(embed: EmbedTexts, texts: Texts, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Embed texts `rows` (n,), a CPU tensor, in batches: yields indices into `rows` (b,) and vectors (b, d).

    On a GPU, a batch holds texts of similar length; on a CPU, consecutive texts, so that a caption's negatives share
    the computation of common prefixes.
    """
    lengths = texts.offsets[rows + 1] - texts.offsets[rows]
    order = lengths.argsort(descending=True, stable=True) if texts.tokens.is_cuda else torch.arange(len(rows))
    cuts = torch.div(lengths[order].cumsum(0), WORDS, rounding_mode="floor").bincount() if len(rows) else lengths
    for places in order.split(cuts[cuts > 0].tolist()) if len(rows) else ():
        with torch.inference_mode():
            yield places, embed(texts, rows[places])
