"""Sample negative components from the tables that negcap.schemas.components describes; everything is arrays of ids.

    sampler = Sampler(components, vocabulary, exclusions)
    sampler.nouns(captions, 16, rng)                    # (captions, 16): nouns that are not in the caption's image
    sampler.attributes(pairs, 8, rng)                   # (pairs, 8): false of the pair's object
    sampler.nouns(sampler.pair_caption[pairs], 16, rng) # (pairs, 16): objects that make the pair false

A pair is an entry of `components.attributes`, a triple one of `components.relations`, both numbered through the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING = -1
STRIDE = 1 << 32  # above every id
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Ragged:
    """Rows of ids of any length: row i is values[offsets[i]:offsets[i + 1]], in order."""

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """From lists."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return cls(np.array([id for row in rows for id in row], np.int64), offsets)

    def inside(self, rows: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """`k` values of each row, uniformly with replacement, shape (len(rows), k); NOTHING from an empty row."""
        first, size = self.offsets[rows, None], np.diff(self.offsets)[rows, None]
        drawn = np.full((len(rows), k), NOTHING)
        at = first + (rng.random(drawn.shape) * size).astype(np.int64)
        full = np.broadcast_to(size > 0, drawn.shape)
        drawn[full] = self.values[at[full]]
        return drawn

    def outside(self, rows: np.ndarray, k: int, rng: np.random.Generator, limit: int) -> np.ndarray:
        """`k` ids below `limit` that are not in the row, likewise; NOTHING where the row has them all.

        The r-th id outside is r plus the number of those inside whose value less their rank is at most r.
        """
        rows = rows[:, None]
        free = limit - (self.offsets[rows + 1] - self.offsets[rows])
        r = (rng.random((len(rows), k)) * free).astype(np.int64)
        inside = np.searchsorted(self._keys, rows * STRIDE + r, side="right") - self.offsets[rows]
        return np.where(free > 0, r + inside, NOTHING)

    @cached_property
    def _keys(self) -> np.ndarray:
        """Sort keys: for every value its row times STRIDE, plus its value less its rank in the row."""
        counts = np.diff(self.offsets)
        row_of = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(len(self.values)) - self.offsets[row_of]
        return row_of * STRIDE + self.values - rank


class Sampler:
    """Uniform samples of false nouns, attributes and relations.

    `words` maps a kind to its words by id; `pair_caption` and `triple_caption` are the captions (row numbers in
    `components`) of all pairs and triples.
    """

    def __init__(self, components: pa.Table, vocabulary: pa.Table, exclusions: pa.Table) -> None:
        """Read the tables; of `components`, any rows. Raises KeyError for an image that `exclusions` lacks."""
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
        self._nouns = Ragged.of([excluded[image, "noun", ""] for image in row_of])
        self.pair_caption, pairs = _mentioned(components, "attribute", images)
        self.triple_caption, triples = _mentioned(components, "relation", images)
        self._attributes = Ragged.of(list(_allowed(pairs, self.words["attribute"], rivals["attribute"], excluded)))
        self._relations = Ragged.of(list(_allowed(triples, self.words["relation"], rivals["relation"], excluded)))

    def nouns(self, captions: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Nouns that are not in the images of these captions, shape (len(captions), k)."""
        return self._nouns.outside(self._image[captions], k, rng, len(self.words["noun"]))

    def attributes(self, pairs: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Attributes that are false of these pairs' objects, shape (len(pairs), k)."""
        return self._attributes.inside(pairs, k, rng)

    def relations(self, triples: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Relations that do not hold between these triples' subjects and objects, shape (len(triples), k)."""
        return self._relations.inside(triples, k, rng)


def _mentioned(components: pa.Table, kind: str, images: Sequence[str]) -> tuple[np.ndarray, list[tuple[str, Key]]]:
    """The captions of all pairs or triples, and for each its word with the key of its exclusions."""
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
    """For every pair or triple, the rivals of its word that its image's captions do not allow to be true."""
    number = {word: id for id, word in enumerate(words)}
    known: dict[tuple[str, Key], list[int]] = {}
    for word, key in mentioned:
        if (word, key) not in known:
            true = set(excluded[key])
            known[word, key] = [id for id in rivals[number[word]] if id not in true] if word in number else []
        yield known[word, key]
