"""WordNet 3.0 as arrays: senses in order of frequency, the whole taxonomy above them, antonyms, base forms.

Built by `negcap.pipelines.resources.wordnet`; Fellbaum (ed.), WordNet: An Electronic Lexical Database (1998). A synset
is an int, the row of its table. Lemmas are looked up in lower case; "hot dog" and "hot_dog" are the same. Parts of
speech are "n", "v", "a" (satellite adjectives included) and "r". An unknown lemma has no senses; nothing here raises
for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from negcap.augment.data import data_path

POS = ("n", "v", "a", "r")
ABOVE = ("hypernyms", "instance_of")
RELATIONS = ("hypernyms", "instance_of", "entails", "causes", "part_of", "member_of", "substance_of", "similar")
# Suffix rules of morphy(7WN).
SUFFIXES = {
    "n": (("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"))
    + (("men", "man"), ("ies", "y")),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
# Which senses are in use. Beyond the first, one tagged at least USE_COUNT times and in USE_SHARE of the lemma's tags:
# "dog" is an animal and no chap, "glass" a material and a vessel. WordNet's corpora are small: of a noun with fewer
# than USE_THIN tags in all ("kite", whose first sense is a bad cheque), every sense that is a thing is in use as well.
USE_COUNT = 2
USE_SHARE = 0.05
USE_THIN = 5


@cache
def _load() -> WordNet:
    """The shipped taxonomy, read once a process."""
    with data_path("wordnet.parquet").open("rb") as file:
        wordnet = WordNet(pq.ParquetFile(file).read())
    pa.default_memory_pool().release_unused()
    return wordnet


class WordNet:
    """The taxonomy; read-only, its answers cached by lemma and synset."""

    def __init__(self, table: pa.Table) -> None:
        """Index a table of schema `negcap.schemas.taxonomy`."""
        table = table.combine_chunks()
        self._pos = _codes(table["pos"], ("n", "v", "a", "s", "r"))
        self._lexnames, self._lexname = _dictionary(table["lexname"])
        self._relations = {name: _lists(table[name]) for name in RELATIONS}
        self._has_parts = np.zeros(len(table), bool)
        self._has_parts[self._relations["part_of"][1]] = True
        senses = table["senses"].chunk(0)
        flat = senses.flatten()
        self._first = senses.offsets.to_numpy()
        self._synset = np.repeat(np.arange(len(table), dtype=np.int32), np.diff(self._first))
        self._count = flat.field("count").to_numpy()
        self._rank = flat.field("rank").to_numpy()
        self._antonyms, self._derived = _lists(flat.field("antonyms")), _lists(flat.field("derived"))
        self._index(flat.field("lemma"))
        self._irregular: dict[tuple[str, str], tuple[str, ...]] = {}
        irregular = table["irregular"].chunk(0)
        owners = np.repeat(np.arange(len(table)), np.diff(irregular.offsets.to_numpy())).tolist()
        for row, pair in zip(owners, irregular.flatten().to_pylist(), strict=True):
            key = (pair["form"], self.pos(row))
            self._irregular[key] = (*self._irregular.get(key, ()), pair["lemma"])
        self._found: dict[tuple[str, str], np.ndarray] = {}
        self._used: dict[tuple[str, str], tuple[int, ...]] = {}
        self._above: dict[tuple[str, str], frozenset[int]] = {}
        self._closures: dict[tuple[int, tuple[str, ...]], frozenset[int]] = {}
        self._entailed: dict[str, frozenset[int]] = {}

    @staticmethod
    def load() -> WordNet:
        """The shipped WordNet, loaded once a process."""
        return _load()

    def __len__(self) -> int:
        """The number of synsets."""
        return len(self._pos)

    def senses(self, lemma: str, pos: str) -> tuple[int, ...]:
        """The synsets of a lemma, the commonest first; () for an unknown one."""
        return tuple(self._synset[self._flat(lemma, pos)].tolist())

    def tag_counts(self, lemma: str, pos: str) -> tuple[int, ...]:
        """How often each of `senses(lemma, pos)` was tagged in WordNet's corpora."""
        return tuple(self._count[self._flat(lemma, pos)].tolist())

    def senses_in_use(self, lemma: str, pos: str) -> tuple[int, ...]:
        """The senses that everyday text means, the commonest first; see `USE_COUNT`, `USE_SHARE`, `USE_THIN`.

        The first sense is among them, unless it is a proper name never tagged (Crane, the writer) before others.
        """
        used = self._used.get((lemma, pos))
        if used is None:
            pairs = list(zip(self.senses(lemma, pos), self.tag_counts(lemma, pos), strict=True))
            total = sum(count for _, count in pairs)
            if not total:
                pairs = [pair for pair in pairs if not self.relation("instance_of", pair[0])] or pairs
            least = max(USE_COUNT, USE_SHARE * total)
            used = tuple(
                synset
                for rank, (synset, count) in enumerate(pairs)
                if not rank or count >= least or (total < USE_THIN and self._is_thing(synset))
            )
            self._used[lemma, pos] = used
        return used

    def name(self, synset: int) -> str:
        """The synset's name after its first lemma: "dog.n.01"."""
        sense = int(self._first[synset])
        pos = "nvasr"[self._pos[synset]]
        return f"{self._lemmas[int(self._lemma[sense])].replace(' ', '_')}.{pos}.{self._rank[sense]:02d}"

    def synset(self, name: str) -> int:
        """The synset of a name such as "dog.n.01"; any lemma of the synset may lead the name.

        Raises ValueError for a name that is none.
        """
        lemma, _, rest = name.rpartition(".")[0].rpartition(".")
        number = name.rpartition(".")[2]
        senses = self.senses(lemma, "a" if rest == "s" else rest) if rest in (*POS, "s") else ()
        if not number.isdecimal() or not 1 <= int(number) <= len(senses):
            raise ValueError(f"synset must be the name of a WordNet synset (dog.n.01), was: {name}")
        return senses[int(number) - 1]

    def pos(self, synset: int) -> str:
        """The synset's part of speech, one of `POS`."""
        return "nvaar"[self._pos[synset]]

    def lexname(self, synset: int) -> str:
        """The synset's lexicographer file: "noun.artifact"."""
        return self._lexnames[self._lexname[synset]]

    def lemmas(self, synset: int) -> tuple[str, ...]:
        """The lemmas of a synset, words apart by a blank."""
        return tuple(self._lemmas[code] for code in self._lemma[self._first[synset] : self._first[synset + 1]].tolist())

    def relation(self, name: str, synset: int) -> tuple[int, ...]:
        """The synsets that `synset` points at by one of `RELATIONS`. Raises ValueError for another name."""
        if name not in self._relations:
            raise ValueError(f"relation must be one of {', '.join(RELATIONS)}, was: {name}")
        return _item(self._relations[name], synset)

    def has_parts(self, synset: int) -> bool:
        """Whether WordNet lists parts of the synset: a car has wheels."""
        return bool(self._has_parts[synset])

    def closure(self, synset: int) -> frozenset[int]:
        """The synset and everything above it, by hypernyms and by what it is an instance of."""
        return self._closure(synset, ABOVE)

    def related(self, a: str, b: str, pos: str = "n") -> bool:
        """Whether, in the senses in use, `a` and `b` share a synset or one lies above the other.

        dog~animal, pizza~food, dog~puppy, not dog~cat.
        """
        return not (
            self._upward(a, pos).isdisjoint(self.senses_in_use(b, pos))
            and self._upward(b, pos).isdisjoint(self.senses_in_use(a, pos))
        )

    def is_a(self, lemma: str, synset: str, pos: str = "n") -> bool:
        """Whether a sense in use of the lemma is, or lies below, the synset of that name: dog, "animal.n.01"."""
        return self.synset(synset) in self._upward(lemma, pos)

    def synonyms(self, lemma: str, pos: str) -> frozenset[str]:
        """The other lemmas of the senses in use."""
        found = {other for synset in self.senses_in_use(lemma, pos) for other in self.lemmas(synset)}
        return frozenset(found - {_normal(lemma)})

    def antonyms(self, lemma: str, pos: str, *, indirect: bool = False) -> frozenset[str]:
        """The opposites of the lemma in any sense: "big" -> "little".

        `indirect` adds the opposites of the adjectives it is similar to: "huge" -> "small".
        """
        found: set[str] = set()
        for sense in self._flat(lemma, pos).tolist():
            opposites = list(_item(self._antonyms, sense))
            if indirect:
                for synset in self.relation("similar", int(self._synset[sense])):
                    for near in range(self._first[synset], self._first[synset + 1]):
                        opposites.extend(_item(self._antonyms, near))
            found.update(self._lemmas[code] for code in self._lemma[opposites].tolist())
        return frozenset(found)

    def derived(self, lemma: str, pos: str, target: str) -> frozenset[str]:
        """Lemmas of part of speech `target` derived from the lemma or it from them: "ride" (v) -> "rider" (n)."""
        found = {other for sense in self._flat(lemma, pos).tolist() for other in _item(self._derived, sense)}
        return frozenset(
            self._lemmas[int(self._lemma[other])] for other in found if self.pos(int(self._synset[other])) == target
        )

    def entails(self, verb: str, other: str) -> bool:
        """Whether doing `verb` is, entails or causes doing `other`, in the senses in use: snore -> sleep."""
        reached = self._entailed.get(verb)
        if reached is None:
            relations = ("hypernyms", "entails", "causes")
            closures = [self._closure(synset, relations) for synset in self.senses_in_use(verb, "v")]
            reached = self._entailed[verb] = frozenset().union(*closures)
        return not reached.isdisjoint(self.senses_in_use(other, "v"))

    def base_form(self, word: str, pos: str) -> str | None:
        """The lemma of an inflected word (geese -> goose, riding -> ride), None where WordNet knows none.

        As morphy(7WN), but an irregular form precedes a lemma of the same spelling (men -> man), and of several lemmas
        by rule the one tagged most is taken (swinging -> swing, not swinge). Of a compound that is no lemma the last
        word is reduced (dog houses -> dog house).
        """
        word = _normal(word)
        for lemma in (*self._irregular.get((word, pos), ()), word):
            if len(self._flat(lemma, pos)):
                return lemma
        lemmas = [word.removesuffix(suffix) + ending for suffix, ending in SUFFIXES[pos] if word.endswith(suffix)]
        known = [lemma for lemma in lemmas if len(self._flat(lemma, pos))]
        if known:
            return max(known, key=lambda lemma: sum(self.tag_counts(lemma, pos)))
        first, blank, last = word.rpartition(" ")
        reduced = self.base_form(last, pos) if blank else None
        return f"{first} {reduced}" if reduced else None

    def _index(self, texts: pa.StringArray) -> None:
        """Sort the senses by lemma, part of speech and rank, and number the lemmas."""
        encoded = texts.dictionary_encode()
        self._lemma, self._lemmas = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        self._codes = dict(zip(self._lemmas, range(len(self._lemmas)), strict=True))
        key = self._lemma.astype(np.int64) * 4 + np.array([0, 1, 2, 2, 3])[self._pos[self._synset]]
        self._order = np.argsort(key * 128 + self._rank, kind="stable").astype(np.int32)
        self._keys = key[self._order].astype(np.int32)

    def _flat(self, lemma: str, pos: str) -> np.ndarray:
        """Positions of the lemma's senses in the flat list of all senses, by rank."""
        found = self._found.get((lemma, pos))
        if found is None:
            if pos not in POS:
                raise ValueError(f"pos must be one of {', '.join(POS)}, was: {pos}")
            code = self._codes.get(_normal(lemma))
            found = self._order[:0]
            if code is not None:
                key = code * 4 + POS.index(pos)
                wanted = np.array([key, key + 1], self._keys.dtype)  # of another type, all keys would be converted
                found = self._order[slice(*np.searchsorted(self._keys, wanted))]
            self._found[lemma, pos] = found
        return found

    def _closure(self, synset: int, relations: tuple[str, ...]) -> frozenset[int]:
        """The synset and everything reached from it by the relations."""
        found = self._closures.get((synset, relations))
        if found is None:
            reached, pending = {synset}, [synset]
            while pending:
                current = pending.pop()
                for name in relations:
                    fresh = [above for above in _item(self._relations[name], current) if above not in reached]
                    reached.update(fresh)
                    pending.extend(fresh)
            found = self._closures[synset, relations] = frozenset(reached)
        return found

    def first_above(self, anchors: Sequence[int]) -> np.ndarray:
        """For every synset the index of the first of `anchors` in its closure, len(anchors) for none; (synsets,)."""
        above = [self._relations[name] for name in ABOVE]
        below = np.concatenate([np.repeat(np.arange(len(self)), np.diff(offsets)) for offsets, _ in above])
        order = np.argsort(below, kind="stable")
        parents = np.concatenate([values for _, values in above])[order]
        children, starts = np.unique(below[order], return_index=True)
        found = np.zeros(len(self), np.int64)  # bit i: anchor i is in the closure
        for index, anchor in enumerate(anchors):
            found[anchor] |= 1 << index
        before = None
        while before is None or not np.array_equal(found, before):
            before = found.copy()
            found[children] |= np.bitwise_or.reduceat(before[parents], starts)
        first = np.frexp((found & -found).astype(float))[1] - 1
        return np.where(found, first, len(anchors))

    def _is_thing(self, synset: int) -> bool:
        """Whether a synset is below "physical entity" but not "person" ("boxer", the dog)."""
        return bool(self._things[synset]) and not self.relation("instance_of", synset)

    @cached_property
    def _things(self) -> np.ndarray:
        person, entity = self.synset("person.n.01"), self.synset("physical_entity.n.01")
        return self.first_above([person, entity]) == 1

    def _upward(self, lemma: str, pos: str) -> frozenset[int]:
        """The closures of the senses in use, together."""
        found = self._above.get((lemma, pos))
        if found is None:
            found = frozenset().union(*(self.closure(synset) for synset in self.senses_in_use(lemma, pos)))
            self._above[lemma, pos] = found
        return found


def _normal(lemma: str) -> str:
    return lemma.lower().replace("_", " ")


def _codes(column: pa.ChunkedArray, values: tuple[str, ...]) -> np.ndarray:
    return pc.index_in(column, pa.array(values)).to_numpy().astype(np.int8)


def _dictionary(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int8)


def _lists(column: pa.ChunkedArray | pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """A list column as offsets and values."""
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return array.offsets.to_numpy(), array.values.to_numpy()


def _item(lists: tuple[np.ndarray, np.ndarray], index: int) -> tuple[int, ...]:
    offsets, values = lists
    start, end = offsets[index], offsets[index + 1]
    return tuple(values[start:end].tolist()) if end > start else ()


@cache
def first_sense(entry: str, pos: str = "n") -> str | None:
    """The first sense in use of a word or compound, else of its head: "tennis racket" -> "tennis_racket.n.01"."""
    wordnet = WordNet.load()
    for word in (entry, entry.rpartition(" ")[2]):
        senses = wordnet.senses_in_use(word, pos)
        if senses:
            return wordnet.name(senses[0])
    return None
