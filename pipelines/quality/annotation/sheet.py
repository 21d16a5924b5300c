"""An annotation sheet: caption and negative side by side in random order; and its answer key. As in VALSE (Parcalabescu
et al. 2022), annotators see an image and two texts and say which of them describe it.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from ....augment.settings import AtLeastOne, Operators, Refined, Seed, Settings, Splits
from ...engine.storage import write_atomically
from ...engine.tables import read_table
from ...report.rows import visible
from ...tables.columns import UNSPLIT, check_operators, check_splits, kinds_of
from ...tables.pairs import with_true
from ..strata import Row, sample_strata

LETTERS = "bcdfghjklmnpqrstvwxz"  # no vowels and no digits, so that an id is neither a word nor a number
SHEET = ("item", "image", "text_a", "text_b")
VOTES = ("describes", "fluent")
KEY = ("item", "operator", "family", "split", "caption_id", "id", "caption_is", "caption", "text")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class SheetConfig(Settings):
    """The contents of an annotation sheet."""

    n: AtLeastOne = Field(50, description="pairs per operator")
    seed: Seed = 0
    operators: Operators = ()
    splits: Splits = ()
    refined: Refined = False


class Item(NamedTuple):
    """A row of the key: the random id on the sheet; where the negative, `text`, comes from, and its `id`; the side ("a"
    or "b") of the caption.
    """

    item: str
    operator: str
    family: str
    split: str
    caption_id: str
    id: str
    caption_is: str
    caption: str
    text: str


def write_sheet(
    run: Path, output: Path, config: SheetConfig, key: Path | None = None, *, overwrite: bool = False
) -> tuple[Path, Path, list[Item]]:
    """Write the sheet and its key (None: `SHEET.key.csv` beside it) as CSV; returns their paths and the items. Raises
    FileExistsError if one exists (it may hold votes), unless `overwrite`; FileNotFoundError without negatives;
    ValueError for operators or splits that the run lacks, or a key that is the sheet.
    """
    key = key or output.with_name(f"{output.stem}.key.csv")
    if key.resolve() == output.resolve():
        raise ValueError(f"key must be another file than the sheet, was: {key}")
    for file in (output, key):
        if file.exists() and not overwrite:
            raise FileExistsError(f"{file} is there already and may hold votes (--overwrite replaces it)")
    found = items(run, config)
    wanted, images = {item.caption_id for item in found}, dict[str, str]()
    for rows in read_table(run, "captions", ("caption_id", "image")):
        named = zip(rows["caption_id"].to_pylist(), rows["image"].to_pylist(), strict=True)
        images |= {caption_id: image for caption_id, image in named if caption_id in wanted}
    lines = [[*SHEET, *VOTES]]
    for item in found:
        texts = (item.caption, item.text) if item.caption_is == "a" else (item.text, item.caption)
        lines.append([item.item, images[item.caption_id], *texts, *("" for _ in VOTES)])
    write_atomically(output, _csv(lines))
    write_atomically(key, _csv([list(KEY), *(list(item) for item in found)]))
    return output, key, found


def items(run: Path, config: SheetConfig) -> list[Item]:
    """The items of a sheet, in random order that depends only on the run and the seed."""
    table = "refined" if config.refined else "negatives"
    kinds = kinds_of(run, table)
    check_splits(config.splits, (kind.split for kind in kinds), run / table)
    made = {kind.operator for kind in kinds if not config.splits or (kind.split or UNSPLIT) in config.splits}
    check_operators(config.operators, made, run / table)
    only = {"operator": config.operators, "split": config.splits}
    drawn = sample_strata(run, table, ["operator"], config.n, config.seed, True, only)
    if not drawn:
        raise ValueError(f"{run / table} has no negatives of these operators and splits")
    rows = with_true(run, [row for rows in drawn.values() for row in rows])
    return sorted(_item(row, config.seed) for row in rows)


def summary(found: Sequence[Item]) -> str:
    """The size of a sheet in words: `450 pairs (50 noun, …)`."""
    counts = Counter(item.operator for item in found)
    return f"{len(found):,} pairs ({', '.join(f'{n:,} {name}' for name, n in sorted(counts.items()))})"


def _item(row: Row, seed: int) -> Item:
    """An item of the sheet: its name of eight letters and the side of the caption depend on the seed and the id."""
    id = row["negative_id"]
    number = int.from_bytes(blake2b(f"{seed}\x1f{id}".encode(), digest_size=8).digest(), "little")
    letters = []
    number, side = divmod(number, 2)
    for _ in range(8):
        number, letter = divmod(number, len(LETTERS))
        letters.append(LETTERS[letter])
    of = {name: row[name] for name in ("operator", "family", "split", "caption_id", "caption", "text")}
    return Item(item="".join(letters), id=id, caption_is="ab"[side], **of)


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    """CSV for spreadsheets: UTF-8 with a byte order mark, and no cell that they would read as a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(
        ["'" * value.startswith(FORMULA) + visible(value) for value in line] for line in lines
    )
    return text.getvalue().encode("utf-8-sig")
