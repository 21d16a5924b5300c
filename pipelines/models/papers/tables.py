"""The papers' tables beside those measured, as Markdown, from the results of the jobs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...engine.tables import has_table, read_table
from ..bootstrap import Figure
from ..evaluation.protocols import FAMILIES
from ..figures import format_difference, format_interval, markdown_table
from ..trainer.compare import VariantResult, summarize
from ..trainer.evaluate import Evaluation
from .plan import ETAS, PAPERS, USUAL, Settings, jobs, named
from .run import steps_of, times

Metrics = Mapping[str, Any]  # what `negcap evaluate` writes to evaluation.json
Rows = list[list[str]]
KINDS = ("object", "attribute", "relation")
MOST = 20  # negatives of a family that attack a caption
LEAST = (1, 5, 10, MOST)
RSUM_AND_ATTACKS = ("retrieval/rsum", "sum of attacks")
TITLES, RECIPES, COMPARED, REPORTED = (PAPERS[name] for name in ("titles", "recipes", "compared", "reported"))


class Table(NamedTuple):
    """A table: the titles of its columns, and its rows."""

    head: Sequence[str]
    rows: Rows


def tables(settings: Settings) -> dict[str, str]:
    """The tables by name, as Markdown, with a row for everything of the plan that has been measured."""
    found, made = differences(settings), {}
    for name in TABLES:
        if name in ALONE:
            head, rows = ALONE[name](settings)
        else:
            head = ["", *(title for title, _, _ in COMPARED[name]["columns"])]
            rows = _compared_rows(settings, name, found)
        made[name] = markdown_table(head, rows)
    return made


def read_metrics(settings: Settings, model: str, what: str = "evaluation") -> dict[str, Any]:
    """The metrics of a model that its evaluation, or another measurement `what`, has written; empty if it has not."""
    file = settings.model(model) / what / f"{'saliency' if what == 'saliency' else 'evaluation'}.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return found


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


def read_evaluation(folder: Path) -> Evaluation:
    """An evaluation as `write_evaluation` has written it."""
    metrics = json.loads((folder / "evaluation.json").read_text("utf-8"))
    return Evaluation(metrics, pd.read_parquet(folder / "ranks.parquet"))


Differences = Mapping[tuple[str, str, str], Mapping[str, Figure]]  # by recipe, model, model that is subtracted


def _summary(name: str, folders: Iterable[Path], run: Path) -> VariantResult:
    """The results of a model over the seeds whose evaluations are in these folders."""
    image = {
        caption: image
        for part in read_table(run, "captions", ["caption_id", "image_id"])
        for caption, image in zip(part["caption_id"].to_pylist(), part["image_id"].to_pylist(), strict=True)
    }
    return summarize(name, [read_evaluation(folder) for folder in folders], image, seed=0)


def differences(settings: Settings) -> Differences:
    """The differences of pairs of models by each recipe, over the seeds that both have been evaluated with."""
    pairs = dict.fromkeys(tuple(pair) for its in COMPARED.values() for pair in its.get("differences", ()))
    results: dict[tuple[Path, ...], VariantResult] = {}
    found = {}
    for recipe in RECIPES:
        for pair in pairs:
            each = [
                [settings.model(named(model, recipe, seed)) / "evaluation" for model in pair]
                for seed in range(settings.seeds)
            ]
            both = [folders for folders in each if all((folder / "ranks.parquet").exists() for folder in folders)]
            if not both:
                continue
            chosen = list(zip(*both, strict=True))
            for model, folders in zip(pair, chosen, strict=True):
                if folders not in results:
                    results[folders] = _summary(model, folders, settings.run)
            found[recipe, *pair] = results[chosen[0]].minus(results[chosen[1]])
    return found


def augmented_differences(settings: Settings) -> dict[str, Figure]:
    """By name of a training of Augmented VSE, the difference of rsum from the training on captions by people alone."""
    results = {}
    for name in PAPERS["augmented"]:
        folder = settings.model(name) / "evaluation"
        if (folder / "ranks.parquet").exists():
            results[name] = _summary(name, [folder], settings.captions)
    found = {}
    for name, result in results.items():
        people = name[: len("people-5")] + ("-lstm" if name.endswith("-lstm") else "")
        if name != people and people in results:
            found[name] = result.minus(results[people])["rsum"]
    return found


def _value(metrics: Metrics, place: str) -> float:
    """The metric at a place such as `vse-c/noun/R@1`, or UniVSE's `sum of attacks`."""
    if place == "sum of attacks":
        return sum(float(metrics["univse"][kind][top]) for kind in KINDS for top in ("R@1", "R@5", "R@10"))
    found: Any = metrics
    for name in place.split("/"):
        found = found[name]
    return float(found)


