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
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from .errors import ClusterError, TaskError, cause

if TYPE_CHECKING:
    from distributed import Client

SYNCHRONOUS = "synchronous"  # the scheduler that runs all calls in this process
ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:\d+")
FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
# Calls in flight for each worker: with two of them no worker waits, and memory use does not grow.
IN_FLIGHT = 2
RECOUNT_SECONDS = 1  # asking the scheduler for its workers costs milliseconds
CONNECT_SECONDS = 10  # that a scheduler may take to answer
WORKER_SECONDS = 30  # that the first worker may take to come
LOOK_SECONDS = 5  # between looks at the workers while no call ends
# How long a worker may give no sign before users are told. It gives one each second or, in a long step of a library,
# later.
STILL_SECONDS = 45
STARTS = 2  # attempts to start worker processes
QUIETLY = "2s"  # between two looks of Dask at its own loops
# Arrow's own pool keeps a finished shard's memory: 100 of the 400 MB of a worker of the stage `negatives`. By Dask's
# thresholds malloc asks the system anew for every array of 128 KiB or more, which takes a fifth of the time of the
# stage `balance`. With 4 MiB a worker takes 30 MB less than with 16 and 64, and `negatives` 2 % longer.
MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_TRIM_THRESHOLD_": 1 << 22, "MALLOC_MMAP_THRESHOLD_": 1 << 22}
KILLED = "its worker was killed each time it was tried (out of memory?)"
LOST = "the Dask scheduler was lost; run again to go on"
TOPIC = "negcap-progress"  # of the events by which workers tell their progress

Result = TypeVar("Result")
OnReport = Callable[[int, int], None]  # (position of a call, captions it has done so far)
# Where `report_done` reports to: set around each call, so that the functions of stages need no argument for it.
_report: ContextVar[Callable[[int], None]] = ContextVar("report", default=lambda done: None)


def report_done(done: int) -> None:
    """Report, from within a call of an executor's `map`, how many captions it has done so far."""
    _report.get()(done)


def _call_reporting_to(
    listener: Callable[[int], None], function: Callable[..., Result], arguments: Sequence[object]
) -> Result:
    """Return function(*arguments), where `report_done(count)` calls `listener(count)`."""
    token = _report.set(listener)
    try:
        return function(*arguments)
    finally:
        _report.reset(token)


def _call_in_worker(sender: str, position: int, function: Callable[..., Result], *arguments: object) -> Result:
    """In a Dask worker, return function(*arguments); what it reports becomes events of the scheduler.

    Args:
        sender: marks the reports of one `map`, since all that use a scheduler hear the events of all.
        position: of the call among those of its `map`.
        function: what is called.
        arguments: what it is called with.
    """
    from distributed import get_worker

    def listener(done: int) -> None:
        get_worker().log_event(TOPIC, (sender, position, done))

    return _call_reporting_to(listener, function, arguments)


class WorkerReply(TypedDict):
    """What a worker answers to a call: its address, and the result, or why it cannot run negcap (else empty)."""

    worker: str
    unfit: str
    # Whatever the called function returns.
    result: Any


def _run_packed(packed: bytes) -> WorkerReply:
    """In a Dask worker, unpack a call and run it, or say why it cannot be unpacked there.

    A worker without negcap cannot unpack a call of negcap's functions, and Dask would send it the call again and again,
    for ever. So Dask is given bytes, and this function with its source. It returns a plain dictionary, as such a worker
    could not make an object of a type of this module either.
    """
    from distributed import get_worker
    from distributed.protocol.pickle import loads

    address = get_worker().address
    try:
        function, arguments = loads(packed)
    except Exception as error:
        return {"worker": address, "unfit": f"{type(error).__name__}: {error}", "result": None}
    return {"worker": address, "unfit": "", "result": function(*arguments)}


# cloudpickle sends functions of the module `__main__` with their source, all others by name.
_run_packed.__module__ = "__main__"


