"""Draw a scene as an image of 224 x 224 pixels, at twice the size and then scaled down."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from .world import COLOURS, CONTAINERS, PEOPLE, SIDE, Scene, Thing

SCALE = 2
HORIZON = 150
GROUNDS = {"outdoors": ((178, 216, 240), (150, 190, 120)), "indoors": ((236, 226, 206), (196, 172, 146))}
# Drawing order of the slots: later things cover earlier ones.
ORDER = ("above", "behind left", "behind right", "", "under", "in", "on", "left", "right", "front")
Colour = tuple[int, ...]
DARK = (52, 48, 52)
INKS: dict[str, Colour] = {
    "dark": DARK, "wood": (134, 84, 42), "skin": (236, 188, 150), "linen": (250, 250, 250), "paper": (250, 250, 244),
    "dial": (252, 252, 248), "glass": (190, 226, 244), "steel": (200, 200, 200), "tile": (110, 70, 64),
    "leaf": (60, 130, 50), "beak": (240, 150, 30), "nose": (90, 60, 60), "lips": (170, 60, 60), "denim": (70, 84, 120),
    "shirt": (120, 170, 200), "dress": (222, 120, 150), "dark_hair": (80, 52, 32), "fair_hair": (176, 116, 50),
}  # fmt: skip
# Kind, or kind and pose -> its strokes in drawing order. A stroke is a tool, coordinates x y x y … in percent of the
# thing's box with y downwards, and options: thick (of lines and curves, in outline widths) and ink, which is otherwise
# "main", the thing's colour, or of lines "edge", a darker tone of it. The tools block, disc and half (the upper half of
# a disc) take a box (left top right bottom), curve a box and two angles (degrees, clockwise from 3 o'clock), dot a
# centre and a radius in percent of the width, shape and line any number of points.
DRAWINGS = {
    "table": "block 8 10 16 100; block 84 10 91.99 100; block 0 0 100 20",  # 92 would be a pixel wider in a small table
    "bench": "block 10 0 17 100; block 82 0 89 100; block 4 3 96 15; block 4 20 96 32; block 0 42 100 56",
    "bed": "block 0 0 6 100 ink=wood; block 94 30 100 100 ink=wood; block 5 50 95 82; block 6 36 24 56 ink=linen",
    "chair": "block 6 0 18 100; block 82 55 94 100; block 6 4 30 50; block 4 53 97 65",
    "box": "shape 0 22 10 0 90 0 100 22",
    "box open": "shape 0 28 10 6 90 6 100 28 ink=edge",
    "box front": "block 0 26 100 100",
    "basket": "curve 12 0 88 110 180 360 thick=3; disc 2 34 98 52 ink=edge",
    "basket front": "shape 2 44 98 44 86 100 14 100; line 20 46 26.6 98; line 35 46 38.3 98; line 50 46 50 98;"
    "line 65 46 61.7 98; line 80 46 73.4 98; line 7 60 93 60; line 7 78 93 78",
    "car": "shape 20 42 32 2 70 2 84 42; shape 28 40 36 12 49 12 49 40 ink=glass;"
    "shape 54 40 54 12 67 12 76 40 ink=glass; block 0 40 100 80; disc 14 60 34 100 ink=dark;"
    "disc 20 72 28 88 ink=steel; disc 66 60 86 100 ink=dark; disc 72 72 80 88 ink=steel",
    "house": "block 8 40 92 100; shape 0 42 50 0 100 42 ink=tile; block 42 66 60 100 ink=wood;"
    "block 16 54 32 72 ink=glass; block 68 54 84 72 ink=glass",
    "tree": "block 43 50 57 100 ink=wood; disc 0 20 60 60; disc 40 20 100 60; disc 16 0 84 48; disc 22 10 78 56",
    "ball": "disc 0 0 100 100; curve 16 12 90 90 190 260",
    "cup": "curve 60 22 100 72 -90 90 thick=2; shape 5 4 78 4 70 100 13 100",
    "book": "block 0 6 100 100; block 10 78 100 94 ink=paper; block 30 22 80 40 ink=paper",
    "hat": "shape 24 78 30 2 70 2 76 78; disc 0 66 100 100",
    "vase": "shape 30 0 70 0 62 24 98 60 72 100 28 100 2 60 38 24",
    "lamp": "block 46 40 54 94 ink=dark; disc 20 88 80 100 ink=dark; shape 28 0 72 0 100 48 0 48",
    "clock": "line 20 100 50 70 thick=3; line 80 100 50 70 thick=3; disc 0 0 100 92; disc 16 16 84 76 ink=dial;"
    "line 50 24 50 46 68 52 ink=dark thick=1.5",
    "apple": "line 52 26 58 2 ink=wood thick=2; disc 0 18 62 100; disc 38 18 100 100; disc 14 22 86 97;"
    "shape 58 14 92 2 80 20 ink=leaf",
    "umbrella": "line 50 6 50 94 ink=dark thick=1.5; curve 50 84 66 100 0 180 thick=1.5; half 0 2 100 90;"
    "line 50 4 34 46; line 50 4 66 46",
    "balloon": "line 50 60 44 78 54 100 ink=dark; disc 0 0 100 62; shape 42 66 50 60 58 66",
    "kite": "line 50 64 34 78 60 88 46 100 ink=dark; shape 50 0 100 26 50 66 0 26; line 50 0 50 66; line 0 26 100 26",
    "horse stand": "block 26 60 33 100; block 38 60 45 100; block 70 60 77 100; block 82 60 89 100;"
    "line 90 46 99 76 thick=5; disc 22 38 92 70; shape 24 56 12 12 26 4 46 42; shape 24 4 27 0 30 10; disc 0 8 30 28;"
    "line 26 6 46 40 thick=4; dot 17 15 2.2 ink=eye",
    "horse lie": "block 10 88 40 100; line 90 66 99 96 thick=5; disc 20 55 94 100; shape 24 76 12 12 26 4 46 62;"
    "shape 24 4 27 0 30 10; disc 0 8 30 28; line 26 6 46 60 thick=4; dot 17 15 2.2 ink=eye",
    "bird fly": "shape 34 44 50 0 66 44; shape 40 60 62 98 68 56; disc 20 36 84 66; shape 80 50 100 36 100 60;"
    "disc 6 28 32 58; shape 8 40 0 48 8 50 ink=beak; dot 17 40 3 ink=eye",
    "bird stand": "line 44 80 44 100 ink=beak thick=2; line 58 80 58 100 ink=beak thick=2; shape 74 50 100 36 96 62;"
    "disc 20 34 84 86; disc 8 4 48 50; shape 10 22 0 32 10 36 ink=beak; curve 36 40 80 76 20 160 thick=2;"
    "dot 24 22 4 ink=eye",
    "boy": "block 30 64 46 100 ink=denim; block 54 64 70 100 ink=denim; block 28 32 72 68 ink=shirt;"
    "disc 24 2 76 34 ink=skin; half 22 0 78 26 ink=dark_hair;"
    "dot 40 20 4.5 ink=dark; dot 60 20 4.5 ink=dark; line 42 27 58 27 ink=lips",
    "girl": "block 36 74 46 100 ink=skin; block 54 74 64 100 ink=skin; block 18 8 82 44 ink=fair_hair;"
    "shape 36 32 64 32 86 80 14 80 ink=dress; disc 24 4 76 34 ink=skin; half 18 0 82 26 ink=fair_hair;"
    "dot 40 20 4.5 ink=dark; dot 60 20 4.5 ink=dark; line 42 27 58 27 ink=lips",
}
ARMS = {  # of a person to the left or right of the anchor who holds something, and of all others
    "left": "line 50 38 8 50 ink=skin thick=4; line 50 38 82 56 ink=skin thick=4",
    "right": "line 50 38 92 50 ink=skin thick=4; line 50 38 18 56 ink=skin thick=4",
    "": "line 50 38 14 58 ink=skin thick=4; line 50 38 86 58 ink=skin thick=4",
}
_LYING = "line 86 84 100 60 ink=main thick=4; disc 20 40 95 100; block 6 86 40 100"
# Pose -> body of a dog or cat that looks left; x, y and width of its head.
PETS = {
    "stand": (
        "block 28 60 37 100; block 42 60 51 100; block 68 60 77 100; block 82 60 91 100;"
        "line 88 46 98 16 ink=main thick=4; disc 24 36 94 76",
        *(0.02, 0.1, 0.4),
    ),
    "sit": (
        "line 78 92 98 70 ink=main thick=4; shape 36 36 62 36 90 98 30 98; block 32 60 41 100; block 46 60 55 100",
        *(0.18, 0.06, 0.4),
    ),
    "lie": (_LYING, 0.02, 0.22, 0.36),
    "sleep": (_LYING, 0.02, 0.22, 0.36),
}


class Pen:
    """Draws one thing on a layer of its own; `main` is the thing's colour, which patterns are drawn over."""

    def __init__(self, width: int, height: int, colour: str) -> None:
        self.image = Image.new("RGBA", (width, height))
        self.main: Colour = COLOURS.get(colour, DARK)
        edge = tuple(int(0.55 * part) for part in self.main) if colour else DARK
        eye = INKS["linen"] if sum(self.main) < 200 else DARK
        self.inks = {**INKS, "main": self.main, "edge": edge, "eye": eye}
        self._draw = ImageDraw.Draw(self.image)
        self._line = max(2, min(width, height) // 24)

    def draw(self, strokes: str) -> None:
        """Draw strokes as in DRAWINGS."""
        for stroke in strokes.split(";"):
            tool, *words = stroke.split()
            options: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
            self.stroke(tool, *(float(word) / 100 for word in words if "=" not in word), **options)

    def stroke(self, tool: str, *numbers: float, ink: str = "", thick: float | str = 1) -> None:
        """Draw one stroke; numbers: as in DRAWINGS, divided by 100."""
        width, height = self.image.width - 1, self.image.height - 1
        at = [number * (height if place % 2 else width) for place, number in enumerate(numbers)]
        edge, fill = self.inks["edge"], self.inks[ink or "main"]
        outlined: dict[str, Any] = {"fill": fill, "outline": edge, "width": self._line}
        thickness = max(1, round(self._line * float(thick)))
        match tool:
            case "disc":
                self._draw.ellipse(at, **outlined)
            case "block":
                self._draw.rectangle(at, **outlined)
            case "half":
                self._draw.pieslice(at, 180, 360, **outlined)
            case "shape":
                self._draw.polygon(at, fill=fill)
                self._draw.line([*at, *at[:4]], fill=edge, width=self._line, joint="curve")
            case "line":
                self._draw.line(at, fill=self.inks[ink or "edge"], width=thickness, joint="curve")
            case "curve":
                self._draw.arc(at[:4], 100 * numbers[4], 100 * numbers[5], fill=edge, width=thickness)
            case "dot":
                x, y, radius = *at[:2], numbers[2] * self.image.width
                self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)


