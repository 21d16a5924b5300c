"""Noun slots: the nouns of a caption that may be replaced, with their forms and contexts."""

from __future__ import annotations

from typing import NamedTuple

from ..cache import cached_on_caption
from ..caption import Caption, Chunk
from ..language.attributes import is_part_of_name
from ..language.determiners import PLURAL_DETERMINERS, SINGULAR_DETERMINERS, singular_form
from .contexts import after, before, broader, governor

NOUN_TAGS = {"NN", "NNS"}
COUNTED = PLURAL_DETERMINERS | {"couple", "dozen"}


class NounSlot(NamedTuple):
    """A common noun that heads a noun phrase, with its compound modifiers: tokens `start` to `end` (exclusive).

    entry: the noun as counted in a lexicon, "tennis racket". form: "plural", "a", "some" (a mass noun), "the" or
    "bare". contexts (see negcap.augment.slots.contexts): its governor, what that backs off to, the words before, the
    word after.
    """

    start: int
    end: int
    entry: str
    plural: bool
    form: str
    contexts: tuple[str, ...]

    @property
    def root(self) -> int:
        """The token index of the head noun."""
        return self.end - 1


def is_cut_compound(caption: Caption, root: int) -> bool:
    """Whether the parser wrongly ends a noun phrase inside a compound: "the blue ice | skates".

    root: the token index of the phrase's head.
    """
    following = caption.tokens[root + 1 : root + 2]
    return bool(following) and following[0].pos == "NOUN" and following[0].dep not in ("appos", "npadvmod")


def _number_unclear(caption: Caption, chunk: Chunk) -> bool:
    """Whether a noun phrase has a singular determiner and a plural head, so that no edit of it is safe.

    Such as a possessive without apostrophe ("licks a girls | hand"), a typo ("a women"), or a verb tagged as a noun ("a
    bee clings"). "A few dogs", "a dozen eggs" and "another two men" are plurals.
    """
    if caption.tokens[chunk.root].tag != "NNS":
        return False
    inside = caption.tokens[chunk.start : chunk.root]
    counted = any(token.lower in COUNTED or token.tag == "CD" for token in inside if token.lower != "one")
    return not counted and any(token.lower in SINGULAR_DETERMINERS and token.head == chunk.root for token in inside)


@cached_on_caption
def noun_slots(caption: Caption) -> tuple[NounSlot, ...]:
    """The heads of noun phrases that are common nouns: "a **tennis racket** on a **bench**"."""
    slots = []
    tokens, lowered = caption.tokens, caption.lowered
    for chunk in caption.chunks:
        root = tokens[chunk.root]
        if (
            root.tag not in NOUN_TAGS
            or not root.text.replace("-", "").isalpha()
            or is_cut_compound(caption, chunk.root)
        ):
            continue
        if _number_unclear(caption, chunk):
            continue
        start = chunk.root
        while start > chunk.start and tokens[start - 1].dep in ("compound", "nmod") and tokens[start - 1].head >= start:
            start -= 1
        if any(not token.text.replace("-", "").isalpha() for token in tokens[start : chunk.root]):
            continue
        if start == chunk.root > chunk.start and tokens[start - 1].dep == "amod":
            start -= is_part_of_name(lowered[start - 1], root.lemma)
        entry = " ".join([*lowered[start : chunk.root], root.lemma])
        own = [token for token in tokens[chunk.start : start] if token.head == root.index]
        plural = root.tag == "NNS" or not PLURAL_DETERMINERS.isdisjoint([token.lower for token in own])
        form = "plural" if plural else singular_form(own, start > 0 and tokens[start - 1].dep == "case")
        governed = governor(caption, root)
        contexts = (
            governed,
            broader(governed),
            f"left:{before(caption, start)}",
            f"right:{after(caption, chunk.root + 1)}",
        )
        slots.append(NounSlot(start, chunk.root + 1, entry, plural, form, contexts))
    return tuple(slots)
