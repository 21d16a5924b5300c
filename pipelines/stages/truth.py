"""parses + lexicon -> truth: what the probability that a replacement is true of an image is estimated from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from negcap.pipelines.engine.shards import WholeTable
from negcap.pipelines.engine.stage import ReduceStage, Spread, StageResult
from negcap.pipelines.stages.balance import first_images, of_train, sample_images
from negcap.pipelines.tables.corpus import load_lexicon
from negcap.schemas.truth import TRUTH

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TruthConfig:
    """What is counted: the captions of about `truth_sample` captions' worth of images, drawn by their ids.

    Raises ValueError when truth_sample is below 1.
    """

    truth_sample: int = 15_000

    def __post_init__(self) -> None:
        if self.truth_sample < 1:
            raise ValueError(f"truth_sample must be >= 1, was: {self.truth_sample}")


def sample_shard(parses: pa.Table, config: TruthConfig) -> pa.Table:
    """A shard's part of the sample."""
    return sample_images(parses, config.truth_sample)


def combine(tables: list[pa.Table], config: TruthConfig) -> pa.Table:
    """The sample of several shards."""
    return first_images(tables, config.truth_sample)


def estimate(table: pa.Table, config: TruthConfig, spread: Spread, lexicon: WholeTable) -> StageResult:
    """The counts of the train captions where there are any, and the calibration. Counter: captions, those counted."""
    from negcap.augment.truth import fit

    table = fit.several(of_train(table))
    truth = fit.estimate(table, lambda function, calls: spread(partial(with_lexicon, function), calls))
    return StageResult({"truth": truth}, {"captions": len(table)})


def with_lexicon(function: Callable[..., pa.Table], *given: Any, lexicon: WholeTable) -> pa.Table:
    """function(*tables, lexicon) of `given`, which are tables and the config, in a worker."""
    *tables, _ = given
    return function(*tables, load_lexicon(lexicon))


STAGE = ReduceStage(
    name="truth",
    input="parses",
    outputs={"truth": TRUTH},
    partial=sample_shard,
    combine=combine,
    finish=estimate,
    code=(
        "negcap.augment",
        "negcap.pipelines.stages.truth",
        "negcap.pipelines.stages.balance",
        "negcap.pipelines.tables.corpus",
    ),
    whole=("lexicon",),
    spreads=True,
)