def _pack_call(function: Callable[..., object], *arguments: object) -> bytes:
    """A call as bytes, which `_run_packed` unpacks in a worker."""
    from distributed.protocol.pickle import dumps

    return dumps((function, arguments))


def _has_negcap() -> bool:
    """Called in workers: a worker that can unpack this call has negcap."""
    return True


def executor(workers: int | None = None, scheduler: str | None = None, *, retries: int = 2) -> Executor:
    """Choose what runs the calls of stages: new local processes, a running Dask cluster, or this process. Starts none.

    Args:
        workers: how many local processes; None: one per core.
        scheduler: None: local processes; `synchronous`: this process; or an address, the path of a scheduler file, or
            `module:function`.
        retries: how often a call is tried again whose worker dies.

    Raises:
        ValueError: workers is below 1, or there is no such scheduler.
        ClusterError: the scheduler file has no address.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be >= 1, was: {workers}")
    if scheduler == SYNCHRONOUS:
        return Executor()
    if scheduler is not None:
        return Distributed(_connection_to(scheduler), scheduler)
    # The cores that this process may use can be fewer than the machine has.
    cores = len(os.sched_getaffinity(0))
    return Distributed(partial(_client_of_new_workers, workers or cores, retries))


class Submitted(NamedTuple):
    """A call that was sent to workers: its position, and the addresses of those that alone may run it; empty: any."""

    position: int
    only: list[str]


class Executor:
    """Runs the calls of a stage in this process, one after another, without Dask: for debugging, and small inputs."""

    scheduler: str | None = None

    def close(self) -> None:
        """Stop the processes that this executor started."""

    def for_shards(self, number: int) -> Executor:
        """The executor that suits a table of so many shards: always this one, except with workers (see Distributed)."""
        return self

    def map(
        self, function: Callable[..., Result], calls: Sequence[tuple[object, ...]], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Result]]:
        """Yield (position, function(*calls[position])) as the calls finish; few are in flight at a time.

        Args:
            function: what is called; importable by workers.
            calls: the arguments of each call.
            on_report: gets what running calls report (see `report_done`), possibly in another thread.

        Raises:
            TaskError: a call failed.
            ClusterError: the scheduler or all workers were lost.
        """
        for position, arguments in enumerate(calls):
            listener = _report.get() if on_report is None else partial(on_report, position)
            try:
                result = _call_reporting_to(listener, function, arguments)
            except Exception as error:
                raise TaskError(cause(error), position) from error
            yield position, result


class LastSign(NamedTuple):
    """heard: when a worker last gave a sign, by the scheduler's clock. since: when we first saw this value, by ours."""

    heard: float
    since: float


