"""parses + lexicon -> truth: how likely a replacement is true of an image whose captions do not say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.engine.run import ReduceStage, Spread, StageResult
from pipelines.engine.shards import WholeTable
from pipelines.stages.balance import draw, images_of, merge, of_train
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


def tally(part: pa.Table, config: TruthConfig, lexicon: WholeTable) -> pa.Table:
    """The counts of a part of the sample."""
    from augment.truth.counts import MakesTrue, count

    return count(images_of(part), MakesTrue(load_lexicon(lexicon)))


def judge(part: pa.Table, counts: pa.Table, config: TruthConfig, lexicon: WholeTable) -> pa.Table:
    """The candidates of some images, judged; `counts` are those of other images."""
    from augment.truth.counts import MakesTrue
    from augment.truth.fit import judge as judged
    from augment.truth.fit import uncalibrated

    entries = load_lexicon(lexicon)
    return judged(images_of(part), uncalibrated(counts, entries), MakesTrue(entries))


def estimate(table: pa.Table, config: TruthConfig, spread: Spread, lexicon: WholeTable) -> StageResult:
    """The counts of the train captions where there are any, and the calibration. Counter: captions, those counted."""
    from augment.truth.counts import FOLDS, add, without
    from augment.truth.fit import IMAGES, calibrated

    table = several(of_train(table))
    images = table["image_id"].unique()
    folds = by_fold(table, images)
    counts = encoded(add(spread(tally, [[part] for part in folds])))
    fitted_on = by_fold(table, images[:IMAGES])
    judged = spread(judge, [[fitted_on[number], without(counts, number)] for number in range(FOLDS)])
    return StageResult({"truth": calibrated(counts, judged)}, {"captions": len(table)})


def encoded(table: pa.Table) -> pa.Table:
    """A table whose texts are numbers in dictionaries: it travels lighter."""
    import pyarrow as pa

    texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    for name in texts:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].dictionary_encode())
    return table


def several(table: pa.Table) -> pa.Table:
    """The captions of images that have several."""
    import numpy as np

    _, image, captions = np.unique(table["image_id"].to_numpy(), return_inverse=True, return_counts=True)
    return table.filter(captions[image] > 1)


def by_fold(table: pa.Table, images: pa.Array) -> list[pa.Table]:
    """The captions of some images, by fold."""
    import numpy as np
    import pyarrow.compute as pc

    from augment.truth.counts import FOLDS, fold

    image = pc.index_in(table["image_id"], images).fill_null(-1).to_numpy()
    folds = np.array([*map(fold, images.to_pylist()), -1])[image]
    return [table.filter(folds == number) for number in range(FOLDS)]


STAGE = ReduceStage(
    name="truth",
    input="parses",
    outputs={"truth": TRUTH},
    partial=sample_shard,
    combine=combine,
    finish=estimate,
    code=("augment", "pipelines.stages.truth", "pipelines.stages.balance", "pipelines.stages.learnt"),
    whole=("lexicon",),
    spreads=True,
)
