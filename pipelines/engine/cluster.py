"""Executors: local worker processes, those of a running Dask scheduler, or this process. Calls carry paths and configs,
not tables; workers elsewhere must see the run under the same path or URL, and have negcap installed.

Whoever can talk to a Dask scheduler or worker can make it run code. Those started here talk by TLS, with a key and
certificate made for this run and kept in memory, so that other users of the machine cannot. A running scheduler is
spoken to as its address says: for `tls://`, Dask's configuration names the files.
"""

from __future__ import annotations

import asyncio
import atexit
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
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ClusterError, TaskError, cause

if TYPE_CHECKING:
    from distributed import Client

SYNCHRONOUS = "synchronous"
ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:\d+")
FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
IN_FLIGHT = 2  # calls for each worker: none waits, and memory use does not grow
RECOUNT_SECONDS = 1  # asking the scheduler for its workers costs milliseconds
CONNECT_SECONDS = 10
WORKER_SECONDS = 30
LOOK_SECONDS = 5  # between looks at the workers while no call ends
STILL_SECONDS = 45  # without a sign of a worker, which gives one each second or, in a long step of a library, later
STARTS = 2  # attempts to start worker processes
QUIETLY = "2s"
# Arrow's own pool keeps a finished shard's memory: 100 of the 400 MB of a worker of the stage `negatives`. By Dask's
# thresholds malloc asks the system anew for every array of 128 KiB or more, which takes a fifth of the time of the
# stage `balance`. With 4 MiB a worker takes 30 MB less than with 16 and 64, and `negatives` 2 % longer.
MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_TRIM_THRESHOLD_": 1 << 22, "MALLOC_MMAP_THRESHOLD_": 1 << 22}
KILLED = "its worker was killed each time it was tried (out of memory?)"
LOST = "the Dask scheduler was lost; run again to go on"
TOPIC = "negcap-progress"

OnReport = Callable[[int, int], None]  # (position of a call, captions it has done so far)
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

    return _reporting(lambda done: get_worker().log_event(TOPIC, (sender, position, done)), function, *call)


def _run_packed(packed: bytes) -> tuple[str, str, Any]:
    """In a Dask worker: "", the worker's address, and what a packed call returns; or why it cannot be unpacked there.

    Dask has no answer for a call that a worker cannot unpack, as without negcap: it sends it to the worker again and
    again, for ever. So what is called is sent as bytes, and this function with its source.
    """
    from distributed import get_worker
    from distributed.protocol.pickle import loads

    address = get_worker().address
    try:
        function, call = loads(packed)
    except Exception as error:
        return f"{type(error).__name__}: {error}", address, None
    return "", address, function(*call)


_run_packed.__module__ = "__main__"  # cloudpickle sends only the functions of this module with their source


def _packed(function: Callable[..., Any], *call: Any) -> bytes:
    from distributed.protocol.pickle import dumps

    return dumps((function, call))


def _has_negcap() -> bool:
    """Called in workers: whoever can unpack it has negcap."""
    return True


def executor(workers: int | None = None, scheduler: str | None = None, *, retries: int = 2) -> Executor:
    """What runs the calls of stages, as `--workers` (None: one per core) and `--scheduler` say: None: local processes;
    `synchronous`: this one; or an address, a scheduler file, `module:function`. It starts nothing yet. A call whose
    worker dies is tried again `retries` times. Raises ValueError for workers below 1, or another or failing scheduler;
    ClusterError for a file without an address.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be >= 1, was: {workers}")
    if scheduler == SYNCHRONOUS:
        return Executor()
    connect = partial(_started, workers or len(os.sched_getaffinity(0)), retries)
    return Distributed(connect if scheduler is None else _named(scheduler), scheduler)


class Submitted(NamedTuple):
    """The position of a call that was sent to workers: to any one, or to one of those in `only`."""

    position: int
    only: list[str]


class Executor:
    """Runs the calls of a stage in this process, one after another, without Dask: for debugging, and small inputs."""

    scheduler: str | None = None

    def close(self) -> None:
        """Stop the processes that this executor started."""

    def for_shards(self, number: int) -> Executor:
        """What makes a table of so many shards: own workers, which are started, if it is several; else this process."""
        return self

    def map(
        self, function: Callable[..., Any], calls: Sequence[tuple], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (position, function(*calls[position])) as the calls finish; few are in flight. on_report gets what
        running calls report (`report_done`), possibly in another thread. Raises TaskError when a call fails.
        """
        for position, call in enumerate(calls):
            try:
                result = _reporting(partial(on_report, position) if on_report else _report.get(), function, *call)
            except Exception as error:
                raise TaskError(cause(error), position) from error
            yield position, result


