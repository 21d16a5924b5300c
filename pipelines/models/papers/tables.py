"""The papers' tables beside those measured, as Markdown, from the results of the jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import torch

from ...engine.tables import read_table
from ..evaluation.protocols import RankList
from ..figures import format_difference, markdown_row, markdown_table
from ..trainer.compare import Figure, VariantResult, summarize
from ..trainer.evaluate import Evaluation
from . import published
from .plan import ABLATIONS, AUGMENTED, ETAS, FAMILY_MODELS, MAX, RECIPES, TERMS, Settings, jobs, named
from .published import RECIPE_TITLES, TITLES
from .run import steps_of, supply_table, times


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


def words_table(settings: Settings) -> str:
    """VSE-C's Table 6: MAP, with its interval over images."""
    found, paper = read_probe(settings, "words"), published.VSE_C_WORDS
    rows = [
        [
            TITLES.get(name, name),
            f"{paper[name]:g}" if name in paper else "",
            "{:.1f} ({:.1f}–{:.1f})".format(found[name]["MAP"], *found[name]["interval"]) if name in found else "",
        ]
        for name in [*paper, *(name for name in found if name not in paper)]
    ]
    return markdown_table(["MAP", "reported", "measured"], rows)


def blanks_table(settings: Settings) -> str:
    """VSE-C's Table 7."""
    found, kinds = read_probe(settings, "blanks"), ("noun", "preposition", "both")
    rows = [
        [f"{TITLES[name]}, reported", *(f"{value:g}" for value in values)]
        for name, values in published.VSE_C_BLANKS.items()
    ]
    for name, row in found.items():
        rows.append([TITLES.get(name, name), *(f"{row[kind][top]:.1f}" for kind in kinds for top in ("R@1", "R@10"))])
    return markdown_table(["", *(f"{kind} {top}" for kind in kinds for top in ("R@1", "R@10"))], rows)


def saliency_table(settings: Settings) -> str:
    """VSE-C's Figure 2 as a measure: the share of the saliency on edited words, by operator."""
    found = {name: read_metrics(settings, named(name, "house", 0), "saliency") for name in ("vse++", "vse-c")}
    made = {name: metrics for name, metrics in found.items() if metrics}
    operators = sorted({operator for metrics in made.values() for operator in metrics})
    rows = []
    for operator in operators:
        row = [f"`{operator}`", f"{next(iter(made.values()))[operator]['chance']:.1f}"]
        for name in ("vse++", "vse-c"):
            values = made.get(name, {}).get(operator)
            row.append(
                f"{values['share']:.1f}, {format_difference(values['beyond chance'], values['beyond chance interval'])}"
                if values
                else ""
            )
        rows.append(row)
    return markdown_table(["", "words edited, %", "VSE++: share, difference", "VSE-C: share, difference"], rows)


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


Values = Sequence[float]
Read = Callable[[Mapping[str, Any]], Values]  # the metrics of an evaluation -> the values of a row
UNIVSE = ("vse", "vse++", "vse-c", "univse", MAX)
MAIN = ("vse", "vse++", *FAMILY_MODELS, "vse-c", "univse")
ATTACKED = ("total", "noun", "numeral", "relation")


def tables(settings: Settings) -> dict[str, str]:
    """The tables by name, as Markdown, with a row for everything of the plan that has been measured."""
    found, made = differences(settings), {}
    for name, make in TABLES.items():
        text = make(settings)
        rows = difference_rows(name, text.partition("\n")[0].count("|") - 2, found)
        made[name] = "\n".join([text, *(markdown_row(row) for row in rows)])
    return made


def _cells(rows: Sequence[Values], without_span: Sequence[int] = ()) -> list[str]:
    """Means over seeds, to one decimal; with the least and the greatest value if there are several seeds.

    without_span: the columns that have the mean only.
    """
    cells = []
    for number, column in enumerate(zip(*rows, strict=True)):
        mean = f"{sum(column) / len(column):.1f}"
        alone = len(column) < 2 or number in without_span
        cells.append(mean if alone else f"{mean} ({min(column):.1f}–{max(column):.1f})")
    return cells


