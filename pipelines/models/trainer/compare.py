"""The comparison of models on one run: each is trained with several seeds and evaluated, and tables show the means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from ....schemas.messages import did_you_mean
from ...engine.manifest import describe
from ...engine.storage import refuse_link
from ..checkpoint import JsonObject
from ..config import CONFIGS, RESUMABLE, SIMILARITIES, EvaluateConfig, TrainConfig, configure, lacking_of_recipe
from ..data import read_captions
from ..evaluation.protocols import FAMILIES, Evaluation
from ..evaluation.retrieval import TOP, count_hits
from ..figures import (
    Figure,
    MetricOfTrainings,
    bootstrap,
    colour_of,
    format_difference,
    label_axes,
    legend_below,
    new_figure,
    table_if_any,
    write_png,
    write_results,
)
from ..fit import Say, silent
from ..registry import MODELS, RECIPES, WITH_NEGATIVES
from .evaluate import WAYS, measure, write_evaluation
from .train import train

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Names of metrics: how often, in %, a caption scores above its negative, over the negatives whose words the model knows
# (PAIRS), and over all (EVERY_PAIR); `pairs:noun` is the same for one operator
PAIRS = "pairs"
EVERY_PAIR = "every pair"
RECALLS = ("R@1", "R@5", "R@10", "sum")
MOST_UPRIGHT = 6  # names of operators that fit below the axis side by side
RECALL_STYLES = {  # by candidates of a retrieval, how their line is drawn, and what they are
    "plain": ("-", "among all captions"),
    "vse-c:total": ("--", "among all captions and the negatives of the image"),
}
SLANTED = {"rotation": 30, "ha": "right"}  # labels of an axis that has many
OWN_SETTINGS = ("model", "negative_families", "seed", *RESUMABLE)  # differ between trainings: not listed as settings


class Variant(NamedTuple):
    """A model with settings in its name: `vse-c+noun~order@paper` is VSE-C, trained with negatives of the family noun
    only, with the similarity order and the recipe of its paper.

    families: those after the +; empty: the config's default. similarity, recipe: those after the ~ and the @; empty:
    those of the comparison.
    """

    name: str
    model: str
    families: tuple[str, ...] = ()
    similarity: str = ""
    recipe: str = ""

    @classmethod
    def parse(cls, name: str) -> Variant:
        """The variant with this name. Raises ValueError for an unknown model, family, similarity or recipe."""
        before_recipe, has_recipe, recipe = name.partition("@")
        before_similarity, has_similarity, similarity = before_recipe.partition("~")
        # the longest model that the name begins with: `vse-c` also begins with `vse`
        model = max((known for known in MODELS if before_similarity.startswith(known)), key=len, default="")
        families: tuple[str, ...] = ()
        if before_similarity != model:
            families = tuple(before_similarity.removeprefix(model).removeprefix("+").split("+"))
        is_known = model and set(families) <= set(FAMILIES) and (not families or model in WITH_NEGATIVES)
        if has_recipe and recipe not in RECIPES or has_similarity and similarity not in SIMILARITIES:
            is_known = False
        if not is_known:
            rule = f"{', '.join(MODELS)}, or {', '.join(WITH_NEGATIVES)} with +{', +'.join(FAMILIES)}"
            ends = f"~{' or ~'.join(SIMILARITIES)}, then with @{' or @'.join(RECIPES)}"
            raise ValueError(f"model must be {rule}, and may end with {ends}, was: {name}{did_you_mean(name, MODELS)}")
        return cls(name, model, families, similarity, recipe)

    @property
    def without_families(self) -> str:
        """The name of the variant without its families: `vse-c~order@paper`."""
        families = "".join(f"+{family}" for family in self.families)
        return self.model + self.name.removeprefix(self.model + families)

    def config(self, seed: int, output: Path, settings: Mapping[str, Any]) -> TrainConfig:
        """The config of this variant's training with a seed; the model's folder is `output/<name>-<seed>`. settings:
        fields to set, of this model or of others, `run` among them, and the recipe of the comparison.
        """
        known = (*CONFIGS[self.model].model_fields, "recipe")
        of_model = {name: value for name, value in settings.items() if name in known}
        in_name = {"negative_families": self.families, "similarity": self.similarity, "recipe": self.recipe}
        of_model |= {name: value for name, value in in_name.items() if value}
        return configure(**{**of_model, "model": self.model, "seed": seed, "output": output / f"{self.name}-{seed}"})


def figure_above_zero(metric: MetricOfTrainings) -> Figure:
    """A metric of a variant with its interval, cut at 0, since no metric is below 0."""
    mean, (low, high) = metric.figure()
    return Figure(mean, (max(low, 0.0), high))


class VariantResult(NamedTuple):
    """The metrics of a variant, as means over its seeds.

    metrics: by name, with bootstrap samples of the same images for all variants. PAIRS and EVERY_PAIR, by any operator
    and by each, such as "pairs:noun". Of each retrieval R@1, R@5, R@10 and their sum in %, and the mean rank, such as
    "plain i2t R@1" and "vse-c:noun i2t sum"; `rsum`, the sum without attack; and "univse", that of UniVSE's attacks.
    """

    name: str
    seeds: int
    metrics: Mapping[str, MetricOfTrainings]

    @property
    def operators(self) -> list[str]:
        """The operators with negatives whose words the model knows."""
        return sorted(name.removeprefix(f"{PAIRS}:") for name in self.metrics if name.startswith(f"{PAIRS}:"))

    def minus(self, other: VariantResult) -> dict[str, Figure]:
        """By name, the difference of each metric to that of another variant with as many seeds, if both have it."""
        known = other.metrics
        return {name: (metric - known[name]).figure() for name, metric in self.metrics.items() if name in known}

    def as_json(self, first: VariantResult) -> JsonObject:
        """The metrics as comparison.json holds them, with their differences to those of the first variant."""
        figures = {name: figure_above_zero(metric)._asdict() for name, metric in self.metrics.items()}
        retrieval = {}  # by candidates and direction, such as "plain i2t"
        for name in figures:
            if name.endswith(" mean rank"):
                key = name.removesuffix(" mean rank")
                retrieval[key] = {top: figures[f"{key} {top}"] for top in RECALLS}
                retrieval[key]["mean rank"] = figures[name]["value"]
        pairwise = {
            operator: {"known": figures[f"{PAIRS}:{operator}"], "all": figures[f"{EVERY_PAIR}:{operator}"]}
            for operator in self.operators
        }
        return {
            "seeds": self.seeds,
            "rsum": figures["rsum"],
            "retrieval": retrieval,
            "pairwise": pairwise,
            f"difference from {first.name}": {
                name: difference._asdict() for name, difference in self.minus(first).items()
            },
        }


def compare(
    run: Path,
    output: Path,
    variants: Sequence[str],
    evaluation: EvaluateConfig,
    training: Mapping[str, Any],
    seeds: int = 1,
    *,
    overwrite: bool = False,
    say: Say = silent,
) -> str:
    """Train and evaluate all variants with seeds 0 … seeds - 1; writes comparison.md, comparison.json and
    comparison.png to `output`, and returns the tables as Markdown.

    Each model is in `output/<variant>-<seed>`, with its evaluation; models that are fully trained are not trained
    again.

    Args:
        run: the run that is trained and evaluated on.
        output: the folder of the comparison.
        variants: their names, see `Variant`.
        evaluation: how each trained model is evaluated.
        training: fields of TrainConfig for all trainings, other than run, output, model, negative_families and seed;
            and `recipe`, see `configure`.
        seeds: how often each variant is trained.
        overwrite: whether to replace models that were trained with other settings.
        say: called with each line of progress.

    Raises:
        FileNotFoundError: the run lacks a table that a training or the evaluation needs.
        ValueError: there is no such variant, setting or split, seeds < 1, the run is unfit for a training, or the
            folder of a model holds anything else.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be >= 1, was: {seeds}")
    parsed = [Variant.parse(name) for name in variants]
    for name in set(training) - {"recipe"}.union(*(CONFIGS[variant.model].model_fields for variant in parsed)):
        raise ValueError(f"{name} is no setting of {', '.join(dict.fromkeys(variant.model for variant in parsed))}")
    settings = {"run": run, **training}
    trainings = {variant: [variant.config(seed, output, settings) for seed in range(seeds)] for variant in parsed}
    languages = dict.fromkeys(code for configs in trainings.values() for code in configs[0].languages)
    captions = read_captions(run, languages=tuple(languages))
    # a wrong split raises an error now, and not after the first training, which may take hours
    captions.of_split(evaluation.split)
    image_of_caption = {}
    for caption_id, image in zip(captions.ids, captions.image.tolist(), strict=True):
        image_of_caption[caption_id] = captions.image_ids[image]

    results = []
    for variant, configs in trainings.items():
        recipe = variant.recipe or settings.get("recipe", "")
        if lacking := lacking_of_recipe(variant.model, recipe, configs[0].vectors):
            say(lacking)
        evaluations = []
        for config in configs:
            say(f"{variant.name}, seed {config.seed}")
            train(config, overwrite=overwrite, say=say)
            measured = measure(config.output, run, evaluation)
            write_evaluation(measured, refuse_link(config.output / "evaluation"))
            evaluations.append(measured)
        results.append(summarize(variant.name, evaluations, image_of_caption, evaluation.seed))

    kinds = {variant.without_families: configs[0] for variant, configs in trainings.items()}
    parts = [to_markdown(results, describe_settings(kinds, seeds, evaluation.split))]
    if len(results) > 1:
        parts.append(" ".join(conclusions(results[0], results[-1])))
    values = {result.name: result.as_json(results[0]) for result in results}
    text = write_results(output, "comparison", values, "\n\n".join(filter(None, parts)))
    draw_comparison(results, output / "comparison.png")
    return text


