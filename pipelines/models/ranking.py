"""Ranks with ties, in bounded memory, for arrays of NumPy and tensors of PyTorch alike.

A query, an image or a text, ranks candidates of the other kind by their scores. Its rank is 1 + the number of false
candidates that outrank the true one. A tie counts against the model: one that maps everything to the same vector is
last, not first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Array = TypeVar("Array", np.ndarray, "Tensor")

TIE = 1e-6  # scores this close count as equal: the accuracy of inner products of unit vectors in float32
BLOCK = 1 << 23  # scores computed at a time: 32 MiB in float32


def outranks(false: Array, true: Array) -> Array:
    """Whether a false candidate outranks the true one: its score is higher, as high, or lower by less than TIE.

    Args:
        false: scores of false candidates.
        true: scores of the true candidates of the same queries, of a shape that broadcasts with that of `false`.
    """
    return false > true - TIE


def blocks(rows: int, columns: int, numbers: int = BLOCK) -> Iterator[slice]:
    """Consecutive slices of `rows` rows that have about `numbers` numbers each, in `columns` columns; of no rows, one
    empty slice.

    >>> list(blocks(5, 2, numbers=4))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, numbers // max(1, columns))
    # An empty slice, so that what is summed or joined over no rows still has a shape and a type.
    for start in range(0, max(1, rows), step):
        yield slice(start, min(start + step, rows))


def count_outranking(
    candidates: Array, queries: Array, true: Array, score: Callable[[Array, Array], Array], numbers: int = BLOCK
) -> Array:
    """For each query, the number of candidates that outrank its true one: (Q,).

    Args:
        candidates: vectors (n, d), all false.
        queries: vectors (Q, d).
        true: the score of each query's true candidate, (Q,).
        score: the scores (b, Q) of candidates (b, d) with queries (Q, d).
        numbers: how many scores are in memory together.
    """
    # Candidates in blocks, queries all at once: counts are added, so that no more than one block of scores is kept.
    counts = [
        outranks(score(candidates[rows], queries), true).sum(0)
        for rows in blocks(len(candidates), len(queries), numbers)
    ]
    return sum(counts[1:], counts[0])  # begins with an array, not with Python's 0


def count_outranking_in_list(scores: np.ndarray, true: np.ndarray) -> np.ndarray:
    """How many of one list of scores (n,) outrank each of some true scores (Q,), by the rule of `outranks`: (Q,)."""
    # Only scores above true - TIE outrank; "right" puts those that equal it on the other side.
    outranked = np.searchsorted(np.sort(scores), true - TIE, side="right")
    return len(scores) - outranked