def _compared(
    settings: Settings,
    head: Sequence[str],
    of_paper: Mapping[str, Values],
    read: Read,
    models: Sequence[str] = MAIN,
    without_span: Sequence[int] = (),
) -> str:
    """A table with the paper's rows and, for each recipe and model, the measured one; without_span: of `_cells`."""
    width = len(head)
    rows = []
    for name in models:
        if name in of_paper:
            printed = [f"{value:g}" for value in of_paper[name]]
            rows.append([f"{TITLES[name]}, reported", *[""] * (width - len(printed)), *printed])
    for recipe in RECIPES:
        for name in models:
            values = [read(metrics) for metrics in read_seeds(settings, name, recipe)]
            if values:
                rows.append([f"{TITLES[name]}, {RECIPE_TITLES[recipe]}", *_cells(values, without_span)])
    return markdown_table(["", *head], rows)


def _rsum(metrics: Mapping[str, Any]) -> float:
    return float(metrics["retrieval"]["rsum"])


def _attack_sum(metrics: Mapping[str, Any]) -> float:
    return sum(float(metrics["univse"][kind][top]) for kind in KINDS for top in TOP)


def _vse_c(metrics: Mapping[str, Any]) -> Values:
    return [metrics["retrieval"]["i2t R@1"], *(metrics["vse-c"][name]["R@1"] for name in ATTACKED)]


def _plural(metrics: Mapping[str, Any]) -> Values:
    of = ("R@1", "R@10", "mean rank")
    return [metrics["plural"][side][name] for side in ("plain", "numeral") for name in of]


def _attacks(metrics: Mapping[str, Any]) -> Values:
    return [*(metrics["univse"][kind][top] for kind in KINDS for top in TOP), _attack_sum(metrics)]


def _parsing(metrics: Mapping[str, Any]) -> Values:
    return [metrics["parsing"]["attribute"]["noun"], metrics["parsing"]["relation"]["either"]]


def _parsing_table(settings: Settings) -> str:
    models = ("vse++", "vse-c", "univse", MAX)
    text = _compared(settings, ("attributes", "relations"), published.UNIVSE_PARSING, _parsing, models)
    evaluated = [found for name in models for recipe in RECIPES for found in read_seeds(settings, name, recipe)]
    chance = [["chance, reported", *(f"{value:g}" for value in published.UNIVSE_PARSING["chance"])]]
    for metrics in evaluated[-1:]:
        of = metrics["parsing"]
        chance.append(["chance", *_cells([[of["attribute"]["noun, random"], of["relation"]["either, random"]]])])
    return "\n".join([text, *(markdown_row(row) for row in chance)])


def _unified_table(settings: Settings) -> str:
    def read(metrics: Mapping[str, Any]) -> Values:
        return [metrics["unified"][kind]["mAP"] for kind in KINDS]

    text = _compared(settings, KINDS, published.UNIVSE_UNIFIED, read, UNIVSE)
    rows = []
    for recipe in RECIPES:
        read_as = [metrics["unified"] for metrics in read_seeds(settings, "univse", recipe)]
        values = [[found[f"{kind}, as a sentence"]["mAP"] for kind in KINDS[:2]] for found in read_as]
        if values:
            rows.append(
                markdown_row([f"UniVSE, words read as sentences, {RECIPE_TITLES[recipe]}", *_cells(values), ""])
            )
    for name in ("average", "only-obj", "only-attr", "only-rel"):
        metrics = read_metrics(settings, f"univse-{name}")
        if metrics:
            paper = published.UNIVSE_UNIFIED["univse" if name == "average" else f"univse-{name}"]
            title = "all losses" if name == "average" else f"ℓ_{name.removeprefix('only-')} alone"
            cells = [f"{value:.1f} ({there:g})" for value, there in zip(read(metrics), paper, strict=True)]
            rows.append(markdown_row([f"UniVSE, ablation, {title} (reported)", *cells]))
    return "\n".join([text, *rows])


def _alpha_table(settings: Settings) -> str:
    rows = []
    for recipe in RECIPES:
        for metrics in read_seeds(settings, "univse", recipe)[:1]:
            curve = metrics["alpha"]
            rows += [
                [f"{RECIPE_TITLES[recipe]}, {name}", *(f"{values[key]:.1f}" for values in curve.values())]
                for name, key in (("rsum", "rsum"), ("attacks", "attacked"))
            ]
    return markdown_table(["α", *(f"{n / 10:.1f}" for n in range(11))], rows)