def draw(scene: Scene) -> Image.Image:
    """The image of a scene: RGB, 224 x 224 pixels."""
    sky, ground = GROUNDS[scene.setting]
    size = SIDE * SCALE
    picture = Image.new("RGB", (size, size), sky)
    ImageDraw.Draw(picture).rectangle((0, HORIZON * SCALE, size, size), fill=ground)
    anchor = scene.things[0]
    layers = [(thing, False) for thing in sorted(scene.things, key=lambda one: (ORDER.index(one.slot), one.held >= 0))]
    if anchor.kind in CONTAINERS and any(thing.slot == "in" for thing in scene.things):
        layers.append((anchor, True))  # its front covers the things in it
    for thing, only_front in layers:
        width, height = (thing.right - thing.left) * SCALE, (thing.bottom - thing.top) * SCALE
        pen = Pen(max(4, width), max(4, height), thing.colour)
        if not only_front:
            _draw_thing(pen, thing)
        if f"{thing.kind} front" in DRAWINGS:
            pen.draw(DRAWINGS[f"{thing.kind} front"])
        layer = _patterned(pen, thing.pattern) if thing.pattern else pen.image
        picture.paste(layer, (thing.left * SCALE, thing.top * SCALE), layer)
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)


def _draw_thing(pen: Pen, thing: Thing) -> None:
    if thing.kind in PEOPLE:
        pen.draw(ARMS["" if thing.holds < 0 else "left" if thing.slot == "left" else "right"])
    if thing.kind not in ("dog", "cat"):
        state = "open" if thing.open else thing.pose
        pen.draw(DRAWINGS.get(f"{thing.kind} {state}") or DRAWINGS[thing.kind])
        return
    body, x, y, size = PETS[thing.pose]
    pen.draw(body)
    if thing.kind == "dog":
        pen.stroke("disc", x + 0.6 * size, y + 0.1 * size, x + 1.05 * size, y + 1.1 * size, ink="edge")
    else:
        for ear in (x + 0.08 * size, x + 0.58 * size):
            tip, back = ear + 0.12 * size, ear + 0.38 * size
            pen.stroke("shape", ear, y + 0.3 * size, tip, y - 0.25 * size, back, y + 0.2 * size)
    tall = size * pen.image.width / pen.image.height
    pen.stroke("disc", x, y, x + size, y + tall)
    eye, level = x + 0.36 * size, y + 0.42 * tall
    if thing.pose == "sleep":
        pen.stroke("line", eye - 0.05, level, eye + 0.04, level, ink="eye", thick=1.5)
    else:
        pen.stroke("dot", eye, level, 0.03, ink="eye")
    pen.stroke("dot", x + 0.08 * size, y + 0.62 * tall, 0.035, ink="nose")
    if thing.pose == "sleep":
        pen.draw("line 50 2 64 2 50 26 64 26 ink=dark thick=1.4")  # a Z
    if thing.kind == "dog":
        pen.stroke("disc", x + 0.62 * size, y + 0.08 * size, x + size, y + 1.1 * size, ink="edge")


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


def png(picture: Image.Image) -> bytes:
    """An image as the bytes of a PNG file."""
    stored = io.BytesIO()
    picture.save(stored, "PNG", compress_level=6)
    return stored.getvalue()
