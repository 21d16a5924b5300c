"""The options of `negcap score`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..engine.bounds import above_zero, at_least, one_of

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class ScoreConfig:
    """What is scored, and how. Raises ValueError for a value that is not valid.

    images: the folder of the image files, None if the models need none. splits, operators: only these, all if empty;
    refined: only the negatives that `negcap refine` kept; per_caption: at most so many negatives per caption and
    operator, the first drawn, None for all. skip_missing: leave out captions whose image file is missing. seed: of the
    bootstrap and of the choice of second captions; resamples: of the bootstrap. device: cpu, cuda or auto (a GPU where
    there is one); threads: of the CPU, 0 for one per core; batch: images or texts computed at once; precision: what a
    GPU computes in, where auto is bfloat16 on a GPU and float32 on a CPU.
    Of endpoints (see EndpointConfig): concurrency, timeout, attempts, max_tokens of an answer, max_requests in all.
    """

    images: Path | None = None
    splits: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    refined: bool = False
    per_caption: int | None = None
    skip_missing: bool = False
    seed: int = 0
    resamples: int = 1000
    device: str = "auto"
    threads: int = 0
    batch: int = 64
    precision: str = "auto"
    concurrency: int = 8
    timeout: float = 120.0
    attempts: int = 6
    max_tokens: int = 16
    max_requests: int | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, ("per_caption", "batch", "resamples", "concurrency", "attempts", "max_tokens"))
        at_least(self, 0, ("threads", "max_requests"))
        above_zero(self, ["timeout"])
        one_of(self, {"device": DEVICES, "precision": PRECISIONS})
