"""parses + lexicon -> truth: how likely a replacement is true of an image whose captions do not say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.engine.run import ReduceStage, StageResult
from pipelines.engine.shards import WholeTable
from pipelines.stages.balance import draw, images_of, merge
from pipelines.stages.learnt import load_lexicon
from schemas.truth import TRUTH

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
    return draw(parses, config.truth_sample)


def combine(tables: list[pa.Table], config: TruthConfig) -> pa.Table:
    """The sample of several shards."""
    return merge(tables, config.truth_sample)


def count(table: pa.Table, config: TruthConfig, lexicon: WholeTable) -> StageResult:
    """The counts of the train captions where there are any, and the calibration. Counter: captions, those counted."""
    from augment.truth.fit import estimate

    images = images_of(table)
    truth = estimate(images, load_lexicon(lexicon))
    return StageResult({"truth": truth}, {"captions": sum(map(len, images))})


STAGE = ReduceStage(
    name="truth",
    input="parses",
    outputs={"truth": TRUTH},
    partial=sample_shard,
    combine=combine,
    finish=count,
    code=("augment", "pipelines.stages.truth", "pipelines.stages.balance", "pipelines.stages.learnt"),
    whole=("lexicon",),
)
