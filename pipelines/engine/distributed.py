"""The executor whose calls are made by the workers of a Dask scheduler."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import Future as StartFuture
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from .errors import ClusterError, TaskError
from .reports import OnReport, listening, reporting
from .schedulers import Scheduler
from .tree import Combine, collapse, push
from .workers import start

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.deploy.cluster import Cluster

IN_FLIGHT = 2
RECOUNT_SECONDS = 1
LOST = "the Dask scheduler was lost; run again to go on"


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
        self, function: Callable[..., Any], calls: Sequence[tuple], combine: Combine, done: Callable[[int], None]
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
                push(levels, 0, future, combined)

        with _connection():
            submit(self._window())
            for future in finished:
                position = positions.pop(future)
                if future.status != "finished":
                    _result(future, position)
                submit(self._window() - len(positions))
                done(position)
            return _result(collapse(levels, combined), len(calls) - 1)

    def _window(self) -> int:
        """How many calls may be in flight: enough that no worker waits, but few, so that memory use does not grow."""
        now = time.monotonic()
        if now - self._counted > RECOUNT_SECONDS:  # asking the scheduler costs milliseconds
            self._threads = sum(self.client.nthreads().values())
            self._counted = now
        return IN_FLIGHT * max(1, self._threads)

    def close(self) -> None:
        """Stop workers and scheduler if this executor started them; a cluster that it was given keeps running."""
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
