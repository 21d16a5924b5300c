"""Random numbers that depend only on a seed and an image's name, not on batch, shard or order."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64 (Steele et al. 2014)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


class CaptionNoise(NamedTuple):
    """The random numbers of n captions: normal (n, z) for the generator, uniforms (n, words) to sample its words."""

    normal: Tensor
    uniforms: Tensor


def stream_keys(seed: int, names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """A key (n,) per name, which selects its stream of random numbers."""
    digests = b"".join(blake2b(f"{seed}\x1fcaption\x1f{name}".encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def stream_uniforms(keys: npt.NDArray[np.uint64], first: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.float64]:
    """`count` numbers in (0, 1) from each stream, (n, count), by splitmix64.

    keys: (n,) of the streams. first: (n,) from 0, the position of the first number in the stream.
    """
    with np.errstate(over="ignore"):
        numbers = first[:, None] + np.arange(1, count + 1, dtype=np.uint64)
        bits = np.asarray(keys[:, None] + _STEP * numbers, np.uint64)
        for shift, factor in _MIX:
            bits = (bits ^ (bits >> shift)) * factor
        bits ^= bits >> np.uint64(31)
    return np.asarray(((bits >> np.uint64(12)) + 0.5) * 2.0**-52, np.float64)


def caption_noise(
    keys: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64], noise: int, words: int
) -> CaptionNoise:
    """The noise of captions number `numbers` (n,) of the images with `keys` (n,).

    noise: the size of z. words: the maximum number of words of a caption.
    """
    values = torch.from_numpy(stream_uniforms(keys, numbers * np.uint64(noise + words), noise + words))
    return CaptionNoise(torch.special.ndtri(values[:, :noise]).float(), values[:, noise:])
