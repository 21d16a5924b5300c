"""Refining: planted cues vanish, the same input gives the same rows, bad input is named."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from negcap.pipelines.cli import main
from negcap.pipelines.engine.errors import StageError
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.engine.tables import verify
from negcap.pipelines.quality.bias.baselines import TextPair, blind
from negcap.pipelines.quality.bias.measure import BlindConfig, measure_run
from negcap.pipelines.quality.selection import pool, select
from negcap.pipelines.stages.refine import RefineConfig, best, both_ways, groups_of, refine, yields
from negcap.pipelines.tables.pairs import p_good
from negcap.schemas.negatives import VERDICTS
from tests.runs import caption_row, negative_row, write_run
from tests.tables import content, rows_of, write_table

THINGS = "dog cat bus tree house boat horse bird chair lamp".split()
WORDS = "red green blue tall short old young wet dry warm".split()
SHARDS = 3


def corpus(images: int, seed: int = 0) -> list[tuple[str, str]]:
    """Two captions an image, (text, image); dogs are common, lamps are rare."""
    rng = Random(seed)
    weights = range(len(THINGS), 0, -1)
    return [
        (f"A {rng.choice(WORDS)} {rng.choices(THINGS, weights)[0]} by the {rng.choice(WORDS)} wall.", str(image))
        for image in range(images)
        for _ in range(2)
    ]


Make = Callable[[str, Random, int], list[str]]


def uniform(caption: str, rng: Random, candidates: int) -> list[str]:
    """Negatives that replace the noun by any other, however rare: the frequent noun is the true one."""
    noun = caption.split()[2]
    others = rng.sample([thing for thing in THINGS if thing != noun], candidates)
    return [caption.replace(noun, other, 1) for other in others]


def cued(share: float, old: str, *new: str) -> Make:
    """The same, a share of them with one of the texts `new` in place of `old`."""

    def make(caption: str, rng: Random, candidates: int) -> list[str]:
        texts = uniform(caption, rng, candidates)
        return [text.replace(old, rng.choice(new)) if rng.random() < share else text for text in texts]

    return make


marked = cued(0.75, "wall", "zebra")  # with a word that no true caption has
longer = cued(0.7, " wall", " long wall", " wide wall")
untidy = cued(0.5, ".", " .")


def table(captions: list[tuple[str, str]], negatives: list[list[str]], true: list[list[str]] | None = None) -> pa.Table:
    """Candidates as `read_rows` reads them; true: what each is paired with, None for its caption."""
    rows = [
        {"caption_id": f"{n:05d}", "image_id": image, "text": text, "negative": negative, "caption": other}
        for n, ((text, image), some) in enumerate(zip(captions, negatives, strict=True))
        for negative, other in zip(some, true[n] if true else [text] * len(some), strict=True)
    ]
    return pa.Table.from_pylist([{**row, "plausibility": None} for row in rows])


@pytest.mark.parametrize(("make", "baselines", "raw", "kept"), [
    (uniform, ("word log-odds", "language model"), 60, 0.6),
    (marked, ("n-gram regression",), 80, 0.25),
    (longer, ("shorter is true",), 75, 0.3),
    (untidy, ("format rule",), 70, 0.4),
])  # fmt: skip
def test_a_planted_cue_vanishes(make, baselines, raw, kept):
    captions = corpus(600)
    rng = Random(1)
    negatives = [make(text, rng, 4) for text, _ in captions]
    before = [TextPair(text, some[0], image) for (text, image), some in zip(captions, negatives, strict=True)]
    measured = blind("before", before).baselines
    assert min(measured[name].percent for name in baselines) > raw
    candidates = pool(table(captions, negatives))
    chosen = select(candidates)
    rows = [(i, row - candidates.start[i]) for i, row in enumerate(chosen) if row >= 0]
    assert all(0 <= draw < len(negatives[i]) for i, draw in rows)
    after = blind("after", [TextPair(captions[i][0], negatives[i][draw], captions[i][1]) for i, draw in rows])
    assert all(42 <= told.percent <= 58 for told in after.baselines.values()), after.baselines
    assert len(rows) >= kept * len(captions)


def toy(run: Path, make: Make = marked, images: int = 60, operators: tuple[str, ...] = ("noun", "verb")) -> Path:
    """A finished run, half of it the split train; the operator paraphrase makes positives."""
    captions = []
    negatives = []
    rng = Random(2)
    for n, (text, image) in enumerate(corpus(images)):
        caption = caption_row(text, image, n % 2, "train" if int(image) < images // 2 else "test")
        captions.append(caption)
        for operator in (*operators, "paraphrase"):
            family = "positive" if operator == "paraphrase" else "noun"
            for draw, negative in enumerate(make(text, rng, 4)):
                words = {"replaced": text.split()[2], "replacement": negative.split()[2]}
                negatives.append(negative_row(caption, operator, negative, draw, family=family, **words))
    return write_run(run, shards=SHARDS, captions=captions, negatives=negatives)


def run_refine(run: Path, overwrite: bool = False, group_rows: int = 10**7, **config: object) -> dict[str, int]:
    return refine(run, RefineConfig(**config), Execution(overwrite=overwrite), group_rows)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return toy(tmp_path / "run")


def test_a_run_gets_a_table_of_its_own_rows(run, capsys):
    assert main(["refine", str(run), "--scheduler", "synchronous", "--quiet"]) == 0
    counts = run_refine(run)
    assert yields(counts, 120) in capsys.readouterr().out and "keeps none" not in yields(counts, 120)
    kept, made = rows_of(run, "refined"), rows_of(run, "negatives")
    assert all(row in made for row in kept)
    assert len({(row["caption_id"], row["operator"]) for row in kept}) == len(kept)
    assert {row["operator"] for row in kept} == {"noun", "verb"}
    assert counts["noun.captions"] == counts["verb.captions"] == counts["paraphrase.captions"] == 120
    assert counts["noun.kept"] == sum(row["operator"] == "noun" for row in kept) > 20
    assert not verify(run).problems
    assert set(measure_run(run, BlindConfig(table="refined")).reports) == {"noun", "verb"}


def test_splits_and_operators_are_chosen_and_what_others_would_add_is_told(run):
    counts = run_refine(run, splits=("test",))
    assert {row["split"] for row in rows_of(run, "refined")} == {"test"} and counts["noun.captions"] == 60
    counts = run_refine(run, overwrite=True, operators=("verb",))
    assert {row["operator"] for row in rows_of(run, "refined")} == {"verb"}
    assert counts["noun.more"] == 120 - counts["left"] > 0
    assert f"--operator noun would cover at most {counts['noun.more']} more" in yields(counts, 120)


def test_a_number_per_caption_is_chosen_over_all_operators(run):
    counts = run_refine(run, per_caption=2)
    refined = rows_of(run, "refined")
    kept = Counter(row["caption_id"] for row in refined)
    assert max(kept.values()) == 2 and counts["left"] == len(kept) > 60
    assert len({row["negative_id"] for row in refined}) == kept.total()  # two different ones
    assert counts["noun.kept"] + counts["verb.kept"] == kept.total()


def test_the_best_are_the_most_probably_sensible_and_false():
    rows = pa.table({
        "caption_id": [*"aaabbb"],
        "row": [*range(6)],
        "operator": ["noun"] * 5 + ["negation"],
        "p_unnatural": [0.5, None, 0.2, 0.1, 0.1, 0.0],
        "p_true": [0.0, 0.2, None, 0.5, 0.1, 0.0],
        "p_compatible": [0.0, 0.5, None, 0.0, 0.0, 0.0],
    })  # fmt: skip
    assert p_good(rows).tolist() == pytest.approx([0.5, 0.4, 0.8, 0.45, 0.81, 0.61])
    assert best(rows, 2)["row"].to_pylist() == [2, 0, 4, 5] and best(rows, 1)["row"].to_pylist() == [2, 4]


def test_a_second_run_changes_nothing_and_mends_what_is_damaged(run):
    counts = run_refine(run)
    made = content(run)
    times = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert run_refine(run) == counts
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == times
    (run / "refined" / "part-00001.parquet").write_bytes(b"cut")
    assert run_refine(run) == counts
    assert content(run) == made


def test_a_large_table_is_refined_in_groups_of_shards(run, tmp_path):
    assert groups_of([5, 5, 5], 10) == [range(0, 2), range(2, 3)]
    assert groups_of([5, 50, 5, 5], 10) == [range(0, 1), range(1, 2), range(2, 4)]
    counts = run_refine(run, group_rows=1000)  # two shards of 480, and one
    kept, made = rows_of(run, "refined"), rows_of(run, "negatives")
    assert all(row in made for row in kept)
    assert counts["noun.captions"] == 120 and counts["noun.kept"] == sum(row["operator"] == "noun" for row in kept)
    assert min(sum(int(row["image_id"]) // 40 == part for row in kept) for part in (0, 1)) > 10
    run_refine(toy(tmp_path / "whole"))
    assert rows_of(tmp_path / "whole", "refined") != kept


def test_only_what_readers_accept_is_kept(run):
    made = rows_of(run, "negatives")
    texts = {name: "" for name in VERDICTS.names if VERDICTS.field(name).type == pa.string()}
    verdict = {**dict.fromkeys(VERDICTS.names), **texts, "odd": "neither", "both_true": False}
    accepted = {row["negative_id"] for row in made[::2]}
    write_table(
        run, "verdicts", pa.Table.from_pylist([{**verdict, "negative_id": name} for name in accepted], VERDICTS)
    )
    run_refine(run, vetted=True)
    kept = {row["negative_id"] for row in rows_of(run, "refined")}
    assert kept and kept <= accepted


def test_flows_of_numerals_run_both_ways(tmp_path):
    run = toy(tmp_path / "run", make=uniform, operators=("noun", "numeral"))
    run_refine(run)
    numerals = [row for row in rows_of(run, "refined") if row["operator"] == "numeral"]
    kept = Counter((row["replaced"], row["replacement"]) for row in numerals)
    assert len(numerals) > 20
    apart = [abs(kept[new, old] - n) / (kept[new, old] + n) for (old, new), n in kept.items()]
    assert sum(apart) / len(apart) < 0.7


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"))), st.integers(0, 9))
def test_both_ways_keeps_only_what_has_a_match_and_neither_way_more_but_for_chance(replacements, seed):
    before, kept = Counter(replacements), both_ways(replacements, seed)
    after = Counter(replacements[position] for position in kept)
    assert len(set(kept)) == len(kept)
    for (old, new), n in after.items():
        assert old != new and n <= before[old, new] and n <= 2 * before[new, old]
    many = both_ways([("a", "b")] * 400 + [("b", "a")] * 400, seed)
    assert 350 <= sum(position < 400 for position in many) != len(many) / 2


def test_too_few_images_keep_nothing(tmp_path):
    counts = run_refine(toy(tmp_path / "small", images=9))
    assert counts["noun.captions"] == 18 and "noun.kept" not in counts
    said = yields(counts, 18)
    assert "noun   " in said and "0.0 %" in said and "captions with a negative left: 0 of 18" in said
    assert "noun keeps none: it has negatives for 9 images" in said


@pytest.mark.parametrize("config, message", [
    ({"operators": ("shuffle",)}, "operator must be one of noun, verb in .*negatives, was: shuffle"),
    ({"splits": ("val",)}, "split must be one of 'test', 'train' in .*negatives, was: 'val'"),
])  # fmt: skip
def test_what_the_negatives_lack_is_named_and_nothing_is_written(config, message, run):
    with pytest.raises(ValueError, match=message):
        run_refine(run, **config)
    assert not list(run.glob("refined/*.parquet"))


def test_what_cannot_be_refined_is_named_and_nothing_is_written(run, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise ValueError("texts must be few")

    with pytest.raises(ValueError, match="has no negatives to refine"):
        run_refine(toy(tmp_path / "only", operators=()))
    with (
        monkeypatch.context() as patch,
        pytest.raises(StageError, match="refine stopped at noun: .* texts must be few"),
    ):
        patch.setattr("negcap.pipelines.quality.selection.pool", fail)
        run_refine(run)
    assert not list(run.glob("refined/*.parquet"))


def test_each_candidate_is_paired_with_its_own_true_text():
    """Beside their captions, denials are told by "no"; beside true denials of other things they are not."""
    captions = corpus(150)
    denials = [
        [text.replace(" by ", f" and no {thing} by ") for thing in (other, "cup")]
        for (text, _), other in zip(captions, THINGS * 30, strict=True)
    ]
    alone = select(pool(table(captions, denials)))
    beside = select(pool(table(captions, denials, [some[::-1] for some in denials])))
    assert (alone >= 0).sum() < 0.1 * len(captions) < 0.6 * len(captions) < (beside >= 0).sum()
