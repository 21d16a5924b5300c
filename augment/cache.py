"""Bounded caches for results that several operators need: `functools.lru_cache` with type hints kept.

`Caption`, `Context`, `Lexicon` and similar classes are frozen and compare by identity, so they are cheap cache keys.
Arrays that a cached function returns are shared: make them read-only with `read_only`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
# Number of captions whose results are kept: enough for those that the cloze model reads together. More cost memory and
# slow down garbage collection.
CAPTIONS = 256
CONTEXTS = 64


def cached(size: int) -> Callable[[Function], Function]:
    """A decorator that caches the `size` most recently used results of a function or method."""

    def decorate(function: Function) -> Function:
        return cast(Function, lru_cache(maxsize=size)(function))

    return decorate


def cached_on_caption(read: Function) -> Function:
    """Cache the results of a function of a caption, for the most recently used captions."""
    return cached(CAPTIONS)(read)


def cached_on_context(read: Function) -> Function:
    """Cache the results of a function of a caption and its context, for the most recently used contexts."""
    return cached(CONTEXTS)(read)


def read_only(array: np.ndarray) -> np.ndarray:
    """Make an array read-only, in place, and return it."""
    array.setflags(write=False)
    return array
