"""The sides of a picture or a thing that captions name, and what stands there: "a red barn **on the left**".

Long descriptions say where each thing is. The opposite side makes such a sentence false, and as natural as it was.
"""

from __future__ import annotations

from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from .verbs import subject_of

# Pairs of sides that exclude each other. "Upper" and "lower" stand before a noun only. Not front and back, nor
# foreground and background: of 21 such negatives 6 were read as odd, and what is in the background ("people", "a
# patch of grass") is often in the foreground as well.
PAIRS = (("left", "right"), ("top", "bottom"), ("upper", "lower"))
OPPOSITE = {side: other for pair in PAIRS for side, other in (pair, pair[::-1])}
ADJECTIVES = ("upper", "lower")
# What may stand between the article and a side, or between a side and its noun: "the far bottom-left corner".
BETWEEN = frozenset([*OPPOSITE, "-", "far", "very", "immediate", "extreme", "most", "center", "middle"])
ARTICLES = ("the", "its", "their", "his", "her")
PREPOSITIONS = frozenset("in on at to toward towards along near".split())
TURNING = frozenset("face point turn look lean tilt".split())  # verbs of which a side needs no preposition
# The nouns that a side may stand before; before others it may tell which one is meant ("the right shoe").
PARTS = frozenset("side half corner edge part portion section area end third quarter quadrant".split())
NOUN_TAGS = ("NN", "NNS")


class Side(NamedTuple):
    """A side that a caption says something is on.

    token: of the side. word: in lower case. thing: the noun of what is there.
    """

    token: int
    word: str
    thing: Token


@cached_on_caption
def sides_of(caption: Caption) -> tuple[Side, ...]:
    """The sides that a caption says something is on, or turns to, in text order."""
    sides = []
    for token in caption.tokens:
        anchor = _anchor_of(caption, token) if token.lower in OPPOSITE else None
        thing = None if anchor is None else _thing_at(caption, anchor)
        if thing is not None:
            sides.append(Side(token.index, token.lower, thing))
    return tuple(sides)


def _anchor_of(caption: Caption, side: Token) -> Token | None:
    """The word that says where a thing is by a side, or None for another use of the word.

    A preposition, "**on** the far left", "**in** the upper left corner"; or a verb, "**faces** the left side", "a dog
    **facing** left", "the left side **shows** a tree".
    """
    tokens = caption.tokens
    first = side.index - 1
    while caption.word(first) in BETWEEN:
        first -= 1
    behind = side.index + 1
    while caption.word(behind) in BETWEEN:
        behind += 1
    following = tokens[behind] if behind < len(tokens) else None
    has_part = following is not None and following.lemma in PARTS
    is_of_noun = following is not None and following.pos in ("NOUN", "PROPN", "ADJ", "NUM") and not has_part
    is_alone = not has_part and side.lower in ADJECTIVES
    if first < 0 or is_of_noun or is_alone:
        return None
    if tokens[first].lemma in TURNING:
        return tokens[first]
    if tokens[first].lower not in ARTICLES:
        return None
    before = tokens[first - 1] if first else None
    if before is not None and (before.lower in PREPOSITIONS or before.lemma in TURNING):
        return before
    noun = following if has_part and following is not None else side
    verb = tokens[noun.head]
    return verb if noun.dep == "nsubj" and caption.has_dependent(verb.index, "dobj") else None


def _thing_at(caption: Caption, anchor: Token) -> Token | None:
    """The noun of what is on a side, or turns there; see `_anchor_of`.

    Where the parse does not tell, it is the noun before the phrase, or behind it where it begins the sentence.
    """
    above = anchor if anchor.pos == "VERB" else caption.tokens[anchor.head]
    if above.pos in ("VERB", "AUX"):
        has_dummy = caption.has_dependent(above.index, "expl")
        doer = None if has_dummy else subject_of(caption, above)
        # "There is a dog on the left", "On the left is a dog", "The left side shows a dog".
        others = caption.dependents(above.index, "nsubj", "attr", "dobj")
        above = next(filter(_is_thing, [*([doer] if doer else []), *others]), above)
    if _is_thing(above):
        return above
    heads = [caption.tokens[chunk.root] for chunk in caption.chunks]
    things = [head for head in heads if _is_thing(head)]
    before = [thing for thing in things if thing.index < anchor.index]
    behind = [thing for thing in things if thing.index > anchor.index]
    return next(iter(behind if anchor.index == 0 else reversed(before)), None)


def _is_thing(token: Token) -> bool:
    """Whether a token is a noun that names neither a side nor a part of something."""
    return token.tag in NOUN_TAGS and token.lower not in OPPOSITE and token.lemma not in PARTS


def is_bounded(caption: Caption, thing: Token) -> bool:
    """Whether a thing can be on one side only: "a tree" and "two trees", but not "trees", "the tops" or "grass"."""
    if thing.tag == "NNS":
        return caption.has_dependent(thing.index, "nummod")
    return caption.has_dependent(thing.index, "det", "nummod", "poss")
