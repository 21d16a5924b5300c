"""Draw a scene as an image of 224 x 224 pixels, at twice the size and then scaled down."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from .creatures import CREATURES
from .pen import Pen
from .things import THINGS, front
from .world import CONTAINERS, SIDE, Scene, Thing

SCALE = 2
HORIZON = 150
GROUNDS = {"outdoors": ((178, 216, 240), (150, 190, 120)), "indoors": ((236, 226, 206), (196, 172, 146))}
# Drawing order of the slots: later things cover earlier ones.
SHAPES = THINGS | CREATURES
ORDER = ("above", "behind left", "behind right", "", "under", "in", "on", "left", "right", "front")


def draw(scene: Scene) -> Image.Image:
    """The image of a scene: RGB, 224 x 224 pixels."""
    sky, ground = GROUNDS[scene.setting]
    size = SIDE * SCALE
    picture = Image.new("RGB", (size, size), sky)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, HORIZON * SCALE, size, size), fill=ground)
    for thing in sorted(scene.things, key=lambda thing: (ORDER.index(thing.slot), thing.held >= 0)):
        _paste(picture, thing, SHAPES[thing.kind])
    anchor = scene.things[0]
    if anchor.kind in CONTAINERS and any(thing.slot == "in" for thing in scene.things):
        _paste(picture, anchor, front)
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)


def png(picture: Image.Image) -> bytes:
    """An image as the bytes of a PNG file."""
    stored = io.BytesIO()
    picture.save(stored, "PNG", compress_level=6)
    return stored.getvalue()


def _paste(picture: Image.Image, thing: Thing, shape: Callable[[Pen, Thing], None]) -> None:
    width, height = (thing.right - thing.left) * SCALE, (thing.bottom - thing.top) * SCALE
    pen = Pen(max(4, width), max(4, height), thing.colour)
    shape(pen, thing)
    layer = _patterned(pen, thing.pattern) if thing.pattern else pen.image
    picture.paste(layer, (thing.left * SCALE, thing.top * SCALE), layer)


def _patterned(pen: Pen, pattern: str) -> Image.Image:
    """The pen's layer with stripes or spots wherever it has the thing's own colour; white, or dark on white things."""
    pixels = np.asarray(pen.image).copy()
    y, x = np.mgrid[0 : pixels.shape[0], 0 : pixels.shape[1]]
    step = max(8, round(min(pixels.shape[:2]) / 4.5))
    if pattern == "striped":
        marks = (x + y) % step < step * 0.45
    else:
        row = y // step
        u, v = (x + (row % 2) * step // 2) % step - step / 2, y % step - step / 2
        marks = u**2 + v**2 < (0.3 * step) ** 2
    own = (pixels[..., :3] == pen.main).all(axis=-1) & (pixels[..., 3] == 255)
    pixels[own & marks, :3] = 60 if sum(pen.main) > 620 else 250
    return Image.fromarray(pixels)
