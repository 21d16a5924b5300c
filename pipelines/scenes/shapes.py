"""How each kind of thing is drawn: a function of a pen, in a unit square with y downwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PIL import Image, ImageDraw

from pipelines.scenes.world import COLOURS, Thing

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


def _table(pen: Pen, thing: Thing) -> None:
    for x in (0.08, 0.84):
        pen.block(x, 0.1, x + 0.08, 1)
    pen.block(0, 0, 1, 0.2)


def _bench(pen: Pen, thing: Thing) -> None:
    for x in (0.1, 0.82):
        pen.block(x, 0, x + 0.07, 1)
    for y in (0.03, 0.2):
        pen.block(0.04, y, 0.96, y + 0.12)
    pen.block(0, 0.42, 1, 0.56)


def _bed(pen: Pen, thing: Thing) -> None:
    pen.block(0, 0, 0.06, 1, fill=WOOD)
    pen.block(0.94, 0.3, 1, 1, fill=WOOD)
    pen.block(0.05, 0.5, 0.95, 0.82)
    pen.block(0.06, 0.36, 0.24, 0.56, fill=(250, 250, 250))


def _chair(pen: Pen, thing: Thing) -> None:
    pen.block(0.06, 0, 0.18, 1)
    pen.block(0.82, 0.55, 0.94, 1)
    pen.block(0.06, 0.04, 0.3, 0.5)
    pen.block(0.04, 0.53, 0.97, 0.65)


def _box(pen: Pen, thing: Thing) -> None:
    if thing.open:
        pen.shape(0, 0.28, 0.1, 0.06, 0.9, 0.06, 1, 0.28, fill=pen.edge)
    else:
        pen.shape(0, 0.22, 0.1, 0, 0.9, 0, 1, 0.22)
    front(pen, thing)


def _basket(pen: Pen, thing: Thing) -> None:
    pen.curve(0.12, 0, 0.88, 1.1, start=180, end=360, thick=3)
    pen.disc(0.02, 0.34, 0.98, 0.52, fill=pen.edge)
    front(pen, thing)


def front(pen: Pen, thing: Thing) -> None:
    """What of a box or basket is in front of the things in it."""
    if thing.kind == "box":
        pen.block(0, 0.26, 1, 1)
        return
    pen.shape(0.02, 0.44, 0.98, 0.44, 0.86, 1, 0.14, 1)
    for x in (0.2, 0.35, 0.5, 0.65, 0.8):
        pen.line(x, 0.46, 0.5 + (x - 0.5) * 0.78, 0.98)
    for y in (0.6, 0.78):
        pen.line(0.07, y, 0.93, y)


def _car(pen: Pen, thing: Thing) -> None:
    pen.shape(0.2, 0.42, 0.32, 0.02, 0.7, 0.02, 0.84, 0.42)
    pen.shape(0.28, 0.4, 0.36, 0.12, 0.49, 0.12, 0.49, 0.4, fill=(190, 226, 244))
    pen.shape(0.54, 0.4, 0.54, 0.12, 0.67, 0.12, 0.76, 0.4, fill=(190, 226, 244))
    pen.block(0, 0.4, 1, 0.8)
    for x in (0.14, 0.66):
        pen.disc(x, 0.6, x + 0.2, 1, fill=DARK)
        pen.disc(x + 0.06, 0.72, x + 0.14, 0.88, fill=(200, 200, 200))


def _house(pen: Pen, thing: Thing) -> None:
    pen.block(0.08, 0.4, 0.92, 1)
    pen.shape(0, 0.42, 0.5, 0, 1, 0.42, fill=(110, 70, 64))
    pen.block(0.42, 0.66, 0.6, 1, fill=WOOD)
    for x in (0.16, 0.68):
        pen.block(x, 0.54, x + 0.16, 0.72, fill=(190, 226, 244))


def _tree(pen: Pen, thing: Thing) -> None:
    pen.block(0.43, 0.5, 0.57, 1, fill=WOOD)
    for circle in ((0, 0.2, 0.6, 0.6), (0.4, 0.2, 1, 0.6), (0.16, 0, 0.84, 0.48)):
        pen.disc(*circle)
    pen.disc(0.22, 0.1, 0.78, 0.56)


def _ball(pen: Pen, thing: Thing) -> None:
    pen.disc(0, 0, 1, 1)
    pen.curve(0.16, 0.12, 0.9, 0.9, start=190, end=260)


def _cup(pen: Pen, thing: Thing) -> None:
    pen.curve(0.6, 0.22, 1, 0.72, start=-90, end=90, thick=2)
    pen.shape(0.05, 0.04, 0.78, 0.04, 0.7, 1, 0.13, 1)


def _book(pen: Pen, thing: Thing) -> None:
    pen.block(0, 0.06, 1, 1)
    pen.block(0.1, 0.78, 1, 0.94, fill=(250, 250, 244))
    pen.block(0.3, 0.22, 0.8, 0.4, fill=(250, 250, 244))


def _hat(pen: Pen, thing: Thing) -> None:
    pen.shape(0.24, 0.78, 0.3, 0.02, 0.7, 0.02, 0.76, 0.78)
    pen.disc(0, 0.66, 1, 1)


def _vase(pen: Pen, thing: Thing) -> None:
    pen.shape(0.3, 0, 0.7, 0, 0.62, 0.24, 0.98, 0.6, 0.72, 1, 0.28, 1, 0.02, 0.6, 0.38, 0.24)


def _lamp(pen: Pen, thing: Thing) -> None:
    pen.block(0.46, 0.4, 0.54, 0.94, fill=DARK)
    pen.disc(0.2, 0.88, 0.8, 1, fill=DARK)
    pen.shape(0.28, 0, 0.72, 0, 1, 0.48, 0, 0.48)


def _clock(pen: Pen, thing: Thing) -> None:
    for x in (0.2, 0.8):
        pen.line(x, 1, 0.5, 0.7, thick=3)
    pen.disc(0, 0, 1, 0.92)
    pen.disc(0.16, 0.16, 0.84, 0.76, fill=(252, 252, 248))
    pen.line(0.5, 0.24, 0.5, 0.46, 0.68, 0.52, fill=DARK, thick=1.5)


def _apple(pen: Pen, thing: Thing) -> None:
    pen.line(0.52, 0.26, 0.58, 0.02, fill=WOOD, thick=2)
    pen.disc(0.0, 0.18, 0.62, 1)
    pen.disc(0.38, 0.18, 1, 1)
    pen.disc(0.14, 0.22, 0.86, 0.97)
    pen.shape(0.58, 0.14, 0.92, 0.02, 0.8, 0.2, fill=(60, 130, 50))


def _umbrella(pen: Pen, thing: Thing) -> None:
    pen.line(0.5, 0.06, 0.5, 0.94, fill=DARK, thick=1.5)
    pen.curve(0.5, 0.84, 0.66, 1, start=0, end=180, thick=1.5)
    pen.half(0, 0.02, 1, 0.9)
    pen.line(0.5, 0.04, 0.34, 0.46)
    pen.line(0.5, 0.04, 0.66, 0.46)


def _balloon(pen: Pen, thing: Thing) -> None:
    pen.line(0.5, 0.6, 0.44, 0.78, 0.54, 1, fill=DARK)
    pen.disc(0, 0, 1, 0.62)
    pen.shape(0.42, 0.66, 0.5, 0.6, 0.58, 0.66)


def _kite(pen: Pen, thing: Thing) -> None:
    pen.line(0.5, 0.64, 0.34, 0.78, 0.6, 0.88, 0.46, 1, fill=DARK)
    pen.shape(0.5, 0, 1, 0.26, 0.5, 0.66, 0, 0.26)
    pen.line(0.5, 0, 0.5, 0.66)
    pen.line(0, 0.26, 1, 0.26)


def _face(pen: Pen, x: float, y: float, asleep: bool, size: float = 0.03) -> None:
    ink = (250, 250, 250) if sum(pen.main) < 200 else DARK
    if asleep:
        pen.line(x - 0.05, y, x + 0.04, y, fill=ink, thick=1.5)
    else:
        pen.dot(x, y, size, fill=ink)


def _pet(pen: Pen, thing: Thing, ears: Callable[[float, float, float], None]) -> None:
    """A dog or a cat, looking left: standing, sitting, lying or asleep."""
    if thing.pose == "stand":
        for x in (0.28, 0.42, 0.68, 0.82):
            pen.block(x, 0.6, x + 0.09, 1)
        pen.line(0.88, 0.46, 0.98, 0.16, fill=pen.main, thick=4)
        pen.disc(0.24, 0.36, 0.94, 0.76)
        head = (0.02, 0.1, 0.4)
    elif thing.pose == "sit":
        pen.line(0.78, 0.92, 0.98, 0.7, fill=pen.main, thick=4)
        pen.shape(0.36, 0.36, 0.62, 0.36, 0.9, 0.98, 0.3, 0.98)
        for x in (0.32, 0.46):
            pen.block(x, 0.6, x + 0.09, 1)
        head = (0.18, 0.06, 0.4)
    else:
        pen.line(0.86, 0.84, 1, 0.6, fill=pen.main, thick=4)
        pen.disc(0.2, 0.4, 0.95, 1)
        pen.block(0.06, 0.86, 0.4, 1)
        head = (0.02, 0.22, 0.36)
    x, y, size = head
    tall = size * pen.image.width / pen.image.height
    ears(x, y, size)
    pen.disc(x, y, x + size, y + tall)
    _face(pen, x + 0.36 * size, y + 0.42 * tall, thing.pose == "sleep")
    pen.dot(x + 0.08 * size, y + 0.62 * tall, 0.035, fill=(90, 60, 60))
    if thing.pose == "sleep":
        pen.line(0.5, 0.02, 0.64, 0.02, 0.5, 0.26, 0.64, 0.26, fill=DARK, thick=1.4)


def _dog(pen: Pen, thing: Thing) -> None:
    def ears(x: float, y: float, size: float) -> None:
        pen.disc(x + 0.6 * size, y + 0.1 * size, x + 1.05 * size, y + 1.1 * size, fill=pen.edge)

    _pet(pen, thing, ears)
    x, y, size = {"stand": (0.02, 0.1, 0.4), "sit": (0.18, 0.06, 0.4)}.get(thing.pose, (0.02, 0.22, 0.36))
    pen.disc(x + 0.62 * size, y + 0.08 * size, x + size, y + 1.1 * size, fill=pen.edge)


def _cat(pen: Pen, thing: Thing) -> None:
    def ears(x: float, y: float, size: float) -> None:
        for at in (0.08, 0.58):
            pen.shape(x + at * size, y + 0.3 * size, x + (at + 0.12) * size, y - 0.25 * size, x + (at + 0.38) * size,
                      y + 0.2 * size)  # fmt: skip

    _pet(pen, thing, ears)


def _horse(pen: Pen, thing: Thing) -> None:
    if thing.pose == "stand":
        for x in (0.26, 0.38, 0.7, 0.82):
            pen.block(x, 0.6, x + 0.07, 1)
        body, neck = (0.22, 0.38, 0.92, 0.7), 0.4
    else:
        pen.block(0.1, 0.88, 0.4, 1)
        body, neck = (0.2, 0.55, 0.94, 1), 0.6
    pen.line(0.9, neck + 0.06, 0.99, neck + 0.36, thick=5)
    pen.disc(*body)
    pen.shape(0.24, neck + 0.16, 0.12, 0.12, 0.26, 0.04, 0.46, neck + 0.02)
    pen.shape(0.24, 0.04, 0.27, -0.0, 0.3, 0.1)
    pen.disc(0, 0.08, 0.3, 0.28)
    pen.line(0.26, 0.06, 0.46, neck, thick=4)
    _face(pen, 0.17, 0.15, False, 0.022)


def _bird(pen: Pen, thing: Thing) -> None:
    if thing.pose == "fly":
        pen.shape(0.34, 0.44, 0.5, 0, 0.66, 0.44)
        pen.shape(0.4, 0.6, 0.62, 0.98, 0.68, 0.56)
        pen.disc(0.2, 0.36, 0.84, 0.66)
        pen.shape(0.8, 0.5, 1, 0.36, 1, 0.6)
        pen.disc(0.06, 0.28, 0.32, 0.58)
        pen.shape(0.08, 0.4, -0.0, 0.48, 0.08, 0.5, fill=(240, 150, 30))
        _face(pen, 0.17, 0.4, False)
        return
    for x in (0.44, 0.58):
        pen.line(x, 0.8, x, 1, fill=(240, 150, 30), thick=2)
    pen.shape(0.74, 0.5, 1, 0.36, 0.96, 0.62)
    pen.disc(0.2, 0.34, 0.84, 0.86)
    pen.disc(0.08, 0.04, 0.48, 0.5)
    pen.shape(0.1, 0.22, -0.0, 0.32, 0.1, 0.36, fill=(240, 150, 30))
    pen.curve(0.36, 0.4, 0.8, 0.76, start=20, end=160, thick=2)
    _face(pen, 0.24, 0.22, False, 0.04)


def _person(pen: Pen, thing: Thing) -> None:
    pen.edge = DARK
    out = 0.0 if thing.slot == "left" else 1.0
    reach = 0.08 if out == 0.0 else 0.92
    if thing.holds >= 0:
        pen.line(0.5, 0.38, reach, 0.5, fill=SKIN, thick=4)
        pen.line(0.5, 0.38, 1 - reach - 0.1 * (1 - 2 * out), 0.56, fill=SKIN, thick=4)
    else:
        pen.line(0.5, 0.38, 0.14, 0.58, fill=SKIN, thick=4)
        pen.line(0.5, 0.38, 0.86, 0.58, fill=SKIN, thick=4)


def _boy(pen: Pen, thing: Thing) -> None:
    _person(pen, thing)
    for x in (0.3, 0.54):
        pen.block(x, 0.64, x + 0.16, 1, fill=(70, 84, 120))
    pen.block(0.28, 0.32, 0.72, 0.68, fill=(120, 170, 200))
    pen.disc(0.24, 0.02, 0.76, 0.34, fill=SKIN)
    pen.half(0.22, -0.0, 0.78, 0.26, fill=(80, 52, 32))
    _eyes(pen)


def _girl(pen: Pen, thing: Thing) -> None:
    _person(pen, thing)
    for x in (0.36, 0.54):
        pen.block(x, 0.74, x + 0.1, 1, fill=SKIN)
    pen.block(0.18, 0.08, 0.82, 0.44, fill=(176, 116, 50))
    pen.shape(0.36, 0.32, 0.64, 0.32, 0.86, 0.8, 0.14, 0.8, fill=(222, 120, 150))
    pen.disc(0.24, 0.04, 0.76, 0.34, fill=SKIN)
    pen.half(0.18, -0.0, 0.82, 0.26, fill=(176, 116, 50))
    _eyes(pen)


def _eyes(pen: Pen) -> None:
    for x in (0.4, 0.6):
        pen.dot(x, 0.2, 0.045)
    pen.line(0.42, 0.27, 0.58, 0.27, fill=(170, 60, 60))


SHAPES: dict[str, Callable[[Pen, Thing], None]] = {
    "table": _table,
    "bench": _bench,
    "bed": _bed,
    "chair": _chair,
    "box": _box,
    "basket": _basket,
    "car": _car,
    "house": _house,
    "tree": _tree,
    "ball": _ball,
    "cup": _cup,
    "book": _book,
    "hat": _hat,
    "vase": _vase,
    "lamp": _lamp,
    "clock": _clock,
    "apple": _apple,
    "umbrella": _umbrella,
    "balloon": _balloon,
    "kite": _kite,
    "dog": _dog,
    "cat": _cat,
    "horse": _horse,
    "bird": _bird,
    "boy": _boy,
    "girl": _girl,
}
