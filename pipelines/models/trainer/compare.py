"""Several models on one run, some seeds each: trained, evaluated, and side by side as the papers' tables have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from negcap.pipelines.engine.manifest import describe
from negcap.pipelines.engine.shards import write_atomically, write_json
from negcap.pipelines.models.data import read_captions
from negcap.pipelines.models.retrieval import TOP, hits, intervals
from negcap.pipelines.models.trainer.attacks import FAMILIES
from negcap.pipelines.models.trainer.config import MODELS, NOT_IDENTITY, EvaluateConfig, TrainConfig, configure
from negcap.pipelines.models.trainer.evaluate import Evaluation, measure, write
from negcap.pipelines.models.trainer.report import markdown_table, within
from negcap.pipelines.models.trainer.train import train
from negcap.schemas.markdown import replaced

VARIANTS = ("vse", "vse++", "vse-c+noun", "vse-c+numeral", "vse-c+relation", "vse-c")
BEGIN, END = "<!-- comparison: begin -->", "<!-- comparison: end -->"
TOLD_APART = ("model", "negative_families", "seed", *NOT_IDENTITY)  # what a variant or a run decides


@dataclass(frozen=True)
class Variant:
    """A model by its name: `vse++`, or `vse-c+noun` for VSE-C with negatives of that family alone."""

    name: str
    model: str
    families: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str) -> Variant:
        """Raises ValueError for a model or family that there is not."""
        model = max((known for known in MODELS if name.startswith(known)), key=len, default="")
        families = tuple(name[len(model) :].removeprefix("+").split("+")) if name != model else ()
        if not model or not set(families) <= set(FAMILIES) or (families and model != "vse-c"):
            raise ValueError(
                f"variants must be of {', '.join(MODELS)}, vse-c with +{', +'.join(FAMILIES)} or nothing, was: {name}"
            )
        return cls(name, model, families)

    def config(self, seed: int, output: Path, given: Mapping[str, Any]) -> TrainConfig:
        """What a training of it is told."""
        families = {"negative_families": self.families} if self.families else {}
        folder = output / f"{self.name}-{seed}"
        return configure(output=folder, **{**given, "model": self.model, "seed": seed, **families})


class Cell(NamedTuple):
    """A figure as the mean of the seeds, and its 95 % bootstrap interval over images."""

    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        return within(self.value, self.interval)


@dataclass(frozen=True)
class Compared:
    """A variant's figures. recalls: R@1, 5, 10 and their sum, mean_rank: both by candidates and direction."""

    variant: Variant
    seeds: int
    recalls: Mapping[tuple[str, str], tuple[Cell, ...]]
    rsum: Cell
    mean_rank: Mapping[tuple[str, str], float]
    accuracy: Mapping[str, float]


def compare(
    run: Path,
    output: Path,
    variants: Sequence[str] = VARIANTS,
    seeds: int = 1,
    given: Mapping[str, Any] | None = None,
    config: EvaluateConfig | None = None,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Train and evaluate every variant with seeds 0 … seeds − 1; the tables as Markdown.

    given: what TrainConfig is told, beyond model, families and seed. A model is `output/<variant>-<seed>`, with its
    evaluation; what is trained already is kept. Writes comparison.md and comparison.json to `output`. Raises ValueError
    and FileNotFoundError as `train` and `evaluate` do, and ValueError for an unknown variant.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be >= 1, was: {seeds}")
    told, how = {"run": run, **(given or {})}, config or EvaluateConfig()
    chosen = [Variant.parse(name) for name in variants]
    configs = {variant: [variant.config(seed, output, told) for seed in range(seeds)] for variant in chosen}
    captions = read_captions(run)
    captions.of_split(how.split)  # before anything is trained
    image = dict(zip(captions.ids, (captions.image_ids[n] for n in captions.image.tolist()), strict=True))
    made = []
    for variant, trainings in configs.items():
        measured = []
        for training in trainings:
            say(f"{variant.name}, seed {training.seed}")
            train(training, overwrite=overwrite, say=say)
            evaluation = measure(training.output, run, how)
            write(evaluation, training.output / "evaluation")
            measured.append(evaluation)
        made.append(summarise(variant, measured, image, how.seed))
    text = to_markdown(made, _setting([trainings[0] for trainings in configs.values()], seeds, how.split))
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / "comparison.md", (text + "\n").encode())
    write_json(output / "comparison.json", {entry.variant.name: _as_json(entry) for entry in made})
    return text


def summarise(variant: Variant, made: Sequence[Evaluation], image: Mapping[str, str], seed: int) -> Compared:
    """The mean of evaluations that differ in the seed of the training. image: of each caption_id."""
    tables: dict[tuple[str, str], Tensor] = {}
    mean_rank: dict[tuple[str, str], float] = {}
    for evaluation in made:
        for candidates, direction, ids, ranks in evaluation.ranks:
            of = ids if direction == "i2t" else [image[name] for name in ids]
            number = {name: n for n, name in enumerate(sorted(set(of)))}  # alike in both directions
            table = hits(ranks.cpu(), torch.tensor([number[name] for name in of]), len(number))
            key = (candidates, direction)
            tables[key] = tables.get(key, 0) + table
            mean_rank[key] = mean_rank.get(key, 0.0) + ranks.double().mean().item() / len(made)
    recalls = {key: _cells(table, intervals([table], seed)[0]) for key, table in tables.items()}
    plain = [tables["plain", "i2t"], tables["plain", "t2i"]]
    rsum = Cell(sum(recalls["plain", way][-1].value for way in ("i2t", "t2i")), intervals(plain, seed)[-1][0])
    pairs = [evaluation.metrics.get("pairwise", {}) for evaluation in made]
    accuracy = {name: sum(entry[name]["accuracy"] for entry in pairs) / len(pairs) for name in sorted(pairs[0])}
    return Compared(variant, len(made), recalls, rsum, mean_rank, accuracy)


