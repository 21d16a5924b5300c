"""The drawn world: scenes, pictures, captions, the judge, the run that they make, and pictures of negatives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import shard_path
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.scenes.captions import FORMS, captions, sentence
from negcap.pipelines.scenes.counterparts import counterpart
from negcap.pipelines.scenes.draw import GRID, POOLED, draw, encode, png
from negcap.pipelines.scenes.judge import LEFT, RIGHT, SceneVerdict, holds, judge, scene_of, scene_row
from negcap.pipelines.scenes.reader import UnreadError, claims, read
from negcap.pipelines.scenes.report import counts, judge_run
from negcap.pipelines.scenes.world import COLOURS, KINDS, RELATIONS, SIDE, Scene, Thing, compose
from tests.conftest import made_once
from tests.tables import replace_shard, rows_of

SCENES = [compose(Random(f"test {number}")) for number in range(150)]


def thing(kind: str, colour: str, slot: str, box: tuple[int, int, int, int], group: int, **more: object) -> Thing:
    return Thing(kind, colour, "", "", "", slot, group, *box)._replace(**more)  # type: ignore[arg-type]


DOG, BROWN = thing("dog", "black", "under", (90, 164, 130, 186), 2, pose="sleep"), (66, 132, 158, 186)
# A brown table; three red cups on it; a sleeping black dog under it; to its left a girl with a blue balloon, to its
# right a small white striped ball.
TABLE = Scene(
    (
        thing("table", "brown", "", BROWN, 0),
        *(thing("cup", "red", "on", (left, 114, left + 18, 132), 1) for left in (76, 99, 122)),
        DOG,
        thing("girl", "", "left", (30, 130, 55, 186), 3, pose="stand", holds=6),
        thing("balloon", "blue", "left", (20, 120, 38, 154), 103, held=5),
        thing("ball", "white", "right", (165, 168, 183, 186), 4, size="small", pattern="striped"),
    ),
    "indoors",
)
# Two red cups on a brown table, a black dog sitting to the left of it.
SITTING = DOG._replace(slot="left", left=20, top=150, right=60, pose="sit")
CUPS = Scene((*TABLE.things[:3], SITTING), "indoors")
VERDICTS = {
    "true": """Three red cups are on a brown table. | There are 3 cups on top of a table. | Cups are on a table.
        A table with three red cups on it. | On the table are three red cups. | The three cups on the table are red.
        A table is under three cups. | A dog lies beneath the table and three cups are on the table.
        A sleeping dog and a table. | A girl holding a blue balloon stands next to a table. | Three cups on the table
        A girl is to the left of a small striped ball. | Three cups are on a table, while a dog is under it.
        A black dog with no cats nearby. | A black dog is sleeping, not standing, under a table.
        There is no cat under a table. | There are no cats in the picture. | There is a cup but no cats in the picture.
        """,
    "false": """Three red hats are on a brown table. | Three blue cups are on a brown table.
        Four red cups are on a brown table. | Three red cups are under a brown table. | A girl holds a ball.
        Three red cups are next to a brown table. | A brown table is on three red cups. | A brown cup and a red table.
        A table with three red cups under it. | The three cups on the table are white. |
        A large ball is next to a table. | A black dog is standing under a table.
        A boy holding a blue balloon stands next to a table.
        A girl is to the right of a small striped ball. | A spotted ball is next to a table.
        Three cups and a cat are on a table. | Three cups are on a table, while a dog is on it.
        A black dog with no balls nearby. | A white dog with no cats nearby. | There are no dogs in the picture.
        A girl with a ball but no dogs nearby. | A cat, not a dog, is sleeping under a table.
        There is no dog under a table.""",
    "miscounted": "Two red cups are on a brown table. | A cup is on a table.",  # true in logic only
    "undecided": """Three red cups are near a brown table. | A black dog is behind a table. | A table with a girl.
        A large dog is under a table. | Three giraffes are on a brown table.
        Three red cups are gleaming on a table.""",
}


def test_every_form_of_caption_is_true_of_its_scene() -> None:
    for at, scene in enumerate(SCENES):
        rng = Random(at)
        for group in scene.groups * 2:
            for text in filter(None, (sentence(form, scene, group, rng) for form in dict.fromkeys(FORMS))):
                judged = judge(text, scene)
                assert judged.verdict is SceneVerdict.TRUE, f"{text} of {scene}"


def test_captions_are_five_distinct_sentences_which_are_false_of_other_scenes() -> None:
    false = []
    for number, (scene, other) in enumerate(zip(SCENES[:60], SCENES[1:], strict=False)):
        made = captions(scene, Random(number))
        assert len(set(made)) == 5
        assert all(text[0].isupper() and "  " not in text for text in made)
        false += [judge(text, other).verdict is SceneVerdict.FALSE for text in made]
    assert sum(false) > 0.97 * len(false)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_judge_knows_what_is_true(verdict: str) -> None:
    texts = [text.strip() for text in VERDICTS[verdict].replace("\n", "|").split("|") if text.strip()]
    assert {text: judge(text, TABLE).verdict.value for text in texts} == dict.fromkeys(texts, verdict)


def test_the_judge_says_why_it_cannot_decide() -> None:
    assert judge("Three giraffes are on a table.", TABLE).reason == "unknown word: giraffes"
    assert judge("Three cups are near a table.", TABLE).reason == "opinions differ"
    with pytest.raises(UnreadError, match="not a sentence"):
        read("on table on")


CLAIMS = {  # + is claimed to be true, - to be false
    "A cat sits with no red balls in sight.": ["+a cat sits", "-there is a red ball"],
    "A cat with a dog but no cups nearby.": ["+a cat", "+there is a dog", "-there is a cup"],
    "A table without a cup on it.": ["+a table on it", "-a table with a cup on it"],
    "A girl with no ball stands.": ["+a girl stands", "-a girl with a ball stands"],
    "A cat but no dog.": ["+a cat", "-there is a dog"],
    "There are no red vases on a box.": ["-there is a red vase on a box"],
    "A dog, not an apple, lies on a bed.": ["+a dog lies on a bed", "-an apple lies on a bed"],
    "A dog lies on an umbrella, not a bed.": ["+a dog lies on an umbrella", "-a dog lies on a bed"],
    "A dog is lying, not sitting, on a bed.": ["+a dog is lying on a bed", "-a dog is sitting on a bed"],
    "There is a dog but no cats in the picture.": ["+there is a dog", "-there is a cat"],
    "A dog sits.": [],
}


def test_what_a_sentence_with_a_denial_claims() -> None:
    for text, expected in CLAIMS.items():
        assert [("+" if one.true else "-") + one.text for one in claims(text) or ()] == expected


def test_relations_do_not_contradict_each_other() -> None:
    for scene in SCENES:
        for one in range(len(scene.things)):
            for other in range(len(scene.things)):
                true = {name for name in RELATIONS if holds(name, scene, one, other)}
                back = {name for name in RELATIONS if holds(name, scene, other, one)}
                if one == other:
                    assert not true
                assert not (true & back) - {"next to", "beside", "near", "by", "close to", "alongside"}
                assert not ({LEFT[0], RIGHT[0]} <= true or {"on", "under"} <= true or {"in", "behind"} <= true)
                assert (LEFT[0] in true) == (RIGHT[0] in back)


def test_a_scene_survives_its_table() -> None:
    for scene in (*SCENES, TABLE):
        made = scene_row("scene_000001", "train", scene, "0")
        assert scene_of(made) == scene
        assert sum(count["count"] for count in made["counts"]) == len(scene.things)
    assert {"subject": 4, "relation": "under", "object": 0} in scene_row("x", "test", TABLE, "0")["relations"]
    assert {"subject": 5, "relation": "hold", "object": 6} in scene_row("x", "test", TABLE, "0")["relations"]


def test_everything_is_drawn_inside_the_picture_and_in_its_colour() -> None:
    for scene in SCENES:
        pixels = np.asarray(draw(scene)).astype(int)
        assert pixels.shape == (SIDE, SIDE, 3)
        for one in scene.things:
            assert 0 <= one.left and 0 <= one.top and one.right <= SIDE and one.bottom <= SIDE
            if one.colour and not one.slot.startswith("behind") and one.slot != "in":
                part = pixels[one.top : one.bottom, one.left : one.right]
                like = (abs(part - COLOURS[one.colour]).sum(axis=-1) < 60).mean()
                assert like > 0.02, f"{one} has {like}"
    assert {one.kind for scene in SCENES for one in scene.things} == set(KINDS)


def test_pictures_and_their_features_are_always_the_same_and_not_dead() -> None:
    one, other = ([draw(compose(Random(f"test {n}"))) for n in range(60)] for _ in range(2))
    assert [png(picture) for picture in one] == [png(picture) for picture in other]
    pooled, grid = encode(one)
    assert (pooled.shape, grid.shape) == ((60, *POOLED), (60, *GRID))
    alone = encode(one[2:3])
    assert np.allclose(alone[0][0], pooled[2], atol=1e-4) and np.allclose(alone[1][0], grid[2], atol=1e-4)
    assert np.isfinite(pooled).all() and (pooled.std(axis=0) > 0.2).mean() > 0.9


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
    assert (judge(caption, CUPS).verdict, judge(negative, CUPS).verdict) == (SceneVerdict.TRUE, SceneVerdict.FALSE)
    other = counterpart(CUPS, caption, negative, Random(0))
    assert other is not None
    assert judge(negative, other).verdict is SceneVerdict.TRUE
    assert judge(caption, other).verdict is (SceneVerdict.MISCOUNTED if "Three" in negative else SceneVerdict.FALSE)
    assert draw(other).tobytes() != draw(CUPS).tobytes()
    assert other == counterpart(CUPS, caption, negative, Random(0))


@pytest.mark.parametrize("negative", ["A black elephant is next to a table.", "A dog in a car."])
def test_what_no_small_change_makes_true_has_no_counterpart(negative: str) -> None:
    assert counterpart(CUPS, "A black dog is next to a table.", negative, Random(0)) is None


def scenes(*arguments: object) -> int:
    return main(["scenes", *(str(argument) for argument in arguments), "--quiet"])


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 drawn scenes with the negatives of every operator; copy it to change it."""

    def make(run: Path) -> None:
        assert scenes("--output", run, "--images", 40) == 0
        command = ["build", "--output", str(run), "--preset", "all", "--set", "lexicon=reference"]
        assert main([*command, "--scheduler", "synchronous", "--quiet"]) == 0

    return made_once(tmp_path_factory, "scenes", make)


