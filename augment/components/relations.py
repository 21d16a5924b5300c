"""Relations between objects, named by their words ("on", "sit on", "wear"), and which of them are incompatible."""

from __future__ import annotations

from functools import cache

from ..language.semantic_classes import prepositions
from ..language.wordnet import WordNet
from ..slots import verbs
from ..slots.verbs import OBJECT

_SYMMETRIC = ("near", "next to", "beside", "by", "alongside", "among", "against", "around", "at", "with", "between")
_OVER, _UNDER = ("above", "over", "on", "on top of", "atop"), ("under", "below", "beneath", "underneath")
# If the first thing is "above" the second, then the second is "under" the first.
_INVERSE = {
    **{word: (word,) for word in _SYMMETRIC},
    **dict.fromkeys(_OVER, _UNDER),
    **dict.fromkeys(_UNDER, _OVER),
    "behind": ("in front of",),
    "in front of": ("behind",),
}


@cache
def words(relation: str) -> tuple[str, str]:
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
def are_incompatible(one: str, other: str) -> bool:
    """Whether two relations cannot hold at once between the same two things: on~under, eat~drive, sit on~stand on.

    True only if the tables say so: for two prepositions that share no overlap set, alone or after the same verb of the
    table `body`; for two incompatible verbs, both with an object, or both before a preposition.
    """
    (verb, preposition), (verb2, preposition2) = words(one), words(other)
    if bool(preposition) != bool(preposition2) or bool(verb) != bool(verb2):
        return False
    if not preposition:
        return _is_verb(verb) and _is_verb(verb2) and verbs.are_incompatible(verb, verb2, OBJECT)
    apart = not prepositions().overlap(preposition, preposition2)
    if not verb:
        return apart
    if verb == verb2:
        return apart and verb in verbs.verbs().body
    return verbs.are_incompatible(verb, verb2, f"prep:{preposition}")


@cache
def may_be_same(one: str, other: str) -> bool:
    """Whether a caption that states `other` of two things may mean `one`: on~atop, on~sit on; not sit on~stand on."""
    (verb, preposition), (verb2, preposition2) = words(one), words(other)
    if one == other:
        return True
    if bool(preposition) != bool(preposition2) or verb and verb2 and not verbs.may_be_same(verb, verb2):
        return False
    return not preposition or prepositions().overlap(preposition, preposition2)


def _is_verb(word: str) -> bool:
    return bool(WordNet.load().senses(word, "v"))


@cache
def inverses(relation: str) -> tuple[str, ...]:
    """The relations of the object to the subject that a relation implies: "sit on" -> "under", "below", "beneath" …"""
    return _INVERSE.get(words(relation)[1], ())
