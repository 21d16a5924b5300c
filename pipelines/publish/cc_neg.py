"""CC-Neg (Singh et al. 2025): one file per split, `torch.load`ed by CoN-CLIP's `CCNegEvalDataset`.

The file is a dict of lists: `image_paths`, and `annotations`, of which `["json"]["caption"]` is the true caption and
`["sop_data"]["negative-prompt"]` the negated one; `num_ops` lists the rows by how many things are denied.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..tables.pairs import DENIED
from .publication import Column, Files, Publication, RecordSet

COLUMNS = (
    Column("image_path", "the image, opened as it is written"),
    Column("caption", "the true caption"),
    Column("negative_prompt", "the negative caption"),
)


class Annotations:
    """The rows of a split, written as JSON lines and, on closing, as the file that CoN-CLIP loads."""

    def __init__(self, file: Path) -> None:
        """Write `file`, a path that ends with `.jsonl`, and the same with `.pt`."""
        self.file = file
        self.rows: list[tuple[str, str, str]] = []
        self.num_ops: dict[int, list[int]] = {}

    def add(self, row: tuple[str, str, str], denied: int) -> None:
        """Add a row in the order of COLUMNS; denied: how many things its negative denies."""
        self.num_ops.setdefault(denied, []).append(len(self.rows))
        self.rows.append(row)

    def close(self) -> None:
        """Write the files."""
        try:
            import torch
        except ImportError as missing:
            raise ImportError("format cc-neg needs PyTorch: pip install negcap[train]") from missing
        names = [column.name for column in COLUMNS]
        lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in self.rows)
        self.file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        annotations: list[dict[str, Any]] = [
            {"json": {"caption": caption}, "sop_data": {"negative-prompt": negative}}
            for _, caption, negative in self.rows
        ]
        data = {"image_paths": [image for image, *_ in self.rows], "annotations": annotations, "num_ops": self.num_ops}
        torch.save(data, self.file.with_suffix(".pt"))


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{split}.pt` and the same rows as `{split}.jsonl`; one record set per split."""
    with Files(folder, Annotations) as files:
        for example in publication.examples():
            for negative in example.negatives:
                row = (publication.prefix + example.image, example.text, negative.text)
                files[f"{example.split}.jsonl"].add(row, negative.replacement.count(DENIED))
    return [RecordSet(name, "an image, its caption and a negated caption", COLUMNS) for name in files]