def _compared_rows(settings: Settings, table: str, found: Differences) -> Rows:
    """The rows of a table of COMPARED: the paper's, for each recipe and model the measured one, and the differences."""
    its, rows = COMPARED[table], []
    reported, width = its["reported"], len(its["columns"])
    names = [difference for _, _, difference in its["columns"]]
    for model in its["models"]:
        if model in reported:
            printed = [f"{value:g}" for value in reported[model]]
            rows.append([f"{TITLES[model]}, reported", *[""] * (width - len(printed)), *printed])
    for recipe, recipe_title in RECIPES.items():
        for model in its["models"]:
            seeds = read_seeds(settings, model, recipe)
            if values := [[_value(metrics, place) for _, place, _ in its["columns"]] for metrics in seeds]:
                rows.append([f"{TITLES[model]}, {recipe_title}", *_cells(values, its.get("without_span", ()))])
    rows += MORE[table](settings) if table in MORE else []
    pairs = its.get("differences", ())
    for one, other in pairs:
        if one in reported and other in reported:
            shown = names[-len(reported[one]) :]
            both = zip(shown, reported[one], reported[other], strict=True)
            cells = [f"{a - b:+.1f}" if name else "" for name, a, b in both]
            rows.append([f"{TITLES[one]} − {TITLES[other]}, reported", *[""] * (width - len(cells)), *cells])
    for recipe, recipe_title in RECIPES.items():
        for one, other in pairs:
            if figures := found.get((recipe, one, other)):
                cells = [format_difference(*figures[name]) if name in figures else "" for name in names]
                rows.append([f"{TITLES[one]} − {TITLES[other]}, {recipe_title}", *cells])
    return rows


def _cells(rows: Sequence[Sequence[float]], without_span: Sequence[int] = ()) -> list[str]:
    """Means over seeds, to one decimal; with the least and the greatest value if there are several seeds.

    without_span: the columns that have the mean only.
    """
    cells = []
    for number, column in enumerate(zip(*rows, strict=True)):
        alone = len(column) < 2 or number in without_span
        mean, span = sum(column) / len(column), (min(column), max(column))
        cells.append(f"{mean:.1f}" if alone else format_interval(mean, span))
    return cells


def _rsum_and_attacks(metrics: Metrics) -> str:
    return " / ".join(f"{_value(metrics, place):.1f}" for place in RSUM_AND_ATTACKS) if metrics else ""


def _time(settings: Settings) -> Table:
    """The minutes of CPU that the commands of the plan took with the first seed, by command."""
    plan = jobs(replace(settings, seeds=1))
    of_step = times(plan, settings.output)
    rows: dict[str, list[float]] = {}
    for step in steps_of(plan):
        if step.name in of_step:
            rows.setdefault(f"`negcap {step.command[0]}`", []).append(of_step[step.name].cpu / 60)
    rows["all"] = [minutes for row in rows.values() for minutes in row]
    return Table(
        ["one seed", "times", "minutes of CPU"],
        [[name, str(len(row)), f"{sum(row):.1f}"] for name, row in rows.items()],
    )


