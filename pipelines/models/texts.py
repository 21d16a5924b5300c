"""Texts and their scene graphs as flat arrays of word ids with offsets."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from .device import to_device
from .vocabulary import UNKNOWN_ID


class Phrase(NamedTuple):
    """An object, attributed object or triple, used as a query.

    words: the object ("dog",), attribute and object ("black", "dog"), or subject, relation and object ("dog", "run on",
    "grass"), as the tables of components spell them. text: the phrase as people write it: "dog running on grass".
    """

    words: tuple[str, ...]
    text: str


class ComponentLists(NamedTuple):
    """The components of one kind in n texts; those of text i are `words[offsets[i]:offsets[i + 1]]`.

    words: (total, k) word ids; k is 1 for objects, 2 for pairs, 3 for triples. offsets: (n + 1,).
    """

    words: Tensor
    offsets: Tensor

    def known_components(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """The components of texts (B,), without those that have an unknown word.

        Returns rows of `words` (m,), and for each the position in `texts` of its text (m,).
        """
        rows, owner = ragged_rows(self.offsets, texts)
        known = (self.words[rows] != UNKNOWN_ID).all(1)
        return rows[known], owner[known]


class SceneGraphs(NamedTuple):
    """Components of texts by kind: objects (noun,), pairs (attribute, noun), triples (subject, relation, object)."""

    objects: ComponentLists
    pairs: ComponentLists
    triples: ComponentLists

    def thinned(self, texts: Tensor, share: float, seed: int) -> SceneGraphs:
        """These scene graphs without a share of the pairs and of the triples of some texts, chosen at random by `seed`.

        texts: (B,). What is left out stays in its place, as an unknown word, which `known_components` leaves out.
        """
        generator = Generator().manual_seed(seed)
        parts = {}
        for kind in ("pairs", "triples"):
            words, offsets = getattr(self, kind)
            inside = torch.zeros(len(words), dtype=torch.bool)
            inside[ragged_rows(offsets, texts)[0]] = True
            out = inside & (torch.rand(len(words), generator=generator) < share)
            parts[kind] = ComponentLists(torch.where(to_device(out, words.device)[:, None], UNKNOWN_ID, words), offsets)
        return self._replace(**parts)


class Texts(NamedTuple):
    """A run's captions followed by its negatives, n texts; text i is `tokens[offsets[i]:offsets[i + 1]]`.

    tokens: (total,) word ids, on the device, each by the vocabulary of its text's language. offsets: (n + 1,), on the
    CPU. captions: how many of the n texts are captions. graphs: the components of the texts; None for models that do
    not use them. language: (n,) the index of each text's language among those of the model; None: all 0.
    """

    tokens: Tensor
    offsets: Tensor
    captions: int
    graphs: SceneGraphs | None = None
    language: Tensor | None = None


def ragged_rows(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of all entries in rows (B,) of a ragged array, and the position in `rows` of each; both (m,).

    offsets: (n + 1,), where each row starts and the last one ends.
    """
    counts = offsets[rows + 1] - offsets[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows)), counts)
    return torch.arange(len(owner)) + (offsets[rows] - counts.cumsum(0) + counts)[owner], owner
