"""The papers' tables beside those measured, as Markdown, from the evaluations that are on disk.

A row or a difference is over all seeds on disk, whichever of them the plan would train now. What has no evaluation has
no row.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from ...engine.tables import has_table, read_table
from ..checkpoint import METRICS, read_history
from ..evaluation.protocols import FAMILIES
from ..figures import Figure, format_difference, format_interval, markdown_table, mean_and_range
from ..trainer.compare import VariantResult, summarize
from ..trainer.evaluate import Evaluation
from .plan import PAPERS, PARTS, PapersConfig

OF_CAPTIONS = ("augmented", "order-2")  # tables of models that are evaluated on a run without negatives
OF_LANGUAGES = ("mha-d",)  # and on one with captions in several languages
CLAIMED_OF = re.compile(r"\+max|-grid.*|-falling")  # variants of a model for which its paper's claim is checked, too
Rows = list[list[str]]
Folders = dict[int, Path]  # of trainings, by their seed
BY_CHANCE = 0.025  # the share of 95 % intervals that lie on the paper's side of 0 where models do not differ
KINDS = ("object", "attribute", "relation")
MOST = 20  # negatives of a family that attack a caption
LEAST = (1, 5, 10, MOST)
RSUM_AND_ATTACKS = ("retrieval/rsum", "sum of attacks")
RECIPES, COMPARED, REPORTED = (PAPERS[name] for name in ("recipes", "compared", "reported"))
TITLES = {name: f"`{name}`" for name in PAPERS["augmented"]} | PAPERS["titles"]


def tables(settings: PapersConfig) -> dict[str, str]:
    """The tables by name, as Markdown, with a row for everything of the plan that has been measured. Of a table without
    a row, a sentence that says so.
    """
    return {name: table(settings) or "Nothing of this is measured yet." for name, table in TABLES.items()}


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; empty without rows."""
    return markdown_table(head, rows) if rows else ""


def read_results(file: Path) -> dict[str, Any]:
    """The content of a JSON file of results; empty if it is not there."""
    results: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return results


def read_evaluation(folder: Path, what: str = "evaluation") -> dict[str, Any]:
    """The metrics that an evaluation of a model has written to the folder `what` in its own."""
    return read_results(folder / what / "evaluation.json")


def on_disk(settings: PapersConfig, model: str, recipe: str, file: str = "evaluation/evaluation.json") -> Folders:
    """The folders of a model's trainings by a recipe that have `file`, in the order of their seeds."""
    named = re.compile(re.escape(f"{model}@{recipe}-") + r"(\d+)")
    folders = settings.model(model).parent.glob("*@*")
    seeds = {int(match[1]): folder for folder in folders if (match := named.fullmatch(folder.name))}
    return {seed: seeds[seed] for seed in sorted(seeds) if (seeds[seed] / file).exists()}


def read_seeds(settings: PapersConfig, model: str, recipe: str) -> list[dict[str, Any]]:
    """The evaluations of a model by all seeds on disk, or of UniVSE's sentence with some components."""
    model, what = ("univse", model) if model in PAPERS["of_sentence"] else (model, "evaluation")
    folders = on_disk(settings, model, recipe, f"{what}/evaluation.json").values()
    return [read_evaluation(folder, what) for folder in folders]


def by_seeds(title: str, recipe: str, number: int) -> str:
    """The name of a row of measurements: `VSE-C, house recipe, 3 seeds`."""
    return f"{title}, {recipe}, {number} seed{'s' * (number > 1)}"


def read_probe(settings: PapersConfig, task: str) -> dict[str, Any]:
    """The rows of `negcap probe`, by model; task: words or blanks."""
    rows = read_results(settings.output / task / f"{task}.json").get("rows", {})
    return {name.removesuffix("@house-0"): row for name, row in rows.items()}


class Difference(NamedTuple):
    """How far apart two models are. seeds: those that both have been evaluated with; none: there are no figures.
    figures: the difference of each metric over these seeds, with its interval, see VariantResult.minus.
    """

    seeds: tuple[int, ...] = ()
    figures: Mapping[str, Figure] = {}


