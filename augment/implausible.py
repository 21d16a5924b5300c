"""Reject negatives that are implausible as whole captions, and say how plausible the others are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .caption import Caption
from .context import Context
from .edits import Accepted, Generated, Rejected
from .operators import OPERATORS, Limits
from .plausibility import Change, SentenceScorer, compare

REASON = "implausible"


def reject_implausible(
    contexts: Sequence[Context],
    made: Sequence[Mapping[str, Generated]],
    scorer: SentenceScorer | None = None,
    minimum: float | None = None,
    max_loss: float | None = None,
) -> list[dict[str, Generated]]:
    """Move implausible negatives from the accepted to the rejected, and give the others their plausibility and loss.

    contexts: one for each caption. made: for each caption, the results by operator; the result has the same form.

    - First the cloze model compares each negative with its caption, and those outside the limits of their operator
      (see `negcap.augment.operators.Limits`) are rejected. The limits are on the scale of the cloze model and apply
      whether or not there is a scorer. With `max_loss`, that of the loss is at most this for all operators. Operators
      without limits keep all their negatives, unchanged.
    - Then a scorer, if there is one, scores what is left: `plausibility` becomes its log-likelihood of the negative
      minus that of the caption. Negatives rejected before have none.
    - Last, negatives whose plausibility is below `minimum` are rejected.
    """
    limits_of = {name: _limits(name, max_loss) for generated in made for name in generated}
    changes = _changes(contexts, made, limits_of)
    results: list[dict[str, Generated]] = []
    left: list[tuple[Caption, Generated, Accepted]] = []
    for context, generated in zip(contexts, made, strict=True):
        results.append({})
        for name, (accepted, rejected) in generated.items():
            limits = limits_of[name]
            results[-1][name] = kept = Generated([], rejected)
            if limits is None:
                kept.accepted.extend(accepted)
                continue
            for one in accepted:
                read = changes.get(id(one))
                change, loss = (Change(one.plausibility or 0.0), None) if read is None else (read, read.loss)
                if limits.allow(change):
                    left.append((context.own.captions[0], kept, one._replace(plausibility=change.log_odds, loss=loss)))
                else:
                    log_odds = change.log_odds if scorer is None else None
                    rejected.append(Rejected(one.candidate, REASON, one.p_true, log_odds, loss))
    if scorer is not None:
        new = scorer.log_likelihoods([one.text for _, _, one in left])
        log_odds = new - scorer.log_likelihoods([caption.text for caption, _, _ in left])
        left = [
            (caption, kept, one._replace(plausibility=odds))
            for (caption, kept, one), odds in zip(left, log_odds.tolist(), strict=True)
        ]
    for _, kept, one in left:
        if minimum is not None and one.plausibility is not None and one.plausibility < minimum:
            kept.rejected.append(Rejected(one.candidate, REASON, one.p_true, one.plausibility, one.loss))
        else:
            kept.accepted.append(one)
    return results


def _limits(name: str, max_loss: float | None) -> Limits | None:
    """The limits of an operator, that of the loss at most `max_loss`."""
    limits = OPERATORS[name].limits
    if limits is None or max_loss is None:
        return limits
    return limits._replace(max_loss=min(limits.max_loss, max_loss))


def _changes(
    contexts: Sequence[Context], made: Sequence[Mapping[str, Generated]], limits_of: Mapping[str, Limits | None]
) -> dict[int, Change]:
    """How those negatives that have to be compared with their captions compare with them, by the negative's `id`.

    A negative is read if its operator does not know its plausibility, or limits more than that.
    """
    read: list[tuple[Context, Accepted]] = []
    for context, generated in zip(contexts, made, strict=True):
        for name, (accepted, _) in generated.items():
            limits = limits_of[name]
            if limits is not None:
                read += [(context, one) for one in accepted if limits.read_whole or one.plausibility is None]
    captions, readings = [context.own.captions[0] for context, _ in read], [context.reading for context, _ in read]
    found = compare(captions, readings, [one.candidate for _, one in read])
    return {id(one): change for (_, one), change in zip(read, found, strict=True)}
