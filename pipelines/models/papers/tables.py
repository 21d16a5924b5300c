"""The papers' tables beside those measured, as Markdown, from the evaluations that are on disk.

A row or a difference is over all seeds on disk, whether or not the plan would train them now. Models without an
evaluation have no row.
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
from ..evaluation.protocols import FAMILIES, Evaluation
from ..figures import Figure, format_difference, format_interval, markdown_table, mean_and_range, table_if_any
from ..trainer.compare import VariantResult, summarize
from .plan import PAPERS, PARTS, PapersConfig

OF_CAPTIONS = ("augmented", "order-2")  # tables of models that are evaluated on the run without negatives
OF_LANGUAGES = ("mha-d",)  # tables of models that are evaluated on the run with captions in several languages
# The ends of names of variants, such as `univse-falling`: what the paper claims of the model is checked for them, too
CLAIMED_OF = re.compile(r"\+max|-grid.*|-falling")
RANKS = "evaluation/ranks.parquet"  # in the folder of a training
Rows = list[list[str]]
Folders = dict[int, Path]  # of trainings, by their seed
BY_CHANCE = 0.025  # the share of 95 % intervals that lie on the paper's side of 0 where models do not differ
Json = dict[str, Any]  # the content of a JSON file of results
KINDS = ("object", "attribute", "relation")
MOST = 20  # negatives of a family that attack a caption
LEAST = (1, 5, 10, MOST)  # numbers of negatives of each family: it is counted how many images have as many or more
RSUM_AND_ATTACKS = ("retrieval/rsum", "sum of attacks")  # places of metrics, see `_metric_at`


class TableColumn(NamedTuple):
    """A column of a table. place: of the metric in an evaluation, such as `vse-c/noun/R@1`. figure: the name of the
    metric's difference of two models; empty: it has none.
    """

    title: str
    place: str
    figure: str


class ComparedTable(NamedTuple):
    """A table that compares models: the entry `compared` of papers.toml, which explains it.

    reported: by model, the paper's values; if they are fewer than the columns, they are of the last columns.
    differences: the pairs of models whose difference is shown. without_span: the numbers of the columns that show the
    mean over seeds without the least and the greatest value.
    """

    columns: list[TableColumn]
    models: list[str]
    reported: dict[str, list[float]]
    differences: list[tuple[str, str]]
    without_span: list[int]

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> ComparedTable:
        """The table that an entry of papers.toml describes."""
        return cls(
            columns=[TableColumn(*column) for column in entry["columns"]],
            models=entry["models"],
            reported=entry["reported"],
            differences=[(first, second) for first, second in entry.get("differences", ())],
            without_span=entry.get("without_span", []),
        )

    def reported_difference(self, first: str, second: str) -> dict[str, float]:
        """By column, the difference of two models that the paper reports, where it reports both."""
        if first not in self.reported or second not in self.reported:
            return {}
        columns = self.columns[-len(self.reported[first]) :]
        values = zip(columns, self.reported[first], self.reported[second], strict=True)
        differences = {column.title: value - other for column, value, other in values if column.figure}
        return {title: difference for title, difference in differences.items() if not math.isnan(difference)}


RECIPES = PAPERS["recipes"]
REPORTED = PAPERS["reported"]
COMPARED = {name: ComparedTable.read(entry) for name, entry in PAPERS["compared"].items()}
TITLES = {name: f"`{name}`" for name in PAPERS["augmented"]} | PAPERS["titles"]


def tables(settings: PapersConfig) -> dict[str, str]:
    """The tables by name, as Markdown, with a row for everything of the plan that has been measured. Where a table has
    no rows, a sentence says so.
    """
    return {name: table(settings) or "Nothing of this is measured yet." for name, table in TABLES.items()}


def read_results(file: Path) -> Json:
    """The content of a JSON file of results; empty if it is not there."""
    results: Json = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return results


def read_evaluation(folder: Path, what: str = "evaluation") -> Json:
    """The metrics that an evaluation of a model has written to the folder `what` in the model's folder."""
    return read_results(folder / what / "evaluation.json")


def trained_folders(
    settings: PapersConfig, model: str, recipe: str, file: str = "evaluation/evaluation.json"
) -> Folders:
    """The folders of a model's trainings by a recipe that have `file`, in the order of their seeds."""
    prefix = f"{model}@{recipe}-"
    folders = {}
    for folder in settings.model(model).parent.glob("*@*"):
        seed = folder.name.removeprefix(prefix)
        if folder.name.startswith(prefix) and seed.isdecimal() and (folder / file).exists():
            folders[int(seed)] = folder
    return dict(sorted(folders.items()))


