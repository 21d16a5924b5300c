"""Stratified random samples of a table, read in one pass; the sampled rows do not depend on how it is sharded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ..engine.tables import has_table, shards_of
from ..report.rows import Row
from ..tables.columns import column_filter
from ..tables.pairs import earlier_draws

if TYPE_CHECKING:
    import pandas as pd

# The values of a row in the columns that a sample is stratified by.
Stratum = tuple[str, ...]
NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})


def sample_strata(
    run: Path,
    table: str,
    by: Sequence[str],
    n: int,
    seed: int = 0,
    first: bool = False,
    only: Mapping[str, Sequence[str]] = NOTHING,
) -> dict[Stratum, list[Row]]:
    """Sample random rows of every stratum, of different images as long as there are any.

    Args:
        run: the folder of the run.
        table: that is sampled; a missing one gives no strata.
        by: the columns whose combinations of values are the strata, which are returned sorted.
        n: rows of each stratum, at most.
        seed: of the sample.
        first: take only the negative that was drawn first for its caption and operator.
        only: the values allowed in some columns, see `column_filter`.

    Raises:
        ValueError: for n < 1 or a column that the table lacks.
        DamagedShardError: a shard cannot be read.
    """
    import pandas as pd

    if n < 1:
        raise ValueError(f"n must be >= 1, was: {n}")
    columns = [*by, *only, "image_id"]
    if first:
        columns += ["caption_id", "operator"]
    columns = list(dict.fromkeys(columns))
    shards = shards_of(run, table) if has_table(run, table) else []
    # The best n rows of each stratum in the shards read so far; no other row of these shards can be among the best.
    best = pd.DataFrame(columns=[*by, "shard", "row", "rank", "priority"])
    for number, shard in enumerate(shards):
        rows = shard.read(columns).append_column("row", pa.array(range(shard.rows)))
        if first:
            rows = rows.filter(earlier_draws(rows) == 0)
        frame = rows.filter(column_filter(only)).select([*dict.fromkeys([*by, "image_id", "row"])]).to_pandas()
        candidates = _with_random_order(frame.assign(shard=number), by, seed)
        # pandas would guess other types of the columns where one of the frames is empty.
        if len(best):
            candidates = pd.concat([best, candidates]).astype(candidates.dtypes)
        best = candidates.sort_values(["rank", "priority"], kind="stable").groupby([*by]).head(n)
    rows_by_place: dict[Place, Row] = {}
    for number, shard in enumerate(shards):
        chosen = best["row"][best["shard"] == number].tolist()
        if chosen:
            places = [Place(number, row) for row in chosen]
            rows_by_place |= zip(places, shard.read().take(chosen).to_pylist(), strict=True)
    sample: dict[Stratum, list[Row]] = {}
    for stratum, places_of_stratum in best.groupby([*by])[["shard", "row"]]:
        places = [Place(*place) for place in places_of_stratum.itertuples(index=False, name=None)]
        sample[tuple(map(str, stratum))] = [rows_by_place[place] for place in places]
    return sample


class Place(NamedTuple):
    """Where a row stands: the number of the shard, and that of the row in it."""

    shard: int
    row: int


def _with_random_order(frame: pd.DataFrame, by: Sequence[str], seed: int) -> pd.DataFrame:
    """Rows with two more columns, by which they are drawn, the lowest first: `rank`, then `priority`.

    rank: how many rows of the same image and stratum are drawn before. So every image has its first row drawn before
    any has its second. priority: a hash of image, stratum and rank, which is random and does not depend on the shards;
    all rows of an image are in one shard, so that their ranks do not depend on them, either.

    Args:
        frame: rows of a shard, with image_id and the columns `by`.
        by: the columns whose values together are the stratum of a row.
        seed: of the hashes.
    """
    from pandas.util import hash_pandas_object

    group = [*by, "image_id"]
    key = blake2b(str(seed).encode(), digest_size=8).hexdigest()

    def hashed(number: pd.Series) -> pd.Series:
        """A hash of each row's stratum, image and number, (rows,)."""
        return hash_pandas_object(frame[group].assign(number=number), index=False, hash_key=key)

    # The position of a row among those of its image and stratum; by its hash these are shuffled, which gives the rank.
    position = frame.groupby(group).cumcount()
    shuffled = hashed(position).sort_values(kind="stable").index
    rank = frame.loc[shuffled].groupby(group).cumcount().reindex(frame.index)
    # Ranks are hashed as negative numbers, so that no rank has the hash of a position.
    return frame.assign(rank=rank, priority=hashed(-1 - rank))
