"""ARO: one JSON file per operator, a list of rows with `image_path`, a box, `true_caption` and `false_caption`.

Yuksekgonul et al. 2023; VG_Relation and VG_Attribution of https://github.com/mertyg/vision-language-models-are-bows
crop the image to the box, and group their rows by `relation_name` or by the two `attributes`.
"""

from __future__ import annotations

from pathlib import Path

from .publication import INTEGER, Column, Files, JsonRows, Publication, RecordSet

COLUMNS = (
    Column("image_path", "the image, relative to the image folder", path="$[*].image_path"),
    Column("bbox_x", "left edge of the box in pixels", INTEGER, "$[*].bbox_x"),
    Column("bbox_y", "upper edge of the box in pixels", INTEGER, "$[*].bbox_y"),
    Column("bbox_w", "width of the box in pixels", INTEGER, "$[*].bbox_w"),
    Column("bbox_h", "height of the box in pixels", INTEGER, "$[*].bbox_h"),
    Column("true_caption", "the true caption", path="$[*].true_caption"),
    Column("false_caption", "the negative caption", path="$[*].false_caption"),
    Column("relation_name", "what was replaced", path="$[*].relation_name"),
)


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{operator}.json`, in one folder per split if there are several; one record set per file."""
    with Files(folder, JsonRows) as files:
        for example in publication.examples():
            box = publication.box(example)
            for negative in example.negatives:
                files[f"{publication.place(example.split)}{negative.operator}.json"].add(
                    {
                        "image_path": example.image,
                        "bbox_x": box.x,
                        "bbox_y": box.y,
                        "bbox_w": box.width,
                        "bbox_h": box.height,
                        "true_caption": example.text,
                        "false_caption": negative.text,
                        "relation_name": negative.replaced,
                        "attributes": [negative.replaced, negative.replacement],
                    }
                )
    return [RecordSet(name, "a region of an image, its true caption and a negative", COLUMNS) for name in files]
