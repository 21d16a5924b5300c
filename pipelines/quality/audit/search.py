"""The captions of a run with all that was made of them, for the search of the audit's page: scripts beside it, which a
page opened from a disk can read. Each hands over compressed JSON: images as [image_id, captions as [caption_id, text],
rows as [number of the caption, kind, *summary]].
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from ....schemas.captions import LANGUAGE
from ...engine.storage import names, write_atomically
from ...engine.tables import has_table, read_table, shards_of
from ...report.rows import summary
from ...tables.columns import having
from .figures import AuditConfig

FOLDER = "rows"
PER_FILE = 20_000  # rows, at least, of all files but the last
REFINED = "refined"
HELD = ("negatives", "positives", "rejections")


class Searched(NamedTuple):
    """The files, in order, and the number of images in them."""

    files: list[bytes]
    images: int


def searched(run: Path, config: AuditConfig) -> Searched:
    """The files for the search: whole images, random ones if above `config.search` rows; the same for any shards."""
    chosen = _chosen(run, config)
    refined = set[str]()
    for ids in read_table(run, REFINED, ["negative_id"]) if chosen and has_table(run, REFINED) else ():
        refined.update(ids["negative_id"].to_pylist())
    files, held, rows, images = list[bytes](), list[Any](), 0, 0
    for image in chain(_images(run, config.splits, chosen, refined), [None]):
        if held and (image is None or rows >= PER_FILE):
            data = json.dumps(held, ensure_ascii=False, separators=(",", ":")).encode()
            files.append(b'unpack("%b");\n' % base64.b64encode(zlib.compress(data)))
            held, rows = [], 0
        if image is not None:
            held.append(image)
            rows, images = rows + len(image[2]), images + 1
    return Searched(files, images)


def write_files(files: Sequence[bytes], folder: Path) -> None:
    """Write them into a folder, which has no others of this kind afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {f"{number:05}.js": data for number, data in enumerate(files)}
    for name, data in written.items():
        write_atomically(folder / name, data)
    for name in names(folder):
        if re.fullmatch(r"\d{5}\.js", name) and name not in written:
            (folder / name).unlink()


def _chosen(run: Path, config: AuditConfig) -> set[str]:
    """The image_ids of the images to show: all, or random ones that have at most `config.search` rows."""
    counts: dict[str, int] = {}
    for table in ("captions", *HELD):
        for part in read_table(run, table, ["image_id", "split"]) if has_table(run, table) else ():
            for one in part.filter(having({"split": config.splits}))["image_id"].value_counts().to_pylist():
                counts[one["values"]] = counts.get(one["values"], 0) + one["counts"] * (table != "captions")
    left, chosen = config.search, set[str]()
    for image_id in sorted(counts, key=lambda name: blake2b(f"{config.seed}\x1f{name}".encode()).digest()):
        left -= counts[image_id]
        if left < 0:
            break
        chosen.add(image_id)
    return chosen


def _images(run: Path, splits: Sequence[str], chosen: set[str], refined: set[str]) -> Iterator[tuple[Any, ...]]:
    """The chosen images in the order of the captions, each as it stands in a file."""
    shards = {table: {one.path.name: one for one in shards_of(run, table)} for table in HELD if has_table(run, table)}
    for owner in shards_of(run, "captions") if chosen else ():
        images: dict[str, tuple[str, list[list[str]], list[list[Any]]]] = {}
        number: dict[str, int] = {}
        for row in _of(owner.read(["caption_id", "image_id", "split", "language", "text"]), splits, chosen):
            if row["language"] == LANGUAGE:
                captions = images.setdefault(row["image_id"], (row["image_id"], [], []))[1]
                number[row["caption_id"]] = len(captions)
                captions.append([row["caption_id"], row["text"]])
        for table, of_table in shards.items():
            for row in _of(of_table[owner.path.name].read(), splits, chosen) if owner.path.name in of_table else ():
                kind = row.get("reason") or (REFINED if row.get("negative_id") in refined else table)
                images[row["image_id"]][2].append([number[row["caption_id"]], kind, *summary(row)])
        yield from images.values()


def _of(rows: pa.Table, splits: Sequence[str], chosen: set[str]) -> list[dict[str, Any]]:
    return rows.filter(having({"split": splits, "image_id": sorted(chosen)})).to_pylist()
