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
from typing import Literal, NamedTuple

import numpy as np

from negcap.augment.cache import cached, cached_on_context, read_only
from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate, Edit
from negcap.augment.language.articles import article
from negcap.augment.language.coreference import may_corefer
from negcap.augment.language.determiners import ARTICLES
from negcap.augment.language.wordnet import first_sense
from negcap.augment.lexicon.sampling import sample
from negcap.augment.operators.choices import draw
from negcap.augment.operators.noun import noun_candidates, noun_choices, noun_weights
from negcap.augment.operators.verb import verb_choices
from negcap.augment.rng import record_rng
from negcap.augment.slots.denials import (
    BOTH,
    NO,
    PLURAL_FRAMES,
    Frame,
    Place,
    additions,
    deniable,
    denied,
    existence,
    listed,
    places,
    shown_nouns,
)
from negcap.augment.slots.nouns import noun_slots

# How many contrasts of a caption are drawn: enough for the operators' quotas, with those that are refused.
CONTRASTS = 8
CORRECTIONS = 24  # the same of corrections, most of which are too unlikely
# The lowest log-odds of a noun to the one that a caption has in its place, and the greatest difference of how much the
# caption lets expect the noun that is there and the one that is not, both in nats.
MIN_ODDS = -2.0
MAX_DIFFERENCE = 1.5
# The log-odds of a noun, given a caption, above which the caption implies it: "a surfer with no surfboard".
IMPLIED = 0.0
RARE = -4.0
MIN_CORRECTION = -2.0  # the lowest log-odds of a correction's word to the caption's
# Share of captions without a place of which the first sentence is a correction: readers call half of these odd, and no
# sentence about what the picture has.
OF_CORRECTIONS = 0.35


class Contrast(NamedTuple):
    """A place of a caption, a noun that the image shows there, and one that it does not; plural: of both nouns."""

    place: Place
    there: str
    missing: str
    plural: bool


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
    for one in _corrections(caption, context):
        edits = tuple(sorted([*one.made.edits, _not(caption, one.index, one.old)]))
        made.append(one.candidate(edits, one.there + BOTH + NO + one.missing, one.missing + BOTH + NO + one.there))
    said = []
    for contrast in _existing(caption, context):
        some = [*_false(caption, context, contrast)]
        rng.shuffle(some)
        said += some
    yield from ([*made, *said] if rng.random() < OF_CORRECTIONS else [*said, *made])[:draws]


