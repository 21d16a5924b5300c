"""A small fixed convolutional network in numpy, so that images of scenes have features without a download.

Five channels (RGB and the pixel's x and y) of 112 x 112 go through four convolutions with stride 2 and ReLU to 256
channels of 7 x 7. Weights are random with a fixed seed; each channel is normalised by its mean and deviation on 48
fixed scenes, so that no channel is dead and all have the same scale.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import NamedTuple

import numpy as np
from PIL import Image

from .draw import draw
from .world import compose

NAME = "negcap scenes net 1"
SIDE, CHANNELS, STRIDE = 112, (5, 32, 64, 128, 256), 2
SIZES = (5, 3, 3, 3)  # of the kernels
GRID, POOLED = (49, 256), (512,)
SEED, SCENES = 20180, 48
Scale = tuple[np.ndarray, np.ndarray]  # mean and deviation of each channel


class Network(NamedTuple):
    """For each layer, weights (kernel * kernel * in, out) and scale (out,); scales of pooled and region features."""

    weights: list[np.ndarray]
    scales: list[Scale]
    pooled: Scale
    region: Scale


def encode(pictures: list[Image.Image]) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features of n images: pooled (n, 512) and regions (n, 49, 256), both float32.

    Pooled are mean and maximum over the regions; regions are in row-major order.
    """
    net = network()
    maps = _input(pictures)
    for size, weights, scale in zip(SIZES, net.weights, net.scales, strict=True):
        maps = np.maximum(_standard(_convolve(maps, weights, size), scale), 0)
    regions, pooled = _pool(maps)
    return _standard(pooled, net.pooled), _standard(regions, net.region)


@cache
def network() -> Network:
    """The network, which is built once per process (0.3 s)."""
    rng = np.random.default_rng(SEED)
    maps = _input([draw(compose(Random(f"network {number}"))) for number in range(SCENES)])
    weights, scales = [], []
    for size, given, made in zip(SIZES, CHANNELS, CHANNELS[1:], strict=False):
        inputs = size * size * given
        weights.append(rng.standard_normal((inputs, made), np.float32) / np.float32(np.sqrt(inputs)))
        responses = _convolve(maps, weights[-1], size)
        scales.append(_scale(responses))
        maps = np.maximum(_standard(responses, scales[-1]), 0)
    regions, pooled = _pool(maps)
    return Network(weights, scales, _scale(pooled), _scale(regions))


def _scale(numbers: np.ndarray) -> Scale:
    flat = numbers.reshape(-1, numbers.shape[-1])
    return flat.mean(axis=0), flat.std(axis=0) + np.float32(1e-6)


def _standard(numbers: np.ndarray, scale: Scale) -> np.ndarray:
    return ((numbers - scale[0]) / scale[1]).astype(np.float32, copy=False)


def _input(pictures: list[Image.Image]) -> np.ndarray:
    """The network's input (n, 112, 112, 5): RGB, then the pixel's x and y, all from -1 to 1."""
    small = [np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX), np.float32) for picture in pictures]
    colours = np.stack(small) / np.float32(127.5) - np.float32(1)
    along = np.linspace(-1, 1, SIDE, dtype=np.float32)
    place = np.broadcast_to(np.stack(np.meshgrid(along, along), axis=-1), (len(colours), SIDE, SIDE, 2))
    return np.concatenate([colours, place], axis=-1)


def _convolve(maps: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Convolve with stride 2 and repeated edges: (n, s, s, c) -> (n, s / 2, s / 2, d); size: of the kernel."""
    margin = size // 2
    padded = np.pad(maps, ((0, 0), (margin, margin), (margin, margin), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))[:, ::STRIDE, ::STRIDE]
    n, height, width = windows.shape[:3]
    rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * height * width, -1)
    return (rows @ weights).reshape(n, height, width, -1)


def _pool(maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regions (n, 49, 256) of maps (n, 7, 7, 256), and their mean and maximum (n, 512)."""
    regions = maps.reshape(len(maps), -1, CHANNELS[-1])
    return regions, np.concatenate([regions.mean(axis=1), regions.max(axis=1)], axis=-1)
