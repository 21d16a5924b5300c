"""Does a word say only what another one says, in its first sense: a synonym, or a more general word?"""

from __future__ import annotations

from .semantic_classes import head_word, other_persons
from .wordnet import WordNet, senses_of_entry

# What WordNet does not have: synonyms, and words with their hypernyms.
SYNONYMS = ({"man", "guy"}, {"man", "gentleman"}, {"woman", "lady"})
SAME_AS = {"people": "person", "someone": "person", "something": "entity"}
HYPERNYMS = {"bus": {"vehicle"}, "train": {"vehicle"}, "boy": {"child", "kid"}, "girl": {"child", "kid"}}


def is_noun_of(old: str, new: str) -> bool:
    """Whether what a noun names is also what `new` names: dog~animal, bike~bicycle, boy~child; not bedroom~kitchen."""
    old = SAME_AS.get(old, old)
    new = SAME_AS.get(new, new)
    if head_word(new) in other_persons(head_word(old)):  # WordNet has girls below women
        return False
    return {old, new} in SYNONYMS or new in HYPERNYMS.get(old, ()) or is_below(old, new, "n")


def is_below(old: str, new: str, pos: str) -> bool:
    """Whether the first sense of `new` is that of `old` or above it; a compound that WordNet lacks is above nothing."""
    wordnet = WordNet.load()
    # All above the first sense of the old word, against the first sense of the new one alone: what a word may mean
    # besides makes no caption true.
    above = {general for sense in senses_of_entry(old, pos)[:1] for general in wordnet.closure(sense)}
    return not above.isdisjoint(wordnet.senses_in_use(new, pos)[:1])


def is_attribute_of(old: str, new: str) -> bool:
    """Whether attributes are synonyms, or WordNet has the old one among those similar to the new one: tiny~small."""
    wordnet = WordNet.load()
    first_sense = senses_of_entry(old, "a")[:1]  # none, or one
    above = set(first_sense)
    for sense in first_sense:
        if ".s." in wordnet.name(sense):  # a satellite, which is similar to one adjective only
            above.update(wordnet.relation("similar", sense))
    return not above.isdisjoint(senses_of_entry(new, "a")[:1])


def is_verb_of(old: str, new: str) -> bool:
    """Whether what a verb says is also said by `new`: gallop~run."""
    return is_below(old, new, "v")
