"""Does a text say only what a caption says, in its words, synonyms or hypernyms? Or does the caption leave it open?

A word may be replaced by a more general one ("dog" by "animal", "huge" by "large", "galloping" by "running"), and what
only describes may be left out. Words may change places where that leaves the meaning as it is: conjuncts, and the two
sides of a symmetric preposition. Nothing that is added follows, nor what stands in a text with a negation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ..caption import Caption, Token, cached
from ..edits import Edit
from ..kinds import KINDS
from ..language.hypernymy import first_senses
from ..language.semantic_classes import GROUPS, attributes, gender, head, persons_may_be_same, prepositions
from ..language.wordnet import WordNet
from ..slots.nouns import numeral_value
from ..slots.verbs import preposition_uses

OPTIONAL = {"amod", "advmod", "npadvmod", "prep", "acl", "relcl", "advcl", "cc", "conj", "punct", "det"}
KIND_OF_POS = {"NOUN": "noun", "VERB": "verb", "ADJ": "attribute", "ADP": "preposition"}  # by part of speech
MODIFIERS = ("amod", "compound", "nmod")
LIGHT = ("be", "do", "have", "make")  # verbs that say nothing
PLACES = ("on", "in", "at")  # "a dog next to a cat on a couch": both are on it


PAIRS = 1 << 16  # pairs of words whose relation is cached


@cached(PAIRS)
def is_kind_of(kind: str, old: str, new: str) -> bool:
    """Whether a word of a kind, of negcap.augment.kinds, is the other's synonym or hypernym, or is the other itself."""
    return old == new or KINDS[kind].is_more_general(old, new)


@cached(PAIRS)
def leaves_open(kind: str, old: str, new: str) -> bool:
    """Whether a word of a kind may be true as well where a caption has the other: one is the other's hypernym in some
    sense, a person's role or sex is not told by the other (man~surfer), the attribute is of another dimension
    (red~old), the preposition overlaps (in~near), or the number is one of several.
    """
    if kind == "noun":
        same_person = (
            {gender(old), gender(new)} != {"any"} and GROUPS.isdisjoint((old, new)) and persons_may_be_same(old, new)
        )
        return same_person or is_kind_of(kind, new, old) or _may_be_below(old, new, "n") or _may_be_below(new, old, "n")
    if kind == "attribute":
        mine, theirs = (attributes().dimensions.get(word, set()) for word in (old, new))
        return bool(mine and theirs and mine.isdisjoint(theirs)) or is_kind_of(kind, new, old)
    if kind == "verb":
        return _may_be_below(old, new, "v") or _may_be_below(new, old, "v")
    if kind == "preposition":
        return not prepositions().exclude(old, new)
    return kind == "numeral" and numeral_value(new) == 1


def _may_be_below(one: str, other: str, pos: str) -> bool:
    """Whether a noun in its first sense is below the other in any sense, or has it as its head; or a verb in any sense
    is below the other in one that is in use, or entails it.
    """
    wordnet = WordNet.load()
    if pos == "n":
        senses = first_senses(one, pos)
        above = wordnet.senses(other, pos)
    else:
        senses = wordnet.senses(one, pos)
        above = wordnet.senses_in_use(other, pos)
    below = any(not wordnet.closure(sense).isdisjoint(above) for sense in senses)
    return below or (head(one) == other if pos == "n" else wordnet.entails(one, other))


def words(tokens: Sequence[Token]) -> set[tuple[str, str]]:
    """Kinds and lemmas of words but LIGHT verbs; what stands before its noun is an attribute."""
    said = (token for token in tokens if token.pos in KIND_OF_POS and token.lemma not in LIGHT)
    return {("attribute" if token.dep in MODIFIERS else KIND_OF_POS[token.pos], token.lemma) for token in said}


def replaces(caption: Caption, text: Caption, a: int, b: int, c: int, d: int) -> bool:
    """Whether the caption's tokens a to b give way to the text's tokens c to d so that a word is replaced by another of
    its part of speech that it excludes: "eating" by "looking at"; not "a pizza" by "some hot food".
    """

    def alone(word: tuple[str, str], others: set[tuple[str, str]]) -> bool:
        kind, lemma = word
        same = (other for its, other in others if its == kind)
        return all(lemma != other for _, other in others) and not any(leaves_open(kind, lemma, one) for one in same)

    lost = {word[0] for word in words(caption.tokens[a:b]) if alone(word, words(text.tokens))}
    return any(word[0] in lost and alone(word, words(caption.tokens)) for word in words(text.tokens[c:d]))


