"""The file of a cloze model, what is read from it and what is refused; captions as its units; what is English."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from negcap.augment.cloze.file import looks_english, read_about, read_model
from negcap.augment.cloze.states import END, SPECIAL, START, UNKNOWN, Units
from negcap.pipelines.resources.cloze.config import Sizes
from negcap.pipelines.resources.cloze.network import Cloze, save

UNITS = Units((*SPECIAL, "a", "tennis racket", "café"))
SIZES = Sizes(words=8, states=8, hidden=8, heads=2)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    save(path, Cloze(len(UNITS.names), SIZES), UNITS, [], {"source": "captions of a café"})
    return path


def change(model: Path, name: str, array: np.ndarray | None) -> None:
    """Replace an array of a model's file, or leave it out."""
    with np.load(model, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files if key != name}
    np.savez(model, **(arrays if array is None else {**arrays, name: array}))


def test_a_model_is_read_in_single_precision(model):
    units, arrays = read_model(model)
    assert units.names == UNITS.names
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    assert read_about(model)["source"] == "captions of a café"
    parameters = {name: tuple(value.shape) for name, value in Cloze(len(UNITS.names), SIZES).state_dict().items()}
    assert parameters == {name: array.shape for name, array in arrays.items()}
    assert parameters["embedding.weight"] == (6, 8)


def as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


@pytest.mark.parametrize(("name", "array", "message"), [
    ("units", None, "named units"),
    ("bias", None, "bias"),
    ("distance", None, "of another shape"),
    ("bias", np.zeros(7), "of another shape: bias"),
    ("bias", np.zeros((6, 1)), "of another shape: bias"),
    ("more", np.zeros(7), "unknown or of another shape: more"),
    ("query.weight", np.zeros((8, 8)), "query.weight"),
    ("distance", np.zeros((3, 2, 8)), "of another shape"),
    ("units", as_bytes("\n".join((*SPECIAL, "a", "a", "b"))), "units must be distinct"),
    ("units", as_bytes("a\nb\nc\nd\ne\nf"), "units must be distinct and begin with <s>"),
    ("units", as_bytes("\n".join((*SPECIAL, "a"))), "a cloze model of 4 units"),
    ("units", np.zeros(3), "named units"),
    ("query.weight", np.zeros((8, 16), np.float16), "query.weight must be a matrix of int16"),
    ("query.weight.bits", None, "whole numbers with .bits for query.weight"),
    ("query.weight", np.full((8, 16), 1025, np.int16), "query.weight: each row must sum to at most 16384"),
    ("embedding.weight", np.full((6, 8), -1025, np.int16), "at most 1024 units, the largest has 1025"),
])  # fmt: skip
def test_a_file_of_other_arrays_is_refused(model, name, array, message):
    change(model, name, array)
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
    (tmp_path / "text.npz").write_text("not an archive", "utf-8")
    np.savez(tmp_path / "objects.npz", units=np.array([{}], object))
    torch.save({"bias": torch.zeros(3)}, tmp_path / "model.pt")
    for name in ("array.npy", "text.npz", "objects.npz", "model.pt"):
        with pytest.raises(ValueError, match="cloze model"):
            read_model(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "absent.npz")


def test_what_is_recorded_must_be_json(model):
    change(model, "about", as_bytes("{"))
    with pytest.raises(ValueError, match="about must be JSON"):
        read_about(model)
    change(model, "about", as_bytes('{"captions": 3}'))
    assert read_about(model) == {"captions": 3}


KNOWN = Units((*SPECIAL, "a", "man", "tennis", "racket", "tennis racket", "in", "front", "in front of", "of", "stands"))


READ = {
    "a man stands": (["a", "man", "stands"], [1, 2, 3]),
    "an man": (["a", "man"], [1, 2]),
    "an tennis racket": (["a", "tennis racket"], [1, 2, 2]),
    "tennis tennis racket racket": (["tennis", "tennis racket", "racket"], [1, 2, 2, 3]),
    "stands in front of a man": (["stands", "in front of", "a", "man"], [1, 2, 2, 2, 3, 4]),
    "stands in front": (["stands", "in", "front"], [1, 2, 3]),
    "in front of": (["in front of"], [1, 1, 1]),
    "a zebra stands": (["a", UNKNOWN, "stands"], [1, 2, 3]),
    "a man stands .": (["a", "man", "stands"], [1, 2, 3, 4]),
    "a man !": (["a", "man"], [1, 2, 3]),
    "a . man": (["a", UNKNOWN, "man"], [1, 2, 3]),
    ".": ([], [1]),
    "": ([], []),
}


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_a_text_is_read_as_units(text, expected):
    numbers, places = KNOWN.to_units(text.split())
    assert KNOWN.number_of("In front of") == KNOWN.number["in front of"] and KNOWN.number_of("zebra") is None
    assert ([KNOWN.names[number] for number in numbers], places) == ([START, *expected[0], END], expected[1])


ENGLISH = """A brown dog runs across a field with a ball.; AN OLD MAN, sitting.; red Škoda; Photomicrograph; 12:30; ;
    Axial CT of the thorax shows a small left pleural effusion."""
OTHERS = """Ein brauner Hund läuft mit einem Ball über ein Feld.; Коричневая собака бежит; 一只棕色的狗在田野里奔跑。;
    Un perro marrón corre por el campo con una pelota.; Un chien brun court dans un champ avec une balle.;
    Een bruine hond rent door het veld met een bal.; Um cachorro marrom corre pelo campo com uma bola."""


@pytest.mark.parametrize(("texts", "english"), [(ENGLISH, True), (OTHERS, False)])
def test_what_looks_like_english(texts, english):
    assert [text for text in map(str.strip, texts.split(";")) if looks_english(text) is not english] == []


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
