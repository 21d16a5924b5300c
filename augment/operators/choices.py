"""Draw replacements for the words of a caption: what may stand in each slot, and with which weight.

An operator makes one `Choice` for each slot of the caption that it can change, and `draw` chooses among the
replacements of all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from ..caption import read_only
from ..edits import Candidate
from ..elementary import exp
from ..lexicon.entries import Entries
from ..lexicon.lexicon import sample


@dataclass(frozen=True, eq=False)
class Choice:
    """One slot of a caption (a noun, a number, a preposition, an attribute or a verb), and what may replace it.

    tokens: the token indices of the slot's head and of what it belongs to (see `Candidate.slots`). entry: the lexicon
    entry that the caption has there. plural: whether it is a plural noun. names: all lexicon entries of its kind.
    weights: for each entry, its chance of being drawn, not normalised; 0 for entries that are implausible here or may
    be true of the image as well: (entries,). log_odds: for each entry, the plausibility of the negative with it,
    (entries,); None if only reading the whole negative tells. candidate: a function that makes the candidate with an
    entry; it returns None if the entry has no form that fits.
    """

    tokens: tuple[int, ...]
    entry: str
    plural: bool
    names: Sequence[str]
    weights: np.ndarray
    log_odds: np.ndarray | None
    candidate: Callable[[str], Candidate | None]


def draw(choices: Sequence[Choice], rng: Random, limit: int) -> Iterator[Candidate]:
    """Candidates in random order: at most `limit` pairs of a slot and an entry, drawn by weight without replacement.

    Weights are not normalised by slot, so a slot with many likely replacements is changed more often than one whose
    word is nearly certain (see negcap.augment.lexicon.lexicon). Pairs without a candidate are left out.
    """
    for slot, number in sample([choice.weights for choice in choices], rng, limit):
        choice = choices[slot]
        candidate = choice.candidate(choice.names[number])
        if candidate is not None:
            if choice.log_odds is not None:
                candidate = candidate._replace(plausibility=float(choice.log_odds[number]))
            yield candidate


def weigh(
    entries: Entries, entry: str, log_probabilities: np.ndarray, floor: float, *, plural: bool = False
) -> np.ndarray:
    """The weights of all entries as replacements for `entry` in a slot: (entries,), read-only.

    weight(new) = p(new) * balance(new) / balance(entry), and 0 if log p(new) < floor

    log_probabilities: log p of each entry in the slot, -inf for those that must not replace `entry`. balance: the
    factors in `entries`, see negcap.augment.lexicon.lexicon; those of plural nouns with `plural`.
    """
    weights = np.zeros(len(log_probabilities))
    open = np.flatnonzero(log_probabilities >= floor)
    likely = exp(log_probabilities[open])
    weights[open] = entries.balanced(likely, entries.number.get(entry), plural=plural, at=open)
    return read_only(weights)
