"""Start worker processes of Dask `distributed` with low overhead, or connect to those of a running scheduler.

Whoever can talk to a Dask scheduler or worker can make it run code. Those started here therefore talk by TLS, with a
key and a certificate that are made for this run and kept in the memory of its processes, so that other users of the
machine cannot talk to them. A running scheduler is spoken to as its address says: for `tls://`, Dask's configuration
names the files.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import signal
import sys
from typing import TYPE_CHECKING

from .errors import ClusterError
from .schedulers import Scheduler, made_by

if TYPE_CHECKING:
    from distributed import Client, LocalCluster
    from distributed.deploy.cluster import Cluster

CONNECT_SECONDS = 10
WORKER_SECONDS = 30
FEW_FILES = 128  # a process that starts one worker has some 40 open
STARTS = 2  # attempts to start worker processes
QUIETLY = "2s"
# Arrow's own pool keeps a finished shard's memory: 100 MB of a negatives worker's 400. Dask's trim threshold makes
# malloc fetch every array of 128 KiB or more from the system anew, which takes a fifth of the time of `balance`.
MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_TRIM_THRESHOLD_": 1 << 26, "MALLOC_MMAP_THRESHOLD_": 1 << 24}


def start(
    workers: int, scheduler: Scheduler | None, retries: int, dashboard: bool = False
) -> tuple[Client, Cluster | None]:
    """Connect to a scheduler, or start `workers` processes with one thread each.

    Returns the client, and the cluster if it was started for it. retries: how often a call whose worker died is tried
    again, in a cluster that is started here. dashboard: whether to say on stderr where Dask's page is. Raises
    ClusterError if no scheduler answers within CONNECT_SECONDS, no worker within WORKER_SECONDS (those of a cluster
    that a function made may come later), or a worker dies while it starts, at every attempt.
    """
    client, cluster = _client(workers, scheduler, retries, dashboard)
    if dashboard:
        print(f"negcap: Dask's page is {client.dashboard_link}", file=sys.stderr)
    return client, cluster


def _client(workers: int, scheduler: Scheduler | None, retries: int, dashboard: bool) -> tuple[Client, Cluster | None]:
    import distributed  # noqa: F401  it sets the levels of its loggers

    for name in [
        name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")
    ]:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if scheduler is not None and scheduler.make is not None:
        client, cluster = made_by(scheduler)
        if not client.nthreads():
            print(f"negcap: {scheduler.name} has no workers yet; the work begins with the first", file=sys.stderr)
        return client, cluster
    if scheduler is not None:
        return _connected(scheduler.address), None
    for _ in range(STARTS):
        try:
            return _started(workers, retries, dashboard)
        except (RuntimeError, OSError, TimeoutError) as error:
            cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = files < FEW_FILES or getattr(cause, "errno", None) in (errno.EMFILE, errno.ENFILE)
    why = f"too few file descriptors? ulimit -n is {files}" if few else "out of memory?"
    raise ClusterError(f"worker processes died while they started ({why}): {cause}") from cause


def _connected(scheduler: str) -> Client:
    from distributed import Client

    try:  # a Client that fails to start waits for a minute before it is gone
        kind = asyncio.run(asyncio.wait_for(_identity(scheduler), CONNECT_SECONDS + 1))
        if kind != "Scheduler":
            raise ValueError(f"it is the address of a {kind}")
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # each kind of connection has errors of its own
        reason = next(iter(str(error).splitlines()), "") or f"{type(error).__name__} after {CONNECT_SECONDS} s"
        raise ClusterError(f"no Dask scheduler answers at {scheduler}: {reason}") from error
    return _with_workers(client, f"the scheduler at {scheduler} has no workers")


async def _identity(address: str) -> str:
    """What answers at an address: Scheduler, Worker or Nanny."""
    from distributed.core import rpc
    from distributed.security import Security

    security = Security().get_connection_args("client")
    async with rpc(address, timeout=CONNECT_SECONDS, connection_args=security) as remote:
        return str((await remote.identity())["type"])


def _started(workers: int, retries: int, dashboard: bool) -> tuple[Client, LocalCluster]:
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
    return _with_workers(client, "no worker process came up"), cluster


class _NoPandas:
    """An import hook that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not looked for", name=name)


def dask_setup(worker: object) -> None:
    """Prepare a worker process that is started here; Dask calls it in each.

    Ctrl-C and the end of a terminal are for the process that started it, which then ends its workers. pyarrow is made
    to believe that pandas is not installed: importing it would cost each worker 0.2 s and 45 MB.
    """
    import pyarrow as pa

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


def _with_workers(client: Client, otherwise: str) -> Client:
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        client.close()
        raise ClusterError(otherwise) from error
    return client
