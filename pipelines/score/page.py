"""The HTML page of scores: models beside each other, by protocol and operator, each with what is got blind.

In the manner of the audit's page, whose style it uses: no script, nothing from a network, all names escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ..engine.storage import write_atomically
from ..quality.audit.charts import Bar, Chart, Line, Scale
from ..report.rows import visible
from .report import CHANCE, SAYS, ModelScores, Score, interval, named

AUDIT = "negcap.pipelines.quality.audit"
WIDE, TALL = 120, 14


def write_page(file: Path, models: Sequence[ModelScores], title: str = "Scores") -> None:
    """Write the page of these models, all scored on the same set."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, page(models, title).encode())


def page(models: Sequence[ModelScores], title: str = "Scores") -> str:
    """The page as HTML; it depends on nothing but the scores."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def source(name: str) -> str:
        package = __package__ if name == "page.html.jinja" else AUDIT
        return files(package).joinpath(name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"count": "{:,}".format, "interval": interval, "named": named}
    environment.globals |= {"mark": mark}
    return environment.get_template("page.html.jinja").render(
        title=title, models=models, tables=tables(models), says=SAYS, chance=CHANCE, sections=[], reasons={}
    )


def tables(models: Sequence[ModelScores]) -> dict[str, dict[str, list[Score | None]]]:
    """By protocol and group of operators, the score of each model, or None where it has none."""
    found: dict[str, dict[str, list[Score | None]]] = {}
    for at, model in enumerate(models):
        for score in model.scores:
            row = found.setdefault(score.protocol, {}).setdefault(score.group, [None] * len(models))
            row[at] = score
    return found


def mark(score: Score) -> Chart:
    """A score as a bar from 0 to 100 %, its interval as a line; the dashed line is the same model without the image."""
    x = Scale(0, 100, 0, WIDE)
    value, low, high, _ = score.model
    lines = [Line(f"{x(low)},{TALL / 2} {x(high)},{TALL / 2}", "interval")]
    said = f"{value:.1f} %, 95 % interval {low:.1f} to {high:.1f}"
    if score.chance is not None:
        lines.append(Line(f"{x(score.chance)},0 {x(score.chance)},{TALL}", "frame"))
    if score.without_image is not None:
        at = x(score.without_image.value)
        lines.append(Line(f"{at},0 {at},{TALL}", "limit"))
        said += f", without the image {score.without_image.value:.1f} %"
    return Chart(said, [Bar(0, 2.5, x(value), 9, said)], lines, width=WIDE, height=TALL)
