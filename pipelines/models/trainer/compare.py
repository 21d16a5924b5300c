"""The comparison of models on one run: each is trained with several seeds and evaluated, and tables show the means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ....schemas.markdown import replaced
from ...engine.storage import write_atomically, write_json
from ..captions import read_captions
from ..config import CONFIGS, MODELS, RECIPES, SIMILARITIES, WITH_NEGATIVES, TrainConfig, configure
from ..evaluation.attacks import FAMILIES
from ..evaluation.config import EvaluateConfig
from ..evaluation.retrieval import bootstrap_samples, count_hits, interval
from .comparison_report import Figure, VariantResult, describe_settings, to_markdown
from .evaluate import Evaluation, measure, write_evaluation
from .train import train

VARIANTS = ("vse", "vse++", "vse-c+noun", "vse-c+numeral", "vse-c+relation", "vse-c")
BEGIN, END = "<!-- comparison: begin -->", "<!-- comparison: end -->"


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
                f"variants must be {', '.join(MODELS)}, or {', '.join(WITH_NEGATIVES)} with +{', +'.join(FAMILIES)}, "
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
    evaluation: EvaluateConfig = field(default_factory=EvaluateConfig)

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be >= 1, was: {self.seeds}")


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


def insert_tables(text: str, tables: str) -> str:
    """A Markdown text with the tables between its markers BEGIN and END. Raises ValueError if these are missing."""
    return replaced(text, BEGIN, END, tables)