def read_evaluations(settings: PapersConfig, model: str, recipe: str) -> list[Json]:
    """The evaluations of a model by all seeds on disk. Some "models" are UniVSE's sentence vector with some kinds of
    components; their evaluations are in UniVSE's folder, in a folder of this name.
    """
    results = "evaluation"  # the folder of the results in that of the model
    if model in PAPERS["of_sentence"]:
        results = model
        model = "univse"
    folders = trained_folders(settings, model, recipe, f"{results}/evaluation.json").values()
    return [read_evaluation(folder, results) for folder in folders]


def title_with_seeds(title: str, recipe: str, number: int) -> str:
    """The name of a row of measurements: `VSE-C, house recipe, 3 seeds`."""
    seeds = "1 seed" if number == 1 else f"{number} seeds"
    return f"{title}, {recipe}, {seeds}"


def read_probe(settings: PapersConfig, task: str) -> Json:
    """The rows that `negcap probe` has written, by model, of a task: words or blanks."""
    rows = read_results(settings.output / task / f"{task}.json").get("rows", {})
    return {name.removesuffix("@house-0"): row for name, row in rows.items()}


class Difference(NamedTuple):
    """How far apart two models are. seeds: of the trainings that both models have; if empty, there are no figures.
    figures: by metric, the difference over these seeds, with its interval, see VariantResult.minus.
    """

    seeds: tuple[int, ...] = ()
    figures: Mapping[str, Figure] = {}


def difference(settings: PapersConfig, table: str, first: str, second: str, recipe: str) -> Difference:
    """How far two models of a table are apart, by a recipe, over all seeds on disk that both have.

    Raises ValueError if they are evaluated on different queries.

    Args:
        settings: where the models are.
        table: the name of the table.
        first: the name of a model.
        second: the name of the model it is compared with.
        recipe: of the trainings, a key of RECIPES.
    """
    if table in OF_LANGUAGES:
        run = settings.languages
    elif table in OF_CAPTIONS:
        run = settings.captions
    else:
        run = settings.run
    first_folders = trained_folders(settings, first, recipe, RANKS)
    second_folders = trained_folders(settings, second, recipe, RANKS)
    seeds = tuple(seed for seed in first_folders if seed in second_folders)
    if not seeds:
        return Difference()
    of_first = tuple(first_folders[seed] for seed in seeds)
    of_second = tuple(second_folders[seed] for seed in seeds)
    folder_of_queries = {_read_queries(folder): folder for folder in (*of_first, *of_second)}
    # Models that are evaluated on different captions would differ for that reason alone.
    if len(folder_of_queries) > 1:
        names = " and ".join(folder.name for folder in folder_of_queries.values())
        raise ValueError(f"models must be evaluated on the same captions, {names} are not: evaluate them anew")
    return Difference(seeds, _summarize_trainings(of_first, run).minus(_summarize_trainings(of_second, run)))


@cache
def _read_queries(folder: Path) -> tuple[str, ...]:
    """The ids of the captions that an evaluation without attack has as queries, sorted."""
    ranks = pd.read_parquet(folder / RANKS, columns=["candidates", "direction", "query"])
    return tuple(sorted(ranks["query"][(ranks["candidates"] == "plain") & (ranks["direction"] == "t2i")]))


@cache
def _summarize_trainings(folders: tuple[Path, ...], run: Path) -> VariantResult:
    """The metrics of a model's trainings; cached, as a model is part of several differences."""
    captions = pa.concat_tables(read_table(run, "captions", ["caption_id", "image_id"]))
    image = dict(zip(captions["caption_id"].to_pylist(), captions["image_id"].to_pylist(), strict=True))
    evaluations = [Evaluation(read_evaluation(folder), pd.read_parquet(folder / RANKS)) for folder in folders]
    return summarize(folders[0].name, evaluations, image, seed=0)


def verdict(paper: float, measured: Figure, seeds: int) -> str:
    """Whether a difference that the paper reports comes out: all of the measured interval has the sign of the paper's.
    With one seed there is no verdict, only the sign.
    """
    if seeds == 1:
        return f"one seed: sign {'as' if measured.value * paper > 0 else 'not as'} in the paper"
    low, high = measured.interval
    if low <= 0 <= high:
        return "not shown"
    return "comes out" if low * paper > 0 else "does not"


