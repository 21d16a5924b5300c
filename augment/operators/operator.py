"""What an operator is: one way to make negatives of a caption.

An operator proposes; it neither judges truth or sense nor builds texts, which the checks of `negcap.augment.checks` do
for all operators alike. There are two sorts. `SamplingOperator`s choose among the candidates of the table
(`negcap.augment.candidates`), by weight: all that replace one word. `ListingOperator`s list rows of their own: all that
move words, or add them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from ..candidates import Batch
from ..caption import Caption
from ..evidence import Evidence
from ..lexicon.lexicon import Lexicon
from ..rows import Row
from ..sampling import order_keys
from ..truth.contradiction import Violation


class Traits(NamedTuple):
    """What holds for an operator as a whole.

    family: of the negatives, as in the papers.
    share: its maximum number of negatives per caption as a share of the setting `per_family`.
    kinds: of the words that it replaces by weight, which the run balances (`negcap.augment.balance`).
    is_checked: whether rows that may be true of the image are refused.
    is_rated: whether rows that raters would refuse are refused.
    has_fallback: whether it makes one negative that is less natural than preferred, if a caption would have none. The
        operators of numerals and verbs do not: raters called 48 % of 44 such numerals unnatural. Of prepositions
        up to the limit they said so of 35 % of 233, where they did of 30 % of 88 that are just below what is preferred.
    """

    family: str
    share: float
    kinds: tuple[str, ...] = ()
    is_checked: bool = True
    is_rated: bool = True
    has_fallback: bool = False


class Source(Protocol):
    """Gives the rows of each caption of a batch in the order in which they are taken."""

    def take(self, wanted: Mapping[int, int]) -> dict[int, list[Row]]:
        """The next rows of some captions; fewer than wanted, or none, for a caption that has no more.

        wanted: how many, by the number of the caption in the batch. The result has the same keys.
        """


class Operator(ABC):
    """One way to make negatives. Its name is its key in `negcap.augment.operators.OPERATORS`.

    The first sentence of the docstring of each class says what it does; pages and commands show it.
    """

    def __init__(self, name: str, traits: Traits) -> None:
        self.name = name
        self.traits = traits

    @property
    def family(self) -> str:
        """The family of its negatives."""
        return self.traits.family

    @abstractmethod
    def rows(self, batch: Batch, seed: int) -> Source:
        """All rows that it could make of the captions of a batch, in random order."""

    def fallback_rows(self, batch: Batch, captions: Sequence[int], seed: int) -> Source | None:
        """Second choices for captions none of whose `rows` passes the checks before the rating; None if it has none.

        captions: their numbers in the batch.
        """
        return None

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why a row of this operator may be true of the image by what its captions say; None if nothing tells."""
        return None


class ListedRows:
    """Rows that an operator lists for each caption, in the order in which they are taken."""

    def __init__(self, rows_of_captions: Iterable[Iterable[Row]]) -> None:
        # Iterators, so that rows which are listed lazily are made only when they are taken.
        self._rest = [iter(rows) for rows in rows_of_captions]

    def take(self, wanted: Mapping[int, int]) -> dict[int, list[Row]]:
        """The next rows that are listed for each of these captions, at most as many as wanted."""
        return {caption: list(islice(self._rest[caption], number)) for caption, number in wanted.items()}


class ChainedRows(NamedTuple):
    """The rows of a first source, then those of a second one for captions that lack some."""

    first: Source
    second: Source

    def take(self, wanted: Mapping[int, int]) -> dict[int, list[Row]]:
        """The next rows of some captions, at most as many as wanted."""
        taken = self.first.take(wanted)
        lacking = {caption: wanted[caption] - len(rows) for caption, rows in taken.items()}
        more = self.second.take({caption: number for caption, number in lacking.items() if number})
        return {caption: [*rows, *more.get(caption, ())] for caption, rows in taken.items()}


class ListingOperator(Operator):
    """An operator that lists rows of its own for one caption, in the order in which they are taken."""

    @abstractmethod
    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> Iterable[Row]:
        """All rows that it could make of one caption, in random order."""

    def rows(self, batch: Batch, seed: int) -> Source:
        """The rows of each caption of the batch, listed when they are taken."""
        return ListedRows(self.list_rows(evidence, batch, seed) for evidence in batch.evidence)


def in_random_order(rows: list[Row], seed: int, operator: str, caption: Caption) -> list[Row]:
    """The rows of one caption in an order that depends only on the seed, the operator and the caption."""
    if len(rows) < 2:
        return rows
    names = [f"{row.tokens} {row.replacement}" for row in rows]
    return [rows[number] for number in np.argsort(order_keys(seed, operator, caption.caption_id, names)).tolist()]