def summarize(name: str, evaluations: Sequence[Evaluation], image: Mapping[str, str], seed: int) -> VariantResult:
    """The means of a variant's metrics over its trainings, with their bootstrap.

    Args:
        name: of the variant.
        evaluations: one for each seed of its training.
        image: the image_id of each caption, by caption_id.
        seed: of the bootstrap.
    """
    tables = [evaluation.ranks.assign(training=number) for number, evaluation in enumerate(evaluations)]
    ranks = pd.concat(tables)
    metrics: dict[str, MetricOfTrainings] = {}
    # one retrieval after the other: such as "vse-c:noun", the attack whose negatives are candidates, and "i2t"
    for (candidates, direction), rows in ranks.groupby(["candidates", "direction"], sort=False):
        images = rows["query"] if direction == "i2t" else rows["query"].map(image)
        metrics |= _retrieval_metrics(f"{candidates} {direction}", images, rows, seed)
    attacks = [metric for key, metric in metrics.items() if key.startswith("univse:") and key.endswith(" sum")]
    totals = {"rsum": reduce(add, (metrics[f"plain {way} sum"] for way in WAYS))}
    if attacks:
        totals["univse"] = reduce(add, attacks)
    return VariantResult(name, len(evaluations), {**totals, **metrics, **_pair_metrics(evaluations, seed)})


