"""Draw a scene as an image of 224 x 224 pixels, and make features of images with a small fixed network.

Images are drawn at twice the size and scaled down, which smooths their edges. The network: five channels (RGB, x and y)
of 112 x 112 go through four convolutions with stride 2 and ReLU to 256 of 7 x 7. Weights are random with a fixed seed;
each channel is normalised on 48 fixed scenes, so that none is dead and all have the same scale.
"""

from __future__ import annotations

import io
from functools import cache
from random import Random
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from .world import COLOURS, CONTAINERS, PEOPLE, SIDE, WORLD, Scene, Thing, compose

SCALE = 2  # an image is drawn at so many times its size
HORIZON = 150  # its y, in pixels of the image
# The colours above and below the horizon.
GROUNDS = {"outdoors": ((178, 216, 240), (150, 190, 120)), "indoors": ((236, 226, 206), (196, 172, 146))}
# Drawing order of the slots: later things cover earlier ones.
ORDER = ("above", "behind left", "behind right", "", "under", "in", "on", "left", "right", "front")
INKS: dict[str, tuple[int, ...]] = {name: tuple(colour) for name, colour in WORLD["inks"].items()}
DRAWINGS: dict[str, str] = WORLD["drawings"]
EDGE_BRIGHTNESS = 0.55  # of the line around a thing, relative to the thing
DARK_SUM = 200  # a colour whose red, green and blue add up to less is dark,
BRIGHT_SUM = 620  # and bright if they add up to more

BACKBONE = "negcap scenes net 1"
INPUT = 112  # the width and height of what the network reads, in pixels
CHANNELS = (5, 32, 64, 128, 256)  # of the input, then of what each layer makes
STRIDE = 2
KERNELS = (5, 3, 3, 3)  # the size of each layer's kernel
GRID = (49, 256)  # the shape of an image's regions: (regions, channels)
POOLED = (512,)  # the shape of their mean and maximum, one after the other
SEED = 20180  # of the weights
SCENES = 48  # on which the scales of the channels are measured


class PictureScale(NamedTuple):
    """The mean and the standard deviation of each channel: (channels,)."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> PictureScale:
        """The scale of values (…, channels)."""
        flat = values.reshape(-1, values.shape[-1])
        return cls(flat.mean(axis=0), flat.std(axis=0) + np.float32(1e-6))

    def standardised(self, values: np.ndarray) -> np.ndarray:
        """Values (…, channels) with mean 0 and deviation 1 where this is their scale; float32."""
        return ((values - self.mean) / self.deviation).astype(np.float32, copy=False)


class Pen:
    """Draws one thing on a layer of its own; `main` is the thing's colour, which patterns are drawn over."""

    def __init__(self, width: int, height: int, colour: str) -> None:
        """Make an empty layer, of so many pixels. colour: a name of COLOURS; "" for a thing that is drawn dark."""
        self.image = Image.new("RGBA", (width, height))
        dark = INKS["dark"]
        self.main = COLOURS.get(colour, dark)
        # A line around the thing, a darker shade of its colour; and eyes that show on dark things, too.
        edge = tuple(int(EDGE_BRIGHTNESS * part) for part in self.main) if colour else dark
        eye = INKS["linen"] if sum(self.main) < DARK_SUM else dark
        self.inks = {**INKS, "main": self.main, "edge": edge, "eye": eye}
        self._draw = ImageDraw.Draw(self.image)
        self._line = max(2, min(width, height) // 24)  # the width of lines, in pixels

    def draw(self, strokes: str) -> None:
        """Draw strokes, written as in scenes.toml: "disc 10 20 60 70 ink=skin; line 0 0 100 100 thick=1.5"."""
        for stroke in strokes.split(";"):
            tool, *words = stroke.split()
            numbers = [float(word) / 100 for word in words if "=" not in word]
            options = dict(word.split("=") for word in words if "=" in word)
            self.stroke(tool, *numbers, ink=options.get("ink", ""), thick=float(options.get("thick", 1)))

    def stroke(self, tool: str, *numbers: float, ink: str = "", thick: float = 1) -> None:
        """Draw one stroke.

        Args:
            tool: disc, block, half (a semicircle), shape (a polygon), line, curve (part of an ellipse) or dot.
            numbers: its points, x and y in turns, as shares of the picture's width and height. A curve has the two
                corners of its ellipse, then the angles of its start and end as hundredths of degrees; a dot has its
                centre and its radius.
            ink: its colour by name; "": the tool's usual one.
            thick: how many times as thick a line is as usual.
        """
        width = self.image.width - 1
        height = self.image.height - 1
        # Numbers at even positions are x, those at odd positions y.
        points = [number * (height if position % 2 else width) for position, number in enumerate(numbers)]
        edge = self.inks["edge"]
        fill = self.inks[ink or "main"]
        thickness = max(1, round(self._line * thick))
        match tool:
            case "disc":
                self._draw.ellipse(points, fill, edge, self._line)
            case "block":
                self._draw.rectangle(points, fill, edge, self._line)
            case "half":
                self._draw.pieslice(points, 180, 360, fill, edge, self._line)
            case "shape":
                self._draw.polygon(points, fill=fill)
                self._draw.line([*points, *points[:4]], fill=edge, width=self._line, joint="curve")
            case "line":
                self._draw.line(points, fill=self.inks[ink or "edge"], width=thickness, joint="curve")
            case "curve":
                self._draw.arc(points[:4], 100 * numbers[4], 100 * numbers[5], fill=edge, width=thickness)
            case "dot":
                x = points[0]
                y = points[1]
                radius = numbers[2] * self.image.width
                self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)


