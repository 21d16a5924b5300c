"""The splits and operators in a run, selected columns and random rows of its tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...schemas.messages import not_one_of
from ...schemas.negatives import POSITIVE
from ..engine.tables import Shard, read_table, shards_of

UNSPLIT = "unsplit"  # what users call the captions without a split; the tables have "" there
FILE_NAME = re.compile(r"\w[\w.-]*")  # neither hidden nor with folders
TableRow = dict[str, Any]  # by column
Wanted = Mapping[str, Sequence[str]]  # column -> values; () allows any


class OperatorInSplit(NamedTuple):
    """An operator, its family, and a split in which it has rows."""

    operator: str
    family: str
    split: str


def kinds_of(run: Path, table: str = "negatives") -> set[OperatorInSplit]:
    """Which operators have rows in a table of negatives, and in which splits. Raises an error if there is no table."""
    columns = list(OperatorInSplit._fields)
    kinds: set[OperatorInSplit] = set()
    for rows in read_table(run, table, columns):
        distinct = rows.group_by(columns).aggregate([])
        kinds.update(OperatorInSplit(**row) for row in distinct.to_pylist())
    return kinds


def check_file_name(what: str, name: str) -> None:
    """Raise ValueError if `name` cannot name a file: `val2014` can, `../up` cannot. `what` names it in the message."""
    if not FILE_NAME.fullmatch(name):
        raise ValueError(f"{what} must be able to name a file, was: {name!r}")


def stored_splits(splits: Sequence[str]) -> list[str]:
    """The values that a column `split` has for these names: "" for `unsplit`, captions without a split."""
    return [*splits, *([""] if UNSPLIT in splits else [])]


def column_filter(wanted: Wanted) -> pc.Expression:
    """A filter of rows with one of these values in each column, {"split": ("test", "unsplit")}; () allows any value."""
    matches = pc.scalar(True)
    for name, values in wanted.items():
        if values:
            stored = stored_splits(values) if name == "split" else list(values)
            matches &= pc.field(name).isin(pa.array(stored, pa.string()))
    return matches


def check_splits(wanted: Sequence[str], stored: Iterable[str], where: object) -> None:
    """Raise ValueError, listing those of `where`, for a split that is none of those stored in a column `split`."""
    there = sorted({value or UNSPLIT for value in stored})  # for the message, in an order that never changes
    for name in wanted:
        if (name or UNSPLIT) not in there:
            raise ValueError(not_one_of("split", repr(name), map(repr, there), more=f" in {where}"))


def check_operators(wanted: Sequence[str], stored: Iterable[str], where: object) -> None:
    """Raise ValueError, listing the operators of `where`, for a name that is none of them."""
    there = sorted(set(stored))
    for name in wanted:
        if name not in there:
            raise ValueError(not_one_of("operator", name, there or ["none"], more=f" in {where}"))


def splits_of(run: Path) -> tuple[str, ...]:
    """The splits of a run's captions in order of occurrence, `unsplit` for captions without one."""
    splits: dict[str, None] = {}  # in order, each once
    for rows in read_table(run, "captions", ["split"]):
        splits |= dict.fromkeys(rows["split"].unique().to_pylist())
    return tuple(name or UNSPLIT for name in splits)


def image_paths(run: Path, key: str = "image_id", wanted: Collection[str] | None = None) -> dict[str, str]:
    """The paths of images as the table captions has them, by image_id or, with the key caption_id, by caption.

    wanted: only of these ids; None: all.
    """
    paths: dict[str, str] = {}
    for rows in read_table(run, "captions", (key, "image")):
        if wanted is not None:
            rows = rows.filter(pc.field(key).isin(pa.array(sorted(wanted), pa.string())))
        paths |= zip(rows[key].to_pylist(), rows["image"].to_pylist(), strict=True)
    return paths


def captions_in(run: Path, splits: Sequence[str] = ()) -> int:
    """The number of captions of a run, or of these splits of it."""
    return sum(len(rows.filter(column_filter({"split": splits}))) for rows in read_table(run, "captions", ["split"]))


def sample(
    run: Path, table: str = "negatives", n: int = 10, seed: int = 0, wanted: Wanted | None = None
) -> list[TableRow]:
    """Random rows of a table in its order; while it is being made, rows of its finished shards.

    Args:
        run: the folder of a run.
        table: of the run.
        n: how many rows; all, if it has fewer.
        seed: the same rows for the same seed.
        wanted: only rows that match, see `column_filter`.

    Raises:
        FileNotFoundError, ValueError: the table is missing or its manifest unreadable, n < 1, or no row matches.
    """
    if n < 1:
        raise ValueError(f"n must be >= 1, was: {n}")
    wanted = {name: values for name, values in (wanted or {}).items() if values}
    shards = shards_of(run, table, unfinished=True)
    matching_rows = [_matching_rows(shard, wanted) for shard in shards]
    total = sum(map(len, matching_rows))
    if not total:
        if "split" in wanted:
            check_splits(wanted["split"], splits_of(run), run)
        asked = " and ".join(f"{name} {' or '.join(values)}" for name, values in wanted.items())
        raise ValueError(f"{run / table} has no rows{' with ' + asked if asked else ''}")
    chosen = sorted(Random(seed).sample(range(total), min(n, total)))  # numbers among the matching rows of all shards
    rows: list[TableRow] = []
    first = 0
    for shard, matching in zip(shards, matching_rows, strict=True):
        of_shard = [matching[number - first] for number in chosen if first <= number < first + len(matching)]
        if of_shard:  # most shards of a large table have no chosen row, and need not be read whole
            rows += shard.read().take(of_shard).to_pylist()
        first += len(matching)
    return rows


def _matching_rows(shard: Shard, wanted: Wanted) -> Sequence[int]:
    """The numbers of the rows of a shard that match, in order."""
    if not wanted:
        return range(shard.rows)
    rows = shard.read(tuple(wanted)).append_column("row", pa.array(range(shard.rows)))
    return rows.filter(column_filter(wanted))["row"].to_pylist()


def table_of(operators: Iterable[str]) -> str:
    """The table that has the rows of these operators: "positives" or "negatives"; ValueError if some are in each."""
    from ...augment.operators import OPERATORS

    named = sorted(operators)
    positive = [name for name in named if name in OPERATORS and OPERATORS[name].family == POSITIVE]
    if positive and positive != named:
        others = ", ".join(name for name in named if name not in positive)
        raise ValueError(f"{', '.join(positive)} is in the table positives, {others} in negatives: ask for one table")
    return "positives" if positive else "negatives"
