"""The vocabulary of components: frequent nouns, attributes and relations of a corpus, which are incompatible, and which
may be true of an image.

Relations are named by their words: "on", "sit on", "wear".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ...schemas.captions import COMPONENT_KINDS, COMPONENT_VOCABULARY, COMPONENTS
from ...schemas.fields import table_of
from ..caption import Caption, cached
from ..language import semantic_classes
from ..language.concreteness import Concreteness
from ..language.coreference import CoreferenceIndex, entry_numbers, may_corefer
from ..language.grammar import NUMBERS
from ..language.semantic_classes import prepositions
from ..language.wordnet import WordNet
from ..lexicon.lexicon import is_concrete
from ..mentions import mentioned_attributes, mentioned_nouns, mentioned_numerals
from ..scene_graph import SceneGraph
from ..slots import verbs
from ..slots.verbs import OBJECT

if TYPE_CHECKING:
    import pyarrow as pa


PAPER_RARE = 100  # UniVSE: "frequency > 100"
WORDS = ("first", "second", "third")
_PARTS: dict[str, tuple[str, ...]] = {
    "noun": ("noun",),
    "attribute": ("attribute",),
    "relation": ("relation",),
    "attribute_noun": ("attribute", "noun"),
    "triple": ("noun", "relation", "noun"),
}
WRITTEN = {value: word for word, value in NUMBERS.items()}
MENTIONED = 1 << 13  # number of mentioned words whose results are cached
Ids = frozenset[int]
_SYMMETRIC = ("near", "next to", "beside", "by", "alongside", "among", "against", "around", "at", "with", "between")
_OVER = ("above", "over", "on", "on top of", "atop")
_UNDER = ("under", "below", "beneath", "underneath")
# If the first thing is "above" the second, then the second is "under" the first.
_INVERSE = {
    **{word: (word,) for word in _SYMMETRIC},
    **dict.fromkeys(_OVER, _UNDER),
    **dict.fromkeys(_UNDER, _OVER),
    "behind": ("in front of",),
    "in front of": ("behind",),
}


@cache
def verb_and_preposition(relation: str) -> tuple[str, str]:
    """The verb and the preposition of a relation, "" for a missing one: "sit next to" -> ("sit", "next to")."""
    table = prepositions()
    parts = relation.split()
    for start in range(len(parts)):
        phrase = " ".join(parts[start:])
        phrase = table.same.get(phrase, phrase)
        if phrase in table.entries:
            return " ".join(parts[:start]), phrase
    return relation, ""


@cache
def relations_are_incompatible(one: str, other: str) -> bool:
    """Whether two relations cannot hold at once between the same two things: on~under, eat~drive, sit on~stand on.

    True only if the tables say so: for two prepositions that exclude each other, alone or after the same verb of the
    table `body`; for two incompatible verbs, both with an object, or both before a preposition.
    """
    (verb, preposition), (verb2, preposition2) = verb_and_preposition(one), verb_and_preposition(other)
    if bool(preposition) != bool(preposition2) or bool(verb) != bool(verb2):
        return False
    if not preposition:
        known = all(WordNet.load().senses(word, "v") for word in (verb, verb2))
        return known and verbs.are_incompatible(verb, verb2, OBJECT)
    apart = prepositions().exclude(preposition, preposition2)
    if not verb:
        return apart
    if verb == verb2:
        return apart and verb in verbs.verbs().body
    return verbs.are_incompatible(verb, verb2, f"prep:{preposition}")


@cache
def inverses(relation: str) -> tuple[str, ...]:
    """The relations of the object to the subject that a relation implies: "sit on" -> "under", "below", "beneath" …"""
    return _INVERSE.get(verb_and_preposition(relation)[1], ())


def count(components: pa.Table) -> pa.Table:
    """The count of each word, pair and triple in a `components` table: columns kind, first, second, third, count."""
    import pyarrow as pa

    objects, attributes, relations = (
        components[name].combine_chunks().flatten() for name in ("objects", "attributes", "relations")
    )
    taken = {
        "noun": (objects, ("object",)),
        "attribute": (attributes, ("attribute",)),
        "relation": (relations, ("relation",)),
        "attribute_noun": (attributes, ("attribute", "object")),
        "triple": (relations, ("subject", "relation", "object")),
    }
    parts = []
    for kind, (items, words) in taken.items():
        blank = [pa.repeat("", len(items))] * (len(WORDS) - len(words))
        columns = [pa.repeat(kind, len(items)), *map(items.field, words), *blank, pa.repeat(1, len(items))]
        parts.append(pa.table(columns, ["kind", *WORDS, "count"]))
    return add(parts)


def add(tables: Sequence[pa.Table], *keys: str) -> pa.Table:
    """The sum of several tables of counts; `keys` are columns to group by in addition to the component."""
    import pyarrow as pa

    names = [*keys, "kind", *WORDS]
    rows = pa.concat_tables(tables, promote_options="default")  # sums may be null, unlike the counts of a shard
    summed = rows.group_by(names, use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns({"count_sum": "count"}).select([*names, "count"]).combine_chunks()


def select(counts: pa.Table, min_count: int, concreteness: Concreteness, min_concreteness: float) -> pa.Table:
    """The table `component_vocabulary` for a table of counts.

    Nouns need a count of at least `min_count` and a concreteness of at least `min_concreteness`, and must not be vague;
    words for persons count as concrete. Attributes and relations need `min_count`. Pairs and triples consist of
    selected words and occur at least twice. Raises ValueError if min_count is below 1.
    """

    if min_count < 1:
        raise ValueError(f"min_count must be >= 1, was: {min_count}")
    order = [("kind", "ascending"), ("count", "descending"), *((word, "ascending") for word in WORDS)]
    rows: dict[str, list[tuple[tuple[str, ...], int]]] = {kind: [] for kind in COMPONENT_KINDS}
    counts = counts.sort_by(order)
    for kind, n, *parts in zip(*(counts[name].to_pylist() for name in ("kind", "count", *WORDS)), strict=True):
        if n >= (min_count if len(_PARTS[kind]) == 1 else 2):
            rows[kind].append((tuple(parts[: len(_PARTS[kind])]), n))
    rows["noun"] = [row for row in rows["noun"] if is_concrete(row[0][0], concreteness, min_concreteness)]
    number = {kind: {words[0]: i for i, (words, _) in enumerate(rows[kind])} for kind in COMPONENT_KINDS[:3]}
    incompatible: dict[str, Callable[[str, str], bool]] = {
        "attribute": are_incompatible,
        "relation": relations_are_incompatible,
    }
    kept: list[tuple[Any, ...]] = []
    for kind in COMPONENT_KINDS:
        first = len(kept)
        for words, n in rows[kind]:
            # The ids of the words of the component within their own kinds.
            ids = [number[of].get(word) for of, word in zip(_PARTS[kind], words, strict=True)]
            if None not in ids:
                others = enumerate(number[kind]) if kind in incompatible else ()
                rivals = [other for other, word in others if incompatible[kind](word, words[0])]
                kept.append((kind, len(kept) - first, words, ids, n, rivals))
    return table_of(kept, COMPONENT_VOCABULARY)


def are_incompatible(one: str, other: str) -> bool:
    """Whether two attributes cannot both be true of a thing; different numbers above one are incompatible."""
    value = NUMBERS.get(one)
    value2 = NUMBERS.get(other)
    if value is not None or value2 is not None:
        return value != value2 and min(value or 1, value2 or 1) > 1
    return semantic_classes.are_incompatible(one, other)


class ComponentVocabulary:
    """The words of a `component_vocabulary` table by kind (noun, attribute, relation), indexed by id.

    `negatives`: by kind, the ids usable as negatives: all nouns; attributes and relations incompatible with another.
    """

    def __init__(self, table: pa.Table) -> None:
        """Read the rows of the kinds noun, attribute and relation."""
        self.words: dict[str, list[str]] = {kind: [] for kind in COMPONENT_KINDS[:3]}
        self.negatives: dict[str, set[int]] = {kind: set() for kind in COMPONENT_KINDS[:3]}
        for kind, words, rivals in zip(*(table[name].to_pylist() for name in ("kind", "words", "rivals")), strict=True):
            if kind in self.words:
                self.words[kind] += words
                self.negatives[kind].update(rivals)
        self.negatives["noun"] = set(range(len(self.words["noun"])))


def tabulate(parses: pa.Table, graphs: Sequence[SceneGraph]) -> pa.Table:
    """The table `components` for the captions of a `parses` table; `graphs` are their scene graphs, in table order."""

    rows: list[tuple[Any, ...]] = []
    keys = zip(*(parses[name].to_pylist() for name in ("caption_id", "image_id", "split")), strict=True)
    for key, graph in zip(keys, graphs, strict=True):
        names = {thing.token: thing.name for thing in graph.objects}
        objects = [(name, token) for token, name in names.items()]
        attributes = [(value, names[object], token, object) for object, token, _, _, value in graph.attributes]
        relations = [
            (names[subject], name, names[object], tokens, subject, object)
            for subject, object, tokens, name in graph.relations
        ]
        rows.append((*key, objects, attributes, relations))
    return table_of(rows, COMPONENTS)


class Exclusion(NamedTuple):
    """The components that may be true of an image, one row of the table `component_exclusions`.

    kind: noun, attribute or relation. of: the object that the attributes describe or that is the object of the
    relations; "" for nouns. ids: of the vocabulary, ascending.
    """

    image_id: str
    kind: str
    of: str
    ids: list[int]


class Exclusions:
    """Finds which components of a vocabulary may be true of an image."""

    def __init__(self, vocabulary: ComponentVocabulary) -> None:
        """Index the nouns by meaning, and the relations by their verbs and prepositions."""
        self._vocabulary = vocabulary
        self._nouns = CoreferenceIndex(vocabulary.words["noun"])
        self._verbs: defaultdict[str, set[int]] = defaultdict(set)
        self._prepositions: defaultdict[str, set[int]] = defaultdict(set)
        for number in vocabulary.negatives["relation"]:
            verb, preposition = verb_and_preposition(vocabulary.words["relation"][number])
            self._verbs[verb].add(number)
            self._prepositions[preposition].add(number)

    def rows(self, captions: Sequence[Caption], graphs: Sequence[SceneGraph]) -> Iterator[Exclusion]:
        """The components that may be true of one image, as rows of the table `component_exclusions`.

        First its nouns, then one row per object with attributes, then one per pair of related objects, by name.
        captions: all captions of the image; graphs: their scene graphs, in the same order.
        """
        image = captions[0].image_id
        nouns = frozenset[str]().union(*map(mentioned_nouns, captions))
        yield Exclusion(image, "noun", "", entry_numbers(self._nouns.with_any(nouns).all).tolist())
        described = {(word, noun) for caption in captions for noun, word in mentioned_attributes(caption)}
        for noun, count in frozenset().union(*map(mentioned_numerals, captions)):
            if count in WRITTEN:
                described.add((WRITTEN[count], noun))
        related: set[tuple[str, str]] = set()
        of_attributes = set()
        of_relations = set()
        for graph in graphs:
            names = {thing.token: thing.name for thing in graph.objects}
            for object, _, _, _, value in graph.attributes:
                of_attributes.add(names[object])
                described.add((value, names[object]))
            for subject, object, _, name in graph.relations:
                of_relations.add(names[object])
                related.add((name, names[object]))
                related.update((inverse, names[subject]) for inverse in inverses(name))
        yield from _rows(image, "attribute", of_attributes, described, self.attributes)
        yield from _rows(image, "relation", of_relations, related, self.relations)

    @cached(MENTIONED)
    def attributes(self, mentioned: str) -> Ids:
        """The ids of the attributes that may be true if `mentioned` is."""
        words = self._vocabulary.words["attribute"]
        negatives = self._vocabulary.negatives["attribute"]
        return frozenset(number for number in negatives if semantic_classes.may_be_same(words[number], mentioned))

    @cached(MENTIONED)
    def relations(self, mentioned: str) -> Ids:
        """The ids of the relations that may be true if `mentioned` is: on~atop, on~sit on; not sit on~stand on."""
        verb, preposition = verb_and_preposition(mentioned)
        exclude = prepositions().exclude
        same = {other for other in self._prepositions if other and preposition and not exclude(other, preposition)}
        ids = frozenset[int]().union(*(self._prepositions.get(other, ()) for other in same or {preposition}))
        if not verb:
            return ids
        alike = (its for other, its in self._verbs.items() if not other or verbs.may_be_same(other, verb))
        return ids & frozenset[int]().union(*alike)


def _rows(
    image: str, kind: str, of: set[str], mentioned: set[tuple[str, str]], meant: Callable[[str], Ids]
) -> Iterator[Exclusion]:
    """One row per object in `of`, with the ids that may be true of it.

    `mentioned` holds (attribute or relation, noun) pairs, the noun "" if the parse gives none; a pair counts for an
    object if its noun may be the same thing. `meant` maps an attribute or relation to ids.
    """
    ids: dict[str, set[int]] = {}
    for word, noun in mentioned:
        numbers = meant(word)
        if numbers:
            ids.setdefault(noun, set()).update(numbers)
    for object in sorted(of):
        same = [its for noun, its in ids.items() if not noun or noun == object or may_corefer(noun, object)]
        yield Exclusion(image, kind, object, sorted(frozenset().union(*same)))
