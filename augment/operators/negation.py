"""Negation: pairs of a true and a false sentence about two nouns, one that the image shows and one that it does not.

For "a man with a hat", whose image shows no helmet:

| | true | false |
|---|---|---|
| affirmative | a man with a hat | a man with a helmet |
| negative | a man without a helmet | a man without a hat |
| both | a man with a hat but no helmet | a man with a helmet but no hat |

So a noun is denied as well in true as in false sentences, and the words of denial tell nothing (NegBench, Alhamoud et
al. 2025, asks such sentences as multiple choice).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ..caption import Caption
from ..context import Context
from ..edits import Candidate, Edit
from ..language.determiners import ARTICLES
from ..language.grammar import article
from ..language.wordnet import first_sense
from ..slots.denials import BOTH, NO, PLURAL_FRAMES, denied, listed
from .contrasts import Contrast, contrasts, existing
from .corrections import corrections, denial_after
from .noun import noun_candidates

# Share of captions without a place of which the first sentence is a correction: readers call half of these odd, and no
# sentence about what the picture has.
OF_CORRECTIONS = 0.35


def negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """False sentences: deny what is there, assert what is not, or both ("with a helmet but no hat").

    A caption that denies something is contradicted: "a man without a hat" -> "a man with a hat". `replaced` is what is
    true, `replacement` what the negative says; "not " precedes what is denied there ("no " what the caption denies).
    Yields at most `draws` candidates.
    """
    made = [
        Candidate("none", (edit,), (index,), f"no {noun}", noun, None, first_sense(noun))
        for noun, index, edit in denied(caption)
    ]
    for contrast in contrasts(caption, context):
        some = [*_false(caption, context, contrast)]
        rng.shuffle(some)
        made += some
    yield from made[:draws]


def true_negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """True sentences beside those of `negation`, about the same nouns in the same places.

    They deny what is not there, also beside what is there ("with a hat but no helmet"); what a sibling caption mentions
    is asserted, too. `replaced` is the caption's noun, `replacement` what the sentence says, which `negation` has as
    `replaced`. Yields at most `draws` candidates.
    """
    made = [one for contrast in contrasts(caption, context) for one in _true(caption, context, contrast)]
    yield from made[:draws]


def corrected(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """False sentences for captions without a place of a denial: "on a table, not a bench", of "on a bench".

    Also "is standing, not sitting", and sentences that say only what is there, as in VALSE: "There are no dogs in the
    picture". Yields at most `draws` candidates.
    """
    made = []
    for one in corrections(caption, context):
        edits = tuple(sorted([*one.made.edits, denial_after(caption, one.index, one.old)]))
        made.append(one.candidate(edits, one.there + BOTH + NO + one.missing, one.missing + BOTH + NO + one.there))
    said = []
    for contrast in existing(caption, context):
        some = [*_false(caption, context, contrast)]
        rng.shuffle(some)
        said += some
    yield from ([*made, *said] if rng.random() < OF_CORRECTIONS else [*said, *made])[:draws]


def truly_corrected(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """The true sentences beside those of `corrected`: "on a bench, not a table"; yields at most `draws`."""
    made = [
        one.candidate((denial_after(caption, one.index, one.new),), one.there, one.there + BOTH + NO + one.missing)
        for one in corrections(caption, context)
    ]
    made += [one for contrast in existing(caption, context) for one in _true(caption, context, contrast)]
    yield from made[:draws]


def _false(caption: Caption, context: Context, contrast: Contrast) -> Iterator[Candidate]:
    place, there, missing, _ = contrast
    yield _candidate(contrast, (place.denial(**_words(context, contrast, there)),), there, NO + there)
    yield _candidate(contrast, _assertion(caption, context, contrast, missing), NO + missing, missing)
    both = _both(caption, context, contrast, missing, there)
    if both is not None:
        yield _candidate(contrast, (both,), there + BOTH + NO + missing, missing + BOTH + NO + there)


def _true(caption: Caption, context: Context, contrast: Contrast) -> Iterator[Candidate]:
    place, there, missing, _ = contrast
    own = "" if place.slot is None else there
    yield _candidate(contrast, (place.denial(**_words(context, contrast, missing)),), own, NO + missing)
    both = _both(caption, context, contrast, there, missing)
    if both is not None:
        yield _candidate(contrast, (both,), own, there + BOTH + NO + missing)
    if place.slot is None:
        yield _candidate(contrast, _assertion(caption, context, contrast, there), own, there)


def _candidate(contrast: Contrast, edits: tuple[Edit, ...], replaced: str, replacement: str) -> Candidate:
    old, new = (first_sense(_first_noun(said)) if said else None for said in (replaced, replacement))
    place = (contrast.place.index,)
    return Candidate("denial", edits, place, replaced, replacement, old, new, absent=contrast.missing)


def _first_noun(said: str) -> str:
    """The noun that is asserted, or else denied: "hat | not dog" -> "hat", "not dog" -> "dog"."""
    return said.partition(BOTH)[0].removeprefix(NO)


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
    place = contrast.place
    if place.slot is None:
        return (place.assertion(**_words(context, contrast, noun)),)
    return noun_candidates(caption, context, place.slot)(noun).edits