def _retrieval_metrics(key: str, images: pd.Series, rows: pd.DataFrame, seed: int) -> dict[str, MetricOfTrainings]:
    """R@1, R@5, R@10, their sum and the mean rank of one retrieval by S trainings, over I images.

    Args:
        key: begins the names of the metrics.
        images: the image_id of each query.
        rows: the number of the training and the rank of each query.
        seed: of the bootstrap over images.
    """
    image_of_query, image_ids = pd.factorize(images, sort=True)  # sorted: the same numbers in both directions
    counts = []  # of each training, (I, 3): queries of each image with a rank <= 1, 5, 10
    sums = []  # of each training, (I, 1): of the ranks of an image's queries
    sizes = []  # of each training, (I, 1): how many queries an image has
    for of_training in rows.groupby("training").indices.values():
        rank = rows["rank"].to_numpy()[of_training]
        image = image_of_query[of_training]
        hits, queries = count_hits(torch.tensor(rank), torch.tensor(image), len(image_ids))
        counts.append(hits)
        sizes.append(queries)
        sums.append(np.bincount(image, rank, len(image_ids))[:, None])
    recalls = _metrics_of_trainings(np.stack(counts), np.stack(sizes), seed)
    metrics = dict(zip((f"{key} {top}" for top in RECALLS), [*recalls, reduce(add, recalls)], strict=True))
    # not by `_metrics_of_trainings` and its percent, which would change their last digit
    mean_ranks = np.stack(sums).sum(1) / np.stack(sizes).sum(1)  # (S, 1)
    samples = bootstrap(np.stack(sums).sum(0), np.stack(sizes).sum(0), seed) / 100  # as `bootstrap` gives percent
    metrics[f"{key} mean rank"] = MetricOfTrainings(mean_ranks[:, 0], samples[:, 0])
    return metrics


