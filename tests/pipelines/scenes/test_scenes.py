"""The drawn world: scenes, pictures, captions, the judge, the run that they make, and pictures of negatives."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise, permutations
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
from negcap.pipelines.scenes.judge import LEFT, RIGHT, SceneVerdict, judge, relation_holds, scene_of, scene_row
from negcap.pipelines.scenes.reader import UnreadError, claims, read
from negcap.pipelines.scenes.report import OperatorCounts, counts, judge_run
from negcap.pipelines.scenes.world import COLOURS, KINDS, RELATIONS, SIDE, Scene, Thing, compose
from tests.cases import cases_of
from tests.conftest import HERE, made_once
from tests.tables import content, replace_shard, rows_of

SENTENCES = cases_of(__file__, "sentences.toml")
SCENES = [compose(Random(f"test {number}")) for number in range(80)]


def thing(kind: str, colour: str, slot: str, box: tuple[int, int, int, int], group: int, **more: object) -> Thing:
    return Thing(kind, colour, "", "", "", slot, group, *box)._replace(**more)  # type: ignore[arg-type]


DOG = thing("dog", "black", "under", (90, 164, 130, 186), 2, pose="sleep")
# A brown table; three red cups on it; a sleeping black dog under it; to its left a girl with a blue balloon, to its
# right a small white striped ball.
TABLE = Scene(
    (
        thing("table", "brown", "", (66, 132, 158, 186), 0),
        *(thing("cup", "red", "on", (left, 114, left + 18, 132), 1) for left in (76, 99, 122)),
        DOG,
        thing("girl", "", "left", (30, 130, 55, 186), 3, pose="stand", holds=6),
        thing("balloon", "blue", "left", (20, 120, 38, 154), 103, held=5),
        thing("ball", "white", "right", (165, 168, 183, 186), 4, size="small", pattern="striped"),
    ),
    "indoors",
)
# Two red cups on a brown table, a black dog sitting to the left of it.
CUPS = Scene((*TABLE.things[:3], DOG._replace(slot="left", left=20, top=150, right=60, pose="sit")), "indoors")


def test_every_form_of_caption_is_true_of_its_scene() -> None:
    for number, scene in enumerate(SCENES):
        rng = Random(number)
        for group in scene.groups:
            for text in filter(None, (sentence(form, scene, group, rng) for form in dict.fromkeys(FORMS))):
                assert judge(text, scene).verdict is SceneVerdict.TRUE, f"{text} of {scene}"


def test_captions_are_five_distinct_sentences_which_are_false_of_other_scenes() -> None:
    false = []
    for number, (scene, other) in enumerate(pairwise(SCENES)):
        texts = captions(scene, Random(number))
        assert len(set(texts)) == 5 and all(text[0].isupper() and "  " not in text for text in texts)
        false += [judge(text, other).verdict is SceneVerdict.FALSE for text in texts]
    assert sum(false) > 0.97 * len(false)


@pytest.mark.parametrize("verdict", SENTENCES["verdicts"])
def test_the_judge_knows_what_is_true(verdict: str) -> None:
    texts = SENTENCES["verdicts"][verdict]
    assert {text: judge(text, TABLE).verdict.value for text in texts} == dict.fromkeys(texts, verdict)


def test_the_judge_says_why_it_cannot_decide() -> None:
    assert judge("Three giraffes are on a table.", TABLE).reason == "unknown word: giraffes"
    assert judge("Three cups are near a table.", TABLE).reason == "opinions differ"
    with pytest.raises(UnreadError, match="not a sentence"):
        read("on table on")


def test_what_a_sentence_with_a_denial_claims() -> None:
    for text, expected in SENTENCES["claims"].items():
        assert [("+" if claim.true else "-") + claim.text for claim in claims(text) or ()] == expected


def test_relations_do_not_contradict_each_other() -> None:
    for scene in SCENES:
        for first, second in permutations(range(len(scene.things)), 2):
            true = {name for name in RELATIONS if relation_holds(name, scene, first, second)}
            back = {name for name in RELATIONS if relation_holds(name, scene, second, first)}
            assert not (true & back) - {"next to", "beside", "near", "by", "close to", "alongside"}
            assert not ({LEFT[0], RIGHT[0]} <= true or {"on", "under"} <= true or {"in", "behind"} <= true)
            assert (LEFT[0] in true) == (RIGHT[0] in back)


def test_a_scene_survives_its_table() -> None:
    assert all(scene_of(scene_row("x", "train", scene, "0")) == scene for scene in (*SCENES, TABLE))
    row: dict[str, Any] = scene_row("x", "test", TABLE, "0")
    assert {"object": "cup", "count": 3} in row["counts"]
    assert {"subject": 4, "relation": "under", "object": 0} in row["relations"]
    assert {"subject": 5, "relation": "hold", "object": 6} in row["relations"]


def test_everything_is_drawn_inside_the_picture_and_in_its_colour() -> None:
    for scene in SCENES:
        pixels = np.asarray(draw(scene)).astype(int)
        assert pixels.shape == (SIDE, SIDE, 3)
        for thing in scene.things:
            assert 0 <= thing.left and 0 <= thing.top and thing.right <= SIDE and thing.bottom <= SIDE
            if thing.colour and not thing.slot.startswith(("behind", "in")):
                part = pixels[thing.top : thing.bottom, thing.left : thing.right]
                assert (abs(part - COLOURS[thing.colour]).sum(axis=-1) < 60).mean() > 0.02, thing
    assert {thing.kind for scene in SCENES for thing in scene.things} == set(KINDS)


def test_a_pattern_is_drawn_on_its_thing_alone() -> None:
    *others, ball = TABLE.things
    plain = np.asarray(draw(TABLE._replace(things=(*others, ball._replace(pattern="")))))
    for pattern in ("striped", "spotted"):
        marked = np.asarray(draw(TABLE._replace(things=(*others, ball._replace(pattern=pattern)))))
        changed = np.any(marked != plain, axis=-1)
        inside = changed[ball.top : ball.bottom, ball.left : ball.right]
        assert 0.1 < inside.mean() < 0.7 and changed.sum() == inside.sum()


def test_pictures_and_their_features_are_always_the_same_and_not_dead() -> None:
    pictures, again = ([draw(compose(Random(f"test {n}"))) for n in range(30)] for _ in range(2))
    assert [png(picture) for picture in pictures] == [png(picture) for picture in again]
    pooled, grid = encode(pictures)
    assert (pooled.shape, grid.shape) == ((30, *POOLED), (30, *GRID))
    alone = encode(pictures[2:3])
    assert np.allclose(alone.pooled[0], pooled[2], atol=1e-4) and np.allclose(alone.regions[0], grid[2], atol=1e-4)
    assert np.isfinite(pooled).all() and (pooled.std(axis=0) > 0.2).mean() > 0.9


@pytest.mark.parametrize(("caption", "negative"), SENTENCES["counterparts"])
def test_the_negative_is_true_of_the_counterpart_and_the_caption_false(caption: str, negative: str) -> None:
    assert (judge(caption, CUPS).verdict, judge(negative, CUPS).verdict) == (SceneVerdict.TRUE, SceneVerdict.FALSE)
    other = counterpart(CUPS, caption, negative, Random(0))
    assert other is not None
    assert judge(negative, other).verdict is SceneVerdict.TRUE
    assert judge(caption, other).verdict is (SceneVerdict.MISCOUNTED if "Three" in negative else SceneVerdict.FALSE)
    assert draw(other).tobytes() != draw(CUPS).tobytes()
    assert other == counterpart(CUPS, caption, negative, Random(0))


def test_what_no_small_change_makes_true_has_no_counterpart() -> None:
    for negative in ("A black elephant is next to a table.", "A dog in a car."):
        assert counterpart(CUPS, "A black dog is next to a table.", negative, Random(0)) is None


def scenes(*arguments: object) -> int:
    return main(["scenes", *map(str, arguments), "--quiet"])


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 drawn scenes with the negatives of every operator; copy it to change it."""

    def make(run: Path) -> None:
        assert scenes("--output", run, "--images", 40) == 0
        assert main(["build", "--output", str(run), "--preset", "all", "--set", "lexicon=reference", *HERE]) == 0

    return made_once(tmp_path_factory, "scenes", make)


