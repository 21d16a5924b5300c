"""The checks of a negative, in order: each gives the reason for which a row is rejected, and the word that decided.

Before a row is made, the table of candidates has refused most of what could be wrong with it (PROPOSING, in
`negcap.augment.operators.replacement` and `negcap.augment.candidates`). `steps` describes all of them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .candidates import Limits, RatingEstimates
from .edits import apply_edits
from .evidence import Evidence
from .lexicon.lexicon import Lexicon
from .operators.operator import Operator
from .operators.replacement import ReplacingOperator, refuse_possible
from .raters import rate_rows, refusals
from .rows import COMPATIBLE, SAID_AGAIN, UNNATURAL, Row
from .sampling import Sampler
from .sentences import pronouns_left_behind, repeated_elsewhere
from .truth.contradiction import likely_violation


class Case(NamedTuple):
    """What the checks of a row read: the operator that made it, the evidence for its caption, and the lexicon."""

    operator: Operator
    evidence: Evidence
    lexicon: Lexicon


def reject_disagreement(row: Row, case: Case) -> None:
    """Reject what leaves a pronoun without the noun it refers to, or cannot be made to agree (`dangling_pronoun`,
    `ungrammatical`).
    """
    if row.reason == "dangling_pronoun":
        pronouns = (pronoun.lower for pronoun in case.evidence.caption.pronouns)
        row.detail = " ".join(dict.fromkeys(pronouns))


def reject_conflict_with_other_sentences(row: Row, case: Case) -> None:
    """Reject what another sentence of the caption would contradict or refer to in vain (`said_again`,
    `dangling_pronoun`).
    """
    sentence = case.evidence.caption
    if word := repeated_elsewhere(row, sentence):
        row.reason = SAID_AGAIN
        row.detail = word
    elif pronouns_left_behind(row, sentence):
        row.reason = "dangling_pronoun"


def reject_implied(row: Row, case: Case) -> None:
    """Reject what a caption of the image or WordNet makes true (`related_in_caption`, `sibling_says_so`, …)."""
    if not case.operator.traits.is_checked:  # its rows may be true of the image, as the papers' uniform draws may
        return
    violation = case.operator.violation(row, case.evidence, case.lexicon)
    if violation is not None:
        violation.reject(row)


def reject_likely_true(row: Row, case: Case) -> None:
    """Reject what one more caption of the image would make true with a probability above `max_true` (`likely_true`)."""
    image = case.evidence.image
    if not case.operator.traits.is_checked or image is None:
        return
    row.p_true = image.p_true(row, case.evidence.caption)
    if row.p_true is not None and row.p_true > image.truth.max_p_true:
        likely_violation(row, case.evidence).reject(row)
    elif row.negates_caption:
        row.p_true = None  # it denies what its caption says, so it is false whatever the estimate


def reject_repeated_caption(row: Row, case: Case) -> None:
    """Reject what a caption of the image says word by word (`sibling_says_so`)."""
    evidence = case.evidence
    row.text = apply_edits(evidence.caption.text, row.edits)
    lowered = row.text.lower()
    if lowered in evidence.texts:
        row.reason = "sibling_says_so"
        row.p_true = None
        row.text = ""
        same = (sibling.caption_id for sibling in evidence.siblings if sibling.text.lower() == lowered)
        row.sibling_id = next(same, None)


def rate_whole(rows: Sequence[Row], evidence: Sequence[Evidence], limits: Limits) -> None:
    """Read the whole text of those that are not rated yet, and reject those that raters would refuse (`unnatural`,
    `compatible`).

    evidence: for each row, that of its caption.
    """
    unread = [number for number, row in enumerate(rows) if row.p_unnatural is None]
    rate_rows(
        [evidence[number].caption for number in unread],
        [evidence[number].encoding for number in unread],
        [rows[number] for number in unread],
    )
    unnatural = np.array([row.p_unnatural for row in rows], float)
    compatible = np.array([row.p_compatible for row in rows], float)
    reasons = refusals(unnatural, compatible, limits.unnatural, limits.max_compatible).tolist()
    for row, reason in zip(rows, reasons, strict=True):
        if reason:
            row.reason = reason
            row.detail = limit_detail(reason, limits)


Check = Callable[[Row, Case], None]
# The cheap ones first, and those that name a word of a caption before the estimate: a row has the reason of the first
# that rejects it. Rating, which reads the whole text, comes last and is done for many rows together (`rate_whole`).
CHECKS: tuple[Check, ...] = (
    reject_disagreement,
    reject_conflict_with_other_sentences,
    reject_implied,
    reject_likely_true,
    reject_repeated_caption,
)
# What happens to candidates before there are rows, in order: it refuses most of them without making their texts.
PROPOSING: tuple[Callable[..., object], ...] = (
    ReplacingOperator.propose,
    refuse_possible,
    RatingEstimates.rate_at_best,
    Sampler.take,
    RatingEstimates.rate,
)


def check(row: Row, case: Case) -> None:
    """Give a row its text and its probability of being true, or the reason of the first check that rejects it."""
    for function in CHECKS:
        function(row, case)
        if row.reason is not None:
            return


def steps() -> list[tuple[str, str]]:
    """The names of all that a candidate goes through, in order, and what each does."""
    return [
        (function.__name__, " ".join((function.__doc__ or "").split("\n\n")[0].split()))
        for function in (*PROPOSING, *CHECKS, rate_whole)
    ]


def limit_detail(reason: str, limits: Limits) -> str:
    """Say which limit a row that was rejected for this reason exceeds: "p_unnatural must be <= 0.25"."""
    if reason == UNNATURAL:
        return f"p_unnatural must be <= {limits.unnatural:g}"
    assert reason == COMPATIBLE
    return f"p_compatible must be <= {limits.max_compatible:g}"
