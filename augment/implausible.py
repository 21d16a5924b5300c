"""Reject negatives that are implausible as whole captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from negcap.augment.context import Context
from negcap.augment.edits import Accepted, Rejected
from negcap.augment.operators import OPERATORS
from negcap.augment.plausibility import Change, SentenceScorer, compare

REASON = "implausible"


class Generated(NamedTuple):
    """What one operator made of one caption: accepted candidates (positives for a paraphrase) and rejected ones."""

    accepted: list[Accepted]
    rejected: list[Rejected]


def reject_implausible(
    contexts: Sequence[Context], made: Sequence[Mapping[str, Generated]], scorer: SentenceScorer | None = None
) -> list[dict[str, Generated]]:
    """The results with the plausibility of each negative; those outside their operator's limits are rejected.

    contexts: of the captions. made: for each caption, the results by operator. scorer: a language model that scores all
    negatives instead of the cloze model; it knows neither drop nor lowest. Without it, negatives whose plausibility
    their operator knows are not read again.
    """
    waiting = [
        (row, one)
        for row, generated in enumerate(made)
        for name, (accepted, _) in generated.items()
        if OPERATORS[name].limits is not None
        for one in accepted
        if one.plausibility is None or scorer is not None
    ]
    scored = iter(_scored(contexts, waiting, scorer))
    results = []
    for generated in made:
        kept: dict[str, Generated] = {}
        for name, (accepted, rejected) in generated.items():
            limits = OPERATORS[name].limits
            kept[name] = Generated([], rejected)
            for one in accepted:
                if limits is None:
                    kept[name].accepted.append(one)
                    continue
                change = next(scored) if one.plausibility is None or scorer is not None else Change(one.plausibility)
                if limits.allow(change):
                    kept[name].accepted.append(one._replace(plausibility=change.log_odds))
                else:
                    rejected.append(Rejected(one.candidate, REASON, one.p_true, change.log_odds))
        results.append(kept)
    return results


def _scored(
    contexts: Sequence[Context], waiting: Sequence[tuple[int, Accepted]], scorer: SentenceScorer | None
) -> list[Change]:
    """How each negative compares with its caption; waiting: the caption's number in `contexts`, and the negative."""
    captions = [contexts[row].own.captions[0] for row, _ in waiting]
    if scorer is None:
        readings = [contexts[row].reading for row, _ in waiting]
        return compare(captions, readings, [one.candidate for _, one in waiting])
    new = scorer.log_likelihoods([one.text for _, one in waiting])
    old = scorer.log_likelihoods([caption.text for caption in captions])
    return [Change(float(score)) for score in new - old]
