"""Stratified random samples of a table, read in one pass; the sampled rows do not depend on how it is sharded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..engine.tables import has_table, shards_of
from ..tables.columns import column_filter
from ..tables.pairs import earlier_draws

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
Stratum = tuple[str, ...]


def sample_strata(
    run: Path,
    table: str,
    by: Sequence[str],
    n: int,
    seed: int = 0,
    first: bool = False,
    only: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[Stratum, list[Row]]:
    """Sample n random rows (or all) for every combination of values of the columns `by`, returned sorted, of different
    images as long as there are any. first: of each caption and operator only the first drawn; only: see
    `column_filter`. A missing table gives none. Raises ValueError for n < 1 or a missing column, and as `Shard.read`.
    """
    import pandas as pd

    if n < 1:
        raise ValueError(f"n must be >= 1, was: {n}")
    columns = list(dict.fromkeys((*by, *only, "image_id", *(("caption_id", "operator") if first else ()))))
    shards = shards_of(run, table) if has_table(run, table) else []
    best = pd.DataFrame(columns=[*by, "shard", "row", "rank", "priority"])
    for number, shard in enumerate(shards):
        rows = shard.read(columns).append_column("row", pa.array(range(shard.rows)))
        rows = rows.filter(earlier_draws(rows) == 0) if first else rows
        frame = rows.filter(column_filter(only)).select([*dict.fromkeys([*by, "image_id", "row"])]).to_pandas()
        here = _with_order(frame.assign(shard=number), by, seed)
        best = pd.concat([best, here]).astype(here.dtypes) if len(best) else here
        best = best.sort_values(["rank", "priority"], kind="stable").groupby([*by]).head(n)
    read: dict[tuple[int, int], Row] = {}
    for number, shard in enumerate(shards):
        taken = best["row"][best["shard"] == number].tolist()
        if taken:
            read |= zip(((number, row) for row in taken), shard.read().take(taken).to_pylist(), strict=True)
    strata = best.groupby([*by])[["shard", "row"]]
    return {
        tuple(map(str, key)): [read[one] for one in some.itertuples(index=False, name=None)] for key, some in strata
    }


def _with_order(frame: pd.DataFrame, by: Sequence[str], seed: int) -> pd.DataFrame:
    """Rows with `rank`, how many of the image come before in the stratum, and `priority`, a hash: lowest are drawn."""
    from pandas.util import hash_pandas_object

    same = [*by, "image_id"]
    key = blake2b(str(seed).encode(), digest_size=8).hexdigest()

    def hashed(number: pd.Series) -> pd.Series:
        return hash_pandas_object(frame[same].assign(number=number), index=False, hash_key=key)

    turns = hashed(frame.groupby(same).cumcount()).sort_values(kind="stable").index  # an image's rows in random order
    rank = frame.loc[turns].groupby(same).cumcount().reindex(frame.index)
    return frame.assign(rank=rank, priority=hashed(-1 - rank))
