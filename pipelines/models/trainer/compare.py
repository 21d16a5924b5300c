"""The comparison of models on one run: each is trained with several seeds and evaluated, and tables show the means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....schemas.markdown import replaced
from ...engine.manifest import describe
from ...engine.storage import write_atomically, write_json
from ..captions import read_captions
from ..config import (
    CONFIGS,
    MODELS,
    RECIPES,
    RESUMABLE,
    SIMILARITIES,
    WITH_NEGATIVES,
    EvaluateConfig,
    TrainConfig,
    configure,
)
from ..evaluation.protocols import FAMILIES
from ..evaluation.retrieval import TOP, bootstrap_samples, count_hits, interval
from ..figures import format_difference, format_interval, markdown_table
from .evaluate import Evaluation, measure, write_evaluation
from .train import train

VARIANTS = ("vse", "vse++", "vse-c+noun", "vse-c+numeral", "vse-c+relation", "vse-c")
BEGIN, END = "<!-- comparison: begin -->", "<!-- comparison: end -->"
Keys = Sequence[tuple[str, str]]  # of retrievals: candidates, direction
PLAIN: Keys = (("plain", "i2t"), ("plain", "t2i"))
RECALLS = ("R@1", "R@5", "R@10", "sum")
OWN_SETTINGS = ("model", "negative_families", "seed", *RESUMABLE)  # differ between trainings: not listed as settings


@dataclass(frozen=True)
class Variant:
    """A model by its name: `vse++`, or `vse-c+noun` for VSE-C trained with negatives of the family noun only.

    families: the families after the +; empty: those of the config's default. similarity: that after a ~, as in
    `vse-c~order`; recipe: that after an @, as in `vse-c~order@paper`; empty: those of the comparison.
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
            raise ValueError(
                f"model must be {', '.join(MODELS)}, or {', '.join(WITH_NEGATIVES)} with +{', +'.join(FAMILIES)}, "
                f"and may end with ~{' or ~'.join(SIMILARITIES)}, then with @{' or @'.join(RECIPES)}, was: {name}"
            )
        return cls(name, model, families, similarity, recipe)

    def config(self, seed: int, output: Path, settings: Mapping[str, Any]) -> TrainConfig:
        """The config of this variant's training with a seed; the model's folder is `output/<name>-<seed>`.

        settings: fields to set, of this model or of others, `run` among them, and the recipe of the comparison.
        """
        own: dict[str, Any] = {"model": self.model, "seed": seed, "output": output / f"{self.name}-{seed}"}
        of_model = {
            name: value for name, value in settings.items() if name in (*CONFIGS[self.model].model_fields, "recipe")
        }
        if self.families:
            own["negative_families"] = self.families
        if self.similarity:
            own["similarity"] = self.similarity
        if self.recipe:
            own["recipe"] = self.recipe
        return configure(**{**of_model, **own})


@dataclass(frozen=True)
class CompareConfig:
    """What is compared: each of the variants, trained with seeds 0 … seeds - 1. Raises ValueError for seeds < 1.

    training: fields of TrainConfig for all trainings, other than run, output, model, negative_families and seed; and
    `recipe`, see `configure`.
    evaluation: how each trained model is evaluated.
    """

    variants: tuple[str, ...] = VARIANTS
    seeds: int = 1
    training: Mapping[str, Any] = field(default_factory=dict)
    evaluation: EvaluateConfig = field(default_factory=lambda: EvaluateConfig(**{}))

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be >= 1, was: {self.seeds}")


class Figure(NamedTuple):
    """A metric's mean over seeds, or a difference of two, and its 95 % bootstrap interval over images and seeds."""

    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return format_interval(self.value, self.interval)