def test_the_run_holds_all_that_later_verbs_need(world: Path) -> None:
    tables = {
        name: pa.concat_tables(read_table(world, name)) for name in ("captions", "features", "features_grid", "scenes")
    }
    assert tables["captions"].num_rows == 200
    ids = tables["scenes"]["image_id"].to_pylist()
    assert set(tables["captions"]["image_id"].to_pylist()) == set(ids)
    assert tables["features"]["image_id"].to_pylist() == tables["features_grid"]["image_id"].to_pylist() == ids
    splits = tables["scenes"]["split"].to_pylist()
    assert [splits.count(split) for split in ("train", "val", "test")] == [30, 4, 6]
    assert (world / "images" / f"{ids[-1]}.png").is_file()
    assert json.loads(tables["features"].schema.metadata[b"shape"]) == list(POOLED)
    assert main(["info", str(world), "--verify"]) == 0


@pytest.fixture(scope="module")
def tallies(world: Path) -> dict[str, dict[str, Any]]:
    return counts(judge_run(world))


def test_negatives_of_scenes_are_false(tallies: dict[str, dict[str, Any]]) -> None:
    assert (tallies["captions"]["rows"], tallies["captions"]["true"]) == (200, 200)
    least = dict.fromkeys(("noun", "numeral", "preposition", "object", "attribute", "relation"), (20, 0.99))
    least |= {"swap_attribute": (20, 0.99), "negation": (60, 1), "true_negation": (100, 1)}
    for operator, (rows, share) in least.items():
        assert tallies[operator]["rows"] - tallies[operator]["undecided"] >= rows, operator
        assert tallies[operator]["share"] >= share, operator
    assert tallies["shuffle"]["share"] is not None and tallies["true_negation"]["should_be"] == "true"


