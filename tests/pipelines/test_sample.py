"""The embedded sample: its form, its manner, and that none of it is anybody else's caption."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from negcap.pipelines import sample
from tests.pipelines.stages.test_ingest import run_ingest
from tests.tables import rows_of

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


def test_it_is_a_coco_file_with_a_licence_and_five_captions_of_each_photo(corpus: dict[str, Any]) -> None:
    assert "CC0" in corpus["info"]["license"]
    assert [licence["name"] for licence in corpus["licenses"]] == ["CC0 1.0 Universal"]
    files = {image["id"]: image["file_name"] for image in corpus["images"]}
    assert files == {number: f"sample_{number:04d}.jpg" for number in range(1, PHOTOS + 1)}
    annotations = corpus["annotations"]
    assert [annotation["id"] for annotation in annotations] == list(range(1, len(annotations) + 1))
    assert Counter(annotation["image_id"] for annotation in annotations) == dict.fromkeys(files, CAPTIONS_PER_PHOTO)


def test_clean_text_of_the_length_of_annotators(captions: list[str]) -> None:
    faults = r" [.,;:!?]|[.,;:!?]{2}|\b(\w+) \1\b|\ba (?!one\b|uni)[aeiou]|\ban (?![aeiou])|^[^a-z0-9]|\s$|\s\s"
    assert [one for one in captions if re.search(faults, one.lower())] == []
    assert not [one for one in captions if one[0].islower() or one.count('"') % 2]
    assert all(caption.isascii() and caption.isprintable() for caption in captions)
    assert max(Counter(" ".join(words(caption)) for caption in captions).values()) == 1
    lengths = [len(caption.split()) for caption in captions]
    assert 10 <= sum(lengths) / len(lengths) <= 13 and min(lengths) >= 6 and max(lengths) <= 20
    assert 0.75 * len(captions) <= sum(caption.endswith(".") for caption in captions) < 0.95 * len(captions)


@pytest.mark.data
@pytest.mark.parametrize("source", ["coco/captions_val2017.json.gz", "flickr8k", "multi30k"])
def test_no_caption_is_a_published_one(source, captions, real_data, tmp_path):
    run_ingest(real_data / source, tmp_path / "run")
    published = {" ".join(words(row["text"])) for row in rows_of(tmp_path / "run", "captions")}
    assert len(published) > 10_000, "too few captions to compare with"
    assert not published.intersection(" ".join(words(caption)) for caption in captions)