def _supply(settings: Settings) -> Table:
    """The mean number of negatives of a caption by family, and how many images have captions with enough of each."""
    least = " · ".join(map(str, LEAST))
    head = [f"negatives per caption, at most {MOST} counted", *FAMILIES]
    head.append(f"images all of whose captions have {least} of each")
    rows = [["reported", *[str(MOST)] * len(FAMILIES), "1,000 were chosen"]]
    if not has_table(settings.run, "negatives"):
        return Table(head, rows)
    image: dict[str, str] = {}
    for part in read_table(settings.run, "captions", ["caption_id", "image_id", "split"]):
        part = part.filter(pc.equal(part["split"], settings.split))
        image.update(zip(part["caption_id"].to_pylist(), part["image_id"].to_pylist(), strict=True))
    counts: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    for part in read_table(settings.run, "negatives", ["caption_id", "operator"]):
        part = part.filter(pc.is_in(part["caption_id"], pa.array(list(image))))
        for family, operators in FAMILIES.items():
            of_family = pc.is_in(part["operator"], pa.array(operators))
            counts[family].update(part["caption_id"].filter(of_family).to_pylist())
    means = [sum(min(MOST, number) for number in found.values()) / len(image) for found in counts.values()]
    fewest: dict[str, int] = {}
    for caption, its in image.items():
        fewest[its] = min(fewest.get(its, MOST), *(found[caption] for found in counts.values()))
    enough = " · ".join(str(sum(number >= least for number in fewest.values())) for least in LEAST)
    rows.append(["measured", *(f"{mean:.1f}" for mean in means), f"{enough} of {len(fewest):,}"])
    return Table(head, rows)


def _words(settings: Settings) -> Table:
    """VSE-C's Table 6: MAP, with its interval over images."""
    found, paper = read_probe(settings, "words"), REPORTED["words"]
    rows = []
    for name in dict.fromkeys((*paper, *found)):
        measured = format_interval(found[name]["MAP"], found[name]["interval"]) if name in found else ""
        rows.append([TITLES.get(name, name), f"{paper[name]:g}" if name in paper else "", measured])
    return Table(["MAP", "reported", "measured"], rows)


def _blanks(settings: Settings) -> Table:
    """VSE-C's Table 7."""
    columns = [(kind, top) for kind in ("noun", "preposition", "both") for top in ("R@1", "R@10")]
    rows = [
        [f"{TITLES[name]}, reported", *(f"{value:g}" for value in values)]
        for name, values in REPORTED["blanks"].items()
    ]
    for name, row in read_probe(settings, "blanks").items():
        rows.append([TITLES.get(name, name), *(f"{row[kind][top]:.1f}" for kind, top in columns)])
    return Table(["", *(" ".join(column) for column in columns)], rows)


def _saliency(settings: Settings) -> Table:
    """VSE-C's Figure 2 as a measure: the share of the saliency on edited words, by operator."""
    each = [read_metrics(settings, named(name, "house", 0), "saliency") for name in ("vse++", "vse-c")]
    rows = []
    for operator in sorted({operator for found in each for operator in found}):
        own = [found.get(operator) for found in each]
        cells = [
            f"{its['share']:.1f}, {format_difference(its['beyond chance'], its['beyond chance interval'])}"
            if its
            else ""
            for its in own
        ]
        chance = next(its["chance"] for its in own if its)
        rows.append([f"`{operator}`", f"{chance:.1f}", *cells])
    return Table(["", "words edited, %", "VSE++: share, difference", "VSE-C: share, difference"], rows)


def _unified(settings: Settings) -> Rows:
    """The rows of UniVSE's Table 3 for words that are read as sentences, and for its ablations."""
    rows = []
    for recipe in RECIPES:
        read_as = [metrics["unified"] for metrics in read_seeds(settings, "univse", recipe)]
        if values := [[found[f"{kind}, as a sentence"]["mAP"] for kind in KINDS[:2]] for found in read_as]:
            rows.append([f"UniVSE, words read as sentences, {RECIPES[recipe]}", *_cells(values), ""])
    for name in ("average", "only-obj", "only-attr", "only-rel"):
        if metrics := read_metrics(settings, f"univse-{name}"):
            paper = COMPARED["univse-3"]["reported"]["univse" if name == "average" else name]
            title = "all losses" if name == "average" else f"ℓ_{name.removeprefix('only-')} alone"
            both = zip(KINDS, paper, strict=True)
            cells = [f"{metrics['unified'][kind]['mAP']:.1f} ({value:g})" for kind, value in both]
            rows.append([f"UniVSE, ablation, {title} (reported)", *cells])
    return rows


