"""Sample negative components with arrays of ids, from the tables that negcap.schemas.components describes.

    sampler = Sampler(components, vocabulary, exclusions)
    sampler.nouns(captions, 16, rng)                    # (captions, 16): nouns that are not in the caption's image
    sampler.attributes(pairs, 8, rng)                   # (pairs, 8): attributes that are false of the pair's object
    sampler.nouns(sampler.pair_caption[pairs], 16, rng) # (pairs, 16): objects that make the pair false

A pair is an item of `components.attributes`, a triple an item of `components.relations`; both are numbered from 0
through the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING = -1  # instead of an id, if there is none to sample
STRIDE = 1 << 32  # greater than every id
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Ragged:
    """Sorted lists of ids of different lengths: row i is values[offsets[i]:offsets[i + 1]]."""

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Build it from a list of rows, each a sorted list of ids."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return cls(np.array([id for row in rows for id in row], np.int64), offsets)

    def sample_inside(self, rows: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Sample `k` values of each row, uniformly with replacement: shape (len(rows), k); NOTHING for an empty row."""
        first, size = self.offsets[rows, None], np.diff(self.offsets)[rows, None]
        drawn = np.full((len(rows), k), NOTHING)
        at = first + (rng.random(drawn.shape) * size).astype(np.int64)
        full = np.broadcast_to(size > 0, drawn.shape)
        drawn[full] = self.values[at[full]]
        return drawn

    def sample_outside(self, rows: np.ndarray, k: int, rng: np.random.Generator, limit: int) -> np.ndarray:
        """Sample `k` ids below `limit` that are not in each row, uniformly with replacement: shape (len(rows), k).

        NOTHING for a row with all ids. The r-th id outside a row is r plus the number of values in it whose value minus
        rank is at most r.
        """
        rows = rows[:, None]
        free = limit - (self.offsets[rows + 1] - self.offsets[rows])
        r = (rng.random((len(rows), k)) * free).astype(np.int64)
        inside = np.searchsorted(self._keys, rows * STRIDE + r, side="right") - self.offsets[rows]
        return np.where(free > 0, r + inside, NOTHING)

    @cached_property
    def _keys(self) -> np.ndarray:
        """Sort keys: for each value, its row times STRIDE, plus its value, minus its rank in the row."""
        counts = np.diff(self.offsets)
        row_of = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(len(self.values)) - self.offsets[row_of]
        return row_of * STRIDE + self.values - rank


class Sampler:
    """Samples nouns, attributes and relations that are false of an image, uniformly.

    words: for each kind, the words by id. pair_caption, triple_caption: the row in `components` of the caption that
    each pair or triple belongs to.
    """

    def __init__(self, components: pa.Table, vocabulary: pa.Table, exclusions: pa.Table) -> None:
        """Read the tables; `components` may be part of its table. Raises KeyError if `exclusions` lacks an image."""
        self.words: dict[str, list[str]] = {"noun": [], "attribute": [], "relation": []}
        rivals: dict[str, list[list[int]]] = {kind: [] for kind in self.words}
        columns = (vocabulary[name].to_pylist() for name in ("kind", "words", "rivals"))
        for kind, words, its in zip(*columns, strict=True):
            if kind in self.words:
                self.words[kind] += words
                rivals[kind].append(its)
        columns = (exclusions[name].to_pylist() for name in ("image_id", "kind", "of", "ids"))
        excluded = {(image, kind, of): ids for image, kind, of, ids in zip(*columns, strict=True)}
        images = components["image_id"].to_pylist()
        row_of = {image: row for row, image in enumerate(dict.fromkeys(images))}
        self._image = np.array([row_of[image] for image in images], np.int64)
        self._nouns = Ragged.from_rows([excluded[image, "noun", ""] for image in row_of])
        self.pair_caption, pairs = _mentioned(components, "attribute", images)
        self.triple_caption, triples = _mentioned(components, "relation", images)
        self._attributes = Ragged.from_rows(
            list(_allowed(pairs, self.words["attribute"], rivals["attribute"], excluded))
        )
        self._relations = Ragged.from_rows(
            list(_allowed(triples, self.words["relation"], rivals["relation"], excluded))
        )

    def nouns(self, captions: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Ids of nouns that are not in the images of these captions (row numbers): shape (len(captions), k)."""
        return self._nouns.sample_outside(self._image[captions], k, rng, len(self.words["noun"]))

    def attributes(self, pairs: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Ids of attributes that are false of the objects of these pairs: shape (len(pairs), k)."""
        return self._attributes.sample_inside(pairs, k, rng)

    def relations(self, triples: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Ids of relations that do not hold between subject and object of these triples: shape (len(triples), k)."""
        return self._relations.sample_inside(triples, k, rng)


def _mentioned(components: pa.Table, kind: str, images: Sequence[str]) -> tuple[np.ndarray, list[tuple[str, Key]]]:
    """For all pairs or triples, the row of their caption, and their word with the key of its exclusions."""
    column = components[f"{kind}s"].combine_chunks()
    captions = np.repeat(np.arange(len(images)), column.value_lengths().to_numpy(zero_copy_only=False))
    items = column.flatten()
    words, objects = items.field(kind).to_pylist(), items.field("object").to_pylist()
    keys = [(images[at], kind, of) for at, of in zip(captions.tolist(), objects, strict=True)]
    return captions, list(zip(words, keys, strict=True))


def _allowed(
    mentioned: Iterable[tuple[str, Key]],
    words: Sequence[str],
    rivals: Sequence[Sequence[int]],
    excluded: Mapping[Key, Sequence[int]],
) -> Iterator[list[int]]:
    """For each pair or triple, the rivals of its word that cannot be true according to the image's captions."""
    number = {word: id for id, word in enumerate(words)}
    known: dict[tuple[str, Key], list[int]] = {}
    for word, key in mentioned:
        if (word, key) not in known:
            true = set(excluded[key])
            known[word, key] = [id for id in rivals[number[word]] if id not in true] if word in number else []
        yield known[word, key]
