"""A cloze model of the user's own draws in every stage, and in every function that makes negatives."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

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
from tests.conftest import SAMPLE

QUIET = ["--scheduler", "synchronous", "--quiet"]
LIKED = ("dog", "dogs")
SENTENCES = ["A cat sleeps on a red couch.", "Three children play in the snow.", "A man holds an apple."]


def write_model(path: Path, liked: float = 4.0) -> Path:
    """The shipped model, in which the scores of the units LIKED are higher."""
    with np.load(data_path("cloze") / "model.npz") as archive:
        arrays = dict(archive)
    names = arrays[UNITS].tobytes().decode().split("\n")
    bias = arrays["bias"].copy()
    bias[[names.index(name) for name in LIKED]] += np.float16(liked)
    with path.open("wb") as file:
        np.savez(file, **{**arrays, "bias": bias})
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "own.npz")


def dogs(rows: pd.DataFrame) -> int:
    return int((rows["operator"].eq("noun") & rows["replacement"].eq("dog")).sum())


def test_every_stage_that_draws_takes_the_model_and_records_it(model: Path, sample_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sample_run, tmp_path / "run"))
    options = {
        "truth": ["--set", "lexicon=own"],
        "balance": ["--set", "lexicon=own"],
        "negatives": ["--operator", "noun", "--set", "preferred_unnatural=1", "--set", "max_unnatural=1"],
    }
    for verb, given in options.items():
        only = ["build", "--output", str(run), "--only", verb, *given, "--set", f"cloze={model}", *QUIET]
        assert main(only) == 2  # the run was made with another
        assert main([*only, "--overwrite"]) == 0
        manifest = read_manifest(run / verb)
        assert manifest is not None
        assert manifest.identity.config["cloze"] == f"own.npz sha256:{sha256_file(model)}"
    assert not negcap.read(run).equals(negcap.read(sample_run))
    assert dogs(negcap.read(run)) > dogs(negcap.read(sample_run))
    again = ["build", "--output", str(run), "--only", "negatives", *options["negatives"], *QUIET, "--set"]
    copy = tmp_path / "elsewhere" / "own.npz"
    copy.parent.mkdir()
    assert main([*again, f"cloze={write_model(copy)}"]) == 0  # the content counts, not the place
    assert main([*again, f"cloze={write_model(copy, 5.0)}"]) == 2


def test_all_functions_draw_with_the_model(model: Path, sample_run: Path, tmp_path: Path) -> None:
    pd.DataFrame({"image": range(3), "caption": SENTENCES}).to_csv(tmp_path / "three.csv", index=False)
    given: dict[str, Any] = {
        "lexicon": str(sample_run),
        "cloze": str(model),
        "preferred_unnatural": 1.0,
        "max_unnatural": 1.0,
    }
    run = negcap.build(tmp_path / "three.csv", tmp_path / "run", scheduler="synchronous", **given)
    made = negcap.negatives(SENTENCES, **given)
    assert list(made["text"]) == list(negcap.read(run)["text"])
    np.testing.assert_array_equal(made["plausibility"], negcap.read(run)["plausibility"])
    for verb in ("truth", "balance"):  # a given lexicon is used as it is
        manifest = read_manifest(run / verb)
        assert manifest is not None and json.dumps(manifest.identity.config).count("sha256:") == 1
    own, shipped = (
        negcap.negatives(SENTENCES, cloze=name, preferred_unnatural=1.0, max_unnatural=1.0) for name in (model, None)
    )
    assert list(own["text"]) != list(shipped["text"])
    augment = pickle.loads(pickle.dumps(negcap.Augmenter(operators="noun", n=20, cloze=model, preferred_unnatural=1.0)))
    assert augment(SENTENCES) != negcap.Augmenter(operators="noun", n=20, preferred_unnatural=1.0)(SENTENCES)


def test_a_model_is_read_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    path = write_model(tmp_path / "own.npz")
    first = load_cloze(path)
    assert first is not None and load_cloze(path) is first and load_cloze(None) is None
    again = load_cloze(write_model(path, 5.0))
    assert again is not None and not np.array_equal(again.bias, first.bias)


def test_a_model_that_cannot_be_read_is_one_line_before_anything_is_written(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = bytearray(model.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with np.load(model) as archive:
        np.savez(tmp_path / "part.npz", **{name: archive[name] for name in archive.files if name != "bias"})
    faults = {
        "none.npz": "cloze must be the file of a cloze model, was: ",
        "damaged.npz": "must be a cloze model in an .npz archive",
        "part.npz": "must hold the parameters of a cloze model",
    }
    run = str(tmp_path / "run")
    for where in (
        ["build", str(SAMPLE), "--output", run],
        ["build", "--output", run, "--only", "truth"],
        ["build", "--output", run, "--only", "balance"],
        ["build", "--output", run, "--only", "negatives"],
    ):
        for name, message in faults.items():
            assert main([*where, "--set", f"cloze={tmp_path / name}", *QUIET]) == 2
            shown = capsys.readouterr().err
            assert message in shown and str(tmp_path / name) in shown and shown.count("\n") == 1
    with pytest.raises(FileNotFoundError, match="cloze must be the file"):
        negcap.Augmenter(cloze=tmp_path / "none.npz")
    assert not (tmp_path / "run").exists()
