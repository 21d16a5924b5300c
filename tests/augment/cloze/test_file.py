"""The file of a cloze model, what is read from it and what is refused; captions as its units; what is English."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from negcap.augment.cloze.file import looks_english, read_about, read_model
from negcap.augment.cloze.states import END, SPECIAL, START, Units
from negcap.pipelines.resources.cloze.config import Sizes
from negcap.pipelines.resources.cloze.network import Cloze, save
from tests.cases import cases_of

CASES = cases_of(__file__)["file"]
UNITS = Units((*SPECIAL, "a", "tennis racket", "café"))
SIZES = Sizes(words=8, states=8, hidden=8, heads=2)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    save(path, Cloze(len(UNITS.names), SIZES), UNITS, [], {"source": "captions of a café"})
    return path


def test_a_model_is_read_in_single_precision(model):
    units, arrays = read_model(model)
    assert units.names == UNITS.names
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    assert read_about(model)["source"] == "captions of a café"
    parameters = {name: tuple(value.shape) for name, value in Cloze(len(UNITS.names), SIZES).state_dict().items()}
    assert {name: array.shape for name, array in arrays.items()} == parameters


def as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


@pytest.mark.parametrize(("name", "array", "message"), [
    ("units", None, "named units"),
    ("bias", None, "bias"),
    ("bias", np.zeros((6, 1)), "of another shape: bias"),
    ("more", np.zeros(7), "unknown or of another shape: more"),
    ("distance", np.zeros((3, 2, 8)), "of another shape"),
    ("units", as_bytes("\n".join((*SPECIAL, "a", "a", "b"))), "units must be distinct"),
    ("units", as_bytes("a\nb\nc\nd\ne\nf"), "units must be distinct and begin with <s>"),
    ("units", as_bytes("\n".join((*SPECIAL, "a"))), "a cloze model of 4 units"),
    ("query.weight", np.zeros((8, 16), np.float16), "query.weight must be a matrix of int16"),
    ("query.weight.bits", None, "whole numbers with .bits for query.weight"),
    ("query.weight", np.full((8, 16), 1025, np.int16), "query.weight: each row must sum to at most 16384"),
    ("embedding.weight", np.full((6, 8), -1025, np.int16), "at most 1024 units, the largest has 1025"),
])  # fmt: skip
def test_a_file_of_other_arrays_is_refused(model, name, array, message):
    with np.load(model, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files if key != name}
    np.savez(model, **(arrays if array is None else {**arrays, name: array}))
    with pytest.raises(ValueError, match=message) as raised:
        read_model(model)
    assert str(model) in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("cut", [0, 100, -100])
def test_a_damaged_file_is_refused(model, cut):
    model.write_bytes(model.read_bytes()[:cut])
    with pytest.raises(ValueError, match="must be a cloze model in an .npz archive"):
        read_model(model)


def test_files_of_another_kind_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "objects.npz", units=np.array([{}], object))  # a pickle
    for name in ("array.npy", "objects.npz"):
        with pytest.raises(ValueError, match="cloze model"):
            read_model(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "absent.npz")


@pytest.mark.parametrize(("text", "units", "places"), CASES["read"])
def test_a_text_is_read_as_units(text, units, places):
    known = Units((*SPECIAL, *CASES["units"]))
    numbers, unit_of_token = known.to_units(text.split())
    assert [known.names[number] for number in numbers] == [START, *units, END]
    assert unit_of_token == places


@pytest.mark.parametrize("is_english", [True, False])
def test_what_looks_like_english(is_english):
    texts = CASES["english" if is_english else "other_languages"]
    assert [text for text in texts if looks_english(text) is not is_english] == []


@pytest.mark.data
def test_no_english_caption_is_taken_for_another_language(real_data):
    with gzip.open(real_data / "coco" / "captions_val2017.json.gz") as file:
        captions = [row["caption"] for row in json.load(file)["annotations"][::5]]
    captions += (real_data / "flickr8k" / "dev_caps.txt").read_text().splitlines()
    with gzip.open(real_data / "factual" / "dev.csv.gz", "rt") as file:
        captions += [row["caption"] for row in csv.DictReader(file)]
    assert len(captions) > 10_000 and all(map(looks_english, captions))
    german = [line.split("\t")[-1] for line in (real_data / "flickr8k" / "dev_caps.de.tsv").read_text().splitlines()]
    assert sum(not looks_english(text) for text in german) > 0.95 * len(german) > 1000
