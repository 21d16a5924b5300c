"""Coarse semantic classes of nouns and verbs from WordNet, which counts of rare words back off to.

The class of a noun is a number: 0 for persons, else 1 + the index of the first of ANCHORS that is a hypernym of its
first sense; the last class holds abstract and unknown nouns. The class of a verb is the lexicographer file of its first
sense.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..cache import read_only
from .overlaps import head, is_person
from .wordnet import WordNet

ANCHORS = (
    "animal.n.01", "plant.n.02", "food.n.01", "food.n.02", "clothing.n.01", "footwear.n.01", "headdress.n.01",
    "conveyance.n.03", "building.n.01", "area.n.05", "way.n.06", "structure.n.01", "furniture.n.01", "container.n.01",
    "sports_equipment.n.01", "device.n.01", "instrumentality.n.03", "artifact.n.01", "body_part.n.01",
    "body_of_water.n.01", "geological_formation.n.01", "location.n.01", "substance.n.01", "matter.n.03", "group.n.01",
    "natural_object.n.01", "physical_entity.n.01",
)  # fmt: skip
# What people seldom leave out of a caption when a photo shows it; clothes, parts of rooms and landscape they often do.
SALIENT = (
    "animal.n.01", "food.n.01", "food.n.02", "conveyance.n.03", "furniture.n.01", "sports_equipment.n.01",
    "device.n.01",
)  # fmt: skip
LOCATIONS = (
    "building.n.01", "area.n.05", "way.n.06", "body_of_water.n.01", "geological_formation.n.01", "location.n.01",
)  # fmt: skip
CLASSES = len(ANCHORS) + 2
PERSON = 0
LIVING = (PERSON, 1)  # persons and animals; all higher classes are not alive
ABSTRACT = CLASSES - 1


@cache
def _classes() -> np.ndarray:
    """The class of each noun synset, ignoring the class of persons: shape (synsets,)."""
    wordnet = WordNet.load()
    return read_only(1 + wordnet.first_above([wordnet.synset(name) for name in ANCHORS]))


@cache
def is_animal(noun: str) -> bool:
    """Whether a noun names an animal."""
    return _is_below(noun, "animal.n.01")


@cache
def is_building(noun: str) -> bool:
    """Whether a noun names a building."""
    return _is_below(noun, "building.n.01")


@cache
def is_location(noun: str) -> bool:
    """Whether a noun names a location: a building, a way, an area, or a stretch of land or water."""
    return _is_below(noun, *LOCATIONS)


@cache
def is_body_part(noun: str) -> bool:
    """Whether a noun names a part of a body."""
    return _is_below(noun, "body_part.n.01")


@cache
def is_worn(noun: str) -> bool:
    """Whether a noun names clothing, footwear or headgear."""
    return _is_below(noun, "clothing.n.01", "footwear.n.01", "headdress.n.01")


@cache
def is_salient(noun: str) -> bool:
    """Whether a noun names a person, an animal, food, a vehicle, furniture or a device."""
    return semantic_class(noun) == PERSON or _is_below(noun, *SALIENT)


@cache
def semantic_class(noun: str) -> int:
    """The class of a noun, 0 to CLASSES - 1; a compound that is not in WordNet has the class of its head."""
    if is_person(noun):
        return PERSON
    wordnet = WordNet.load()
    senses = wordnet.senses_in_use(noun, "n") or wordnet.senses_in_use(head(noun), "n")
    return int(_classes()[senses[0]]) if senses else ABSTRACT


@cache
def verb_class(verb: str) -> str:
    """The lexicographer file of a verb's first sense, e.g. "verb.motion"; "" if the verb is not in WordNet."""
    wordnet = WordNet.load()
    senses = wordnet.senses_in_use(verb, "v")
    return wordnet.lexname(senses[0]) if senses else ""


def _is_below(noun: str, *anchors: str) -> bool:
    return semantic_class(noun) in {ANCHORS.index(anchor) + 1 for anchor in anchors}
