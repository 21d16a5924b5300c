"""The counts of an audit per operator: coverage, negatives, refusals, lengths, positions of edits, words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.negatives import POSITIVE
from ...engine.tables import has_table, no_table, read_table
from ...tables.columns import check_splits, stored_splits
from ..strata import first_draws
from .words import Words, add_words

if TYPE_CHECKING:
    import pyarrow as pa

BINS = 10
COLUMNS = (
    "caption_id",
    "split",
    "operator",
    "family",
    "caption",
    "text",
    "edits",
    "replaced",
    "replacement",
    "replaced_synset",
    "replacement_synset",
)
P_TRUE = "p_true"


@dataclass
class Made:
    """The counts of one operator in one table. All except `rows` and `p_true` count only the first draw per caption.

    captions: number of captions with at least one row; words_caption, words_negative: number of texts by their number
    of words; added: number of texts by how many characters they have more than their caption; positions: number of
    edits by the tenth of the caption they are in (0 to 9); p_true: sum and number of the estimates, if the table has
    them.
    """

    family: str
    captions: int = 0
    rows: int = 0
    words_caption: Counter[int] = field(default_factory=Counter)
    words_negative: Counter[int] = field(default_factory=Counter)
    added: Counter[int] = field(default_factory=Counter)
    positions: Counter[int] = field(default_factory=Counter)
    words: Words = field(default_factory=Words)
    p_true: tuple[float, int] = (0.0, 0)


@dataclass(frozen=True)
class Figures:
    """The counts of a run.

    captions, images: English captions and their images; without: captions without a negative of any operator; made:
    the counts by table (negatives, refined, positives) and operator; refused: number of refused candidates by operator
    and reason.
    """

    captions: int
    images: int
    without: int
    made: Mapping[str, Mapping[str, Made]]
    refused: Mapping[str, Mapping[str, int]]

    @property
    def families(self) -> dict[str, str]:
        """The family of every operator that has rows or refused candidates, in display order: positives last."""
        found = {name: made.family for table in self.made.values() for name, made in table.items()}
        found |= {name: "" for name in self.refused if name not in found}
        return dict(sorted(found.items(), key=lambda item: (item[1] == POSITIVE, _place(item[0]))))

    @property
    def reasons(self) -> list[str]:
        """All reasons of refusals that occur, the most frequent first."""
        counts: Counter[str] = Counter()
        for refused in self.refused.values():
            counts.update(refused)
        return sorted(counts, key=lambda reason: (-counts[reason], reason))


def _place(operator: str) -> tuple[int, str]:
    """A key to sort operators by: in the order of OPERATORS, unknown ones last by name."""
    from ....augment.operators import OPERATORS

    names = list(OPERATORS)
    return (names.index(operator) if operator in names else len(names), operator)


def collect(run: Path, splits: Sequence[str] = ()) -> Figures:
    """Count the tables of a run, shard by shard; splits: only rows of these, all if empty.

    Raises FileNotFoundError if the run lacks captions or negatives, ValueError for a missing column or unknown split,
    DamagedShardError for a shard that is not as recorded.
    """
    captions, images = _captions(run, splits)
    if not has_table(run, "negatives"):
        raise no_table(run, "negatives")
    names = [name for name in ("negatives", "refined", "positives") if has_table(run, name)]
    tables = {name: _made(run, name, splits) for name in names}
    covered = sum(
        _distinct(of_splits(rows, splits), "caption_id")
        for rows in read_table(run, "negatives", ["caption_id", "split"])
    )
    return Figures(captions, images, captions - covered, tables, _refused(run, splits))


def of_splits(rows: pa.Table, splits: Sequence[str]) -> pa.Table:
    """The rows of a table whose `split` is one of these; all rows if `splits` is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows["split"], pa.array(stored_splits(splits), pa.string()))) if splits else rows


def _captions(run: Path, splits: Sequence[str]) -> tuple[int, int]:
    """The number of English captions and of their images. All captions of an image are in one shard."""
    import pyarrow.compute as pc

    captions = images = 0
    seen: set[str] = set()
    for rows in read_table(run, "captions", ["image_id", "split", "language"]):
        seen.update(rows["split"].unique().to_pylist())
        rows = of_splits(rows, splits)
        english = rows.filter(pc.equal(rows["language"], "en"))
        captions += english.num_rows
        images += _distinct(english, "image_id")
    check_splits(splits, seen, run)
    return captions, images


def _distinct(rows: pa.Table, column: str) -> int:
    import pyarrow.compute as pc

    return pc.count_distinct(rows[column]).as_py()


def _made(run: Path, table: str, splits: Sequence[str]) -> dict[str, Made]:
    import pyarrow.compute as pc

    made: dict[str, Made] = {}
    for rows in read_table(run, table, [*COLUMNS, P_TRUE]):
        missing = [name for name in COLUMNS if name not in rows.column_names]
        if missing:
            raise ValueError(f"{run / table} must have the columns {', '.join(COLUMNS)}, lacks: {', '.join(missing)}")
        rows = of_splits(rows, splits)
        for name in sorted(rows["operator"].unique().to_pylist()):
            mine = rows.filter(pc.equal(rows["operator"], name))
            _add(made.setdefault(name, Made(mine["family"][0].as_py())), mine)
    return made


def _add(made: Made, rows: pa.Table) -> None:
    import pyarrow.compute as pc

    made.rows += rows.num_rows
    if P_TRUE in rows.column_names:
        total, number = made.p_true
        made.p_true = (total + (pc.sum(rows[P_TRUE]).as_py() or 0.0), number + pc.count(rows[P_TRUE]).as_py())
    first = rows.filter(first_draws(rows))
    made.captions += first.num_rows
    for counter, column in ((made.words_caption, "caption"), (made.words_negative, "text")):
        words = pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(first[column])))
        counter.update(words.to_pylist())
    long = pc.utf8_length(first["caption"])
    made.added.update(pc.subtract(pc.utf8_length(first["text"]), long).to_pylist())
    edits = first["edits"].combine_chunks()
    parents = pc.list_parent_indices(edits).to_numpy()
    start, end = (pc.struct_field(edits.flatten(), name).to_numpy() for name in ("start", "end"))
    share = (start + end) / 2 / np.maximum(long.to_numpy()[parents], 1)
    made.positions.update(np.minimum((share * BINS).astype(int), BINS - 1).tolist())
    add_words(made.words, first)


def _refused(run: Path, splits: Sequence[str]) -> dict[str, dict[str, int]]:
    refused: dict[str, Counter[str]] = {}
    if not has_table(run, "rejections"):
        return {}
    for rows in read_table(run, "rejections", ["operator", "reason", "split"]):
        rows = of_splits(rows, splits)
        counts = rows.group_by(["operator", "reason"]).aggregate([([], "count_all")])
        for operator, reason, n in zip(*counts.to_pydict().values(), strict=True):
            refused.setdefault(operator, Counter())[reason] += n
    return {
        name: dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))) for name, counts in refused.items()
    }
