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

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .caption import Caption
from .context import Context, Said, batches, contexts
from .lexicon.lexicon import Lexicon
from .operators.numeral import numeral_choices
from .operators.replacement import Choice, attribute_choices, noun_choices, preposition_choices, verb_choices
from .reproducible import exp, log
from .truth.contradiction import assess
from .truth.estimates import Truth

UPDATES, STEP, PRIOR, BOUND = 120, 0.7, 1.0, 1.0
# For each kind, a function that lists what may replace the words of a caption.
CHOICES: dict[str, Callable[[Caption, Context], list[Choice]]] = {
    "noun": noun_choices,
    "numeral": numeral_choices,
    "preposition": preposition_choices,
    "attribute": attribute_choices,
    "verb": verb_choices,
}
BALANCED = tuple(CHOICES)


class Exchanges(NamedTuple):
    """Exchanges that pass all checks, as columns: number of the caption, replaced entry, replacing entry, weight.

    Entries are numbered as in the lexicon; the plural of noun i has number i + the number of nouns. All have shape
    (exchanges,).
    """

    row: np.ndarray
    old: np.ndarray
    new: np.ndarray
    weight: np.ndarray


def exchanges(
    images: Iterable[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None, kinds: Sequence[str] = BALANCED
) -> dict[str, Exchanges]:
    """All exchanges of entries in all captions of some images, by kind, weighted by an unbalanced lexicon.

    Exchanges that would be rejected as negatives are left out; with `truth`, also those that are too likely true.
    Raises ValueError for a kind that is not in BALANCED.
    """
    for kind in kinds:
        if kind not in BALANCED:
            raise ValueError(f"kind must be one of {', '.join(BALANCED)}, was: {kind}")
    rows: dict[str, list[tuple[int, int, np.ndarray, np.ndarray]]] = {kind: [] for kind in kinds}
    first = 0
    for batch in batches(images):
        read = contexts(batch, lexicon, truth)
        for row, context in enumerate(read, first):
            for kind in kinds:
                number = lexicon.entries(kind).number
                for choice in CHOICES[kind](context.said.caption, context):
                    kept = _passing(kind, choice, context.said)
                    if kept and choice.entry in number:
                        offset = len(number) * choice.plural
                        new = np.array([number[choice.names[at]] for at in kept]) + offset
                        rows[kind].append((row, number[choice.entry] + offset, new, choice.weights[kept]))
        first += len(read)
    return {kind: _columns(parts) for kind, parts in rows.items()}


def _passing(kind: str, choice: Choice, said: Said) -> list[int]:
    """Which replacements in a slot pass the checks; of nouns, also those that leave a pronoun without antecedent."""
    left = np.flatnonzero(choice.refused == "").tolist()
    if kind == "noun":  # the others are left out already
        return left
    made = [(at, choice.candidate(choice.names[at])) for at in left]
    return [at for at, candidate in made if candidate is not None and assess(candidate, said)[0] is None]


def _columns(parts: Sequence[tuple[int, int, np.ndarray, np.ndarray]]) -> Exchanges:
    """Exchanges from (caption, replaced entry, replacing entries, their weights), one tuple per slot."""
    rows, olds, news, weights = zip(*parts, strict=True) if parts else ((), (), (), ())
    lengths = [len(new) for new in news]
    return Exchanges(
        np.repeat(np.array(rows, np.int32), lengths),
        np.repeat(np.array(olds, np.int32), lengths),
        np.concatenate([*news, np.zeros(0)]).astype(np.int32),
        np.concatenate([*weights, np.zeros(0)]),
    )


def fit_factors(kind: str, names: Sequence[str], exchanges: Exchanges) -> dict[tuple[str, bool], float]:
    """The factors exp(b_w) of the words of one of the kinds BALANCED, by (word, plural), from exchanges of them; names:
    of the lexicon's entries of this kind.
    """
    forms = (False, True) if kind == "noun" else (False,)
    entries = [(name, plural) for plural in forms for name in names]
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
