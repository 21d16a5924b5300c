"""Karpathy's `dataset_*.json`: `{"images": [{filepath, filename, split, sentences: [{raw}]}]}`.

Karpathy and Fei-Fei 2015, "Deep Visual-Semantic Alignments": the splits of Flickr8k, Flickr30k and COCO in
common use (train, val, test, restval).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .files import name_of
from .json_stream import json_items, json_text
from .record import ReadOptions, Record, Rejected

EXPECTED = "complete Karpathy dataset JSON"
GROUPED = True


def files(source: str, options: ReadOptions) -> list[str]:
    """The files that a source in this format consists of: the file itself."""
    return [source]


def records(source: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of a `dataset_*.json`, one record each, in file order; `line` is the number of the caption in the
    whole file, from 1.

    Raises ValueError, naming the file, when the JSON is broken or cut short.
    """
    name, count = name_of(source), 0
    for image in json_items(source, "images.item", EXPECTED):
        sentences = image.get("sentences") if isinstance(image, dict) else None
        if not isinstance(sentences, list) or not sentences:
            count += 1
            detail = f"an image must be an object with a list of sentences, was: {image!r:.80}"
            yield Rejected(name, count, "not_a_record", detail, "")
            continue
        path, split = _path(image), json_text(image.get("split"))
        for number, sentence in enumerate(sentences):
            count += 1
            text = sentence.get("raw") if isinstance(sentence, dict) else None
            yield Record(name, count, path, json_text(text), split, options.language, number)


def _path(image: dict[str, Any]) -> Any:
    """The folder, where there is one, and the file name: `val2014/COCO_val2014_000000391895.jpg`."""
    folder, name = json_text(image.get("filepath")), json_text(image.get("filename"))
    return f"{folder}/{name}" if folder and name and isinstance(name, str) else name
