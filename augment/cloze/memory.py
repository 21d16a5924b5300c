"""Arrays for intermediate results that are used again: fresh memory costs more than filling it."""

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import DTypeLike

_buffers = threading.local()


def buffer(name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> np.ndarray:
    """An array whose content the next call with this name, in the same thread, overwrites."""
    size = math.prod(shape)
    known: np.ndarray | None = getattr(_buffers, name, None)
    if known is None or known.size < size:
        known = np.empty(size, dtype)
        setattr(_buffers, name, known)
    return known[:size].reshape(shape)
