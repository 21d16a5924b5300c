"""A split of a run, embedded by a model: the input of all protocols."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..corpus import Corpus
from ..texts import Texts
from .embed import JointEmbedding


@dataclass(frozen=True)
class EmbeddedSplit:
    """The I images and n captions of a split as vectors of a model.

    captions: (n,) indices into the corpus. owner: (n,) the image of each caption, 0 … I - 1. Both are on the CPU.
    images: (I, d). vectors: (n, d), of the captions. Both are on the device. seed: the seed of the bootstrap.
    """

    model: JointEmbedding
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
    def image_of_caption(self) -> Tensor:
        """(C,) the image of every caption of the corpus, 0 … I - 1; 0 for captions of other splits."""
        rows = torch.zeros(self.corpus.captions, dtype=torch.long)
        rows[self.captions] = self.owner
        return rows

    def image_of_negative(self, negatives: Tensor) -> Tensor:
        """(P,) the image of the caption that each of the negatives (P,) was made from, 0 … I - 1."""
        return self.image_of_caption[self.corpus.negative_caption[negatives]]
