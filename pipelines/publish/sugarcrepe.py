"""SugarCrepe: one JSON file per operator, `{"0": {"filename", "caption", "negative_caption"}}`.

Hsieh et al. 2023; https://github.com/RAIVNLab/sugar-crepe and CLIP_benchmark read it, and expect keys that count from
"0".
"""

from __future__ import annotations

from pathlib import Path

from negcap.pipelines.publish.publication import Column, Files, JsonRows, Publication, RecordSet

COLUMNS = (
    Column("filename", "the image, relative to the image folder", path="$.*.filename"),
    Column("caption", "the true caption", path="$.*.caption"),
    Column("negative_caption", "the negative caption", path="$.*.negative_caption"),
)


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{operator}.json`, in one folder per split if there are several; one record set per file."""
    with Files(folder, lambda file: JsonRows(file, "{}")) as files:
        for example in publication.examples():
            for negative in example.negatives:
                files[f"{publication.place(example.split)}{negative.operator}.json"].add(
                    {"filename": example.image, "caption": example.text, "negative_caption": negative.text}
                )
    return [RecordSet(name, "pairs of a true caption and its negative", COLUMNS) for name in files]