def _metric_at(metrics: Json, place: str) -> float:
    """The metric at a place such as `vse-c/noun/R@1`, or UniVSE's `sum of attacks`."""
    if place == "sum of attacks":
        return sum(float(metrics["univse"][kind][top]) for kind in KINDS for top in ("R@1", "R@5", "R@10"))
    value: Any = metrics
    for name in place.split("/"):
        value = value[name]
    return float(value)


def _mean_cells(seeds: Sequence[Json], places: Iterable[str], without_span: Sequence[int] = ()) -> list[str]:
    """The cells of a row: means over seeds, to one decimal, with the least and the greatest value.

    Args:
        seeds: the evaluation of each seed.
        places: of the metrics, one for each cell.
        without_span: the numbers of the cells that have the mean alone.
    """
    cells = []
    for number, place in enumerate(places):
        values = [_metric_at(metrics, place) for metrics in seeds]
        cells.append(f"{mean(values):.1f}" if number in without_span else mean_and_range(values))
    return cells


def _reported_cells(values: Iterable[float]) -> list[str]:
    """The cells of figures as a paper prints them; empty for NaN, a figure that it does not have."""
    return ["" if math.isnan(value) else f"{value:g}" for value in values]


def _comparison_table(
    name: str, settings: PapersConfig, more: Callable[[PapersConfig], Rows] = lambda settings: []
) -> str:
    """A table that compares models: the paper's figures, then those measured, then the differences of both.

    Args:
        name: a key of COMPARED.
        settings: of the plan, which say where the evaluations are.
        more: gives further rows, which are put before the differences.
    """
    table = COMPARED[name]
    head = ["", *(column.title for column in table.columns)]
    return markdown_table(
        head,
        [
            *_reported_rows(table),
            *_measured_rows(table, settings),
            *more(settings),
            *_reported_difference_rows(table),
            *_measured_difference_rows(name, settings),
        ],
    )


def _reported_rows(table: ComparedTable) -> Rows:
    """The paper's figures, a row per model; if the paper has fewer columns, they stand in the last ones."""
    rows = []
    for model in table.models:
        if model in table.reported:
            cells = _reported_cells(table.reported[model])
            empty = [""] * (len(table.columns) - len(cells))
            rows.append([f"{TITLES[model]}, reported", *empty, *cells])
    return rows


def _measured_rows(table: ComparedTable, settings: PapersConfig) -> Rows:
    """The figures of each recipe and model, as means over seeds."""
    places = [column.place for column in table.columns]
    rows = []
    for recipe, title in RECIPES.items():
        for model in table.models:
            if seeds := read_evaluations(settings, model, recipe):
                cells = _mean_cells(seeds, places, table.without_span)
                rows.append([title_with_seeds(TITLES[model], title, len(seeds)), *cells])
    return rows


def _reported_difference_rows(table: ComparedTable) -> Rows:
    """The differences of models that the paper reports."""
    rows = []
    for first, second in table.differences:
        if first in table.reported and second in table.reported:
            reported = table.reported_difference(first, second)
            titles = [column.title for column in table.columns]
            cells = [f"{reported[title]:+.1f}" if title in reported else "" for title in titles]
            rows.append([f"{_difference_title(first, second)}, reported", *cells])
    return rows


def _measured_difference_rows(name: str, settings: PapersConfig) -> Rows:
    """The measured differences of models by each recipe, with their intervals."""
    table = COMPARED[name]
    rows = []
    for recipe, title in RECIPES.items():
        for first, second in table.differences:
            measured = difference(settings, name, first, second, recipe)
            if not measured.seeds:
                continue
            figures = [measured.figures.get(column.figure) for column in table.columns]
            cells = [format_difference(*figure) if figure else "" for figure in figures]
            rows.append([title_with_seeds(_difference_title(first, second), title, len(measured.seeds)), *cells])
    return rows


def _difference_title(first: str, second: str) -> str:
    """The title of the difference of two models."""
    return f"{TITLES[first]} − {TITLES[second]}"


