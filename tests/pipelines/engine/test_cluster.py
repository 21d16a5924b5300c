"""Executors: this process, and own workers; see test_schedulers for clusters that are not negcap's own."""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
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


def who() -> tuple[str, dict[str, str], bool]:
    names = ("OMP_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL")
    environment = {name: os.environ.get(name, "") for name in names}
    return pa.default_memory_pool().backend_name, environment, "pandas" in sys.modules


def listening() -> set[tuple[str, int]]:
    """Where this process and its workers listen."""
    here = psutil.Process()
    connections = [c for process in (here, *here.children(recursive=True)) for c in process.net_connections()]
    return {(c.laddr.ip, c.laddr.port) for c in connections if c.status == "LISTEN"}


async def ask(port: int, security: Security) -> str | None:
    """What a process without this run's certificate learns from a port: the type of what answers there."""
    scheme = "tls" if security.require_encryption else "tcp"
    more = security.get_connection_args("client")
    try:
        async with rpc(f"{scheme}://127.0.0.1:{port}", timeout=2, connection_args=more) as remote:
            return (await asyncio.wait_for(remote.identity(), 2))["type"]
    except (OSError, MemoryError, TimeoutError):
        return None


@pytest.mark.dask
def test_workers_use_one_thread_and_talk_to_nobody_but_us(workers_of_two):
    async def answers(security: Security) -> set[str | None]:
        return set(await asyncio.gather(*(ask(port, security) for _, port in listening())))

    [(_, found)] = workers_of_two.map(who, [()])
    assert found == ("system", {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}, False)
    assert {address for address, _ in listening()} == {"127.0.0.1"}
    assert 8787 not in {port for _, port in listening()}  # Dask's dashboard
    # None: without routes
    assert asyncio.run(answers(workers_of_two.client.security)) == {"Scheduler", "Worker", "Nanny", None}
    for stranger in (Security(), Security.temporary()):
        assert asyncio.run(answers(stranger)) == {None}


@pytest.mark.dask
def test_a_worker_that_dies_as_it_starts_is_replaced_or_named_in_one_line(monkeypatch):
    start = cluster._start_local_cluster
    failures = [RuntimeError("Nanny failed to start.")]

    def fail_once(*arguments: int) -> object:
        if failures:
            raise failures.pop()
        return start(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "_start_local_cluster", fail_once)
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


@pytest.mark.parametrize("count", [1, 2, 8, 9, 64, 73])
def test_partial_results_are_combined_in_their_order(count):
    arrived: list[int] = []
    combined: list[int] = []
    parts = [pa.table({"text": [str(number)]}) for number in range(count)]
    order = sorted(range(count), key=lambda number: (number // 5, -number))
    tables = _unpack_in_order(((number, pack(parts[number])) for number in order), arrived.append)

    def counting(combine: Callable[[list[pa.Table]], pa.Table]) -> Callable[[list[pa.Table]], pa.Table]:
        return lambda tables: (combined.append(len(tables)), combine(tables))[1]

    assert _combine_in_tree(tables, counting(pa.concat_tables))["text"].to_pylist() == [str(n) for n in range(count)]
    assert arrived == order and max(combined, default=0) <= 15 and len(combined) <= count / 4 + 1
