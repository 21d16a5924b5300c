"""Negation: pairs of a true and a false sentence about two nouns, one that the image shows and one that it does not.

For "a man with a hat", whose image shows no helmet:

| | true | false |
|---|---|---|
| affirmative | a man with a hat | a man with a helmet |
| negative | a man without a helmet | a man without a hat |
| both | a man with a hat but no helmet | a man with a helmet but no hat |

So a noun is denied as well in true as in false sentences, and the words of denial tell nothing (NegBench, Alhamoud et
al. 2025, asks such sentences as multiple choice). Captions without a place of a denial are corrected: "on a table, not
a bench" and "is standing, not sitting".
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from ..caption import Caption, cached_on_context
from ..context import Context
from ..edits import Candidate, Edit
from ..language.determiners import ARTICLES
from ..language.grammar import article
from ..language.wordnet import first_sense
from ..rng import record_rng
from ..slots.denials import BOTH, NO, PLURAL_FRAMES, denied, listed
from ..slots.nouns import noun_slots
from .choices import draw
from .contrasts import Contrast, contrasts, existing
from .noun import noun_candidates, noun_choices
from .verb import verb_choices

CORRECTIONS = 24  # how many corrections of a caption are drawn, most of which are too unlikely
MIN_CORRECTION = -2.0  # the lowest log-odds of a correction's word to the caption's
# Share of captions without a place of which the first sentence is a correction: readers call half of these odd, and no
# sentence about what the picture has.
OF_CORRECTIONS = 0.35


def negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """False sentences: deny what is there, assert what is not, or both ("with a helmet but no hat").

    A caption that denies something is contradicted: "a man without a hat" -> "a man with a hat". `replaced` is what is
    true, `replacement` what the negative says; "not " precedes what is denied there ("no " what the caption denies).
    """
    contradicted = [
        Candidate("none", (edit,), (index,), f"no {noun}", noun, None, first_sense(noun))
        for noun, index, edit in denied(caption)
    ]
    yield from [*contradicted, *_false_candidates(caption, context, contrasts(caption, context), rng)][:draws]


def true_negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """True sentences beside those of `negation`, about the same nouns in the same places.

    They deny what is not there, also beside what is there ("with a hat but no helmet"); what a sibling caption mentions
    is asserted, too. `replaced` is the caption's noun, `replacement` what the sentence says, which `negation` has as
    `replaced`.
    """
    pairs = contrasts(caption, context)
    yield from [candidate for contrast in pairs for candidate in _true_candidates(caption, context, contrast)][:draws]


def corrected(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """False sentences for captions without a place of a denial: "on a table, not a bench", of "on a bench".

    Also "is standing, not sitting", and sentences that say only what is there, as in VALSE: "There are no dogs in the
    picture".
    """
    corrections = []
    for one in _corrections(caption, context):
        edits = tuple(sorted([*one.exchange.edits, _denial_after(caption, one.index, one.old)]))
        words = one.there + BOTH + NO + one.missing, one.missing + BOTH + NO + one.there
        corrections.append(one.candidate(edits, *words))
    said = _false_candidates(caption, context, existing(caption, context), rng)
    yield from ([*corrections, *said] if rng.random() < OF_CORRECTIONS else [*said, *corrections])[:draws]


def truly_corrected(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """The true sentences beside those of `corrected`: "on a bench, not a table"."""
    candidates = [
        one.candidate((_denial_after(caption, one.index, one.new),), one.there, one.there + BOTH + NO + one.missing)
        for one in _corrections(caption, context)
    ]
    for contrast in existing(caption, context):
        candidates += _true_candidates(caption, context, contrast)
    yield from candidates[:draws]


def _false_candidates(caption: Caption, context: Context, pairs: list[Contrast], rng: Random) -> list[Candidate]:
    """The false sentences about each contrast, of which those about one contrast are in random order."""
    candidates = []
    for contrast in pairs:
        place, there, missing, _ = contrast
        denial = place.denial(**_words(context, contrast, there))
        false = [
            _candidate(contrast, (denial,), there, NO + there),
            _candidate(contrast, _assertion(caption, context, contrast, missing), NO + missing, missing),
        ]
        both = _both(caption, context, contrast, missing, there)
        if both is not None:
            false.append(_candidate(contrast, (both,), there + BOTH + NO + missing, missing + BOTH + NO + there))
        rng.shuffle(false)
        candidates += false
    return candidates


def _true_candidates(caption: Caption, context: Context, contrast: Contrast) -> Iterator[Candidate]:
    """What is true of the image: the missing noun is denied, or the shown one asserted, or both."""
    place, shown, missing, _ = contrast
    replaced = "" if place.slot is None else shown
    yield _candidate(contrast, (place.denial(**_words(context, contrast, missing)),), replaced, NO + missing)
    both = _both(caption, context, contrast, shown, missing)
    if both is not None:
        yield _candidate(contrast, (both,), replaced, shown + BOTH + NO + missing)
    if place.slot is None:
        yield _candidate(contrast, _assertion(caption, context, contrast, shown), replaced, shown)


def _candidate(contrast: Contrast, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Candidate:
    # The senses are of the nouns that are asserted, or else denied: "hat | not dog" -> "hat", "not dog" -> "dog".
    nouns = (said.partition(BOTH)[0].removeprefix(NO) for said in (replaced, replacement))
    old, new = (first_sense(noun) if noun else None for noun in nouns)
    place = (contrast.place.index,)
    return Candidate("denial", edits, place, replaced, replacement, old, new, absent=contrast.missing)


def _words(context: Context, contrast: Contrast, noun: str) -> dict[str, str]:
    """A noun with its article and without, and the verbs that agree, as `Place` takes them."""
    lexicon, surface = context.lexicon, context.lexicon.in_number(noun, many=contrast.plural)
    no, one = surface, noun in listed("one")
    if contrast.place.frame in PLURAL_FRAMES:
        no = lexicon.in_number(noun, many=not one and noun in lexicon.plural)
    bare = contrast.plural or noun in listed("mass")
    are = {"be": "are" if contrast.plural else "is", "be_no": "is" if no == lexicon.singular.get(noun) else "are"}
    return {"a": surface if bare else f"{article(surface)} {surface}", "no": no, **are}


def _both(caption: Caption, context: Context, contrast: Contrast, asserted: str, denied: str) -> Edit | None:
    words = _words(context, contrast, asserted)
    slot = contrast.place.slot
    if slot is not None:  # the adjectives of the caption's noun stay
        first = next(chunk.start for chunk in caption.chunks if chunk.root == slot.root)
        before = caption.text[caption.tokens[first].start : caption.tokens[slot.start].start]
        surface = context.lexicon.in_number(asserted, many=contrast.plural)
        if before.lower() == "the ":
            before = "a "  # "with the ball" -> "with a stick but no ball"
        words["a"] = words["a"] if before.strip() in ARTICLES else before + surface
    return contrast.place.contrast(**{**words, "no": _words(context, contrast, denied)["no"]})


def _assertion(caption: Caption, context: Context, contrast: Contrast, noun: str) -> tuple[Edit, ...]:
    if contrast.place.slot is None:
        return (contrast.place.assertion(**_words(context, contrast, noun)),)
    return noun_candidates(caption, context, contrast.place.slot)(noun).edits


class Correction(NamedTuple):
    """A noun or verb of a caption, and one that would be false in its place.

    index: its token. there, missing: both as entries; old, new: as written, with the article. exchange: the candidate
    that replaces the one by the other.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    there: str
    missing: str
    old: str
    new: str
    exchange: Candidate

    def candidate(self, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Candidate:
        """The candidate with these edits, which says `replacement`."""
        return self.exchange._replace(
            change="verb_denial" if self.exchange.change == "verb" else "denial",
            edits=edits,
            replaced=replaced,
            replacement=replacement,
            plausibility=None,
            absent=self.missing,
        )


@cached_on_context
def _corrections(caption: Caption, context: Context) -> list[Correction]:
    """Corrections of a caption's nouns and participles in random order; both operators have the same."""
    if denied(caption):
        return []
    choices = [*noun_choices(caption, context), *verb_choices(caption, context)]
    choices = [choice for choice in choices if _correctable(caption, choice.tokens[0])]
    rng = record_rng(0, "corrections", caption.caption_id)
    corrections = []
    slots = {slot.root: slot for slot in noun_slots(caption)}
    for exchange in draw(choices, rng, CORRECTIONS):
        if exchange.plausibility is not None and exchange.plausibility < MIN_CORRECTION:
            continue
        index = exchange.slots[0]
        if exchange.change == "verb":
            old, new = caption.lowered[index], exchange.edits[0].new.lower()
        else:
            slot = slots[index]
            first = next(caption.tokens[chunk.start] for chunk in caption.chunks if chunk.root == index)
            determiner = first.lower if first.dep == "poss" or first.lower in (*ARTICLES, "the") else ""
            nouns = (
                caption.span(slot.start, slot.end).lower(),
                context.lexicon.forms(many=slot.plural)[exchange.replacement],
            )
            old, new = (f"{article(noun) if determiner in ARTICLES else determiner} {noun}".strip() for noun in nouns)
        corrections.append(Correction(index, exchange.replaced, exchange.replacement, old, new, exchange))
    return corrections


def _correctable(caption: Caption, index: int) -> bool:
    """Whether ", not a dog" may follow a word: a participle, or a noun in lower case that ends its phrase.

    Not a subject, and not "camera", since people look at it and are seen by it.
    """
    token, following = caption.tokens[index], caption.word(index + 1)
    if not token.text.islower() or token.lower == "camera" or caption.text[token.end : token.end + 1] not in " .,":
        return False
    if token.tag == "VBG":
        before = caption.tokens[max(index - 1, 0)]
        compound = before.head == index and before.pos in ("NOUN", "PROPN", "ADJ") and before.dep != "nsubj"
        return not compound and following != "and"
    if token.tag not in ("NN", "NNS") or token.dep in ("nsubj", "nsubjpass", "ROOT", "conj", "appos"):
        return False
    return not caption.has(index, "conj", "cc", "appos", "case") and following not in ("of", "and")


def _denial_after(caption: Caption, index: int, words: str) -> Edit:
    """The edit that says after a token what is not there: ", not a dog", with a comma if the sentence goes on."""
    end = caption.tokens[index].end
    goes_on = any(later.pos != "PUNCT" for later in caption.tokens[index + 1 : index + 2])
    return Edit(end, end, f", not {words}" + "," * goes_on)
