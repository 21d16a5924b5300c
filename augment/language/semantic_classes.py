"""What words mean: coarse classes of nouns and verbs, and which persons, attributes and prepositions may be the same.

Counts of rare words back off to the classes, which are WordNet's. The class of a noun is a number: 0 for persons, else
1 + the index of the first of ANCHORS that is a hypernym of its first sense; the last class holds abstract and unknown
nouns. The class of a verb is the lexicographer file of its first sense.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain, permutations, product
from typing import Literal, NamedTuple

from ..cloze.states import group_by_first_word
from ..data import data_path, word_lists
from .wordnet import WordNet, senses_of_entry

Gender = Literal["male", "female", "any", "thing"]
# Words for several persons that do not say how many.
GROUPS = {"group", "crowd", "couple", "family", "team", "people", "pair", "trio", "band", "bunch"}
# A noun may name persons if it does so in more than this share of its uses: many words have a rare sense that does.
PERSON_SHARE = 0.4


class Overlaps(NamedTuple):
    """The table of nouns that may name the same thing.

    groups: for each noun, such nouns.
    implied: for each noun, the nouns that it implies ("rider" implies "horse").
    persons: words for persons that are male, female, child, adult or any.
    vague: nouns that name no particular thing.
    supports: what things are on: the lists "carried", "grounds", "furniture" and "floors".
    background: what many photos show whose captions do not mention it.
    """

    groups: dict[str, set[str]]
    implied: dict[str, frozenset[str]]
    persons: dict[str, frozenset[str]]
    vague: frozenset[str]
    supports: dict[str, frozenset[str]]
    background: frozenset[str]


@cache
def noun_overlap_table() -> Overlaps:
    """The shipped table data/noun_overlaps.toml of nouns that may name the same thing, read once per process."""
    table = word_lists(data_path("noun_overlaps.toml"))
    groups: defaultdict[str, set[str]] = defaultdict(set)
    # A group, such as {"couch", "sofa"}: each of its nouns may be any other.
    for members in table["groups"]:
        for noun in members:
            groups[noun].update(members)
    # A more general noun (or several, between commas) and each noun listed for it may be the same, in either order. Two
    # of the listed nouns need not be: "animal" may be "dog" or "cat", but no dog is a cat.
    for names, members in table["general"].items():
        for noun, same in pairs_within_groups(product(names.split(", "), members)):
            groups[noun].add(same)
    return Overlaps(
        groups=dict(groups),
        implied=table["implies"],
        persons=table["persons"],
        vague=table["vague"]["words"],
        supports=table["supports"],
        background=table["background"]["words"],
    )


def pairs_within_groups(*tables: Iterable[Iterable[str]]) -> frozenset[tuple[str, str]]:
    """All pairs of words of a common group, in both orders: [["red", "pink"]] -> {(red, pink), (pink, red)}."""
    return frozenset(pair for groups in tables for group in groups for pair in permutations(group, 2))


def head_word(entry: str) -> str:
    """The last word of a noun or compound: "tennis racket" -> "racket"."""
    return entry.rpartition(" ")[2]


@cache
def is_person(noun: str) -> bool:
    """Whether a noun names persons: listed, or by the first WordNet sense of the compound, else of its head."""
    if any(noun in words for words in noun_overlap_table().persons.values()):
        return True
    wordnet = WordNet.load()
    senses = wordnet.senses_in_use(noun, "n")
    if senses:
        is_below_person = wordnet.first_above("person.n.01") == 0  # 0: the number of the only anchor; (synsets,)
        return bool(is_below_person[senses[0]])
    return noun != head_word(noun) and is_person(head_word(noun))


@cache
def may_be_person(noun: str) -> bool:
    """Whether a noun names persons in more than PERSON_SHARE of its uses in WordNet's corpora: "fan", not "pole"."""
    wordnet = WordNet.load()
    is_below_person = wordnet.first_above("person.n.01") == 0  # (synsets,)
    counts = wordnet.tag_counts(noun, "n")
    uses_for_persons = sum(
        count for sense, count in zip(wordnet.senses(noun, "n"), counts, strict=True) if is_below_person[sense]
    )
    return is_person(noun) or uses_for_persons > PERSON_SHARE * sum(counts)


