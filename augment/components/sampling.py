"""Sample negative components with arrays of ids, from the tables that negcap.schemas.captions describes.

    sampler = Sampler(components, vocabulary, exclusions)
    sampler.nouns(captions, 16, rng)                    # (captions, 16): nouns that are not in the caption's image
    sampler.attributes(pairs, 8, rng)                   # (pairs, 8): attributes that are false of the pair's object
    sampler.nouns(sampler.pair_caption[pairs], 16, rng) # (pairs, 16): objects that make the pair false

A pair is an item of `components.attributes`, a triple an item of `components.relations`; both are numbered from 0
through the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language.semantic_classes import attributes

if TYPE_CHECKING:
    import pyarrow as pa


NOTHING = -1  # instead of an id, if there is none to sample
STRIDE = 1 << 32  # greater than every id
RULES = ("rivals", "any")
AT_ONCE = 1 << 12  # pairs or triples whose negatives are found at a time


@dataclass(frozen=True)
class Ragged:
    """Sorted lists of ids of different lengths: row i is values[offsets[i]:offsets[i + 1]]."""

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def from_lists(cls, lists: pa.ListArray) -> Ragged:
        """Build it from an Arrow array of lists, each sorted."""
        sizes = lists.value_lengths().to_numpy(zero_copy_only=False)
        values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return cls(values, _offsets(sizes))

    def entries(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All values of these rows (n,), and the index in `rows` of the row of each; both (m,)."""
        sizes = self.offsets[rows + 1] - self.offsets[rows]
        owner = np.repeat(np.arange(len(rows)), sizes)
        first = np.cumsum(sizes) - sizes
        return self.values[np.arange(len(owner)) - first[owner] + self.offsets[rows][owner]], owner

    def keys(self, first: int, end: int) -> np.ndarray:
        """Row times STRIDE plus value, of all values of the rows from `first` to `end`, in ascending order."""
        row = np.repeat(np.arange(first, end), np.diff(self.offsets[first : end + 1]))
        return row * STRIDE + self.values[self.offsets[first] : self.offsets[end]]

    def sample_inside(self, rows: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Sample `k` values of each row, uniformly with replacement: shape (len(rows), k); NOTHING for an empty row."""
        first = self.offsets[rows, None]
        size = self.offsets[rows + 1, None] - first
        drawn = np.full((len(rows), k), NOTHING)
        at = first + (rng.random(drawn.shape) * size).astype(np.int64)
        full = np.broadcast_to(size > 0, drawn.shape)
        drawn[full] = self.values[at[full]]
        return drawn

    def sample_first(self, rows: np.ndarray, k: int, order: np.ndarray) -> np.ndarray:
        """The `k` values of each row that come first in an order: shape (len(rows), k); NOTHING where there are fewer.

        order: (ids,) a number for each id, ascending in that order.
        """
        values, owner = self.entries(rows)
        values = values[np.argsort(owner + order[values] / (order.max(initial=0) + 1))]
        size = self.offsets[rows + 1] - self.offsets[rows]
        at = (np.cumsum(size) - size)[:, None] + np.arange(k)
        return np.where(np.arange(k) < size[:, None], np.append(values, NOTHING)[at.clip(max=len(values))], NOTHING)

    def sample_from(self, rows: np.ndarray, k: int, rng: np.random.Generator, pool: np.ndarray) -> np.ndarray:
        """Sample `k` ids of a pool (p,) that are not in each row, uniformly with replacement: shape (len(rows), k).

        NOTHING for a row with all ids of the pool.
        """
        wanted = rows[:, None] * STRIDE + pool
        outside = np.append(self._keys, -1)[np.searchsorted(self._keys, wanted)] != wanted
        order = np.argsort(~outside, axis=1, kind="stable")
        free = outside.sum(1, keepdims=True)
        drawn = (rng.random((len(rows), k)) * free).astype(np.int64)
        return np.where(free > 0, pool[np.take_along_axis(order, drawn, 1)], NOTHING) if len(pool) else drawn + NOTHING

    def sample_outside(self, rows: np.ndarray, k: int, rng: np.random.Generator, limit: int) -> np.ndarray:
        """Sample `k` ids below `limit` that are not in each row, uniformly with replacement: shape (len(rows), k).

        NOTHING for a row with all ids. The r-th id outside a row is r plus the number of values in it whose value minus
        rank is at most r.
        """
        rows = rows[:, None]
        free = limit - (self.offsets[rows + 1] - self.offsets[rows])
        r = (rng.random((len(rows), k)) * free).astype(np.int64)
        inside = np.searchsorted(self._free_keys, rows * STRIDE + r, side="right") - self.offsets[rows]
        return np.where(free > 0, r + inside, NOTHING)

    @cached_property
    def _keys(self) -> np.ndarray:
        """All `keys`."""
        return self.keys(0, len(self.offsets) - 1)

    @cached_property
    def _free_keys(self) -> np.ndarray:
        """Sort keys: for each value, its row times STRIDE, plus its value, minus its rank in the row."""
        return self._keys + np.repeat(self.offsets[:-1], np.diff(self.offsets)) - np.arange(len(self.values))


class Sampler:
    """Samples nouns, attributes and relations that are false of an image, uniformly.

    words: for each kind, the words by id. pair_caption, triple_caption: the row in `components` of the caption that
    each pair or triple belongs to. rule: how attributes and relations are found false: `rivals` (the default), those
    that exclude the true one and that no caption of the image allows; `any`, as in UniVSE's supplement (A.1), any
    of its 37 attributes, and any relation, that no caption of the image in `components` states.
    """

    def __init__(self, components: pa.Table, vocabulary: pa.Table, exclusions: pa.Table, rule: str = RULES[0]) -> None:
        """Read the tables; `components` may be part of its table. Raises KeyError if `exclusions` lacks an image."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.words: dict[str, list[str]] = {}
        rivals: dict[str, Ragged] = {}
        for kind in ("noun", "attribute", "relation"):
            rows = vocabulary.filter(pc.equal(vocabulary["kind"], kind)).combine_chunks()
            self.words[kind] = rows["words"].combine_chunks().flatten().to_pylist()
            rivals[kind] = Ragged.from_lists(rows["rivals"].combine_chunks())
        images = components["image_id"].combine_chunks().dictionary_encode()
        self._image = images.indices.to_numpy().astype(np.int64)
        excluded = Ragged.from_lists(exclusions["ids"].combine_chunks())
        numbers = np.arange(len(images.dictionary))
        nouns = _exclusion_rows("noun", exclusions, images.dictionary, numbers, pa.repeat("", len(numbers)))
        self._nouns = Ragged(excluded.entries(nouns)[0], _offsets(np.diff(excluded.offsets)[nouns]))
        self._rule = rule
        known = attributes().univse
        self._papers = np.array([n for n, word in enumerate(self.words["attribute"]) if word in known], np.int64)
        self._negatives: dict[str, Ragged] = {}
        self._row: dict[str, np.ndarray] = {}
        captions = {}
        for kind in ("attribute", "relation"):
            column = components[f"{kind}s"].combine_chunks()
            captions[kind] = np.repeat(np.arange(len(column)), column.value_lengths().to_numpy(zero_copy_only=False))
            items = column.flatten()
            word = _indices(items.field(kind), self.words[kind])
            image = self._image[captions[kind]]
            if rule == "any":  # the words that captions state of each image; a word of -1 is left out
                keys = np.unique((image * STRIDE + word)[word >= 0])
                sizes = np.bincount(keys // STRIDE, minlength=len(numbers))
                self._negatives[kind] = Ragged((keys % STRIDE).astype(np.int32), _offsets(sizes))
                self._row[kind] = image
                continue
            rows = _exclusion_rows(kind, exclusions, images.dictionary, image, items.field("object"))
            self._negatives[kind], self._row[kind] = _allowed(word, rows, rivals[kind], excluded)
        self.pair_caption = captions["attribute"]
        self.triple_caption = captions["relation"]

    def nouns(self, captions: np.ndarray, k: int, rng: np.random.Generator, pool: int = 0) -> np.ndarray:
        """Ids of nouns that are not in the images of these captions (row numbers): shape (len(captions), k).

        pool: draw from only so many nouns, chosen at random for this call, so that those of many captions have fewer
        distinct ones, which are encoded faster; 0: from all.
        """
        images = self._image[captions]
        nouns = len(self.words["noun"])
        if not 0 < pool < nouns:
            return self._nouns.sample_outside(images, k, rng, nouns)
        return self._nouns.sample_from(images, k, rng, rng.permutation(nouns)[:pool])

    def attributes(self, pairs: np.ndarray, k: int, rng: np.random.Generator, pool: int = 0) -> np.ndarray:
        """Ids of attributes that are false of the objects of these pairs: shape (len(pairs), k).

        pool: not 0: of each pair's, those that come first in one random order of all attributes, each once, so that
        pairs share them; with the rule `any`, from so many attributes, as `nouns`. 0: each pair's independently.
        """
        return self._replacing("attribute", pairs, k, rng, pool)

    def relations(self, triples: np.ndarray, k: int, rng: np.random.Generator, pool: int = 0) -> np.ndarray:
        """Ids of relations that do not hold between subject and object of these triples: shape (len(triples), k).

        pool: as that of `attributes`.
        """
        return self._replacing("relation", triples, k, rng, pool)

    def _replacing(self, kind: str, items: np.ndarray, k: int, rng: np.random.Generator, pool: int) -> np.ndarray:
        lists = self._negatives[kind]
        rows = self._row[kind][items]
        words = self.words[kind]
        if self._rule == "any":
            ids = self._papers if kind == "attribute" else np.arange(len(words))
            return lists.sample_from(rows, k, rng, rng.permutation(ids)[: pool or len(ids)])
        return lists.sample_first(rows, k, rng.permutation(len(words))) if pool else lists.sample_inside(rows, k, rng)


def _exclusion_rows(kind: str, table: pa.Table, images: pa.Array, image: np.ndarray, objects: pa.Array) -> np.ndarray:
    """The row (n,) of a kind, for each image and object, in a table `component_exclusions`.

    images: the ids of all images. image: (n,) indices in it; objects: (n,) names. Raises KeyError for one without.
    """
    import pyarrow.compute as pc

    image_of_row = _indices(table["image_id"], images)
    rows = np.flatnonzero(pc.equal(table["kind"], kind).to_numpy() & (image_of_row >= 0))
    known = table["of"].take(rows).combine_chunks().dictionary_encode()
    keys = image_of_row[rows] * STRIDE + known.indices.to_numpy()
    order = np.argsort(keys, kind="stable")
    wanted = image * STRIDE + _indices(objects, known.dictionary)
    at = np.searchsorted(keys[order], wanted)
    has_row = np.append(keys[order], -1)[at] == wanted
    if not has_row.all():
        lacking = int(np.argmin(has_row))
        key = images[int(image[lacking])].as_py(), kind, objects[lacking].as_py()
        raise KeyError(f"component_exclusions must have a row for each image and object, has none for {key}")
    return rows[order][at]


def _indices(names: pa.Array, known: Any) -> np.ndarray:
    """The index (n,) of each name in `known`, a sequence of names; -1 for a name that is not there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = known if isinstance(known, pa.Array) else pa.array(known, pa.string())
    return pc.fill_null(pc.index_in(names, values), -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _allowed(word: np.ndarray, rows: np.ndarray, rivals: Ragged, excluded: Ragged) -> tuple[Ragged, np.ndarray]:
    """The rivals of words (n,) that cannot be true of what is excluded in `rows` (n,) of `excluded`.

    Equal pairs of word and row have their lists once: returns the lists, and for each of the n the index of its list. A
    word of -1 has no rivals.
    """
    keys, which = np.unique(rows * STRIDE + word + 1, return_inverse=True)
    row = keys // STRIDE
    word = keys % STRIDE - 1
    values = [np.empty(0, np.int32)]
    sizes = [np.empty(0, np.int64)]
    for start in range(0, len(keys), AT_ONCE):
        its = row[start : start + AT_ONCE]
        forbidden = excluded.keys(int(its[0]), int(its[-1]) + 1)
        known = np.flatnonzero(word[start : start + AT_ONCE] >= 0)
        ids, owner = rivals.entries(word[start + known])
        wanted = its[known][owner] * STRIDE + ids
        free = np.append(forbidden, -1)[np.searchsorted(forbidden, wanted)] != wanted
        values.append(ids[free])
        sizes.append(np.bincount(known[owner[free]], minlength=len(its)))
    return Ragged(np.concatenate(values), _offsets(np.concatenate(sizes))), which
