"""The pen that draws all shapes on the layer of one thing; coordinates are from 0 to 1 with y downwards."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw

from .world import COLOURS

Colour = tuple[int, int, int]
DARK, WOOD, SKIN = (52, 48, 52), (134, 84, 42), (236, 188, 150)


class Pen:
    """Draws one thing on a layer of its own; `main` is the thing's colour, which patterns are drawn over."""

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
        """Draw an ellipse in the box (left, top, right, bottom)."""
        self._draw.ellipse(self._at(box), fill=fill or self.main, outline=self.edge, width=self._line)

    def block(self, *box: float, fill: Colour | None = None) -> None:
        """Draw a rectangle (left, top, right, bottom)."""
        self._draw.rectangle(self._at(box), fill=fill or self.main, outline=self.edge, width=self._line)

    def shape(self, *points: float, fill: Colour | None = None) -> None:
        """Draw a polygon with the corners x, y, x, y, …."""
        at = self._at(points)
        self._draw.polygon(at, fill=fill or self.main)
        self._draw.line([*at, *at[:4]], fill=self.edge, width=self._line, joint="curve")

    def line(self, *points: float, fill: Colour | None = None, thick: float = 1.0) -> None:
        """Draw a line through the points x, y, x, y, …; thick: in outline widths."""
        width = max(1, round(self._line * thick))
        self._draw.line(self._at(points), fill=fill or self.edge, width=width, joint="curve")

    def half(self, *box: float, start: int = 180, end: int = 360, fill: Colour | None = None) -> None:
        """Draw a sector of the ellipse in a box, between two angles (degrees, clockwise from 3 o'clock)."""
        self._draw.pieslice(self._at(box), start, end, fill=fill or self.main, outline=self.edge, width=self._line)

    def curve(self, *box: float, start: int, end: int, thick: float = 1.0) -> None:
        """Draw a part of the outline of the ellipse in a box, between two angles (degrees)."""
        self._draw.arc(self._at(box), start, end, fill=self.edge, width=round(self._line * thick))

    def dot(self, x: float, y: float, size: float = 0.03, fill: Colour = DARK) -> None:
        """Draw a disc at (x, y); size: its radius as a fraction of the layer's width."""
        (left, top), radius = self._at((x, y)), size * self.image.width
        self._draw.ellipse((left - radius, top - radius, left + radius, top + radius), fill=fill)
