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


def first_draws(rows: pa.Table) -> np.ndarray:
    """A mask (rows,) of the first row of each caption and operator; the rows of each such pair must be consecutive."""
    changed = np.zeros(rows.num_rows, bool)
    changed[:1] = True
    for name in ("caption_id", "operator"):
        codes = _codes(rows, name)[0]
        changed[1:] |= codes[1:] != codes[:-1]
    return changed


def _codes(rows: pa.Table, name: str) -> tuple[np.ndarray, list[str]]:
    """A column as integer codes (rows,), and the list of values that the codes index."""
    column = rows[name].combine_chunks().dictionary_encode()
    return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary.to_pylist()


def _wanted(rows: pa.Table, how: Sampling) -> np.ndarray:
    """A mask of the rows that may be sampled."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = first_draws(rows) if how.first else np.ones(rows.num_rows, bool)
    for name, values in how.only.items():
        wanted &= pc.is_in(rows[name], pa.array(values)).to_numpy()
    return wanted


def _offer(best: dict[Stratum, Best], rows: pa.Table, by: Sequence[str], shard: Shard, how: Sampling) -> None:
    """Update `best` with the rows of a shard; in each stratum it keeps the n rows of lowest (rank, priority).

    rank: how many rows of the same image come before; priority: a hash that orders the images at random.
    """
    n, seed = how.n, how.seed
    wanted = _wanted(rows, how)
    images, names = _codes(rows, "image_id")
    hashed = np.array([_hash(name) for name in names], np.uint64)
    coded = [_codes(rows, name) for name in by]
    stratum = np.zeros(rows.num_rows, np.int64)
    for codes, values in coded:
        stratum = stratum * len(values) + codes
    for number in np.unique(stratum[wanted]).tolist():
        inside = np.flatnonzero(wanted & (stratum == number))
        name = tuple(values[codes[inside[0]]] for codes, values in coded)
        salt = np.uint64(_hash(f"{seed}\x1f{chr(31).join(name)}"))
        image = images[inside]
        order = np.argsort(image, kind="stable")
        turn = np.empty(len(inside), np.uint64)
        turn[order] = _running(image[order])
        within = _mixed(_mixed(hashed[image] ^ salt) + turn)
        order = np.lexsort((within, image))
        rank = np.empty(len(inside), np.uint64)
        rank[order] = _running(image[order])
        priority = _mixed(_mixed(hashed[image] ^ salt) ^ rank)
        chosen = np.lexsort((priority, rank))[:n]
        keys = zip(rank[chosen].tolist(), priority[chosen].tolist(), strict=True)
        offered = [(key, shard, int(row)) for key, row in zip(keys, inside[chosen], strict=True)]
        best[name] = heapq.nsmallest(n, [*best.get(name, []), *offered], key=lambda entry: entry[0])


def _running(sorted_codes: np.ndarray) -> np.ndarray:
    """For each of the sorted codes, how many equal ones precede it: [3, 3, 5] -> [0, 1, 0]."""
    starts = np.flatnonzero(np.concatenate([[True], sorted_codes[1:] != sorted_codes[:-1]]))
    sizes = np.diff(np.append(starts, len(sorted_codes)))
    return (np.arange(len(sorted_codes)) - np.repeat(starts, sizes)).astype(np.uint64)


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
