import asyncio
import os
import socket
import sys

import dask
import psutil
import pyarrow as pa
import pytest
from distributed.core import rpc
from distributed.security import Security

from negcap.pipelines.engine import cluster
from negcap.pipelines.engine.cluster import executor
from negcap.pipelines.engine.errors import ClusterError, TaskError
from negcap.pipelines.engine.run import _combined, _in_order, pack


def test_bad_executors() -> None:
    schedulers = "scheduler must be tcp://host:port, .*module:function or synchronous, was: "
    for options, said in (
        ({"workers": 0}, "workers must be >= 1, was: 0"),
        *(({"scheduler": bad}, schedulers + bad) for bad in ("threads", "http://127.0.0.1:8786", "tcp://127.0.0.1")),
    ):
        with pytest.raises(ValueError, match=said):
            executor(**options)


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
    found = [c for p in (here, *here.children(recursive=True)) for c in p.net_connections() if c.status == "LISTEN"]
    return {(connection.laddr.ip, connection.laddr.port) for connection in found}


@pytest.mark.dask
def test_workers_use_one_thread_and_listen_only_here(workers_of_two) -> None:  # type: ignore[no-untyped-def]
    [(_, found)] = workers_of_two.map(who, [()])
    assert found == ("system", {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}, False)
    assert {address for address, _ in listening()} == {"127.0.0.1"}
    assert 8787 not in {port for _, port in listening()}


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
def test_no_stranger_can_talk_to_scheduler_or_workers(workers_of_two) -> None:  # type: ignore[no-untyped-def]
    async def answers(security: Security) -> set[str | None]:
        return set(await asyncio.gather(*(ask(port, security) for _, port in listening())))

    # None: without routes
    assert asyncio.run(answers(workers_of_two.client.security)) == {"Scheduler", "Worker", "Nanny", None}
    for security in (Security(), Security.temporary()):
        assert asyncio.run(answers(security)) == {None}


@pytest.mark.dask
def test_a_worker_that_dies_as_it_starts_is_replaced_or_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    start, failures = cluster._local, [RuntimeError("Nanny failed to start.")]

    def once(*given: object) -> object:
        if failures:
            raise failures.pop()
        return start(*given)

    monkeypatch.setattr(cluster, "_local", once)
    pool = executor(workers=1)
    assert list(pool.map(echo, [("a",)])) == [(0, "a")]
    pool.close()
    monkeypatch.setattr(cluster, "_local", start)
    monkeypatch.setattr(cluster, "STARTS", 1)
    with dask.config.set({"distributed.worker.preload": ["import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]}):
        pool = executor(workers=1)
        with pytest.raises(
            ClusterError,
            match=r"^worker processes died while they started \(out of memory, or .* ulimit -n is \d+\): .*start",
        ):
            list(pool.map(echo, [("a",)]))
        pool.close()


@pytest.mark.dask
def test_what_answers_no_questions_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (silent.getsockname()[1], 9):
            with pytest.raises(ClusterError, match=f"^no Dask scheduler answers at tcp://127.0.0.1:{port}: .+$"):
                list(executor(scheduler=f"tcp://127.0.0.1:{port}").map(echo, [("a",)]))


@pytest.mark.dask
def test_calls_come_as_they_finish_with_their_positions(workers_of_two) -> None:  # type: ignore[no-untyped-def]
    calls = [(str(i),) for i in range(20)]
    assert list(executor(scheduler="synchronous").map(echo, calls)) == [(i, str(i)) for i in range(20)]
    assert sorted(workers_of_two.map(echo, calls)) == [(i, str(i)) for i in range(20)]
    for pool in (executor(scheduler="synchronous"), workers_of_two):
        assert list(pool.map(echo, [])) == []
        with pytest.raises(TaskError) as caught:
            list(pool.map(refuse, [("a",), ("b",)]))
        assert isinstance(caught.value.__cause__, ValueError)
        assert str(caught.value).startswith("ValueError: text must be welcome, was: ")


@pytest.mark.parametrize("count", [1, 2, 8, 9, 64, 73])
def test_partial_results_are_combined_in_their_order(count: int) -> None:
    done: list[int] = []
    parts = [pa.table({"text": [str(i)]}) for i in range(count)]
    order = sorted(range(count), key=lambda i: (i // 5, -i))
    tables = _in_order(((i, pack(parts[i])) for i in order), done.append)
    combined: list[int] = []

    def combine(tables: list[pa.Table]) -> pa.Table:
        combined.append(len(tables))
        return pa.concat_tables(tables)

    assert _combined(tables, combine)["text"].to_pylist() == [str(i) for i in range(count)]
    assert done == order and max(combined, default=0) <= 15 and len(combined) <= count / 4 + 1
