"""The shapes of a chart with their coordinates; a template draws them as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 320, 160


class Bar(NamedTuple):
    """A rectangle; `kind` is its CSS class, `title` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    title: str = ""
    kind: str = ""


class Line(NamedTuple):
    """A line through points "x,y x,y"."""

    points: str
    kind: str


class Dot(NamedTuple):
    """A circle."""

    x: float
    y: float
    title: str
    kind: str


class Label(NamedTuple):
    """A text; `anchor` is start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    kind: str = ""


class Chart(NamedTuple):
    """A drawing of `width` by `height` units; `summary` says in words what it shows."""

    summary: str
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    labels: Sequence[Label] = ()
    width: float = WIDTH
    height: float = HEIGHT


class Scale(NamedTuple):
    """Values from `low` to `high` as places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value."""
        span = self.high - self.low or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)
