"""The vocabulary of components: frequent nouns, attributes and relations of a corpus, and what may be true of an image.

It says which attributes and which relations are incompatible. Relations are named by their words: "on", "sit on",
"wear".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ...schemas.captions import COMPONENT_KINDS, COMPONENT_VOCABULARY, COMPONENTS
from ...schemas.fields import table_of
from ..caption import Caption, cached
from ..language import semantic_classes
from ..language.concreteness import Concreteness
from ..language.coreference import CoreferenceIndex, entry_numbers, may_corefer
from ..language.grammar import NUMBERS
from ..language.semantic_classes import preposition_table
from ..language.wordnet import WordNet
from ..lexicon.lexicon import is_concrete
from ..mentions import mentioned_attributes, mentioned_nouns, mentioned_numerals
from ..scene_graph import SceneGraph
from ..slots import verbs
from ..slots.verbs import OBJECT

if TYPE_CHECKING:
    import pyarrow as pa


# UniVSE: "frequency > 100".
PAPER_RARE = 100
# How often a pair or triple must occur.
LEAST_PAIRS = 2
# Noun, attribute and relation; the others consist of these.
WORD_KINDS = COMPONENT_KINDS[:3]
WORDS = ("first", "second", "third")  # columns for the words of a component in the counts
_PARTS: dict[str, tuple[str, ...]] = {
    "noun": ("noun",),
    "attribute": ("attribute",),
    "relation": ("relation",),
    "attribute_noun": ("attribute", "noun"),
    "triple": ("noun", "relation", "noun"),
}
WRITTEN = {value: word for word, value in NUMBERS.items()}
# Number of mentioned words whose results are cached.
MENTIONED = 1 << 13
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


class RelationParts(NamedTuple):
    """The verb and the preposition of a relation, "" for a missing one."""

    verb: str
    preposition: str


@cache
def verb_and_preposition(relation: str) -> RelationParts:
    """Split a relation into its verb and the longest preposition at its end: "sit next to" -> ("sit", "next to").

    Either may be missing, and is "" then. Another spelling of a preposition becomes that of the preposition table.
    """
    table = preposition_table()
    words = relation.split()
    # The longest preposition first.
    for start in range(len(words)):
        phrase = " ".join(words[start:])
        phrase = table.same.get(phrase, phrase)  # the entry of another spelling
        if phrase in table.entries:
            return RelationParts(" ".join(words[:start]), phrase)
    return RelationParts(relation, "")


@cache
def relations_are_incompatible(one: str, other: str) -> bool:
    """Whether two relations cannot hold at once between the same two things: on~under, eat~drive, sit on~stand on.

    True only if the tables say so. Two prepositions must exclude each other, alone or after one verb of bodily posture;
    two verbs must be incompatible, both with an object, or both before a preposition.
    """
    verb, preposition = verb_and_preposition(one)
    other_verb, other_preposition = verb_and_preposition(other)
    if bool(preposition) != bool(other_preposition) or bool(verb) != bool(other_verb):
        return False
    if not preposition:
        are_verbs = all(WordNet.load().senses(word, "v") for word in (verb, other_verb))
        return are_verbs and verbs.are_incompatible(verb, other_verb, OBJECT)
    prepositions_exclude = preposition_table().are_exclusive(preposition, other_preposition)
    if not verb:
        return prepositions_exclude
    if verb == other_verb:
        # A body is in one place: who sits on it does not sit under it. Who looks at it may look under it.
        return prepositions_exclude and verb in verbs.verb_table().body
    return verbs.are_incompatible(verb, other_verb, f"prep:{preposition}")


@cache
def inverse_relations(relation: str) -> tuple[str, ...]:
    """The relations of the object to the subject that a relation implies: "sit on" -> "under", "below", "beneath" …"""
    return _INVERSE.get(verb_and_preposition(relation).preposition, ())


def count_components(components: pa.Table) -> pa.Table:
    """The count of each word, pair and triple in a `components` table: columns kind, first, second, third, count."""
    import pyarrow as pa

    objects = components["objects"].combine_chunks().flatten()
    attributes = components["attributes"].combine_chunks().flatten()
    relations = components["relations"].combine_chunks().flatten()
    sources = {  # for each kind: its items, and the fields that are its words
        "noun": (objects, ("object",)),
        "attribute": (attributes, ("attribute",)),
        "relation": (relations, ("relation",)),
        "attribute_noun": (attributes, ("attribute", "object")),
        "triple": (relations, ("subject", "relation", "object")),
    }
    parts = []
    for kind, (items, fields) in sources.items():
        words = [items.field(name) for name in fields]
        blanks = [pa.repeat("", len(items))] * (len(WORDS) - len(fields))
        columns = [pa.repeat(kind, len(items)), *words, *blanks, pa.repeat(1, len(items))]
        parts.append(pa.table(columns, ["kind", *WORDS, "count"]))
    return sum_counts(parts)


def sum_counts(tables: Sequence[pa.Table], *keys: str) -> pa.Table:
    """The sum of several tables of counts; `keys` are columns to group by in addition to the component."""
    import pyarrow as pa

    names = [*keys, "kind", *WORDS]
    # Sums made earlier have a nullable column `count`, the counts of a shard have not: "default" joins both types.
    rows = pa.concat_tables(tables, promote_options="default")
    # Without threads, as these would change the order of the rows.
    summed = rows.group_by(names, use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns({"count_sum": "count"}).select([*names, "count"]).combine_chunks()


def select_vocabulary(
    counts: pa.Table, min_count: int, concreteness: Concreteness, min_concreteness: float
) -> pa.Table:
    """The table `component_vocabulary` for a table of counts.

    Nouns need a count of at least `min_count` and a concreteness of at least `min_concreteness`, and must not be vague;
    words for persons count as concrete. Attributes and relations need `min_count`. Pairs and triples consist of
    selected words and occur at least twice. Raises ValueError if min_count is below 1.
    """
    if min_count < 1:
        raise ValueError(f"min_count must be >= 1, was: {min_count}")
    by_kind = _frequent_components(counts, min_count)
    by_kind["noun"] = [row for row in by_kind["noun"] if is_concrete(row.words[0], concreteness, min_concreteness)]
    id_of = {kind: {row.words[0]: number for number, row in enumerate(by_kind[kind])} for kind in WORD_KINDS}
    selected: list[tuple[object, ...]] = []
    for kind in COMPONENT_KINDS:
        number = 0  # the id of the next component of the kind
        for words, count in by_kind[kind]:
            # The ids of the words within their own kinds; a pair or triple may have words that are not selected.
            parts = [id_of[part_kind].get(word) for part_kind, word in zip(_PARTS[kind], words, strict=True)]
            if None not in parts:
                rivals = _incompatible_ids(kind, words[0], id_of[kind]) if kind in ("attribute", "relation") else []
                selected.append((kind, number, words, parts, count, rivals))
                number += 1
    return table_of(selected, COMPONENT_VOCABULARY)


class CountedComponent(NamedTuple):
    """The words of a component, one to three, and how often it occurs."""

    words: tuple[str, ...]
    occurrences: int


def _frequent_components(counts: pa.Table, min_count: int) -> dict[str, list[CountedComponent]]:
    """The components of a table of counts that are frequent, by kind, the most frequent first."""
    order = [("kind", "ascending"), ("count", "descending"), *((word, "ascending") for word in WORDS)]
    columns = (column.to_pylist() for column in counts.sort_by(order).select(["kind", "count", *WORDS]).columns)
    by_kind: dict[str, list[CountedComponent]] = {kind: [] for kind in COMPONENT_KINDS}
    for kind, count, *words in zip(*columns, strict=True):
        size = len(_PARTS[kind])
        if count >= (min_count if size == 1 else LEAST_PAIRS):
            by_kind[kind].append(CountedComponent(tuple(words[:size]), count))
    return by_kind


def _incompatible_ids(kind: str, word: str, id_of: Mapping[str, int]) -> list[int]:
    """The ids of the attributes or relations that are incompatible with `word`, ascending.

    kind: attribute or relation. id_of: all words of the kind with their ids.
    """
    incompatible = are_incompatible if kind == "attribute" else relations_are_incompatible
    return [number for other, number in id_of.items() if incompatible(other, word)]


def are_incompatible(one: str, other: str) -> bool:
    """Whether two attributes cannot both be true of a thing; different numbers above one are incompatible."""
    number = NUMBERS.get(one)
    other_number = NUMBERS.get(other)
    if number is not None or other_number is not None:
        # A number excludes only another number, and "one" excludes nothing: one of two dogs is one dog.
        return number != other_number and (number or 0) > 1 and (other_number or 0) > 1
    return semantic_classes.are_incompatible(one, other)


class ComponentVocabulary:
    """The words of a `component_vocabulary` table by kind (noun, attribute, relation), indexed by id.

    An id is the position of a word in the list of its kind.

    words: the words of each kind.
    negatives: by kind, the ids of the words that may serve as negatives of other words: all nouns; those attributes and
        relations that are incompatible with at least one other.
    """

    def __init__(self, table: pa.Table) -> None:
        """Read the rows of the kinds noun, attribute and relation of a `component_vocabulary` table."""
        self.words: dict[str, list[str]] = {kind: [] for kind in WORD_KINDS}
        self.negatives: dict[str, set[int]] = {kind: set() for kind in WORD_KINDS}
        for kind, words, rivals in zip(*(table[name].to_pylist() for name in ("kind", "words", "rivals")), strict=True):
            if kind in self.words:
                self.words[kind] += words  # one word a row, in order of the ids
                self.negatives[kind].update(rivals)  # the ids of words that are incompatible with this one
        self.negatives["noun"] = set(range(len(self.words["noun"])))  # any noun can be a negative of another


def components_table(parses: pa.Table, graphs: Sequence[SceneGraph]) -> pa.Table:
    """The table `components` for the captions of a `parses` table; `graphs` are their scene graphs, in table order."""
    rows: list[tuple[object, ...]] = []
    keys = zip(*(parses[name].to_pylist() for name in ("caption_id", "image_id", "split")), strict=True)
    for key, graph in zip(keys, graphs, strict=True):
        # Attributes and relations name their objects by the token of the head noun; each token heads one object.
        name_of = {thing.token: thing.name for thing in graph.objects}
        objects = [(thing.name, thing.token) for thing in graph.objects]
        attributes = [
            (attribute.value, name_of[attribute.object], attribute.token, attribute.object)
            for attribute in graph.attributes
        ]
        relations = [
            (name_of[subject], name, name_of[object], tokens, subject, object)
            for subject, object, tokens, name in graph.relations
        ]
        rows.append((*key, objects, attributes, relations))
    return table_of(rows, COMPONENTS)


class Exclusion(NamedTuple):
    """The components that may be true of an image, one row of the table `component_exclusions`.

    kind: noun, attribute or relation.
    of: the object that the attributes describe or that is the object of the relations; "" for nouns.
    ids: of the vocabulary, ascending.
    """

    image_id: str
    kind: str
    of: str
    ids: list[int]


class Exclusions:
    """Finds which components of a vocabulary may be true of an image."""

    def __init__(self, vocabulary: ComponentVocabulary) -> None:
        """Index the nouns by meaning, and the relations by their verbs and prepositions.

        Only relations that may serve as negatives are indexed: others are never drawn, and need not be excluded.
        """
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
        yield Exclusion(image_id=image, kind="noun", of="", ids=entry_numbers(self._nouns.with_any(nouns).all).tolist())

        # What captions say of things, more than the graphs have: (attribute or relation, noun).
        described = {(word, noun) for caption in captions for noun, word in mentioned_attributes(caption)}
        for caption in captions:
            described |= {(WRITTEN[number], noun) for noun, number in mentioned_numerals(caption) if number in WRITTEN}
        related: set[tuple[str, str]] = set()
        objects_with_attributes = set()
        objects_of_relations = set()
        for graph in graphs:
            name_of = {thing.token: thing.name for thing in graph.objects}
            for attribute in graph.attributes:
                objects_with_attributes.add(name_of[attribute.object])
                described.add((attribute.value, name_of[attribute.object]))
            for relation in graph.relations:
                objects_of_relations.add(name_of[relation.object])
                related.add((relation.name, name_of[relation.object]))
                related.update((inverse, name_of[relation.subject]) for inverse in inverse_relations(relation.name))
        yield from _exclusions_by_object(image, "attribute", objects_with_attributes, described, self.attributes)
        yield from _exclusions_by_object(image, "relation", objects_of_relations, related, self.relations)

    @cached(MENTIONED)
    def attributes(self, mentioned: str) -> Ids:
        """The ids of the attributes that may be true if `mentioned` is."""
        words = self._vocabulary.words["attribute"]
        negatives = self._vocabulary.negatives["attribute"]
        return frozenset(
            number for number in negatives if semantic_classes.attributes_may_both_hold(words[number], mentioned)
        )

    @cached(MENTIONED)
    def relations(self, mentioned: str) -> Ids:
        """The ids of the relations that may be true if `mentioned` is: on~atop, on~sit on; not sit on~stand on."""
        verb, preposition = verb_and_preposition(mentioned)
        possible = [""]  # without a preposition: only relations that have none
        if preposition:
            are_exclusive = preposition_table().are_exclusive
            possible = [other for other in self._prepositions if other and not are_exclusive(other, preposition)]
        by_preposition = self._with_any(self._prepositions, possible)
        if not verb:
            return by_preposition
        # Relations without a verb ("on") are compatible with any verb.
        similar = [other for other in self._verbs if not other or verbs.verbs_may_both_hold(other, verb)]
        return by_preposition & self._with_any(self._verbs, similar)

    @staticmethod
    def _with_any(ids: Mapping[str, set[int]], words: Iterable[str]) -> Ids:
        """The ids of the relations that have any of some words. ids: those of the relations with each word."""
        return frozenset[int]().union(*(ids.get(word, ()) for word in words))


def _exclusions_by_object(
    image: str, kind: str, objects: set[str], mentioned: set[tuple[str, str]], ids_that_may_hold: Callable[[str], Ids]
) -> Iterator[Exclusion]:
    """One row per object, with the ids that may be true of it.

    Args:
        image: the id of the image.
        kind: attribute or relation.
        objects: their names.
        mentioned: pairs of an attribute or relation and a noun, "" if the parse gives none. A pair counts for an object
            if its noun may be the same thing.
        ids_that_may_hold: the ids of what may be true of a thing of which an attribute or relation is said.
    """
    ids_of_noun: dict[str, set[int]] = {}
    for word, noun in mentioned:
        if ids := ids_that_may_hold(word):
            ids_of_noun.setdefault(noun, set()).update(ids)
    for name in sorted(objects):
        same = [ids for noun, ids in ids_of_noun.items() if not noun or noun == name or may_corefer(noun, name)]
        yield Exclusion(image_id=image, kind=kind, of=name, ids=sorted(frozenset().union(*same)))
