"""Pictures in which a negative is true and its caption false."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.scenes.counterparts import counterpart
from negcap.pipelines.scenes.draw import draw
from negcap.pipelines.scenes.judge import Answer, judge
from negcap.pipelines.scenes.world import Scene, Thing


def thing(kind: str, colour: str, slot: str, group: int, *box: int, pose: str = "") -> Thing:
    return Thing(kind, colour, "", "", pose, slot, group, *box)


TABLE = thing("table", "brown", "", 0, 70, 130, 160, 186)
CUPS = [thing("cup", "red", "on", 1, 75 + 25 * at, 110, 95 + 25 * at, 130) for at in range(2)]
DOG = thing("dog", "black", "left", 2, 20, 150, 60, 186, pose="sit")
SCENE = Scene((TABLE, *CUPS, DOG), "indoors")


@pytest.mark.parametrize(
    ("caption", "negative"),
    [
        ("Two red cups are on a brown table.", "Two blue cups are on a brown table."),
        ("Two red cups are on a brown table.", "Two red apples are on a brown table."),
        ("Two red cups are on a brown table.", "Three red cups are on a brown table."),
        ("Two red cups are on a brown table.", "Two red cups are under a brown table."),
        ("A black dog is sitting next to a table.", "A black dog is standing next to a table."),
        ("A black dog is sitting next to a table.", "A black dog is sitting next to a bench."),
        ("A black dog is next to a brown table.", "A brown dog is next to a black table."),
    ],
)
def test_the_negative_is_true_of_the_counterpart_and_the_caption_false(caption: str, negative: str) -> None:
    assert (judge(caption, SCENE).verdict, judge(negative, SCENE).verdict) == (Answer.TRUE, Answer.FALSE)
    other = counterpart(SCENE, caption, negative, Random(0))
    assert other is not None
    assert judge(negative, other).verdict is Answer.TRUE
    assert judge(caption, other).verdict is (Answer.MISCOUNTED if "Three" in negative else Answer.FALSE)
    assert draw(other).tobytes() != draw(SCENE).tobytes()
    assert other == counterpart(SCENE, caption, negative, Random(0))


@pytest.mark.parametrize("negative", ["A black elephant is next to a table.", "A dog in a car."])
def test_what_no_small_change_makes_true_has_no_counterpart(negative: str) -> None:
    assert counterpart(SCENE, "A black dog is next to a table.", negative, Random(0)) is None


def test_a_run_gets_pictures_and_winoground_s_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    for arguments in (
        ["scenes", "--output", str(run), "--images", "8"],
        ["build", "--output", str(run), "--operator", "noun", "--scheduler", "synchronous"],
        ["counterparts", str(run), "--share", "1", "--winoground", str(tmp_path / "pairs")],
    ):
        assert main([*arguments, "--quiet"]) == 0
    assert "pairs of images and captions in" in capsys.readouterr().out
    rows = [row for table in read_table(run, "counterparts") for row in table.to_pylist()]
    lines = [json.loads(line) for line in (tmp_path / "pairs/examples.jsonl").read_text().splitlines()]
    assert [(line["caption_0"], line["caption_1"]) for line in lines] == [(row["caption"], row["text"]) for row in rows]
    assert all((tmp_path / "pairs/images" / line[name]).is_file() for line in lines for name in ("image_0", "image_1"))
    picture = run / "images" / rows[0]["image"]
    whole = picture.read_bytes()
    picture.write_bytes(whole[:100])  # drawn anew, as it is damaged
    assert main(["counterparts", str(run), "--share", "1", "--quiet"]) == 0
    assert picture.read_bytes() == whole


def test_a_run_of_photos_has_no_counterparts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["counterparts", str(tmp_path), "--quiet"]) == 2
    assert "must be a run of negcap scenes, has no table scenes" in capsys.readouterr().err
