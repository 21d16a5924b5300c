"""Captions, vocabulary and numbers that the cloze model is trained on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from negcap.augment.cloze.states import SPECIAL, Units
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


def test_distinct_captions_of_the_train_splits_are_trained_on(table: str) -> None:
    source = read_source(table)
    assert (source.name, source.texts) == ("captions.csv", ("A dog runs.", "A brown dog."))
    assert (source.left_out, source.rejected) == (0, 1)


def test_the_other_splits_are_held_out(table: str) -> None:
    assert read_source(table, held_out=True).texts == ("A cat sleeps.", "A man.")


@pytest.mark.parametrize("held_out", [False, True])
def test_all_is_read_where_no_split_is_for_training(tmp_path: Path, held_out: bool) -> None:
    source = written(tmp_path / "captions.csv", [row for row in ROWS if row[1] in ("val", "test")])
    assert read_source(source, held_out=held_out).texts == ("A cat sleeps.", "A man.")


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


@pytest.mark.parametrize(
    ("image", "photo"),
    [("1000268201_693b08cb0e.jpg", "1000268201"), ("flickr/36979.jpg", "36979"), ("2344605", "2344605")],
)
def test_a_photo_is_known_by_the_start_of_its_name(image: str, photo: str) -> None:
    assert photo_id(image) == photo


def test_captions_are_split_as_by_the_parser() -> None:
    assert list(tokenised(["An old man's  dog, running.", ""])) == [
        ["a", "old", "man", "'s", "dog", ",", "running", "."],
        [],
    ]


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


def test_captions_become_numbers() -> None:
    units = Units((*SPECIAL, "a", "dog"))
    encoded = encode([["a", "dog", "."], ["."], [], ["zebra"]], units)
    assert [caption.tolist() for caption in encoded] == [[0, 3, 4, 1], [0, 2, 1]]
    assert {caption.dtype for caption in encoded} == {np.dtype(np.int32)}


def test_long_captions_are_cut_into_pieces() -> None:
    pieces = encode([["a"] * (2 * MAX_UNITS + 1)], Units((*SPECIAL, "a")))
    assert [len(piece) - 2 for piece in pieces] == [MAX_UNITS, MAX_UNITS, 1]


def test_the_sample_is_read_whole() -> None:
    assert len(read_source(str(SAMPLE)).texts) == 550


@pytest.mark.data
def test_published_sets_are_read_without_the_photos_kept_apart(real_data: Path) -> None:
    left_out = read_photo_ids(DATA / "apart.txt")
    source = read_source(str(real_data / "flickr8k"), left_out)
    assert 0 < source.left_out < 30_000 and 0.99 < len(source.texts) / (30_000 - source.left_out) <= 1
