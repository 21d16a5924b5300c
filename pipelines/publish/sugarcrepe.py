"""SugarCrepe: one JSON file per operator, `{"0": {"filename", "caption", "negative_caption"}}`.

Hsieh et al. 2023; https://github.com/RAIVNLab/sugar-crepe and CLIP_benchmark read it, and expect keys that count from
"0".
"""

from __future__ import annotations

from pathlib import Path

from ..tables.examples import Negative
from .publication import Column, Files, JsonRows, Publication, RecordSet

PARTS = {  # of negcap's operators in SugarCrepe; those that only add to the caption are in `add_…` instead
    "noun": "replace_obj",
    "object": "replace_obj",
    "attribute": "replace_att",
    "relation": "replace_rel",
    "verb": "replace_rel",
    "preposition": "replace_rel",
    "shuffle": "swap_obj",
    "swap_attribute": "swap_att",
}
COLUMNS = (
    Column("filename", "the image, relative to the image folder", path="$.*.filename"),
    Column("caption", "the true caption", path="$.*.caption"),
    Column("negative_caption", "the negative caption", path="$.*.negative_caption"),
)


def part_of(negative: Negative, names: str) -> str:
    """The name of the file for a negative: its operator or, if `names` is "sugarcrepe", a part of SugarCrepe.

    Operators of which SugarCrepe has none keep their names: its readers do not ask for these files.
    """
    if names != "sugarcrepe":
        return negative.operator
    part = PARTS.get(negative.operator, negative.operator)
    return part if negative.replaced else part.replace("replace_obj", "add_obj").replace("replace_att", "add_att")


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{operator}.json`, in one folder per split if there are several; one record set per file."""
    with Files(folder, lambda file: JsonRows(file, "{}")) as files:
        for example in publication.examples():
            for negative in example.negatives:
                files[f"{publication.place(example.split)}{part_of(negative, publication.names)}.json"].add(
                    {"filename": example.image, "caption": example.text, "negative_caption": negative.text}
                )
    return [RecordSet(name, "pairs of a true caption and its negative", COLUMNS) for name in files]
