"""The sides of a picture or a thing that captions name, and what stands there: "a red barn **on the left**".

Long descriptions say where each thing is. The opposite side makes such a sentence false, and as natural as it was.
"""

from __future__ import annotations

from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..language.semantic_classes import is_body_part
from .verbs import subject_of

# Pairs of sides that exclude each other. "Upper" and "lower" stand before a noun only. Not front and back, nor
# foreground and background: of 21 such negatives 6 were read as odd, and what is in the background ("people", "a
# patch of grass") is often in the foreground as well.
PAIRS = (("left", "right"), ("top", "bottom"), ("upper", "lower"))
OPPOSITE = {side: other for pair in PAIRS for side, other in (pair, pair[::-1])}
ADJECTIVES = ("upper", "lower")
# What may stand between the article and a side, or between a side and its noun: "the far bottom-left corner".
BESIDE_SIDE = frozenset([*OPPOSITE, "-", "far", "very", "immediate", "extreme", "most", "center", "middle"])
ARTICLES = ("the", "its", "their", "his", "her")
OWNERS = ("its", "his", "her")
PREPOSITIONS = frozenset("in on at to toward towards along near".split())
TURNING = frozenset("face point turn look lean tilt".split())  # verbs of which a side needs no preposition
# The nouns that a side may stand before; before others it may tell which one is meant ("the right shoe").
PARTS = frozenset("side half corner edge part portion section area end third quarter quadrant".split())
# Prepositions before a part of the body, which has two sides as well: "with his left hand".
BEFORE_BODY = PREPOSITIONS | {"with", "around", "over", "under", "across", "behind"}
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
        # The word that ties the side to a thing: "on" of "a dog on the left".
        relation = _relation_to_side(caption, token) if token.lower in OPPOSITE else None
        thing = None if relation is None else _thing_at(caption, relation)
        if thing is not None:
            sides.append(Side(token.index, token.lower, thing))
    return tuple(sides)


def _relation_to_side(caption: Caption, side: Token) -> Token | None:
    """The preposition or verb that relates a thing to a side; None where the word `side` names no place.

    A preposition: "**on** the far left", "**in** the upper left corner". A verb: "**faces** the left side", "a dog
    **facing** left", "the left side **shows** a tree".
    """
    tokens = caption.tokens
    # The words around the side and its companions: "the" and "corner" of "the far bottom-left corner".
    before = side.index - 1
    while caption.word(before) in BESIDE_SIDE:
        before -= 1
    after = side.index + 1
    while caption.word(after) in BESIDE_SIDE:
        after += 1
    following = tokens[after] if after < len(tokens) else None
    part = following if following is not None and following.lemma in PARTS else None  # "corner", or None
    if before < 0:
        return None
    if following is not None and is_body_part(following.lemma) and following.tag == "NN":
        return _relation_to_body(caption, following, before)
    if part is None and following is not None and following.pos in ("NOUN", "PROPN", "ADJ", "NUM"):
        return None  # "the right shoe": the side tells which shoe, not where it is
    if part is None and side.lower in ADJECTIVES:
        return None  # "the upper" without a part of something
    if tokens[before].lemma in TURNING:
        return tokens[before]  # "facing left"
    if tokens[before].lower not in ARTICLES:
        return None  # "a man left"
    before_article = tokens[before - 1] if before else None
    if before_article is not None and (before_article.lower in PREPOSITIONS or before_article.lemma in TURNING):
        return before_article  # "on the left", "faces the left side"
    # "The left side shows a tree": the side, or its part, is the subject of a verb with an object.
    subject = side if part is None else part
    verb = tokens[subject.head]
    return verb if subject.dep == "nsubj" and caption.has_dependent(verb.index, "dobj") else None


def _relation_to_body(caption: Caption, part: Token, before: int) -> Token | None:
    """The preposition or verb that relates a thing to one side of a body: "**in** her left hand, she holds a purse".

    Also "a bracelet **encircles** her right wrist", "her left hand **holds** a cup".

    part: the part of the body. before: the index of the token before "left" or "right", which has to be a possessive.
    """
    # Another sentence that speaks of the same hand, or of the other one, would not fit.
    if caption.word(before) not in OWNERS or _named_sides(caption.whole, part) > _named_sides(caption, part):
        return None
    preposition = caption.tokens[before - 1] if before else None
    if preposition is not None and preposition.lower in BEFORE_BODY:
        return preposition
    verb = caption.tokens[part.head]
    if verb.pos == "VERB" and (
        part.dep == "dobj" or (part.dep == "nsubj" and caption.has_dependent(verb.index, "dobj"))
    ):
        return verb
    return None


def _named_sides(caption: Caption, part: Token) -> int:
    """How often a caption names a side of a part of a body: 2 for "her left hand … his right hand"."""
    return sum(
        token.lower == part.lower and caption.word(token.index - 1) in ("left", "right") for token in caption.tokens
    )


def _thing_at(caption: Caption, relation: Token) -> Token | None:
    """The noun of what is on a side, or turns there.

    Where the parse does not tell, it is the last noun before the relation; the first one after it if the relation
    begins the caption.

    relation: the preposition or verb that ties the thing to the side, "on" of "a dog on the left".
    """
    above = relation if relation.pos == "VERB" else caption.tokens[relation.head]
    if above.pos in ("VERB", "AUX"):
        # "There is a dog on the left", "On the left is a dog", "The left side shows a dog".
        nouns = list(caption.dependents(above.index, "nsubj", "attr", "dobj"))
        has_dummy = caption.has_dependent(above.index, "expl")  # "there is"
        doer = None if has_dummy else subject_of(caption, above)
        if doer is not None:
            nouns.insert(0, doer)
        above = next(filter(_is_thing, nouns), above)
    if _is_thing(above):
        return above
    heads = [caption.tokens[chunk.root] for chunk in caption.chunks]
    things = [head for head in heads if _is_thing(head)]
    if relation.index == 0:
        return next((thing for thing in things if thing.index > relation.index), None)
    return next((thing for thing in reversed(things) if thing.index < relation.index), None)


def _is_thing(token: Token) -> bool:
    """Whether a token is a noun that names neither a side nor a part of something."""
    is_part = token.lemma in PARTS or is_body_part(token.lemma)
    return token.tag in NOUN_TAGS and token.lower not in OPPOSITE and not is_part


def is_bounded(caption: Caption, thing: Token) -> bool:
    """Whether a thing can be on one side only: "a tree" and "two trees", but not "trees", "the tops" or "grass"."""
    if thing.tag == "NNS":
        return caption.has_dependent(thing.index, "nummod")
    return caption.has_dependent(thing.index, "det", "nummod", "poss")