def _chance(settings: Settings) -> Rows:
    """The rows of UniVSE's Table 4 for attributes and relations that are assigned at random."""
    rows = [["chance, reported", *(f"{value:g}" for value in COMPARED["univse-4"]["reported"]["chance"])]]
    models = COMPARED["univse-4"]["models"]
    if evaluated := [found for name in models for recipe in RECIPES for found in read_seeds(settings, name, recipe)]:
        its = evaluated[-1]["parsing"]
        rows.append(["chance", *_cells([[its["attribute"]["noun, random"], its["relation"]["either, random"]]])])
    return rows


def _alpha(settings: Settings) -> Table:
    """UniVSE's Figure 5: rsum and attacks by the weight α of the sentence in a caption's vector."""
    rows = []
    for recipe in RECIPES:
        for metrics in read_seeds(settings, "univse", recipe)[:1]:
            for name, key in (("rsum", "rsum"), ("attacks", "attacked")):
                cells = (f"{values[key]:.1f}" for values in metrics["alpha"].values())
                rows.append([f"{RECIPES[recipe]}, {name}", *cells])
    return Table(["α", *(f"{n / 10:.1f}" for n in range(11))], rows)


def _ablations(settings: Settings) -> Table:
    """UniVSE's ablations, but for those of Table 3, beside the paper's."""
    rows = []
    measured = {name: (f"univse-{name}", "evaluation") for name in PAPERS["ablations"] if not name.startswith("only-")}
    for name, (folder, what) in {**measured, "dropped, both": ("univse-dropped", "both")}.items():
        metrics = read_metrics(settings, folder, what)
        printed = " / ".join(f"{value:g}" for value in REPORTED["ablations"].get(name, ()))
        title = f"{name}: {metrics['caption']['alpha']:.2f} in the end" if metrics and name == "learned-alpha" else name
        values = _cells([[_value(metrics, place) for place in RSUM_AND_ATTACKS]]) if metrics else ["", ""]
        rows.append([title, printed, *values])
    return Table(["", "reported: rsum / attacks", "rsum", "attacks"], rows)


def _weights(settings: Settings) -> Table:
    rows = [["none changed", _rsum_and_attacks(read_metrics(settings, "univse-usual")), *[""] * 4]]
    for term in USUAL:
        each = [_rsum_and_attacks(read_metrics(settings, f"univse-{term}-{eta}")) for eta in ETAS]
        rows.append([f"η of ℓ_{term}", *each])
    return Table(["rsum / attacks", *ETAS], rows)


def _augmented(settings: Settings) -> Table:
    rows, found = [], augmented_differences(settings)
    for name in PAPERS["augmented"]:
        metrics = read_metrics(settings, name)
        values = [[metrics["retrieval"][key] for key in ("rsum", "i2t R@1", "t2i R@1")]] if metrics else []
        difference = format_difference(*found[name]) if name in found else ""
        rows.append([f"`{name}`", *(_cells(values) or ["", "", ""]), difference])
    return Table(["captions", "rsum", "i2t R@1", "t2i R@1", "rsum, difference"], rows)


ALONE: dict[str, Callable[[Settings], Table]] = {
    "time": _time,
    "supply": _supply,
    "vse-c-6": _words,
    "vse-c-7": _blanks,
    "vse-c-figure-2": _saliency,
    "univse-figure-5": _alpha,
    "univse-ablations": _ablations,
    "univse-weights": _weights,
    "augmented": _augmented,
}
MORE = {"univse-3": _unified, "univse-4": _chance}  # further rows of tables of COMPARED
TABLES = (
    *("time", "supply", "vse-c-2-3", "vse-c-4", "vse-c-6", "vse-c-7", "vse-c-figure-2"),
    *("univse-1", "univse-2", "univse-3", "univse-4", "univse-figure-5", "univse-ablations", "univse-weights"),
    "augmented",
)
