"""WordNet 3.0 as arrays: senses by frequency, the hypernym taxonomy and antonyms.

Built by `negcap.pipelines.resources.wordnet`; Fellbaum (ed.), WordNet: An Electronic Lexical Database (1998). The first
sense in use of a noun is the one that it mostly has in captions, by data/senses.toml: "van" is a vehicle, no
avant-garde. A synset is an int, its row in the table. Lemmas are looked up in lower case; "hot dog" and "hot_dog" are
the same. Parts of speech are "n", "v", "a" (satellite adjectives included) and "r"; others raise ValueError. An
unknown lemma has no senses and raises no error.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..caption import cached, read_only
from ..data import data_path

POS = ("n", "v", "a", "r")
TABLE_POS = ("n", "v", "a", "s", "r")  # as the table has them: "s" is a satellite adjective
ABOVE_RANKS = 128  # no lemma has so many senses of one part of speech
ABOVE = ("hypernyms", "instance_of")
RELATIONS = ("hypernyms", "instance_of", "entails", "causes", "part_of", "member_of", "substance_of", "similar")
# Senses in use: the first, and those tagged at least USE_COUNT times and in a share USE_SHARE of the lemma's tags:
# "dog" is an animal and no chap, "glass" a material and a vessel. If a noun is not tagged at all ("kite", whose first
# sense is a bad cheque), all its senses that are things are in use as well.
USE_COUNT = 2
USE_SHARE = 0.05
LEMMAS = 1 << 17  # number of lemmas or synsets whose results are cached: all that occur


class NumberLists(NamedTuple):
    """A column of lists of numbers: the list of row i is `values[offsets[i]:offsets[i + 1]]`."""

    offsets: np.ndarray
    values: np.ndarray


class WordNet:
    """The taxonomy; it does not change, and results are cached by lemma and synset."""

    def __init__(self, table: pa.Table, in_captions: Mapping[str, str] | None = None) -> None:
        """Index the table of synsets.

        Args:
            table: a row for each synset: its part of speech (pos), lexicographer file (lexname), its relations to other
                synsets, which are lists of rows, and its senses. A sense is a lemma of the synset, with its rank among
                the senses of that lemma, its count in WordNet's corpora, and the senses that are its antonyms or
                derived from it.
            in_captions: the name of a noun's predominant sense in captions, where that is not the first.
        """
        self._in_captions = in_captions or {}
        table = table.combine_chunks()
        self._pos = pc.index_in(table["pos"], pa.array(TABLE_POS)).to_numpy().astype(np.int8)
        lexnames = table["lexname"].combine_chunks().dictionary_encode()
        self._lexnames = lexnames.dictionary.to_pylist()
        self._lexname = lexnames.indices.to_numpy().astype(np.int8)
        self._relations = {name: _number_lists(table[name]) for name in RELATIONS}
        self._has_parts = np.zeros(len(table), bool)
        self._has_parts[self._relations["part_of"].values] = True
        # The senses of all synsets, one synset after the other: those of synset i begin at position self._first[i].
        senses = table["senses"].chunk(0)
        flat = senses.flatten()
        self._first = senses.offsets.to_numpy()
        self._synset = np.repeat(np.arange(len(table), dtype=np.int32), np.diff(self._first))
        self._count = flat.field("count").to_numpy()
        self._rank = flat.field("rank").to_numpy()
        self._antonyms = _number_lists(flat.field("antonyms"))
        self._derived = _number_lists(flat.field("derived"))
        # The lemmas are numbered in alphabetical order, the senses sorted by lemma, part of speech and rank.
        lemmas = flat.field("lemma").dictionary_encode()
        sorted_lemmas = pc.array_sort_indices(lemmas.dictionary)
        self._lemma_names = lemmas.dictionary.take(sorted_lemmas).to_pylist()
        self._lemma_of_sense = np.argsort(sorted_lemmas).astype(np.int32)[lemmas.indices]
        # A key holds a lemma and one of the four parts of speech of POS, so that the senses of both are neighbours:
        # `_sense_positions` bisects for them. The table has five, as it tells satellite adjectives (s) from others (a).
        index_in_pos = np.array([POS.index("a" if pos == "s" else pos) for pos in TABLE_POS])
        key = self._lemma_of_sense.astype(np.int64) * len(POS) + index_in_pos[self._pos[self._synset]]
        self._order = np.argsort(key * ABOVE_RANKS + self._rank, kind="stable").astype(np.int32)
        self._keys = key[self._order].astype(np.int32)

    @staticmethod
    @cache
    def load() -> WordNet:
        """The shipped WordNet, loaded once per process."""
        with data_path("wordnet.parquet").open("rb") as file:
            senses = tomllib.loads(data_path("senses.toml").read_text("utf-8"))
            wordnet = WordNet(pq.ParquetFile(file).read(), {**senses["by_neighbours"], **senses["by_hand"]})
        pa.default_memory_pool().release_unused()
        return wordnet

    def __len__(self) -> int:
        """The number of synsets."""
        return len(self._pos)

    def senses(self, lemma: str, pos: str) -> tuple[int, ...]:
        """The synsets of a lemma, most frequent first; () for an unknown lemma."""
        return tuple(self._synset[self._sense_positions(lemma, pos)].tolist())

    def tag_counts(self, lemma: str, pos: str) -> tuple[int, ...]:
        """How often each of `senses(lemma, pos)` is tagged in WordNet's corpora."""
        return tuple(self._count[self._sense_positions(lemma, pos)].tolist())

    @cached(LEMMAS)
    def senses_in_use(self, lemma: str, pos: str) -> tuple[int, ...]:
        """The senses that are common in everyday text, first the one that a noun mostly has in captions, then the most
        frequent ones.

        See `USE_COUNT`, `USE_SHARE`. The first sense is always included, unless it is a proper name that was never
        tagged (Crane, the writer) and other senses follow.
        """
        senses = list(zip(self.senses(lemma, pos), self.tag_counts(lemma, pos), strict=True))
        total = sum(count for _, count in senses)
        if not total:  # never tagged: proper names are left out, if that leaves any
            senses = [sense for sense in senses if not self.relation("instance_of", sense[0])] or senses
        if pos == "n" and (name := self._in_captions.get(_normalise_lemma(lemma))):
            in_captions = self.synset(name)
            senses.sort(key=lambda sense: sense[0] != in_captions)  # it comes first, the others stay in order
        least = max(USE_COUNT, USE_SHARE * total)
        return tuple(
            synset
            for rank, (synset, count) in enumerate(senses)
            if rank == 0 or count >= least or (not total and self._is_thing(synset))
        )

    def name(self, synset: int) -> str:
        """The name of a synset by its first lemma: "dog.n.01"."""
        sense = int(self._first[synset])
        pos = TABLE_POS[self._pos[synset]]
        return f"{self._lemma_names[self._lemma_of_sense[sense]].replace(' ', '_')}.{pos}.{self._rank[sense]:02d}"

    def synset(self, name: str) -> int:
        """The synset of a name such as "dog.n.01"; the name may use any lemma of the synset.

        Raises ValueError for an unknown name.
        """
        lemma_and_pos, _, number = name.rpartition(".")
        lemma, _, pos = lemma_and_pos.rpartition(".")
        # A satellite adjective, "s", is among the adjectives.
        senses = self.senses(lemma, "a" if pos == "s" else pos) if pos in (*POS, "s") else ()
        if not number.isdecimal() or not 1 <= int(number) <= len(senses):
            raise ValueError(f"synset must be the name of a WordNet synset (dog.n.01), was: {name}")
        return senses[int(number) - 1]

    def pos(self, synset: int) -> str:
        """The part of speech of a synset, one of `POS`."""
        return "nvaar"[self._pos[synset]]  # as TABLE_POS, with "a" for a satellite adjective

    def lexname(self, synset: int) -> str:
        """The lexicographer file of a synset: "noun.artifact"."""
        return self._lexnames[self._lexname[synset]]

    def relation(self, name: str, synset: int) -> tuple[int, ...]:
        """The synsets to which `synset` has the relation `name`, one of `RELATIONS`."""
        return _list_of_row(self._relations[name], synset)

    def has_parts(self, synset: int) -> bool:
        """Whether WordNet lists parts of the synset: a car has wheels."""
        return bool(self._has_parts[synset])

    def closure(self, synset: int) -> frozenset[int]:
        """The synset and all its ancestors, by hypernymy and instance-of: dog, canine, …, animal, …, entity."""
        return self._closure(synset, ABOVE)

    def related(self, a: str, b: str, pos: str = "n") -> bool:
        """Whether, in their senses in use, `a` and `b` share a synset or one is an ancestor of the other.

        dog~animal, pizza~food, dog~puppy, not dog~cat.
        """
        return not (
            self._upward(a, pos).isdisjoint(self.senses_in_use(b, pos))
            and self._upward(b, pos).isdisjoint(self.senses_in_use(a, pos))
        )

    @cached(LEMMAS)
    def antonyms(self, lemma: str, pos: str) -> frozenset[str]:
        """The antonyms of the lemma in any sense: "big" -> "little"."""
        opposites: list[int] = []  # positions in the flat list of all senses
        for sense in self._sense_positions(lemma, pos).tolist():
            opposites += _list_of_row(self._antonyms, sense)
        return frozenset(self._lemma_names[lemma_number] for lemma_number in self._lemma_of_sense[opposites].tolist())

    def derived(self, lemma: str, pos: str, target: str) -> frozenset[str]:
        """The lemmas with part of speech `target` that are derivationally related: "ride" (v) -> "rider" (n)."""
        derived: set[int] = set()  # positions in the flat list of all senses
        for sense in self._sense_positions(lemma, pos).tolist():
            derived.update(_list_of_row(self._derived, sense))
        return frozenset(
            self._lemma_names[self._lemma_of_sense[other]]
            for other in derived
            if self.pos(int(self._synset[other])) == target
        )

    def entails(self, verb: str, other: str) -> bool:
        """Whether doing `verb` is, entails or causes doing `other`, in their senses in use: snore -> sleep."""
        return not self._entailed(verb).isdisjoint(self.senses_in_use(other, "v"))

    @cached(LEMMAS)
    def _entailed(self, verb: str) -> frozenset[int]:
        """The synsets that a verb in one of its senses in use is, entails or causes, directly or by others."""
        relations = ("hypernyms", "entails", "causes")
        return frozenset().union(*(self._closure(synset, relations) for synset in self.senses_in_use(verb, "v")))

    @cached(LEMMAS)
    def _sense_positions(self, lemma: str, pos: str) -> np.ndarray:
        """The positions of the lemma's senses in the flat list of all senses, by rank."""
        if pos not in POS:
            raise ValueError(f"pos must be one of {', '.join(POS)}, was: {pos}")
        name = _normalise_lemma(lemma)
        code = bisect_left(self._lemma_names, name)
        if self._lemma_names[code : code + 1] != [name]:
            return self._order[:0]
        key = code * len(POS) + POS.index(pos)
        wanted = np.array([key, key + 1], self._keys.dtype)  # of another type, all keys would be converted
        return self._order[slice(*np.searchsorted(self._keys, wanted))]

    @cached(LEMMAS)
    def _closure(self, synset: int, relations: tuple[str, ...]) -> frozenset[int]:
        """The synset and all synsets that are reached from it by these relations."""
        reached = {synset}
        pending = [synset]
        while pending:
            current = pending.pop()
            for name in relations:
                fresh = [above for above in _list_of_row(self._relations[name], current) if above not in reached]
                reached.update(fresh)
                pending.extend(fresh)
        return frozenset(reached)

    @cached(8)
    def first_above(self, *anchors: str) -> np.ndarray:
        """For each synset, the index of the first of `anchors` that is the synset or above it; len(anchors) if none is.

        anchors: names of synsets. The result has shape (synsets,) and is read-only.
        """
        above = [self._relations[name] for name in ABOVE]
        below = np.concatenate([np.repeat(np.arange(len(self)), np.diff(lists.offsets)) for lists in above])
        order = np.argsort(below, kind="stable")
        parents = np.concatenate([lists.values for lists in above])[order]
        children, starts = np.unique(below[order], return_index=True)
        # Bits are handed down the taxonomy, all synsets at once, level by level.
        anchors_above = np.zeros(len(self), np.int64)  # bit i: anchor i is in the closure
        for index, anchor in enumerate(anchors):
            anchors_above[self.synset(anchor)] |= 1 << index
        before = None  # until nothing changes, each synset takes over the bits of its parents
        while before is None or not np.array_equal(anchors_above, before):
            before = anchors_above.copy()
            anchors_above[children] |= np.bitwise_or.reduceat(before[parents], starts)
        lowest_bit = anchors_above & -anchors_above
        first = np.frexp(lowest_bit.astype(float))[1] - 1  # its position
        return read_only(np.where(anchors_above, first, len(anchors)))

    def _is_thing(self, synset: int) -> bool:
        """Whether a synset is a sort of physical thing: no person, and no proper name. So "boxer" is, as the dog."""
        # 1: the second of these is the first that is above the synset, so it is no person.
        is_thing = self.first_above("person.n.01", "physical_entity.n.01")[synset] == 1
        return bool(is_thing) and not self.relation("instance_of", synset)

    @cached(LEMMAS)
    def _upward(self, lemma: str, pos: str) -> frozenset[int]:
        """The senses in use of a lemma, and all their ancestors."""
        return frozenset().union(*(self.closure(synset) for synset in self.senses_in_use(lemma, pos)))


