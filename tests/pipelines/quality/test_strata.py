from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.quality.strata import sample_strata
from tests.pipelines.publish.fixtures import rows, write_run

CAPTIONS, NEGATIVES = rows(24, 9)


def ids(drawn: dict[tuple[str, ...], list[dict[str, Any]]]) -> dict[tuple[str, ...], list[str]]:
    return {stratum: [row["negative_id"] for row in rows] for stratum, rows in drawn.items()}


@pytest.mark.parametrize("by", [["operator", "split"], ["family", "replacement"]])
def test_every_stratum_has_its_own_rows_whatever_the_shards(toy: Path, tmp_path: Path, by: list[str]) -> None:
    drawn = sample_strata(toy, "negatives", by, 5, 3)
    other = write_run(tmp_path / "other", CAPTIONS, NEGATIVES, images=5)
    assert ids(drawn) == ids(sample_strata(other, "negatives", by, 5, 3))
    sizes = Counter(tuple(row[name] for name in by) for row in NEGATIVES)
    assert {stratum: len(some) for stratum, some in drawn.items()} == {name: min(5, n) for name, n in sizes.items()}
    assert list(drawn) == sorted(drawn)
    written = {row["negative_id"]: row for row in NEGATIVES}
    for stratum, some in drawn.items():
        for row in some:
            original = written[row["negative_id"]]
            assert tuple(row[name] for name in by) == stratum
            assert all(row[name] == original[name] for name in (*by, "caption_id", "caption", "text", "edits"))


def test_images_differ_while_there_are_any_left(toy: Path) -> None:
    (some,) = sample_strata(toy, "negatives", ["operator"], 30, only={"operator": ("noun",)}).values()
    assert len({row["image_id"] for row in some[:24]}) == 24 and len({row["negative_id"] for row in some}) == 30
    (everything,) = sample_strata(toy, "negatives", ["operator"], 10_000, only={"operator": ("noun",)}).values()
    mine = sorted(row["negative_id"] for row in NEGATIVES if row["operator"] == "noun")
    assert sorted(row["negative_id"] for row in everything) == mine and everything[:30] == some
    first = [sample_strata(toy, "negatives", ["operator"], 1, seed)["noun",][0] for seed in range(20)]
    counts = Counter(row["image_id"] for row in first)
    assert len(counts) >= 9 and max(counts.values()) <= 5  # of 24 images; 0.8 expected of each
