"""A folder for the Hugging Face hub: `data/{split}-00000-of-000NN.parquet`, a row a negative, with a dataset card."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.publish.publication import FLOAT, Column, Publication, RecordSet

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 100_000
ROWS_WITH_IMAGES = 2_000
NOT_IN_A_SPLIT = re.compile(r"[^\w.]")
COLUMNS = (
    Column("negative_id", "`<caption_id>#<operator>:<k>`"),
    Column("caption_id", "the caption"),
    Column("image_id", "the image"),
    Column("image", "the image's path, relative to the image folder, or the image itself"),
    Column("caption", "the true caption"),
    Column("negative_caption", "the negative caption"),
    Column("family", "family of the operator"),
    Column("operator", "what made the negative"),
    Column("replaced", "what was replaced"),
    Column("replacement", "what replaced it"),
    Column("p_true", "how likely the negative is true of the image after all, as the corpus goes; or null", FLOAT),
)


def split_name(split: str) -> str:
    """A split's name as the hub takes it: letters, digits, dots and underscores."""
    return NOT_IN_A_SPLIT.sub("_", split)


def front(splits: Sequence[str]) -> dict[str, Any]:
    """The configs in the head of the dataset card."""
    files = [{"split": split_name(name), "path": f"data/{split_name(name)}-*.parquet"} for name in splits]
    return {"configs": [{"config_name": "default", "data_files": files}]}


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the Parquet files of every split."""
    splits: dict[str, list[Path]] = {}
    rows: dict[str, list[tuple[Any, ...]]] = {}
    most = ROWS_WITH_IMAGES if publication.with_images else ROWS
    (folder / "data").mkdir()

    def flush(split: str) -> None:
        files = splits.setdefault(split, [])
        files.append(folder / "data" / f"{split}-{len(files):05d}.tmp")
        _write(rows.pop(split), publication, files[-1])

    for example in publication.examples():
        split = split_name(example.split)
        image: Any = example.image
        if publication.with_images and publication.images is not None:
            image = {"bytes": publication.images.read(example.image), "path": example.image}
        keys = (example.caption_id, example.image_id, image, example.text)
        for negative in example.negatives:
            change = (
                negative.family,
                negative.operator,
                negative.replaced,
                negative.replacement,
                negative.p_true,
            )
            rows.setdefault(split, []).append((negative.negative_id, *keys, negative.text, *change))
            if len(rows[split]) == most:
                flush(split)
    for split in list(rows):
        flush(split)
    names = []
    for split, files in splits.items():
        for i, file in enumerate(files):
            names.append(f"data/{split}-{i:05d}-of-{len(files):05d}.parquet")
            file.rename(folder / names[-1])
    columns = tuple(column for column in COLUMNS if column.name != "image" or not publication.with_images)
    return [RecordSet(name, "negatives with their captions", columns) for name in names]


def schema(with_images: bool) -> pa.Schema:
    """The columns, and what `datasets` needs to know to show images."""
    import pyarrow as pa

    image = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    types = {"p_true": pa.float32(), **({"image": image} if with_images else {})}
    fields = [pa.field(column.name, types.get(column.name, pa.string())) for column in COLUMNS]
    features = {
        item.name: {"_type": "Image"} if item.type == image else {"dtype": str(item.type), "_type": "Value"}
        for item in fields
    }
    return pa.schema(fields, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _write(rows: Sequence[tuple[Any, ...]], publication: Publication, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    described = schema(publication.with_images)
    columns = [pa.array(values, item.type) for values, item in zip(zip(*rows, strict=True), described, strict=True)]
    pq.write_table(pa.Table.from_arrays(columns, schema=described), file, compression="zstd")
