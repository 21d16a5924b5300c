"""Read the tables of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def read(
    run: str | PathLike[str],
    table: str = "negatives",
    *,
    operator: str | Sequence[str] | None = None,
    split: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Read a table of a run, optionally only the rows of some operators or splits.

    Args:
        run: the folder of the run, on a local disk or on a store.
        table: `negatives`, `refined` (those that `negcap refine` kept), `positives` (paraphrases, true denials),
            `rejections` (refused candidates), `captions`, `parses`, `lexicon`, `components` …: `negcap info RUN` lists
            those of a run, and the reference of the tables describes them.
        operator: an operator or several; None: rows of all operators.
        split: a split or several, `unsplit` for captions without one; None: rows of all splits.
        columns: the columns to return; None: all.

    Raises:
        FileNotFoundError: the run has no such table.
        ValueError: the table has no such column, or there is no such operator or split.
        DamagedShardError: a shard cannot be read.

    Examples:
        >>> frame = read(run, "negatives", operator="noun", columns=["caption", "text"])
        >>> list(frame.columns)
        ['caption', 'text']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from ..engine.bounds import word
    from ..engine.places import place
    from ..engine.tables import read_table
    from ..tables.columns import stored_splits

    wanted = {"operator": operator, "split": split}
    chosen = {name: [value] if isinstance(value, str) else list(value) for name, value in wanted.items() if value}
    parts, seen = [], {name: set[str]() for name in chosen}
    for part in read_table(place(run, "run"), table):
        missing = [name for name in (*chosen, *(columns or ())) if name not in part.column_names]
        if missing:
            raise ValueError(f"{table} must have the column {missing[0]}, has: {', '.join(part.column_names)}")
        for name in chosen:
            seen[name].update(part[name].unique().to_pylist())
        for name, values in chosen.items():
            stored = stored_splits(values) if name == "split" else values
            part = part.filter(pc.is_in(part[name], value_set=pa.array(stored, pa.string())))
        parts.append(part if columns is None else part.select(list(columns)))
    for name, values in chosen.items():
        if not seen[name].issuperset(values):
            valid = _operators(seen[name]) if name == "operator" else _splits(place(run, "run"), seen[name])
            for value in values:
                word(name, value, valid)
    return pa.concat_tables(parts).to_pandas()


def _operators(seen: Iterable[str]) -> list[str]:
    from ...augment.operators import OPERATORS
    from ...augment.recovery.recover import FAMILIES_OF

    return list(dict.fromkeys([*OPERATORS, *FAMILIES_OF, *sorted(seen)]))


def _splits(run: Path, seen: Iterable[str]) -> list[str]:
    """The names of the splits that a table or the run's captions have."""
    from ..engine.tables import has_table
    from ..tables.columns import UNSPLIT, splits_of

    of_captions = splits_of(run) if has_table(run, "captions") else ()
    return list(dict.fromkeys([*of_captions, *(name or UNSPLIT for name in sorted(seen))]))
