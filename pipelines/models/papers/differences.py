"""Differences between the models of a table, with 95 % intervals of a paired bootstrap over images and seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import torch

from ...engine.tables import read_table
from ..evaluation.protocols import RankList
from ..markdown import format_difference
from ..trainer.compare import summarize
from ..trainer.comparison_report import Figure, VariantResult
from ..trainer.evaluate import Evaluation
from . import published
from .plan import Settings, named
from .published import RECIPE_TITLES, TITLES
from .trainings import AUGMENTED, FAMILY_MODELS, MAX, RECIPES

KINDS = ("object", "attribute", "relation")
TOP = ("R@1", "R@5", "R@10")
Differences = Mapping[tuple[str, str, str], Mapping[str, Figure]]  # by recipe, model, model that is subtracted
FAMILY_PAIRS = tuple((family, "vse++") for family in FAMILY_MODELS)
PAIRS = (
    *(("vse-c", "vse++"), ("univse", "vse-c"), ("univse", "vse++"), (MAX, "vse-c"), (MAX, "vse++")),
    *FAMILY_PAIRS,
)


class Compared(NamedTuple):
    """The differences that a table shows.

    pairs: of PAIRS. columns: the name of each column's difference, see `VariantResult.minus`; an empty cell for others.
    reported: the paper's values of the models, of the last columns of the table.
    """

    pairs: Sequence[tuple[str, str]]
    columns: Sequence[str]
    reported: Mapping[str, Sequence[float]]


COMPARED = {
    "vse-c-2-3": Compared(
        (PAIRS[0], *FAMILY_PAIRS),
        ("plain i2t R@1", *(f"vse-c:{name} i2t R@1" for name in ("total", "noun", "numeral", "relation"))),
        published.VSE_C_ATTACKS,
    ),
    "vse-c-4": Compared(
        (PAIRS[0], ("vse-c+numeral", "vse++")),
        [f"{name} i2t {top}" for name in ("plural", "plural:numeral") for top in ("R@1", "R@10", "mean")],
        published.VSE_C_PLURAL,
    ),
    "univse-1": Compared(PAIRS[1:5], ("rsum",), {}),
    "univse-2": Compared(
        (*PAIRS[:2], (MAX, "vse-c")),
        (*(name for kind in KINDS for name in (f"univse:{kind} i2t R@1", "", "")), "univse"),
        {name: [*values, sum(values)] for name, values in published.UNIVSE_ATTACKS.items()},
    ),
}


def read_evaluation(folder: Path) -> Evaluation:
    """An evaluation as `write_evaluation` has written it."""
    rows = pq.read_table(folder / "ranks.parquet").to_pydict()
    every = zip(rows["candidates"], rows["direction"], rows["query"], rows["rank"], strict=True)
    lists = []
    for (candidates, direction), group in groupby(every, key=lambda row: row[:2]):
        _, _, queries, ranks = zip(*group, strict=True)
        lists.append(RankList(candidates, direction, list(queries), torch.tensor(ranks)))
    return Evaluation(json.loads((folder / "evaluation.json").read_text("utf-8")), lists)


def differences(settings: Settings) -> Differences:
    """The differences of all PAIRS of models by each recipe, over the seeds that both have been evaluated with."""
    image: dict[str, str] = {}
    results: dict[tuple[str, tuple[Path, ...]], VariantResult] = {}
    found = {}
    for recipe in RECIPES:
        folders = {
            (model, seed): settings.model(named(model, recipe, seed)) / "evaluation"
            for model in dict.fromkeys(name for pair in PAIRS for name in pair)
            for seed in range(settings.seeds)
        }
        made = {key for key, folder in folders.items() if (folder / "ranks.parquet").exists()}
        for pair in PAIRS:
            seeds = [seed for seed in range(settings.seeds) if {(model, seed) for model in pair} <= made]
            if not seeds:
                continue
            image = image or _images(settings.run)
            keys = [(model, tuple(folders[model, seed] for seed in seeds)) for model in pair]
            for model, of_seeds in keys:
                if (model, of_seeds) not in results:
                    its = [read_evaluation(folder) for folder in of_seeds]
                    results[model, of_seeds] = summarize(model, its, image, seed=0)
            one, other = (results[key] for key in keys)
            found[recipe, *pair] = one.minus(other)
    return found


def augmented_differences(settings: Settings) -> dict[str, Figure]:
    """By name of AUGMENTED, the difference of rsum from the training on captions by people alone."""
    results = {}
    for name in AUGMENTED:
        folder = settings.model(name) / "evaluation"
        if (folder / "ranks.parquet").exists():
            results[name] = summarize(name, [read_evaluation(folder)], _images(settings.captions), seed=0)
    found = {}
    for name, result in results.items():
        people = name[: len("people-5")] + ("-lstm" if name.endswith("-lstm") else "")
        if name != people and people in results:
            found[name] = result.minus(results[people])["rsum"]
    return found


def difference_rows(table: str, width: int, found: Differences) -> list[list[str]]:
    """The rows of differences of a table, with `width` columns behind the first; none for a table without any."""
    if table not in COMPARED:
        return []
    pairs, columns, reported = COMPARED[table]
    rows = []
    for one, other in pairs:
        if one in reported and other in reported:
            shown = columns[width - len(reported[one]) :]
            values = [
                f"{a - b:+.1f}" if name else ""
                for name, a, b in zip(shown, reported[one], reported[other], strict=True)
            ]
            rows.append([f"{TITLES[one]} − {TITLES[other]}, reported", *[""] * (width - len(values)), *values])
    for recipe in RECIPES:
        for one, other in pairs:
            if figures := found.get((recipe, one, other)):
                cells = [format_difference(*figures[name]) if name in figures else "" for name in columns]
                rows.append([f"{TITLES[one]} − {TITLES[other]}, {RECIPE_TITLES[recipe]}", *cells])
    return rows


def _images(run: Path) -> dict[str, str]:
    """The image_id of each caption_id of a run."""
    return {
        caption: image
        for part in read_table(run, "captions", ["caption_id", "image_id"])
        for caption, image in zip(part["caption_id"].to_pylist(), part["image_id"].to_pylist(), strict=True)
    }