def test_the_run_holds_all_that_later_verbs_need(world: Path) -> None:
    names = ("captions", "features", "features_grid", "scenes")
    tables = {name: pa.concat_tables(read_table(world, name)) for name in names}
    ids = tables["scenes"]["image_id"].to_pylist()
    assert tables["captions"].num_rows == 200 and set(tables["captions"]["image_id"].to_pylist()) == set(ids)
    assert tables["features"]["image_id"].to_pylist() == tables["features_grid"]["image_id"].to_pylist() == ids
    splits = tables["scenes"]["split"].to_pylist()
    assert [splits.count(split) for split in ("train", "val", "test")] == [30, 4, 6]
    assert (world / "images" / f"{ids[-1]}.png").is_file()
    assert json.loads(tables["features"].schema.metadata[b"shape"]) == list(POOLED)
    assert main(["info", str(world), "--verify"]) == 0


@pytest.fixture(scope="module")
def tallies(world: Path) -> dict[str, OperatorCounts]:
    return counts(judge_run(world))


def test_negatives_of_scenes_are_false(tallies: dict[str, OperatorCounts]) -> None:
    assert (tallies["captions"]["rows"], tallies["captions"]["true"]) == (200, 200)
    least = dict.fromkeys("noun numeral preposition object attribute relation swap_attribute".split(), (20, 0.99))
    least |= {"negation": (60, 1), "true_negation": (100, 1)}
    for operator, (rows, share) in least.items():
        assert tallies[operator]["rows"] - tallies[operator]["undecided"] >= rows, operator
        assert (tallies[operator]["share"] or 0) >= share, operator
    assert tallies["shuffle"]["share"] is not None and tallies["true_negation"]["should_be"] == "true"