def draw(scene: Scene) -> Image.Image:
    """The image of a scene: RGB, 224 x 224 pixels."""
    sky, ground = GROUNDS[scene.setting]
    size = SIDE * SCALE
    picture = Image.new("RGB", (size, size), sky)
    ImageDraw.Draw(picture).rectangle((0, HORIZON * SCALE, size, size), fill=ground)
    for layer in _layers(scene):
        thing = layer.thing
        width = (thing.right - thing.left) * SCALE
        height = (thing.bottom - thing.top) * SCALE
        pen = Pen(max(4, width), max(4, height), thing.colour)
        # What stands in a box is drawn between the box and its front, which hides the lower part.
        if not layer.only_front:
            _draw_thing(pen, thing)
        if f"{thing.kind} front" in DRAWINGS:
            pen.draw(DRAWINGS[f"{thing.kind} front"])
        image = _patterned(pen, thing.pattern) if thing.pattern else pen.image
        picture.paste(image, (thing.left * SCALE, thing.top * SCALE), image)
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)


class _Layer(NamedTuple):
    """A thing to draw, or only the front of it."""

    thing: Thing
    only_front: bool = False


def _layers(scene: Scene) -> list[_Layer]:
    """The things of a scene in the order in which they are drawn: by slot, a held thing after those who hold one."""

    def drawing_order(thing: Thing) -> tuple[int, bool]:
        """A key to sort by: the place of a thing's slot in ORDER, then whether it is held."""
        is_held = thing.held >= 0  # it has the slot of the person who holds it
        return ORDER.index(thing.slot), is_held

    layers = [_Layer(thing) for thing in sorted(scene.things, key=drawing_order)]
    anchor = scene.things[0]  # the thing around which the others are placed
    if anchor.kind in CONTAINERS and any(thing.slot == "in" for thing in scene.things):
        # The front of a container covers the things in it.
        layers.append(_Layer(anchor, only_front=True))
    return layers


