"""A folder for the Hugging Face hub: `data/{operator}/{split}-00000-of-000NN.parquet`, one row per negative.

The head of the dataset card defines one config per operator, and `default` with all of them: the hub's viewer shows
them as a menu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..tables.examples import MEASURES
from .mteb import write_task
from .parquet import EMBEDDED, SPLIT, ParquetRows, image_value
from .publication import FLOAT, Column, Files, FileSet, Publication, RecordSet

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
    Column(
        "p_true",
        "estimated probability that one more caption of the image would make it true, or null",
        FLOAT,
    ),
    Column("plausibility", "log-odds of the negative to the caption under a language model, in nats, or null", FLOAT),
    Column("context_loss", "loss in log probability of words that negative and caption share, in nats, or null", FLOAT),
    Column("concreteness", "concreteness of the noun that was put in, or null", FLOAT),
)


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


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the Parquet files of every operator and split; one record set per operator."""
    columns = tuple(EMBEDDED if publication.with_images and column is PATH else column for column in COLUMNS)
    with Files(folder, lambda stem: ParquetRows(stem, columns)) as files:
        for example in publication.examples():
            keys = (example.caption_id, example.image_id, image_value(publication, example), example.text)
            for n in example.negatives:
                change = n.family, n.operator, n.replaced, n.replacement, *(getattr(n, name) for name in MEASURES)
                rows = files[f"data/{n.operator}/{split_name(example.split)}"]
                rows.add((n.negative_id, *keys, n.text, *change))
        made = {Path(name).parent.name for name in files}
    if publication.with_images:
        write_task(folder, sorted({Path(name).name for name in files}))
    return [
        RecordSet(
            name, f"negatives by {name} with their captions", (*columns, SPLIT), FileSet(f"data/{name}/*.parquet")
        )
        for name in publication.selection.operators
        if name in made
    ]
