"""Balance: one factor per entry, so that entries enter captions as often as they leave them.

Checks are one-sided. That a person is in the picture is nearly always mentioned by a sibling caption, so "man" is often
replaced and hardly ever accepted as a replacement. A model that sees only text can exploit such differences between
words in true captions and in negatives. So each entry w has a factor exp(b_w), which multiplies its weight as a
replacement and divides its weight to be replaced. The factors are fitted on the corpus' own captions. For each caption,
let its exchanges that pass all checks be (x, y, m): y replaces x, with weight m. The first one sampled is (x, y) with
probability

    p(x, y) = m exp(b_y - b_x) / sum of the same over the caption's exchanges.

A noun's plural is an entry of its own. Let left_w and entered_w be the sums of p over all captions with x = w and with
y = w. They are made equal by repeating

    b_w <- b_w + STEP * log((left_w + PRIOR) / (entered_w + PRIOR)),    |b_w| <= BOUND.

Factors multiply only the weights of plausible entries, those above an operator's floor, and the ratio of two factors is
at most e^(2 BOUND): balance makes no implausible replacement likely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..elementary import exp, log
from .lexicon import Lexicon

UPDATES = 120
STEP = 0.7
PRIOR = 1.0
BOUND = 1.0

Factors = dict[tuple[str, bool], float]  # key: entry, whether plural


class Exchanges(NamedTuple):
    """Exchanges that pass all checks, as columns: number of the caption, replaced entry, replacing entry, weight.

    Entries are numbered as in the lexicon; the plural of noun i has number i + the number of nouns. All have shape
    (exchanges,).
    """

    row: np.ndarray
    old: np.ndarray
    new: np.ndarray
    weight: np.ndarray


def fit(kind: str, lexicon: Lexicon, exchanges: Exchanges) -> Factors:
    """The weights exp(b_w) that balance the words of one kind: with them, words enter captions as often as they leave
    them.

    kind: noun, preposition, attribute or verb. exchanges: of words of this kind, as negatives of a sample of captions
    would make them. Returns the weight by (word, plural).
    """
    forms = (False, True) if kind == "noun" else (False,)
    entries = [(name, plural) for plural in forms for name in lexicon.entries(kind).names]
    size, rows = len(entries), int(exchanges.row.max(initial=-1)) + 1
    log_factors = np.zeros(size)
    for _ in range(UPDATES if rows else 0):
        factors = exp(log_factors)
        weights = exchanges.weight * factors[exchanges.new] / factors[exchanges.old]
        share = weights / np.bincount(exchanges.row, weights, rows)[exchanges.row]
        left, entered = np.bincount(exchanges.old, share, size), np.bincount(exchanges.new, share, size)
        log_factors += STEP * log((left + PRIOR) / (entered + PRIOR))
        np.clip(log_factors, -BOUND, BOUND, out=log_factors)
    return dict(zip(entries, exp(log_factors).tolist(), strict=True))
