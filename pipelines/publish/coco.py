"""COCO captions: `captions_{split}.json` with `images` and `annotations`; each annotation has its `negatives` too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..tables.pairs import MEASURES
from .publication import FLOAT, INTEGER, TEXT, Column, Publication, RecordSet
from .writers import Files, JsonRows

CHANGE = ("operator", "replaced", "replacement")
COLUMNS = (
    Column("id", "number of the caption", INTEGER, "$.annotations[*].id"),
    Column("image_id", "number of its image", INTEGER, "$.annotations[*].image_id"),
    Column("caption", "the true caption", path="$.annotations[*].caption"),
    *(
        Column(name, description, type, "$.annotations[*].negatives", member=member, repeated=True)
        for name, description, member, type in (
            ("negatives", "its negative captions", "caption", TEXT),
            ("operators", "the operator that made each negative", "operator", TEXT),
            ("replaced", "what was replaced in each", "replaced", TEXT),
            ("replacements", "what replaced it in each", "replacement", TEXT),
            (
                "p_true",
                "estimated probability that one more caption of the image makes each true",
                "p_true",
                FLOAT,
            ),
            ("plausibility", "log-odds of each negative to the caption, in nats", "plausibility", FLOAT),
            (
                "context_loss",
                "loss in log probability of the words that each shares with the caption, in nats",
                "context_loss",
                FLOAT,
            ),
            ("concreteness", "concreteness of the noun that was put in", "concreteness", FLOAT),
        )
    ),
)


class CocoRows(JsonRows):
    """A COCO file: annotations are written one by one, then all images, which are collected meanwhile."""

    def __init__(self, file: Path, license: str) -> None:
        """Open the file; every image refers to this one license."""
        self.license = json.dumps(license)
        super().__init__(file)
        self.images: dict[str, dict[str, Any]] = {}

    def start(self) -> str:
        """The text before the first annotation."""
        info = '{"info": {"description": "captions and negative captions"},'
        return f'{info}\n"licenses": [{{"id": 1, "name": {self.license}}}],\n"annotations": ['

    def end(self) -> str:
        """The text after the last annotation: the images."""
        images = ",\n".join(json.dumps(image) for image in self.images.values())
        return f'],\n"images": [\n{images}\n]}}'


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `captions_{split}.json`, one per split; one record set per file.

    An image's number is its image_id if all are distinct integers, else its position in the selection, from 1.
    """
    bare = replace(publication, selection=replace(publication.selection, operators=()))
    names = {example.image_id: example.image_id for example in bare.examples()}
    numeric = all(name.isascii() and name.isdigit() for name in names) and len({int(n) for n in names}) == len(names)
    numbers = {name: int(name) if numeric else i for i, name in enumerate(names, 1)}
    caption = 0
    with Files(folder, lambda file: CocoRows(file, publication.license)) as files:
        for example in publication.examples():
            caption += 1
            file = files[f"captions_{example.split}.json"]
            number = numbers[example.image_id]
            image: dict[str, Any] = {"id": number, "file_name": example.image, "license": 1}
            if publication.images is not None and example.image_id not in file.images:
                box = publication.images.box(example.image)
                image |= {"width": box.width, "height": box.height}
            file.images.setdefault(example.image_id, image)
            negatives = [
                {"caption": n.text, **{name: getattr(n, name) for name in (*CHANGE, *MEASURES)}}
                for n in example.negatives
            ]
            file.add({"id": caption, "image_id": number, "caption": example.text, "negatives": negatives})
    return [RecordSet(name, "true captions with their negatives", COLUMNS) for name in files]
