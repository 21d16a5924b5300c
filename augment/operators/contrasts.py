"""Which nouns the sentences of the negation operators are about: one that the image shows and one that it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    weighed = []
    for place in places(caption):
        weights = _weights_in(caption, context, place)
        if weights is not None:
            weighed.append((place, place.slot.entry, place.slot.plural, weights))  # type: ignore[union-attr]
    for place in additions(caption):
        weighed += [(place, *noun) for noun in _unmentioned(caption, context, place.frame)]
    return _drawn("contrasts", caption, context, weighed)


def _drawn(
    stream: str, caption: Caption, context: Context, weighed: Sequence[tuple[Place, str, bool, np.ndarray]]
) -> list[Contrast]:
    """Contrasts drawn from places, their nouns, whether these are plural, and the weights of the missing nouns."""
    rng, names = record_rng(0, stream, caption.caption_id), context.lexicon.nouns.names
    drawn = sample([weights for *_, weights in weighed], rng, CONTRASTS)
    return [Contrast(*weighed[number][:2], names[entry], weighed[number][2]) for number, entry in drawn]


@cached_on_context
def existing(caption: Caption, context: Context) -> list[Contrast]:
    """Contrasts of a thing that a caption of the image mentions and a missing one as frequent, in random order."""
    nouns, place = context.lexicon.nouns, existence(caption)
    if place is None:
        return []
    allowed, weighed = _deniable(nouns.names, "exists"), []
    shown = _shown_by_siblings(context, "exists") | dict(sorted(shown_nouns(caption, "exists")))
    for noun, plural in sorted(shown.items()):
        if noun in nouns.number and noun in context.lexicon.forms(many=plural):
            difference = np.abs(nouns.priors[""] - nouns.priors[""][nouns.number[noun]])
            weights = np.where(allowed & (difference <= MAX_DIFFERENCE), 1.0, 0.0)
            _leave_out(weights, context, noun, many=plural)
            weighed.append((place, noun, plural, weights))
    return _drawn("existence", caption, context, weighed)


def _leave_out(weights: np.ndarray, context: Context, noun: str, *, many: bool) -> None:
    """Set to 0, in place, the weights of nouns that may name the same thing as `noun`, or are not counted so."""
    names, forms = context.lexicon.nouns.names, context.lexicon.forms(many=many)
    weights[context.lexicon.may_corefer(noun)] = 0.0
    weights[[number for number in weights.nonzero()[0] if names[number] not in forms]] = 0.0


def _weights_in(caption: Caption, context: Context, place: Place) -> np.ndarray | None:
    """The chance of each noun of the lexicon to be the missing one in a place of the caption: (entries,), sum 1.

    None if no noun fits.
    """
    nouns, slot = context.lexicon.nouns, place.slot
    if slot is None or slot.entry not in nouns.number:
        return None
    if any(may_corefer(slot.entry, other.entry) for other in noun_slots(caption) if other.root != slot.root):
        return None  # "a dog jumps on another dog"
    weighed = noun_weights(context, slot)
    if weighed is None:
        return None
    weights = np.where(_deniable(nouns.names, place.frame) & (weighed[1] >= MIN_ODDS), weighed[0], 0.0)
    if place.frame == "near" and not weights.any() and context.image is not None:
        expected = context.image.expected_nouns(caption)
        if expected is not None:
            weights = _like(context, expected, slot.entry, place.frame, plural=slot.plural)
    return _normalised(weights)


def _unmentioned(caption: Caption, context: Context, frame: Frame) -> Iterator[tuple[str, bool, np.ndarray]]:
    """Nouns that only sibling captions mention, whether plural, and the chance of each noun to be the missing one."""
    expected = None if context.image is None else context.image.expected_nouns(caption)
    if expected is None:
        return
    for noun, plural in sorted(_shown_by_siblings(context, frame).items()):
        entry = context.lexicon.nouns.number.get(noun)
        if entry is None or expected[entry] > IMPLIED or context.coreferent_in_caption.reason(entry) is not None:
            continue
        weights = _normalised(_like(context, expected, noun, frame, plural=plural))
        if weights is not None:
            yield noun, plural, weights


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
    if noun not in lexicon.forms(many=plural):
        return np.zeros(len(names))
    own = expected[lexicon.nouns.number[noun]]
    difference = np.abs(expected - own)
    allowed = _deniable(names, frame) & (expected > RARE) & (difference <= MAX_DIFFERENCE)
    weights = np.where(allowed & (own > RARE), exp(-difference), 0.0)
    _leave_out(weights, context, noun, many=plural)
    return weights


def _normalised(weights: np.ndarray) -> np.ndarray | None:
    total = weights.sum()
    return weights / total if total > 0 else None


@cached(64)
def _deniable(names: tuple[str, ...], frame: Frame) -> np.ndarray:
    """A mask of the nouns that may be denied in a frame: (entries,), read-only."""
    known = deniable(frame)
    return read_only(np.array([name in known for name in names], bool))
