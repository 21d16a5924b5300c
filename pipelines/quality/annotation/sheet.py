"""An annotation sheet: caption and negative side by side in random order, mixed with controls; and its answer key. As
in VALSE (Parcalabescu et al. 2022), annotators see an image and two texts and say which of them describe it.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from ....augment.reproducible import record_rng
from ....augment.settings import AtLeastOne, Operators, Refined, Seed, Settings, Splits
from ...engine.storage import write_atomically
from ...engine.tables import read_table
from ...report.rows import visible
from ...tables.columns import UNSPLIT, check_operators, check_splits, kinds_of
from ...tables.pairs import with_true
from ..strata import Row, sample_strata

LETTERS = "bcdfghjklmnpqrstvwxz"  # no vowels and no digits, so that an id is neither a word nor a number
NEGATIVE, PARAPHRASE, SIBLING = "negative", "paraphrase", "sibling"
SHEET = ("item", "image", "text_a", "text_b")
VOTES = ("describes", "fluent")
KEY = ("item", "kind", "operator", "family", "split", "caption_id", "id", "caption_is", "caption", "text")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class SheetConfig(Settings):
    """The contents of an annotation sheet."""

    n: AtLeastOne = Field(50, description="pairs per operator, and as many controls")
    seed: Seed = 0
    operators: Operators = ()
    splits: Splits = ()
    refined: Refined = False
    votes: AtLeastOne = Field(1, description="annotators who share one sheet, each with columns of their own")


class Item(NamedTuple):
    """A row of the key: the random id on the sheet; the kind, "negative" or of controls "paraphrase" or "sibling";
    where it comes from; the side ("a" or "b") of the caption; text: the negative, or the second true text of a control.
    """

    item: str
    kind: str
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
    votes = [name if config.votes == 1 else f"{name}_{n + 1}" for n in range(config.votes) for name in VOTES]
    lines = [[*SHEET, *votes]]
    for item in found:
        texts = (item.caption, item.text) if item.caption_is == "a" else (item.text, item.caption)
        lines.append([item.item, images[item.caption_id], *texts, *("" for _ in votes)])
    write_atomically(output, _csv(lines))
    write_atomically(key, _csv([list(KEY), *(list(item) for item in found)]))
    return output, key, found


def items(run: Path, config: SheetConfig) -> list[Item]:
    """The items of a sheet, negatives and controls, in random order that depends only on the run and the seed."""
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
    found = [_item(row, row["negative_id"], NEGATIVE, config.seed) for row in rows]
    return sorted([*found, *_controls(run, config)])


def summary(found: Sequence[Item]) -> str:
    """The size of a sheet in words: `450 pairs (50 noun, …) and 50 controls`."""
    counts = Counter(item.operator for item in found if item.kind == NEGATIVE)
    operators = ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items()))
    return f"{counts.total():,} pairs ({operators}) and {len(found) - counts.total():,} controls"


def _controls(run: Path, config: SheetConfig) -> Iterator[Item]:
    """Pairs of two true texts: paraphrases of captions, and if there are too few, two captions of the same image."""
    paraphrases = {"split": config.splits, "operator": (PARAPHRASE,)}
    made = sample_strata(run, "positives", ["family"], config.n, config.seed, True, paraphrases)
    positives = [row for rows in made.values() for row in rows][: config.n]
    for row in positives:
        yield _item(row, row["positive_id"], PARAPHRASE, config.seed)
    missing = config.n - len(positives)
    if missing:
        english = {"split": config.splits, "language": ("en",)}
        drawn = sample_strata(run, "captions", ["language"], missing, config.seed, only=english)
        rows = [row for some in drawn.values() for row in some]
        siblings: dict[str, set[str]] = {row["image_id"]: set() for row in rows}
        for part in read_table(run, "captions", ("image_id", "language", "text")):
            for image, language, text in zip(*part.to_pydict().values(), strict=True):
                if image in siblings and language == "en":
                    siblings[image].add(text)
        for row in rows:
            others = sorted(text for text in siblings[row["image_id"]] if text != row["text"])
            if others:
                other = record_rng(config.seed, SIBLING, row["caption_id"]).choice(others)
                pair = {**row, "caption": row["text"], "text": other, "operator": "", "family": ""}
                yield _item(pair, row["caption_id"], SIBLING, config.seed)


def _item(row: Row, id: str, kind: str, seed: int) -> Item:
    """An item of the sheet: its name of eight letters and the side of the caption depend on seed, kind and id alone."""
    number = int.from_bytes(blake2b(f"{seed}\x1f{kind}\x1f{id}".encode(), digest_size=8).digest(), "little")
    letters = []
    number, side = divmod(number, 2)
    for _ in range(8):
        number, letter = divmod(number, len(LETTERS))
        letters.append(LETTERS[letter])
    of = {name: row[name] for name in ("operator", "family", "split", "caption_id", "caption", "text")}
    return Item(item="".join(letters), kind=kind, id=id, caption_is="ab"[side], **of)


def _csv(lines: Sequence[Sequence[str]]) -> bytes:
    """CSV for spreadsheets: UTF-8 with a byte order mark, and no cell that they would read as a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(
        ["'" * value.startswith(FORMULA) + visible(value) for value in line] for line in lines
    )
    return text.getvalue().encode("utf-8-sig")