def difference(settings: PapersConfig, table: str, one: str, other: str, recipe: str) -> Difference:
    """The difference of two models of a table, by a recipe, over all seeds on disk that both have. Raises ValueError
    if they are evaluated on different queries.
    """
    without_negatives = settings.languages if table in OF_LANGUAGES else settings.captions
    run = without_negatives if table in (*OF_CAPTIONS, *OF_LANGUAGES) else settings.run
    first, second = (on_disk(settings, model, recipe, "evaluation/ranks.parquet") for model in (one, other))
    seeds = tuple(seed for seed in first if seed in second)
    if not seeds:
        return Difference()
    evaluated = [tuple(folders[seed] for seed in seeds) for folders in (first, second)]
    queries = {_queries(folder): folder for folders in evaluated for folder in folders}
    if len(queries) > 1:
        names = " and ".join(folder.name for folder in queries.values())
        raise ValueError(f"models must be evaluated on the same captions, {names} are not: evaluate them anew")
    mine, theirs = (_summary(folders, run) for folders in evaluated)
    return Difference(seeds, mine.minus(theirs))


@cache
def _queries(folder: Path) -> tuple[str, ...]:
    """The captions that an evaluation without attack has as queries."""
    ranks = pd.read_parquet(folder / "evaluation/ranks.parquet", columns=["candidates", "direction", "query"])
    return tuple(sorted(ranks["query"][(ranks["candidates"] == "plain") & (ranks["direction"] == "t2i")]))


