"""Matrix products on one thread: those of the cloze network are small, and several threads wait for each other in them.

On two busy cores a second thread made a batch of captions take five times as long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_limits: list[Any] = []  # one limit for each call that is running; the first holds the number of threads before


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let the BLAS library of this process use one thread, until all that have asked for it are done.

    The number holds for the whole process, so NumPy's matrix products in other threads are limited meanwhile.
    """
    with _lock:
        _limits.append(_libraries().limit(limits=1, user_api="blas") if not _limits else None)
    try:
        yield
    finally:
        with _lock:
            last = _limits.pop()
            if last is not None:
                last.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    """The libraries with threads of their own that are loaded, found once per process."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
