"""Bounded caches for answers that several operators ask for: the standard library's `lru_cache`, with types kept.

`Caption`, `Context`, `Lexicon` and the like are frozen and compare by identity, so that hashing one costs nothing. An
array that a cached function returns is shared: make it read-only with `read_only`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
# More than an image has captions; every caption that is kept costs memory and makes garbage collection slower.
CAPTIONS = 256
CONTEXTS = 64


def cached(size: int) -> Callable[[Function], Function]:
    """A decorator: keep the `size` answers of a function or method that were used last."""

    def decorate(function: Function) -> Function:
        return cast(Function, lru_cache(maxsize=size)(function))

    return decorate


def cached_on_caption(read: Function) -> Function:
    """Keep the answers of a function of a caption alone, for the captions used last."""
    return cached(CAPTIONS)(read)


def cached_on_context(read: Function) -> Function:
    """Keep the answers of a function of a caption and its context, for all operators that call it."""
    return cached(CONTEXTS)(read)


def read_only(array: np.ndarray) -> np.ndarray:
    """The array itself, which nobody can write to any more."""
    array.setflags(write=False)
    return array