class Distributed(Executor):
    """Worker processes of Dask `distributed`: its own, or those of a running scheduler."""

    def __init__(self, connect: Callable[[], Client], scheduler: str | None = None) -> None:
        """connect: starts or finds the workers, and returns a client. scheduler: its name, None for own workers."""
        self.scheduler = scheduler
        self._connect = connect
        self._client: Client | None = None
        self._unfit: dict[str, str] = {}  # by worker that cannot run negcap, why, and what to do
        # by worker, when the scheduler had last heard of it, by its clock, and since when we know that, by ours
        self._heard: dict[str, tuple[float, float]] = {}
        self._still: set[str] = set()  # workers of which has been said that they stand still

    @property
    def client(self) -> Client:
        """The connected Dask client. Raises ClusterError if no scheduler or worker answers."""
        if self._client is None:
            import distributed  # noqa: F401  it sets the levels of its loggers

            for name in logging.root.manager.loggerDict:
                if name.partition(".")[0] in ("distributed", "tornado"):
                    logging.getLogger(name).setLevel(logging.CRITICAL)
            self._client = self._connect()
            if self.scheduler is not None:
                self._ask_workers(self._client)
        return self._client

    def _ask_workers(self, client: Client) -> None:
        """Leave those workers of a running scheduler out that cannot run negcap. Raises ClusterError if none can."""
        pool = client.get_executor(pure=False)
        packed = _packed(_has_negcap)
        asked = [pool.submit(_run_packed, packed, workers=[worker]) for worker in client.nthreads()]
        answered = wait(asked, CONNECT_SECONDS).done  # who is busy for so long will say it with its first call
        answers = [future.result() for future in answered if future.exception() is None]
        self._leave_out(client, {worker: why for why, worker, _ in answers if why})

    def _leave_out(self, client: Client, unfit: Mapping[str, str]) -> None:
        """Leave workers out that cannot run negcap, and say so, once, with what to install. unfit: by worker, why.
        Raises ClusterError, which says the same, if there are no others.
        """
        new = {worker: why for worker, why in unfit.items() if worker not in self._unfit}
        for worker, why in new.items():
            install = f"install this version of negcap, {version('negcap')}, there"
            self._unfit[worker] = f"the worker {worker} cannot run negcap ({why}): {install}"
        if new and self._fit_workers(client):
            for worker in new:
                print(f"negcap: {self._unfit[worker]}; it is left out", file=sys.stderr, flush=True)

    def _fit_workers(self, client: Client) -> list[str]:
        """The workers that are not left out. Raises ClusterError if there are only others."""
        workers = client.nthreads()
        fit = [worker for worker in workers if worker not in self._unfit]
        if workers and not fit:
            raise ClusterError(next(self._unfit[worker] for worker in workers))
        return fit

    def _say_who_stands_still(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """Say, once, that the scheduler has not heard of a worker for STILL_SECONDS, and what to do. workers: what the
        scheduler knows of each, by its address. Its clock may be another than ours: only changes count.
        """
        now = time.monotonic()
        for address, worker in workers.items():
            heard, since = self._heard.get(address, (None, now))
            if heard != worker["last_seen"]:
                self._heard[address] = worker["last_seen"], now
                self._still.discard(address)
            elif now - since > STILL_SECONDS and address not in self._still:
                self._still.add(address)
                if process := self._own_processes().get(address):
                    who = f"the worker process {process}"
                    how = f"kill -CONT {process} lets it go on if it was stopped, kill -9 {process} ends it"
                else:
                    who = f"the worker {address}"
                    how = "let it go on, or end it"
                still = (
                    f"{who} has not been heard of for {now - since:.0f} s: it, or a disk that it reads, stands still"
                )
                print(f"negcap: {still}; {how}, and others do its work", file=sys.stderr, flush=True)

    def _own_processes(self) -> dict[str, int]:
        """The process ids of the workers that this executor started, by address."""
        nannies = getattr(self.client.cluster, "workers", {}).values() if self.scheduler is None else ()
        return {nanny.worker_address: nanny.pid for nanny in nannies if getattr(nanny, "pid", None)}

    def close(self) -> None:
        """Stop workers and scheduler if this executor started them; a cluster that it was given keeps running."""
        client = self._client
        self._client = None
        if client is not None:
            cluster = client.cluster
            client.close()
            if cluster is not None:
                cluster.close()

    def for_shards(self, number: int) -> Executor:
        """See Executor."""
        own = self.scheduler is None and self._client is None
        return self if not own or (number > 1 and self.client) else Executor()

    def map(
        self, function: Callable[..., Any], calls: Sequence[tuple], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Any]]:
        """See Executor."""
        if not calls:
            return
        client = self.client
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        pool = client.get_executor(pure=False)
        sender = secrets.token_hex(8)
        waiting = iter(range(len(calls)))
        running = dict[Future[Any], Submitted]()
        threads = 0
        counted = -math.inf

        def receive(event: tuple[Any, tuple[str, int, int]]) -> None:
            _, (to, position, done) = event
            if to == sender and on_report is not None:
                on_report(position, done)

        def submit(position: int) -> None:
            only = self._fit_workers(client) if self._unfit else []
            packed = _packed(_reporting_worker, sender, position, function, *calls[position])
            future = pool.submit(_run_packed, packed, workers=only or None)
            running[future] = Submitted(position, only)

        try:
            client.subscribe_topic(TOPIC, receive)
            while True:
                if time.monotonic() - counted > RECOUNT_SECONDS:
                    workers = client.scheduler_info()["workers"]
                    threads = sum(worker["nthreads"] for worker in workers.values())
                    counted = time.monotonic()
                    self._say_who_stands_still(workers)
                    for future, submitted in list(running.items()):
                        if submitted.only and not {*submitted.only} & workers.keys():  # all of them have gone
                            future.cancel()
                            del running[future]
                            submit(submitted.position)
                room = IN_FLIGHT * max(1, threads) - len(running)
                for position in islice(waiting, max(0, room)):
                    submit(position)
                if not running:
                    return
                for future in wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                    position = running.pop(future).position
                    if (error := future.exception()) is not None:
                        why = KILLED if isinstance(error, KilledWorker) else cause(error)
                        raise TaskError(why, position) from error
                    unfit, worker, result = future.result()
                    if unfit:
                        self._leave_out(client, {worker: unfit})
                        submit(position)
                    else:
                        yield position, result
        except (CommClosedError, TimeoutError, asyncio.CancelledError, CancelledError) as error:
            raise ClusterError(LOST) from error
        finally:
            if client.status == "running":
                pool.shutdown(wait=False)
                client.unsubscribe_topic(TOPIC)


