"""Texts and their scene graphs as flat arrays of word ids with offsets."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from negcap.pipelines.models.vocabulary import UNKNOWN_ID


class Phrase(NamedTuple):
    """A component as a query.

    words: the object ("dog",), attribute and object ("black", "dog"), or subject, relation and object ("dog", "run on",
    "grass"), as the component tables name them; text: how it is written, "dog running on grass".
    """

    words: tuple[str, ...]
    text: str


class ComponentLists(NamedTuple):
    """The components of one kind of n texts: those of text i are `words[offsets[i]:offsets[i + 1]]`.

    words: (m, k) word ids, k by kind; offsets: (n + 1,).
    """

    words: Tensor
    offsets: Tensor

    def of(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """The components of texts (B,) of known words alone: rows of `words`, and positions in `texts`; both (m,)."""
        rows, owner = ragged_rows(self.offsets, texts)
        known = (self.words[rows] != UNKNOWN_ID).all(1)
        return rows[known], owner[known]


class SceneGraphs(NamedTuple):
    """The components of texts: objects (noun,), pairs (attribute, noun) and triples (subject, relation, object)."""

    objects: ComponentLists
    pairs: ComponentLists
    triples: ComponentLists


class Texts(NamedTuple):
    """A run's captions and, after them, its negatives: text i is `tokens[offsets[i]:offsets[i + 1]]`.

    tokens: (total,) word ids on the device; offsets: (n + 1,) on the CPU; captions: how many of the n texts are
    captions; graphs: their components, where a model reads them.
    """

    tokens: Tensor
    offsets: Tensor
    captions: int
    graphs: SceneGraphs | None = None


def ragged_rows(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Flat indices of the entries of rows (B,) of a ragged array, and the position in `rows` each belongs to; (m,).

    offsets: (n + 1,), where the rows begin and the last ends.
    """
    counts = offsets[rows + 1] - offsets[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows)), counts)
    return torch.arange(len(owner)) + (offsets[rows] - counts.cumsum(0) + counts)[owner], owner
