"""Noise that hangs on a name and a seed alone, never on a batch, a shard or an order; all of it at once."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64 (Steele et al. 2014)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


def keys(seed: int, names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """A key (n,) of each name."""
    digests = b"".join(blake2b(f"{seed}\x1fcaption\x1f{name}".encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def uniforms(keys: npt.NDArray[np.uint64], first: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.float64]:
    """Numbers `first` (n,) to `first + count` of the stream of each key (n,), within (0, 1): (n, count); splitmix64."""
    with np.errstate(over="ignore"):
        numbers = first[:, None] + np.arange(1, count + 1, dtype=np.uint64)
        bits = np.asarray(keys[:, None] + _STEP * numbers, np.uint64)
        for shift, factor in _MIX:
            bits = (bits ^ (bits >> shift)) * factor
        bits ^= bits >> np.uint64(31)
    return np.asarray(((bits >> np.uint64(12)) + 0.5) * 2.0**-52, np.float64)


def draws(
    keys: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64], noise: int, words: int
) -> tuple[Tensor, Tensor]:
    """What the caption of a number (n,) of a key (n,) is drawn with: normal noise (n, noise), uniform (n, words)."""
    values = torch.from_numpy(uniforms(keys, numbers * np.uint64(noise + words), noise + words))
    return torch.special.ndtri(values[:, :noise]).float(), values[:, noise:]