def truly_corrected(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """The true sentences beside those of `corrected`: "on a bench, not a table"; yields at most `draws`."""
    made = [
        one.candidate((_not(caption, one.index, one.new),), one.there, one.there + BOTH + NO + one.missing)
        for one in _corrections(caption, context)
    ]
    made += [one for contrast in _existing(caption, context) for one in _true(caption, context, contrast)]
    yield from made[:draws]


@cached_on_context
def _existing(caption: Caption, context: Context) -> list[Contrast]:
    """Contrasts of a thing that a caption of the image mentions and a missing one as frequent, in random order."""
    nouns, place = context.lexicon.nouns, existence(caption)
    if place is None:
        return []
    allowed, found = _deniable(nouns.names, "exists"), []
    shown = _shown_by_siblings(context, "exists") | dict(sorted(shown_nouns(caption, "exists")))
    for noun, plural in sorted(shown.items()):
        forms = context.lexicon.plural if plural else context.lexicon.singular
        if noun in nouns.number and noun in forms:
            difference = np.abs(nouns.priors[""] - nouns.priors[""][nouns.number[noun]])
            weights = np.where(allowed & (difference <= MAX_DIFFERENCE), 1.0, 0.0)
            weights[context.lexicon.may_corefer(noun)] = 0.0
            weights[[number for number in weights.nonzero()[0] if nouns.names[number] not in forms]] = 0.0
            found.append((noun, plural, weights))
    rng = record_rng(0, "existence", caption.caption_id)
    drawn = sample([weights for *_, weights in found], rng, CONTRASTS)
    return [Contrast(place, found[at][0], nouns.names[number], found[at][1]) for at, number in drawn]


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
def _corrections(caption: Caption, context: Context) -> list[Correction]:
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


def _not(caption: Caption, index: int, words: str) -> Edit:
    """The edit that says after a token what is not there: ", not a dog", with a comma if the sentence goes on."""
    token = caption.tokens[index]
    on = any(later.pos != "PUNCT" for later in caption.tokens[index + 1 : index + 2])
    return Edit(token.end, token.end, f", not {words}" + "," * on)


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
    lexicon, surface = context.lexicon, _surface(context, noun, plural=contrast.plural)
    no, one = surface, noun in listed("one")
    if contrast.place.frame in PLURAL_FRAMES:
        no = _surface(context, noun, plural=not one and noun in lexicon.plural)
    bare = contrast.plural or noun in listed("mass")
    are = {"be": "are" if contrast.plural else "is", "be_no": "is" if no == lexicon.singular.get(noun) else "are"}
    return {"a": surface if bare else f"{article(surface)} {surface}", "no": no, **are}


def _surface(context: Context, noun: str, *, plural: bool) -> str:
    return (context.lexicon.plural if plural else context.lexicon.singular)[noun]


def _both(caption: Caption, context: Context, contrast: Contrast, asserted: str, denied: str) -> Edit | None:
    words = _words(context, contrast, asserted)
    slot = contrast.place.slot
    if slot is not None:  # the adjectives of the caption's noun stay
        first = next(chunk.start for chunk in caption.chunks if chunk.root == slot.root)
        before = caption.text[caption.tokens[first].start : caption.tokens[slot.start].start]
        surface = _surface(context, asserted, plural=contrast.plural)
        if before.lower() == "the ":
            before = "a "  # "with the ball" -> "with a stick but no ball"
        words["a"] = words["a"] if before.strip() in ARTICLES else before + surface
    return contrast.place.contrast(**{**words, "no": _words(context, contrast, denied)["no"]})


def _assertion(caption: Caption, context: Context, contrast: Contrast, noun: str) -> tuple[Edit, ...]:
    place = contrast.place
    if place.slot is None:
        return (place.assertion(**_words(context, contrast, noun)),)
    return noun_candidates(caption, context, place.slot)(noun).edits


@cached_on_context
def contrasts(caption: Caption, context: Context) -> list[Contrast]:
    """Contrasts of a caption in random order; both operators have the same, whatever the seed.

    The noun that is not there is drawn from those that the caption lets expect about as much as the one that is.
    """
    names, found = context.lexicon.nouns.names, []
    for place in places(caption):
        weights = _weights_in(caption, context, place)
        if weights is not None:
            found.append((place, place.slot.entry, place.slot.plural, weights))  # type: ignore[union-attr]
    for place in additions(caption):
        found += [(place, *one) for one in _unmentioned(caption, context, place.frame)]
    rng = record_rng(0, "contrasts", caption.caption_id)
    drawn = sample([weights for *_, weights in found], rng, CONTRASTS)
    return [Contrast(found[at][0], found[at][1], names[number], found[at][2]) for at, number in drawn]


def _weights_in(caption: Caption, context: Context, place: Place) -> np.ndarray | None:
    """The chance of each noun of the lexicon to be the missing one in a place of the caption: (entries,), sum 1.

    None if no noun fits.
    """
    nouns, slot = context.lexicon.nouns, place.slot
    if slot is None or slot.entry not in nouns.number:
        return None
    others = (one.entry for one in noun_slots(caption) if one.root != slot.root)
    if any(may_corefer(slot.entry, other) for other in others):
        return None  # "a dog jumps on another dog"
    weighed = noun_weights(context, slot)
    if weighed is None:
        return None
    weights, odds = weighed
    made = np.where(_deniable(nouns.names, place.frame) & (odds >= MIN_ODDS), weights, 0.0)
    if place.frame == "near" and not made.any() and context.image is not None:
        expected = context.image.expected_nouns(caption)
        made = (
            np.zeros(0) if expected is None else _like(context, expected, slot.entry, place.frame, plural=slot.plural)
        )
    return _normalised(made)


def _unmentioned(caption: Caption, context: Context, frame: Frame) -> Iterator[tuple[str, bool, np.ndarray]]:
    """Nouns that only sibling captions mention, whether plural, and the chance of each noun to be the missing one."""
    nouns = context.lexicon.nouns
    if context.image is None:
        return
    expected = context.image.expected_nouns(caption)
    if expected is None:
        return
    seen = _shown_by_siblings(context, frame)
    for noun, plural in sorted(seen.items()):
        entry = nouns.number.get(noun)
        if entry is None or expected[entry] > IMPLIED or context.coreferent_in_caption.reason(entry) is not None:
            continue
        made = _normalised(_like(context, expected, noun, frame, plural=plural))
        if made is not None:
            yield noun, plural, made


def _shown_by_siblings(context: Context, frame: Frame) -> dict[str, bool]:
    """The nouns that can be denied in a frame and that sibling captions mention; whether one has it in the plural."""
    seen: dict[str, bool] = {}
    for number, sibling in enumerate(context.siblings.captions):
        if number != context.siblings.without:
            for noun, plural in shown_nouns(sibling, frame):
                seen[noun] = seen.get(noun, False) or plural
    return seen


def _like(context: Context, expected: np.ndarray, noun: str, frame: Frame, *, plural: bool) -> np.ndarray:
    """The weight of each noun that may be denied in a frame and is expected about as much as `noun`: (entries,)."""
    lexicon, names = context.lexicon, context.lexicon.nouns.names
    forms = lexicon.plural if plural else lexicon.singular
    if noun not in forms:
        return np.zeros(len(names))
    own = expected[lexicon.nouns.number[noun]]
    difference = np.abs(expected - own)
    allowed = _deniable(names, frame) & (expected > RARE) & (difference <= MAX_DIFFERENCE)
    weights = np.where(allowed & (own > RARE), np.exp(-difference), 0.0)
    weights[lexicon.may_corefer(noun)] = 0.0
    weights[[number for number in weights.nonzero()[0] if names[number] not in forms]] = 0.0
    return weights


def _normalised(weights: np.ndarray) -> np.ndarray | None:
    total = weights.sum()
    return weights / total if total > 0 else None


@cached(64)
def _deniable(names: tuple[str, ...], frame: Frame) -> np.ndarray:
    """A mask of the nouns that may be denied in a frame: (entries,), read-only."""
    known = deniable(frame)
    return read_only(np.array([name in known for name in names], bool))
