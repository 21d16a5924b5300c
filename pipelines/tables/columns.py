"""The splits and operators in a run, and selected columns of its shards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..engine.tables import Shard, shards_of

if TYPE_CHECKING:
    import pyarrow as pa

UNSPLIT = "unsplit"
FILE_NAME = re.compile(r"\w[\w.-]*")


def read_columns(shard: Shard, columns: Sequence[str]) -> pa.Table:
    """Read these columns of a shard.

    Raises ValueError naming the `columns` that are missing, DamagedShardError for one that is not as recorded.
    """
    table = shard.read([*columns])
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        which = f"column{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise ValueError(f"{shard.name} lacks the {which}")
    return table.select([*columns])


def columns_of(run: Path, table: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read these columns of a table of a run, one pyarrow table per shard.

    Raises FileNotFoundError when the run has no such table and ValueError when it is unfinished; while iterating,
    ValueError for a column that is missing, DamagedShardError for a shard that is not as recorded.
    """
    return (read_columns(shard, columns) for shard in shards_of(run, table))


class Kind(NamedTuple):
    """An operator, its family, and a split in which it has rows."""

    operator: str
    family: str
    split: str


def kinds_of(run: Path, table: str = "negatives") -> set[Kind]:
    """The kinds of rows in a table of negatives. Raises what `columns_of` raises."""
    found: set[Kind] = set()
    for rows in columns_of(run, table, Kind._fields):
        groups = rows.group_by(list(Kind._fields)).aggregate([]).to_pylist()
        found.update(Kind(**group) for group in groups)
    return found


def check_file_name(what: str, name: str) -> None:
    """Raise ValueError if `name` cannot name a file: `val2014` can, `../up` cannot. `what` names it in the message."""
    if not FILE_NAME.fullmatch(name):
        raise ValueError(f"{what} must be able to name a file, was: {name!r}")


def stored_splits(splits: Sequence[str]) -> list[str]:
    """The values that a column `split` has for these names: "" for `unsplit`, captions without a split."""
    return [*splits, *([""] if UNSPLIT in splits else [])]


def check_splits(wanted: Sequence[str], stored: Iterable[str], where: object) -> None:
    """Raise ValueError, listing the splits of `where`, for a name that is none of them.

    stored: the values of its column `split`.
    """
    there = sorted({value or UNSPLIT for value in stored})
    for name in wanted:
        if (name or UNSPLIT) not in there:
            raise ValueError(f"split must be one of {', '.join(map(repr, there))} in {where}, was: {name!r}")


def check_operators(wanted: Sequence[str], stored: Iterable[str], where: object) -> None:
    """Raise ValueError, listing the operators of `where`, for a name that is none of them."""
    there = sorted(set(stored))
    for name in wanted:
        if name not in there:
            raise ValueError(f"operator must be one of {', '.join(there) or 'none'} in {where}, was: {name}")


def splits_of(run: Path) -> tuple[str, ...]:
    """The splits of a run's captions in order of first occurrence; captions without a split are in `unsplit`.

    Raises FileNotFoundError if the run has no captions, ValueError if they are unfinished.
    """
    found: dict[str, None] = {}
    for rows in columns_of(run, "captions", ["split"]):
        found |= dict.fromkeys(rows["split"].unique().to_pylist())
    return tuple(name or UNSPLIT for name in found)
