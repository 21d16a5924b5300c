"""Balance: one factor per entry, so that entries enter captions as often as they leave them.

Checks are one-sided. That a person is in the picture is nearly always mentioned by a sibling caption, so "man" is often
replaced and hardly ever accepted as a replacement. A model that sees only text can exploit such differences between
words in true captions and in negatives. So each entry w has a factor exp(b_w), which multiplies its weight as a
replacement and divides its weight to be replaced. The factors are fitted on the corpus' own captions. For each
sentence, let its exchanges that pass all checks be (x, y, m): y replaces x, with weight m. The probability that
(x, y) is sampled first is

    p(x, y) = m exp(b_y - b_x) / sum of the same over the sentence's exchanges.

A noun's plural is an entry of its own. Let left_w and entered_w be the sums of p over all sentences with x = w and with
y = w. They are made equal by repeating

    b_w <- b_w + STEP * log((left_w + PRIOR) / (entered_w + PRIOR)),    |b_w| <= BOUND.

Factors multiply only the weights of plausible entries, those above an operator's floor, and the ratio of two factors is
at most e^(2 BOUND): balance makes no implausible replacement likely.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .candidates import FREE, Batch, Limits
from .caption import Caption
from .checks import Case, reject_implied, reject_likely_true
from .evidence import batches, gather_evidence
from .kinds import KINDS
from .lexicon.lexicon import Lexicon
from .operators import replacing
from .operators.replacement import ReplacingOperator, propose_batch
from .reproducible import exp, log
from .sentences import sentences_of_images
from .truth.estimates import Truth

# How often the step above is repeated, and how far each goes.
UPDATES = 120
STEP = 0.7
# Added to both sums, so that a word with few exchanges has a factor near 1.
PRIOR = 1.0
# The highest and lowest log of a factor.
BOUND = 1.0
BALANCED = tuple(KINDS)


class Exchanges(NamedTuple):
    """Exchanges of one word for another that pass all checks, as columns: (exchanges,).

    Entries are numbered as in the lexicon; the plural of noun i has number i + the number of nouns.

    row: the number of the sentence.
    old: the entry that is replaced.
    new: the entry that replaces it.
    weight: its chance of being sampled, not normalised.
    """

    row: np.ndarray
    old: np.ndarray
    new: np.ndarray
    weight: np.ndarray


def exchanges(
    images: Iterable[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None, kinds: Sequence[str] = BALANCED
) -> dict[str, Exchanges]:
    """Find all exchanges of words in the sentences of some images that would be accepted as negatives, by kind.

    Args:
        images: the captions of each.
        lexicon: an unbalanced one, by which the exchanges are weighted.
        truth: with it, exchanges that are too likely true are left out as well.
        kinds: the kinds of words, all in BALANCED.

    Raises:
        ValueError: a kind is not in BALANCED.
    """
    for kind in kinds:
        if kind not in BALANCED:
            raise ValueError(f"kind must be one of {', '.join(BALANCED)}, was: {kind}")
    parts: dict[str, list[Exchanges]] = {kind: [] for kind in kinds}
    sentences_before = 0  # in the batches before
    for images_of_batch in batches(images):
        evidence = gather_evidence(sentences_of_images(images_of_batch), lexicon.cloze, truth)
        replacers = replacing(*kinds)
        batch = propose_batch(replacers.values(), evidence, lexicon, Limits())
        for kind in kinds:
            parts[kind].append(_exchanges_of_batch(replacers[kind], batch, first=sentences_before))
        sentences_before += len(evidence)
    return {kind: _join_exchanges(exchanges_of_batches) for kind, exchanges_of_batches in parts.items()}


def _exchanges_of_batch(replacer: ReplacingOperator, batch: Batch, first: int) -> Exchanges:
    """The exchanges of one kind in a batch, whose first sentence has the number `first`.

    Exchanges that may be true of the image are left out; nouns that leave a pronoun without antecedent are kept.
    """
    table = batch.candidates
    lexicon = batch.lexicon
    candidates = table.of_kinds([replacer.kind])
    batch.estimates.rate(candidates)
    candidates = candidates[table.reason[candidates] == FREE]
    # `refuse_possible` has refused nouns that may be true, all at once; words of other kinds are checked row by row.
    if replacer.kind != "noun":
        is_false = [_is_false(replacer, candidate, batch) for candidate in candidates.tolist()]
        candidates = candidates[np.array(is_false, bool)]
    entries = lexicon.entries(replacer.kind)
    slots = [table.slots[number] for number in table.slot[candidates].tolist()]
    # The plural of a noun has the number of the noun plus that of all nouns, see `Exchanges`.
    offset = np.array([len(entries.names) if slot.plural else 0 for slot in slots], int)
    old = np.array([entries.number.get(slot.entry, -1) for slot in slots], int)
    is_entry = old >= 0  # other words have no factor, so that their exchanges are left out
    weights = table.weight[candidates] * batch.estimates.preferences(candidates)
    return Exchanges(
        row=(table.caption[table.slot[candidates]] + first)[is_entry].astype(np.int32),
        old=(old + offset)[is_entry].astype(np.int32),
        new=(table.entry[candidates] + offset)[is_entry].astype(np.int32),
        weight=weights[is_entry],
    )


def _is_false(replacer: ReplacingOperator, candidate: int, batch: Batch) -> bool:
    """Whether no caption says that a candidate is true of the image or makes that likely."""
    evidence = batch.evidence[int(batch.candidates.caption_of_candidate[candidate])]
    row = replacer.row(candidate, batch)
    if row is None or row.reason is not None:
        return False
    case = Case(replacer, evidence, batch.lexicon)
    reject_implied(row, case)
    if row.reason is None:
        reject_likely_true(row, case)
    return row.reason is None


def _join_exchanges(parts: Sequence[Exchanges]) -> Exchanges:
    """Join the exchanges of several batches to one table."""
    no_row = np.zeros(0, np.int32)
    nothing = Exchanges(row=no_row, old=no_row, new=no_row, weight=np.zeros(0))
    # By column; `nothing` gives the columns a type if there are no batches.
    return Exchanges(*(np.concatenate(columns) for columns in zip(nothing, *parts, strict=True)))


def fit_factors(kind: str, names: Sequence[str], exchanges: Exchanges) -> dict[tuple[str, bool], float]:
    """Fit the factors exp(b_w) that make each word of one kind enter sentences about as often as it leaves them.

    Args:
        kind: of the words, one of BALANCED.
        names: the lexicon's entries of this kind.
        exchanges: of words of this kind.

    Returns:
        The factors by (word, whether it is plural); only nouns have plurals of their own.
    """
    forms = (False, True) if kind == "noun" else (False,)
    entries = [(name, plural) for plural in forms for name in names]
    size = len(entries)
    rows = int(exchanges.row.max(initial=-1)) + 1  # sentences, of which some may have no exchange
    log_factors = np.zeros(size)
    for _ in range(UPDATES if rows else 0):
        factors = exp(log_factors)
        weights = exchanges.weight * factors[exchanges.new] / factors[exchanges.old]
        # The chance of each exchange among those of its sentence, (exchanges,).
        share = weights / np.bincount(exchanges.row, weights, rows)[exchanges.row]
        # How often each entry leaves and enters sentences, if each sentence with an exchange makes one: (entries,).
        left = np.bincount(exchanges.old, share, size)
        entered = np.bincount(exchanges.new, share, size)
        log_factors += STEP * log((left + PRIOR) / (entered + PRIOR))
        np.clip(log_factors, -BOUND, BOUND, out=log_factors)
    return dict(zip(entries, exp(log_factors).tolist(), strict=True))
