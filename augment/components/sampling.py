"""Sample negative components with arrays of ids, from the tables that negcap.schemas.captions describes.

    sampler = ComponentSampler(components, vocabulary, exclusions)
    sampler.nouns(captions, 16, rng)                    # (captions, 16): nouns that are not in the caption's image
    sampler.attributes(pairs, 8, rng)                   # (pairs, 8): attributes that are false of the pair's object
    sampler.nouns(sampler.pair_caption[pairs], 16, rng) # (pairs, 16): objects that make the pair false

A pair is an item of `components.attributes`, a triple an item of `components.relations`; both are numbered from 0
through the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..language.semantic_classes import attribute_table

if TYPE_CHECKING:
    import pyarrow as pa


# Instead of an id, if there is none to sample.
NOTHING = -1
# Two numbers in one, row * STRIDE + id: sorted by it, a row and an id are found together by bisection.
STRIDE = 1 << 32  # greater than every id
RULES = ("rivals", "any")
# Pairs or triples whose negatives are found at a time.
AT_ONCE = 1 << 12


class OwnedEntries(NamedTuple):
    """The values of some rows, one row after the other: (values,); owner: for each the number of its row among those
    that were asked for, (values,).
    """

    values: np.ndarray
    owner: np.ndarray


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
        return cls(values, _list_offsets(sizes))

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        """How many values these rows (n,) have: (n,)."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def entries(self, rows: np.ndarray) -> OwnedEntries:
        """All values of these rows (n,), which may repeat."""
        sizes = self.sizes(rows)
        owner = np.repeat(np.arange(len(rows)), sizes)
        # Where the values of each row begin in the result.
        first_of_row = np.cumsum(sizes) - sizes
        # The place of each value in its row.
        rank = np.arange(len(owner)) - first_of_row[owner]
        return OwnedEntries(self.values[self.offsets[rows][owner] + rank], owner)

    def select(self, rows: np.ndarray) -> Ragged:
        """The lists of these rows (n,), in this order."""
        return Ragged(self.entries(rows).values, _list_offsets(self.sizes(rows)))

    def keys(self, first: int, end: int) -> np.ndarray:
        """Row times STRIDE plus value, for all values of the rows from `first` to `end` (exclusive), ascending."""
        row = np.repeat(np.arange(first, end), np.diff(self.offsets[first : end + 1]))
        return row * STRIDE + self.values[self.offsets[first] : self.offsets[end]]

    def sample_inside(self, rows: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
        """Sample `k` values of each row, uniformly with replacement: shape (len(rows), k); NOTHING for an empty row."""
        size = self.sizes(rows)[:, None]
        samples = np.full((len(rows), k), NOTHING)
        # For an empty row this is the first position of the next one, which is not read.
        position = self.offsets[rows][:, None] + (rng.random(samples.shape) * size).astype(np.int64)
        is_full = np.broadcast_to(size > 0, samples.shape)
        samples[is_full] = self.values[position[is_full]]
        return samples

    def sample_first(self, rows: np.ndarray, k: int, order: np.ndarray) -> np.ndarray:
        """The `k` values of each row that come first in an order: shape (len(rows), k); NOTHING where there are fewer.

        order: (ids,) a number for each id, ascending in that order.
        """
        values, owner = self.entries(rows)
        # Sorted by row, and within a row by the order, since the second summand is less than 1.
        values = values[np.argsort(owner + order[values] / (order.max(initial=0) + 1))]
        size = self.sizes(rows)
        first_of_row = np.cumsum(size) - size
        position = first_of_row[:, None] + np.arange(k)
        is_inside = np.arange(k) < size[:, None]
        # One more value, which is looked up for positions behind the last row; they are not inside.
        padded = np.append(values, NOTHING)
        return np.where(is_inside, padded[position.clip(max=len(values))], NOTHING)

    def sample_from(self, rows: np.ndarray, k: int, rng: np.random.Generator, pool: np.ndarray) -> np.ndarray:
        """Sample `k` ids of a pool (p,) that are not in each row, uniformly with replacement: shape (len(rows), k).

        NOTHING for a row with all ids of the pool.
        """
        is_outside = ~_are_among(self._keys, rows[:, None] * STRIDE + pool)  # (len(rows), p)
        # For each row the positions in the pool, first of the ids that are not in the row.
        outside_first = np.argsort(~is_outside, axis=1, kind="stable")
        free = is_outside.sum(1, keepdims=True)
        rank = (rng.random((len(rows), k)) * free).astype(np.int64)  # the numbers of the sampled ids among these
        if not len(pool):
            return np.full_like(rank, NOTHING)
        return np.where(free > 0, pool[np.take_along_axis(outside_first, rank, 1)], NOTHING)

    def sample_outside(self, rows: np.ndarray, k: int, rng: np.random.Generator, limit: int) -> np.ndarray:
        """Sample `k` ids below `limit` that are not in each row, uniformly with replacement: shape (len(rows), k).

        NOTHING for a row with all ids. The r-th id outside a row, from 0, is r plus the number of values below it. The
        value number i of a row has value - i free ids below it, so those below are the values with value - i <= r: of
        the row [0, 2, 3], where these are [0, 1, 1], id 1 is the first outside (r = 0, one value below) and 4 the next.
        """
        free = limit - self.sizes(rows)[:, None]
        rank = (rng.random((len(rows), k)) * free).astype(np.int64)  # r
        # How many values of the row are below the r-th id outside it, found in all rows at once.
        keys = rows[:, None] * STRIDE + rank
        inside = np.searchsorted(self._free_keys, keys, side="right") - self.offsets[rows][:, None]
        return np.where(free > 0, rank + inside, NOTHING)

    @cached_property
    def _keys(self) -> np.ndarray:
        """The `keys` of all rows."""
        return self.keys(0, len(self.offsets) - 1)

    @cached_property
    def _free_keys(self) -> np.ndarray:
        """For each value, its row times STRIDE, plus the number of free ids below it (see `sample_outside`); ascending.

        That number is the value minus its rank in the row.
        """
        rank = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        return self._keys - rank


class ComponentSampler:
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
        self._rule = rule
        paper_attributes = attribute_table().univse
        is_of_paper = [word in paper_attributes for word in self.words["attribute"]]
        self._paper_attributes = np.flatnonzero(np.array(is_of_paper, bool))

        # From here on an image is its number in `images`.
        encoded = components["image_id"].combine_chunks().dictionary_encode()
        images = encoded.dictionary
        self._image = encoded.indices.to_numpy().astype(np.int64)  # of each caption
        excluded = Ragged.from_lists(exclusions["ids"].combine_chunks())
        every_image = np.arange(len(images))
        no_object = pa.repeat("", len(images))
        self._nouns = excluded.select(_exclusion_rows("noun", exclusions, images, every_image, no_object))

        # Attributes and relations: for each pair or triple the row of its list. By the rule `rivals` the list has the
        # ids to sample from, by `any` the ids not to sample.
        self._lists: dict[str, Ragged] = {}
        self._row: dict[str, np.ndarray] = {}
        captions = {}  # of each pair ("attribute") or triple ("relation"), the row of its caption
        for kind in ("attribute", "relation"):
            column = components[f"{kind}s"].combine_chunks()
            sizes = column.value_lengths().to_numpy(zero_copy_only=False)
            captions[kind] = np.repeat(np.arange(len(column)), sizes)
            items = column.flatten()
            word = _index_of_names(items.field(kind), self.words[kind])
            image = self._image[captions[kind]]
            if rule == "any":
                self._lists[kind] = _words_stated_of_images(word, image, len(images))
                self._row[kind] = image
            else:
                rows = _exclusion_rows(kind, exclusions, images, image, items.field("object"))
                self._lists[kind], self._row[kind] = _rivals_that_are_false(word, rows, rivals[kind], excluded)
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

        pool: if it is not 0, pairs share attributes: each gets those of its own that come first in one random order of
        all attributes, each once; with the rule `any`, all draw from a pool of this size, as in `nouns`. 0: each pair
        draws independently.
        """
        return self._sample_replacements("attribute", pairs, k, rng, pool)

    def relations(self, triples: np.ndarray, k: int, rng: np.random.Generator, pool: int = 0) -> np.ndarray:
        """Ids of relations that do not hold between subject and object of these triples: shape (len(triples), k).

        pool: if it is not 0, triples share relations, as pairs share attributes in `attributes`; 0: each draws alone.
        """
        return self._sample_replacements("relation", triples, k, rng, pool)

    def _sample_replacements(
        self, kind: str, items: np.ndarray, k: int, rng: np.random.Generator, pool: int
    ) -> np.ndarray:
        """Sample ids of a kind for pairs or triples: shape (len(items), k).

        Args:
            kind: "attribute", for pairs, or "relation", for triples.
            items: numbers of pairs or triples.
            k: how many ids each gets.
            rng: of the random numbers.
            pool: see `attributes`.
        """
        lists = self._lists[kind]
        rows = self._row[kind][items]
        words = len(self.words[kind])
        if self._rule == "any":
            ids = self._paper_attributes if kind == "attribute" else np.arange(words)
            return lists.sample_from(rows, k, rng, rng.permutation(ids)[: pool or len(ids)])
        if pool:
            return lists.sample_first(rows, k, rng.permutation(words))
        return lists.sample_inside(rows, k, rng)


def _exclusion_rows(kind: str, table: pa.Table, images: pa.Array, image: np.ndarray, objects: pa.Array) -> np.ndarray:
    """The rows of a table `component_exclusions` for some images and objects: (n,).

    Args:
        kind: of the rows.
        table: the table.
        images: the ids of all images.
        image: the number in `images` of each, (n,).
        objects: the name of each object, (n,).

    Raises:
        KeyError: the table lacks a row.
    """
    import pyarrow.compute as pc

    image_of_row = _index_of_names(table["image_id"], images)
    rows = np.flatnonzero(pc.equal(table["kind"], kind).to_numpy() & (image_of_row >= 0))
    names = table["of"].take(rows).combine_chunks().dictionary_encode()
    keys = image_of_row[rows] * STRIDE + names.indices.to_numpy()
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    wanted = image * STRIDE + _index_of_names(objects, names.dictionary)
    has_row = _are_among(keys, wanted)
    if not has_row.all():
        lacking = int(np.argmin(has_row))
        key = (images[int(image[lacking])].as_py(), kind, objects[lacking].as_py())
        raise KeyError(f"component_exclusions must have a row for each image and object, has none for {key}")
    return rows[order][np.searchsorted(keys, wanted)]


def _index_of_names(names: pa.Array, known: pa.Array | Sequence[str]) -> np.ndarray:
    """The index (n,) of each name in `known`; -1 for a name that is not there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = known if isinstance(known, pa.Array) else pa.array(known, pa.string())
    return pc.fill_null(pc.index_in(names, values), -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _are_among(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """A mask of the wanted numbers (any shape, at least -1) that are among some sorted keys (at least 0)."""
    # A number above all keys is looked up behind the last one: the -2 there equals no wanted number.
    return np.append(keys, -2)[np.searchsorted(keys, wanted)] == wanted


def _list_offsets(sizes: np.ndarray) -> np.ndarray:
    """Where each list of these sizes begins, and where the last ends: (lists + 1,)."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _words_stated_of_images(word: np.ndarray, image: np.ndarray, images: int) -> Ragged:
    """The words that captions state of each image: a row of ids for each image.

    word, image: of each statement, the id of its word and the number of its image, (n,). A word of -1, which the
    vocabulary does not have, is left out.
    """
    keys = np.unique((image * STRIDE + word)[word >= 0])
    sizes = np.bincount(keys // STRIDE, minlength=images)
    return Ragged((keys % STRIDE).astype(np.int32), _list_offsets(sizes))


class SharedLists(NamedTuple):
    """Lists of ids; several pairs or triples may share one. row: for each pair or triple, the row of its list."""

    lists: Ragged
    row: np.ndarray


def _rivals_that_are_false(word: np.ndarray, rows: np.ndarray, rivals: Ragged, excluded: Ragged) -> SharedLists:
    """For each pair or triple, the words that may stand in place of its word and are false then.

    Args:
        word: the id of the attribute or relation of each, -1 if the vocabulary does not have it, (n,).
        rows: for each, the row of `excluded` that says what may be true of its image and object, (n,).
        rivals: for each word, those that are incompatible with it.
        excluded: the ids that may be true.
    """
    # One list for each distinct pair of a row and a word, by row. In a key, 1 is added to the word, which may be -1.
    keys, row_of_list = np.unique(rows * STRIDE + word + 1, return_inverse=True)
    row = keys // STRIDE
    word = keys % STRIDE - 1
    values = [np.empty(0, np.int32)]
    sizes = [np.empty(0, np.int64)]
    for start in range(0, len(keys), AT_ONCE):  # in blocks, as the keys of all rows would take much memory
        block_rows = row[start : start + AT_ONCE]
        forbidden = excluded.keys(int(block_rows[0]), int(block_rows[-1]) + 1)
        is_known = np.flatnonzero(word[start : start + AT_ONCE] >= 0)
        ids, owner = rivals.entries(word[start + is_known])
        owner = is_known[owner]  # of each id, its row in the block
        is_free = ~_are_among(forbidden, block_rows[owner] * STRIDE + ids)
        values.append(ids[is_free])
        sizes.append(np.bincount(owner[is_free], minlength=len(block_rows)))
    return SharedLists(Ragged(np.concatenate(values), _list_offsets(np.concatenate(sizes))), row_of_list)
