"""A dozen kinds of things by WordNet, and of verbs: what fits a place that a small corpus has seen only a few times."""

from __future__ import annotations

from functools import cache

from negcap.augment.language.overlaps import head, is_person
from negcap.augment.language.wordnet import WordNet

# The first anchor above a noun's first sense names its kind. 0 is a person, 1 an animal, the last an abstraction
# or unknown.
ANCHORS = (
    "animal.n.01", "plant.n.02", "food.n.01", "food.n.02", "clothing.n.01", "footwear.n.01", "headdress.n.01",
    "conveyance.n.03", "building.n.01", "area.n.05", "way.n.06", "structure.n.01", "furniture.n.01", "container.n.01",
    "sports_equipment.n.01", "device.n.01", "instrumentality.n.03", "artifact.n.01", "body_part.n.01",
    "body_of_water.n.01", "geological_formation.n.01", "location.n.01", "substance.n.01", "matter.n.03", "group.n.01",
    "natural_object.n.01", "physical_entity.n.01",
)  # fmt: skip
PLACES = (
    "building.n.01", "area.n.05", "way.n.06", "body_of_water.n.01", "geological_formation.n.01", "location.n.01",
)  # fmt: skip
KINDS = len(ANCHORS) + 2
PERSON = 0
LIVING = (PERSON, 1)  # the lowest, so that what does not live is above them
ABSTRACT = KINDS - 1


@cache
def _anchors() -> tuple[int, ...]:
    wordnet = WordNet.load()
    return tuple(wordnet.synset(name) for name in ANCHORS)


@cache
def is_animal(entry: str) -> bool:
    """Whether a noun names an animal."""
    return _is_below(entry, "animal.n.01")


@cache
def is_food(entry: str) -> bool:
    """Whether a noun names something to eat or drink."""
    return _is_below(entry, "food.n.01", "food.n.02")


@cache
def is_building(entry: str) -> bool:
    """Whether a noun names a building."""
    return _is_below(entry, "building.n.01")


@cache
def is_place(entry: str) -> bool:
    """Whether a noun names where somebody is: a building, a room, a way, an area, a stretch of land or water."""
    return _is_below(entry, *PLACES)


@cache
def is_body_part(entry: str) -> bool:
    """Whether a noun names a part of a body."""
    return _is_below(entry, "body_part.n.01")


@cache
def is_worn(entry: str) -> bool:
    """Whether a noun names clothing, shoes or hats."""
    return _is_below(entry, "clothing.n.01", "footwear.n.01", "headdress.n.01")


@cache
def kind(entry: str) -> int:
    """The number of an entry's kind, 0 to KINDS - 1; compounds that WordNet lacks go by their head."""
    if is_person(entry):
        return PERSON
    wordnet = WordNet.load()
    senses = wordnet.senses_in_use(entry, "n") or wordnet.senses_in_use(head(entry), "n")
    if senses:
        above = wordnet.closure(senses[0])
        for number, anchor in enumerate(_anchors(), start=1):
            if anchor in above:
                return number
    return ABSTRACT


@cache
def verb_kind(entry: str) -> str:
    """The lexicographer file of a verb's first sense, e.g. "verb.motion"; "" for what WordNet lacks."""
    wordnet = WordNet.load()
    senses = wordnet.senses_in_use(entry, "v")
    return wordnet.lexname(senses[0]) if senses else ""


def _is_below(entry: str, *anchors: str) -> bool:
    return kind(entry) in {ANCHORS.index(anchor) + 1 for anchor in anchors}
