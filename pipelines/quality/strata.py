"""Stratified random samples of a table, read in one pass; the sampled rows do not depend on how it is sharded."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..engine.tables import Shard, has_table, shards_of
from ..tables.pairs import earlier, running

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Stratum = tuple[str, ...]
Best = list[tuple[tuple[int, int], Shard, int]]


class Sampling(NamedTuple):
    """Which rows to sample from each stratum.

    n: at most so many; first: only the first row (draw) of each caption and operator; only: by column, the values that
    rows must have.
    """

    n: int
    seed: int = 0
    first: bool = False
    only: Mapping[str, Sequence[str]] = MappingProxyType({})


def sample_strata(run: Path, table: str, by: Sequence[str], how: Sampling) -> dict[Stratum, list[Row]]:
    """Sample n random rows for every combination of values of the columns `by`; all rows if there are fewer.

    Returns them by combination, in sorted order. Rows are of different images as long as there are images left; `how`
    says which rows may be sampled. A table that the run does not have gives no strata. Raises ValueError for n < 1 or
    a missing column, DamagedShardError for a shard that is not as recorded.
    """
    n, _, first, only = how
    if n < 1:
        raise ValueError(f"n must be >= 1, was: {n}")
    best: dict[Stratum, Best] = {}
    columns = list(dict.fromkeys((*by, *only, "image_id", *(("caption_id", "operator") if first else ()))))
    for shard in shards_of(run, table) if has_table(run, table) else ():
        rows = shard.read(columns)
        for name in columns:
            if name not in rows.column_names:
                raise ValueError(f"{run / table} must have the columns {', '.join(columns)}, lacks: {name}")
        if rows.num_rows:
            _offer(best, rows, by, shard, how)
    return _taken(best)


def _codes(rows: pa.Table, name: str) -> tuple[np.ndarray, list[str]]:
    """A column as integer codes (rows,), and the list of values that the codes index."""
    column = rows[name].combine_chunks().dictionary_encode()
    return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary.to_pylist()


def _offer(best: dict[Stratum, Best], rows: pa.Table, by: Sequence[str], shard: Shard, how: Sampling) -> None:
    """Update `best` with the rows of a shard; in each stratum it keeps the n rows of lowest (rank, priority).

    rank: how many rows of the same image come before; priority: a hash that orders the images at random.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    n, seed = how.n, how.seed
    wanted = earlier(rows) == 0 if how.first else np.ones(rows.num_rows, bool)
    for name, values in how.only.items():
        wanted &= pc.is_in(rows[name], pa.array(values)).to_numpy()
    images, names = _codes(rows, "image_id")
    hashed = np.array([_hash(name) for name in names], np.uint64)
    coded = [_codes(rows, name) for name in by]
    stratum = np.zeros(rows.num_rows, np.int64)
    for codes, values in coded:
        stratum = stratum * len(values) + codes
    for number in np.unique(stratum[wanted]).tolist():
        inside = np.flatnonzero(wanted & (stratum == number))
        stratum_name = tuple(values[codes[inside[0]]] for codes, values in coded)
        image = images[inside]
        own = _mixed(hashed[image] ^ np.uint64(_hash(f"{seed}\x1f{chr(31).join(stratum_name)}")))
        rank = _ranks(image, _mixed(own + _ranks(image, np.arange(len(image)))))  # in random order of its rows
        priority = _mixed(own ^ rank)
        chosen = np.lexsort((priority, rank))[:n]
        keys = zip(rank[chosen].tolist(), priority[chosen].tolist(), strict=True)
        offered = [(key, shard, int(row)) for key, row in zip(keys, inside[chosen], strict=True)]
        best[stratum_name] = heapq.nsmallest(n, [*best.get(stratum_name, []), *offered], key=lambda entry: entry[0])


def _ranks(groups: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The rank of each value of `by` among those of its group, from 0, uint64."""
    order = np.lexsort((by, groups))
    found = np.empty(len(groups), np.uint64)
    found[order] = running(groups[order])
    return found


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Scramble 64-bit numbers (the finaliser of splitmix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _taken(best: Mapping[Stratum, Best]) -> dict[Stratum, list[Row]]:
    """The sampled rows by stratum, in random order; every shard is read once."""
    by_shard: dict[Shard, list[int]] = {}
    for _, shard, row in chain.from_iterable(best.values()):
        by_shard.setdefault(shard, []).append(row)
    read: dict[tuple[Shard, int], Row] = {}
    for shard, numbers in by_shard.items():
        read |= zip(((shard, row) for row in numbers), shard.read().take(numbers).to_pylist(), strict=True)
    return {stratum: [read[shard, row] for _, shard, row in best[stratum]] for stratum in sorted(best)}
