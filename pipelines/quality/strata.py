"""Stratified samples of a table, read once; the same rows whatever the size and the number of the shards."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from negcap.pipelines.engine.shards import list_shards, read_shard

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Stratum = tuple[str, ...]
Best = list[tuple[tuple[int, int], Path, int]]


class Sampling(NamedTuple):
    """How many rows of a stratum and which: all or the first draws of a caption and operator; with these values."""

    n: int
    seed: int = 0
    first: bool = False
    only: Mapping[str, Sequence[str]] = MappingProxyType({})


def sample_strata(run: Path, table: str, by: Sequence[str], how: Sampling) -> dict[Stratum, list[Row]]:
    """Draw n random rows for every combination of values of the columns `by`, sorted by it; all where there are fewer.

    Rows are of different images while there are any left. first: only the first draw of every caption and operator;
    only: rows that have one of these values in these columns. A table that the run lacks gives no strata. Raises
    ValueError for n < 1 or a missing column, DamagedShardError.
    """
    n, _, first, only = how
    if n < 1:
        raise ValueError(f"n must be >= 1, was: {n}")
    best: dict[Stratum, Best] = {}
    columns = list(dict.fromkeys((*by, *only, "image_id", *(("caption_id", "operator") if first else ()))))
    for shard in list_shards(run / table):
        rows = read_shard(shard, columns)
        for name in columns:
            if name not in rows.column_names:
                raise ValueError(f"{shard.parent} must have the columns {', '.join(columns)}, lacks: {name}")
        if rows.num_rows:
            _offer(best, rows, by, shard, how)
    return _taken(best)


def first_draws(rows: pa.Table) -> np.ndarray:
    """A mask of the rows that are the first of their caption and operator; rows of both stand together."""
    changed = np.zeros(rows.num_rows, bool)
    changed[:1] = True
    for name in ("caption_id", "operator"):
        codes = _codes(rows, name)[0]
        changed[1:] |= codes[1:] != codes[:-1]
    return changed


def _codes(rows: pa.Table, name: str) -> tuple[np.ndarray, list[str]]:
    """A column as numbers, and the values that they stand for."""
    column = rows[name].combine_chunks().dictionary_encode()
    return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary.to_pylist()


def _wanted(rows: pa.Table, how: Sampling) -> np.ndarray:
    """Which rows may be drawn."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = first_draws(rows) if how.first else np.ones(rows.num_rows, bool)
    for name, values in how.only.items():
        wanted &= pc.is_in(rows[name], pa.array(values)).to_numpy()
    return wanted


def _offer(best: dict[Stratum, Best], rows: pa.Table, by: Sequence[str], shard: Path, how: Sampling) -> None:
    """Put the rows of a shard among the best of their strata: first a row of every image, images in random order."""
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
    """For sorted codes, how many equal ones stand before: [3, 3, 5] -> [0, 1, 0]."""
    starts = np.flatnonzero(np.concatenate([[True], sorted_codes[1:] != sorted_codes[:-1]]))
    sizes = np.diff(np.append(starts, len(sorted_codes)))
    return (np.arange(len(sorted_codes)) - np.repeat(starts, sizes)).astype(np.uint64)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """64-bit numbers well mixed (the finaliser of splitmix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _taken(best: Mapping[Stratum, Best]) -> dict[Stratum, list[Row]]:
    """The rows themselves, in the random order; every shard is read once."""
    by_shard: dict[Path, list[int]] = {}
    for _, shard, row in chain.from_iterable(best.values()):
        by_shard.setdefault(shard, []).append(row)
    read: dict[tuple[Path, int], Row] = {}
    for shard, numbers in by_shard.items():
        read |= zip(((shard, row) for row in numbers), read_shard(shard).take(numbers).to_pylist(), strict=True)
    return {stratum: [read[shard, row] for _, shard, row in best[stratum]] for stratum in sorted(best)}
