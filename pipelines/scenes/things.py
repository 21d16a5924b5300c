"""Drawing functions for inanimate things and trees, by kind (`THINGS`)."""

from __future__ import annotations

from collections.abc import Callable

from .pen import DARK, WOOD, Pen
from .world import Thing


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
    """Draw the front of a box or basket, which covers the things in it."""
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


THINGS: dict[str, Callable[[Pen, Thing], None]] = {
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
}
