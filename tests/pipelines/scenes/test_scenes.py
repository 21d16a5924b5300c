"""The drawn world: scenes, pictures, captions, the judge, and the run that they make."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import shard_path
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.scenes.captions import FORMS, captions, sentence
from negcap.pipelines.scenes.denials import claims
from negcap.pipelines.scenes.draw import draw, png
from negcap.pipelines.scenes.judge import Answer, judge
from negcap.pipelines.scenes.layout import compose
from negcap.pipelines.scenes.network import GRID, POOLED, encode
from negcap.pipelines.scenes.reader import read
from negcap.pipelines.scenes.report import judge_run
from negcap.pipelines.scenes.table import row, scene_of
from negcap.pipelines.scenes.truth import LEFT, RELATIONS, RIGHT, holds
from negcap.pipelines.scenes.words import UnreadError
from negcap.pipelines.scenes.world import COLOURS, KINDS, SIDE, Scene, Thing
from negcap.pipelines.stages.build import VERBS
from tests.conftest import made_once
from tests.tables import replace_shard

SCENES = [compose(Random(f"test {number}")) for number in range(150)]


def thing(kind: str, colour: str, slot: str, box: tuple[int, int, int, int], group: int, **more: object) -> Thing:
    given = {"size": "", "pattern": "", "pose": "", **more}
    return Thing(kind, colour, given.pop("size"), given.pop("pattern"), given.pop("pose"), slot, group, *box, **given)  # type: ignore[arg-type]


# A brown table; three red cups on it; a sleeping black dog under it; to its left a girl with a blue balloon, to its
# right a small white striped ball.
TABLE = Scene(
    (
        thing("table", "brown", "", (66, 132, 158, 186), 0),
        *(thing("cup", "red", "on", (left, 114, left + 18, 132), 1) for left in (76, 99, 122)),
        thing("dog", "black", "under", (90, 164, 130, 186), 2, pose="sleep"),
        thing("girl", "", "left", (30, 130, 55, 186), 3, pose="stand", holds=6),
        thing("balloon", "blue", "left", (20, 120, 38, 154), 103, held=5),
        thing("ball", "white", "right", (165, 168, 183, 186), 4, size="small", pattern="striped"),
    ),
    "indoors",
)


# captions and the judge


@pytest.mark.parametrize("number", range(0, 150, 3))
def test_every_form_of_caption_is_true_of_its_scene(number: int) -> None:
    scene, rng = SCENES[number], Random(number)
    for group in sorted({thing.group for thing in scene.things if 0 < thing.group < 100}):
        for _ in range(3):
            for text in filter(None, (sentence(form, scene, group, rng) for form in dict.fromkeys(FORMS))):
                judged = judge(text, scene)
                assert (judged.verdict, judged.agrees) == (Answer.TRUE, True), f"{text} of {scene}"


def test_captions_are_five_distinct_sentences_for_every_scene() -> None:
    for number, scene in enumerate(SCENES):
        made = captions(scene, Random(number))
        assert len(set(made)) == 5
        assert all(text[0].isupper() and "  " not in text for text in made)


def test_every_scene_has_other_captions_that_are_false_of_it() -> None:
    false = [
        judge(text, scene).verdict is Answer.FALSE
        for number, scene in enumerate(SCENES[:-1])
        for text in captions(SCENES[number + 1], Random(number))
    ]
    assert sum(false) > 0.97 * len(false)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Three red cups are on a brown table.", "true"),
        ("Three cups on the table", "true"),
        ("There are 3 cups on top of a table.", "true"),
        ("Cups are on a table.", "true"),
        ("A table with three red cups on it.", "true"),
        ("On the table are three red cups.", "true"),
        ("The three cups on the table are red.", "true"),
        ("A table is under three cups.", "true"),
        ("A black dog is sleeping under a table.", "true"),
        ("A dog lies beneath the table and three cups are on the table.", "true"),
        ("A sleeping dog and a table.", "true"),
        ("A girl holding a blue balloon stands next to a table.", "true"),
        ("A girl is to the left of a small striped ball.", "true"),
        ("Three cups are on a table, while a dog is under it.", "true"),
        # other things, colours, numbers, places, doings
        ("Three red hats are on a brown table.", "false"),
        ("Three blue cups are on a brown table.", "false"),
        ("Four red cups are on a brown table.", "false"),
        ("Three red cups are under a brown table.", "false"),
        ("Three red cups are next to a brown table.", "false"),
        ("A brown table is on three red cups.", "false"),
        ("A table with three red cups under it.", "false"),
        ("The three cups on the table are white.", "false"),
        ("A black dog is standing under a table.", "false"),
        ("A girl holds a ball.", "false"),
        ("A boy holding a blue balloon stands next to a table.", "false"),
        ("A girl is to the right of a small striped ball.", "false"),
        ("A large ball is next to a table.", "false"),
        ("A spotted ball is next to a table.", "false"),
        ("Three cups and a cat are on a table.", "false"),
        ("Three cups are on a table, while a dog is on it.", "false"),
        ("A brown cup and a red table.", "false"),
        # true in logic only
        ("Two red cups are on a brown table.", "miscounted"),
        ("A cup is on a table.", "miscounted"),
        # denials
        ("A black dog with no cats nearby.", "true"),
        ("A black dog with no balls nearby.", "false"),
        ("A white dog with no cats nearby.", "false"),
        ("A girl with a ball but no dogs nearby.", "false"),
        ("A black dog is sleeping, not standing, under a table.", "true"),
        ("A cat, not a dog, is sleeping under a table.", "false"),
        ("There is no cat under a table.", "true"),
        ("There is no dog under a table.", "false"),
        ("There are no dogs in the picture.", "false"),
        ("There are no cats in the picture.", "true"),
        ("There is a cup but no cats in the picture.", "true"),
        # a matter of opinion, or not of this world
        ("Three red cups are near a brown table.", "undecided"),
        ("A black dog is behind a table.", "undecided"),
        ("A large dog is under a table.", "undecided"),
        ("A table with a girl.", "undecided"),
        ("Three giraffes are on a brown table.", "undecided"),
        ("Three red cups are gleaming on a brown table.", "undecided"),
    ],
)
def test_the_judge_knows_what_is_true(text: str, verdict: str) -> None:
    assert judge(text, TABLE).verdict.value == verdict


def test_the_judge_says_why_it_cannot_decide() -> None:
    assert judge("Three giraffes are on a table.", TABLE).reason == "unknown word: giraffes"
    assert judge("Three cups are near a table.", TABLE).reason == "opinions differ"
    with pytest.raises(UnreadError, match="not a sentence"):
        read("on table on")


@pytest.mark.parametrize(
    ("text", "agrees"),
    [
        ("Three cups are on a table.", True),
        ("Three cups is on a table.", False),
        ("A dog and a cat sit under a table.", True),
        ("On a table is three cups.", False),
        ("There are a cup on a table.", False),
    ],
)
def test_the_reader_hears_whether_verbs_agree(text: str, agrees: bool) -> None:
    assert read(text).agrees is agrees


# truth


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
        made = row("scene_000001", "train", scene, "0")
        assert scene_of(made) == scene
        assert sum(count["count"] for count in made["counts"]) == len(scene.things)
    assert {"subject": 4, "relation": "under", "object": 0} in row("x", "test", TABLE, "0")["relations"]
    assert {"subject": 5, "relation": "hold", "object": 6} in row("x", "test", TABLE, "0")["relations"]


# pictures and features


def test_everything_is_drawn_inside_the_picture_and_in_its_colour() -> None:
    seen = set()
    for scene in SCENES:
        pixels = np.asarray(draw(scene)).astype(int)
        assert pixels.shape == (SIDE, SIDE, 3)
        for one in scene.things:
            assert one.left >= 0
            assert one.top >= 0
            assert one.right <= SIDE
            assert one.bottom <= SIDE
            seen.add(one.kind)
            if one.colour and not one.slot.startswith("behind") and one.slot != "in":
                part = pixels[one.top : one.bottom, one.left : one.right]
                like = (abs(part - COLOURS[one.colour]).sum(axis=-1) < 60).mean()
                assert like > 0.02, f"{one} has {like}"
    assert seen == set(KINDS)


def test_a_scene_without_a_thing_looks_otherwise() -> None:
    for scene in SCENES[:40]:
        without = Scene(scene.things[:-1], scene.setting)
        assert (np.asarray(draw(scene)) != np.asarray(draw(without))).any()


def test_pictures_and_their_features_are_always_the_same() -> None:
    one, other = ([draw(compose(Random(f"test {n}"))) for n in range(6)] for _ in range(2))
    assert [png(picture) for picture in one] == [png(picture) for picture in other]
    pooled, grid = encode(one)
    assert pooled.shape == (6, *POOLED)
    assert grid.shape == (6, *GRID)
    alone = encode(one[2:3])
    assert np.allclose(alone[0][0], pooled[2], atol=1e-4)
    assert np.allclose(alone[1][0], grid[2], atol=1e-4)


def test_features_tell_colour_kind_and_place() -> None:
    def picture(kind: str, colour: str, left: int) -> Image.Image:
        return draw(Scene((thing(kind, colour, "", (left, 140, left + 50, 186), 0),), "indoors"))

    pooled, grid = encode([picture("ball", "red", 20), picture("ball", "blue", 20), picture("ball", "red", 150),
                           picture("box", "red", 20), picture("ball", "red", 20)])  # fmt: skip
    assert np.allclose(pooled[0], pooled[4], atol=1e-4)
    assert all(np.linalg.norm(pooled[0] - pooled[other]) > 1 for other in (1, 2, 3))
    change = np.linalg.norm(grid[0] - grid[1], axis=-1).reshape(7, 7)
    assert change[4:6, 0:3].max() > 5 * change[0:2, 4:].max()


def test_features_are_neither_dead_nor_all_alike() -> None:
    pooled, _ = encode([draw(scene) for scene in SCENES[:60]])
    assert np.isfinite(pooled).all()
    assert (pooled.std(axis=0) > 0.2).mean() > 0.9
    unit = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    assert abs(np.median(unit @ unit.T)) < 0.5


# the run


def scenes(*arguments: object) -> int:
    return main(["scenes", *(str(argument) for argument in arguments), "--quiet"])


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 drawn scenes with the negatives of every operator; copy it to change it."""

    def make(run: Path) -> None:
        assert scenes("--output", run, "--images", 60) == 0
        for verb in VERBS[1:]:
            options = ["--preset", "all"] if verb == "negatives" else []
            assert main([verb, str(run), "--scheduler", "synchronous", "--quiet", *options]) == 0

    return made_once(tmp_path_factory, "scenes", make)


