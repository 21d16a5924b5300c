"""The options of `negcap audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...engine.bounds import at_least


@dataclass(frozen=True)
class AuditConfig:
    """What an audit shows.

    n: number of random negatives per operator (refused candidates: a third as many per reason); refined: show and plot
    the table refined instead of negatives; splits: only rows of these, all if empty; blind: measure the blind
    baselines; limit: most pairs per operator that they are measured on; images: the folder of the image files, to show
    them beside the rows, or None. Raises ValueError for n or limit below 1, or an empty title.
    """

    n: int = 12
    seed: int = 0
    refined: bool = False
    splits: tuple[str, ...] = ()
    blind: bool = True
    limit: int = 100_000
    images: Path | None = None
    title: str = "Negative captions, audited"

    def __post_init__(self) -> None:
        at_least(self, 1, ("n", "limit"))
        if not self.title.strip():
            raise ValueError("title must not be empty")
