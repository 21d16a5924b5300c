import itertools
from collections import Counter
from pathlib import Path
from typing import Any

from negcap.pipelines.quality.strata import sample_strata
from tests.pipelines.publish.fixtures import rows, write_run

CAPTIONS, NEGATIVES = rows(24, 9)


def ids(drawn: dict[tuple[str, ...], list[dict[str, Any]]]) -> dict[tuple[str, ...], list[str]]:
    return {stratum: [row["negative_id"] for row in rows] for stratum, rows in drawn.items()}


def test_every_stratum_has_its_own_rows_whatever_the_shards(toy: Path, tmp_path: Path) -> None:
    by = ["operator", "split"]
    drawn = sample_strata(toy, "negatives", by, 5, 3)
    other = write_run(tmp_path / "other", CAPTIONS, NEGATIVES, images=5)
    assert ids(drawn) == ids(sample_strata(other, "negatives", by, 5, 3))
    strata = itertools.product(("noun", "numeral"), ("test", "train"))
    assert {stratum: len(found) for stratum, found in drawn.items()} == dict.fromkeys(strata, 5)
    written = {row["negative_id"]: row for row in NEGATIVES}
    for stratum, row in ((stratum, row) for stratum, found in drawn.items() for row in found):
        original = written[row["negative_id"]]
        assert tuple(row[name] for name in by) == stratum
        assert all(row[name] == original[name] for name in (*by, "caption_id", "caption", "text", "edits"))


def test_images_differ_while_there_are_any_left(toy: Path) -> None:
    (some,) = sample_strata(toy, "negatives", ["operator"], 30, only={"operator": ("noun",)}).values()
    assert len({row["image_id"] for row in some[:24]}) == 24 and len({row["negative_id"] for row in some}) == 30
    (everything,) = sample_strata(toy, "negatives", ["operator"], 10_000, only={"operator": ("noun",)}).values()
    mine = sorted(row["negative_id"] for row in NEGATIVES if row["operator"] == "noun")
    assert sorted(row["negative_id"] for row in everything) == mine and everything[:30] == some
    first = [sample_strata(toy, "negatives", ["operator"], 1, seed)["noun",][0] for seed in range(12)]
    counts = Counter(row["image_id"] for row in first)
    assert len(counts) >= 6 and max(counts.values()) <= 4  # of 24 images; 0.5 expected of each