def _ablation_row(settings: Settings, name: str, folder: str, paper: Values, what: str = "evaluation") -> list[str]:
    metrics = read_metrics(settings, folder, what)
    printed = " / ".join(f"{value:g}" for value in paper)
    if metrics and name == "learned-alpha":
        name = f"{name}: {metrics['caption']['alpha']:.2f} in the end"
    return [name, printed, *(_cells([[_rsum(metrics), _attack_sum(metrics)]]) if metrics else ["", ""])]


def _ablation_table(settings: Settings) -> str:
    rows = [
        _ablation_row(settings, name, f"univse-{name}", published.UNIVSE_ABLATIONS.get(name, ()))
        for name in ABLATIONS
        if not name.startswith("only-")  # in Table 3
    ]
    both = "dropped, both"
    rows.append(_ablation_row(settings, both, "univse-dropped", published.UNIVSE_ABLATIONS[both], "both"))
    return markdown_table(["", "reported: rsum / attacks", "rsum", "attacks"], rows)


def _weights_table(settings: Settings) -> str:
    usual = read_metrics(settings, "univse-usual")
    rows = [["none changed", f"{_rsum(usual):.1f} / {_attack_sum(usual):.1f}" if usual else "", *[""] * 4]]
    for term in TERMS:
        found = [read_metrics(settings, f"univse-{term}-{eta}") for eta in ETAS]
        cells = [f"{_rsum(made):.1f} / {_attack_sum(made):.1f}" if made else "" for made in found]
        rows.append([f"η of ℓ_{term}", *cells])
    return markdown_table(["rsum / attacks", *ETAS], rows)


def _augmented_table(settings: Settings) -> str:
    rows, found = [], augmented_differences(settings)
    for name in AUGMENTED:
        metrics = read_metrics(settings, name)
        values = [_rsum(metrics), metrics["retrieval"]["i2t R@1"], metrics["retrieval"]["t2i R@1"]] if metrics else []
        difference = format_difference(*found[name]) if name in found else ""
        rows.append([f"`{name}`", *(_cells([values]) if values else ["", "", ""]), difference])
    return markdown_table(["captions", "rsum", "i2t R@1", "t2i R@1", "rsum, difference"], rows)


_PLAIN = ("without attack", "all", "noun", "numeral", "relation")
_SPLIT = ("R@1", "R@10", "mean rank", "other numbers: R@1", "R@10", "mean rank")
_ATTACKS = (*(f"{kind} {top}" for kind in KINDS for top in TOP), "sum")
_SUMS = {name: [*values, sum(values)] for name, values in published.UNIVSE_ATTACKS.items()}


def _time_table(settings: Settings) -> str:
    """The minutes of CPU that the commands of the plan took with the first seed, by command."""
    plan = jobs(replace(settings, seeds=1))
    of_step = times(plan, settings.output)
    rows: dict[str, list[float]] = {}
    for step in steps_of(plan):
        if step.name in of_step:
            rows.setdefault(step.command[0], []).append(of_step[step.name].cpu / 60)
    rows["all"] = [minutes for row in rows.values() for minutes in row]
    cells = [
        [f"`negcap {name}`" if name != "all" else name, str(len(row)), f"{sum(row):.1f}"] for name, row in rows.items()
    ]
    return markdown_table(["one seed", "times", "minutes of CPU"], cells)


TABLES: dict[str, Callable[[Settings], str]] = {
    "time": _time_table,
    "supply": supply_table,
    "vse-c-2-3": lambda settings: _compared(settings, _PLAIN, published.VSE_C_ATTACKS, _vse_c),
    "vse-c-4": lambda settings: _compared(settings, _SPLIT, published.VSE_C_PLURAL, _plural),
    "vse-c-6": words_table,
    "vse-c-7": blanks_table,
    "vse-c-figure-2": saliency_table,
    "univse-1": lambda settings: _compared(
        settings,
        ["rsum"],
        {"univse": [469.5]},
        lambda metrics: [_rsum(metrics)],
        ("vse", "vse++", "vse-c", "univse", MAX),
    ),
    "univse-2": lambda settings: _compared(
        settings, _ATTACKS, _SUMS, _attacks, (*MAIN, MAX, "sentence"), (1, 2, 4, 5, 7, 8)
    ),
    "univse-3": _unified_table,
    "univse-4": _parsing_table,
    "univse-figure-5": _alpha_table,
    "univse-ablations": _ablation_table,
    "univse-weights": _weights_table,
    "augmented": _augmented_table,
}
