"""Sentences and their components as flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from negcap.pipelines.models.vocabulary import SPECIALS, UNKNOWN

UNKNOWN_ID = SPECIALS.index(UNKNOWN)


def spans(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of rows (B,) of a ragged array with offsets (n + 1,): places in it and the row's place in B, (m,)."""
    counts = offsets[rows + 1] - offsets[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows)), counts)
    return torch.arange(len(owner)) + (offsets[rows] - counts.cumsum(0) + counts)[owner], owner


class Lists(NamedTuple):
    """Components of S sentences: words (n, k), ids; offsets (S + 1,): of s words[offsets[s]:offsets[s + 1]]."""

    words: Tensor
    offsets: Tensor

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The components of sentences rows (B,) whose words are all known: their numbers and places in B, (m,)."""
        at, owner = spans(self.offsets, rows)
        known = (self.words[at] != UNKNOWN_ID).all(1)
        return at[known], owner[known]


class Graphs(NamedTuple):
    """The components of sentences: objects (noun,), pairs (attribute, noun) and triples (subject, relation, object)."""

    objects: Lists
    pairs: Lists
    triples: Lists


class Texts(NamedTuple):
    """A run's captions and, after them, negatives: `tokens[offsets[i]:offsets[i + 1]]` are the words of the i-th.

    tokens: (total,) on the device; offsets: (n + 1,) on the CPU; captions: how many; graphs: components, where read.
    """

    tokens: Tensor
    offsets: Tensor
    captions: int
    graphs: Graphs | None = None
