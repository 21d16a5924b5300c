"""Executors: local worker processes, the workers of a running Dask scheduler, or this process.

An executor has `map` (results in the order in which calls finish, few calls in flight) and `map_reduce` (results
combined in a tree on the workers). Calls carry paths and configs, not the tables of a run; workers on other machines
must see the run's folder under the same path or URL, and have negcap installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol

from .distributed import Distributed
from .errors import TaskError
from .reports import OnReport, reporting_to
from .schedulers import SYNCHRONOUS, named
from .tree import Combine, collapse, push


class Executor(Protocol):
    """Runs the calls of a stage, in this process or in others."""

    def start(self) -> None:
        """Start the workers in the background. Optional: the first call starts them, too."""

    def map(
        self, function: Callable[..., Any], calls: Sequence[tuple], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (position, function(*calls[position])) as the calls finish. Raises TaskError when a call fails.

        on_report: called with the reports of running calls (see engine.reports), possibly in another thread.
        """

    def map_reduce(
        self, function: Callable[..., Any], calls: Sequence[tuple], combine: Combine, done: Callable[[int], None]
    ) -> Any:
        """Combine the results function(*call) of all calls into one, and return it.

        combine: makes one result of a list of results; applied in a tree that does not depend on the order in which
        calls finish. done: called with the position of each finished call. Raises TaskError when a call fails,
        ValueError when there are no calls.
        """

    def close(self) -> None:
        """Stop the processes that this executor started."""


def executor(
    workers: int | None = None, scheduler: str | None = None, *, retries: int = 2, dashboard: bool = False
) -> Executor:
    """What runs the calls of stages, for the flags `--workers`, `--scheduler` and `--dashboard`; starts nothing yet.

    workers: the number of local processes; None: one per core. scheduler: None: these; `synchronous`: this process;
    else another Dask scheduler: an address, a scheduler file, or `module:function`. A call whose worker dies is tried
    again `retries` times. dashboard: whether to say on stderr where Dask's page is. Raises ValueError for workers below
    1, for a scheduler that is none of these or cannot be imported, and for a page without workers or without Bokeh,
    which draws it; ClusterError for a scheduler file without an address.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be >= 1, was: {workers}")
    if dashboard and scheduler == SYNCHRONOUS:
        raise ValueError(f"dashboard needs workers, scheduler {SYNCHRONOUS} has none")
    if dashboard and find_spec("bokeh") is None:
        raise ValueError('dashboard needs Bokeh: pip install "negcap[dashboard]"')
    if scheduler == SYNCHRONOUS:
        return Synchronous()
    other = None if scheduler is None else named(scheduler)
    return Distributed(workers or len(os.sched_getaffinity(0)), other, retries, dashboard)


class Synchronous:
    """Runs all calls in this process, one after another, without Dask: for debugging and for small inputs."""

    def start(self) -> None:
        """Does nothing: there are no workers."""

    def map(
        self, function: Callable[..., Any], calls: Sequence[tuple], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Make the calls one after another, in order; see Executor."""
        for position, call in enumerate(calls):
            listener = partial(on_report, position) if on_report else ignore
            try:
                with reporting_to(listener):
                    result = function(*call)
            except Exception as error:
                raise TaskError(position) from error
            yield position, result

    def map_reduce(
        self, function: Callable[..., Any], calls: Sequence[tuple], combine: Combine, done: Callable[[int], None]
    ) -> Any:
        """Combine results as they come, see Executor; keeps fewer than FAN_IN of them per level of the tree."""
        levels: list[list[Any]] = []
        for position, result in self.map(function, calls):
            push(levels, 0, result, combine)
            done(position)
        return collapse(levels, combine)

    def close(self) -> None:
        """Does nothing: there are no workers."""


def ignore(done: int) -> None:
    """Do nothing: the `done` of `Executor.map_reduce` for callers that show no progress."""