def _metrics_of_trainings(counts: np.ndarray, sizes: np.ndarray, seed: int) -> list[MetricOfTrainings]:
    """k ratios in % for each of S trainings: the sum of the counts over images, divided by the sum of the sizes.

    Args:
        counts: (S, I, k) the hits of each training in each of I images.
        sizes: (S, I, 1) the cases in each image.
        seed: of the bootstrap over images.
    """
    ratios = 100 * counts.sum(1) / sizes.sum(1)  # (S, k)
    # All trainings were tested on the same images, so an image is resampled with its hits in all of them.
    samples = bootstrap(counts.sum(0), sizes.sum(0), seed)  # (resamples, k)
    return [MetricOfTrainings(ratios[:, n], samples[:, n]) for n in range(counts.shape[2])]


def _pair_metrics(evaluations: Sequence[Evaluation], seed: int) -> dict[str, MetricOfTrainings]:
    """How often a caption is above its negative, over all operators and by each: of pairs whose words the model knows
    (PAIRS), and of all (EVERY_PAIR).

    A metric is left out if an evaluation has no pairs for it.

    Args:
        evaluations: one for each training of a variant.
        seed: of the bootstrap over the images that have pairs, which are the same for all variants of a comparison.
    """
    images = sorted(set().union(*(evaluation.pairs["image"] for evaluation in evaluations)))
    operators = sorted(set().union(*(evaluation.pairs["operator"] for evaluation in evaluations)))
    metrics = {}
    for prefix, operator in product((PAIRS, EVERY_PAIR), ("", *operators)):
        right = []  # of each training, (I, 1)
        asked = []  # of each training, (I, 1)
        for evaluation in evaluations:
            rows = evaluation.pairs
            if prefix == PAIRS:
                rows = rows[rows["known"]]
            if operator:
                rows = rows[rows["operator"] == operator]
            # an image has the same number in every training, also where some images have no pairs
            image = pd.Categorical(rows["image"], images).codes
            right.append(np.bincount(image, rows["right"].to_numpy(), len(images))[:, None])
            asked.append(np.bincount(image, minlength=len(images))[:, None])
        if all(number.any() for number in asked):
            name = f"{prefix}:{operator}" if operator else prefix
            (metrics[name],) = _metrics_of_trainings(np.stack(right), np.stack(asked), seed)
    return metrics


