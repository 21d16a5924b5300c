"""Captions, vocabulary and numbers that the cloze model is trained on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from negcap.augment.cloze.units import SPECIAL, Units
from negcap.pipelines.resources.cloze.corpus import (
    MAX_UNITS,
    encode,
    photo_id,
    phrases,
    read_photo_ids,
    read_source,
    tokenised,
    vocabulary,
)
from tests.conftest import DATA, SAMPLE

ROWS = [
    ("1_a.jpg", "train", "A dog runs."),
    ("1_a.jpg", "train", "A brown dog."),
    ("2_b.jpg", "restval", "A dog runs."),
    ("3_c.jpg", "val", "A cat sleeps."),
    ("4_d.jpg", "test", "A man."),
    ("5_e.jpg", "train", ""),
]


@pytest.fixture
def table(tmp_path: Path) -> str:
    return written(tmp_path / "captions.csv", ROWS)


def written(path: Path, rows: list[tuple[str, str, str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "split", "caption"), *rows])
    return str(path)


def test_of_splits_those_for_training_are_trained_on_and_the_others_held_out(tmp_path: Path, table: str) -> None:
    source = read_source(table)
    assert (source.name, source.texts) == ("captions.csv", ("A dog runs.", "A brown dog."))
    assert (source.left_out, source.rejected) == (0, 1)
    others = ("A cat sleeps.", "A man.")
    assert read_source(table, held_out=True).texts == others
    untrained = written(tmp_path / "others.csv", [row for row in ROWS if row[1] in ("val", "test")])
    assert read_source(untrained).texts == read_source(untrained, held_out=True).texts == others
    assert len(read_source(str(SAMPLE)).texts) == 550


def test_captions_of_listed_photos_are_left_out(tmp_path: Path, table: str) -> None:
    (tmp_path / "apart.txt").write_text("1\n9\n", "utf-8")
    source = read_source(table, read_photo_ids(tmp_path / "apart.txt"))
    assert (source.texts, source.left_out) == (("A dog runs.",), 2)
    (tmp_path / "apart.txt").write_text("\n", "utf-8")
    with pytest.raises(ValueError, match="must list ids of photos, was empty"):
        read_photo_ids(tmp_path / "apart.txt")


def test_nothing_to_read_is_an_error(table: str) -> None:
    with pytest.raises(ValueError, match="captions to train on, has none"):
        read_source(table, {"1", "2"})
    with pytest.raises(ValueError, match="captions to measure on, has none"):
        read_source(written(Path(table), [row for row in ROWS if row[1] == "train"]), held_out=True)


def test_a_photo_is_known_by_the_start_of_its_name() -> None:
    images = {"1000268201_693b08cb0e.jpg": "1000268201", "flickr/36979.jpg": "36979", "2344605": "2344605"}
    assert {image: photo_id(image) for image in images} == images


def test_captions_are_split_as_by_the_parser() -> None:
    assert list(tokenised(["An old man's  dog, running.", ""])) == [["a", *"old man 's dog , running .".split()], []]


def test_the_vocabulary_has_frequent_words_and_phrases() -> None:
    captions = [text.split() for text in ("a dog in front of a ball .", "a dog in front", "a cat", "in front of a dog")]
    units, counts = vocabulary(captions, ["in front of", "tennis ball"], 2)
    assert units.names == (*SPECIAL, "a", "dog", "in front of")
    assert counts.tolist() == [4, 4, 4, 5, 3, 2]  # ball, in, front and cat are the rest


def test_a_known_vocabulary_stays_and_grows() -> None:
    known = (*SPECIAL, "bird", "a")
    captions = [["a", "dog"], ["a", "dog"], ["a", "cat"]]
    units, counts = vocabulary(captions, [], 2, known)
    assert units.names == (*known, "dog")
    assert counts.tolist() == [3, 3, 1, 0, 3, 2]


def test_phrases_are_compounds_and_prepositions() -> None:
    found = phrases()
    assert {"in front of", "tennis racket"} <= set(found)
    assert found == sorted(set(found)) and all(" " in name for name in found)


def test_captions_become_numbers_in_pieces() -> None:
    units = Units((*SPECIAL, "a", "dog"))
    encoded = encode([["a", "dog", "."], ["."], [], ["zebra"]], units)
    assert [caption.tolist() for caption in encoded] == [[0, 3, 4, 1], [0, 2, 1]]
    assert {caption.dtype for caption in encoded} == {np.dtype(np.int32)}
    assert [len(piece) - 2 for piece in encode([["a"] * (2 * MAX_UNITS + 1)], units)] == [MAX_UNITS, MAX_UNITS, 1]


@pytest.mark.data
def test_published_sets_are_read_without_the_photos_kept_apart(real_data: Path) -> None:
    left_out = read_photo_ids(DATA / "apart.txt")
    source = read_source(str(real_data / "flickr8k"), left_out)
    assert 0 < source.left_out < 30_000 and 0.99 < len(source.texts) / (30_000 - source.left_out) <= 1