@dataclass(frozen=True)
class VariantResult:
    """The metrics of a variant, as means over its seeds.

    recalls: R@1, R@5, R@10 and their sum, in %, and mean_rank, both keyed by (candidates, direction) as in `RankList`.
    accuracy: by operator, how often in % a caption scores above its negative. samples: (n, 4) bootstrap samples of
    `recalls`, drawn from the same images and seeds for all variants.
    """

    name: str
    seeds: int
    recalls: Mapping[tuple[str, str], tuple[Figure, ...]]
    mean_rank: Mapping[tuple[str, str], float]
    accuracy: Mapping[str, float]
    samples: Mapping[tuple[str, str], Tensor] = field(repr=False)

    def total(self, keys: Keys) -> Figure:
        """The sum of the recalls of several retrievals; rsum is that of PLAIN."""
        return Figure(sum(self.recalls[key][-1].value for key in keys), interval(self._sampled_total(keys)))

    def _sampled_total(self, keys: Keys) -> Tensor:
        return torch.stack([self.samples[key][:, -1] for key in keys]).sum(0)

    def minus(self, other: VariantResult) -> dict[str, Figure]:
        """The differences of the metrics to another variant's, by the name of the metric: "rsum", "plain i2t R@1"."""
        shared = [key for key in self.recalls if key in other.recalls]
        sums = {"rsum": PLAIN, "univse": [key for key in shared if key[0].startswith("univse:")]}
        found = {}
        for name, keys in sums.items():
            if keys:
                value = self.total(keys).value - other.total(keys).value
                found[name] = Figure(value, interval(self._sampled_total(keys) - other._sampled_total(keys)))
        for key in shared:
            drawn = (self.samples[key] - other.samples[key]).T
            for name, one, its, samples in zip(RECALLS, self.recalls[key], other.recalls[key], drawn, strict=True):
                found[f"{' '.join(key)} {name}"] = Figure(one.value - its.value, interval(samples))
        return found

    def as_json(self, first: VariantResult) -> dict[str, Any]:
        """The metrics as comparison.json holds them, with their differences to those of the first variant."""
        retrieval = {}
        for (candidates, direction), figures in self.recalls.items():
            names = zip(RECALLS, figures, strict=True)
            entry = {name: figure._asdict() for name, figure in names}
            retrieval[f"{candidates} {direction}"] = {**entry, "mean rank": self.mean_rank[candidates, direction]}
        return {
            "seeds": self.seeds,
            "rsum": self.total(PLAIN)._asdict(),
            "retrieval": retrieval,
            "pairwise": dict(self.accuracy),
            f"difference from {first.name}": {name: figure._asdict() for name, figure in self.minus(first).items()},
        }