def test_a_true_negative_is_found_and_shown(
    world: Path, tallies: dict[str, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(world, tmp_path / "run"))
    negatives = next(read_table(run, "negatives"))
    nouns = negatives.filter(pc.equal(negatives["operator"], "noun"))
    texts = nouns["text"].to_pylist()
    texts[0] = nouns["caption"][0].as_py()  # the caption itself: true
    changed = nouns.set_column(nouns.schema.get_field_index("text"), "text", pa.array(texts))
    replace_shard(shard_path(run / "negatives", 0), changed)
    assert main(["judge", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noun"]["true"] == tallies["noun"]["true"] + 1
    assert main(["judge", str(run), "--n", "100"]) == 0
    assert f"→ {texts[0]}" in capsys.readouterr().out


def test_interrupted_damaged_or_lost_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def made(name: str, images: int, seed: int, *more: str) -> int:
        return scenes("--output", tmp_path / name, "--images", images, "--seed", seed, *more)

    def files(run: Path) -> dict[Path, bytes]:
        return {path.relative_to(run): path.read_bytes() for path in sorted(run.rglob("*.*"))}

    run = tmp_path / "run"
    assert made("run", 12, 3) == made("few", 3, 3) == 0
    first = files(run)
    assert len(first) > 15
    few, more = (pa.concat_tables(read_table(folder, "captions")) for folder in (tmp_path / "few", run))
    assert few["text"].to_pylist() == more["text"].to_pylist()[:15]  # more scenes begin with the same
    (run / "images" / "scene_000004.png").unlink()
    for table in ("scenes", "features"):
        (run / table / "part-00000.parquet").write_bytes(b"PAR1")
    assert main(["info", str(run), "--verify"]) == 1
    assert made("run", 12, 3) == 0 and files(run) == first
    capsys.readouterr()
    assert made("run", 12, 4) == 2
    assert "seed was 3, is now 4 (--overwrite replaces it;" in capsys.readouterr().err
    assert made("run", 12, 4, "--overwrite") == 0 and files(run) != first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scenes", "--output", "{tmp}/run", "--images", "0"], "images must be >= 1, was: 0"),
        (["scenes", "--output", "{tmp}/file"], "the output must be a folder, is a file"),
        (["counterparts", "{tmp}/none"], "must be a run of scenes, has none: negcap scenes makes one"),
        (["judge", "{tmp}/none"], "must be a run of scenes, has none: negcap scenes makes one"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "file").write_text("")
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1


def test_a_run_gets_pictures_of_negatives_and_winoground_s_pairs(world: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(world, tmp_path / "run"))
    command = ["counterparts", str(run), "--operator", "noun", "--share", "0.2", "--quiet"]
    assert main([*command, "--winoground", str(tmp_path / "pairs")]) == 0
    rows = rows_of(run, "counterparts")
    lines = [json.loads(line) for line in (tmp_path / "pairs/examples.jsonl").read_text().splitlines()]
    assert rows and [(one["caption_0"], one["caption_1"]) for one in lines] == [
        (one["caption"], one["text"]) for one in rows
    ]
    assert all((tmp_path / "pairs/images" / line[name]).is_file() for line in lines for name in ("image_0", "image_1"))
    picture = run / "images" / rows[0]["image"]
    whole = picture.read_bytes()
    picture.write_bytes(whole[:100])  # drawn anew, as it is damaged
    assert main(command) == 0
    assert picture.read_bytes() == whole