def _coverage_table(settings: PapersConfig) -> str:
    """How many of the trainings of each part of the plan are evaluated, and which models have no evaluated training. A
    part whose trainings all belong to an earlier part is left out.
    """
    rows = []
    counted: set[str] = set()
    for part, jobs in PARTS.items():
        trainings = [job.name for job in jobs(settings) if job.commands[0].startswith("train ")]
        # The parts words, blanks and saliency train nothing of their own, but use the models of vse-c.
        if counted.issuperset(trainings):
            continue
        counted.update(trainings)
        evaluated = [name for name in trainings if read_evaluation(settings.model(name))]
        models_evaluated = {_without_seed(name) for name in evaluated}
        models = dict.fromkeys(map(_without_seed, trainings))
        lacking = ", ".join(f"`{model}`" for model in models if model not in models_evaluated)
        if lacking and not models_evaluated:
            lacking = "all"
        rows.append([part, str(len(trainings)), str(len(evaluated)), lacking])
    return markdown_table(["part", "trainings", "evaluated", "models without figures"], rows)


def _without_seed(training: str) -> str:
    """The model and the recipe of a training: `vse++@house-0` -> `vse++@house`; an ablation has no seed."""
    return re.sub(r"(@\w+)-\d+$", r"\1", training)


def _claims_table(settings: PapersConfig) -> str:
    """A row for each difference of two models that a paper reports and that is measured, and whether it comes out.

    A sentence below the table says how many would come out by chance.
    """
    rows = []
    verdicts = []
    for name, table in COMPARED.items():
        for (first, second), (recipe, title) in product(table.differences, RECIPES.items()):
            # a paper's claim on a model, such as "univse", is checked for its variants, too: "univse-falling"
            reported = table.reported_difference(CLAIMED_OF.sub("", first), CLAIMED_OF.sub("", second))
            if not reported:
                continue
            measured = difference(settings, name, first, second, recipe)
            seeds = len(measured.seeds)
            for column in table.columns:
                paper = reported.get(column.title)
                figure = measured.figures.get(column.figure)
                if not paper or figure is None:  # not reported, no difference, or not measured
                    continue
                verdicts.append(verdict(paper, figure, seeds))
                models = f"{_difference_title(first, second)}, {title}"
                values = [f"{paper:+.1f}", format_difference(*figure)]
                rows.append([models, name, column.title, str(seeds), *values, verdicts[-1]])
    shown = table_if_any(["", "table", "metric", "seeds", "paper", "measured", "shape"], rows)
    return shown and f"{shown}\n\n{_sentence_on_chance(verdicts)}"


def _sentence_on_chance(verdicts: Sequence[str]) -> str:
    """How many of a paper's claims come out, and how many would by chance, if no model differed from any other.

    verdicts: of each claim: "comes out", "does not", or another text where a difference is not shown.
    """
    counted = [shape for shape in verdicts if not shape.startswith("one seed")]
    come_out = counted.count("comes out")
    do_not = counted.count("does not")
    return (
        f"{len(verdicts)} rows; {len(counted)} of more than one seed: {come_out} come out, {do_not} do not, "
        f"{len(counted) - come_out - do_not} are not shown. If no model differed from any other, "
        f"{BY_CHANCE * len(counted):.1f} would come out by chance, and as many would not."
    )


def _training_table(settings: PapersConfig) -> str:
    """How the trainings of the main rows went: the loss, and the rsum on validation, after each quarter of the epochs,
    as means over the seeds on disk. All seeds of a row have the same steps and epochs: those of the first are shown.
    """
    # While all vectors are equal, as in a training that learns nothing yet, the two hinges of a pair are one margin
    # each: then the loss divided by 2 margins is 1, whatever the margin. A training that has got further shows less.
    quarters = range(1, 5)
    columns = [f"{metric}, {quarter}/4" for metric in ("loss ÷ 2 margins", "rsum") for quarter in quarters]
    models = [name for part in ("models", "augmented", "order", "mha-d") for name in PAPERS[part]]
    rows = []
    for (recipe, title), model in product(RECIPES.items(), models):
        evaluated = trained_folders(settings, model, recipe).values()
        folders = [folder for folder in evaluated if (folder / METRICS).exists()]
        if not folders:
            continue
        histories = [read_history(folder / METRICS) for folder in folders]
        config = read_results(folders[0] / "config.json")["config"]
        # a row per epoch, a column per seed
        losses = pd.DataFrame([[line["loss"] / (2 * config["margin"]) for line in lines] for lines in histories]).T
        rsum = pd.DataFrame([[line["validation"]["rsum"] for line in lines] for lines in histories]).T
        epochs = len(rsum)
        best = " ".join(str(1 + epoch) for epoch in rsum.idxmax())
        last_epochs = [math.ceil(epochs * quarter / 4) - 1 for quarter in quarters]  # of each quarter, from 0
        means = []
        for table in (losses, rsum):
            means += [f"{mean(table.loc[epoch]):.2f}" for epoch in last_epochs]
        steps = str(sum(line["steps"] for line in histories[0]))
        rows.append([f"{TITLES[model]}, {title}", steps, f"{best} of {epochs}", *means])
    return table_if_any(["", "steps", "best epoch of each seed", *columns], rows)


