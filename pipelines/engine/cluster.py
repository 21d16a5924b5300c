"""Executors: local worker processes, the workers of a running Dask scheduler, or this process.

Calls carry paths and configs, not the tables of a run; workers on other machines must see the run's folder under the
same path or URL, and have negcap installed.

Whoever can talk to a Dask scheduler or worker can make it run code. Those started here therefore talk by TLS, with a
key and a certificate that are made for this run and kept in the memory of its processes, so that other users of the
machine cannot talk to them. A running scheduler is spoken to as its address says: for `tls://`, Dask's configuration
names the files.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import os
import re
import resource
import secrets
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ClusterError, TaskError

if TYPE_CHECKING:
    from distributed import Client

SYNCHRONOUS = "synchronous"
ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:\d+")
FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
FAN_IN = 8
IN_FLIGHT = 2  # calls for each worker: none waits, and memory use does not grow
RECOUNT_SECONDS = 1  # asking the scheduler for its workers costs milliseconds
CONNECT_SECONDS = 10
WORKER_SECONDS = 30
FEW_FILES = 128  # a process that starts one worker has some 40 open
STARTS = 2  # attempts to start worker processes
QUIETLY = "2s"
# Arrow's own pool keeps a finished shard's memory: 100 MB of a negatives worker's 400. Dask's trim threshold makes
# malloc fetch every array of 128 KiB or more from the system anew, which takes a fifth of the time of `balance`.
MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_TRIM_THRESHOLD_": 1 << 26, "MALLOC_MMAP_THRESHOLD_": 1 << 24}
LOST = "the Dask scheduler was lost; run again to go on"
TOPIC = "negcap-progress"

OnReport = Callable[[int, int], None]  # (position of a call, captions it has done so far)
Combine = Callable[[list[Any]], Any]
_report: ContextVar[Callable[[int], None]] = ContextVar("report", default=lambda done: None)


def report_done(done: int) -> None:
    """Report, from within a call of an executor's `map`, how many captions it has done so far."""
    _report.get()(done)


def _reporting(listener: Callable[[int], None], function: Callable[..., Any], *call: Any) -> Any:
    """Return function(*call); what it reports goes to `listener`."""
    token = _report.set(listener)
    try:
        return function(*call)
    finally:
        _report.reset(token)


def _reporting_worker(sender: str, position: int, function: Callable[..., Any], *call: Any) -> Any:
    """The same in a Dask worker: its reports become events of the scheduler, marked with `sender`."""
    from distributed import get_worker

    worker = get_worker()
    return _reporting(lambda done: worker.log_event(TOPIC, (sender, position, done)), function, *call)


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
    connect = partial(_started, workers or len(os.sched_getaffinity(0)), retries, dashboard)
    return Distributed(connect if scheduler is None else _named(scheduler), scheduler, dashboard)


