"""Drawing functions for animals and children, by kind (`CREATURES`)."""

from __future__ import annotations

from collections.abc import Callable

from .pen import DARK, SKIN, Pen
from .world import Thing


def _face(pen: Pen, x: float, y: float, asleep: bool, size: float = 0.03) -> None:
    ink = (250, 250, 250) if sum(pen.main) < 200 else DARK
    if asleep:
        pen.line(x - 0.05, y, x + 0.04, y, fill=ink, thick=1.5)
    else:
        pen.dot(x, y, size, fill=ink)


def _pet(pen: Pen, thing: Thing, ears: Callable[[float, float, float], None]) -> None:
    """Draw a dog or a cat that looks left, in its pose; ears: draws the ears at (x, y, head size)."""
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


CREATURES: dict[str, Callable[[Pen, Thing], None]] = {
    "dog": _dog,
    "cat": _cat,
    "horse": _horse,
    "bird": _bird,
    "boy": _boy,
    "girl": _girl,
}
