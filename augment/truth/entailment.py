"""Does a text say only what a caption says, in its words, synonyms or hypernyms? Or does the caption leave it open?

A word may be replaced by a more general one ("dog" by "animal", "huge" by "large", "galloping" by "running"), and what
only describes may be left out. Words may change places where that leaves the meaning as it is: conjuncts, and the two
sides of a symmetric preposition. Nothing that is added follows, nor what stands in a text with a negation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from ..caption import Caption, Token, cached
from ..edits import Edit
from ..kinds import KINDS
from ..language.semantic_classes import (
    GROUPS,
    attribute_table,
    gender,
    head_word,
    persons_may_be_same,
    preposition_table,
)
from ..language.wordnet import WordNet, senses_of_entry
from ..slots.nouns import Slot, numeral_value
from ..slots.verbs import governor_of, preposition_uses

# Dependents that only describe what they depend on: a caption still says what is left when they are left out.
OPTIONAL = {"amod", "advmod", "npadvmod", "prep", "acl", "relcl", "advcl", "cc", "conj", "punct", "det"}
KIND_OF_POS = {"NOUN": "noun", "VERB": "verb", "ADJ": "attribute", "ADP": "preposition"}  # by part of speech
MODIFIERS = ("amod", "compound", "nmod")  # dependencies of words that are attributes, nouns too
LIGHT = ("be", "do", "have", "make")  # verbs that say nothing by themselves
# Where one thing is near another, a place behind both is true of both: "a dog next to a cat on a couch".
PLACES = ("on", "in", "at")
PAIRS = 1 << 16  # pairs of words whose relation is cached


class ChangedSpan(NamedTuple):
    """The tokens of a caption that tokens of another text replace, by their numbers; both ends are exclusive."""

    start: int
    end: int
    new_start: int
    new_end: int

    @property
    def is_one_for_one(self) -> bool:
        """Whether one token replaces one token."""
        return self.end - self.start == 1 == self.new_end - self.new_start


class ContentWord(NamedTuple):
    """A word that says something: its kind, one of KIND_OF_POS, and its lemma."""

    kind: str
    lemma: str


@cached(PAIRS)
def is_kind_of(kind: str, old: str, new: str) -> bool:
    """Whether `new` is `old`, a synonym or a hypernym of it: what is `old` is `new`. kind: of both, one of KINDS."""
    return old == new or KINDS[kind].is_more_general(old, new)


@cached(PAIRS)
def leaves_open(kind: str, old: str, new: str) -> bool:
    """Whether `new` may also be true where a caption says `old`. kind: of both words, one of KINDS.

    A noun or verb may be if one of the two is the other's hypernym in some sense, a noun also if they may be the same
    person (man~surfer). An attribute may be if it is of another dimension (red~old), or more general; a preposition if
    both may hold (in~near); the numeral one always, since where there are several there is also one.
    """
    if kind == "noun":
        tells_gender = {gender(old), gender(new)} != {"any"}  # "man" does, "surfer" does not
        is_single = GROUPS.isdisjoint((old, new))
        if tells_gender and is_single and persons_may_be_same(old, new):
            return True
        return is_kind_of(kind, new, old) or _noun_may_be_below(old, new) or _noun_may_be_below(new, old)
    if kind == "attribute":
        dimensions = attribute_table().dimensions
        of_old = dimensions.get(old, set())
        of_new = dimensions.get(new, set())
        are_of_other_dimensions = bool(of_old and of_new and of_old.isdisjoint(of_new))
        return are_of_other_dimensions or is_kind_of(kind, new, old)
    if kind == "verb":
        return _verb_may_be_below(old, new) or _verb_may_be_below(new, old)
    if kind == "preposition":
        return not preposition_table().are_exclusive(old, new)
    return kind == "numeral" and numeral_value(new) == 1


def _noun_may_be_below(narrow: str, wide: str) -> bool:
    """Whether the noun `narrow` in its first sense is below `wide` in any sense, or has it as its last word."""
    first_sense = senses_of_entry(narrow, "n")[:1]
    return _is_below_any(first_sense, WordNet.load().senses(wide, "n")) or head_word(narrow) == wide


def _verb_may_be_below(narrow: str, wide: str) -> bool:
    """Whether the verb `narrow` in any sense is below `wide` in a sense that is in use, or entails it."""
    wordnet = WordNet.load()
    return _is_below_any(wordnet.senses(narrow, "v"), wordnet.senses_in_use(wide, "v")) or wordnet.entails(narrow, wide)


def _is_below_any(senses: Sequence[int], above: Sequence[int]) -> bool:
    """Whether any synset of `senses` is in `above`, or has a hypernym there."""
    closure = WordNet.load().closure
    return any(not closure(sense).isdisjoint(above) for sense in senses)


def content_words(tokens: Sequence[Token]) -> set[ContentWord]:
    """The nouns, verbs, adjectives and prepositions among some tokens, without LIGHT verbs.

    A modifier of a noun counts as an attribute, even if it is a noun or a verb: "a **brick** wall".
    """
    return {
        ContentWord("attribute" if token.dep in MODIFIERS else KIND_OF_POS[token.pos], token.lemma)
        for token in tokens
        if token.pos in KIND_OF_POS and token.lemma not in LIGHT
    }


def span_excludes_word(caption: Caption, text: Caption, span: ChangedSpan) -> bool:
    """Whether a changed span replaces a word by another of its part of speech that cannot be true at the same time.

    So it is for "eating" -> "looking at", but not for "a pizza" -> "some hot food".
    """
    # Each word is compared with all words of the other text: one that stands elsewhere in it has only moved.
    of_caption = content_words(caption.tokens)
    of_text = content_words(text.tokens)
    old = content_words(caption.tokens[span.start : span.end])
    new = content_words(text.tokens[span.new_start : span.new_end])
    lost_kinds = {word.kind for word in old if _is_excluded_by_all(word, of_text)}
    return any(word.kind in lost_kinds and _is_excluded_by_all(word, of_caption) for word in new)


def _is_excluded_by_all(word: ContentWord, others: set[ContentWord]) -> bool:
    """Whether all other words of its kind exclude a word: none is the same, and none leaves open whether it is true."""
    if any(other.lemma == word.lemma for other in others):
        return False
    return not any(leaves_open(word.kind, word.lemma, other.lemma) for other in others if other.kind == word.kind)


def span_follows(caption: Caption, text: Caption, span: ChangedSpan) -> bool:
    """Whether a text says no more in a changed span than its caption does there.

    That is so if one word becomes a synonym or hypernym, or words are left out that only describe.
    """
    if span.new_start == span.new_end:
        return all(
            span.start <= token.head < span.end or token.dep in OPTIONAL
            for token in caption.tokens[span.start : span.end]
        )
    if not span.is_one_for_one:
        return False
    old = caption.tokens[span.start]
    new = text.tokens[span.new_start]
    kind = KIND_OF_POS.get(old.pos)
    return kind is not None and kind == KIND_OF_POS.get(new.pos) and is_kind_of(kind, old.lemma, new.lemma)


def canonical_meaning(caption: Caption) -> list[str]:
    """The dependency trees of a caption as texts, equal for captions that mean the same.

    They have no articles and no punctuation, and do not depend on the order of conjuncts, nor on that of the two sides
    of a symmetric preposition. Equal for "a dog and a cat on a bed" and "a cat and a dog on a bed", for "a red car near
    a bus" and "a bus near a red car"; not for "a red car near a bus" and "a red bus near a car".
    """
    return sorted(_tree_as_text(caption, token) for token in caption.tokens if token.head == token.index)


def _tree_as_text(caption: Caption, token: Token) -> str:
    """A token and its dependents as a text: link[the token and its conjuncts, each with its own](shared dependents).

    Dependents behind the last of several conjuncts belong to all of them. If the token is near a thing ("a car near a
    bus"), the two count as conjuncts, linked by "near", and share the places behind them.
    """
    tokens = caption.tokens
    left_out: range | tuple[()] = ()  # the tokens of "near"
    joined = [token]  # with its conjuncts, or with what it is near
    link = token.dep
    for member in joined:  # it grows while it is read: a conjunct may have conjuncts
        joined += caption.dependents(member.index, "conj")
    if len(joined) == 1 and token.head == token.index:
        use = _use_of_nearness(caption, token)
        if use is not None:
            joined = [token, tokens[use.noun]]
            link = "near"
            left_out = range(use.start, use.end)

    trees: list[str] = []
    shared: list[str] = []
    last = max(member.index for member in joined)
    for member in joined:
        own: list[str] = []
        for index in caption.children[member.index]:
            child = tokens[index]
            if index in left_out or child.dep in ("conj", "cc", "punct") or child.lower in ("a", "an", "the"):
                continue
            is_shared = index > last and (link != "near" or child.lower in PLACES)
            siblings = shared if is_shared else own
            siblings.append(_tree_as_text(caption, child))
        trees.append(f"{member.lemma}({' '.join(sorted(own))})")
    return f"{link}[{' '.join(sorted(trees))}]({' '.join(sorted(shared))})"


def _use_of_nearness(caption: Caption, token: Token) -> Slot | None:
    """The preposition by which a caption says what a thing is near; None if it does not say so."""
    for use in preposition_uses(caption):
        is_of_thing = governor_of(caption, use).index == token.index
        if is_of_thing and _is_near(use.entry) and not caption.has_dependent(use.noun, "conj"):
            return use
    return None


def _is_near(preposition: str) -> bool:
    """Whether a preposition says no more than "near" does: "beside", "next to"."""
    return preposition_table().same_relation(preposition, "near")


def may_change_places(caption: Caption, nouns: Sequence[int], edits: Sequence[Edit]) -> bool:
    """Whether a caption may still be true after two of its nouns have changed places, so that the result cannot be
    called false.

    That is so if the caption lists the nouns ("a dog and a cat"), or if the first does something near the second: "a
    car parked near a truck" does not say that the truck is not parked. In both cases the words that describe a noun
    (adjectives, compounds, numbers, possessors) must have moved with it.

    Args:
        caption: the caption before the exchange.
        nouns: the tokens of the two nouns, in order.
        edits: what has exchanged them.
    """
    first, second = nouns
    descriptions = chain(*(caption.dependents(noun, "amod", "compound", "nummod", "poss") for noun in nouns))
    for token in descriptions:
        if not any(edit.start <= token.start < edit.end for edit in edits):
            return False
    if set(caption.lowered[first + 1 : caption.phrase_start(second)]) <= {"and", ","}:
        return True
    for use in preposition_uses(caption):
        if use.noun == second and _is_near(use.entry):
            # Only verbs between the first noun and the preposition, or nothing: "a car near a truck".
            if all(token.pos in ("AUX", "VERB") for token in caption.tokens[first + 1 : use.start]):
                return True
    return False