def conclusions(first: VariantResult, last: VariantResult) -> list[str]:
    """Sentences on what the last variant does better or worse than the first one: on pairs of a caption and its
    negative, and in retrieval with and without negatives among the candidates. What has no data has no sentence.
    """

    def mean(result: VariantResult, name: str) -> str:
        """The mean of a metric over the trainings of a variant, to one decimal."""
        return f"{result.metrics[name].values.mean():.1f}"

    sentences = []
    if PAIRS in first.metrics:
        what = f"{last.name} puts {mean(last, PAIRS)} % of the captions above their negatives, "
        what += f"{first.name} {mean(first, PAIRS)} % (chance is 50)"
        sentences.append(f"{what}: {_which_is_better(first, last, PAIRS)}.")
    attack = "vse-c:total i2t R@1"
    plain = "plain i2t R@1"
    if attack in first.metrics:
        falls = [f"{result.name} from {mean(result, plain)} to {mean(result, attack)} %" for result in (first, last)]
        what = f"With the negatives of an image among the candidates, its R@1 falls with {' and with '.join(falls)}"
        sentences.append(f"{what}: {_which_is_better(first, last, attack)}.")
    return [*sentences, f"In retrieval without negatives, by rsum: {_which_is_better(first, last, 'rsum')}."]


def _which_is_better(first: VariantResult, last: VariantResult, name: str) -> str:
    """Which of two variants is better by a metric: `vse-c is better, by +5.3 (+2.1 to +8.4)`.

    With one seed there is no verdict, as it is not known what another training of the same model would give.

    Args:
        first: the variant that is compared with.
        last: the variant that the sentence is about.
        name: of the metric.
    """
    difference = (last.metrics[name] - first.metrics[name]).figure()
    # an interval that holds 0 shows no difference
    low, high = difference.interval
    shown = format_difference(*difference)
    if last.seeds == 1:
        sign = "higher than" if difference.value > 0 else "lower than"
        if difference.value == 0:
            sign = "as high as"
        return f"one seed: sign only, {last.name} is {sign} {first.name}, {shown}"
    if low <= 0 <= high:
        return f"a difference is not shown, {shown}"
    return f"{last.name} is {'better' if low > 0 else 'worse'}, by {shown}"


def draw_comparison(results: Sequence[VariantResult], path: Path) -> None:
    """Draw the variants side by side as a PNG: how often a caption is above its negative, by operator; and recalls of
    captions by an image, solid without negatives among the candidates, dashed with those of the image.
    """
    figure = new_figure(11, 4.6)
    pairs, recalls = figure.subplots(1, 2)
    operators = [name for name in results[0].operators if all(name in result.operators for result in results)]
    for number, result in enumerate(results):
        colour = colour_of(number)
        _draw_pairs(pairs, result, operators, number, len(results), colour)
        _draw_recalls(recalls, result, colour)
    pairs.axhline(50, color="0.3", linewidth=1, linestyle=":", label="chance")
    is_slanted = len(operators) > MOST_UPRIGHT
    pairs.set_xticks(range(len(operators)), operators, **(SLANTED if is_slanted else {}))
    label_axes(pairs, "Caption above its negative", y="% of pairs, with 95 % intervals")
    pairs.set(ylim=(0, 100))
    label_axes(recalls, "Captions of an image among the first K", y="% of images")
    recalls.set(ylim=(0, None))
    for style, what in RECALL_STYLES.values():
        recalls.plot([], [], style, color="0.3", label=what)
    legend_below(pairs, columns=3, distance=0.32 if is_slanted else 0.12)
    legend_below(recalls, columns=1, distance=0.12)
    write_png(figure, path, 120)


