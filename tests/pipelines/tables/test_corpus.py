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
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.truth.estimates import Truth
from negcap.pipelines.api import augmenter
from negcap.pipelines.engine.errors import DamagedShardError
from negcap.pipelines.engine.shards import Shard
from negcap.pipelines.tables import corpus
from negcap.schemas.captions import BALANCE

SENTENCES = ["Two dogs run across the grass.", "A man rides a red bicycle.", "Three children sit on a bench."]
SIBLINGS = pd.DataFrame({"image": ["a", "a"], "caption": ["A dog sleeps on a couch.", "A brown dog on a red sofa."]})
CACHES = (
    corpus.load_lexicon,
    corpus.load_balanced,
    corpus._truth_of_entries,
    corpus._given_file,
    corpus._given_table_of_run,
    augmenter._load,
)


def forget() -> None:
    """Empty all caches, as in a new process."""
    for cached in CACHES:
        cached.cache_clear()


@pytest.fixture(autouse=True)
def as_in_a_new_process() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what has been built or read since the test began: Lexicon, Truth, shard."""
    events: list[str] = []

    def count(owner: type, method: str, event: str, wrap: Any = lambda function: function) -> None:
        original = getattr(owner, method)

        def counted(*given: Any, **options: Any) -> Any:
            events.append(event)
            return original(*given, **options)

        monkeypatch.setattr(owner, method, wrap(counted))

    count(Lexicon, "from_table", "Lexicon", staticmethod)
    count(Truth, "from_table", "Truth", staticmethod)
    count(Shard, "read", "shard")
    return events


def build_run(folder: Path, sentences: list[str]) -> Path:
    """A run whose lexicon has the words of some sentences, which are each repeated with other words for persons."""
    persons = ("man", "woman", "boy", "girl", "child", "person")
    captions = [sentence.format(person) for sentence in sentences for person in persons]
    return negcap.build(captions, folder, lexicon="own", min_count=2, overwrite=True, scheduler="synchronous")


ON_A_BED = ["A {} sits on a bed.", "A {} sleeps on a couch.", "A {} stands on a chair."]
IN_A_CAR = ["A {} sits in a car.", "A {} sleeps in a bus.", "A {} stands in a truck."]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_run(tmp_path_factory.mktemp("corpus") / "run", ON_A_BED)


def test_the_reference_is_built_once_for_all_calls(built: list[str]) -> None:
    first, second = (negcap.negatives([sentence], lexicon="reference") for sentence in SENTENCES[:2])
    assert len(first) and len(second) and sorted(built) == ["Lexicon", "Truth"]


def test_the_tables_of_a_run_are_read_and_built_once_for_all_calls(run: Path, built: list[str]) -> None:
    for sentence in ("A man sits on a bed.", "A girl sleeps on a couch."):
        assert len(negcap.negatives([sentence], lexicon=run))
    assert sorted(built) == ["Lexicon", "Truth", "shard", "shard", "shard"]


def test_captions_that_are_counted_change_the_lexicon_but_not_what_is_true(built: list[str]) -> None:
    for sentence in SENTENCES:
        assert len(negcap.negatives([sentence]))
    assert sorted(built) == ["Lexicon"] * 3 + ["Truth"]
    negcap.negatives(SIBLINGS)  # two captions of one image say what is true of it
    assert sorted(built) == ["Lexicon"] * 4 + ["Truth"] * 2


def test_what_was_made_before_changes_no_result() -> None:
    calls: list[Any] = [SENTENCES[:1], SENTENCES[1:], SIBLINGS, SENTENCES[:1], SENTENCES[1:]]
    warm = [negcap.negatives(captions, rejections=True) for captions in calls]
    for captions, tables in zip(calls, warm, strict=True):
        forget()
        for one, other in zip(tables, negcap.negatives(captions, rejections=True), strict=True):
            pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_a_lexicon_that_was_built_anew_is_not_the_old_one(run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    sentence = "A man sits on a bed."
    before = negcap.negatives([sentence], lexicon=folder)
    build_run(folder, IN_A_CAR)
    after = negcap.negatives([sentence], lexicon=folder)
    assert set(after["text"]) != set(before["text"])
    forget()
    pd.testing.assert_frame_equal(negcap.negatives([sentence], lexicon=folder), after)


def test_an_augmenter_keeps_the_lexicon_that_it_was_made_with(run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    sentence = "A man sits on a bed."
    augment = negcap.Augmenter(lexicon=folder)
    before = augment([sentence])
    assert before != [[]]
    build_run(folder, IN_A_CAR)
    assert augment([sentence]) == before
    assert negcap.Augmenter(lexicon=folder)([sentence]) != before
    forget()
    with pytest.raises(DamagedShardError, match="was made anew while it was being used"):
        augment([sentence])


def test_a_file_of_the_same_size_and_time_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "balance.parquet"
    old, new = (pa.table([["noun"], ["dog"], [False], [factor]], BALANCE) for factor in (0.5, 2.0))
    pq.write_table(old, path, compression="none")
    state = path.stat()
    assert corpus.given_table(path, BALANCE) == old
    assert corpus.given_table(path, BALANCE) is corpus.given_table(path, BALANCE)
    pq.write_table(new, path, compression="none")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
    assert corpus.given_table(path, BALANCE) == new
