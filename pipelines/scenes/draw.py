"""Draw a scene as an image of 224 x 224 pixels, at twice the size and scaled down, and make features of images with a
small fixed network: five channels (RGB, x and y) of 112 x 112 go through four convolutions with stride 2 and ReLU to
256 of 7 x 7. Weights are random with a fixed seed; each channel is normalised on 48 fixed scenes, so that none is dead
and all have the same scale.
"""

from __future__ import annotations

import io
from functools import cache
from random import Random
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from .world import COLOURS, CONTAINERS, PEOPLE, SIDE, WORLD, Scene, Thing, compose

SCALE = 2
HORIZON = 150
GROUNDS = {"outdoors": ((178, 216, 240), (150, 190, 120)), "indoors": ((236, 226, 206), (196, 172, 146))}
# Drawing order of the slots: later things cover earlier ones.
ORDER = ("above", "behind left", "behind right", "", "under", "in", "on", "left", "right", "front")
INKS: dict[str, tuple[int, ...]] = {name: tuple(colour) for name, colour in WORLD["inks"].items()}
DRAWINGS: dict[str, str] = WORLD["drawings"]

BACKBONE = "negcap scenes net 1"
INPUT = 112
CHANNELS = (5, 32, 64, 128, 256)
STRIDE = 2
KERNELS = (5, 3, 3, 3)  # their sizes
GRID = (49, 256)
POOLED = (512,)
SEED = 20180
SCENES = 48
Scale = tuple[np.ndarray, np.ndarray]  # mean and deviation of each channel


class Pen:
    """Draws one thing on a layer of its own; `main` is the thing's colour, which patterns are drawn over."""

    def __init__(self, width: int, height: int, colour: str) -> None:
        self.image = Image.new("RGBA", (width, height))
        dark = INKS["dark"]
        self.main = COLOURS.get(colour, dark)
        edge = tuple(int(0.55 * part) for part in self.main) if colour else dark
        eye = INKS["linen"] if sum(self.main) < 200 else dark
        self.inks = {**INKS, "main": self.main, "edge": edge, "eye": eye}
        self._draw = ImageDraw.Draw(self.image)
        self._line = max(2, min(width, height) // 24)

    def draw(self, strokes: str) -> None:
        """Draw strokes, written as in scenes.toml."""
        for stroke in strokes.split(";"):
            tool, *words = stroke.split()
            options: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
            self.stroke(tool, *(float(word) / 100 for word in words if "=" not in word), **options)

    def stroke(self, tool: str, *numbers: float, ink: str = "", thick: float | str = 1) -> None:
        """Draw one stroke; numbers: as in scenes.toml, but from 0 to 1."""
        width = self.image.width - 1
        height = self.image.height - 1
        at = [number * (height if place % 2 else width) for place, number in enumerate(numbers)]
        edge = self.inks["edge"]
        fill = self.inks[ink or "main"]
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
        width = (thing.right - thing.left) * SCALE
        height = (thing.bottom - thing.top) * SCALE
        pen = Pen(max(4, width), max(4, height), thing.colour)
        if not only_front:
            _draw_thing(pen, thing)
        if f"{thing.kind} front" in DRAWINGS:
            pen.draw(DRAWINGS[f"{thing.kind} front"])
        layer = _patterned(pen, thing.pattern) if thing.pattern else pen.image
        picture.paste(layer, (thing.left * SCALE, thing.top * SCALE), layer)
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)


