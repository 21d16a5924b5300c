import json
import re
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

from negcap.pipelines.cli import main
from negcap.pipelines.models.config import EvaluateConfig
from negcap.pipelines.models.figures import MetricOfTrainings
from negcap.pipelines.models.trainer.compare import (
    EVERY_PAIR,
    PAIRS,
    RECALLS,
    Variant,
    VariantResult,
    compare,
    conclusions,
    draw_comparison,
    summarize,
)
from negcap.pipelines.models.trainer.evaluate import Evaluation
from negcap.schemas.features import RANKS

SMALL: dict[str, Any] = {
    "joint": 8,
    "word_dim": 6,
    "batch_size": 16,
    "epochs": 1,
    "validation_images": 10,
    "learning_rate": 0.01,
}
TRAINING = {**SMALL, "threads": 1, "min_count": 2}
CONFIG = EvaluateConfig(threads=1)


@pytest.fixture(scope="module")
def models(english: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    compare(english, folder, ("vse++", "vse-c+noun"), CONFIG, TRAINING, 2)
    return folder


def test_variants() -> None:
    for name, parts in {
        "vse++": ("vse++",),
        "vse-c+noun+numeral": ("vse-c", ("noun", "numeral")),
        "vse-c+noun@paper": ("vse-c", ("noun",), "", "paper"),
        "vse~order@paper": ("vse", (), "order", "paper"),
    }.items():
        assert Variant.parse(name) == Variant(name, *parts)
    message = (
        "vse-c, negclip, ce-clip with .noun, .numeral, .relation, "
        "and may end with ~cosine or ~order or ~order-signed or ~order-reversed, then with @house or @paper, was: "
    )
    for wrong in ("clip", "vse-c+colour", "vse+++", "univse+noun", "", "vse@", "vse@mine", "@paper", "vse~", "vse~l1"):
        with pytest.raises(ValueError, match=f"{message}{re.escape(wrong)}$"):
            Variant.parse(wrong)


def test_a_recipe_in_a_name_replaces_that_of_the_comparison() -> None:
    settings = {"run": Path("r"), "margin": 0.3, "alpha": 0.5}  # of which VSE-C has no alpha
    paper, house = (
        Variant.parse(f"vse-c@{name}").config(0, Path("m"), {**settings, "recipe": other})
        for name, other in (("paper", "house"), ("house", "paper"))
    )
    assert (paper.transform, paper.dropout, paper.margin) == ("l2", 0.0, 0.3) and house.transform == "root"
    with_vectors = Variant.parse("vse-c@paper").config(0, Path("m"), {"run": Path("r"), "vectors": Path("glove.txt")})
    assert (paper.grounded_dim, with_vectors.grounded_dim) == (0, 100)


def test_metrics_are_means_over_the_seeds(models: Path) -> None:
    made = json.loads((models / "comparison.json").read_text())
    assert list(made) == ["vse++", "vse-c+noun"]
    for name, entry in made.items():
        each = [json.loads((models / f"{name}-{n}" / "evaluation" / "evaluation.json").read_text()) for n in (0, 1)]
        assert entry["seeds"] == 2 and [evaluation["trained_with_seed"] for evaluation in each] == [0, 1]
        attacked = entry["retrieval"]["vse-c:noun i2t"]
        for mean, path in (
            (entry["rsum"]["value"], ("retrieval", "rsum")),
            (entry["retrieval"]["plain i2t"]["R@5"]["value"], ("retrieval", "i2t R@5")),
            (entry["retrieval"]["plain t2i"]["R@5"]["value"], ("retrieval", "t2i R@5")),
            (attacked["R@1"]["value"], ("vse-c", "noun", "R@1")),
            (attacked["mean rank"], ("vse-c", "noun", "mean rank")),
            (entry["pairwise"]["noun"]["all"]["value"], ("pairwise", "noun", "accuracy")),
            (entry["pairwise"]["noun"]["known"]["value"], ("pairwise", "noun", "known", "accuracy")),
        ):
            values = [reduce(lambda part, name: part[name], path, evaluation) for evaluation in each]
            assert mean == pytest.approx(sum(values) / 2)
        low, high = entry["rsum"]["interval"]
        assert low < entry["rsum"]["value"] < high


def test_differences_are_of_pairs_of_trainings_and_of_the_same_images(models: Path) -> None:
    """R@5 of 2 x 2 trainings, from their ranks."""
    made = json.loads((models / "comparison.json").read_text())
    entry = made["vse-c+noun"]["difference from vse++"]
    assert entry["rsum"]["value"] == pytest.approx(made["vse-c+noun"]["rsum"]["value"] - made["vse++"]["rsum"]["value"])
    assert set(made["vse++"]["difference from vse++"]["rsum"]["interval"]) == {0.0}
    first = {}
    for name in made:
        tables = [pq.read_table(models / f"{name}-{n}" / "evaluation" / "ranks.parquet").to_pylist() for n in (0, 1)]
        rows = [[r for r in t if (r["candidates"], r["direction"]) == ("vse-c:noun", "i2t")] for t in tables]
        first[name] = np.array([[r["rank"] <= 5 for r in sorted(t, key=lambda r: r["query"])] for t in rows])
    gain = 100 * (first["vse-c+noun"].astype(float) - first["vse++"])  # of 2 trainings, 20 images
    drawn = np.random.default_rng(0).integers(20, size=(4000, 20))
    of_images = gain.mean(0)[drawn].mean(1).var(ddof=1)
    of_trainings = gain.mean(1).var(ddof=1) / 2
    freedom = (of_trainings + of_images) ** 2 / of_trainings**2
    half = stats.t.ppf(0.975, freedom) * (of_trainings + of_images) ** 0.5
    assert entry["vse-c:noun i2t R@5"]["interval"] == pytest.approx(
        [gain.mean() - half, gain.mean() + half], abs=0.1 * half
    )


def test_trained_models_are_kept_and_tables_are_printed(
    english: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = models / "vse-c+noun-1" / "best.safetensors"
    before = weights.stat().st_mtime_ns
    flags = [f"--set={name}={value}" for name, value in SMALL.items()]
    command = ["train", str(english), "--output", str(models), "--model", "vse++,vse-c+noun", "--seeds", "2"]
    assert main([*command, *flags, "--set=min_count=2", "--threads", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert weights.stat().st_mtime_ns == before
    assert (models / "comparison.md").read_text() == shown
    *tables, (conclusion,) = [part.splitlines() for part in shown.split("\n\n")[1:]]
    assert conclusion.startswith("vse-c+noun puts ")
    assert all([line.split(" | ")[0] for line in rows[2:]] == ["| vse++", "| vse-c+noun"] for rows in tables[:-2])
    assert all([line.split(" | ")[0] for line in rows[2:]] == ["| vse-c+noun − vse++"] for rows in tables[-2:])
    assert tables[-1][0].startswith("| difference in pairs | all operators | noun | ")
    assert pq.read_table(models / "vse++-1" / "evaluation" / "ranks.parquet").num_rows > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "vse,clip"], "model must be vse, .*, was: clip"),
        (["--seeds", "0"], "seeds must be >= 1, was: 0"),
        (["--seeds", "2", "--seed", "1"], "seed is for one training"),
        (["--split", "dev"], "split needs a comparison: give several --model, or --seeds"),
        (["--seeds", "1", "--split", "dev"], "split must be one of 'test', 'train' in captions, was: 'dev'"),
        (["--model", "vse-c+relation", "--negative-operator", "noun"], "negative_families must have negatives"),
    ],
)
def test_bad_arguments(
    english: Path, tmp_path: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [f"--set={name}={value}" for name, value in SMALL.items()]
    assert main(["train", str(english), "--output", str(tmp_path / "m"), *small, "--quiet", *flags]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert re.search(message, errors), errors


def result(name: str, seeds: int = 3, **values: float) -> VariantResult:
    """A variant whose metrics have these values in each training, and over images an interval of two to either side."""
    around = np.linspace(-2.1, 2.1, 101)
    names = {"plain": "plain i2t R@1", "attack": "vse-c:total i2t R@1"}
    spread = around * (name != "vse++")  # so that the difference has the other's interval
    metrics = {
        names.get(key, key): MetricOfTrainings(np.full(seeds, value), value + spread) for key, value in values.items()
    }
    return VariantResult(name, seeds, metrics)


def test_the_conclusion_says_what_is_shown_and_what_is_not() -> None:
    first = result("vse++", pairs=60.0, plain=30.0, attack=10.0, rsum=300.0)
    said = conclusions(first, result("vse-c", pairs=75.0, plain=30.0, attack=11.0, rsum=290.0))
    assert said == [
        "vse-c puts 75.0 % of the captions above their negatives, vse++ 60.0 % (chance is 50): vse-c is better, by "
        "+15.0 (+12.6 to +17.4).",
        "With the negatives of an image among the candidates, its R@1 falls with vse++ from 30.0 to 10.0 % and with "
        "vse-c from 30.0 to 11.0 %: a difference is not shown, +1.0 (-1.4 to +3.4).",
        "In retrieval without negatives, by rsum: vse-c is worse, by -10.0 (-12.4 to -7.6).",
    ]


def test_no_verdict_rests_on_one_seed() -> None:
    first = result("vse++", 1, pairs=60.0, plain=30.0, attack=10.0, rsum=300.0)
    said = conclusions(first, result("vse-c", 1, pairs=75.0, plain=30.0, attack=10.0, rsum=290.0))
    assert [sentence.split(": ", 1)[1] for sentence in said] == [
        "one seed: sign only, vse-c is higher than vse++, +15.0 (+13.0 to +17.0).",
        "one seed: sign only, vse-c is as high as vse++, +0.0 (-2.0 to +2.0).",
        "one seed: sign only, vse-c is lower than vse++, -10.0 (-12.0 to -8.0).",
    ]


def evaluated(*pairs: tuple[str, bool, bool, str]) -> Evaluation:
    """An evaluation of one image, and of these pairs: image, right, known, operator."""
    ranks = pd.DataFrame([("plain", way, "a", 1) for way in ("i2t", "t2i")], columns=[*RANKS.names])
    return Evaluation({}, ranks, pd.DataFrame(pairs, columns=["image", "right", "known", "operator"]))


def test_pairs_are_told_of_known_words_and_of_all_by_operator() -> None:
    seeds = [
        evaluated(
            ("a", True, True, "noun"),
            ("b", False, True, "noun"),
            ("b", True, False, "noun"),
            ("c", True, False, "verb"),
        ),
        evaluated(
            ("a", True, True, "noun"),
            ("b", True, True, "noun"),
            ("b", True, False, "noun"),
            ("c", False, False, "verb"),
        ),
    ]
    found = summarize("vse", seeds, {"a": "a"}, 0)
    shares = {name: metric.values.tolist() for name, metric in found.metrics.items() if "pair" in name}
    assert shares == {
        PAIRS: [50.0, 100.0],
        f"{PAIRS}:noun": [50.0, 100.0],
        EVERY_PAIR: [75.0, 75.0],
        f"{EVERY_PAIR}:noun": [pytest.approx(200 / 3), 100.0],
        f"{EVERY_PAIR}:verb": [100.0, 0.0],
    }
    assert found.operators == ["noun"] and set(found.as_json(found)["pairwise"]) == {"noun"}


def test_a_comparison_ends_with_its_conclusion_and_is_drawn(models: Path) -> None:
    text = (models / "comparison.md").read_text()
    metrics = json.loads((models / "comparison.json").read_text())
    last = text.strip().splitlines()[-1]
    difference = metrics["vse-c+noun"]["difference from vse++"][PAIRS]
    assert f"{difference['value']:+.1f} ({difference['interval'][0]:+.1f} to " in last
    shares = []
    for seed in (0, 1):
        for name in ("vse++", "vse-c+noun"):
            entries = json.loads((models / f"{name}-{seed}" / "evaluation" / "evaluation.json").read_text())["pairwise"]
            known = [entry["known"] for entry in entries.values()]
            counts = [entry["pairs"] for entry in known]
            shares.append(np.dot([entry["accuracy"] for entry in known], counts) / sum(counts))
    assert difference["value"] == pytest.approx((shares[1] + shares[3] - shares[0] - shares[2]) / 2)
    assert (models / "comparison.png").is_file()


def test_a_comparison_is_drawn(tmp_path: Path, drawn: None) -> None:
    shares = {PAIRS: 65.0, f"{PAIRS}:noun": 60.0, f"{PAIRS}:numeral": 70.0}
    results = [result(name, rsum=300.0, **shares) for name in ("vse++", "x")]
    for one in results:
        for candidates, top in (("plain", 30.0), ("vse-c:total", 10.0)):
            made = MetricOfTrainings(np.array([top]), np.array([top, top]))
            one.metrics.update({f"{candidates} i2t {name}": made for name in RECALLS})  # type: ignore[attr-defined]
    draw_comparison(results, tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