class Distributed(Executor):
    """Worker processes of Dask `distributed`: its own, or those of a running scheduler."""

    def __init__(self, connect: Callable[[], Client], scheduler: str | None = None) -> None:
        """Connect to no worker yet.

        Args:
            connect: starts or finds the workers when they are first needed, and returns a client.
            scheduler: the name of the scheduler that the workers belong to; None: they are started for this process.
        """
        self.scheduler = scheduler
        self._connect = connect
        self._client: Client | None = None
        # The workers that cannot run negcap, by address: why, and what to do.
        self._unfit: dict[str, str] = {}
        self._last_signs: dict[str, LastSign] = {}  # by address of a worker
        self._reported_still: set[str] = set()  # addresses of silent workers that the user was told of

    @property
    def client(self) -> Client:
        """The connected Dask client. Raises ClusterError if no scheduler or worker answers."""
        if self._client is None:
            import distributed  # noqa: F401  first, as its import sets the levels of its loggers

            # What goes wrong is said by our own errors, in one line; Dask would log it in many.
            for name in logging.root.manager.loggerDict:
                if name.partition(".")[0] in ("distributed", "tornado"):
                    logging.getLogger(name).setLevel(logging.CRITICAL)
            self._client = self._connect()
            if self.scheduler is not None:
                self._ask_workers(self._client)
        return self._client

    def _ask_workers(self, client: Client) -> None:
        """Leave out the workers of a running scheduler that cannot run negcap. Raises ClusterError if none can."""
        pool = client.get_executor(pure=False)
        packed = _pack_call(_has_negcap)  # unpacking it is the test
        asked = [pool.submit(_run_packed, packed, workers=[worker]) for worker in client.nthreads()]
        # A worker that is too busy to answer in time shows with its first call whether it has negcap.
        answered = wait(asked, CONNECT_SECONDS).done
        replies: list[WorkerReply] = [future.result() for future in answered if future.exception() is None]
        self._leave_out(client, {reply["worker"]: reply["unfit"] for reply in replies if reply["unfit"]})

    def _leave_out(self, client: Client, unfit: Mapping[str, str]) -> None:
        """Leave out workers that cannot run negcap, and say once for each what to install.

        unfit: why a worker cannot, by its address. Raises ClusterError, which says the same, if there are no others.
        """
        new = {worker: why for worker, why in unfit.items() if worker not in self._unfit}
        for worker, why in new.items():
            install = f"install this version of negcap, {version('negcap')}, there"
            self._unfit[worker] = f"the worker {worker} cannot run negcap ({why}): {install}"
        if new and self._fit_workers(client):  # raises if no worker is left
            for worker in new:
                print(f"negcap: {self._unfit[worker]}; it is left out", file=sys.stderr, flush=True)

    def _fit_workers(self, client: Client) -> list[str]:
        """The addresses of the workers that can run negcap. Raises ClusterError if there are only others."""
        workers = client.nthreads()
        fit = [worker for worker in workers if worker not in self._unfit]
        if workers and not fit:
            raise ClusterError(next(self._unfit[worker] for worker in workers))
        return fit

    def _say_who_stands_still(self, last_seen: Mapping[str, float]) -> None:
        """Say, once for each worker, that the scheduler has not heard of it for STILL_SECONDS, and what to do.

        last_seen: when the scheduler has last heard of each worker, by address. Its clock may differ from ours, so the
        numbers are only compared with each other: a worker stands still if its number does not change.
        """
        now = time.monotonic()
        for address, heard in last_seen.items():
            before = self._last_signs.get(address)
            if before is None or before.heard != heard:
                self._last_signs[address] = LastSign(heard, since=now)
                self._reported_still.discard(address)
            elif now - before.since > STILL_SECONDS and address not in self._reported_still:
                self._reported_still.add(address)
                self._say_it_stands_still(address, now - before.since)

    def _say_it_stands_still(self, address: str, seconds: float) -> None:
        """Say on stderr that a worker stands still, and how to end it; seconds: since it was last heard of."""
        process = self._own_processes().get(address)
        if process is None:
            who = f"the worker {address}"
            how = "let it go on, or end it"
        else:
            who = f"the worker process {process}"
            how = f"kill -CONT {process} lets it go on if it was stopped, kill -9 {process} ends it"
        still = f"{who} has not been heard of for {seconds:.0f} s: it, or a disk that it reads, stands still"
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
        """The executor for a table of `number` shards: this process for a single one, unless workers run already."""
        has_no_workers_yet = self.scheduler is None and self._client is None
        # Starting workers takes longer than making a single shard.
        if has_no_workers_yet and number <= 1:
            return Executor()
        if has_no_workers_yet:
            _ = self.client  # starts them
        return self

    def map(
        self, function: Callable[..., Result], calls: Sequence[tuple[object, ...]], on_report: OnReport | None = None
    ) -> Iterator[tuple[int, Result]]:
        """Make all calls in the cluster's workers, and yield position and result of each as it ends; see Executor."""
        if not calls:
            return
        client = self.client
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        pool = client.get_executor(pure=False)
        sender = secrets.token_hex(8)
        # The positions of the calls that no worker has got yet.
        waiting = iter(range(len(calls)))
        running: dict[Future[WorkerReply], Submitted] = {}
        threads = 0
        counted = -math.inf  # when the workers were counted last

        def receive(event: tuple[object, tuple[str, int, int]]) -> None:
            """Take a report of a worker, (time, (for which `map`, position of the call, captions done so far))."""
            _, (to, position, done) = event
            if to == sender and on_report is not None:
                on_report(position, done)

        def submit(position: int) -> None:
            """Send a call to the workers."""
            # While all workers are fit, Dask may also use workers that come later. Once one is unfit, the call must
            # name the fit ones.
            only = self._fit_workers(client) if self._unfit else []
            packed = _pack_call(_call_in_worker, sender, position, function, *calls[position])
            future = pool.submit(_run_packed, packed, workers=only or None)
            running[future] = Submitted(position, only)

        def submit_again_where_workers_have_gone(addresses: Sequence[str]) -> None:
            """Submit again the calls that were sent only to workers which are not among these addresses any more."""
            for future, submitted in list(running.items()):
                if submitted.only and not {*submitted.only}.intersection(addresses):
                    future.cancel()
                    del running[future]
                    submit(submitted.position)

        # Each turn looks after the workers, fills up what is in flight, and yields what has ended. A call whose worker
        # turns out to lack negcap, or whose only workers have gone, is submitted again.
        try:
            client.subscribe_topic(TOPIC, receive)
            while True:
                if time.monotonic() - counted > RECOUNT_SECONDS:
                    workers = client.scheduler_info()["workers"]
                    threads = sum(worker["nthreads"] for worker in workers.values())
                    counted = time.monotonic()
                    self._say_who_stands_still({address: worker["last_seen"] for address, worker in workers.items()})
                    submit_again_where_workers_have_gone(list(workers))
                free_places = IN_FLIGHT * max(1, threads) - len(running)
                for position in islice(waiting, max(0, free_places)):
                    submit(position)
                if not running:
                    return
                for future in wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                    position = running.pop(future).position
                    error = future.exception()
                    if error is not None:
                        why = KILLED if isinstance(error, KilledWorker) else cause(error)
                        raise TaskError(why, position) from error
                    reply = future.result()
                    if reply["unfit"]:
                        self._leave_out(client, {reply["worker"]: reply["unfit"]})
                        submit(position)
                    else:
                        yield position, reply["result"]
        except (CommClosedError, TimeoutError, asyncio.CancelledError, CancelledError) as error:
            raise ClusterError(LOST) from error
        finally:
            if client.status == "running":
                pool.shutdown(wait=False)
                client.unsubscribe_topic(TOPIC)


