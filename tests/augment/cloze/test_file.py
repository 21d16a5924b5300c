"""The file of a cloze model: what is read from it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from negcap.augment.cloze.file import read_about, read_model
from negcap.augment.cloze.states import SPECIAL, Units
from negcap.pipelines.resources.cloze.model import save
from negcap.pipelines.resources.cloze.network import Cloze, Sizes

UNITS = Units((*SPECIAL, "a", "tennis racket", "café"))
Arrays = dict[str, np.ndarray]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    save(path, Cloze(len(UNITS.names), Sizes(8, 8, 8, 2)), UNITS, [], {"source": "captions of a café"})
    return path


def test_a_model_is_read_in_single_precision(model: Path) -> None:
    units, arrays = read_model(model)
    assert units.names == UNITS.names
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    assert arrays["embedding.weight"].shape == (6, 8)
    assert read_about(model)["source"] == "captions of a café"


def test_the_parameters_are_those_of_the_network(model: Path) -> None:
    _, arrays = read_model(model)
    net = Cloze(len(UNITS.names), Sizes(8, 8, 8, 2))
    assert {name: tuple(value.shape) for name, value in net.state_dict().items()} == {
        name: array.shape for name, array in arrays.items()
    }


def without(name: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


def with_array(name: str, array: np.ndarray) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {**arrays, name: array}


def as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("units"), "named units"),
        (without("bias"), "bias"),
        (without("distance"), "of another shape"),
        (with_array("bias", np.zeros(7)), "of another shape: bias"),
        (with_array("bias", np.zeros((6, 1))), "of another shape: bias"),
        (with_array("more", np.zeros(7)), "unknown or of another shape: more"),
        (with_array("query.weight", np.zeros((8, 8))), "query.weight"),
        (with_array("distance", np.zeros((3, 2, 8))), "of another shape"),
        (with_array("units", as_bytes("\n".join((*SPECIAL, "a", "a", "b")))), "units must be distinct"),
        (with_array("units", as_bytes("a\nb\nc\nd\ne\nf")), "units must be distinct and begin with <s>"),
        (with_array("units", as_bytes("\n".join((*SPECIAL, "a")))), "a cloze model of 4 units"),
        (with_array("units", np.zeros(3)), "named units"),
        (with_array("query.weight", np.zeros((8, 16), np.float16)), "query.weight must be a matrix of int16"),
        (without("query.weight.bits"), "whole numbers with .bits for query.weight"),
        (
            with_array("query.weight", np.full((8, 16), 1025, np.int16)),
            "query.weight: each row must sum to at most 16384",
        ),
        (with_array("embedding.weight", np.full((6, 8), -1025, np.int16)), "at most 1024 units, the largest has 1025"),
    ],
)
def test_a_file_of_other_arrays_is_refused(model: Path, change: Callable[[Arrays], Arrays], message: str) -> None:
    with np.load(model, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(model, **change(arrays))
    with pytest.raises(ValueError, match=message) as raised:
        read_model(model)
    assert str(model) in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("cut", [0, 100, -100])
def test_a_damaged_file_is_refused(model: Path, cut: int) -> None:
    model.write_bytes(model.read_bytes()[:cut])
    with pytest.raises(ValueError, match="must be a cloze model in an .npz archive"):
        read_model(model)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "text.npz").write_text("not an archive", "utf-8")
    np.savez(tmp_path / "objects.npz", units=np.array([{}], object))
    torch.save({"bias": torch.zeros(3)}, tmp_path / "model.pt")
    for name in ("array.npy", "text.npz", "objects.npz", "model.pt"):
        with pytest.raises(ValueError, match="cloze model"):
            read_model(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "absent.npz")


def test_what_is_recorded_must_be_json(model: Path) -> None:
    with np.load(model, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(model, **{**arrays, "about": as_bytes("{")})
    with pytest.raises(ValueError, match="about must be JSON"):
        read_about(model)
    np.savez(model, **{**arrays, "about": as_bytes(json.dumps({"captions": 3}))})
    assert read_about(model) == {"captions": 3}