def _draw_thing(pen: Pen, thing: Thing) -> None:
    """Draw a thing in its state: an open box, a sitting girl with her arms, a lying dog."""
    if thing.kind in PEOPLE:
        holds_something = thing.holds >= 0
        # On the side away from the anchor, where the held thing is.
        side = "left" if thing.slot == "left" else "right"
        pen.draw(WORLD["arms"][side if holds_something else "empty"])
    if thing.kind in ("dog", "cat"):
        _draw_pet(pen, thing)
        return
    state = "open" if thing.open else thing.pose
    pen.draw(DRAWINGS.get(f"{thing.kind} {state}") or DRAWINGS[thing.kind])


def _draw_pet(pen: Pen, thing: Thing) -> None:
    """Draw a dog or a cat in its pose. Dogs have hanging ears, one behind the head and one before it; cats pointed ones
    behind it.
    """
    pet = WORLD["pets"]["lie" if thing.pose == "sleep" else thing.pose]
    # All lengths are shares of the picture, from 0 to 1. (x, y) is the upper left corner of the head, `size` its width;
    # the ears, the eye and the nose are placed relative to the head. It looks to the left.
    x, y, size = pet["head"]
    pen.draw(pet["body"])
    if thing.kind == "dog":
        pen.stroke("disc", x + 0.6 * size, y + 0.1 * size, x + 1.05 * size, y + 1.1 * size, ink="edge")
    else:
        for ear in (x + 0.08 * size, x + 0.58 * size):
            tip = ear + 0.12 * size
            back = ear + 0.38 * size
            pen.stroke("shape", ear, y + 0.3 * size, tip, y - 0.25 * size, back, y + 0.2 * size)
    # The same number of pixels as the width `size`, so that the head is round in a layer that is not square.
    head_height = size * pen.image.width / pen.image.height
    pen.stroke("disc", x, y, x + size, y + head_height)
    eye_x = x + 0.36 * size
    eye_y = y + 0.42 * head_height
    if thing.pose == "sleep":
        pen.stroke("line", eye_x - 0.05, eye_y, eye_x + 0.04, eye_y, ink="eye", thick=1.5)
    else:
        pen.stroke("dot", eye_x, eye_y, 0.03, ink="eye")
    pen.stroke("dot", x + 0.08 * size, y + 0.62 * head_height, 0.035, ink="nose")
    if thing.pose == "sleep":
        pen.draw("line 50 2 64 2 50 26 64 26 ink=dark thick=1.4")  # a Z
    if thing.kind == "dog":
        pen.stroke("disc", x + 0.62 * size, y + 0.08 * size, x + size, y + 1.1 * size, ink="edge")


