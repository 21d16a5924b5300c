"""The embedded sample: its form, its manner, and that none of it is anybody else's caption."""

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines import sample

PHOTOS = 110
CAPTIONS_PER_PHOTO = 5


def words(text: str) -> list[str]:
    """Lower-cased words without punctuation: two captions with equal lists are the same caption."""
    return re.findall(r"[^\W_]+", text.lower())


@pytest.fixture(scope="module")
def corpus() -> dict[str, Any]:
    return json.loads(sample.path().read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def captions(corpus: dict[str, Any]) -> list[str]:
    return [annotation["caption"] for annotation in corpus["annotations"]]


def test_coco_sections_and_licence(corpus: dict[str, Any]) -> None:
    assert set(corpus) == {"info", "licenses", "images", "annotations"}
    assert sample.path().parent == Path(sample.__file__).parent and "CC0" in corpus["info"]["license"]
    assert [licence["name"] for licence in corpus["licenses"]] == ["CC0 1.0 Universal"]
    images = corpus["images"]
    assert {image["license"] for image in images} == {corpus["licenses"][0]["id"]}
    named = [(image["id"], image["file_name"]) for image in images]
    assert named == [(n, f"sample_{n:04d}.jpg") for n in range(1, PHOTOS + 1)]
    assert {(image["width"], image["height"]) for image in images} == {(640, 480), (480, 640)}


def test_annotations(corpus: dict[str, Any]) -> None:
    annotations = corpus["annotations"]
    assert all(set(annotation) == {"id", "image_id", "caption"} for annotation in annotations)
    assert [annotation["id"] for annotation in annotations] == list(range(1, PHOTOS * CAPTIONS_PER_PHOTO + 1))
    counts = Counter(annotation["image_id"] for annotation in annotations)
    assert counts == {image["id"]: CAPTIONS_PER_PHOTO for image in corpus["images"]}


def test_clean_text_of_the_length_of_annotators(captions: list[str]) -> None:
    faults = r" [.,;:!?]|[.,;:!?]{2}|\b(\w+) \1\b|\ba (?!one\b|uni)[aeiou]|\ban (?![aeiou])|^[^a-z0-9]|\s$|\s\s"
    assert [one for one in captions if re.search(faults, one.lower())] == []
    assert not [one for one in captions if one[0].islower() or one.count('"') % 2]
    assert all(caption.isascii() and caption.isprintable() for caption in captions)
    assert max(Counter(" ".join(words(caption)) for caption in captions).values()) == 1
    lengths = [len(caption.split()) for caption in captions]
    assert 10 <= sum(lengths) / len(lengths) <= 13 and min(lengths) >= 6 and max(lengths) <= 20
    assert 0.75 * len(captions) <= sum(caption.endswith(".") for caption in captions) < 0.95 * len(captions)


def published_captions(folder: Path) -> Iterator[str]:
    """Every English caption of the published corpora below `folder`."""
    for file in sorted(folder.glob("coco/*.json.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            yield from (annotation["caption"] for annotation in json.load(stream)["annotations"])
    for file in sorted(folder.glob("flickr8k/*_caps.txt")):
        yield from file.read_text(encoding="utf-8").splitlines()
    for file in sorted(folder.glob("multi30k/*.en.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            yield from stream
    for file in sorted(folder.glob("factual/*.csv.gz")):
        with gzip.open(file, "rt", encoding="utf-8", newline="") as stream:
            yield from (row["caption"] for row in csv.DictReader(stream))


@pytest.mark.data
def test_no_caption_is_a_published_one(captions: list[str], real_data: Path) -> None:
    ours = {" ".join(words(caption)) for caption in captions}
    theirs = {" ".join(words(caption)) for caption in published_captions(real_data)}
    assert len(theirs) > 10_000, "too few captions to compare with"
    assert sorted(ours & theirs) == []