def _draw_thing(pen: Pen, thing: Thing) -> None:
    """Draw a thing: people with their arms, what a thing is made of in its state, pets by body, head and ears."""
    if thing.kind in PEOPLE:
        pen.draw(WORLD["arms"]["empty" if thing.holds < 0 else "left" if thing.slot == "left" else "right"])
    if thing.kind not in ("dog", "cat"):
        state = "open" if thing.open else thing.pose
        pen.draw(DRAWINGS.get(f"{thing.kind} {state}") or DRAWINGS[thing.kind])
        return
    pet = WORLD["pets"]["lie" if thing.pose == "sleep" else thing.pose]
    x, y, size = pet["head"]
    pen.draw(pet["body"])
    if thing.kind == "dog":
        pen.stroke("disc", x + 0.6 * size, y + 0.1 * size, x + 1.05 * size, y + 1.1 * size, ink="edge")
    else:
        for ear in (x + 0.08 * size, x + 0.58 * size):
            tip = ear + 0.12 * size
            back = ear + 0.38 * size
            pen.stroke("shape", ear, y + 0.3 * size, tip, y - 0.25 * size, back, y + 0.2 * size)
    tall = size * pen.image.width / pen.image.height
    pen.stroke("disc", x, y, x + size, y + tall)
    eye = x + 0.36 * size
    level = y + 0.42 * tall
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
        u = (x + (row % 2) * step // 2) % step - step / 2
        v = y % step - step / 2
        marks = u**2 + v**2 < (0.3 * step) ** 2
    own = (pixels[..., :3] == pen.main).all(axis=-1) & (pixels[..., 3] == 255)
    pixels[own & marks, :3] = 60 if sum(pen.main) > 620 else 250
    return Image.fromarray(pixels)


def png(picture: Image.Image) -> bytes:
    """An image as the bytes of a PNG file."""
    stored = io.BytesIO()
    picture.save(stored, "PNG", compress_level=6)
    return stored.getvalue()


def encode(pictures: list[Image.Image]) -> tuple[np.ndarray, np.ndarray]:
    """Standardised float32 features of n images: pooled, mean and maximum, (n, 512); regions, by row, (n, 49, 256)."""
    weights, scales, of_pooled, of_regions = network()
    regions, pooled = _forward(pictures, weights, scales)
    return _standard(pooled, of_pooled), _standard(regions, of_regions)


@cache
def network() -> tuple[list[np.ndarray], list[Scale], Scale, Scale]:
    """The network, built once per process (0.3 s): for each layer weights (kernel * kernel * in, out) and scale (out,);
    the scales of pooled and region features.
    """
    rng = np.random.default_rng(SEED)
    weights = list[np.ndarray]()
    scales = list[Scale]()
    for size, given, made in zip(KERNELS, CHANNELS, CHANNELS[1:], strict=False):
        inputs = size * size * given
        weights.append(rng.standard_normal((inputs, made), np.float32) / np.float32(np.sqrt(inputs)))
    pictures = [draw(compose(Random(f"network {number}"))) for number in range(SCENES)]
    regions, pooled = _forward(pictures, weights, scales)
    return weights, scales, _scale(pooled), _scale(regions)


def _forward(
    pictures: list[Image.Image], weights: list[np.ndarray], scales: list[Scale]
) -> tuple[np.ndarray, np.ndarray]:
    """Regions (n, 49, 256), and their mean and maximum (n, 512); scales that are missing are those of the pictures."""
    small = [np.asarray(picture.resize((INPUT, INPUT), Image.Resampling.BOX), np.float32) for picture in pictures]
    colours = np.stack(small) / np.float32(127.5) - np.float32(1)
    along = np.linspace(-1, 1, INPUT, dtype=np.float32)
    place = np.broadcast_to(np.stack(np.meshgrid(along, along), axis=-1), (len(colours), INPUT, INPUT, 2))
    maps = np.concatenate([colours, place], axis=-1)
    for layer, size in enumerate(KERNELS):
        responses = _convolve(maps, weights[layer], size)
        if layer == len(scales):
            scales.append(_scale(responses))
        maps = np.maximum(_standard(responses, scales[layer]), 0)
    regions = maps.reshape(len(maps), -1, CHANNELS[-1])
    return regions, np.concatenate([regions.mean(axis=1), regions.max(axis=1)], axis=-1)


def _scale(numbers: np.ndarray) -> Scale:
    flat = numbers.reshape(-1, numbers.shape[-1])
    return flat.mean(axis=0), flat.std(axis=0) + np.float32(1e-6)


def _standard(numbers: np.ndarray, scale: Scale) -> np.ndarray:
    return ((numbers - scale[0]) / scale[1]).astype(np.float32, copy=False)


def _convolve(maps: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Convolve with stride 2 and repeated edges: (n, s, s, c) -> (n, s / 2, s / 2, d); size: of the kernel."""
    margin = size // 2
    padded = np.pad(maps, ((0, 0), (margin, margin), (margin, margin), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))[:, ::STRIDE, ::STRIDE]
    n, height, width = windows.shape[:3]
    rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * height * width, -1)
    return (rows @ weights).reshape(n, height, width, -1)