def _supply_table(settings: PapersConfig) -> str:
    """How many negatives a caption has on average, by family, and how many images have enough for each caption."""
    thresholds = " · ".join(map(str, LEAST))
    head = [f"negatives per caption, at most {MOST} counted", *FAMILIES]
    head.append(f"images all of whose captions have {thresholds} of each")
    rows = [["reported", *[str(MOST)] * len(FAMILIES), "1,000 were chosen"]]  # the paper tests on 1,000 images
    if has_table(settings.run, "negatives"):
        captions = _read_columns(settings.run, "captions", ["caption_id", "image_id", "split"])
        negatives = _read_columns(settings.run, "negatives", ["caption_id", "operator"])
        captions = captions[captions["split"] == settings.split]
        family = {operator: family for family, operators in FAMILIES.items() for operator in operators}
        # how many negatives of each family a caption has: a row per caption, a column per family
        counts = pd.crosstab(negatives["caption_id"], negatives["operator"].map(family))
        counts = counts.reindex(index=captions["caption_id"], columns=list(FAMILIES), fill_value=0).clip(upper=MOST)
        # by image, the least number that any of its captions has of any family
        fewest = counts.min(axis=1).groupby(captions["image_id"].to_numpy()).min()
        enough = " · ".join(str((fewest >= least).sum()) for least in LEAST)
        rows.append(["measured", *(f"{mean:.1f}" for mean in counts.mean()), f"{enough} of {len(fewest):,}"])
    return markdown_table(head, rows)


def _read_columns(run: Path, table: str, columns: list[str]) -> pd.DataFrame:
    """Columns of a whole table."""
    return pa.concat_tables(read_table(run, table, columns)).to_pandas()


def _words_table(settings: PapersConfig) -> str:
    """VSE-C's Table 6: the mean average precision (MAP) of words for images, as reported and as measured."""
    measured = read_probe(settings, "words")
    reported = REPORTED["words"]
    rows = []
    for name in dict.fromkeys((*reported, *measured)):
        paper_cell = f"{reported[name]:g}" if name in reported else ""
        cell = format_interval(measured[name]["MAP"], measured[name]["interval"]) if name in measured else ""
        rows.append([TITLES.get(name, name), paper_cell, cell])
    return markdown_table(["MAP", "reported", "measured"], rows)


def _blanks_table(settings: PapersConfig) -> str:
    """VSE-C's Table 7: how often models fill in a blanked word of a caption, as reported and as measured."""
    columns = [(kind, top) for kind in ("noun", "preposition", "both") for top in ("R@1", "R@10")]
    rows = [[f"{TITLES[name]}, reported", *_reported_cells(values)] for name, values in REPORTED["blanks"].items()]
    for name, row in read_probe(settings, "blanks").items():
        rows.append([TITLES.get(name, name), *(f"{row[kind][top]:.1f}" for kind, top in columns)])
    return markdown_table(["", *map(" ".join, columns)], rows)


def _saliency_table(settings: PapersConfig) -> str:
    """VSE-C's Figure 2 as a measure: the share of the saliency on edited words, by operator."""
    # The results of each model: metrics by operator.
    results = [read_results(settings.trained(name)[0] / "saliency/saliency.json") for name in ("vse++", "vse-c")]
    rows = []
    for operator in sorted(set().union(*results)):
        metrics_of_models = [by_operator.get(operator) for by_operator in results]
        # By chance, edited words have the share of the saliency that they have of the words: the same for both models.
        chance = next(metrics["chance"] for metrics in metrics_of_models if metrics)
        cells = []
        for metrics in metrics_of_models:
            if metrics is None:
                cells.append("")
            else:
                beyond = format_difference(metrics["beyond chance"], metrics["beyond chance interval"])
                cells.append(f"{metrics['share']:.1f}, {beyond}")
        rows.append([f"`{operator}`", f"{chance:.1f}", *cells])
    head = ["", "words edited, %", "VSE++: share, difference", "VSE-C: share, difference"]
    return table_if_any(head, rows)


