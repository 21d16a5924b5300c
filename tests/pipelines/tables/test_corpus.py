"""What of a lexicon is loaded once for many calls, and that a changed lexicon is loaded again."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import negcap
from negcap.pipelines.api import augmenter
from negcap.pipelines.engine.errors import DamagedShardError
from negcap.pipelines.tables import corpus
from negcap.schemas.captions import BALANCE

SENTENCES = ["Two dogs run across the grass.", "A man rides a red bicycle.", "Three children sit on a bench."]
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


def build_run(folder: Path, sentences: list[str]) -> Path:
    """A run whose lexicon has the words of some sentences, which are each repeated with other words for persons."""
    persons = ("man", "woman", "boy", "girl", "child", "person")
    captions = [sentence.format(person) for sentence in sentences for person in persons]
    return negcap.build(captions, folder, lexicon="own", min_count=2, overwrite=True, scheduler="synchronous")


ON_A_BED = ["A {} sits on a bed.", "A {} sleeps on a couch.", "A {} stands on a chair."]
IN_A_CAR = ["A {} sits in a car.", "A {} sleeps in a bus.", "A {} stands in a truck."]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_run(tmp_path_factory.mktemp("corpus") / "run", ON_A_BED)


@pytest.fixture
def run(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "run"))


def test_a_lexicon_is_loaded_once_for_all_calls(built: Path) -> None:
    for sentence in SENTENCES[:2]:
        assert len(negcap.negatives([sentence], lexicon="reference"))
    assert loads() == [1, 1, 0]
    forget()
    for sentence in (MAN, "A girl sleeps on a couch."):
        assert len(negcap.negatives([sentence], lexicon=built))
    assert loads() == [1, 1, 3]


def test_captions_change_the_lexicon_but_not_what_is_true_and_what_was_made_before_changes_nothing() -> None:
    calls: list[Any] = [SENTENCES[:1], SENTENCES[1:], SIBLINGS]  # siblings say what is true of their image
    warm = []
    for captions, expected in zip(calls, [[1, 1], [2, 1], [3, 2]], strict=True):
        warm.append(negcap.negatives(captions, rejections=True))
        assert loads()[:2] == expected
    for captions, tables in zip(calls[1:], warm[1:], strict=True):  # the first was made in a new process
        forget()
        for one, other in zip(tables, negcap.negatives(captions, rejections=True), strict=True):
            pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_a_lexicon_that_was_built_anew_is_not_the_old_one_but_an_augmenter_keeps_its_own(run: Path) -> None:
    before = negcap.negatives([MAN], lexicon=run)
    augment = negcap.Augmenter(lexicon=run)
    augmented = augment([MAN])
    build_run(run, IN_A_CAR)
    after = negcap.negatives([MAN], lexicon=run)
    assert set(after["text"]) != set(before["text"])
    assert augment([MAN]) == augmented != negcap.Augmenter(lexicon=run)([MAN])
    forget()
    pd.testing.assert_frame_equal(negcap.negatives([MAN], lexicon=run), after)
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