@cache
def gender(noun: str) -> Gender:
    """The gender of pronouns for a noun: male, female, any (a person of unknown gender) or thing."""
    persons = noun_overlap_table().persons
    for word in (noun, head_word(noun)):
        if word in persons["male"]:
            return "male"
        if word in persons["female"]:
            return "female"
    return "any" if is_person(noun) else "thing"


def persons_may_be_same(a: str, b: str) -> bool:
    """Whether two words for persons may name the same person: player and man, child and boy; not man and woman."""
    return is_person(a) and is_person(b) and head_word(a) not in other_persons(head_word(b))


@cache
def other_persons(word: str) -> frozenset[str]:
    """The words for persons that are incompatible with `word`: of the other gender, or of another age.

    "woman" -> "man", "boy" … and "girl", "boy" …
    """
    persons = noun_overlap_table().persons
    opposites = (("male", "female"), ("female", "male"), ("child", "adult"), ("adult", "child"))
    return frozenset().union(*(persons[opposite] for sort, opposite in opposites if word in persons[sort]))


ANCHORS = (
    "animal.n.01", "plant.n.02", "food.n.01", "food.n.02", "clothing.n.01", "footwear.n.01", "headdress.n.01",
    "conveyance.n.03", "building.n.01", "area.n.05", "way.n.06", "structure.n.01", "furniture.n.01", "container.n.01",
    "sports_equipment.n.01", "device.n.01", "instrumentality.n.03", "artifact.n.01", "body_part.n.01",
    "body_of_water.n.01", "geological_formation.n.01", "location.n.01", "substance.n.01", "matter.n.03", "group.n.01",
    "natural_object.n.01", "physical_entity.n.01",
)  # fmt: skip
CLASSES = len(ANCHORS) + 2
PERSON = 0
ANIMAL = 1
LIVING = (PERSON, ANIMAL)  # all higher classes are not alive
ABSTRACT = CLASSES - 1


@cache
def semantic_class(noun: str) -> int:
    """The class of a noun, 0 to CLASSES - 1; a compound that is not in WordNet has the class of its head."""
    if is_person(noun):
        return PERSON
    senses = senses_of_entry(noun, "n")
    # The number of the first anchor above the noun; len(ANCHORS) if none is, which gives the class ABSTRACT.
    return 1 + int(WordNet.load().first_above(*ANCHORS)[senses[0]]) if senses else ABSTRACT


def sort_of(noun: str) -> int:
    """The sort of what a noun names: 0 a person, 1 an animal, 2 a thing."""
    return min(semantic_class(noun), ANIMAL + 1)


@cache
def verb_class(verb: str) -> str:
    """The lexicographer file of a verb's first sense, e.g. "verb.motion"; "" if the verb is not in WordNet."""
    senses = WordNet.load().senses_in_use(verb, "v")
    return WordNet.load().lexname(senses[0]) if senses else ""


def _is_in_any_class(*anchors: str) -> Callable[[str], bool]:
    """A function that tells of a noun whether it is in the class of one of these synsets of ANCHORS."""
    numbers = {ANCHORS.index(anchor) + 1 for anchor in anchors}
    return lambda noun: semantic_class(noun) in numbers


is_location = _is_in_any_class(
    "building.n.01", "area.n.05", "way.n.06", "body_of_water.n.01", "geological_formation.n.01", "location.n.01"
)
is_furnishing = _is_in_any_class(
    "furniture.n.01", "container.n.01", "device.n.01", "instrumentality.n.03", "artifact.n.01"
)
is_body_part = _is_in_any_class("body_part.n.01")  # "eye", "paw"
is_worn = _is_in_any_class("clothing.n.01", "footwear.n.01", "headdress.n.01")


_is_furniture = _is_in_any_class("furniture.n.01")
_is_way_or_area = _is_in_any_class("way.n.06", "area.n.05", "location.n.01")
_is_device = _is_in_any_class("device.n.01")
_is_structure_or_vehicle = _is_in_any_class("structure.n.01", "conveyance.n.03")


