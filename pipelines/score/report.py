"""The scores of models as text, as JSON, and as an HTML page with the models beside each other.

The page is in the manner of the audit's, whose style it uses: no script, nothing from a network, all names escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..engine.storage import write_atomically
from ..quality.accuracy import aligned
from ..quality.audit.charts import Scale, bar, draw, line
from ..quality.audit.page import page_environment
from .protocols import Percent

PROTOCOLS = {  # what is right, and what guessing gets in %; None where that depends on the number of candidates
    "pairs": ("the caption scores above its negative", 50.0),
    "half-truth": ("the caption scores above the negative that only adds to it", 50.0),
    "two captions": ("both captions of the image score above the negative", 100 / 3),
    "two captions, text only": ("both captions are nearer to each other than to the negative", 100 / 3),
    "text": ("for two images, each own caption scores above the other", 25.0),
    "image": ("for two captions, each own image scores above the other", 25.0),
    "group": ("both", 100 / 6),
    "image to text": ("an own caption ranks first among all captions", None),
    "image to text, own negatives": ("the same with the negatives of the own captions", None),
    "image to text, all negatives": ("the same with all negatives", None),
    "both orders": ("of caption and negative, the model chooses the caption in either order", 25.0),
    "yes or no": ("the model says yes to the caption, and no to its negative", 25.0),
}
WIDE, TALL = 120, 14  # of a bar


class Baseline(NamedTuple):
    """The baseline that best tells captions from negatives without an image.

    value, low, high: its accuracy in %, with 95 % bounds. reversed: the baseline is wrong more often
    than right, and the accuracy is that of its opposite.
    """

    name: str
    value: float
    low: float
    high: float
    reversed: bool


class Score(NamedTuple):
    """A model's score in one protocol, over one group of operators, and what is got without the image; all in %.

    model: the score. without_image: of the same model, given no image; None where it cannot be asked. baseline: of the
    blind baselines of `negcap blind`, the most telling one; None for protocols that they cannot be asked.
    """

    protocol: str
    group: str
    model: Percent
    without_image: Percent | None
    baseline: Baseline | None


class ModelScores(NamedTuple):
    """All scores of a model. about: plain facts of how it was asked: images, texts, undecided answers …"""

    model: str
    scores: tuple[Score, ...]
    about: Mapping[str, int]


def says(protocol: str) -> tuple[str, float | None]:
    """What is right in a protocol, and what guessing gets in %; see PROTOCOLS."""
    return PROTOCOLS.get(protocol, (protocol, None))


def to_text(models: Sequence[ModelScores]) -> str:
    """A table per model and protocol: score with its interval, the model without image, the best blind baseline."""
    lines: list[str] = []
    for model in models:
        about = ", ".join(f"{value:,} {name}" for name, value in model.about.items() if value)
        lines += [f"{model.model}: {about}", ""]
        for protocol in dict.fromkeys(score.protocol for score in model.scores):
            said, chance = says(protocol)
            rows = [[f"{protocol}, %", "cases", "score", "without image", "blind baseline", "chance"]]
            for group, score, without, best in (one[1:] for one in model.scores if one.protocol == protocol):
                unseen, blind = ("–" if one is None else interval(one) for one in (without, best))
                blind += f" {named(best)}" if best else ""
                guess = "–" if chance is None else f"{chance:.0f}"
                rows.append([group, f"{score.n:,}", interval(score), unseen, blind, guess])
            lines += [f"{said}:", *aligned(rows), ""]
    return "\n".join(lines).rstrip()


def interval(found: Percent | Baseline) -> str:
    """`78.1 (76.0–80.2)`."""
    return f"{found.value:.1f} ({found.low:.1f}–{found.high:.1f})"


def named(best: Baseline) -> str:
    """The name of a baseline: `n-gram regression`, or `shorter is true, reversed`."""
    return f"{best.name}, reversed" if best.reversed else best.name


def to_json(models: Sequence[ModelScores]) -> str:
    """All scores as JSON: a list of models, each with a list of scores."""
    plain = []
    for model in models:
        scores = []
        for score in model.scores:
            figures = {"model": score.model, "without_image": score.without_image, "baseline": score.baseline}
            found = {name: one and one._asdict() for name, one in figures.items()}
            chance = says(score.protocol)[1]
            scores.append({"protocol": score.protocol, "group": score.group, **found, "chance": chance})
        plain.append({"model": model.model, "about": model.about, "scores": scores})
    return json.dumps(plain, indent=1, ensure_ascii=False)


def write_page(file: Path, models: Sequence[ModelScores]) -> None:
    """Write the HTML page of these models, all scored on the same set; it depends on nothing but the scores."""
    environment = page_environment(__package__, "negcap.pipelines.quality.audit")
    environment.filters |= {"interval": interval, "named": named}
    tables: dict[str, dict[str, list[Score | None]]] = {}  # by protocol and group: the score of each model that has one
    for at, model in enumerate(models):
        for score in model.scores:
            tables.setdefault(score.protocol, {}).setdefault(score.group, [None] * len(models))[at] = score
    page = environment.get_template("page.html.jinja").render(
        title="Scores", models=models, tables=tables, says=says, mark=_mark, sections=[], reasons={}
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, page.encode())


def _mark(score: Score) -> str:
    """A score as a bar from 0 to 100 %, its interval as a line; the dashed line is the same model without the image."""
    x = Scale(0, 100, 0, WIDE)
    value, low, high, _ = score.model
    lines = [line("interval", (x(low), TALL / 2), (x(high), TALL / 2))]
    said = f"{value:.1f} %, 95 % interval {low:.1f} to {high:.1f}"
    chance = says(score.protocol)[1]
    if chance is not None:
        lines.append(line("frame", (x(chance), 0), (x(chance), TALL)))
    if score.without_image is not None:
        at = x(score.without_image.value)
        lines.append(line("limit", (at, 0), (at, TALL)))
        said += f", without the image {score.without_image.value:.1f} %"
    return draw(said, [bar(0, 2.5, x(value), 9, said), *lines], WIDE, TALL, "mark")