def test_the_run_holds_all_that_later_verbs_need(world: Path) -> None:
    tables = {
        name: pa.concat_tables(read_table(world, name)) for name in ("captions", "features", "features_grid", "scenes")
    }
    assert tables["captions"].num_rows == 300
    ids = tables["scenes"]["image_id"].to_pylist()
    assert set(tables["captions"]["image_id"].to_pylist()) == set(ids)
    assert tables["features"]["image_id"].to_pylist() == tables["features_grid"]["image_id"].to_pylist() == ids
    splits = tables["scenes"]["split"].to_pylist()
    assert [splits.count(split) for split in ("train", "val", "test")] == [45, 6, 9]
    assert (world / "images" / f"{ids[-1]}.png").is_file()
    assert json.loads(tables["features"].schema.metadata[b"shape"]) == list(POOLED)
    assert main(["verify", str(world), "--quiet"]) == 0


def test_negatives_of_scenes_are_false(world: Path) -> None:
    tallies = judge_run(world)
    assert tallies["captions"].answers == {Answer.TRUE: 300}
    for operator in ("noun", "numeral", "preposition", "object", "attribute", "relation", "swap_attribute"):
        tally = tallies[operator]
        assert tally.decided >= 20, operator
        assert tally.right >= 0.99 * tally.decided, operator
    assert tallies["shuffle"].decided
    for operator in ("negation", "true_negation"):
        assert tallies[operator].decided >= 100
        assert tallies[operator].right == tallies[operator].decided, tallies[operator].wrong[:3]