def compare(
    run: Path,
    output: Path,
    config: CompareConfig,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Train and evaluate all variants, and write comparison.md and comparison.json to `output`.

    Each model is in `output/<variant>-<seed>`, with its evaluation; models that are fully trained are not trained
    again. overwrite: see `train`. say: called with each line of progress. Returns the tables as Markdown. Raises
    FileNotFoundError and ValueError as `train` and `evaluate` do, and ValueError for an unknown variant.
    """
    variants = [Variant.parse(name) for name in config.variants]
    settings = {"run": run, **config.training}
    for name in set(config.training) - {"recipe"}.union(*(CONFIGS[v.model].model_fields for v in variants)):
        raise ValueError(f"{name} is no setting of {', '.join(dict.fromkeys(v.model for v in variants))}")
    trainings = {v: [v.config(seed, output, settings) for seed in range(config.seeds)] for v in variants}
    spoken = dict.fromkeys(code for configs in trainings.values() for code in configs[0].languages)
    captions = read_captions(run, languages=tuple(spoken))
    captions.of_split(config.evaluation.split)  # raises before anything is trained
    image = dict(zip(captions.ids, (captions.image_ids[n] for n in captions.image.tolist()), strict=True))
    results = []
    for variant, configs in trainings.items():
        evaluations = []
        for training in configs:
            say(f"{variant.name}, seed {training.seed}")
            train(training, overwrite=overwrite, say=say)
            evaluation = measure(training.output, run, config.evaluation)
            write_evaluation(evaluation, training.output / "evaluation")
            evaluations.append(evaluation)
        results.append(summarize(variant.name, evaluations, image, config.evaluation.seed))
    kinds = {v.model + v.name[len("+".join([v.model, *v.families])) :]: made[0] for v, made in trainings.items()}
    setting = describe_settings(kinds, config.seeds, config.evaluation.split)
    text = to_markdown(results, setting)
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "comparison.md", (text + "\n").encode())
    write_json(output / "comparison.json", {result.name: result.as_json(results[0]) for result in results})
    return text


def summarize(name: str, evaluations: Sequence[Evaluation], image: Mapping[str, str], seed: int) -> VariantResult:
    """The means of the metrics over the evaluations of a variant, one per seed of its training, with their bootstrap.

    image: the image_id of each caption_id. seed: the seed of the bootstrap.
    """
    tables: dict[tuple[str, str], list[Tensor]] = {}
    mean_rank: dict[tuple[str, str], float] = {}
    for evaluation in evaluations:
        for candidates, direction, queries, ranks in evaluation.ranks:
            images = queries if direction == "i2t" else [image[query] for query in queries]
            index = {image_id: n for n, image_id in enumerate(sorted(set(images)))}  # the same in both directions
            table = count_hits(ranks.cpu(), torch.tensor([index[image_id] for image_id in images]), len(index))
            key = (candidates, direction)
            tables.setdefault(key, []).append(table)
            mean_rank[key] = mean_rank.get(key, 0.0) + ranks.double().mean().item() / len(evaluations)
    recalls, samples = {}, {}
    for key, counts in tables.items():
        (drawn,) = bootstrap_samples([torch.stack(counts)], seed)
        samples[key] = torch.cat([drawn, drawn.sum(1, keepdim=True)], 1)
        sums = torch.stack(counts).sum((0, 1))
        values = (100 * sums[:-1] / sums[-1].clamp(min=1)).tolist()
        of_samples = zip([*values, sum(values)], samples[key].T, strict=True)
        recalls[key] = tuple(Figure(value, interval(column)) for value, column in of_samples)
    pairs = [evaluation.metrics.get("pairwise", {}) for evaluation in evaluations]
    accuracy = {name: sum(entry[name]["accuracy"] for entry in pairs) / len(pairs) for name in sorted(pairs[0])}
    return VariantResult(name, len(evaluations), recalls, mean_rank, accuracy, samples)


def describe_settings(configs: Mapping[str, TrainConfig], seeds: int, split: str) -> str:
    """A sentence with the split, the number of seeds, and all settings that differ from the defaults.

    configs: one for each kind of model and recipe, by its name.
    """
    changed: dict[str, dict[str, str]] = {}
    for kind, config in configs.items():
        changed[kind] = {
            name: describe(value)
            for name, value in vars(config).items()
            if (name not in OWN_SETTINGS or name == "epochs") and value != type(config).model_fields[name].default
        }
    first, *others = changed.values()
    common = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    parts = [", ".join(f"{name} {value}" for name, value in common.items()) or "default settings"]
    for model, settings in changed.items():
        if own := [f"{name} {value}" for name, value in settings.items() if name not in common]:
            parts.append(f"{model}: {', '.join(own)}")
    number = "one training" if seeds == 1 else f"the mean of {seeds} trainings"
    over = "images" if seeds == 1 else "images and trainings"
    return f"Split {split}; {number} each; {'; '.join(parts)}. In brackets 95 % bootstrap intervals over {over}."


Results = Sequence[VariantResult]
Column = Callable[[VariantResult], str]


def to_markdown(results: Results, setting: str) -> str:
    """VSE-C's Tables 2 to 4 and UniVSE's Table 2, one row per variant; tables that lack data are left out.

    setting: a first paragraph, see `describe_settings`.
    """

    def table(first: str, columns: Mapping[str, Column], rows: Results = results) -> str:
        cells = [[row.name, *(column(row) for column in columns.values())] for row in rows]
        return markdown_table([first, *columns], cells) if columns and cells else ""

    def shared(*names: str) -> list[str]:
        return [name for name in names if all((name, "i2t") in result.recalls for result in results)]

    every = sorted({name for result in results for name, _ in result.recalls})
    parts = [setting]
    for name in (name for name in every if name.partition(":")[0] == "plain"):  # each of the variants' languages
        keys = [(name, way) for way in ("i2t", "t2i")]
        columns: dict[str, Column] = {
            f"{way} R@{k}": lambda row, key=(name, way), at=at: f"{row.recalls[key][at].value:.1f}"  # type: ignore[misc]
            for _, way in keys
            for at, k in enumerate(TOP)
        }
        columns["rsum"] = lambda row, keys=keys: str(row.total(keys))  # type: ignore[misc]
        spoken = [result for result in results if keys[0] in result.recalls]
        parts.append(table(" in ".join(["without attack", *filter(None, [name.partition(":")[2]])]), columns, spoken))
    columns = {}
    for name, of in (("plain", ""), ("vse-c:total", ", attacked")):
        columns[f"R@1{of}"] = _recall(name, 0)
        columns[f"R@10{of}"] = _recall(name, 2)
        columns[f"mean rank{of}"] = lambda row, key=(name, "i2t"): f"{row.mean_rank[key]:.1f}"  # type: ignore[misc]
    parts.append(table("image to text", columns if shared("vse-c:total") else {}))  # VSE-C's Table 2
    families = shared(*(f"vse-c:{name}" for name in FAMILIES), "plural", "plural:numeral")
    heads = {name.removeprefix("vse-c:").replace("plural:", "plural, "): _recall(name, 0) for name in families}
    parts.append(table("R@1 under attack by", heads))  # VSE-C's Tables 3 and 4
    names = [name for name in every if name.startswith("univse:")]
    if names and shared(*names) == names:  # UniVSE's Table 2
        columns = {name.removeprefix("univse:"): _recall(name, 0) for name in names}
        columns["sum of R@1, 5, 10"] = lambda row: str(row.total([(name, "i2t") for name in names]))
        parts.append(table("R@1 with all negatives of", columns))
    operators = dict.fromkeys(name for result in results for name in result.accuracy)
    accuracy = {name: (lambda row, name=name: f"{row.accuracy[name]:.1f}") for name in operators}
    parts += [table("caption above negative, %", accuracy), _differences(results)]
    return "\n\n".join(part for part in parts if part)


def _recall(candidates: str, at: int) -> Column:
    """A column of image-to-text recalls with these candidates; at: the position in TOP."""
    return lambda row: str(row.recalls[candidates, "i2t"][at])


def _differences(results: Results) -> str:
    """Each variant's difference from the first one, with the interval of the paired bootstrap."""
    first, *others = results
    differences = {result.name: result.minus(first) for result in others}
    attacks = [f"vse-c:{name}" for name in ("total", *FAMILIES)]
    columns = {
        "rsum": "rsum",
        "i2t R@1": "plain i2t R@1",
        **{f"{name.removeprefix('vse-c:')}, R@1": f"{name} i2t R@1" for name in attacks},
        "plural, numeral, R@1": "plural:numeral i2t R@1",
        "univse, sum": "univse",
    }
    columns = {head: name for head, name in columns.items() if others and all(name in d for d in differences.values())}
    rows = [
        [f"{name} − {first.name}", *(format_difference(*found[column]) for column in columns.values())]
        for name, found in differences.items()
    ]
    return markdown_table(["difference", *columns], rows) if others else ""


def insert_tables(text: str, tables: str) -> str:
    """A Markdown text with the tables between its markers BEGIN and END. Raises ValueError if these are missing."""
    return replaced(text, BEGIN, END, tables)
