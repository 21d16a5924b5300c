"""A cloze model of the user's own draws in every stage, and in every function that makes negatives."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import negcap
from negcap.augment.cloze.file import UNITS
from negcap.augment.data import data_path
from negcap.pipelines.cli import main
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.storage import sha256_file
from negcap.pipelines.tables.corpus import load_cloze
from tests.conftest import HERE

SENTENCES = ["A cat sleeps on a red couch.", "Three children play in the snow.", "A man holds an apple."]


def write_model(path: Path, liked: float = 4.0) -> Path:
    """The shipped model, in which the score of dogs is higher."""
    with np.load(data_path("cloze") / "model.npz") as archive:
        arrays = dict(archive)
    names = arrays[UNITS].tobytes().decode().split("\n")
    bias = arrays["bias"].copy()
    bias[[names.index("dog"), names.index("dogs")]] += np.float16(liked)
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, **{**arrays, "bias": bias})
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "own.npz")


def dogs(rows: pd.DataFrame) -> int:
    return int((rows["operator"].eq("noun") & rows["replacement"].eq("dog")).sum())


def test_every_stage_that_draws_takes_the_model_and_records_it(model, sample_copy, sample_run, tmp_path):
    build = ["build", "--output", str(sample_copy), *HERE, "--only"]
    drawing = ["negatives", "--operator", "noun", "--set", "preferred_unnatural=1", "--set", "max_unnatural=1"]
    for verb, *flags in (["truth", "--set", "lexicon=own"], ["balance", "--set", "lexicon=own"], drawing):
        command = [*build, verb, *flags, "--set", f"cloze={model}"]
        assert main(command) == 2  # the run was made with another
        assert main([*command, "--overwrite"]) == 0
        manifest = read_manifest(sample_copy / verb)
        assert manifest is not None and manifest.identity.config["cloze"] == f"own.npz sha256:{sha256_file(model)}"
    assert dogs(negcap.read(sample_copy)) > dogs(negcap.read(sample_run))
    copy = tmp_path / "elsewhere" / "own.npz"
    assert main([*build, *drawing, "--set", f"cloze={write_model(copy)}"]) == 0  # the content counts, not the place


def test_functions_draw_with_the_model(model):
    loose = {"preferred_unnatural": 1.0, "max_unnatural": 1.0}
    own, shipped = (negcap.negatives(SENTENCES, cloze=cloze, **loose) for cloze in (model, None))
    assert list(own["text"]) != list(shipped["text"])
    augment = pickle.loads(pickle.dumps(negcap.Augmenter(operators="noun", n=20, cloze=model, preferred_unnatural=1.0)))
    assert augment(SENTENCES) != negcap.Augmenter(operators="noun", n=20, preferred_unnatural=1.0)(SENTENCES)


def test_a_model_is_read_once_and_again_when_it_has_changed(tmp_path):
    path = write_model(tmp_path / "own.npz")
    first = load_cloze(path)
    assert first is not None and load_cloze(path) is first and load_cloze(None) is None
    again = load_cloze(write_model(path, 5.0))
    assert again is not None and not np.array_equal(again.bias, first.bias)


def test_a_model_that_cannot_be_read_is_named_before_anything_is_written(model, tmp_path):
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "damaged.npz").write_bytes(content)
    for name, message in (
        ("none.npz", "cloze must be the file of a cloze model, was: .*none.npz"),
        ("damaged.npz", "damaged.npz: must be a cloze model in an .npz archive"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            negcap.build(SENTENCES, tmp_path / "run", cloze=tmp_path / name, scheduler="synchronous")
        assert not (tmp_path / "run").exists()