def test_a_true_negative_is_found_and_shown(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(shutil.copytree(world, tmp_path / "run"))
    assert main(["judge", str(run), "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    first = next(read_table(run, "negatives"))
    texts, operators = first["text"].to_pylist(), first["operator"].to_pylist()
    at = operators.index("noun")
    texts[at] = first["caption"][at].as_py()  # the caption itself: true
    changed = first.set_column(first.schema.get_field_index("text"), "text", pa.array(texts))
    replace_shard(shard_path(run / "negatives", 0), changed)
    assert main(["judge", str(run), "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["noun"]["true"] == before["noun"]["true"] + 1
    assert main(["judge", str(run), "--n", "100"]) == 0
    assert f"→ {texts[at]}" in capsys.readouterr().out


def test_interrupted_damaged_or_lost_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert scenes("--output", run, "--images", 12, "--seed", 3) == 0
    files = {path.relative_to(run): path.read_bytes() for path in sorted(run.rglob("*.*"))}
    assert len(files) > 15
    (run / "images" / "scene_000004.png").unlink()
    (run / "scenes" / "part-00000.parquet").write_bytes(b"PAR1")
    (run / "features" / "part-00000.parquet").write_bytes(b"PAR1")
    assert main(["verify", str(run), "--quiet"]) == 1
    assert scenes("--output", run, "--images", 12, "--seed", 3) == 0
    assert files == {path.relative_to(run): path.read_bytes() for path in sorted(run.rglob("*.*"))}
    capsys.readouterr()
    assert scenes("--output", run, "--images", 12, "--seed", 4) == 2
    assert "seed was 3, is now 4 (--overwrite replaces it)" in capsys.readouterr().err
    assert scenes("--output", run, "--images", 12, "--seed", 4, "--overwrite") == 0
    assert files != {path.relative_to(run): path.read_bytes() for path in sorted(run.rglob("*.*"))}


def test_more_scenes_begin_with_the_same(tmp_path: Path) -> None:
    for name, images in (("few", 3), ("more", 7)):
        assert scenes("--output", tmp_path / name, "--images", images) == 0
    few, more = (pa.concat_tables(read_table(tmp_path / name, "captions")) for name in ("few", "more"))
    assert few["text"].to_pylist() == more["text"].to_pylist()[:15]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scenes", "--output", "{tmp}/run", "--images", "0"], "images must be >= 1, was: 0"),
        (["scenes", "--output", "{tmp}/run", "--seed", "-1"], "seed must be >= 0, was: -1"),
        (["scenes", "--output", "{tmp}/file"], "the output must be a folder, is a file"),
        (["judge", "{tmp}/none"], "has no scenes: only a run made by negcap scenes can be judged"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "file").write_text("")
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A cat with no dog nearby.", ["+a cat", "-there is a dog"]),
        ("A cat sits with no red balls in sight.", ["+a cat sits", "-there is a red ball"]),
        ("A cat with two dogs nearby.", ["+a cat", "+there are two dogs"]),
        ("A cat with a dog but no cups nearby.", ["+a cat", "+there is a dog", "-there is a cup"]),
        ("A table without a cup on it.", ["+a table on it", "-a table with a cup on it"]),
        ("A girl with no ball stands.", ["+a girl stands", "-a girl with a ball stands"]),
        ("A cat but no dog.", ["+a cat", "-there is a dog"]),
        ("There are no red vases on a box.", ["-there is a red vase on a box"]),
        ("A dog, not an apple, lies on a bed.", ["+a dog lies on a bed", "-an apple lies on a bed"]),
        ("A dog lies on an umbrella, not a bed.", ["+a dog lies on an umbrella", "-a dog lies on a bed"]),
        ("A dog is lying, not sitting, on a bed.", ["+a dog is lying on a bed", "-a dog is sitting on a bed"]),
        ("There are no cups in the picture.", ["-there is a cup"]),
        ("There is a dog but no cats in the picture.", ["+there is a dog", "-there is a cat"]),
        ("There is a dog in the picture.", ["+there is a dog"]),
        ("A dog sits.", None),
    ],
)
def test_what_a_sentence_with_a_denial_claims(text: str, expected: list[str] | None) -> None:
    made = claims(text)
    assert (made and [("+" if one.true else "-") + one.text for one in made]) == expected
