"""The scores of models as plain data, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..quality.aligned import aligned
from .blind import Baseline
from .intervals import Percent

CHANCE = {  # %, of a reader who guesses; of the others it depends on the number of candidates
    "pairs": 50.0,
    "half-truth": 50.0,
    "two captions": 100 / 3,
    "two captions, text only": 100 / 3,
    "text": 25.0,
    "image": 25.0,
    "group": 100 / 6,
    "both orders": 25.0,
    "yes or no": 25.0,
}
SAYS = {
    "pairs": "the caption scores above its negative",
    "half-truth": "the caption scores above the negative that only adds to it",
    "two captions": "both captions of the image score above the negative",
    "two captions, text only": "both captions are nearer to each other than to the negative",
    "text": "for two images, each own caption scores above the other",
    "image": "for two captions, each own image scores above the other",
    "group": "both",
    "image to text": "an own caption ranks first among all captions",
    "image to text, own negatives": "the same with the negatives of the own captions",
    "image to text, all negatives": "the same with all negatives",
    "both orders": "of caption and negative, the model chooses the caption in either order",
    "yes or no": "the model says yes to the caption, and no to its negative",
}


@dataclass(frozen=True)
class Score:
    """A model's score in one protocol, over one group of operators, and what is got without the image; all in %.

    model: the score. without_image: of the same model, given no image; None where it cannot be asked. baseline: of the
    blind baselines of `negcap blind`, the most telling one; None for protocols that they cannot be asked.
    """

    protocol: str
    group: str
    model: Percent
    without_image: Percent | None
    baseline: Baseline | None

    @property
    def chance(self) -> float | None:
        """What guessing gets, in %; None where it depends on the number of candidates."""
        return CHANCE.get(self.protocol)


@dataclass(frozen=True)
class ModelScores:
    """All scores of a model. about: plain facts of how it was asked: images, texts, undecided answers …"""

    model: str
    scores: tuple[Score, ...]
    about: Mapping[str, Any] = field(default_factory=dict)


def to_text(models: Sequence[ModelScores]) -> str:
    """A table per model and protocol: score with its interval, the model without image, the best blind baseline."""
    lines: list[str] = []
    for model in models:
        about = ", ".join(f"{value:,} {name}" for name, value in model.about.items() if value)
        lines += [f"{model.model}: {about}", ""]
        for protocol in dict.fromkeys(score.protocol for score in model.scores):
            rows = [[f"{protocol}, %", "cases", "score", "without image", "blind baseline", "chance"]]
            for score in model.scores:
                if score.protocol == protocol:
                    rows.append(_cells(score))
            lines += [f"{SAYS.get(protocol, protocol)}:", *aligned(rows), ""]
    return "\n".join(lines).rstrip()


def _cells(score: Score) -> list[str]:
    without, best = score.without_image, score.baseline
    return [
        score.group,
        f"{score.model.n:,}",
        interval(score.model),
        interval(without) if without is not None else "–",
        f"{interval(best)} {named(best)}" if best is not None else "–",
        f"{score.chance:.0f}" if score.chance is not None else "–",
    ]


def interval(found: Percent | Baseline) -> str:
    """`78.1 (76.0–80.2)`."""
    return f"{found.value:.1f} ({found.low:.1f}–{found.high:.1f})"


def named(best: Baseline) -> str:
    """The name of a baseline: `n-gram regression`, or `shorter is true, reversed`."""
    return f"{best.name}, reversed" if best.reversed else best.name


def to_json(models: Sequence[ModelScores]) -> str:
    """All scores as JSON: a list of models, each with a list of scores."""
    return json.dumps([_plain(model) for model in models], indent=1, ensure_ascii=False)


def _plain(model: ModelScores) -> dict[str, Any]:
    scores = []
    for score in model.scores:
        parts = {"model": score.model, "without_image": score.without_image, "baseline": score.baseline}
        found = {name: None if part is None else part._asdict() for name, part in parts.items()}
        scores.append({"protocol": score.protocol, "group": score.group, **found, "chance": score.chance})
    return {"model": model.model, **{k: v for k, v in asdict(model).items() if k == "about"}, "scores": scores}