def _patterned(pen: Pen, pattern: str) -> Image.Image:
    """The pen's layer with stripes or spots wherever it has the thing's own colour; white, or dark on white things."""
    pixels = np.asarray(pen.image).copy()  # (height, width, RGBA)
    y, x = np.mgrid[0 : pixels.shape[0], 0 : pixels.shape[1]]
    step = max(8, round(min(pixels.shape[:2]) / 4.5))
    if pattern == "striped":
        marks = (x + y) % step < step * 0.45
    else:  # spots, those of every other row shifted by half a step
        row = y // step
        from_middle_x = (x + (row % 2) * step // 2) % step - step / 2
        from_middle_y = y % step - step / 2
        marks = from_middle_x**2 + from_middle_y**2 < (0.3 * step) ** 2
    is_main = (pixels[..., :3] == pen.main).all(axis=-1) & (pixels[..., 3] == 255)
    is_bright = sum(pen.main) > BRIGHT_SUM
    pixels[is_main & marks, :3] = 60 if is_bright else 250
    return Image.fromarray(pixels)


def png(picture: Image.Image) -> bytes:
    """An image as the bytes of a PNG file."""
    stored = io.BytesIO()
    picture.save(stored, "PNG", compress_level=6)
    return stored.getvalue()


class SceneFeatures(NamedTuple):
    """Features of n images, float32. pooled: mean and maximum over regions, (n, 512). regions: by row, (n, 49, 256)."""

    pooled: np.ndarray
    regions: np.ndarray


def encode(pictures: list[Image.Image]) -> SceneFeatures:
    """Standardised features of images."""
    net = feature_network()
    features = _forward(pictures, net.weights, net.scales)
    return SceneFeatures(
        net.scale_of_pooled.standardised(features.pooled), net.scale_of_regions.standardised(features.regions)
    )


class FeatureNetwork(NamedTuple):
    """For each layer its weights, (kernel * kernel * in, out), and its scale; and the scales of the features."""

    weights: list[np.ndarray]
    scales: list[PictureScale]
    scale_of_pooled: PictureScale
    scale_of_regions: PictureScale


@cache
def feature_network() -> FeatureNetwork:
    """The convolutional network that gives pictures their features, built once per process (0.3 s).

    Its weights are random and not trained; the scales are those of the features of a few drawn scenes.
    """
    rng = np.random.default_rng(SEED)
    weights: list[np.ndarray] = []
    # CHANNELS has one entry more than there are layers: the first is of the input.
    for size, channels, outputs in zip(KERNELS, CHANNELS, CHANNELS[1:], strict=False):
        inputs = size * size * channels
        weights.append(rng.standard_normal((inputs, outputs), np.float32) / np.float32(np.sqrt(inputs)))
    pictures = [draw(compose(Random(f"network {number}"))) for number in range(SCENES)]
    scales: list[PictureScale] = []
    features = _forward(pictures, weights, scales)
    return FeatureNetwork(weights, scales, PictureScale.of(features.pooled), PictureScale.of(features.regions))


def _forward(pictures: list[Image.Image], weights: list[np.ndarray], scales: list[PictureScale]) -> SceneFeatures:
    """The features of images before they are standardised.

    Args:
        pictures: n images.
        weights: of each layer, (kernel * kernel * in, out).
        scales: of each layer's responses. Those that are missing are measured on the pictures and appended: each layer
            must be scaled before the next one can be measured.
    """
    small = [np.asarray(picture.resize((INPUT, INPUT), Image.Resampling.BOX), np.float32) for picture in pictures]
    colours = np.stack(small) / np.float32(127.5) - np.float32(1)  # 0 to 255 -> -1 to 1
    # Two more channels say where a pixel is, x and y from -1 to 1: convolutions alone cannot tell left from right.
    steps = np.linspace(-1, 1, INPUT, dtype=np.float32)
    x_and_y = np.broadcast_to(np.stack(np.meshgrid(steps, steps), axis=-1), (len(colours), INPUT, INPUT, 2))
    # (n, height, width, channels), as all that follow.
    maps = np.concatenate([colours, x_and_y], axis=-1)
    for layer, size in enumerate(KERNELS):
        responses = _convolve(maps, weights[layer], size)
        if layer == len(scales):
            scales.append(PictureScale.of(responses))
        maps = np.maximum(scales[layer].standardised(responses), 0)
    regions = maps.reshape(len(maps), -1, CHANNELS[-1])
    return SceneFeatures(np.concatenate([regions.mean(axis=1), regions.max(axis=1)], axis=-1), regions)


def _convolve(maps: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Convolve maps with stride 2; beyond an edge, its pixels are repeated.

    Args:
        maps: (n, side, side, in).
        weights: (size * size * in, out).
        size: the width and height of the kernel in pixels.

    Returns:
        (n, side / 2, side / 2, out).
    """
    margin = size // 2
    padded = np.pad(maps, ((0, 0), (margin, margin), (margin, margin), (0, 0)), mode="edge")
    # (n, side / 2, side / 2, in, size, size): the pixels under the kernel at each of its places.
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))[:, ::STRIDE, ::STRIDE]
    n, height, width = windows.shape[:3]
    pixels_under_kernel = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * height * width, -1)
    return (pixels_under_kernel @ weights).reshape(n, height, width, -1)
