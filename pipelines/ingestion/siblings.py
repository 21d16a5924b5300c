"""Bring the captions of each image together, and refuse what an image cannot have twice, or too much of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..readers.record import MAX_CAPTIONS, excerpt
from .duplicates import REASONS
from .rows import rejections

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

DIFFERENCES = dict(zip(REASONS, ("case and punctuation", "a few letters"), strict=True))
DROPPED = ("hash", "source", "line")


class Grouped(NamedTuple):
    """Rows of whole images.

    kept: the rows that become captions, by `home`, the position of the first row of their image; each image's rows in
    order, with their caption numbers. rejected: the others, as rows of `rejected_schema`.
    """

    kept: pa.Table
    rejected: pa.Table


def group(rows: pa.Table, refused: Mapping[int, str] | None = None) -> Grouped:
    """Group rows (see `rows_schema`) by image. All rows of an image must be among them, in order of position.

    refused: the reasons for which rows are not kept, by position: those of `duplicates`.

    Refused are: another image with the same image_id (`ambiguous_image`), a second caption with the same number
    (`duplicate_caption_id`), captions beyond MAX_CAPTIONS (`too_many_captions`). Captions without a number get the
    next one of their image.
    """
    import numpy as np
    import pyarrow as pa

    code, image = _codes(rows["image_id"]), _codes(rows["image"])
    position, number = rows["position"].to_numpy(), rows["number"].to_numpy(zero_copy_only=False).astype(float)
    repeated = (
        np.isin(position, np.fromiter(refused, np.uint64, len(refused))) if refused else np.zeros(len(code), bool)
    )
    bad = [_repetition(row, refused or {}) for row in rows.take(pa.array(np.flatnonzero(repeated))).to_pylist()]
    order = np.flatnonzero(~repeated)
    order = order[np.argsort(code[order], kind="stable")]
    code, image, position, number = code[order], image[order], position[order], number[order]
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]]) if len(code) else code
    of = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(code)]))
    ambiguous = image != image[starts][of]
    numbered = ~np.isnan(number)
    candidate = ~ambiguous & (~numbered | _first_of(of, number, numbered & ~ambiguous))
    before = np.cumsum(candidate) - candidate
    before -= before[starts][of]
    full = ~ambiguous & (before >= MAX_CAPTIONS)
    home = position[starts][of]
    for reason, mask in (
        ("ambiguous_image", ambiguous),
        ("too_many_captions", full),
        ("duplicate_caption_id", ~(ambiguous | full | candidate)),
    ):
        bad += _rejected(rows, order, starts[of], np.flatnonzero(mask), reason)
    kept = np.flatnonzero(candidate & ~full)
    kept = kept[np.argsort(home[kept], kind="stable")]
    final = np.where(numbered, np.nan_to_num(number), before).astype(np.int64)[kept]
    table = rows.drop_columns([*DROPPED, "number"]).take(pa.array(order[kept]))  # the only copy of the rows
    table = table.append_column("home", pa.array(home[kept])).append_column("number", pa.array(final))
    return Grouped(table.select(kept_schema(rows.schema).names).combine_chunks(), rejections(bad))


def kept_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the rows that become captions (`Grouped.kept`), given that of all rows read."""
    import pyarrow as pa

    return pa.schema([pa.field("home", pa.uint64()), *(of for of in schema if of.name not in DROPPED)])


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    """A number for each value of a column of strings, equal for equal values."""
    return column.combine_chunks().dictionary_encode().indices.to_numpy()


def _first_of(of: np.ndarray, number: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Whether each row, of those `asked` for, is the first of its image with its number."""
    import numpy as np

    first = np.zeros(len(of), dtype=bool)
    rows = np.flatnonzero(asked)
    if len(rows):
        given = number[rows].astype(np.int64)
        first[rows[np.unique(of[rows] * (int(given.max()) + 1) + given, return_index=True)[1]]] = True
    return first


def _rejected(rows: pa.Table, order: np.ndarray, first: np.ndarray, at: np.ndarray, reason: str) -> list[tuple]:
    """The rows `order[at]` as (position, *Rejected); first: for each row in order, the first row of its image."""
    import pyarrow as pa

    firsts = rows["image"].take(pa.array(order[first[at]])).to_pylist()
    found = []
    for row, image in zip(rows.take(pa.array(order[at])).to_pylist(), firsts, strict=True):
        if reason == "ambiguous_image":
            detail = f"image_id {row['image_id']} must be of one image, {image}, was: {row['image']}"
        elif reason == "too_many_captions":
            detail = f"an image must have <= {MAX_CAPTIONS:,} captions, has more: {row['image']}"
        else:
            detail = f"caption number must be unique in its image, was again: {row['image']}#{row['number']}"
        found.append((row["position"], row["source"], row["line"], reason, detail, excerpt(row["text"])))
    return found


def _repetition(row: dict[str, Any], refused: Mapping[int, str]) -> tuple:
    reason = refused[row["position"]]
    detail = f"caption must differ from every earlier one in more than {DIFFERENCES[reason]}"
    return row["position"], row["source"], row["line"], reason, detail, excerpt(row["text"])