@cache
def may_support_both(old: str, new: str) -> bool:
    """Whether something may be on `old` and on `new` at once, since one of the two stands on the other.

    The newspaper lies on a desk, so "glasses on a newspaper" are "on a desk" as well. The bench stands on a porch or at
    a market, so who sits "on a bench" may sit "on a porch", and the other way round. The lists of small things that are
    carried about, of furniture, grounds and floors are those of [supports] in data/noun_overlaps.toml.
    """
    supports = noun_overlap_table().supports
    old_head = head_word(old)
    new_head = head_word(new)
    old_is_furniture = _is_furniture(old) or old_head in supports["furniture"]
    new_is_furniture = _is_furniture(new) or new_head in supports["furniture"]
    new_is_place = new_head in supports["floors"] or is_location(new) or _is_structure_or_vehicle(new)
    if old_head in supports["carried"]:
        return new_is_furniture or new_is_place or new_head in supports["grounds"]
    if old_is_furniture or _is_device(old):  # a device: "watches cartoons on a screen", and on a couch
        return new_is_place
    if old_head in supports["floors"]:
        return new_is_furniture
    if new_head in supports["grounds"] and _is_way_or_area(old):  # a driveway, with snow on it
        return True
    return is_furnishing(old) and is_location(new)


# Dimensions whose words mean something else, or age, when they describe persons: "a black man", "a little boy".
NOT_OF_PERSONS = {"colour", "pattern", "size", "material", "lightness", "years"}
WARMTH = frozenset({"heat"})


class Attributes(NamedTuple):
    """The table of attributes, augment/data/attributes.toml, which explains its lists.

    dimensions: for each word, what it tells of a thing: its colour, its size, …
    compatible: pairs of words that may both be true of a thing, although they may be of one dimension.
    vague: words that are never compared.
    comparing: comparatives, which replace only each other.
    univse: the attributes of UniVSE's attack in its paper.
    univse_groups: pairs that do not replace each other in it.
    vague_relations: relations about which its Table 4 does not ask.
    """

    dimensions: dict[str, set[str]]
    compatible: frozenset[tuple[str, str]]
    vague: frozenset[str]
    comparing: frozenset[str]
    univse: tuple[str, ...]
    univse_groups: frozenset[tuple[str, str]]
    vague_relations: frozenset[str]


@cache
def attribute_table() -> Attributes:
    """The shipped table data/attributes.toml, read once per process."""
    table = tomllib.loads(data_path("attributes.toml").read_text("utf-8"))
    dimensions: defaultdict[str, set[str]] = defaultdict(set)
    for name, groups in table["dimensions"].items():
        for word in chain.from_iterable(groups):
            dimensions[word].add(name)
    papers = table["univse"]
    return Attributes(
        dimensions=dict(dimensions),
        # The words of a group, such as shades of red, may both be true; those of two groups of a dimension may not.
        compatible=pairs_within_groups(*table["dimensions"].values(), table["overlaps"]["lists"]),
        vague=frozenset(table["vague"]["words"]),
        comparing=frozenset(table["vague"]["comparing"]),
        univse=tuple(papers["words"]),
        univse_groups=pairs_within_groups(papers["groups"]),
        vague_relations=frozenset(papers["vague_relations"]),
    )


@cache
def are_incompatible(one: str, other: str) -> bool:
    """Whether two attributes cannot both be true of a thing: red~blue, wet~dry; not red~pink, young~tall.

    True for words of a common dimension (colour, size …), unless the table lists them as compatible or one as vague
    ("full"). If a word is not in the table, true only of direct antonyms in WordNet.
    """
    table = attribute_table()
    # `compatible` has each pair in both orders.
    if one == other or (one, other) in table.compatible or not table.vague.isdisjoint((one, other)):
        return False
    dimensions_of_one = table.dimensions.get(one)
    dimensions_of_other = table.dimensions.get(other)
    if dimensions_of_one is not None and dimensions_of_other is not None:
        return not dimensions_of_one.isdisjoint(dimensions_of_other)
    antonyms = WordNet.load().antonyms
    return other in antonyms(one, "a") or one in antonyms(other, "a")


def attributes_may_both_hold(one: str, other: str) -> bool:
    """Whether a thing that is described as `other` may also be `one`: equal words, or compatible by the table."""
    return one == other or (one, other) in attribute_table().compatible


@cache
def has_other_sense_of_persons(word: str) -> bool:
    """Whether a word means something else, or age, when it describes persons: "black", "little"."""
    dimensions = attribute_table().dimensions.get(word)
    return dimensions is not None and dimensions <= NOT_OF_PERSONS


