from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.quality.strata import sample_strata
from tests.pipelines.publish.fixtures import rows, write_run

CAPTIONS, NEGATIVES = rows(24, 9)
CHANGED = ("caption_id", "operator", "split", "caption", "text", "edits")


def ids(drawn: dict[tuple[str, ...], list[dict[str, Any]]]) -> dict[tuple[str, ...], list[str]]:
    return {stratum: [row["negative_id"] for row in some] for stratum, some in drawn.items()}


@pytest.mark.parametrize("by", [["operator", "split"], ["family", "replacement"]])
def test_the_rows_do_not_hang_on_the_shards(toy: Path, tmp_path: Path, by: list[str]) -> None:
    other = write_run(tmp_path / "other", CAPTIONS, NEGATIVES, images=5)
    assert ids(sample_strata(toy, "negatives", by, 6, 3)) == ids(sample_strata(other, "negatives", by, 6, 3))


def test_every_stratum_has_its_own_rows(toy: Path) -> None:
    drawn = sample_strata(toy, "negatives", ["operator", "split"], 5)
    written = {row["negative_id"]: row for row in NEGATIVES}
    assert list(drawn) == [(name, split) for name in ("noun", "numeral") for split in ("test", "train")]
    for (operator, split), some in drawn.items():
        assert len(some) == 5
        assert all(row["operator"] == operator and row["split"] == split for row in some)
        assert all(
            {name: row[name] for name in CHANGED} == {name: written[row["negative_id"]][name] for name in CHANGED}
            for row in some
        )


def test_images_differ_while_there_are_any_left(toy: Path) -> None:
    (some,) = sample_strata(toy, "negatives", ["operator"], 30, only={"operator": ("noun",)}).values()
    assert len({row["image_id"] for row in some[:24]}) == 24
    assert len({row["negative_id"] for row in some}) == 30
    (everything,) = sample_strata(toy, "negatives", ["operator"], 10_000, only={"operator": ("noun",)}).values()
    mine = sorted(row["negative_id"] for row in NEGATIVES if row["operator"] == "noun")
    assert sorted(row["negative_id"] for row in everything) == mine
    assert everything[:30] == some


def test_another_seed_draws_others_and_every_image_gets_its_turn(toy: Path) -> None:
    drawn = [sample_strata(toy, "negatives", ["operator"], 1, seed) for seed in range(30)]
    first = [some["noun",][0] for some in drawn]
    counts = Counter(row["image_id"] for row in first)
    assert len(counts) >= 13 and max(counts.values()) <= 6  # of 24 images; 1.25 expected of each
    assert len({row["negative_id"] for row in first}) > 15


def test_what_is_not_there(toy: Path) -> None:
    assert sample_strata(toy, "positives", ["operator"], 3) == {}
    assert sample_strata(toy, "negatives", ["operator"], 3, only={"split": ("val",)}) == {}
    with pytest.raises(ValueError, match="n must be >= 1, was: 0"):
        sample_strata(toy, "negatives", ["operator"], 0)
    with pytest.raises(ValueError, match=r"negatives/part-00000.parquet lacks the column reason"):
        sample_strata(toy, "negatives", ["reason"], 1)