def test_a_true_negative_is_found_and_shown(world, tallies, tmp_path, capsys):
    run = Path(shutil.copytree(world, tmp_path / "run"))
    negatives = next(read_table(run, "negatives"))
    nouns = negatives.filter(pc.equal(negatives["operator"], "noun"))
    caption = nouns["caption"][0].as_py()  # true as its own negative
    texts = pa.array([caption, *nouns["text"].to_pylist()[1:]])
    replace_shard(shard_path(run / "negatives", 0), nouns.set_column(nouns.column_names.index("text"), "text", texts))
    assert main(["judge", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noun"]["true"] == tallies["noun"]["true"] + 1
    assert main(["judge", str(run), "--n", "100"]) == 0
    assert f"→ {caption}" in capsys.readouterr().out


def test_damaged_or_lost_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, few = tmp_path / "run", tmp_path / "few"
    command = ("--output", run, "--images", 6, "--seed")
    assert scenes(*command, 3) == scenes("--output", few, "--images", 3, "--seed", 3) == 0
    whole = content(run)
    assert rows_of(few, "captions") == rows_of(run, "captions")[:15]  # more scenes begin with the same
    (run / "images" / "scene_000004.png").unlink()
    (run / "features" / "part-00000.parquet").write_bytes(b"PAR1")
    assert main(["info", str(run), "--verify"]) == 1
    assert scenes(*command, 3) == 0 and content(run) == whole
    assert scenes(*command, 4) == 2 and "seed was 3, is now 4" in capsys.readouterr().err


def test_a_run_gets_pictures_of_negatives_and_winoground_s_pairs(world: Path, tmp_path: Path) -> None:
    run, pairs = Path(shutil.copytree(world, tmp_path / "run")), tmp_path / "pairs"
    command = ["counterparts", str(run), "--operator", "noun", "--share", "0.2", "--quiet"]
    assert main([*command, "--winoground", str(pairs)]) == 0
    rows = rows_of(run, "counterparts")
    lines = [json.loads(line) for line in (pairs / "examples.jsonl").read_text().splitlines()]
    texts = [(line["caption_0"], line["caption_1"]) for line in lines]
    assert rows and texts == [(row["caption"], row["text"]) for row in rows]
    assert all((pairs / "images" / line[name]).is_file() for line in lines for name in ("image_0", "image_1"))
    picture = run / "images" / rows[0]["image"]
    whole = picture.read_bytes()
    picture.write_bytes(whole[:100])  # drawn anew, as it is damaged
    assert main(command) == 0
    assert picture.read_bytes() == whole
