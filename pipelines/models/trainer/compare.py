"""The comparison of models on one run: each is trained with several seeds and evaluated, and tables show the means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from ...engine.manifest import describe
from ...engine.storage import refuse_link
from ..config import CONFIGS, RESUMABLE, SIMILARITIES, EvaluateConfig, TrainConfig, configure, lacking_of_recipe
from ..data import read_captions
from ..evaluation.protocols import FAMILIES
from ..evaluation.retrieval import TOP, count_hits
from ..figures import (
    Figure,
    MetricOfTrainings,
    bootstrap,
    format_difference,
    markdown_table,
    new_figure,
    write_png,
    write_results,
)
from ..fit import Say, silent
from ..registry import MODELS, RECIPES, WITH_NEGATIVES
from .evaluate import WAYS, Evaluation, measure, write_evaluation
from .train import train

# How often in % a caption is above its negative: of negatives of known words, and of all; ":noun" is of one operator
PAIRS = "pairs"
EVERY_PAIR = "every pair"
RECALLS = ("R@1", "R@5", "R@10", "sum")
OWN_SETTINGS = ("model", "negative_families", "seed", *RESUMABLE)  # differ between trainings: not listed as settings


class Variant(NamedTuple):
    """A model by its name: `vse++`, or `vse-c+noun` for VSE-C trained with negatives of the family noun only. families:
    the families after the +; empty: those of the config's default. similarity: that after a ~, as in `vse-c~order`;
    recipe: that after an @, as in `vse-c~order@paper`; empty: those of the comparison.
    """

    name: str
    model: str
    families: tuple[str, ...] = ()
    similarity: str = ""
    recipe: str = ""

    @classmethod
    def parse(cls, name: str) -> Variant:
        """The variant with this name. Raises ValueError for an unknown model, family, similarity or recipe."""
        compared, at, recipe = name.partition("@")
        made, tilde, similarity = compared.partition("~")
        model = max((known for known in MODELS if made.startswith(known)), key=len, default="")
        families = tuple(made[len(model) :].removeprefix("+").split("+")) if made != model else ()
        known = model and set(families) <= set(FAMILIES) and (not families or model in WITH_NEGATIVES)
        if not known or (at and recipe not in RECIPES) or (tilde and similarity not in SIMILARITIES):
            rule = f"{', '.join(MODELS)}, or {', '.join(WITH_NEGATIVES)} with +{', +'.join(FAMILIES)}"
            ends = f"~{' or ~'.join(SIMILARITIES)}, then with @{' or @'.join(RECIPES)}"
            raise ValueError(f"model must be {rule}, and may end with {ends}, was: {name}")
        return cls(name, model, families, similarity, recipe)

    def config(self, seed: int, output: Path, settings: Mapping[str, Any]) -> TrainConfig:
        """The config of this variant's training with a seed; the model's folder is `output/<name>-<seed>`. settings:
        fields to set, of this model or of others, `run` among them, and the recipe of the comparison.
        """
        known = (*CONFIGS[self.model].model_fields, "recipe")
        of_model = {name: value for name, value in settings.items() if name in known}
        own = {"negative_families": self.families, "similarity": self.similarity, "recipe": self.recipe}
        of_model |= {name: value for name, value in own.items() if value}
        return configure(**{**of_model, "model": self.model, "seed": seed, "output": output / f"{self.name}-{seed}"})


def figure(metric: MetricOfTrainings) -> Figure:
    """A metric of a variant with its interval, of which no bound is below 0, as no metric is."""
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
        """Those of whose negatives there are pairs of known words."""
        return sorted(name.removeprefix(f"{PAIRS}:") for name in self.metrics if name.startswith(f"{PAIRS}:"))

    def minus(self, other: VariantResult) -> dict[str, Figure]:
        """The differences of the metrics to those of another variant with as many seeds, by the name of the metric."""
        known = other.metrics
        return {name: (metric - known[name]).figure() for name, metric in self.metrics.items() if name in known}

    def as_json(self, first: VariantResult) -> dict[str, Any]:
        """The metrics as comparison.json holds them, with their differences to those of the first variant."""
        figures = {name: figure(metric)._asdict() for name, metric in self.metrics.items()}
        keys = [name.removesuffix(" mean rank") for name in figures if name.endswith(" mean rank")]
        retrieval = {key: {name: figures[f"{key} {name}"] for name in RECALLS} for key in keys}
        for key in keys:
            retrieval[key]["mean rank"] = figures[f"{key} mean rank"]["value"]
        pairwise = {
            operator: {"known": figures[f"{PAIRS}:{operator}"], "all": figures[f"{EVERY_PAIR}:{operator}"]}
            for operator in self.operators
        }
        mine = {"seeds": self.seeds, "rsum": figures["rsum"], "retrieval": retrieval, "pairwise": pairwise}
        differences = {name: one._asdict() for name, one in self.minus(first).items()}
        return {**mine, f"difference from {first.name}": differences}


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
    comparison.png to `output`.

    evaluation: how each trained model is evaluated. training: fields of TrainConfig for all trainings, other than run,
    output, model, negative_families and seed; and `recipe`, see `configure`. Each model is in
    `output/<variant>-<seed>`, with its evaluation; models that are fully trained are not trained again. overwrite: see
    `train`. say: called with each line of progress. Returns the tables as Markdown. Raises FileNotFoundError and
    ValueError as `train` and `measure` do, and ValueError for an unknown variant or setting, or for seeds < 1.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be >= 1, was: {seeds}")
    parsed = [Variant.parse(name) for name in variants]
    for name in set(training) - {"recipe"}.union(*(CONFIGS[v.model].model_fields for v in parsed)):
        raise ValueError(f"{name} is no setting of {', '.join(dict.fromkeys(v.model for v in parsed))}")
    settings = {"run": run, **training}
    trainings = {v: [v.config(seed, output, settings) for seed in range(seeds)] for v in parsed}
    spoken = dict.fromkeys(code for configs in trainings.values() for code in configs[0].languages)
    captions = read_captions(run, languages=tuple(spoken))
    captions.of_split(evaluation.split)  # raises before anything is trained
    image = dict(zip(captions.ids, (captions.image_ids[n] for n in captions.image.tolist()), strict=True))
    results = []
    for variant, configs in trainings.items():
        recipe = variant.recipe or settings.get("recipe", "")
        if lacking := lacking_of_recipe(variant.model, recipe, configs[0].vectors):
            say(lacking)
        evaluations = []
        for config in configs:
            say(f"{variant.name}, seed {config.seed}")
            train(config, overwrite=overwrite, say=say)
            evaluations.append(measure(config.output, run, evaluation))
            write_evaluation(evaluations[-1], refuse_link(config.output / "evaluation"))
        results.append(summarize(variant.name, evaluations, image, evaluation.seed))
    kinds = {v.model + v.name[len("+".join([v.model, *v.families])) :]: made[0] for v, made in trainings.items()}
    setting = describe_settings(kinds, seeds, evaluation.split)
    found = {result.name: result.as_json(results[0]) for result in results}
    said = " ".join(conclude(results[0], results[-1])) if len(results) > 1 else ""
    text = write_results(output, "comparison", found, "\n\n".join(filter(None, [to_markdown(results, setting), said])))
    draw_comparison(results, output / "comparison.png")
    return text


def summarize(name: str, evaluations: Sequence[Evaluation], image: Mapping[str, str], seed: int) -> VariantResult:
    """The means of the metrics over the evaluations of a variant, one per seed of its training, with their bootstrap.
    image: the image_id of each caption_id. seed: the seed of the bootstrap.
    """
    ranks = pd.concat([one.ranks.assign(training=number) for number, one in enumerate(evaluations)])
    metrics: dict[str, MetricOfTrainings] = {}
    for (candidates, direction), rows in ranks.groupby(["candidates", "direction"], sort=False):
        key = f"{candidates} {direction}"
        images = rows["query"] if direction == "i2t" else rows["query"].map(image)
        owner, names = pd.factorize(images, sort=True)  # the same in both directions
        parts = [(owner[part], rows["rank"].to_numpy()[part]) for part in rows.groupby("training").indices.values()]
        hits = [count_hits(torch.tensor(rank), torch.tensor(of), len(names)) for of, rank in parts]
        counts, sizes = (np.stack(parts) for parts in zip(*hits, strict=True))  # (S, I, 3) and (S, I, 1)
        shares = 100 * counts.sum(1) / sizes.sum(1)
        samples = bootstrap(counts.sum(0), sizes.sum(0), seed)
        tops = [MetricOfTrainings(shares[:, n], samples[:, n]) for n in range(len(TOP))]
        metrics |= {f"{key} {top}": metric for top, metric in zip(RECALLS, [*tops, reduce(add, tops)], strict=True)}
        sums = np.stack([np.bincount(of, rank, len(names))[:, None] for of, rank in parts])
        mean_ranks = (sums.sum(1) / sizes.sum(1))[:, 0]
        metrics[f"{key} mean rank"] = MetricOfTrainings(
            mean_ranks, bootstrap(sums.sum(0), sizes.sum(0), seed)[:, 0] / 100
        )
    attacks = [metric for name, metric in metrics.items() if name.startswith("univse:") and name.endswith(" sum")]
    totals = {"rsum": reduce(add, (metrics[f"plain {way} sum"] for way in WAYS))}
    totals |= {"univse": reduce(add, attacks)} if attacks else {}
    metrics |= _pairs(evaluations, seed)
    return VariantResult(name, len(evaluations), {**totals, **metrics})


def _pairs(evaluations: Sequence[Evaluation], seed: int) -> dict[str, MetricOfTrainings]:
    """PAIRS and EVERY_PAIR, by any operator and by each, those of which every evaluation has pairs; bootstrap samples
    are over the images that have pairs, which are the same for all variants of a comparison.
    """
    images = sorted(set().union(*(evaluation.pairs["image"] for evaluation in evaluations)))
    operators = sorted(set().union(*(evaluation.pairs["operator"] for evaluation in evaluations)))
    found = {}
    for prefix, operator in product((PAIRS, EVERY_PAIR), ("", *operators)):
        right = []
        asked = []
        for evaluation in evaluations:
            rows = evaluation.pairs
            if prefix == PAIRS:
                rows = rows[rows["known"]]
            if operator:
                rows = rows[rows["operator"] == operator]
            image = pd.Categorical(rows["image"], images).codes
            right.append(np.bincount(image, rows["right"].to_numpy(), len(images))[:, None])
            asked.append(np.bincount(image, minlength=len(images))[:, None])
        counts = np.stack(right)
        sizes = np.stack(asked)  # (S, I, 1)
        if sizes.any((1, 2)).all():
            shares = (100 * counts.sum(1) / sizes.sum(1))[:, 0]
            samples = bootstrap(counts.sum(0), sizes.sum(0), seed)[:, 0]
            found[f"{prefix}:{operator}" if operator else prefix] = MetricOfTrainings(shares, samples)
    return found


def conclude(first: VariantResult, last: VariantResult) -> list[str]:
    """Sentences on what the last variant does better or worse than the first one: on pairs of a caption and its
    negative, and in retrieval with and without negatives among the candidates, those of which there are data.
    """
    sentences = []
    if PAIRS in first.metrics:
        share, other = (result.metrics[PAIRS].values.mean() for result in (last, first))
        what = f"{last.name} puts {share:.1f} % of the captions above their negatives, {first.name} {other:.1f} %"
        sentences.append(f"{what} (chance is 50): {_verdict(first, last, PAIRS)}.")
    attack = "vse-c:total i2t R@1"
    plain = "plain i2t R@1"
    if attack in first.metrics:
        falls = [
            f"{one.name} from {one.metrics[plain].values.mean():.1f} to {one.metrics[attack].values.mean():.1f} %"
            for one in (first, last)
        ]
        what = "With the negatives of an image among the candidates, its R@1 falls with " + " and with ".join(falls)
        sentences.append(f"{what}: {_verdict(first, last, attack)}.")
    return [*sentences, f"In retrieval without negatives, by rsum: {_verdict(first, last, 'rsum')}."]


def _verdict(first: VariantResult, last: VariantResult, name: str) -> str:
    """Which of two variants is better by a metric, such as `vse-c is better, by +5.3 (+2.1 to +8.4)`. No verdict rests
    on one seed: what another training of the same model would give is not known then.
    """
    difference = (last.metrics[name] - first.metrics[name]).figure()
    low, high = difference.interval
    shown = format_difference(*difference)
    if last.seeds == 1:
        sign = "as high as" if difference.value == 0 else "higher than" if difference.value > 0 else "lower than"
        return f"one seed: sign only, {last.name} is {sign} {first.name}, {shown}"
    if low <= 0 <= high:
        return f"a difference is not shown, {shown}"
    return f"{last.name} is {'better' if low > 0 else 'worse'}, by {shown}"


def draw_comparison(results: Sequence[VariantResult], path: Path) -> None:
    """Draw the variants side by side as a PNG: how often a caption is above its negative, by operator; and recalls of
    captions by an image, solid without negatives among the candidates, dashed with those of the image.
    """
    figure = new_figure(11, 4.2)
    left, right = figure.subplots(1, 2)
    operators = [name for name in results[0].operators if all(name in result.operators for result in results)]
    colours = [f"C{number}" for number in range(len(results))]
    for number, (result, colour) in enumerate(zip(results, colours, strict=True)):
        places = [place + (number - (len(results) - 1) / 2) * 0.8 / len(results) for place in range(len(operators))]
        shares = [float(result.metrics[f"{PAIRS}:{name}"].values.mean()) for name in operators]
        left.bar(places, shares, 0.8 / len(results), color=colour, label=result.name)
        for style, candidates, what in (("-", "plain", "plain"), ("--", "vse-c:total", "with its negatives")):
            recalls = [result.metrics.get(f"{candidates} i2t {top}") for top in RECALLS[:3]]
            if all(recall is not None for recall in recalls):
                values = [float(recall.values.mean()) for recall in recalls if recall is not None]
                right.plot(RECALLS[:3], values, style, color=colour, marker="o", label=f"{result.name}, {what}")
    left.axhline(50, color="0.4", linewidth=1, linestyle=":", label="chance")
    left.set_xticks(range(len(operators)), operators, rotation=30, ha="right")
    left.set(ylabel="caption above its negative, %", ylim=(0, 100), title="pairs")
    right.set(ylabel="% of images", ylim=(0, None), title="captions of an image, by rank")
    for axes in (left, right):
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.18), ncols=2, frameon=False)
    write_png(figure, path, 120)


def describe_settings(configs: Mapping[str, TrainConfig], seeds: int, split: str) -> str:
    """The text above a comparison: the split, the number of seeds, and which settings differ from the defaults, but for
    those of each training (seed, folders …). configs: one for each kind of model and recipe, by its name.
    """
    changed: dict[str, dict[str, str]] = {}
    for kind, config in configs.items():
        settings = {name: value for name, value in vars(config).items() if name not in OWN_SETTINGS or name == "epochs"}
        fields = type(config).model_fields
        changed[kind] = {name: describe(value) for name, value in settings.items() if value != fields[name].default}
    first, *others = changed.values()
    common = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    parts = [", ".join(f"{name} {value}" for name, value in common.items()) or "default settings"]
    for model, settings in changed.items():
        if own := [f"{name} {value}" for name, value in settings.items() if name not in common]:
            parts.append(f"{model}: {', '.join(own)}")
    number = "one training" if seeds == 1 else f"the mean of {seeds} trainings"
    kind = "bootstrap intervals over images" if seeds == 1 else "t intervals over images and trainings"
    return f"Split {split}; {number} each; {'; '.join(parts)}. In brackets 95 % {kind}."


def cells(result: VariantResult) -> dict[str, str]:
    """What tables say of a variant, by name: figures; values without their intervals, as "plain i2t R@1, value"; mean
    ranks; and the rsum of each language, as "plain:de rsum".
    """
    metrics = result.metrics
    plain = {name.partition(" ")[0] for name in metrics if name.startswith("plain")}
    values = {name: f"{metric.values.mean():.1f}" for name, metric in metrics.items()}
    rsums = {name: reduce(add, (metrics[f"{name} {way} sum"] for way in WAYS)) for name in plain}
    return {
        **{name: values[name] if "mean rank" in name else str(figure(metric)) for name, metric in metrics.items()},
        **{f"{name}, value": value for name, value in values.items()},
        **{f"{name} rsum": str(figure(metric)) for name, metric in rsums.items()},
    }


def to_markdown(results: Sequence[VariantResult], setting: str) -> str:
    """VSE-C's Tables 2 to 4 and UniVSE's Table 2, a row per variant, those with data, below the paragraph `setting`."""
    parts = [setting]
    shown = {result.name: cells(result) for result in results}
    of_some = set[str]().union(*shown.values())
    of_all = set.intersection(*map(set, shown.values()))

    def table(first: str, columns: Mapping[str, str], known: set[str] = of_all) -> None:
        """Add a table; columns: by its head, the name of what it shows, left out if it is not known."""
        kept = {head: name for head, name in columns.items() if name in known}
        names = set(kept.values())
        rows = [[row, *(its[name] for name in kept.values())] for row, its in shown.items() if names <= its.keys()]
        if kept and rows:
            parts.append(markdown_table([first, *kept], rows))

    for name in sorted(name.removesuffix(" rsum") for name in of_some if name.endswith(" rsum")):
        tops = (*((f"R@{k}", ", value") for k in TOP), ("mean rank", ""))
        recalls = {f"{way} {of}": f"{name} {way} {of}{shown_as}" for way in WAYS for of, shown_as in tops}
        language = name.partition(":")[2]
        table(f"without attack{' in ' if language else ''}{language}", {**recalls, "rsum": f"{name} rsum"}, of_some)
    if "vse-c:total i2t R@1" in of_all:  # VSE-C's Table 2
        attacks = {"": "plain", ", attacked": "vse-c:total"}
        columns = ("R@1", "R@10", "mean rank")
        table("image to text", {f"{one}{of}": f"{name} i2t {one}" for of, name in attacks.items() for one in columns})
    families = {**{name: f"vse-c:{name}" for name in FAMILIES}, "plural": "plural", "plural, numeral": "plural:numeral"}
    table("R@1 under attack by", {head: f"{name} i2t R@1" for head, name in families.items()})  # its Tables 3 and 4
    names = sorted(name for name in of_some if name.startswith("univse:") and name.endswith(" i2t R@1"))
    if names and set(names) <= of_all:  # UniVSE's Table 2
        heads = {name.removeprefix("univse:").removesuffix(" i2t R@1"): name for name in names}
        table("R@1 with all negatives of", {**heads, "sum of R@1, 5, 10": "univse"})
    of_pairs = {"all operators": PAIRS, **{name: f"{PAIRS}:{name}" for name in results[0].operators}}
    table("caption above negative, %", of_pairs)
    return "\n\n".join(filter(None, [*parts, _differences(results)]))


def _differences(results: Sequence[VariantResult]) -> str:
    first, *others = results
    differences = {result.name: result.minus(first) for result in others}
    attacks = {f"{name}, R@1": f"vse-c:{name} i2t R@1" for name in ("total", *FAMILIES)}
    columns = {"rsum": "rsum", "i2t R@1": "plain i2t R@1", **attacks}
    columns |= {"plural, numeral, R@1": "plural:numeral i2t R@1", "univse, sum": "univse"}
    of_pairs = {"all operators": PAIRS, **{name: f"{PAIRS}:{name}" for name in first.operators}}
    tables = []
    for title, wanted in (("difference", columns), ("difference in pairs", of_pairs)):
        known = {head: name for head, name in wanted.items() if all(name in found for found in differences.values())}
        rows = [
            [f"{name} − {first.name}", *(format_difference(*found[of]) for of in known.values())]
            for name, found in differences.items()
        ]
        if rows and known:
            tables.append(markdown_table([title, *known], rows))
    return "\n\n".join(tables)
