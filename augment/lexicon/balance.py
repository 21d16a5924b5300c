"""Balance: how much oftener than by plausibility alone each entry must be drawn to enter as often as it leaves.

Refusals are one-sided. That somebody is in the picture is nearly always said by a sibling caption, so "man" is replaced
often and hardly ever let in; "wear" is true of whoever is dressed. A word met more often in true captions than in
negatives is all that a reader of the text alone needs. So every entry w gets a weight exp(b_w), which multiplies its
chances to enter and divides its chances to be the one replaced, and which is fitted on the corpus' own captions. For
each of them let the candidates that are not refused be (x, y, m): y in the place of x, with mass m. The first one drawn
is (x, y) with probability

    p(x, y) = m exp(b_y - b_x) / sum of the same over the caption's candidates.

A noun's plural is an entry of its own. left_w and entered_w, the sums of p over all captions with x = w and with
y = w, are made equal by repeating

    b_w <- b_w + STEP * log((left_w + PRIOR) / (entered_w + PRIOR)),    |b_w| <= BOUND,

with a lower bound for prepositions, whose exchanges run one way: it would drive some into places where they are odd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.context import Context, contexts
from negcap.augment.edits import Candidate
from negcap.augment.language.clashes import numbers
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.operators.attribute import attribute_candidate, attribute_choices
from negcap.augment.operators.noun import noun_choices
from negcap.augment.operators.numeral import numeral_candidates, numeral_choices
from negcap.augment.operators.preposition import preposition_candidate, preposition_choices
from negcap.augment.operators.verb import verb_candidate, verb_choices
from negcap.augment.truth.contradiction import check
from negcap.augment.truth.estimates import Truth

Maker = Callable[[Any, str], Candidate | None]


def _one_by_one(candidate: Callable[..., Candidate | None]) -> Callable[[Caption, Context], Maker]:
    """What makes the candidates of a caption from what makes one of them."""
    return lambda caption, context: partial(candidate, caption, context)


# What may stand where in a caption, and what makes the candidates that put it there, for every kind but nouns.
PARTS: dict[str, tuple[Callable[..., Any], Callable[[Caption, Context], Maker]]] = {
    "numeral": (numeral_choices, numeral_candidates),
    "preposition": (preposition_choices, _one_by_one(preposition_candidate)),
    "attribute": (attribute_choices, _one_by_one(attribute_candidate)),
    "verb": (verb_choices, _one_by_one(verb_candidate)),
}
BALANCED = ("noun", *PARTS)
UPDATES = 120
STEP = 0.7
PRIOR = 1.0
BOUND = {"preposition": 3.0}
USUAL_BOUND = 6.0


Weights = dict[tuple[str, bool], float]  # by entry, and whether it is a plural


class Candidates(NamedTuple):
    """Candidates that are not refused: the row of the caption, who leaves, who enters, and the mass; a value each.

    Who leaves and enters by number, plurals of nouns behind all the entries.
    """

    row: np.ndarray
    old: np.ndarray
    new: np.ndarray
    mass: np.ndarray


def balance(kind: str, images: Sequence[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None) -> Weights:
    """The weight of every entry of a kind, fitted on the captions of some images.

    With `truth`, what is likely true is refused here as it is of negatives.
    Raises ValueError for a kind that no operator balances.
    """
    if kind not in BALANCED:
        raise ValueError(f"kind must be one of {', '.join(BALANCED)}, was: {kind}")
    return fit(kind, lexicon, candidates(kind, images, lexicon, truth))


def fit(kind: str, lexicon: Lexicon, found: Candidates) -> Weights:
    """The weight of every entry of one kind by its candidates."""
    forms = (False, True) if kind == "noun" else (False,)
    nodes = [(name, plural) for plural in forms for name in lexicon.entries(kind).names]
    size, rows = len(nodes), int(found.row.max(initial=-1)) + 1
    log_weights, bound = np.zeros(size), BOUND.get(kind, USUAL_BOUND)
    for _ in range(UPDATES if rows else 0):
        weights = found.mass * np.exp(log_weights[found.new] - log_weights[found.old])
        share = weights / np.bincount(found.row, weights, rows)[found.row]
        left, entered = np.bincount(found.old, share, size), np.bincount(found.new, share, size)
        log_weights += STEP * np.log((left + PRIOR) / (entered + PRIOR))
        np.clip(log_weights, -bound, bound, out=log_weights)
    return dict(zip(nodes, np.exp(log_weights).tolist(), strict=True))


def candidates(
    kind: str, images: Iterable[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None
) -> Candidates:
    """The candidates of a kind that are not refused, of all captions of some images, unbalanced."""
    number = lexicon.entries(kind).number
    size = len(number)
    parts: list[tuple[int, int, np.ndarray, np.ndarray]] = []
    row = 0
    for captions in images:
        for caption, context in zip(captions, contexts(captions, lexicon, truth), strict=True):
            open = _nouns(caption, context) if kind == "noun" else _others(kind, caption, context)
            for entry, plural, masses in open:
                (new,) = masses.nonzero()
                if len(new) and entry in number:
                    behind = size * plural
                    parts.append((row, number[entry] + behind, new + behind, masses[new]))
            row += 1
    lengths = [len(new) for _, _, new, _ in parts]
    return Candidates(
        np.repeat(np.array([row for row, _, _, _ in parts], np.int32), lengths),
        np.repeat(np.array([old for _, old, _, _ in parts], np.int32), lengths),
        np.concatenate([new for _, _, new, _ in parts] or [np.zeros(0)]).astype(np.int32),
        np.concatenate([mass for _, _, _, mass in parts] or [np.zeros(0)]),
    )


def _nouns(caption: Caption, context: Context) -> Iterator[tuple[str, bool, np.ndarray]]:
    """The nouns that may stand in each slot, of which none clashes or is likely true; pronouns are not looked at."""
    slots, masses = noun_choices(caption, context)
    refused = numbers(context.clash_own.all | context.clash_siblings.all)
    for slot, mass in zip(slots, masses, strict=True):
        mass[refused] = 0.0
        if context.truth is not None:
            mass[context.truth.likely_nouns] = 0.0
        yield slot.entry, slot.plural, mass


def _others(kind: str, caption: Caption, context: Context) -> Iterator[tuple[str, bool, np.ndarray]]:
    choices, candidates = PARTS[kind]
    names, candidate = context.lexicon.entries(kind).names, candidates(caption, context)
    for slot, masses in zip(*choices(caption, context), strict=True):
        mass = masses.copy()
        for entry in mass.nonzero()[0].tolist():
            made = candidate(slot, names[entry])
            if made is None or check(made, caption, context) is not None:
                mass[entry] = 0.0
        yield slot.entry, False, mass
