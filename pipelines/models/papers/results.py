"""Reads what the commands of a plan have written."""

from __future__ import annotations

import json
from typing import Any

from .plan import Settings, named


def read_metrics(settings: Settings, model: str, what: str = "evaluation") -> dict[str, Any] | None:
    """The metrics of a model that its evaluation, or another measurement `what`, has written; None if it has not."""
    file = settings.model(model) / what / f"{'saliency' if what == 'saliency' else 'evaluation'}.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return found or None


def read_seeds(settings: Settings, model: str, recipe: str) -> list[dict[str, Any]]:
    """The evaluations of a model by all seeds that have been trained; "sentence": of UniVSE without its components."""
    model, what = ("univse", "sentence") if model == "sentence" else (model, "evaluation")
    made = (read_metrics(settings, named(model, recipe, seed), what) for seed in range(settings.seeds))
    return [metrics for metrics in made if metrics]


def read_probe(settings: Settings, task: str) -> dict[str, Any]:
    """The rows of `negcap probe`, by model; empty before it is run. task: words or blanks."""
    file = settings.output / task / f"{task}.json"
    rows: dict[str, Any] = json.loads(file.read_text("utf-8"))["rows"] if file.exists() else {}
    return {name.removesuffix("@house-0"): row for name, row in rows.items()}