def _named(scheduler: str) -> Callable[[], Client]:
    """What connects to the scheduler at an address, in a scheduler file, or made by an importable `module:function`.
    Raises ValueError for any other text or if there is no such function, ClusterError for a file without an address.
    """
    if ADDRESS.fullmatch(scheduler):
        return partial(_at, scheduler)
    if Path(scheduler).is_file():
        try:
            return partial(_at, str(json.loads(Path(scheduler).read_bytes())["address"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"must be the file of a Dask scheduler, holds no address: {cause(error)}"
            raise ClusterError(f"{scheduler} {why}") from error
    if not (called := FUNCTION.fullmatch(scheduler)):
        forms = f"tcp://host:port, tls://host:port, a scheduler file, module:function or {SYNCHRONOUS}"
        raise ValueError(f"scheduler must be {forms}, was: {scheduler}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        make = getattr(import_module(called[1]), called[2])
    except Exception as error:
        raise ValueError(f"scheduler {scheduler} cannot be imported: {cause(error)}") from error
    if not callable(make):
        raise ValueError(f"scheduler must be module:function, {scheduler} is no function")
    return partial(_made_by, scheduler, make)


def _made_by(scheduler: str, make: Callable[[], Any]) -> Client:
    """The client of the cluster that a function makes. Raises ClusterError if it fails or makes something else."""
    from distributed import Client
    from distributed.deploy.cluster import Cluster

    try:
        made = make()
        client = Client(made, set_as_default=False) if isinstance(made, Cluster) else made
    except Exception as error:  # each kind of cluster has errors of its own
        raise ClusterError(f"{scheduler} failed: {cause(error)}") from error
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


def _started(workers: int, retries: int) -> Client:
    """The client of new worker processes with one thread each. Raises ClusterError if one dies at every attempt."""
    for _ in range(STARTS):
        try:
            return _local(workers, retries)
        except (RuntimeError, OSError, TimeoutError) as error:
            first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    why = f"out of memory, or too few file descriptors? ulimit -n is {files}"
    raise ClusterError(f"worker processes died while they started ({why}): {first}") from first


def _local(workers: int, retries: int) -> Client:
    """Start a local Dask cluster of `workers` one-thread processes; retries: workers that may be lost with a task."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.security import Security

    environment = dask.config.get("distributed.nanny.pre-spawn-environ")
    settings = {
        "distributed.nanny.pre-spawn-environ": {**environment, **MEMORY},
        "distributed.scheduler.http.routes": [],
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
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},  # any free port
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
    """Dask calls it in each worker started here. Ctrl-C and hangups are for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    atexit.register(os._exit, 0)  # else it takes a second to free all objects, one by one, before the process ends
    spare_pandas()


def spare_pandas() -> None:
    """Keep pyarrow from importing pandas with its first array (0.4 s, 45 MB): show it one that is too old."""
    import pyarrow as pa

    if "pandas" not in sys.modules:
        sys.modules["pandas"] = old = ModuleType("pandas")
        old.__dict__["__version__"] = "0.0"
        with warnings.catch_warnings(action="ignore"):
            pa.array([])
        del sys.modules["pandas"]
