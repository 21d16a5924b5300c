"""A comparison of models as Markdown and JSON, in the form of the papers' tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...engine.manifest import describe
from ..config import RESUMABLE, TrainConfig
from ..evaluation.attacks import FAMILIES
from ..evaluation.retrieval import TOP, interval
from ..figures import format_difference, format_interval, markdown_table

Keys = Sequence[tuple[str, str]]  # of retrievals: candidates, direction
PLAIN: Keys = (("plain", "i2t"), ("plain", "t2i"))
RECALLS = ("R@1", "R@5", "R@10", "sum")
OWN_SETTINGS = ("model", "negative_families", "seed", *RESUMABLE)  # differ between trainings: not listed as settings


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


Results = Sequence[VariantResult]


def to_markdown(results: Results, setting: str) -> str:
    """VSE-C's Tables 2 to 4 and UniVSE's Table 2, one row per variant; tables that lack data are left out.

    setting: a first paragraph, see `describe_settings`.
    """
    parts = [
        setting,
        *_plain_retrieval(results),
        _attacked_retrieval(results),
        _attacks_by_family(results),
        _shared_attacks(results),
        _pairwise_accuracy(results),
        _differences(results),
    ]
    return "\n\n".join(part for part in parts if part)


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


def _all_have(results: Results, names: Sequence[str]) -> bool:
    """Whether all variants have image-to-text recalls with these candidates."""
    return all((name, "i2t") in result.recalls for name in names for result in results)


def _plain_retrieval(results: Results) -> list[str]:
    """Tables of retrieval without attack: for the variants' first language, and for each further one that some have."""
    candidates = sorted({name for result in results for name, _ in result.recalls if name.partition(":")[0] == "plain"})
    tables = []
    for name in candidates:
        keys = [(name, way) for way in ("i2t", "t2i")]
        ways = [f"{way} R@{k}" for _, way in keys for k in TOP]
        rows = []
        for result in results:
            if keys[0] in result.recalls:
                recalls = [figure for key in keys for figure in result.recalls[key][:-1]]
                rows.append([result.name, *(f"{figure.value:.1f}" for figure in recalls), str(result.total(keys))])
        head = " in ".join(["without attack", *filter(None, [name.partition(":")[2]])])
        tables.append(markdown_table([head, *ways, "rsum"], rows))
    return tables


def _attacked_retrieval(results: Results) -> str:
    """VSE-C's Table 2."""
    if not _all_have(results, ["vse-c:total"]):
        return ""
    head = ["image to text", *(f"{what}{of}" for of in ("", ", attacked") for what in ("R@1", "R@10", "mean rank"))]
    rows = []
    for result in results:
        row = [result.name]
        for key in (("plain", "i2t"), ("vse-c:total", "i2t")):
            row += [str(result.recalls[key][0]), str(result.recalls[key][2]), f"{result.mean_rank[key]:.1f}"]
        rows.append(row)
    return markdown_table(head, rows)


def _attacks_by_family(results: Results) -> str:
    """VSE-C's Tables 3 and 4."""
    names = [f"vse-c:{name}" for name in FAMILIES] + ["plural", "plural:numeral"]
    names = [name for name in names if _all_have(results, [name])]
    heads = [name.removeprefix("vse-c:").replace("plural:", "plural, ") for name in names]
    rows = [[result.name, *(str(result.recalls[name, "i2t"][0]) for name in names)] for result in results]
    return markdown_table(["R@1 under attack by", *heads], rows) if names else ""


def _shared_attacks(results: Results) -> str:
    """UniVSE's Table 2; its last column is the sum of R@1, R@5 and R@10 over the attacks."""
    names = sorted({name for result in results for name, _ in result.recalls if name.startswith("univse:")})
    if not names or not _all_have(results, names):
        return ""
    rows = []
    for result in results:
        total = result.total([(name, "i2t") for name in names])
        rows.append([result.name, *(str(result.recalls[name, "i2t"][0]) for name in names), str(total)])
    heads = [name.removeprefix("univse:") for name in names]
    return markdown_table(["R@1 with all negatives of", *heads, "sum of R@1, 5, 10"], rows)


def _pairwise_accuracy(results: Results) -> str:
    names = list(dict.fromkeys(name for result in results for name in result.accuracy))
    rows = [[result.name, *(f"{result.accuracy[name]:.1f}" for name in names)] for result in results]
    return markdown_table(["caption above negative, %", *names], rows) if names else ""


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
