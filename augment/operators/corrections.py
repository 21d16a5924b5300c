"""Corrections of a caption's words: "on a table, not a bench" and "is standing, not sitting"."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..caption import Caption, cached_on_context
from ..context import Context
from ..edits import Candidate, Edit
from ..language.determiners import ARTICLES
from ..language.grammar import article
from ..rng import record_rng
from ..slots.denials import denied
from ..slots.nouns import noun_slots
from .choices import draw
from .noun import noun_choices
from .verb import verb_choices

CORRECTIONS = 24  # how many corrections of a caption are drawn, most of which are too unlikely
MIN_CORRECTION = -2.0  # the lowest log-odds of a correction's word to the caption's


class Correction(NamedTuple):
    """A noun or verb of a caption, and one that would be false in its place.

    index: its token. there, missing: both as entries; old, new: as written, with the article. made: the candidate that
    replaces the one by the other.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    there: str
    missing: str
    old: str
    new: str
    made: Candidate

    def candidate(self, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Candidate:
        """The candidate with these edits, which says `replacement`."""
        change: Literal["denial", "verb_denial"] = "verb_denial" if self.made.change == "verb" else "denial"
        made = self.made._replace(plausibility=None, absent=self.missing)
        return made._replace(change=change, edits=edits, replaced=replaced, replacement=replacement)


@cached_on_context
def corrections(caption: Caption, context: Context) -> list[Correction]:
    """Corrections of a caption's nouns and participles in random order; both operators have the same."""
    if denied(caption):
        return []
    choices = [*noun_choices(caption, context), *verb_choices(caption, context)]
    choices = [one for one in choices if _correctable(caption, one.tokens[0])]
    rng = record_rng(0, "corrections", caption.caption_id)
    found = []
    slots = {slot.root: slot for slot in noun_slots(caption)}
    for made in draw(choices, rng, CORRECTIONS):
        if made.plausibility is not None and made.plausibility < MIN_CORRECTION:
            continue
        index = made.slots[0]
        token = caption.tokens[index]
        if made.change == "verb":
            old, new = token.lower, made.edits[0].new.lower()
        else:
            slot = slots[index]
            surfaces = context.lexicon.plural if slot.plural else context.lexicon.singular
            first = next(caption.tokens[chunk.start] for chunk in caption.chunks if chunk.root == index)
            determiner = first.lower if first.dep == "poss" or first.lower in (*ARTICLES, "the") else ""
            old = _determined(caption.span(slot.start, slot.end).lower(), determiner)
            new = _determined(surfaces[made.replacement], determiner)
        found.append(Correction(index, made.replaced, made.replacement, old, new, made))
    return found


def _determined(noun: str, determiner: str) -> str:
    """A noun after a determiner: "a", "the", "his", or "" for none."""
    return f"{article(noun) if determiner in ARTICLES else determiner} {noun}".strip()


def _correctable(caption: Caption, index: int) -> bool:
    """Whether ", not a dog" may follow a word: a participle, or a noun in lower case that ends its phrase.

    Not a subject, and not "camera", since people look at it and are seen by it.
    """
    token = caption.tokens[index]
    if (
        not token.text.islower()
        or token.lower == "camera"
        or caption.text[token.end : token.end + 1] not in ("", " ", ".", ",")
    ):
        return False
    if token.tag == "VBG":
        before = caption.tokens[max(index - 1, 0)]
        compound = before.head == index and before.pos in ("NOUN", "PROPN", "ADJ") and before.dep != "nsubj"
        return not compound and caption.lowered[index + 1 : index + 2] != ("and",)
    if token.dep in ("nsubj", "nsubjpass", "ROOT"):
        return False
    listed = any(True for _ in caption.dependents(index, "conj", "cc", "appos", "case")) or token.dep in (
        "conj",
        "appos",
    )
    return (
        token.tag in ("NN", "NNS") and not listed and caption.lowered[index + 1 : index + 2] not in (("of",), ("and",))
    )


def denial_after(caption: Caption, index: int, words: str) -> Edit:
    """The edit that says after a token what is not there: ", not a dog", with a comma if the sentence goes on."""
    token = caption.tokens[index]
    on = any(later.pos != "PUNCT" for later in caption.tokens[index + 1 : index + 2])
    return Edit(token.end, token.end, f", not {words}" + "," * on)
