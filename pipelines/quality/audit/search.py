"""The captions of a run with all that was made of them, for the search of the audit's page.

They lie beside the page as scripts, since a page that is opened from a disk can read no other file. Each hands over
compressed JSON: images as [image_id, captions as [caption_id, text], rows as [number of the caption, kind, *summary]].
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....schemas.captions import LANGUAGE
from ...engine.storage import names, remove, write_atomically
from ...engine.tables import has_table, shards_of
from ...report.rows import summary
from ...tables.columns import columns_of, read_columns
from .figures import AuditConfig, of_splits

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "rows"
PER_FILE = 20_000  # rows, at least, of all files but the last
REFINED = "refined"
HELD = ("negatives", "positives", "rejections")


class Searched(NamedTuple):
    """The numbers of files, and of images in them."""

    files: int
    images: int


def write_rows(run: Path, folder: Path, config: AuditConfig) -> Searched:
    """Write the files into a folder, which has no others of this kind afterwards.

    All captions of an image are in one file, with their rows; if the run has more than `config.search` rows, as many
    random images are there as have no more. The bytes do not depend on how the run is sharded.
    """
    chosen = _chosen(run, config)
    refined = set[str]()
    for ids in columns_of(run, REFINED, ["negative_id"]) if chosen and has_table(run, REFINED) else ():
        refined.update(ids["negative_id"].to_pylist())
    files, images, held, rows = 0, 0, list[Any](), 0
    folder.mkdir(parents=True, exist_ok=True)

    def write() -> None:
        nonlocal files, images, held, rows
        data = json.dumps(held, ensure_ascii=False, separators=(",", ":")).encode()
        packed = base64.b64encode(zlib.compress(data)).decode()
        write_atomically(folder / f"{files:05}.js", f'unpack("{packed}");\n'.encode())
        files, images, held, rows = files + 1, images + len(held), [], 0

    for image in _images(run, config.splits, chosen, refined):
        held.append(image)
        rows += len(image[2])
        if rows >= PER_FILE:
            write()
    if held:
        write()
    for name in names(folder):
        if name.endswith(".js") and name[:-3].isdecimal() and int(name[:-3]) >= files:
            remove(folder / name)
    return Searched(files, images)


def _chosen(run: Path, config: AuditConfig) -> set[str]:
    """The image_ids of the images to show: all, or random ones that have at most `config.search` rows."""
    counts: dict[str, int] = {}
    for table in ("captions", *HELD):
        for part in columns_of(run, table, ["image_id", "split"]) if has_table(run, table) else ():
            for one in of_splits(part, config.splits)["image_id"].value_counts().to_pylist():
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
        for row in _of(read_columns(owner, ["caption_id", "image_id", "split", "language", "text"]), splits, chosen):
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
    import pyarrow as pa
    import pyarrow.compute as pc

    return of_splits(rows, splits).filter(pc.field("image_id").isin(pa.array(sorted(chosen), pa.string()))).to_pylist()
