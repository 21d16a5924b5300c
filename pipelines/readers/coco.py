"""COCO annotation JSON: `{"images": [{id, file_name}], "annotations": [{id, image_id, caption}]}`.

Lin et al. 2014, "Microsoft COCO: Common Objects in Context"; annotations of an image are not adjacent.
The split is taken from the file's name (`captions_train2017.json` -> train). An image is named by the `file_name` that
`images` has for it, or else by its id.
"""

from __future__ import annotations

from collections.abc import Iterator

from .files import name_of, split_in
from .json_stream import json_items, json_text
from .record import ReadOptions, Record, Rejected, reject

EXPECTED = "complete COCO annotation JSON"
GROUPED = False


def files(source: str, options: ReadOptions) -> list[str]:
    """The files that a source in this format consists of: the file itself."""
    return [source]


def records(source: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of a COCO annotation file, one record each, in file order; `line` is the annotation's number, from
    1.

    Raises ValueError, naming the file, for broken JSON.
    """
    name, split = name_of(source), split_in(source)
    file_names = {
        image["id"]: json_text(image["file_name"])
        for image in json_items(source, "images.item", EXPECTED)
        if isinstance(image, dict) and isinstance(image.get("id"), int | str) and image.get("file_name")
    }
    seen = set()
    for number, annotation in enumerate(json_items(source, "annotations.item", EXPECTED), 1):
        if not isinstance(annotation, dict):
            detail = f"an annotation must be an object, was: {annotation!r:.80}"
            yield Rejected(name, number, "not_a_record", detail, "")
            continue
        key, image, text = annotation.get("id"), annotation.get("image_id"), annotation.get("caption")
        if isinstance(image, int | str):
            image = file_names.get(image, image)
        record = Record(name, number, json_text(image), json_text(text), split, options.language)
        if isinstance(key, int | str):
            if key in seen:
                yield reject(record, "duplicate_caption_id", f"annotation id must be unique, was again: {key}")
                continue
            seen.add(key)
        yield record
