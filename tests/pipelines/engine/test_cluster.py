import os

import psutil
import pyarrow as pa
import pytest

from negcap.pipelines.engine.cluster import executor


@pytest.mark.parametrize(
    "options, said",
    [
        ({"workers": 0}, "workers must be >= 1, was: 0"),
        ({"scheduler": "threads"}, "scheduler must be tcp://host:port or synchronous, was: threads"),
    ],
)
def test_bad_executors(options: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        executor(**options)


def join(parts: list[str]) -> str:
    return "(" + " ".join(parts) + ")"


def echo(text: str) -> str:
    return text


def who() -> tuple[str, dict[str, str]]:
    names = ("OMP_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL")
    return pa.default_memory_pool().backend_name, {name: os.environ.get(name, "") for name in names}


@pytest.mark.dask
def test_workers_use_one_thread_and_listen_only_here(workers_of_two) -> None:  # type: ignore[no-untyped-def]
    [(_, found)] = workers_of_two.map(who, [()])
    assert found == ("system", {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"})
    here = psutil.Process()
    listening = [c for p in (here, *here.children(recursive=True)) for c in p.net_connections() if c.status == "LISTEN"]
    assert listening
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}
    assert 8787 not in {connection.laddr.port for connection in listening}


@pytest.mark.dask
@pytest.mark.parametrize("count", [1, 2, 8, 9, 64, 73])
def test_the_tree_is_the_same_on_any_executor(count: int, workers_of_two) -> None:  # type: ignore[no-untyped-def]
    calls = [(str(i),) for i in range(count)]
    done: list[int] = []
    here = executor(scheduler="synchronous").map_reduce(echo, calls, join, done.append)
    assert done == list(range(count))
    done.clear()
    assert workers_of_two.map_reduce(echo, calls, join, done.append) == here
    assert sorted(done) == list(range(count))
    assert here.replace("(", "").replace(")", "").split() == [str(i) for i in range(count)]


@pytest.fixture(scope="module")
def workers_of_two():  # type: ignore[no-untyped-def]
    pool = executor(workers=2)
    yield pool
    pool.close()


@pytest.mark.dask
def test_no_calls(workers_of_two) -> None:  # type: ignore[no-untyped-def]
    for pool in (executor(scheduler="synchronous"), workers_of_two):
        assert list(pool.map(echo, [])) == []
        with pytest.raises(ValueError, match="map_reduce needs calls, had none"):
            pool.map_reduce(echo, [], join, print)
