"""Executors: local worker processes, the workers of a running Dask scheduler, or this process.

An executor has `map` (results in the order in which calls finish, few calls in flight) and `map_reduce` (results
combined in a tree on the workers). Calls carry paths and configs, not the tables of a run; workers on other machines
must see the run's folder under the same path or URL, and have negcap installed.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import Future as StartFuture
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from negcap.pipelines.engine.errors import ClusterError, TaskError
from negcap.pipelines.engine.reports import OnReport, listening, reporting, reporting_to
from negcap.pipelines.engine.schedulers import SYNCHRONOUS, Scheduler, named
from negcap.pipelines.engine.workers import start

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.deploy.cluster import Cluster

FAN_IN = 8
IN_FLIGHT = 2
RECOUNT_SECONDS = 1
LOST = "the Dask scheduler was lost; run again to go on"
Combine = Callable[[list[Any]], Any]


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
        self,
        function: Callable[..., Any],
        calls: Sequence[tuple],
        combine: Combine,
        done: Callable[[int], None],
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
    """The executor for the flags `--workers`, `--scheduler` and `--dashboard`; starts nothing yet.

    It has `workers` local processes (None: one per core), unless `scheduler` is `synchronous` (this process) or names
    another scheduler, see `schedulers.named`. A call whose worker dies is tried again `retries` times. dashboard:
    whether to say on stderr where Dask's page is. Raises ValueError for workers below 1, as `schedulers.named`, and for
    a page without workers or without Bokeh, which draws it.
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
        """Nothing to start."""

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
        self,
        function: Callable[..., Any],
        calls: Sequence[tuple],
        combine: Combine,
        done: Callable[[int], None],
    ) -> Any:
        """Combine results as they come, see Executor; keeps fewer than FAN_IN of them per level of the tree."""
        levels: list[list[Any]] = []
        for position, result in self.map(function, calls):
            _push(levels, 0, result, combine)
            done(position)
        return _collapse(levels, combine)

    def close(self) -> None:
        """Nothing to stop."""


class Distributed:
    """Worker processes of Dask `distributed`: its own, or those of a running scheduler."""

    def __init__(self, workers: int, scheduler: Scheduler | None, retries: int, dashboard: bool = False) -> None:
        """See `executor`; nothing is started yet. scheduler: None for `workers` processes of its own."""
        self.workers = workers
        self.scheduler = scheduler
        self.retries = retries
        self.dashboard = dashboard
        self._threads, self._counted = 0, -math.inf
        self._starting: StartFuture[tuple[Client, Cluster | None]] | None = None

    def start(self) -> None:
        """Start (or connect to) the workers in a thread, so that the caller can read its input meanwhile."""
        if self._starting is None:
            with_thread = ThreadPoolExecutor(1, "start-cluster")
            self._starting = with_thread.submit(start, self.workers, self.scheduler, self.retries, self.dashboard)
            with_thread.shutdown(wait=False)

    @property
    def client(self) -> Client:
        """The connected Dask client; waits until it is. Raises ClusterError if no scheduler or worker answers."""
        self.start()
        assert self._starting is not None
        return self._starting.result()[0]

    def map(
        self, function: Callable[..., Any], calls: Sequence[tuple], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield results in the order in which the workers finish; see Executor."""
        if on_report is None:
            yield from self._map(function, calls)
            return
        sender = secrets.token_hex(8)
        client = self.client  # before anything of Dask is imported here: the thread that starts it imports it, too
        with _connection(), listening(client, sender, on_report):
            yield from self._map(reporting, [(sender, at, function, *call) for at, call in enumerate(calls)])

    def _map(self, function: Callable[..., Any], calls: Sequence[tuple]) -> Iterator[tuple[int, Any]]:
        client = self.client
        from distributed import as_completed

        positions: dict[Future, int] = {}
        waiting = iter(enumerate(calls))
        finished = as_completed(loop=client.loop)

        def submit(count: int) -> None:
            for position, call in islice(waiting, max(0, count)):
                future = client.submit(function, *call, pure=False)
                positions[future] = position
                finished.add(future)

        with _connection():
            try:
                submit(self._window())
                for future in finished:
                    position = positions.pop(future)
                    result = _result(future, position)
                    submit(self._window() - len(positions))
                    yield position, result
            finally:
                if positions and client.status == "running":
                    client.cancel(list(positions), force=True)

    def map_reduce(
        self,
        function: Callable[..., Any],
        calls: Sequence[tuple],
        combine: Combine,
        done: Callable[[int], None],
    ) -> Any:
        """Combine results on the workers, see Executor. They stay there and are passed between workers."""
        client = self.client
        from distributed import as_completed

        if not calls:
            raise ValueError("map_reduce needs calls, had none")
        levels: list[list[Future]] = []
        positions: dict[Future, int] = {}
        waiting = iter(enumerate(calls))
        finished = as_completed(loop=self.client.loop)

        def combined(futures: list[Future]) -> Future:
            return client.submit(combine, futures, pure=False)

        def submit(count: int) -> None:
            for position, call in islice(waiting, max(0, count)):
                future = client.submit(function, *call, pure=False)
                positions[future] = position
                finished.add(future)
                _push(levels, 0, future, combined)

        with _connection():
            submit(self._window())
            for future in finished:
                position = positions.pop(future)
                if future.status != "finished":
                    _result(future, position)
                submit(self._window() - len(positions))
                done(position)
            return _result(_collapse(levels, combined), len(calls) - 1)

    def _window(self) -> int:
        """How many calls may be in flight: enough that no worker waits, but few, so that memory use does not grow."""
        now = time.monotonic()
        if now - self._counted > RECOUNT_SECONDS:  # asking the scheduler costs milliseconds
            self._threads = sum(self.client.nthreads().values())
            self._counted = now
        return IN_FLIGHT * max(1, self._threads)

    def close(self) -> None:
        """Stop the workers if this executor started them; a scheduler that was running before is left running."""
        if self._starting is None:
            return
        starting, self._starting = self._starting, None
        try:
            client, cluster = starting.result()
        except Exception:
            return
        client.close()
        if cluster is not None:
            cluster.close()


def ignore(done: int) -> None:
    """Do nothing with the report of a call (see `Executor.map`)."""


def _push(levels: list[list[Any]], level: int, result: Any, combine: Combine) -> None:
    """Add a result to a level of the tree; every FAN_IN results of a level are combined to one of the next."""
    while True:
        if level == len(levels):
            levels.append([])
        levels[level].append(result)
        if len(levels[level]) < FAN_IN:
            return
        result, levels[level] = combine(levels[level]), []
        level += 1


def _collapse(levels: list[list[Any]], combine: Combine) -> Any:
    """Combine the results left on all levels of a tree, the lowest first. Raises ValueError when there are none."""
    rest: list[Any] = []
    for level in levels:
        nodes = level + rest
        rest = [combine(nodes)] if len(nodes) > 1 else nodes
    if not rest:
        raise ValueError("map_reduce needs calls, had none")
    return rest[0]


@contextmanager
def _connection() -> Iterator[None]:
    """Turn the errors of a connection that breaks into a ClusterError."""
    from distributed.comm import CommClosedError

    try:
        yield
    except (CommClosedError, TimeoutError, asyncio.CancelledError, CancelledError) as error:
        raise ClusterError(LOST) from error


def _result(future: Future, position: int) -> Any:
    """The result of a finished call. Raises TaskError when it failed, ClusterError when the scheduler was lost."""
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        raise ClusterError(LOST)
    error = future.exception()
    if error is not None:
        raise TaskError(position, isinstance(error, KilledWorker)) from error
    return future.result()
