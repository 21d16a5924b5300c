"""parses + lexicon + truth -> balance: the weights that make every entry enter captions as often as it leaves them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from augment.truth.most import MAX_TRUE, check_most
from pipelines.engine.run import ReduceStage, StageResult
from pipelines.engine.shards import WholeTable
from pipelines.stages.lexicon import TRAIN_SPLITS
from schemas.balance import BALANCE

if TYPE_CHECKING:
    import pyarrow as pa

    from augment.caption import Caption

TRAIN, ORDER = "train", "order"


@dataclass(frozen=True)
class BalanceConfig:
    """How the weights are fitted: on the captions of about `sample` captions' worth of images, drawn by their ids.

    max_true: as in NegativesConfig. Raises ValueError when sample is below 1 or max_true is not between 0 and 1.
    """

    sample: int = 10_000
    max_true: float = MAX_TRUE

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise ValueError(f"sample must be >= 1, was: {self.sample}")
        check_most(self.max_true)


def sample_shard(parses: pa.Table, config: BalanceConfig) -> pa.Table:
    """A shard's part of the sample."""
    return draw(parses, config.sample)


def draw(parses: pa.Table, sample: int) -> pa.Table:
    """A shard's part of a sample: parses with `train` (0 for a train split, else 1) and `order`, the image's hash."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from augment.rng import record_rng

    images = parses["image_id"].unique().to_pylist()
    order = {image: record_rng(0, "balance", image).getrandbits(63) for image in images}
    train = pc.is_in(parses["split"], value_set=pa.array(TRAIN_SPLITS))
    table = parses.append_column(TRAIN, pc.invert(train).cast(pa.int8()))
    orders = pa.array([order[image] for image in parses["image_id"].to_pylist()], pa.int64())
    return merge([table.append_column(ORDER, orders)], sample)


def combine(tables: list[pa.Table], config: BalanceConfig) -> pa.Table:
    """The sample of several shards."""
    return merge(tables, config.sample)


def merge(tables: list[pa.Table], sample: int) -> pa.Table:
    """The rows of the images first in order, train splits before others: the fewest that hold `sample` captions."""
    import pyarrow as pa

    table = pa.concat_tables(tables)
    table = table.sort_by([(TRAIN, "ascending"), (ORDER, "ascending"), ("caption_id", "ascending")])
    if table.num_rows > sample:
        last = table["image_id"][sample - 1]
        end = sample
        while end < table.num_rows and table["image_id"][end] == last:
            end += 1
        table = table.slice(0, end)
    return table.combine_chunks()


def images_of(table: pa.Table) -> list[list[Caption]]:
    """The captions of a sample by image, of train splits only where there are any."""
    import pyarrow.compute as pc

    from augment.caption import from_parses

    if table.num_rows:
        table = table.filter(pc.equal(table[TRAIN], table[TRAIN][0]))
    return [list(group) for _, group in groupby(from_parses(table), key=lambda caption: caption.image_id)]


def fit(table: pa.Table, config: BalanceConfig, lexicon: WholeTable, truth: WholeTable) -> StageResult:
    """The weights of every kind that an operator balances, of the train captions where there are any.

    Counter: captions, those fitted on.
    """
    import pyarrow as pa

    from augment.balance import BALANCED, balance
    from augment.language.lexicon import Lexicon
    from augment.truth.estimates import Truth

    images = images_of(table)
    entries = Lexicon.from_table(lexicon.read())
    known = Truth.from_table(truth.read(), entries, config.max_true)
    rows = [
        (kind, entry, weight)
        for kind in sorted(BALANCED)
        for entry, weight in sorted(balance(kind, images, entries, known).items())
    ]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(column, field.type) for column, field in zip(columns, BALANCE, strict=True)]
    counts = {"captions": sum(map(len, images))}
    return StageResult({"balance": pa.Table.from_arrays(arrays, schema=BALANCE)}, counts)


STAGE = ReduceStage(
    name="balance",
    input="parses",
    outputs={"balance": BALANCE},
    partial=sample_shard,
    combine=combine,
    finish=fit,
    code=("augment", "pipelines.stages.balance"),
    whole=("lexicon", "truth"),
)
