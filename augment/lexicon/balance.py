"""Balance: factors that make every entry enter captions as often as it leaves them.

Refusals are one-sided. That somebody is in the picture is nearly always said by a sibling caption, so "man" is replaced
often and hardly ever let in; "wear" is true of whoever is dressed. A word met more often in true captions than in
negatives is all that a reader of the text alone needs. So every entry w gets a factor exp(b_w), which multiplies its
chances to enter and divides its chances to be the one replaced, and which is fitted on the corpus' own captions. For
each of them let the exchanges that are not refused be (x, y, m): y for x, with weight m. The first one sampled is
(x, y) with probability

    p(x, y) = m exp(b_y - b_x) / sum of the same over the caption's exchanges.

A noun's plural is an entry of its own. left_w and entered_w, the sums of p over all captions with x = w and with
y = w, are made equal by repeating

    b_w <- b_w + STEP * log((left_w + PRIOR) / (entered_w + PRIOR)),    |b_w| <= BOUND,

with a lower bound for prepositions, whose exchanges run one way: it would drive some into contexts where they are
implausible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from negcap.augment.lexicon.lexicon import Lexicon

UPDATES = 120
STEP = 0.7
PRIOR = 1.0
BOUND = {"preposition": 3.0}
USUAL_BOUND = 6.0

Factors = dict[tuple[str, bool], float]  # by entry, and whether it is a plural


class Exchanges(NamedTuple):
    """Exchanges that are not refused, an array of one value each: row of the caption, old and new entry, weight.

    Entries are numbers; the plural of noun i has number i + the number of nouns.
    """

    row: np.ndarray
    old: np.ndarray
    new: np.ndarray
    weight: np.ndarray


def fit(kind: str, lexicon: Lexicon, exchanges: Exchanges) -> Factors:
    """The factor exp(b_w) of every entry of one kind, by the exchanges of entries of that kind."""
    forms = (False, True) if kind == "noun" else (False,)
    entries = [(name, plural) for plural in forms for name in lexicon.entries(kind).names]
    size, rows = len(entries), int(exchanges.row.max(initial=-1)) + 1
    log_factors, bound = np.zeros(size), BOUND.get(kind, USUAL_BOUND)
    for _ in range(UPDATES if rows else 0):
        weights = exchanges.weight * np.exp(log_factors[exchanges.new] - log_factors[exchanges.old])
        share = weights / np.bincount(exchanges.row, weights, rows)[exchanges.row]
        left, entered = np.bincount(exchanges.old, share, size), np.bincount(exchanges.new, share, size)
        log_factors += STEP * np.log((left + PRIOR) / (entered + PRIOR))
        np.clip(log_factors, -bound, bound, out=log_factors)
    return dict(zip(entries, np.exp(log_factors).tolist(), strict=True))