@cache
def is_compound(word: str, noun: str) -> bool:
    """Whether an adjective and its noun are one noun of WordNet, such as "hot dog".

    Never with a visible attribute ("young man"). Words of warmth are not visible, and may be part of a compound.
    """
    dimensions = attribute_table().dimensions.get(word, WARMTH)  # an unknown word is treated as "hot" is
    return dimensions == WARMTH and bool(WordNet.load().senses(f"{word} {noun}", "n"))


@dataclass(frozen=True)
class Prepositions:
    """The table of prepositions, augment/data/prepositions.toml, which explains its lists.

    entries: those that may be replaced.
    phrases: by first word, prepositions of several words, longer ones first.
    same: another spelling or wording of an entry -> the entry.
    never_inserted: entries that replace none.
    idioms, bare_idioms, governors, owned: words that form a set phrase with a preposition.
    beside: entries that leave open what else is there, so that their object is not replaced.
    symmetric: those that hold in both directions.
    sets: of each entry, the numbers of the sets in VSE-C's Table 8 that have it.
    relations: entry -> its relation in space, such as the one of "near" and "next to".
    exclusions: pairs of relations that no photo shows of the same two things.
    places: noun -> entries that may all be true of it at once.
    unfit: noun -> entries that nobody says before it.
    """

    entries: frozenset[str]
    phrases: dict[str, tuple[tuple[str, ...], ...]]
    same: dict[str, str]
    never_inserted: frozenset[str]
    idioms: frozenset[str]
    bare_idioms: frozenset[str]
    governors: frozenset[str]
    owned: dict[str, frozenset[str]]
    beside: frozenset[str]
    symmetric: frozenset[str]
    sets: dict[str, tuple[int, ...]]
    relations: dict[str, str]
    exclusions: frozenset[tuple[str, str]]
    places: dict[str, frozenset[str]]
    unfit: dict[str, frozenset[str]]

    def are_exclusive(self, first: str, second: str, noun: str = "") -> bool:
        """Whether two prepositions exclude each other for the same two things: a cat is not on and under a table.

        noun: what follows them, since both can be true of some nouns ("in" and "on" a bus); "" if it is not known.
        """
        if self.places.get(noun, frozenset()).issuperset((first, second)):
            return False
        return (self.relations.get(first), self.relations.get(second)) in self.exclusions

    def suggests(self, one: str, other: str, noun: str) -> bool:
        """Whether a caption that has one preposition before a noun makes it likely that the other is true as well.

        It does if they are of one relation in space or of one set of VSE-C's Table 8 (Shi et al. 2018), or if both may
        be true of the noun at once, as "in" and "on" of a bus.
        """
        both_fit = self.places.get(noun, frozenset()).issuperset((one, other))
        in_one_set = not set(self.sets.get(one, ())).isdisjoint(self.sets.get(other, ()))
        return both_fit or in_one_set or self.same_relation(one, other)

    def same_relation(self, one: str, other: str) -> bool:
        """Whether two prepositions say the same of two things: "near" and "next to"."""
        relation = self.relations.get(one)
        return one == other or (relation is not None and relation == self.relations.get(other))


@cache
def preposition_table() -> Prepositions:
    """The shipped table data/prepositions.toml, read once per process; lists of words become mappings by word."""
    table = word_lists(data_path("prepositions.toml"))
    # "near" -> (1, 4): the numbers of the sets of VSE-C's Table 8 that list it.
    sets: defaultdict[str, tuple[int, ...]] = defaultdict(tuple)
    for number, words in enumerate(table.pop("table8"), start=1):
        for word in words:
            sets[word] += (number,)
    phrases = {*table["phrases"], *table["same"], *(entry for entry in table["entries"] if " " in entry)}
    excluding = [(relation, other) for relation, others in table["exclusions"].items() for other in others]
    # All other fields are as the file has them; these take the place of its lists.
    computed = {
        "phrases": group_by_first_word(phrases),
        "sets": dict(sets),
        "relations": {word: relation for relation, words in table["relations"].items() for word in words},
        "exclusions": pairs_within_groups(excluding),  # in both orders
        "places": {noun: frozenset(place["overlaps"]) for place in table["places"] for noun in place["nouns"]},
        "unfit": {noun: frozenset(place.get("unfit", ())) for place in table["places"] for noun in place["nouns"]},
    }
    return Prepositions(**table | computed)
