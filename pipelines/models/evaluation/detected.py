"""Queries by detected objects: the categories of COCO's instance annotations (UniVSE, Table 3, obj(det))."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import torch

from ..texts import Phrase
from .unified_retrieval import Queries

DETECTED = "detected object"  # the kind of these queries


def detected_queries(instances: Path, images: Sequence[str]) -> Queries:
    """The names of all categories that some image has a box of, in the file's order, as queries.

    Its `true` is (queries, I) bool: True where the image has a box of the category.

    instances: COCO's instances_*.json. images: (I,) the files of the images, of which only the names count. Raises
    ValueError for a file of another kind, or one that has none of the images.
    """
    index = {PurePosixPath(image).name: n for n, image in enumerate(images)}
    try:
        content = json.loads(instances.read_text("utf-8"))
        place = {item["id"]: index[item["file_name"]] for item in content["images"] if item["file_name"] in index}
        categories = {item["id"]: n for n, item in enumerate(content["categories"])}
        names = [str(item["name"]) for item in content["categories"]]
        boxes = [(categories[item["category_id"]], item["image_id"]) for item in content["annotations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{instances} must be COCO's instance annotations, is not: {error}") from None
    if not place:
        raise ValueError(
            f"{instances} must have the images of the split by their file names, has none, e.g. {images[0]}"
        )
    true = torch.zeros(len(names), len(images), dtype=torch.bool)
    for category, image in boxes:
        if image in place:
            true[category, place[image]] = True
    some = true.any(1)
    return Queries([Phrase((name,), name) for name, kept in zip(names, some.tolist(), strict=True) if kept], true[some])