class Executor:
    """Runs the calls of a stage: in this process (Synchronous) or by workers (Distributed).

    This class has what both share; `_submit` makes a call and returns its future, which has `result` and `exception`.
    """

    scheduler: str | None = None

    def start(self) -> None:
        """Start the workers in the background. Optional: the first call starts them, too."""

    def close(self) -> None:
        """Stop the processes that this executor started."""

    def map(
        self, function: Callable[..., Any], calls: Sequence[tuple], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (position, function(*calls[position])) as the calls finish. Raises TaskError when a call fails.

        on_report: called with the reports of running calls (see `report_done`), possibly in another thread.
        """
        with self._connected(on_report) as sender:
            for position, future in self._finished(function, calls, lambda future: None, on_report, sender):
                yield position, self._result(future, position)

    def map_reduce(
        self, function: Callable[..., Any], calls: Sequence[tuple], combine: Combine, done: Callable[[int], None]
    ) -> Any:
        """Combine the results function(*call) of all calls into one, and return it.

        combine: makes one result of a list of results, on the workers; applied in a tree that does not depend on the
        order in which calls finish. done: called with the position of each finished call. Raises TaskError when a call
        fails, ValueError when there are no calls.
        """
        levels: list[list[Any]] = []
        with self._connected(None):
            push = partial(_push, levels, 0, combine=partial(self._combined, combine))
            for position, future in self._finished(function, calls, push):
                if future.exception() is not None:
                    self._result(future, position)
                done(position)
            rest: list[Any] = []
            for level in levels:  # the lowest first
                nodes = level + rest
                rest = [self._combined(combine, nodes)] if len(nodes) > 1 else nodes
            if not rest:
                raise ValueError("map_reduce needs calls, had none")
            return self._result(rest[0], len(calls) - 1)

    def _finished(
        self,
        function: Callable[..., Any],
        calls: Sequence[tuple],
        submitted: Callable[[Any], None],
        on_report: OnReport | None = None,
        sender: str = "",
    ) -> Iterator[tuple[int, Any]]:
        """Yield the positions and futures of calls as they finish; few are in flight. submitted: gets every future."""
        waiting = iter(enumerate(calls))
        positions: dict[Any, int] = {}
        queue = self._queue()

        def submit() -> None:
            for position, call in islice(waiting, max(0, self._window() - len(positions))):
                future = self._submit(*self._reported(on_report, sender, position), function, *call)
                positions[future] = position
                queue.add(future)
                submitted(future)

        try:
            submit()
            for future in queue:
                yield positions.pop(future), future
                submit()
        finally:
            self._cancel(list(positions))

    def _result(self, future: Any, position: int) -> Any:
        """The result of a finished call. Raises TaskError when it failed."""
        if (error := future.exception()) is not None:
            raise TaskError(position, type(error).__name__ == "KilledWorker") from error
        return future.result()

    # what follows is how this process does it

    @contextmanager
    def _connected(self, on_report: OnReport | None) -> Iterator[str]:
        """The connection to the workers during a block; gives the name under which their reports come."""
        yield ""

    def _reported(self, on_report: OnReport | None, sender: str, position: int) -> tuple[Any, ...]:
        """What is put before a call, so that its reports come."""
        return (_reporting, partial(on_report, position)) if on_report else ()

    def _submit(self, function: Callable[..., Any], *call: Any) -> Any:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*call))
        except Exception as error:
            future.set_exception(error)
        return future

    def _combined(self, combine: Combine, futures: list[Any]) -> Any:
        return self._submit(lambda: combine([future.result() for future in futures]))

    def _queue(self) -> Any:
        return _Queue()

    def _window(self) -> int:
        """How many calls may be in flight."""
        return 1

    def _cancel(self, futures: list[Any]) -> None:
        """Cancel calls that are not needed any more."""


class Synchronous(Executor):
    """Runs all calls in this process, one after another, without Dask: for debugging and for small inputs."""


class _Queue(deque[Any]):
    """Futures in the order in which they were added, as distributed.as_completed has them."""

    add = deque.append

    def __iter__(self) -> Iterator[Any]:
        while self:
            yield self.popleft()


def _push(levels: list[list[Any]], level: int, result: Any, combine: Combine) -> None:
    """Add a result to a level of a tree; every FAN_IN results of a level are combined to one of the next."""
    if level == len(levels):
        levels.append([])
    levels[level].append(result)
    if len(levels[level]) == FAN_IN:
        combined, levels[level] = combine(levels[level]), []
        _push(levels, level + 1, combined, combine)


class Distributed(Executor):
    """Worker processes of Dask `distributed`: its own, or those of a running scheduler."""

    def __init__(self, connect: Callable[[], Client], scheduler: str | None = None, dashboard: bool = False) -> None:
        """connect: starts or finds the workers, and returns a client. scheduler: its name, None for own workers."""
        self.scheduler, self._connect, self._dashboard = scheduler, connect, dashboard
        self._threads, self._counted = 0, -math.inf
        self._starting: Future[Client] | None = None

    def start(self) -> None:
        """Start (or connect to) the workers in a thread, so that the caller can read its input meanwhile."""
        if self._starting is None:
            thread = ThreadPoolExecutor(1, "start-cluster")
            self._starting = thread.submit(_client, self._connect, self._dashboard)
            thread.shutdown(wait=False)

    @property
    def client(self) -> Client:
        """The connected Dask client; waits until it is. Raises ClusterError if no scheduler or worker answers."""
        self.start()
        assert self._starting is not None
        return self._starting.result()

    def close(self) -> None:
        """Stop workers and scheduler if this executor started them; a cluster that it was given keeps running."""
        starting, self._starting = self._starting, None
        if starting is not None and starting.exception() is None:
            client = starting.result()
            cluster = client.cluster
            client.close()
            if cluster is not None:
                cluster.close()

    @contextmanager
    def _connected(self, on_report: OnReport | None) -> Iterator[str]:
        client = self.client  # before anything of Dask is imported here: the thread that starts it imports it, too
        from distributed.comm import CommClosedError

        sender = secrets.token_hex(8)

        def receive(event: tuple[Any, tuple[str, int, int]]) -> None:
            _, (to, position, done) = event
            if to == sender and on_report is not None:
                on_report(position, done)

        try:
            if on_report is not None:
                client.subscribe_topic(TOPIC, receive)
            yield sender
        except (CommClosedError, TimeoutError, asyncio.CancelledError, CancelledError) as error:
            raise ClusterError(LOST) from error
        finally:
            if on_report is not None and client.status == "running":
                client.unsubscribe_topic(TOPIC)

    def _reported(self, on_report: OnReport | None, sender: str, position: int) -> tuple[Any, ...]:
        return (_reporting_worker, sender, position) if on_report else ()

    def _submit(self, function: Callable[..., Any], *call: Any) -> Any:
        return self.client.submit(function, *call, pure=False)

    def _combined(self, combine: Combine, futures: list[Any]) -> Any:
        return self._submit(combine, futures)  # they stay on the workers

    def _queue(self) -> Any:
        from distributed import as_completed

        return as_completed(loop=self.client.loop)

    def _window(self) -> int:
        now = time.monotonic()
        if now - self._counted > RECOUNT_SECONDS:
            self._threads, self._counted = sum(self.client.nthreads().values()), now
        return IN_FLIGHT * max(1, self._threads)

    def _result(self, future: Any, position: int) -> Any:
        if future.status in ("cancelled", "lost"):
            raise ClusterError(LOST)
        return super()._result(future, position)

    def _cancel(self, futures: list[Any]) -> None:
        if futures and self.client.status == "running":
            self.client.cancel(futures, force=True)


def _named(scheduler: str) -> Callable[[], Client]:
    """What connects to the scheduler that a user named by an address, a file that a Dask scheduler wrote, or
    `module:function`.

    The module is imported, also from the current folder. Raises ValueError if it cannot be, has no such function, and
    for any other text; ClusterError if the file holds no address.
    """
    if ADDRESS.fullmatch(scheduler):
        return partial(_at, scheduler)
    if Path(scheduler).is_file():
        try:
            return partial(_at, str(json.loads(Path(scheduler).read_bytes())["address"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"must be the file of a Dask scheduler, holds no address: {_line(error)}"
            raise ClusterError(f"{scheduler} {why}") from error
    if not (called := FUNCTION.fullmatch(scheduler)):
        raise ValueError(
            f"scheduler must be tcp://host:port, tls://host:port, a scheduler file, module:function or {SYNCHRONOUS}, "
            f"was: {scheduler}"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        make = getattr(import_module(called[1]), called[2])
    except Exception as error:
        raise ValueError(f"scheduler {scheduler} cannot be imported: {_line(error)}") from error
    if not callable(make):
        raise ValueError(f"scheduler must be module:function, {scheduler} is no function")
    return partial(_made_by, scheduler, make)


def _client(connect: Callable[[], Client], dashboard: bool) -> Client:
    """The client of workers. Raises ClusterError if no worker comes (those of a function's cluster may come later)."""
    import distributed  # noqa: F401  it sets the levels of its loggers

    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    client = connect()
    if dashboard:
        print(f"negcap: Dask's page is {client.dashboard_link}", file=sys.stderr)
    return client


def _made_by(scheduler: str, make: Callable[[], Any]) -> Client:
    """The client of the cluster that a function makes. Raises ClusterError if it fails or makes something else."""
    from distributed import Client
    from distributed.deploy.cluster import Cluster

    try:
        made = make()
        client = Client(made, set_as_default=False) if isinstance(made, Cluster) else made
    except Exception as error:  # each kind of cluster has errors of its own
        raise ClusterError(f"{scheduler} failed: {_line(error)}") from error
    if not isinstance(client, Client):
        raise ClusterError(f"{scheduler} must return a Dask cluster or client, returned: {made!r:.80}")
    if not client.nthreads():
        print(f"negcap: {scheduler} has no workers yet; the work begins with the first", file=sys.stderr)
    return client


def _at(address: str) -> Client:
    """The client of a running scheduler. Raises ClusterError if none answers within CONNECT_SECONDS."""
    from distributed import Client
    from distributed.core import rpc
    from distributed.security import Security

    async def kind() -> str:
        security = Security().get_connection_args("client")
        async with rpc(address, timeout=CONNECT_SECONDS, connection_args=security) as remote:
            return str((await remote.identity())["type"])

    try:  # a Client that fails to start waits for a minute before it is gone
        if (found := asyncio.run(asyncio.wait_for(kind(), CONNECT_SECONDS + 1))) != "Scheduler":
            raise ValueError(f"it is the address of a {found}")
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # each kind of connection has errors of its own
        reason = next(iter(str(error).splitlines()), "") or f"{type(error).__name__} after {CONNECT_SECONDS} s"
        raise ClusterError(f"no Dask scheduler answers at {address}: {reason}") from error
    return _with_workers(client, f"the scheduler at {address} has no workers")


def _started(workers: int, retries: int, dashboard: bool) -> Client:
    """The client of new worker processes with one thread each. Raises ClusterError if one dies at every attempt."""
    for _ in range(STARTS):
        try:
            return _local(workers, retries, dashboard)
        except (RuntimeError, OSError, TimeoutError) as error:
            cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = files < FEW_FILES or getattr(cause, "errno", None) in (errno.EMFILE, errno.ENFILE)
    why = f"too few file descriptors? ulimit -n is {files}" if few else "out of memory?"
    raise ClusterError(f"worker processes died while they started ({why}): {cause}") from cause


def _local(workers: int, retries: int, dashboard: bool) -> Client:
    import dask
    from distributed import Client, LocalCluster
    from distributed.security import Security

    environment = dask.config.get("distributed.nanny.pre-spawn-environ")
    settings = {
        "distributed.nanny.pre-spawn-environ": {**environment, **MEMORY},
        "distributed.scheduler.http.routes": dask.config.get("distributed.scheduler.http.routes") if dashboard else [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.allowed-failures": retries,
        "distributed.scheduler.work-stealing": False,
        "distributed.worker.preload": [*dask.config.get("distributed.worker.preload"), __name__],
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": QUIETLY,  # Dask's watch over its own loops: 4 % of a core at its 20 ms
        "distributed.admin.system-monitor.interval": QUIETLY,
    }
    with dask.config.set(settings):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=Security.temporary(),
            scheduler_kwargs={"dashboard": dashboard, "dashboard_address": "127.0.0.1:0"},  # any free port
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
        try:
            client = Client(cluster, set_as_default=False)
        except BaseException:
            cluster.close()
            raise
    return _with_workers(client, "no worker process came up")


def _with_workers(client: Client, otherwise: str) -> Client:
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        client.close()
        raise ClusterError(otherwise) from error
    return client


def dask_setup(worker: object) -> None:
    """Prepare a worker process that is started here; Dask calls it in each.

    Ctrl-C and the end of a terminal are for the process that started it, which then ends its workers. pyarrow is made
    to believe that pandas is not installed: importing it would cost each worker 0.2 s and 45 MB.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    import pyarrow as pa

    if "pandas" not in sys.modules:
        sys.modules["pandas"] = None  # type: ignore[assignment]
        pa.array([])
        del sys.modules["pandas"]


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