def _draw_pairs(
    axes: Axes, result: VariantResult, operators: Sequence[str], number: int, variants: int, colour: str
) -> None:
    """Bars of how often a caption is above its negative, beside those of the other variants of each operator.

    Args:
        axes: to draw on.
        result: of the variant.
        operators: a group of bars for each.
        number: of the variant, from 0: the place of its bar in each group.
        variants: how many there are.
        colour: of the bars.
    """
    width = 0.8 / variants  # a fifth of the way to the next operator is free
    shift = (number - (variants - 1) / 2) * width  # so that the group is centred on the operator's tick
    figures = [result.metrics[f"{PAIRS}:{name}"].figure() for name in operators]
    shares = np.array([share.value for share in figures])
    bounds = np.array([share.interval for share in figures]).reshape(-1, 2).T  # (2, operators)
    reach = np.abs(bounds - shares)
    axes.bar(
        np.arange(len(operators)) + shift,
        shares,
        width,
        yerr=reach,
        error_kw={"elinewidth": 0.8, "capsize": 2, "ecolor": "0.25"},
        color=colour,
        edgecolor="white",
        label=result.name,
    )


def _draw_recalls(axes: Axes, result: VariantResult, colour: str) -> None:
    """Lines of the recalls of captions by an image, without and with negatives among the candidates, if known."""
    for candidates, (style, _) in RECALL_STYLES.items():
        names = [f"{candidates} i2t {top}" for top in RECALLS[:3]]
        if all(name in result.metrics for name in names):
            values = [float(result.metrics[name].values.mean()) for name in names]
            axes.plot(RECALLS[:3], values, style, color=colour, marker="o")


def describe_settings(configs: Mapping[str, TrainConfig], seeds: int, split: str) -> str:
    """The text above a comparison: the split, the number of seeds, and the settings that differ from the defaults,
    without those that belong to a single training (seed, folders …). configs: by name of a kind of model, one of each.
    """
    changed: dict[str, dict[str, str]] = {}
    for kind, config in configs.items():
        fields = type(config).model_fields
        changed[kind] = {}
        for name, value in vars(config).items():
            if (name not in OWN_SETTINGS or name == "epochs") and value != fields[name].default:
                changed[kind][name] = describe(value)
    first, *others = changed.values()
    common = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    parts = [", ".join(f"{name} {value}" for name, value in common.items()) or "default settings"]
    for kind, settings in changed.items():
        if alone := [f"{name} {value}" for name, value in settings.items() if name not in common]:
            parts.append(f"{kind}: {', '.join(alone)}")
    number = "one training" if seeds == 1 else f"the mean of {seeds} trainings"
    intervals = "bootstrap intervals over images" if seeds == 1 else "t intervals over images and trainings"
    return f"Split {split}; {number} each; {'; '.join(parts)}. In brackets 95 % {intervals}."


def table_cells(result: VariantResult) -> dict[str, str]:
    """The cells of a variant in tables, by the names of their columns.

    "plain i2t R@1" has a metric with its interval (mean ranks have none), "plain i2t R@1, value" the mean alone, and
    "plain:de rsum" the sum of the recalls of a language.
    """
    metrics = result.metrics
    cells = {}
    for name, metric in metrics.items():
        value = f"{metric.values.mean():.1f}"
        cells[name] = value if "mean rank" in name else str(figure_above_zero(metric))
        cells[f"{name}, value"] = value
    for language in {name.partition(" ")[0] for name in metrics if name.startswith("plain")}:
        rsum = reduce(add, (metrics[f"{language} {way} sum"] for way in WAYS))
        cells[f"{language} rsum"] = str(figure_above_zero(rsum))
    return cells


def _table_of_variants(title: str, cells: pd.DataFrame, columns: Mapping[str, str], *, of_all: bool = True) -> str:
    """A Markdown table with a row for each variant; empty if it has no columns.

    Args:
        title: the head of the first column, which has the names of the variants.
        cells: a row for each variant, a column for each name of `table_cells`, NaN where a variant has none.
        columns: the names of the cells by the heads of the table's columns; those that `cells` lacks are left out.
        of_all: whether columns that some variant lacks are left out; else the variants that lack a column are.
    """
    there = cells.dropna(axis="columns") if of_all else cells
    shown = {head: name for head, name in columns.items() if name in there}
    if not shown:
        return ""
    rows = there[list(shown.values())].dropna()
    return table_if_any([title, *shown], [[str(variant), *map(str, row)] for variant, *row in rows.itertuples()])


