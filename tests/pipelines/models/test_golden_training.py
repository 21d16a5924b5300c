"""The first epoch and evaluation of a small training of each model, and the settings of each recipe, stay the same."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.models.config import EvaluateConfig, configure
from negcap.pipelines.models.registry import MODELS, RECIPES
from negcap.pipelines.models.trainer.evaluate import measure
from negcap.pipelines.models.trainer.train import train
from tests.conftest import GOLDEN
from tests.pipelines.models.conftest import history

Golden = Callable[[str, str, Any], Any]
SMALL: dict[str, Any] = {
    **{"joint": 24, "word_dim": 8, "batch_size": 32, "learning_rate": 0.01, "validation_images": 30, "min_count": 2},
    **{"threads": 1, "epochs": 1},
}
CASES: dict[str, dict[str, Any]] = {
    **{name: {"model": name} for name in ("vse", "vse++", "order", "infonce", "siglip")},
    **{name: {"model": name, "negatives": 4} for name in ("vse-c", "negclip", "ce-clip")},
    "vse-c paper, shared": {"model": "vse-c", "recipe": "paper", "share_negatives": True, "select": "attacked"},
    "vse++ lstm": {"model": "vse++", "text_encoder": "lstm", "warm_up": 0, "similarity": "order-signed"},
    "ce-clip concrete": {"model": "ce-clip", "concreteness_margin": 0.2, "text_encoder": "attention"},
    "univse": {"model": "univse", "features": "grid", "relations_after": 0, "modifier_dim": 8},
    "univse paper": {
        **{"model": "univse", "recipe": "paper", "modifier_dim": 8, "learn_alpha": True, "composition": "gru"},
        **{"relations_after": 0, "drop_components": 0.2, "reduce_rel": "hardest", "reduce_obj": "mean"},
    },
    "mha-d": {"model": "mha-d", "features": "grid", "heads": 2},
    "mha-d negatives": {
        **{"model": "mha-d", "recipe": "paper", "features": "grid", "heads": 2, "negatives": 2, "region_tanh": True},
        **{"negative_families": ("noun", "numeral", "relation"), "diversity": "printed"},
    },
}


def numbers(value: Any, name: str = "") -> dict[str, float]:
    """All numbers in nested dicts and lists, by their path."""
    if isinstance(value, (Mapping, list, tuple)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        return {path: number for key, part in items for path, number in numbers(part, f"{name}/{key}").items()}
    return {name: value} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """An entry of a golden file of JSON; --update-golden writes it."""

    def read(name: str, key: str, made: Any) -> Any:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            content = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({**content, key: made}, indent=1, sort_keys=True) + "\n")
        return json.loads(path.read_text())[key]

    return read


@pytest.mark.parametrize("case", CASES)
def test_a_training_has_the_losses_and_the_metrics_that_it_had(english, german, golden, tmp_path, case):
    run = german if CASES[case]["model"] == "mha-d" else english
    folder = train(configure(run, tmp_path / "m", **{**SMALL, **CASES[case]}))
    (line,) = history(folder)
    evaluation = measure(folder, run, EvaluateConfig(threads=1))
    means = evaluation.ranks.groupby(["candidates", "direction"])["rank"].mean()
    made = {name: line[name] for name in ("losses", "terms", "steps", "validation")}
    made |= {"evaluation": evaluation.metrics, "ranks": {f"{name} {way}": mean for (name, way), mean in means.items()}}
    made = {name: float(f"{value:.7g}") for name, value in numbers(made).items()}
    assert made == pytest.approx(golden("training.json", case, made), rel=1e-4, abs=1e-4)


def test_recipes_and_similarities_keep_their_settings(golden: Golden) -> None:
    cases: list[tuple[str, str, dict[str, str]]] = [(model, recipe, {}) for model in MODELS for recipe in RECIPES]
    cases += [("vse-c", "house", {"similarity": name}) for name in ("order", "order-signed", "order-reversed")]
    for model, recipe, given in cases:
        config = vars(configure(Path("run"), Path("model"), model=model, recipe=recipe, **given))
        settings = {name: value for name, value in config.items() if name not in ("run", "output", "threads")}
        settings = json.loads(json.dumps(settings))
        known = golden("training_settings.json", f"{model} {given.get('similarity', recipe)}", settings)
        assert settings == {name: known[name] for name in settings}