def _cells(table: Tensor, bounds: Sequence[tuple[float, float]]) -> tuple[Cell, ...]:
    sums = table.sum(0)
    values = (100 * sums[:-1] / sums[-1].clamp(min=1)).tolist()
    return tuple(Cell(value, interval) for value, interval in zip([*values, sum(values)], bounds, strict=True))


def to_markdown(made: Sequence[Compared], setting: str) -> str:
    """Tables 2 to 4 of VSE-C and 2 of UniVSE, a line a variant, as far as the run has their negatives."""
    parts = [setting, _retrieval(made), _attacked(made), _families(made), _crowded(made), _pairs(made)]
    return "\n\n".join(part for part in parts if part)


def into(text: str, tables: str) -> str:
    """A README's text with the tables between its two markers. Raises ValueError where they are missing."""
    return replaced(text, BEGIN, END, tables)


def _retrieval(made: Sequence[Compared]) -> str:
    head = ["without attack", *(f"{way} R@{k}" for way in ("i2t", "t2i") for k in TOP), "rsum"]
    rows = [
        [
            entry.variant.name,
            *(f"{cell.value:.1f}" for way in ("i2t", "t2i") for cell in entry.recalls["plain", way][:-1]),
            str(entry.rsum),
        ]
        for entry in made
    ]
    return markdown_table(head, rows)


def _attacked(made: Sequence[Compared]) -> str:
    """VSE-C's Table 2."""
    if not all(("vse-c:total", "i2t") in entry.recalls for entry in made):
        return ""
    head = ["image to text", *(f"{what}{of}" for of in ("", ", attacked") for what in ("R@1", "R@10", "mean rank"))]
    rows = []
    for entry in made:
        row = [entry.variant.name]
        for key in (("plain", "i2t"), ("vse-c:total", "i2t")):
            row += [str(entry.recalls[key][0]), str(entry.recalls[key][2]), f"{entry.mean_rank[key]:.1f}"]
        rows.append(row)
    return markdown_table(head, rows)


def _families(made: Sequence[Compared]) -> str:
    """VSE-C's Tables 3 and 4."""
    names = [f"vse-c:{name}" for name in FAMILIES] + ["plural", "plural:numeral"]
    names = [name for name in names if all((name, "i2t") in entry.recalls for entry in made)]
    heads = [name.removeprefix("vse-c:").replace("plural:", "plural, ") for name in names]
    rows = [[entry.variant.name, *(str(entry.recalls[name, "i2t"][0]) for name in names)] for entry in made]
    return markdown_table(["R@1 under attack by", *heads], rows) if names else ""


def _crowded(made: Sequence[Compared]) -> str:
    """UniVSE's Table 2; its total sums R@1, 5 and 10 of the three attacks."""
    names = sorted({name for entry in made for name, _ in entry.recalls if name.startswith("univse:")})
    if not names or not all((name, "i2t") in entry.recalls for name in names for entry in made):
        return ""
    rows = [
        [
            entry.variant.name,
            *(str(entry.recalls[name, "i2t"][0]) for name in names),
            f"{sum(entry.recalls[name, 'i2t'][-1].value for name in names):.1f}",
        ]
        for entry in made
    ]
    heads = [name.removeprefix("univse:") for name in names]
    return markdown_table(["R@1 with all of an attack's", *heads, "sum of R@1, 5, 10"], rows)


def _pairs(made: Sequence[Compared]) -> str:
    names = list(dict.fromkeys(name for entry in made for name in entry.accuracy))
    rows = [[entry.variant.name, *(f"{entry.accuracy[name]:.1f}" for name in names)] for entry in made]
    return markdown_table(["caption above negative, %", *names], rows) if names else ""


def _setting(configs: Sequence[TrainConfig], seeds: int, split: str) -> str:
    """What the tables are of: the split, the seeds, and what differs from the defaults, of all models or of one."""
    differing: dict[str, dict[str, str]] = {}
    for config in configs:
        differing[config.model] = {
            item.name: describe(getattr(config, item.name))
            for item in fields(config)
            if (item.name not in TOLD_APART or item.name == "epochs") and getattr(config, item.name) != item.default
        }
    first, *others = differing.values()
    common = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    said = [", ".join(f"{name} {value}" for name, value in common.items()) or "default settings"]
    for model, own in differing.items():
        if apart := [f"{name} {value}" for name, value in own.items() if name not in common]:
            said.append(f"{model}: {', '.join(apart)}")
    number = "one training" if seeds == 1 else f"the mean of {seeds} trainings"
    return f"Split {split}; {number} each; {'; '.join(said)}. In brackets 95 % bootstrap intervals over images."


def _as_json(entry: Compared) -> dict[str, Any]:
    return {
        "seeds": entry.seeds,
        "rsum": entry.rsum._asdict(),
        "retrieval": {
            f"{candidates} {direction}": {
                **{name: cell._asdict() for name, cell in zip(("R@1", "R@5", "R@10", "sum"), cells, strict=True)},
                "mean rank": entry.mean_rank[candidates, direction],
            }
            for (candidates, direction), cells in entry.recalls.items()
        },
        "pairwise": dict(entry.accuracy),
    }
