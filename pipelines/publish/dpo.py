"""Preferences for vision-language models, as TRL's DPOTrainer reads them: image, prompt, chosen, rejected.

The caption is preferred to its negative as the description of the image. The last three columns are conversations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...augment.rng import record_rng
from .huggingface import split_name
from .parquet import EMBEDDED, ParquetRows
from .publication import MESSAGES, Column, Files, FileSet, Publication, RecordSet

PROMPTS = ("Describe the image in one sentence.", "What does the image show?", "Write a caption for this image.")
COLUMNS = (
    EMBEDDED,
    Column("prompt", "the image and a request to describe it, a message of the user", MESSAGES),
    Column("chosen", "the true caption, a message of the assistant", MESSAGES),
    Column("rejected", "a negative of it, a message of the assistant", MESSAGES),
)


def card_fields(splits: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The field `configs` of the dataset card."""
    names = dict.fromkeys(split_name(split) for some in splits.values() for split in some)
    files = [{"split": name, "path": f"data/{name}-*.parquet"} for name in names]
    return {"configs": [{"config_name": "default", "data_files": files}]}


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `data/{split}-00000-of-000NN.parquet`, one row per negative, with the images; one record set."""
    assert publication.images is not None
    seed = publication.selection.draws.seed
    with Files(folder, lambda stem: ParquetRows(stem, COLUMNS)) as files:
        for example in publication.examples():
            image = {"bytes": publication.images.read(example.image), "path": example.image}
            for negative in example.negatives:
                asked = record_rng(seed, "prompt", negative.negative_id).choice(PROMPTS)
                parts = [{"type": "image", "text": None}, {"type": "text", "text": asked}]
                row = (image, [{"role": "user", "content": parts}], _said(example.text), _said(negative.text))
                files[f"data/{split_name(example.split)}"].add(row)
    # Croissant has no type for conversations: the record set describes the images only
    return [RecordSet("preferences", "images of the preferences", COLUMNS[:1], FileSet("data/*.parquet"))]


def _said(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]