@cache
def _summary(folders: tuple[Path, ...], run: Path) -> VariantResult:
    captions = pa.concat_tables(read_table(run, "captions", ["caption_id", "image_id"]))
    image = dict(zip(captions["caption_id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    ranks = (pd.read_parquet(folder / "evaluation/ranks.parquet") for folder in folders)
    evaluations = [Evaluation(read_evaluation(folder), its) for folder, its in zip(folders, ranks, strict=True)]
    return summarize(folders[0].name, evaluations, image, seed=0)


def verdict(paper: float, measured: Figure, seeds: int) -> str:
    """Whether a difference that a paper reports comes out. No verdict rests on one seed."""
    if seeds == 1:
        return f"one seed: sign {'as' if measured.value * paper > 0 else 'not as'} in the paper"
    low, high = measured.interval
    return "not shown" if low <= 0 <= high else "comes out" if low * paper > 0 else "does not"


def _value(metrics: Mapping[str, Any], place: str) -> float:
    """The metric at a place such as `vse-c/noun/R@1`, or UniVSE's `sum of attacks`."""
    if place == "sum of attacks":
        return sum(float(metrics["univse"][kind][top]) for kind in KINDS for top in ("R@1", "R@5", "R@10"))
    value: Any = metrics
    for name in place.split("/"):
        value = value[name]
    return float(value)


def _cells(seeds: Sequence[Mapping[str, Any]], places: Iterable[str], without_span: Sequence[int] = ()) -> list[str]:
    """Means over seeds, to one decimal, with the least and the greatest unless the number is in without_span."""
    columns = ([_value(metrics, place) for metrics in seeds] for place in places)
    cells = enumerate(columns)
    return [f"{mean(its):.1f}" if number in without_span else mean_and_range(its) for number, its in cells]


def _reported(values: Iterable[float]) -> list[str]:
    return ["" if math.isnan(value) else f"{value:g}" for value in values]


def _compared(name: str, settings: PapersConfig, more: Callable[[PapersConfig], Rows] = lambda settings: []) -> str:
    """A table of COMPARED: the paper's figures, those of each recipe and model, `more` rows, and differences."""
    its = COMPARED[name]
    rows = more(settings)
    reported = its["reported"]
    pairs = its.get("differences", ())
    titles, places, names = zip(*its["columns"], strict=True)

    def at_the_end(title: str, cells: list[str]) -> list[str]:
        return [f"{title}, reported", *[""] * (len(names) - len(cells)), *cells]

    printed = [at_the_end(TITLES[model], _reported(reported[model])) for model in its["models"] if model in reported]
    measured = []
    differences = []
    for one, other in pairs:
        if one in reported and other in reported:
            both = zip(names[-len(reported[one]) :], reported[one], reported[other], strict=True)
            cells = [f"{a - b:+.1f}" if named and not math.isnan(a - b) else "" for named, a, b in both]
            differences.append(at_the_end(f"{TITLES[one]} − {TITLES[other]}", cells))
    for recipe, title in RECIPES.items():
        for model in its["models"]:
            if seeds := read_seeds(settings, model, recipe):
                cells = _cells(seeds, places, its.get("without_span", ()))
                measured.append([by_seeds(TITLES[model], title, len(seeds)), *cells])
        for one, other in pairs:
            found = difference(settings, name, one, other, recipe)
            if found.seeds:
                cells = [format_difference(*found.figures[of]) if of in found.figures else "" for of in names]
                pair = f"{TITLES[one]} − {TITLES[other]}"
                differences.append([by_seeds(pair, title, len(found.seeds)), *cells])
    return markdown_table(["", *titles], [*printed, *measured, *rows, *differences])


def _coverage(settings: PapersConfig) -> str:
    """How many of the trainings of each part are evaluated, and the models of which none is. Without the parts whose
    models all belong to another one.
    """
    rows = []
    counted = set[str]()
    for part, jobs in PARTS.items():
        trainings = [name for name, texts in jobs(settings) if texts[0].startswith("train ")]
        if counted.issuperset(trainings):
            continue
        counted.update(trainings)
        evaluated = [name for name in trainings if read_evaluation(settings.model(name))]
        done = {_without_seed(name) for name in evaluated}
        models = dict.fromkeys(map(_without_seed, trainings))
        lacking = [f"`{model}`" for model in models if model not in done]
        shown = ", ".join(lacking) if done else "all" if lacking else ""
        rows.append([part, str(len(trainings)), str(len(evaluated)), shown])
    return markdown_table(["part", "trainings", "evaluated", "models without figures"], rows)


def _without_seed(training: str) -> str:
    """The model and the recipe of a training: `vse++@house-0` -> `vse++@house`; an ablation has no seed."""
    return re.sub(r"(@\w+)-\d+$", r"\1", training)


def _claims(settings: PapersConfig) -> str:
    """Which differences of models that a paper reports come out, and how many of them would by chance."""
    rows = []
    verdicts = []
    for name, its in COMPARED.items():
        for (one, other), (recipe, title) in product(its.get("differences", ()), RECIPES.items()):
            reported = [its["reported"].get(CLAIMED_OF.sub("", model)) for model in (one, other)]
            found = difference(settings, name, one, other, recipe)
            if not (all(reported) and found.seeds):
                continue
            columns = its["columns"][-len(reported[0]) :]
            for (head, _, named), a, b in zip(columns, *reported, strict=True):
                if named in found.figures and a != b and not math.isnan(a - b):
                    shape = verdict(a - b, found.figures[named], len(found.seeds))
                    pair = f"{TITLES[one]} − {TITLES[other]}, {title}"
                    measured = format_difference(*found.figures[named])
                    rows.append([pair, name, head, str(len(found.seeds)), f"{a - b:+.1f}", measured, shape])
                    verdicts.append(shape)
    table = table_of(["", "table", "metric", "seeds", "paper", "measured", "shape"], rows)
    return table and f"{table}\n\n{_by_chance(verdicts)}"


def _by_chance(verdicts: Sequence[str]) -> str:
    """How many of the verdicts say what, and how many would say so if no model differed from any other."""
    judged = [shape for shape in verdicts if not shape.startswith("one seed")]
    come = judged.count("comes out")
    do_not = judged.count("does not")
    return (
        f"{len(verdicts)} rows; {len(judged)} of more than one seed: {come} come out, {do_not} do not, "
        f"{len(judged) - come - do_not} are not shown. If no model differed from any other, "
        f"{BY_CHANCE * len(judged):.1f} would come out by chance, and as many would not."
    )


def _training(settings: PapersConfig) -> str:
    """How the trainings of the main rows went: the loss and rsum on validation, by quarters of them."""
    parts = (f"{what}, {quarter}/4" for what in ("loss ÷ 2 margins", "rsum") for quarter in range(1, 5))
    trained = (name for part in ("models", "augmented", "order", "mha-d") for name in PAPERS[part])
    rows = []
    for (recipe, title), model in product(RECIPES.items(), trained):
        folders = on_disk(settings, model, recipe).values()
        files = [file for folder in folders if (file := folder / METRICS).exists()]
        if not (seeds := [read_history(file) for file in files]):
            continue
        rsum = [[line["validation"]["rsum"] for line in lines] for lines in seeds]
        best = " ".join(str(1 + its.index(max(its))) for its in rsum)
        margin = read_results(files[0].with_name("config.json"))["config"]["margin"]
        losses = [[line["loss"] / (2 * margin) for line in lines] for lines in seeds]
        at = [-(-len(rsum[0]) * quarter // 4) - 1 for quarter in range(1, 5)]
        means = [f"{mean(its[n] for its in each):.2f}" for each in (losses, rsum) for n in at]
        steps = str(sum(line["steps"] for line in seeds[0]))
        rows.append([f"{TITLES[model]}, {title}", steps, f"{best} of {len(rsum[0])}", *means])
    return table_of(["", "steps", "best epoch of each seed", *parts], rows)


def _supply(settings: PapersConfig) -> str:
    """The mean number of negatives of a caption by family, and how many images have captions with enough of each."""
    least = " · ".join(map(str, LEAST))
    head = [f"negatives per caption, at most {MOST} counted", *FAMILIES]
    head.append(f"images all of whose captions have {least} of each")
    rows = [["reported", *[str(MOST)] * len(FAMILIES), "1,000 were chosen"]]
    if has_table(settings.run, "negatives"):
        columns = {"captions": ["caption_id", "image_id", "split"], "negatives": ["caption_id", "operator"]}
        captions, negatives = (pa.concat_tables(read_table(settings.run, *its)).to_pandas() for its in columns.items())
        captions = captions[captions["split"] == settings.split]
        family = {operator: family for family, operators in FAMILIES.items() for operator in operators}
        counts = pd.crosstab(negatives["caption_id"], negatives["operator"].map(family))
        counts = counts.reindex(index=captions["caption_id"], columns=list(FAMILIES), fill_value=0).clip(upper=MOST)
        fewest = counts.min(axis=1).groupby(captions["image_id"].to_numpy()).min()
        enough = " · ".join(str((fewest >= least).sum()) for least in LEAST)
        rows.append(["measured", *(f"{mean:.1f}" for mean in counts.mean()), f"{enough} of {len(fewest):,}"])
    return markdown_table(head, rows)


def _words(settings: PapersConfig) -> str:
    """VSE-C's Table 6: MAP, with its interval over images."""
    found = read_probe(settings, "words")
    paper = REPORTED["words"]
    rows = []
    for name in dict.fromkeys((*paper, *found)):
        measured = format_interval(found[name]["MAP"], found[name]["interval"]) if name in found else ""
        rows.append([TITLES.get(name, name), f"{paper[name]:g}" if name in paper else "", measured])
    return markdown_table(["MAP", "reported", "measured"], rows)


def _blanks(settings: PapersConfig) -> str:
    """VSE-C's Table 7."""
    columns = [(kind, top) for kind in ("noun", "preposition", "both") for top in ("R@1", "R@10")]
    rows = [[f"{TITLES[name]}, reported", *_reported(values)] for name, values in REPORTED["blanks"].items()]
    for name, row in read_probe(settings, "blanks").items():
        rows.append([TITLES.get(name, name), *(f"{row[kind][top]:.1f}" for kind, top in columns)])
    return markdown_table(["", *map(" ".join, columns)], rows)


def _saliency(settings: PapersConfig) -> str:
    """VSE-C's Figure 2 as a measure: the share of the saliency on edited words, by operator."""
    each = [read_results(settings.trained(name)[0] / "saliency/saliency.json") for name in ("vse++", "vse-c")]
    rows = []
    for operator in sorted({operator for found in each for operator in found}):
        row = [f"`{operator}`", f"{next(found for found in each if operator in found)[operator]['chance']:.1f}"]
        for its in (found.get(operator) for found in each):
            beyond = its and format_difference(its["beyond chance"], its["beyond chance interval"])
            row.append(f"{its['share']:.1f}, {beyond}" if its else "")
        rows.append(row)
    head = ["", "words edited, %", "VSE++: share, difference", "VSE-C: share, difference"]
    return table_of(head, rows)


def _unified(settings: PapersConfig) -> Rows:
    """The rows of UniVSE's Table 3 for words that are read as sentences, and for its ablations."""
    rows = []
    for recipe, title in RECIPES.items():
        if seeds := read_seeds(settings, "univse", recipe):
            cells = _cells(seeds, [f"unified/{kind}, as a sentence/mAP" for kind in KINDS[:2]])
            rows.append([by_seeds("UniVSE, words read as sentences", title, len(seeds)), *cells, ""])
    for name in ("average", "only-obj", "only-attr", "only-rel"):
        if metrics := read_evaluation(settings.model(f"univse-{name}")):
            paper = COMPARED["univse-3"]["reported"]["univse" if name == "average" else name]
            title = "all losses" if name == "average" else f"ℓ_{name.removeprefix('only-')} alone"
            cells = _cells([metrics], [f"unified/{kind}/mAP" for kind in KINDS])
            both = (f"{cell} ({value})" for cell, value in zip(cells, _reported(paper), strict=True))
            rows.append([f"UniVSE, ablation, {title} (reported)", *both])
    return rows


def _chance(settings: PapersConfig) -> Rows:
    """The rows of UniVSE's Table 4 for attributes and relations that are assigned at random."""
    its = COMPARED["univse-4"]
    rows = [["chance, reported", *_reported(its["reported"]["chance"])]]
    evaluated = [found for name in its["models"] for recipe in RECIPES for found in read_seeds(settings, name, recipe)]
    places = ("parsing/attribute/noun, random", "parsing/relation/either, random")
    return [*rows, ["chance", *_cells(evaluated[-1:], places)]] if evaluated else rows


def _alpha(settings: PapersConfig) -> str:
    """UniVSE's Figure 5: rsum and attacks by the weight α of the sentence in a caption's vector."""
    rows = []
    for recipe, title in RECIPES.items():
        for metrics in read_seeds(settings, "univse", recipe)[:1]:
            for name, key in (("rsum", "rsum"), ("attacks", "attacked")):
                cells = (f"{values[key]:.1f}" for values in metrics["alpha"].values())
                rows.append([by_seeds(name, title, 1), *cells])
    return table_of(["α", *(f"{n / 10:.1f}" for n in range(11))], rows)


def _ablations(settings: PapersConfig) -> str:
    """UniVSE's ablations, but for those of Table 3, beside the paper's."""
    rows = []
    measured = {name: (f"univse-{name}", "evaluation") for name in PAPERS["ablations"] if not name.startswith("only-")}
    for name, (folder, what) in {**measured, "dropped, both": ("univse-dropped", "both")}.items():
        metrics = read_evaluation(settings.model(folder), what)
        printed = " / ".join(_reported(REPORTED["ablations"].get(name, ())))
        title = f"{name}: {metrics['caption']['alpha']:.2f} in the end" if metrics and name == "learned-alpha" else name
        rows.append([title, printed, *(_cells([metrics], RSUM_AND_ATTACKS) if metrics else ["", ""])])
    return markdown_table(["", "reported: rsum / attacks", "rsum", "attacks"], rows)


TABLES: dict[str, Callable[[PapersConfig], str]] = {
    "coverage": _coverage,
    "claims": _claims,
    "training": _training,
    "supply": _supply,
    "vse-c-2-3": partial(_compared, "vse-c-2-3"),
    "vse-c-4": partial(_compared, "vse-c-4"),
    "vse-c-6": _words,
    "vse-c-7": _blanks,
    "vse-c-figure-2": _saliency,
    "univse-1": partial(_compared, "univse-1"),
    "univse-2": partial(_compared, "univse-2"),
    "univse-3": partial(_compared, "univse-3", more=_unified),
    "univse-4": partial(_compared, "univse-4", more=_chance),
    "univse-figure-5": _alpha,
    "univse-ablations": _ablations,
    "augmented": partial(_compared, "augmented"),
    "order-2": partial(_compared, "order-2"),
    "mha-d": partial(_compared, "mha-d"),
}