def to_markdown(results: Sequence[VariantResult], setting: str) -> str:
    """VSE-C's Tables 2 to 4 and UniVSE's Table 2, as far as there are data, with a row per variant, below the paragraph
    `setting`.
    """
    cells = pd.DataFrame({result.name: table_cells(result) for result in results}).T
    names = [str(name) for name in cells]
    parts = [setting]
    # some variants may lack a language
    for candidates in sorted(name.removesuffix(" rsum") for name in names if name.endswith(" rsum")):
        language = candidates.partition(":")[2]
        title = f"without attack in {language}" if language else "without attack"
        parts.append(_table_of_variants(title, cells, _plain_columns(candidates), of_all=False))
    if "vse-c:total i2t R@1" in cells.dropna(axis="columns"):  # VSE-C's Table 2
        columns: dict[str, str] = {}
        for suffix, candidates in (("", "plain"), (", attacked", "vse-c:total")):
            columns |= {f"{top}{suffix}": f"{candidates} i2t {top}" for top in ("R@1", "R@10", "mean rank")}
        parts.append(_table_of_variants("image to text", cells, columns))
    attacks = {**{name: f"vse-c:{name}" for name in FAMILIES}, "plural": "plural", "plural, numeral": "plural:numeral"}
    columns = {head: f"{name} i2t R@1" for head, name in attacks.items()}
    parts.append(_table_of_variants("R@1 under attack by", cells, columns))  # VSE-C's Tables 3 and 4
    of_univse = sorted(name for name in names if name.startswith("univse:") and name.endswith(" i2t R@1"))
    # UniVSE's Table 2; some runs lack negatives for one of its attacks
    if of_univse and not cells[of_univse].isna().any(axis=None):
        columns = {name.removeprefix("univse:").removesuffix(" i2t R@1"): name for name in of_univse}
        columns["sum of R@1, 5, 10"] = "univse"
        parts.append(_table_of_variants("R@1 with all negatives of", cells, columns))
    parts.append(_table_of_variants("caption above negative, %", cells, _pair_columns(results[0])))
    return "\n\n".join(filter(None, [*parts, *_difference_tables(results)]))


def _plain_columns(candidates: str) -> dict[str, str]:
    """The columns of retrieval without attack: by their heads the names of their cells, see `table_cells`.

    candidates: the captions that are ranked: `plain`, or `plain:de` for those in German.
    """
    columns: dict[str, str] = {}
    for way in WAYS:
        columns |= {f"{way} R@{k}": f"{candidates} {way} R@{k}, value" for k in TOP}
        columns[f"{way} mean rank"] = f"{candidates} {way} mean rank"
    return {**columns, "rsum": f"{candidates} rsum"}


def _pair_columns(result: VariantResult) -> dict[str, str]:
    """The columns of pairs of a caption and its negative: by their heads the names of their cells."""
    return {"all operators": PAIRS, **{name: f"{PAIRS}:{name}" for name in result.operators}}


def _difference_tables(results: Sequence[VariantResult]) -> list[str]:
    """Tables of the differences to the first variant, a row per further one: of retrieval, and of pairs."""
    first, *others = results
    rows = {f"{result.name} − {first.name}": result.minus(first) for result in others}
    cells = pd.DataFrame(
        {title: {name: format_difference(*of_name) for name, of_name in row.items()} for title, row in rows.items()}
    ).T
    columns = {"rsum": "rsum", "i2t R@1": "plain i2t R@1"}
    columns |= {f"{name}, R@1": f"vse-c:{name} i2t R@1" for name in ("total", *FAMILIES)}
    columns |= {"plural, numeral, R@1": "plural:numeral i2t R@1", "univse, sum": "univse"}
    return [
        _table_of_variants("difference", cells, columns),
        _table_of_variants("difference in pairs", cells, _pair_columns(first)),
    ]
