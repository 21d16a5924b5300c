"""What every shape is drawn with: a pen on one thing's layer, a unit square with y downwards."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw

from negcap.pipelines.scenes.world import COLOURS

Colour = tuple[int, int, int]
DARK, WOOD, SKIN = (52, 48, 52), (134, 84, 42), (236, 188, 150)


class Pen:
    """Draws on one thing's own layer; `main` is the thing's colour, the only one that a pattern covers."""

    def __init__(self, width: int, height: int, colour: str) -> None:
        self.image = Image.new("RGBA", (width, height))
        self.main = COLOURS.get(colour, DARK)
        self.edge: Colour = tuple(int(0.55 * part) for part in self.main)  # type: ignore[assignment]
        self._draw = ImageDraw.Draw(self.image)
        self._line = max(2, min(width, height) // 24)

    def _at(self, points: Sequence[float]) -> list[float]:
        width, height = self.image.width - 1, self.image.height - 1
        return [point * (height if at % 2 else width) for at, point in enumerate(points)]

    def disc(self, *box: float, fill: Colour | None = None) -> None:
        """An ellipse in the box (left, top, right, bottom)."""
        self._draw.ellipse(self._at(box), fill=fill or self.main, outline=self.edge, width=self._line)

    def block(self, *box: float, fill: Colour | None = None) -> None:
        """A rectangle."""
        self._draw.rectangle(self._at(box), fill=fill or self.main, outline=self.edge, width=self._line)

    def shape(self, *points: float, fill: Colour | None = None) -> None:
        """A polygon."""
        at = self._at(points)
        self._draw.polygon(at, fill=fill or self.main)
        self._draw.line([*at, *at[:4]], fill=self.edge, width=self._line, joint="curve")

    def line(self, *points: float, fill: Colour | None = None, thick: float = 1.0) -> None:
        """A line through the points."""
        width = max(1, round(self._line * thick))
        self._draw.line(self._at(points), fill=fill or self.edge, width=width, joint="curve")

    def half(self, *box: float, start: int = 180, end: int = 360, fill: Colour | None = None) -> None:
        """A piece of an ellipse, from one angle to another."""
        self._draw.pieslice(self._at(box), start, end, fill=fill or self.main, outline=self.edge, width=self._line)

    def curve(self, *box: float, start: int, end: int, thick: float = 1.0) -> None:
        """A part of an ellipse's outline."""
        self._draw.arc(self._at(box), start, end, fill=self.edge, width=round(self._line * thick))

    def dot(self, x: float, y: float, size: float = 0.03, fill: Colour = DARK) -> None:
        """A small disc of a size in widths."""
        (left, top), radius = self._at((x, y)), size * self.image.width
        self._draw.ellipse((left - radius, top - radius, left + radius, top + radius), fill=fill)
