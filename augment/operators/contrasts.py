"""Which nouns the sentences of the negation operators are about: one that the image shows and one that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..caption import Caption, cached, cached_on_context, read_only
from ..context import Context
from ..elementary import exp
from ..language.coreference import may_corefer
from ..lexicon.lexicon import sample
from ..rng import record_rng
from ..slots.denials import Frame, Place, additions, deniable, existence, places, shown_nouns
from ..slots.nouns import noun_slots
from .noun import noun_weights

# How many contrasts of a caption are drawn: enough for the operators' quotas, with those that are refused.
CONTRASTS = 8
# The lowest log-odds of a noun to the one that a caption has in its place, and the greatest difference of how much the
# caption lets expect the noun that is there and the one that is not, both in nats.
MIN_ODDS = -2.0
MAX_DIFFERENCE = 1.5
# The log-odds of a noun, given a caption, above which the caption implies it: "a surfer with no surfboard".
IMPLIED = 0.0
RARE = -4.0  # the log-odds of a noun, given a caption, below which nobody would think of denying it


class Contrast(NamedTuple):
    """A place of a caption, a noun that the image shows there, and one that it does not; plural: of both nouns."""

    place: Place
    there: str
    missing: str
    plural: bool


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


@cached_on_context
def existing(caption: Caption, context: Context) -> list[Contrast]:
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
    weights = np.where(allowed & (own > RARE), exp(-difference), 0.0)
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