def _normalise_lemma(lemma: str) -> str:
    """A lemma as the table has it: in lower case, with spaces."""
    return lemma.lower().replace("_", " ")


def _number_lists(column: pa.ChunkedArray | pa.ListArray) -> NumberLists:
    """A list column as arrays. A chunked one has one chunk, as its table was combined."""
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return NumberLists(array.offsets.to_numpy(), array.values.to_numpy())


def _list_of_row(lists: NumberLists, index: int) -> tuple[int, ...]:
    """The list of one row."""
    start = lists.offsets[index]
    end = lists.offsets[index + 1]
    return tuple(lists.values[start:end].tolist()) if end > start else ()


def senses_of_entry(entry: str, pos: str) -> tuple[int, ...]:
    """The senses in use of a word or compound; those of its head if WordNet lacks it ("beach umbrella")."""
    wordnet = WordNet.load()
    return wordnet.senses_in_use(entry, pos) or wordnet.senses_in_use(entry.rpartition(" ")[2], pos)


@cache
def first_sense(entry: str, pos: str = "n") -> str | None:
    """The name of the first of `senses_of_entry`: "tennis racket" -> "tennis_racket.n.01"; None if there is none."""
    senses = senses_of_entry(entry, pos)
    return WordNet.load().name(senses[0]) if senses else None
