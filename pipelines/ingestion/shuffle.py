"""Make the shards of captions of a source: its parts are read, images are grouped, shards are packed, by calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..engine.cluster import Executor
from ..engine.errors import StageError, TaskError
from ..engine.progress import Progress, Reports
from ..engine.run import cause
from ..engine.shards import Receipt
from ..readers.record import Rejected
from .calls import Work, find_range, group_range, pack_range, plan_range, read_part
from .duplicates import BANDS
from .packing import captions_per_shard
from .rows import PART_BITS

STAGE = "ingest"
KEY_RANGE_ROWS = 1 << 22  # keys of captions that are compared in one call
RANGE_ROWS = 1 << 17  # rows that are grouped, or packed into shards, in one call


def make_shards(
    work: Work,
    parts: Sequence[Sequence[str] | None],
    executor: Executor,
    progress: Progress,
    prepare: Callable[[], None],
) -> list[dict[str, Receipt]]:
    """Make all shards of an ingest; returns their receipts, by table, for each shard.

    parts: the files of each part of the source, which one call reads; None: the whole source. prepare: called once
    before the first shard is written.
    """
    read = each(
        executor,
        read_part,
        [(work, number, files) for number, files in enumerate(parts)],
        Reports(lambda _, rows: progress.advance(rows, 0)),
        lambda part: part["rows"],
    )
    total = sum(part["rows"] for part in read)
    if work.config.duplicates or work.config.near_duplicates:
        keys = total * (1 + BANDS if work.config.near_duplicates else 1)
        work = replace(work, key_ranges=max(1, -(-keys // KEY_RANGE_ROWS)))
        each(executor, find_range, [(work, number) for number in range(work.key_ranges)])
    size = captions_per_shard(work.config, total, sum(part["characters"] for part in read))
    work = replace(work, ranges=max(1, -(-total // RANGE_ROWS)), shard_size=size)
    grouped = each(executor, group_range, [(work, number) for number in range(work.ranges)])
    first = min((call["first"] for call in (*read, *grouped) if call["first"]), default=None)
    bad = Rejected(*first[1:]) if first else None
    if bad is not None and work.config.strict:
        raise ValueError(describe_rejected(work.source, bad))
    ranges = [
        (part << PART_BITS | start, part << PART_BITS | min(start + RANGE_ROWS, call["rows"]))
        for part, call in enumerate(read)
        for start in range(0, call["rows"], RANGE_ROWS)
    ]
    shards = each(executor, plan_range, [(work, *positions) for positions in ranges])
    if not sum(shards):
        found = f"the first of its bad records: {describe_rejected(work.source, bad)}" if bad else "it has no records"
        raise ValueError(f"{work.source}: must hold captions in the format {work.format}, has none; {found}")
    prepare()
    written = Reports(lambda _, shards: progress.advance(0, shards))
    made = each(executor, pack_range, _pack_calls(work, ranges, shards), written, len)
    return [shard for call in made for shard in call]


def _pack_calls(work: Work, ranges: Sequence[tuple[int, int]], shards: Sequence[int]) -> list[tuple[Any, ...]]:
    """The calls of `pack_range`: ranges without captions are left out, and their rejected records go to the next one.

    (Those after the last caption go to the last one.)
    """
    calls = []
    start = rejected_from = 0
    last = max(index for index, count in enumerate(shards) if count)
    for index, ((low, high), count) in enumerate(zip(ranges, shards, strict=True)):
        if count:
            rejected_to = work.parts << PART_BITS if index == last else high
            calls.append((work, low, high, start, (rejected_from, rejected_to)))
            start, rejected_from = start + count, high
    return calls


def each(
    executor: Executor,
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    counter: Reports | None = None,
    done: Callable[[Any], int] = lambda result: 0,
) -> list[Any]:
    """The results of function(*call) for each call, in the order of the calls. Raises the error of a call that fails.

    counter: a progress counter, which gets the captions that running calls report, and in the end `done(result)` of
    them.
    """
    results: list[Any] = [None] * len(calls)
    try:
        for position, result in executor.map(function, calls, counter):
            results[position] = result
            if counter is not None:
                counter(position, done(result))
    except TaskError as failed:
        if isinstance(failed.__cause__, (ValueError, OSError)):
            raise failed.__cause__ from None
        raise StageError(f"{STAGE} stopped: {cause(failed.__cause__)}") from failed.__cause__
    return results


def describe_rejected(source: str, bad: Rejected) -> str:
    """A rejected record in one line: where it stands, the reason, the rule and the value."""
    where = source if source.rstrip("/").endswith(bad.source) else f"{source.rstrip('/')}/{bad.source}"
    return f"{where}:{bad.line}: {bad.reason}: {bad.detail}"
