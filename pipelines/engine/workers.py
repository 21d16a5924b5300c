"""Start worker processes of Dask `distributed` with low overhead, or connect to those of a running scheduler."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from negcap.pipelines.engine.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

CONNECT_SECONDS = 30
QUIETLY = "2s"


def start(workers: int, scheduler: str | None, retries: int) -> tuple[Client, LocalCluster | None]:
    """Connect to the scheduler at an address, or start `workers` processes with one thread each.

    Returns the client, and the cluster if it was started here. retries: how often a call whose worker died is tried
    again, in a cluster that is started here. Raises ClusterError if no scheduler or worker answers.
    """
    import dask
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler answers at {scheduler}: {error}") from error
        return _with_workers(client, f"the scheduler at {scheduler} has no workers"), None
    environment = dask.config.get("distributed.nanny.pre-spawn-environ")
    settings = {
        # Arrow's own pool keeps a finished shard's memory: 100 MB of a negatives worker's 400
        "distributed.nanny.pre-spawn-environ": {**environment, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.allowed-failures": retries,
        "distributed.scheduler.work-stealing": False,
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
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},  # any free port, no routes
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
        client = Client(cluster, set_as_default=False)
    client.run(do_without_pandas)
    return _with_workers(client, "no worker process came up"), cluster


class _NoPandas:
    """An import hook that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not looked for", name=name)


def do_without_pandas() -> None:
    """Make pyarrow believe that pandas is not installed: importing it would cost each worker 0.2 s and 45 MB."""
    import pyarrow as pa

    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


def _with_workers(client: Client, otherwise: str) -> Client:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as error:
        client.close()
        raise ClusterError(otherwise) from error
    return client
