"""The comparison of models: variants, means and intervals over trainings and images, and what is concluded of them."""

import json
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from negcap.pipelines.cli import main
from negcap.pipelines.models.config import EvaluateConfig
from negcap.pipelines.models.figures import MetricOfTrainings
from negcap.pipelines.models.trainer import compare

SMALL: dict[str, Any] = {
    **{"joint": 8, "word_dim": 6, "batch_size": 16, "epochs": 1, "validation_images": 10, "learning_rate": 0.01},
    **{"min_count": 2},
}
VARIANTS = ("vse++", "vse-c+noun")


@pytest.fixture(scope="module")
def models(english: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    compare.compare(english, folder, VARIANTS, EvaluateConfig(threads=1), {**SMALL, "threads": 1}, 2)
    return folder


@pytest.fixture(scope="module")
def comparison(models: Path) -> dict[str, Any]:
    return json.loads((models / "comparison.json").read_text())


def test_variants() -> None:
    for name, parts in {
        "vse++": ("vse++",),
        "vse-c+noun+numeral": ("vse-c", ("noun", "numeral")),
        "vse-c+noun@paper": ("vse-c", ("noun",), "", "paper"),
        "vse~order@paper": ("vse", (), "order", "paper"),
    }.items():
        assert compare.Variant.parse(name) == compare.Variant(name, *parts)
    for wrong in ("clip", "vse-c+colour", "vse+++", "univse+noun", "", "vse@", "vse@mine", "@paper", "vse~", "vse~l1"):
        with pytest.raises(ValueError) as error:
            compare.Variant.parse(wrong)
        message = str(error.value)
        assert f"was: {wrong}" in message and "+relation" in message and "~order" in message


def test_a_recipe_in_a_name_replaces_that_of_the_comparison() -> None:
    settings = {"run": Path("r"), "margin": 0.3, "alpha": 0.5, "recipe": "house"}  # of which VSE-C has no alpha
    paper = compare.Variant.parse("vse-c@paper").config(0, Path("m"), settings)
    assert (paper.transform, paper.margin) == ("l2", 0.3)


def test_metrics_are_means_over_the_seeds(models: Path, comparison: dict[str, Any]) -> None:
    assert list(comparison) == [*VARIANTS]
    for name, entry in comparison.items():
        each = [json.loads((models / f"{name}-{n}" / "evaluation" / "evaluation.json").read_text()) for n in (0, 1)]
        assert entry["seeds"] == 2 and [evaluation["trained_with_seed"] for evaluation in each] == [0, 1]
        for mean, *path in (
            (entry["rsum"]["value"], "retrieval", "rsum"),
            (entry["retrieval"]["plain t2i"]["R@5"]["value"], "retrieval", "t2i R@5"),
            (entry["retrieval"]["vse-c:noun i2t"]["mean rank"], "vse-c", "noun", "mean rank"),
            (entry["pairwise"]["noun"]["known"]["value"], "pairwise", "noun", "known", "accuracy"),
        ):
            assert mean == pytest.approx(np.mean([reduce(lambda part, key: part[key], path, part) for part in each]))


def test_differences_are_of_pairs_of_trainings_and_of_the_same_images(models: Path, comparison: dict[str, Any]) -> None:
    """R@5 of 2 x 2 trainings, from their ranks."""
    difference = comparison["vse-c+noun"]["difference from vse++"]
    rsums = [comparison[name]["rsum"]["value"] for name in VARIANTS]
    assert difference["rsum"]["value"] == pytest.approx(rsums[1] - rsums[0])
    assert set(comparison["vse++"]["difference from vse++"]["rsum"]["interval"]) == {0.0}
    is_hit = {}  # (trainings, images)
    for name in VARIANTS:
        tables = [pq.read_table(models / f"{name}-{n}" / "evaluation" / "ranks.parquet").to_pandas() for n in (0, 1)]
        ranks = [table.query("candidates == 'vse-c:noun' and direction == 'i2t'") for table in tables]
        is_hit[name] = np.array([table.sort_values("query")["rank"].to_numpy() <= 5 for table in ranks], float)
    gain = 100 * (is_hit["vse-c+noun"] - is_hit["vse++"])
    resamples = np.random.default_rng(0).integers(20, size=(4000, 20))
    of_images = gain.mean(0)[resamples].mean(1).var(ddof=1)
    of_trainings = gain.mean(1).var(ddof=1) / 2
    freedom = (of_trainings + of_images) ** 2 / of_trainings**2
    half = stats.t.ppf(0.975, freedom) * (of_trainings + of_images) ** 0.5
    expected = [gain.mean() - half, gain.mean() + half]
    assert difference["vse-c:noun i2t R@5"]["interval"] == pytest.approx(expected, abs=0.1 * half)


def test_the_command_keeps_trained_models_and_prints_tables(english, models, capsys):
    weights = models / "vse-c+noun-1" / "best.safetensors"
    before = weights.stat().st_mtime_ns
    flags = [f"--set={name}={value}" for name, value in SMALL.items()]
    command = ["train", str(english), "--output", str(models), "--model", ",".join(VARIANTS), "--seeds", "2"]
    assert main([*command, "--seed", "1"]) == 2
    assert "seed is for one training" in capsys.readouterr().err
    assert main([*command, *flags, "--threads", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert weights.stat().st_mtime_ns == before and (models / "comparison.md").read_text() == shown
    *tables, (conclusion,) = [part.splitlines() for part in shown.split("\n\n")[1:]]
    assert conclusion.startswith("vse-c+noun puts ")
    firsts = [[line.split(" | ")[0] for line in rows[2:]] for rows in tables]
    assert firsts == [["| vse++", "| vse-c+noun"]] * (len(tables) - 2) + [["| vse-c+noun − vse++"]] * 2


def result(name: str, seeds: int = 3, **values: float) -> compare.VariantResult:
    """A variant whose metrics have these values in each training, and over images an interval of two to either side."""
    around = np.linspace(-2.1, 2.1, 101)
    names = {"plain": "plain i2t R@1", "attack": "vse-c:total i2t R@1"}
    spread = around * (name != "vse++")  # so that the difference has the other's interval
    metrics = {}
    for key, value in values.items():
        metrics[names.get(key, key)] = MetricOfTrainings(np.full(seeds, value), value + spread)
    return compare.VariantResult(name, seeds, metrics)


def test_the_conclusion_says_what_is_shown_and_what_is_not() -> None:
    first = result("vse++", pairs=60.0, plain=30.0, attack=10.0, rsum=300.0)
    pairs, attack, plain = compare.conclusions(first, result("vse-c", pairs=75.0, plain=30.0, attack=11.0, rsum=290.0))
    assert "75.0 %" in pairs and "60.0 %" in pairs
    assert pairs.endswith("vse-c is better, by +15.0 (+12.6 to +17.4).")
    assert "vse++ from 30.0 to 10.0 %" in attack and "vse-c from 30.0 to 11.0 %" in attack
    assert attack.endswith("a difference is not shown, +1.0 (-1.4 to +3.4).")
    assert plain.endswith("vse-c is worse, by -10.0 (-12.4 to -7.6).")
    first = result("vse++", 1, pairs=60.0, plain=30.0, attack=10.0, rsum=300.0)
    said = compare.conclusions(first, result("vse-c", 1, pairs=75.0, plain=30.0, attack=10.0, rsum=290.0))
    for sentence, sign in zip(said, ("higher than", "as high as", "lower than"), strict=True):  # no more of one seed
        assert f": one seed: sign only, vse-c is {sign} vse++, " in sentence
