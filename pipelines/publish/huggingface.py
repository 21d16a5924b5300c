"""A folder for the Hugging Face hub: `data/{operator}/{split}-00000-of-000NN.parquet`, one row per negative.

The head of the dataset card defines one config per operator, and `default` with all of them: the hub's viewer shows
them as a menu.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.publish.publication import FLOAT, IMAGE, TEXT, Column, Files, FileSet, Publication, RecordSet

if TYPE_CHECKING:
    import pyarrow as pa

ROWS, GROUP = 100_000, 10_000  # rows per file, rows per row group
ROWS_WITH_IMAGES, GROUP_WITH_IMAGES = 2_000, 100
DEFAULT = "default"
NOT_IN_A_SPLIT = re.compile(r"[^\w.]")
PATH = Column("image", "the image's path, relative to the image folder")
COLUMNS = (
    Column("negative_id", "`<caption_id>#<operator>:<k>`"),
    Column("caption_id", "the caption"),
    Column("image_id", "the image"),
    PATH,
    Column("caption", "the true caption"),
    Column("negative_caption", "the negative caption"),
    Column("family", "family of the operator"),
    Column("operator", "the operator that made the negative"),
    Column("replaced", "what was replaced"),
    Column("replacement", "what replaced it"),
    Column("p_true", "estimated probability that the negative is true of the image after all, or null", FLOAT),
    Column("plausibility", "log-odds of the negative to the caption under a language model, in nats, or null", FLOAT),
    Column("concreteness", "concreteness of the noun that was put in, or null", FLOAT),
)
EMBEDDED = Column("image", "the image", IMAGE, member="bytes")
SPLIT = Column("split", "the split", property="fullpath", regex=r"^.*/([^/]+)-\d+-of-\d+\.parquet$")


def split_name(split: str) -> str:
    """A split's name in the characters that the hub allows (letters, digits, dots, underscores): `val-1` -> `val_1`."""
    return NOT_IN_A_SPLIT.sub("_", split)


def card_fields(splits: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The field `configs` for the head of the dataset card: all operators together, then one config per operator.

    splits: by operator, the splits in which it has negatives.
    """
    together = list(dict.fromkeys(split for some in splits.values() for split in some))
    configs = {DEFAULT: ("*", together)} | {name: (name, some) for name, some in splits.items()}
    return {
        "configs": [
            {
                "config_name": name,
                **({"default": True} if name == DEFAULT else {}),
                "data_files": [
                    {"split": split_name(split), "path": f"data/{folder}/{split_name(split)}-*.parquet"}
                    for split in some
                ],
            }
            for name, (folder, some) in configs.items()
        ]
    }


class ParquetRows:
    """The rows of one operator and split as Parquet files, written one row group at a time.

    A file has at most 100,000 rows, or 2,000 with images.
    """

    def __init__(self, stem: Path, with_images: bool) -> None:
        """Write files `{stem}-00000-of-000NN.parquet`; with_images: the rows contain the image files' bytes."""
        self.stem = stem
        self.schema = schema(with_images)
        self.most, self.group = (ROWS_WITH_IMAGES, GROUP_WITH_IMAGES) if with_images else (ROWS, GROUP)
        self.rows: list[Sequence[Any]] = []
        self.total = 0
        self.files: list[Path] = []
        self.writer: Any = None

    def add(self, row: Sequence[Any]) -> None:
        """Add a row, its values in the order of COLUMNS."""
        self.rows.append(row)
        self.total += 1
        full = self.total % self.most == 0
        if full or len(self.rows) == self.group:
            self._flush()
        if full:
            self._end_file()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.writer is None:
            self.stem.parent.mkdir(parents=True, exist_ok=True)
            self.files.append(self.stem.with_name(f"{self.stem.name}-{len(self.files):05d}"))
            self.writer = pq.ParquetWriter(self.files[-1], self.schema, compression="zstd")
        values = zip(zip(*self.rows, strict=True), self.schema, strict=True)
        columns = [pa.array(column, item.type) for column, item in values]
        self.writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))
        self.rows = []

    def _end_file(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None

    def close(self) -> None:
        """Write the remaining rows, and rename the files now that their number is known."""
        if self.rows:
            self._flush()
        self._end_file()
        for file in self.files:
            file.rename(file.with_name(f"{file.name}-of-{len(self.files):05d}.parquet"))


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the Parquet files of every operator and split; one record set per operator."""
    with Files(folder, lambda stem: ParquetRows(stem, publication.with_images)) as files:
        for example in publication.examples():
            image: Any = example.image
            if publication.with_images and publication.images is not None:
                image = {"bytes": publication.images.read(example.image), "path": example.image}
            keys = (example.caption_id, example.image_id, image, example.text)
            for n in example.negatives:
                change = (n.family, n.operator, n.replaced, n.replacement, n.p_true, n.plausibility, n.concreteness)
                rows = files[f"data/{n.operator}/{split_name(example.split)}"]
                rows.add((n.negative_id, *keys, n.text, *change))
        made = {Path(name).parent.name for name in files}
    columns = tuple(EMBEDDED if publication.with_images and column is PATH else column for column in COLUMNS)
    return [
        RecordSet(
            name, f"negatives by {name} with their captions", (*columns, SPLIT), FileSet(f"data/{name}/*.parquet")
        )
        for name in publication.selection.operators
        if name in made
    ]


def schema(with_images: bool) -> pa.Schema:
    """The Arrow schema of the columns, with the metadata from which `datasets` knows which column holds images."""
    import pyarrow as pa

    image = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    types = {FLOAT: pa.float32(), TEXT: pa.string()}
    fields = [pa.field(column.name, types[column.type]) for column in COLUMNS]
    if with_images:
        fields[COLUMNS.index(PATH)] = pa.field(PATH.name, image)
    features = {
        item.name: {"_type": "Image"} if item.type == image else {"dtype": str(item.type), "_type": "Value"}
        for item in fields
    }
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})
