"""Krippendorff's alpha: how much annotators agree beyond chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def alpha(votes: Sequence[Sequence[str | None]]) -> float | None:
    """Krippendorff's alpha for nominal values: one row of votes per item, where None is a missing vote.

    1 - D_o / D_e of the coincidence matrix (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", C):
    1 is perfect agreement, 0 chance. Items with fewer than two votes do not count. Returns None if alpha is undefined:
    no item has two votes, or all votes are equal.
    """
    values = sorted({vote for unit in votes for vote in unit if vote is not None})
    number = {value: i for i, value in enumerate(values)}
    counts = np.zeros((len(votes), len(values)))
    for row, unit in zip(counts, votes, strict=True):
        for vote in unit:
            if vote is not None:
                row[number[vote]] += 1
    given = counts.sum(axis=1)
    counts, given = counts[given > 1], given[given > 1]
    coincidences = (counts / (given - 1)[:, None]).T @ counts - np.diag((counts / (given - 1)[:, None]).sum(axis=0))
    totals = coincidences.sum(axis=0)
    n = totals.sum()
    expected = n * n - (totals**2).sum()
    if not expected:
        return None
    observed = n - np.trace(coincidences)
    return float(1 - (n - 1) * observed / expected)