def _connection_to(scheduler: str) -> Callable[[], Client]:
    """A function that connects to the scheduler that a user named; nothing is connected yet.

    Args:
        scheduler: an address (tcp://host:port), the path of a scheduler file, or `module:function`, an importable
            function that makes a client.

    Raises:
        ValueError: it is none of these, or the function does not exist.
        ClusterError: the file holds no address.
    """
    if ADDRESS.fullmatch(scheduler):
        return partial(_client_of_address, scheduler)
    if Path(scheduler).is_file():
        try:
            return partial(_client_of_address, str(json.loads(Path(scheduler).read_bytes())["address"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"must be the file of a Dask scheduler, holds no address: {cause(error)}"
            raise ClusterError(f"{scheduler} {why}") from error
    named = FUNCTION.fullmatch(scheduler)
    if named is None:
        forms = f"tcp://host:port, tls://host:port, a scheduler file, module:function or {SYNCHRONOUS}"
        raise ValueError(f"scheduler must be {forms}, was: {scheduler}")
    # As in `python -m`, so that a module beside the user's files is importable.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        make = getattr(import_module(named[1]), named[2])
    except Exception as error:
        raise ValueError(f"scheduler {scheduler} cannot be imported: {cause(error)}") from error
    if not callable(make):
        raise ValueError(f"scheduler must be module:function, {scheduler} is no function")
    return partial(_client_of_function, scheduler, make)


def _client_of_function(scheduler: str, make: Callable[[], object]) -> Client:
    """The client of the cluster that a function makes. Raises ClusterError if it fails or makes something else."""
    from distributed import Client
    from distributed.deploy.cluster import Cluster

    try:
        cluster_or_client = make()
        client = cluster_or_client
        if isinstance(cluster_or_client, Cluster):
            client = Client(cluster_or_client, set_as_default=False)
    except Exception as error:  # each kind of cluster has errors of its own
        raise ClusterError(f"{scheduler} failed: {cause(error)}") from error
    if not isinstance(client, Client):
        raise ClusterError(f"{scheduler} must return a Dask cluster or client, returned: {client!r:.80}")
    if not client.nthreads():
        print(f"negcap: {scheduler} has no workers yet; the work begins with the first", file=sys.stderr)
    return client


def _client_of_address(address: str) -> Client:
    """The client of a running scheduler. Raises ClusterError if none answers within CONNECT_SECONDS."""
    from distributed import Client
    from distributed.core import rpc
    from distributed.security import Security

    async def kind_of_process() -> str:
        """Ask the process at the address what it is: "Scheduler", "Worker" or "Nanny"."""
        security = Security().get_connection_args("client")
        async with rpc(address, timeout=CONNECT_SECONDS, connection_args=security) as remote:
            return str((await remote.identity())["type"])

    try:
        # asked first, as a Client that fails to start waits for a minute before it is gone
        kind = asyncio.run(asyncio.wait_for(kind_of_process(), CONNECT_SECONDS + 1))
        if kind != "Scheduler":
            raise ValueError(f"it is the address of a {kind}")
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # each kind of connection has errors of its own
        reason = next(iter(str(error).splitlines()), "") or f"{type(error).__name__} after {CONNECT_SECONDS} s"
        raise ClusterError(f"no Dask scheduler answers at {address}: {reason}") from error
    return _with_workers(client, f"the scheduler at {address} has no workers")


def _client_of_new_workers(workers: int, retries: int) -> Client:
    """The client of new worker processes with one thread each. Raises ClusterError if one dies at every attempt."""
    # A machine that is short of memory or busy for a moment may succeed at the second attempt.
    for _ in range(STARTS):
        try:
            return _start_local_cluster(workers, retries)
        except (RuntimeError, OSError, TimeoutError) as error:
            root: BaseException = error
    # The outer errors only say that a worker did not start.
    while root.__cause__ is not None:
        root = root.__cause__
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    why = f"out of memory, or too few file descriptors? ulimit -n is {files}"
    raise ClusterError(f"worker processes died while they started ({why}): {root}") from root


def _start_local_cluster(workers: int, retries: int) -> Client:
    """Start a local Dask cluster of `workers` one-thread processes. retries: how many workers a call may lose."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.security import Security

    # Stealing has nothing to do where no worker has more than IN_FLIGHT calls. Routes and profiles are for the
    # dashboard, which does not run here. This module is preloaded, as each worker then calls its `dask_setup`.
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
            # Dask would pause or kill workers by its own estimate; here the system decides.
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
    """The client, once it has a worker. Raises ClusterError, saying `otherwise`, if none comes in WORKER_SECONDS."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        client.close()
        raise ClusterError(otherwise) from error
    return client


def dask_setup(worker: object) -> None:
    """Prepare a worker process that was started here; Dask calls this in each of them.

    Ctrl-C and hangups are left to the process that started the workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # End at once: else it takes a second to free all objects, one by one, before the process ends.
    atexit.register(os._exit, 0)
    keep_pandas_unimported()


def keep_pandas_unimported() -> None:
    """Keep pyarrow from importing pandas with its first array (0.4 s, 45 MB): that is made here, while an empty module
    stands for pandas, whose version is too old for pyarrow. It does not look for pandas again.
    """
    import pyarrow as pa

    if "pandas" not in sys.modules:
        old = ModuleType("pandas")
        old.__dict__["__version__"] = "0.0"
        sys.modules["pandas"] = old
        with warnings.catch_warnings(action="ignore"):
            pa.array([])
        del sys.modules["pandas"]
