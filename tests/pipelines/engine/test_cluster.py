"""Executors: this process, and own workers; see test_schedulers for clusters that are not negcap's own."""

import asyncio
import os
import socket
import sys
from contextlib import closing

import dask
import psutil
import pyarrow as pa
import pytest
from distributed.core import rpc
from distributed.security import Security

from negcap.pipelines.engine import cluster
from negcap.pipelines.engine.cluster import executor
from negcap.pipelines.engine.errors import ClusterError, TaskError
from negcap.pipelines.engine.run import _combine_in_tree, _unpack_in_order, pack
from tests.cases import cases_of

HERE = __name__


@pytest.mark.parametrize("options, said", cases_of(__file__)["cluster"]["no_executors"])
def test_executors_that_do_not_exist(options, said):
    with pytest.raises(ValueError, match=said):
        executor(**{name: str(value).replace("HERE:", f"{HERE}:") if value else 0 for name, value in options.items()})


def echo(text: str) -> str:
    return text


def refuse(text: str) -> str:
    raise ValueError(f"text must be welcome, was: {text}")


def describe_worker() -> tuple[str, str, bool]:
    return pa.default_memory_pool().backend_name, os.environ["OMP_NUM_THREADS"], "pandas" in sys.modules


async def kind_of_process(address: str, security: Security) -> str:
    async with rpc(address, timeout=2, connection_args=security.get_connection_args("client")) as remote:
        return (await asyncio.wait_for(remote.identity(), 2))["type"]


@pytest.mark.dask
def test_workers_use_one_thread_and_talk_to_nobody_but_us(workers_of_two):
    [(_, described)] = workers_of_two.map(describe_worker, [()])
    assert described == ("system", "1", False)

    here = psutil.Process()
    connections = [c for process in (here, *here.children(recursive=True)) for c in process.net_connections()]
    listening = {(c.laddr.ip, c.laddr.port) for c in connections if c.status == "LISTEN"}
    assert {ip for ip, _ in listening} == {"127.0.0.1"}
    assert 8787 not in {port for _, port in listening}  # Dask's dashboard

    client = workers_of_two.client
    for address in (client.scheduler.address, *client.nthreads()):
        assert address.startswith("tls://")
        assert asyncio.run(kind_of_process(address, client.security)) in ("Scheduler", "Worker")
        with pytest.raises(OSError):  # for whoever has not the certificate of this run
            asyncio.run(kind_of_process(address, Security.temporary()))


@pytest.mark.dask
def test_a_worker_that_dies_as_it_starts_is_replaced_or_named_in_one_line(monkeypatch):
    start = cluster._start_local_cluster
    failures = [RuntimeError("Nanny failed to start.")]

    def fail_once(*arguments: int) -> object:
        if failures:
            raise failures.pop()
        return start(*arguments)

    monkeypatch.setattr(cluster, "_start_local_cluster", fail_once)
    with closing(executor(workers=1)) as pool:
        assert list(pool.map(echo, [("a",)])) == [(0, "a")]
    monkeypatch.setattr(cluster, "STARTS", 1)
    suicide = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with dask.config.set({"distributed.worker.preload": [suicide]}), closing(executor(workers=1)) as pool:
        with pytest.raises(ClusterError, match=r"died while they started \(out of memory, .* ulimit -n is \d+\)"):
            list(pool.map(echo, [("a",)]))


@pytest.mark.dask
def test_what_answers_no_questions_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (silent.getsockname()[1], 9):
            with pytest.raises(ClusterError, match=f"^no Dask scheduler answers at tcp://127.0.0.1:{port}: .+$"):
                list(executor(scheduler=f"tcp://127.0.0.1:{port}").map(echo, [("a",)]))


def test_calls_come_as_they_finish_with_their_positions(pool):
    calls = [(str(number),) for number in range(20)]
    assert sorted(pool.map(echo, calls)) == [(number, str(number)) for number in range(20)]
    assert list(pool.map(echo, [])) == []
    with pytest.raises(TaskError, match="^ValueError: text must be welcome, was: ") as caught:
        list(pool.map(refuse, [("a",), ("b",)]))
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("count", [1, 8, 9, 73])
def test_partial_results_are_combined_in_their_order(count):
    arrived: list[int] = []
    combined: list[int] = []  # how many tables at once

    def combine(tables: list[pa.Table]) -> pa.Table:
        combined.append(len(tables))
        return pa.concat_tables(tables)

    positions = sorted(range(count), key=lambda number: (number // 5, -number))  # as workers may finish
    results = ((position, pack(pa.table({"number": [position]}))) for position in positions)
    total = _combine_in_tree(_unpack_in_order(results, arrived.append), combine)
    assert total["number"].to_pylist() == list(range(count))
    assert arrived == positions and max(combined, default=0) <= 15 and len(combined) <= count / 4 + 1
