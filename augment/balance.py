"""Balance: how much oftener than by plausibility alone each entry must be drawn to enter as often as it leaves.

Refusals are one-sided. That somebody is in the picture is nearly always said by a sibling caption, so "man" is replaced
often and hardly ever let in; "wear" is true of whoever is dressed. A word met more often in true captions than in
negatives is all that a reader of the text alone needs. So every entry w gets a weight exp(b_w), which multiplies its
chances to enter and divides its chances to be the one replaced, and which is fitted on the corpus' own captions: the
operator runs on batch after batch of them, refusals and all, and after each

    b_w <- b_w + step * log((left_w + PRIOR) / (entered_w + PRIOR)),    |b_w| <= BOUND,

where left_w and entered_w count, fading by DECAY a batch, how often w was replaced and how often it replaced another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from augment.caption import Caption
from augment.context import Context, contexts
from augment.contradiction import check
from augment.language.lexicon import Lexicon
from augment.operators import OPERATORS
from augment.rng import record_rng
from augment.truth.estimates import Truth

# The operator that is run to balance the entries of each kind of the lexicon.
BALANCED = {name: name for name in ("noun", "numeral", "preposition", "attribute", "verb")}
UPDATES = 50
BATCH = 100
FIRST_STEP, LAST_STEP = 0.35, 0.05
DECAY = 0.9
PRIOR = 3.0
BOUND = 3.0
DRAWS = 24
KEPT = 2


def balance(
    kind: str, images: Sequence[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None
) -> dict[str, float]:
    """The weight of every entry of a kind, fitted on the captions of some images in their order.

    With `truth`, what is likely true is refused here as it is of negatives.
    `lexicon.entries(kind).balance` is written while it is fitted and restored to ones at the end. Raises ValueError for
    a kind that no operator balances.
    """
    if kind not in BALANCED:
        raise ValueError(f"kind must be one of {', '.join(BALANCED)}, was: {kind}")
    entries = lexicon.entries(kind)
    log_weights = np.zeros(len(entries.names))
    left, entered = np.zeros(len(log_weights)), np.zeros(len(log_weights))
    rows = [(caption, context) for one in images for caption, context in _with_contexts(one, lexicon, truth)]
    batches = _batches(rows)
    try:
        for update in range(UPDATES if batches else 0):
            left *= DECAY
            entered *= DECAY
            for caption, context in batches[update % len(batches)]:
                for old, new in _changes(BALANCED[kind], caption, context, update // len(batches)):
                    if old in entries.number and new in entries.number:
                        left[entries.number[old]] += 1
                        entered[entries.number[new]] += 1
            step = FIRST_STEP + (LAST_STEP - FIRST_STEP) * update / UPDATES
            log_weights += step * np.log((left + PRIOR) / (entered + PRIOR))
            np.clip(log_weights, -BOUND, BOUND, out=log_weights)
            entries.balance[:] = np.exp(log_weights)
        return dict(zip(entries.names, entries.balance.tolist(), strict=True))
    finally:
        entries.balance[:] = 1.0


def _with_contexts(captions: Sequence[Caption], lexicon: Lexicon, truth: Truth | None) -> list[tuple[Caption, Context]]:
    return list(zip(captions, contexts(captions, lexicon, truth), strict=True))


def _batches(rows: Sequence[tuple[Caption, Context]]) -> list[Sequence[tuple[Caption, Context]]]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def _changes(operator: str, caption: Caption, context: Context, turn: int) -> list[tuple[str, str]]:
    """(replaced, replacement) of the first KEPT candidates that are not refused."""
    rng = record_rng(turn, f"balance {operator}", caption.caption_id)
    proposed = OPERATORS[operator].propose(caption, context, rng, DRAWS)
    kept = (one for one in proposed if one.replaced and check(one, caption, context) is None)
    return [(one.replaced, one.replacement) for one in islice(kept, KEPT)]
