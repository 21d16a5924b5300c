"""Lexica and cloze models: loaded once for many calls, again when they have changed, and used by all that draws."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import negcap
from negcap.augment.cloze.file import UNITS
from negcap.augment.data import data_path
from negcap.pipelines.api import augmenter
from negcap.pipelines.cli import main
from negcap.pipelines.engine.errors import DamagedShardError
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.engine.storage import sha256_file
from negcap.pipelines.tables import corpus
from negcap.pipelines.tables.corpus import load_cloze
from negcap.schemas.captions import BALANCE
from tests.conftest import HERE

SENTENCES = ["A cat sleeps on a red couch.", "Three children play in the snow.", "A man holds an apple."]
SIBLINGS = pd.DataFrame({"image": ["a", "a"], "caption": ["A dog sleeps on a couch.", "A brown dog on a red sofa."]})
MAN = "A man sits on a bed."
CACHES = (
    corpus.load_lexicon, corpus._truth_of_entries, corpus._given_table_of_run, corpus.load_balanced,
    corpus._given_file, augmenter._load_resources,
)  # fmt: skip


def forget() -> None:
    """Empty all caches, as in a new process."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture(autouse=True)
def as_in_a_new_process() -> Iterator[None]:
    forget()
    yield
    forget()


def loads() -> list[int]:
    """How often a lexicon, truth estimates and a table of a run have been loaded since the test began."""
    return [cached.cache_info().misses for cached in CACHES[:3]]


def build_run(folder: Path, places: list[str]) -> Path:
    """A run whose lexicon has these places, of captions that each name one of six persons in it."""
    persons = ("man", "woman", "boy", "girl", "child", "person")
    captions = [f"A {person} {place}." for place in places for person in persons]
    return negcap.build(captions, folder, lexicon="own", min_count=2, overwrite=True, scheduler="synchronous")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    places = ["sits on a bed", "sleeps on a couch", "stands on a chair"]
    return build_run(tmp_path_factory.mktemp("corpus") / "run", places)


def test_a_lexicon_is_loaded_once_for_all_calls(run: Path) -> None:
    for lexicon, expected in (("reference", [1, 1, 0]), (run, [1, 1, 3])):
        forget()
        for sentence in (MAN, "A girl sleeps on a couch."):
            assert len(negcap.negatives([sentence], lexicon=lexicon))
        assert loads() == expected


def test_captions_change_the_lexicon_but_not_what_is_true_and_what_was_made_before_changes_nothing() -> None:
    negcap.negatives(SENTENCES[:1])
    negcap.negatives(SENTENCES[1:])
    assert loads()[:2] == [2, 1]
    warm = negcap.negatives(SIBLINGS)  # siblings say what is true of their image
    assert loads()[:2] == [3, 2]
    forget()
    pd.testing.assert_frame_equal(negcap.negatives(SIBLINGS), warm, check_exact=True)


def test_a_lexicon_that_was_built_anew_is_not_the_old_one_but_an_augmenter_keeps_its_own(run: Path) -> None:
    before = negcap.negatives([MAN], lexicon=run)
    augment = negcap.Augmenter(lexicon=run)
    augmented = augment([MAN])
    build_run(run, ["sits in a car", "sleeps in a bus", "stands in a truck"])
    after = negcap.negatives([MAN], lexicon=run)
    assert set(after["text"]) != set(before["text"])
    assert augment([MAN]) == augmented != negcap.Augmenter(lexicon=run)([MAN])
    forget()
    with pytest.raises(DamagedShardError, match="was made anew while it was being used"):
        augment([MAN])


def test_a_file_of_the_same_size_and_time_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "balance.parquet"
    old, new = (pa.table([["noun"], ["dog"], [False], [factor]], BALANCE) for factor in (0.5, 2.0))
    pq.write_table(old, path, compression="none")
    state = path.stat()
    assert corpus.given_table(path, BALANCE) is corpus.given_table(path, BALANCE) == old
    pq.write_table(new, path, compression="none")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size and corpus.given_table(path, BALANCE) == new


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
