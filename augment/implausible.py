"""Reject negatives that are implausible as whole captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from negcap.augment.context import Context
from negcap.augment.edits import Accepted, Generated, Rejected
from negcap.augment.operators import OPERATORS
from negcap.augment.plausibility import Change, SentenceScorer, compare

REASON = "implausible"


def reject_implausible(
    contexts: Sequence[Context], made: Sequence[Mapping[str, Generated]], scorer: SentenceScorer | None = None
) -> list[dict[str, Generated]]:
    """The results with the plausibility of each negative; those outside their operator's limits are rejected.

    contexts: of the captions. made: for each caption, the results by operator. scorer: a language model that scores all
    negatives instead of the cloze model; it knows neither loss nor lowest. Without it, a negative is read as a
    whole if its operator does not know its plausibility, or limits more than that.
    """
    waiting: list[tuple[int, Accepted]] = []
    for row, generated in enumerate(made):
        for name, (accepted, _) in generated.items():
            limits = OPERATORS[name].limits
            if limits is not None:
                whole = scorer is not None or limits.read_whole
                waiting += [(row, one) for one in accepted if whole or one.plausibility is None]
    changes = {id(one): change for (_, one), change in zip(waiting, _read(contexts, waiting, scorer), strict=True)}
    results = []
    for generated in made:
        kept: dict[str, Generated] = {}
        for name, (accepted, rejected) in generated.items():
            limits = OPERATORS[name].limits
            kept[name] = Generated([], rejected)
            for one in accepted:
                change = changes.get(id(one), Change(one.plausibility or 0.0))
                if limits is None:
                    kept[name].accepted.append(one)
                elif limits.allow(change):
                    kept[name].accepted.append(one._replace(plausibility=change.log_odds))
                else:
                    rejected.append(Rejected(one.candidate, REASON, one.p_true, change.log_odds))
        results.append(kept)
    return results


def _read(
    contexts: Sequence[Context], waiting: Sequence[tuple[int, Accepted]], scorer: SentenceScorer | None
) -> list[Change]:
    """How each negative, read as a whole, compares with its caption, whose number in `contexts` comes with it."""
    captions = [contexts[row].own.captions[0] for row, _ in waiting]
    if scorer is None:
        readings = [contexts[row].reading for row, _ in waiting]
        return compare(captions, readings, [one.candidate for _, one in waiting])
    new = scorer.log_likelihoods([one.text for _, one in waiting])
    old = scorer.log_likelihoods([caption.text for caption in captions])
    return [Change(float(score)) for score in new - old]
