"""What may replace the words in the slots of a caption, how plausible each replacement is, and drawing from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from negcap.augment.cache import read_only
from negcap.augment.edits import Candidate
from negcap.augment.lexicon.entries import Entries
from negcap.augment.lexicon.sampling import sample


@dataclass(frozen=True, eq=False)
class Choice:
    """The replacements for the word or phrase in one slot.

    tokens: the token indices of the slot's head and of what it belongs to (see `Candidate.slots`). entry: what is
    there, an entry of the lexicon. plural: whether it is a plural noun. names: the entries that may replace it;
    weights: of each when drawing, 0 for one that is implausible or may be true as well; log_odds: the plausibility of
    the negative with each, None if it has to be read as a whole; all (entries,). candidate: makes the candidate with
    an entry, None if that has no suitable form.
    """

    tokens: tuple[int, ...]
    entry: str
    plural: bool
    names: Sequence[str]
    weights: np.ndarray
    log_odds: np.ndarray | None
    candidate: Callable[[str], Candidate | None]


def weigh(
    entries: Entries, entry: str, log_probabilities: np.ndarray, floor: float, *, plural: bool = False
) -> np.ndarray:
    """The weights of the entries in a slot: (entries,), read-only.

    log_probabilities: of the entries in the slot, -inf for those that must not replace `entry`. A weight is the
    probability times the ratio of the balance factors; it is 0 below the floor.
    """
    weights = np.where(log_probabilities >= floor, np.exp(log_probabilities), 0.0)
    return read_only(entries.balanced(weights, entries.number.get(entry), plural=plural))


def draw(choices: Sequence[Choice], rng: Random, limit: int) -> Iterator[Candidate]:
    """Candidates for all slots together, drawn by weight without replacement; at most `limit` draws."""
    for at, number in sample([choice.weights for choice in choices], rng, limit):
        choice = choices[at]
        made = choice.candidate(choice.names[number])
        if made is not None:
            if choice.log_odds is not None:
                made = made._replace(plausibility=float(choice.log_odds[number]))
            yield made
