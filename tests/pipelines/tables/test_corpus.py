"""What of a lexicon is loaded once for many calls, and that a changed lexicon is loaded again."""

import os
from collections.abc import Iterator
from pathlib import Path

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