def follows(caption: Caption, text: Caption, a: int, b: int, c: int, d: int) -> bool:
    """Whether one word of the caption gives way to a synonym or hypernym, or words are left out that only describe.

    a, b: the tokens of the caption that differ, start and end. c, d: those of the text.
    """
    if c == d:
        return all(a <= token.head < b or token.dep in OPTIONAL for token in caption.tokens[a:b])
    if b - a != 1 or d - c != 1:
        return False
    old = caption.tokens[a]
    new = text.tokens[c]
    kind = KIND_OF_POS.get(old.pos)
    return kind is not None and kind == KIND_OF_POS.get(new.pos) and is_kind_of(kind, old.lemma, new.lemma)


def meaning(caption: Caption) -> list[str]:
    """The dependency trees of a caption, without articles and punctuation, regardless of the order of conjuncts and
    of the two sides of a symmetric preposition.

    Equal for "a dog and a cat on a bed" and "a cat and a dog on a bed", for "a red car near a bus" and "a bus near a
    red car"; not for "a red car near a bus" and "a red bus near a car".
    """
    return sorted(_tree(caption, token) for token in caption.tokens if token.head == token.index)


def _tree(caption: Caption, token: Token) -> str:
    """A token and what stands below it. What follows the last of several conjuncts belongs to all of them; what follows
    the object of a symmetric preposition, if it is a place.
    """
    tokens = caption.tokens
    left_out = set[int]()
    joined = [token]
    link = token.dep
    for member in joined:
        joined += caption.dependents(member.index, "conj")
    if len(joined) == 1 and token.head == token.index and (beside := _beside(caption, token)):
        (start, end), other = beside
        joined = [token, other]
        link = "near"
        left_out = set(range(start, end))
    trees = list[str]()
    shared = list[str]()
    last = max(member.index for member in joined)
    for member in joined:
        own = list[str]()
        for child in (tokens[index] for index in caption.children[member.index] if index not in left_out):
            if child.dep not in ("conj", "cc", "punct") and child.lower not in ("a", "an", "the"):
                all_of_them = child.index > last and (link != "near" or child.lower in PLACES)
                (shared if all_of_them else own).append(_tree(caption, child))
        trees.append(f"{member.lemma}({' '.join(sorted(own))})")
    return f"{link}[{' '.join(sorted(trees))}]({' '.join(sorted(shared))})"


def _beside(caption: Caption, token: Token) -> tuple[tuple[int, int], Token] | None:
    """What a thing is said to be near, after the span of tokens of the preposition; None if there is nothing."""
    for use in preposition_uses(caption):
        above = caption.tokens[use.start]
        other = caption.tokens[use.noun]
        while use.start <= above.index < use.end and above.head != above.index:
            above = caption.tokens[above.head]
        if _is_near(use.entry) and above.index == token.index and not caption.has(other.index, "conj"):
            return (use.start, use.end), other
    return None


def _is_near(preposition: str) -> bool:
    return prepositions().same_relation(preposition, "near")


def may_change_places(caption: Caption, nouns: Sequence[int], edits: Sequence[Edit]) -> bool:
    """Whether a caption may still be true after `edits` have exchanged two of its nouns, so that the result cannot be
    called false. nouns: their tokens, in order.

    That is so if the caption lists the nouns ("a dog and a cat"), or if the first does something near the second: "a
    car parked near a truck" does not say that the truck is not parked. In both cases the words that describe a noun
    (adjectives, compounds, numbers, possessors) must have moved with it.
    """
    one, other = nouns
    described = (caption.dependents(noun, "amod", "compound", "nummod", "poss") for noun in nouns)
    if any(not any(edit.start <= token.start < edit.end for edit in edits) for token in chain(*described)):
        return False
    if set(caption.lowered[one + 1 : caption.phrase_start(other)]) <= {"and", ","}:
        return True
    starts = (use.start for use in preposition_uses(caption) if use.noun == other and _is_near(use.entry))
    return any(all(token.pos in ("AUX", "VERB") for token in caption.tokens[one + 1 : start]) for start in starts)