def _unified_rows(settings: PapersConfig) -> Rows:
    """The rows of UniVSE's Table 3 for words that are read as sentences, and for its ablations."""
    rows = []
    for recipe, title in RECIPES.items():
        if seeds := read_evaluations(settings, "univse", recipe):
            cells = _mean_cells(seeds, [f"unified/{kind}, as a sentence/mAP" for kind in KINDS[:2]])
            # no cell for triples, which are always read as sentences
            rows.append([title_with_seeds("UniVSE, words read as sentences", title, len(seeds)), *cells, ""])
    reported = COMPARED["univse-3"].reported
    ablations = {"average": ("all losses", reported["univse"])}
    for loss in ("obj", "attr", "rel"):
        ablations[f"only-{loss}"] = (f"ℓ_{loss} alone", reported[f"only-{loss}"])
    for name, (title, values) in ablations.items():
        if metrics := read_evaluation(settings.model(f"univse-{name}")):
            cells = _mean_cells([metrics], [f"unified/{kind}/mAP" for kind in KINDS])
            both = [f"{cell} ({value})" for cell, value in zip(cells, _reported_cells(values), strict=True)]
            rows.append([f"UniVSE, ablation, {title} (reported)", *both])
    return rows


def _chance_rows(settings: PapersConfig) -> Rows:
    """The rows of UniVSE's Table 4 for attributes and relations that are assigned at random."""
    table = COMPARED["univse-4"]
    rows = [["chance, reported", *_reported_cells(table.reported["chance"])]]
    evaluated = [
        metrics for model in table.models for recipe in RECIPES for metrics in read_evaluations(settings, model, recipe)
    ]
    if evaluated:  # chance is the same for all models
        places = ("parsing/attribute/noun, random", "parsing/relation/either, random")
        rows.append(["chance", *_mean_cells(evaluated[-1:], places)])
    return rows


def _alpha_table(settings: PapersConfig) -> str:
    """UniVSE's Figure 5: rsum and attacks by the weight α of the sentence in a caption's vector."""
    rows = []
    for recipe, title in RECIPES.items():
        for metrics in read_evaluations(settings, "univse", recipe)[:1]:
            for name, key in (("rsum", "rsum"), ("attacks", "attacked")):
                cells = (f"{values[key]:.1f}" for values in metrics["alpha"].values())
                rows.append([title_with_seeds(name, title, 1), *cells])
    return table_if_any(["α", *(f"{n / 10:.1f}" for n in range(11))], rows)


def _ablations_table(settings: PapersConfig) -> str:
    """UniVSE's ablations beside the paper's, except those of its Table 3, which that table has."""
    results = {
        name: read_evaluation(settings.model(f"univse-{name}"))
        for name in PAPERS["ablations"]
        if not name.startswith("only-")
    }
    results["dropped, both"] = read_evaluation(settings.model("univse-dropped"), "both")
    rows = []
    for name, metrics in results.items():
        printed = " / ".join(_reported_cells(REPORTED["ablations"].get(name, ())))
        title = f"{name}: {metrics['caption']['alpha']:.2f} in the end" if metrics and name == "learned-alpha" else name
        rows.append([title, printed, *(_mean_cells([metrics], RSUM_AND_ATTACKS) if metrics else ["", ""])])
    return markdown_table(["", "reported: rsum / attacks", "rsum", "attacks"], rows)


TABLES: dict[str, Callable[[PapersConfig], str]] = {
    "coverage": _coverage_table,
    "claims": _claims_table,
    "training": _training_table,
    "supply": _supply_table,
    "vse-c-2-3": partial(_comparison_table, "vse-c-2-3"),
    "vse-c-4": partial(_comparison_table, "vse-c-4"),
    "vse-c-6": _words_table,
    "vse-c-7": _blanks_table,
    "vse-c-figure-2": _saliency_table,
    "univse-1": partial(_comparison_table, "univse-1"),
    "univse-2": partial(_comparison_table, "univse-2"),
    "univse-3": partial(_comparison_table, "univse-3", more=_unified_rows),
    "univse-4": partial(_comparison_table, "univse-4", more=_chance_rows),
    "univse-figure-5": _alpha_table,
    "univse-ablations": _ablations_table,
    "augmented": partial(_comparison_table, "augmented"),
    "order-2": partial(_comparison_table, "order-2"),
    "mha-d": partial(_comparison_table, "mha-d"),
}
