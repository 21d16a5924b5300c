"""The shapes of a chart with their coordinates in SVG units (y points down); a template draws them as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 320, 160


class Bar(NamedTuple):
    """A rectangle with its top left corner at (x, y); `kind` is its CSS class, `title` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    title: str = ""
    kind: str = ""


class Line(NamedTuple):
    """A line through `points`, given as "x,y x,y …"; `kind` is its CSS class."""

    points: str
    kind: str


class Dot(NamedTuple):
    """A circle centred at (x, y); `kind` is its CSS class, `title` its tooltip."""

    x: float
    y: float
    title: str
    kind: str


class Label(NamedTuple):
    """A text at (x, y); `anchor` is which part of it is there: start, middle or end; `kind` is its CSS class."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    kind: str = ""


class Chart(NamedTuple):
    """A chart of `width` by `height` units; `summary` describes in words what it shows."""

    summary: str
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    labels: Sequence[Label] = ()
    width: float = WIDTH
    height: float = HEIGHT


class Scale(NamedTuple):
    """A linear map of values from `low` to `high` to coordinates from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The coordinate of a value, rounded to one decimal."""
        span = self.high - self.low or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)
