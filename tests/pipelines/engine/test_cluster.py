"""Executors: this process, own workers, and clusters that are not negcap's own."""

import asyncio
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import dask
import psutil
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster
from distributed.core import rpc
from distributed.security import Security

from negcap.pipelines.engine import cluster
from negcap.pipelines.engine.cluster import executor
from negcap.pipelines.engine.errors import ClusterError, TaskError
from negcap.pipelines.engine.run import _combine_in_tree, _unpack_in_order, pack
from negcap.pipelines.engine.shards import list_shards
from tests.cases import cases_of
from tests.conftest import ROOT
from tests.docs.pages import FOLDER, blocks
from tests.pipelines.engine.conftest import WITHOUT_NEGCAP, wait_for
from tests.pipelines.engine.toy_stages import DRIVER, TEXTS, run_toys, tree, write_captions

PAGE = FOLDER / "how-to" / "cluster.md"
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


def make_cluster() -> LocalCluster:
    return LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="inproc")


def make_client() -> Client:
    return Client(make_cluster(), set_as_default=False)


def nothing() -> None: ...


def broken() -> None:
    raise OSError("no account\nand more lines")


@pytest.mark.dask
@pytest.mark.parametrize("function", ["make_cluster", "make_client"])
def test_a_cluster_that_a_function_makes_is_used_and_closed(run, expected, function):
    pool = executor(scheduler=f"{HERE}:{function}")
    run_toys(run, pool=pool)
    assert tree(run) == expected
    made = pool.client.cluster  # type: ignore[attr-defined]
    assert made.status.name == "running"
    pool.close()
    assert made.status.name == "closed"


@pytest.mark.dask
@pytest.mark.parametrize("function, said", [("nothing", "must return a Dask cluster"), ("broken", "no account$")])
def test_a_function_that_makes_no_cluster(function, said):
    with pytest.raises(ClusterError, match=f"^{HERE}:{function} .*{said}"):
        list(executor(scheduler=f"{HERE}:{function}").map(nothing, [()]))


@pytest.mark.parametrize("content, why", [("{}", "KeyError: 'address'"), ("[" * 100_000, "RecursionError: maximum ")])
def test_a_file_without_an_address(content, why, tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text(content)
    with pytest.raises(ClusterError, match=f"^{file} must be the file of a Dask scheduler, holds no address: {why}"):
        executor(scheduler=str(file))


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    """Dask's settings for TLS with certificates in files, as variables of other processes; this one has them, too."""
    made = Security.temporary().get_tls_config_for_role("client")
    for name in ("ca_file", "cert", "key"):
        (tmp_path / name).write_text(made[name])
    settings = {"require-encryption": "True", "tls.ca-file": str(tmp_path / "ca_file")}
    for role in ("scheduler", "worker", "client"):
        settings |= {f"tls.{role}.{name}": str(tmp_path / name) for name in ("cert", "key")}
    with dask.config.set({f"distributed.comm.{name}": value for name, value in settings.items()}):
        variables = {name: name.replace(".", "__").replace("-", "_").upper() for name in settings}
        yield {f"DASK_DISTRIBUTED__COMM__{variables[name]}": value for name, value in settings.items()}


@pytest.mark.dask
def test_workers_that_come_and_go_lose_nothing_and_a_lost_scheduler_is_one_line(
    run, tmp_path, expected, tls, dask_processes
):
    """Scheduler and workers are processes of their own, with TLS; the only worker is killed, then another one comes."""
    killed = tmp_path / "killed"
    worker = {**tls, "TOY_KILL": str(killed), "TOY_SECONDS": "0.05"}
    dask_processes.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--protocol", "tls", **tls)
    dask_processes.start_worker(**worker)
    address = dask_processes.address()
    assert address.startswith("tls://127.0.0.1")
    coming = threading.Thread(target=lambda: (wait_for(killed.exists), dask_processes.start_worker(**worker)))
    coming.start()
    run_toys(run, scheduler=str(dask_processes.file))
    coming.join()
    scheduler, first_worker, _ = dask_processes.started
    assert first_worker.wait() == -signal.SIGKILL
    assert tree(run) == expected

    other = write_captions(tmp_path / "other", TEXTS, 10)  # the scheduler is left running for others
    command, env = [*DRIVER, str(other), address], {**os.environ, **tls}
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True) as driver:
        wait_for(lambda: driver.poll() is not None or list_shards(other / "words"))
        scheduler.kill()
        assert driver.communicate(timeout=300)[1] == "the Dask scheduler was lost; run again to go on\n"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_s_function_for_slurm_submits_this_job_script(tmp_path, monkeypatch, golden):
    from dask_jobqueue import SLURMCluster

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SLURMCluster, "adapt", lambda self, **limits: None)  # it would submit jobs
    shown: dict = {}
    for block in blocks(PAGE):
        if block.kind == "python":
            exec(compile(block.text, str(PAGE), "exec"), shown)
    with closing(shown["slurm"]()) as made:
        script = made.job_script().strip() + "\n"
    script = script.replace(sys.executable, "python").replace(f"{tmp_path}/", "").replace("./.dask", ".dask")
    script = re.sub(r"tls://[\d.]+:\d+", "tls://10.0.0.1:8786", script)
    script = re.sub(r"(worker\.(?:ca_file|cert|key))\.\w+", r"\1", script)
    golden("slurm.sh", script)


@pytest.mark.dask
def test_workers_without_negcap_are_named_and_left_out_whenever_they_come(
    run, tmp_path, expected, dask_processes, capsys
):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "sitecustomize.py").write_text(WITHOUT_NEGCAP)
    dask_processes.start_scheduler_here()
    address = dask_processes.address()
    dask_processes.start_worker(PYTHONPATH=str(bare))
    why = r"\(ModuleNotFoundError: No module named 'negcap'\): install this version of negcap, "
    with pytest.raises(ClusterError, match=rf"^the worker tcp://127.0.0.1:\d+ cannot run negcap {why}"):
        run_toys(run, scheduler=address)  # there is no other worker
    assert "cannot run" not in capsys.readouterr().err
    dask_processes.start_worker()
    with Client(address, set_as_default=False) as other, closing(executor(scheduler=address)) as pool:
        other.wait_for_workers(2)
        assert len(pool.client.nthreads()) == 2
        dask_processes.start_worker(PYTHONPATH=str(bare))
        other.wait_for_workers(3)
        run_toys(run, pool=pool)
    assert tree(run) == expected
    lines = re.findall("negcap: the worker .* cannot run .*there; it is left out", capsys.readouterr().err)
    assert len(set(lines)) == len(lines) == 2


def slowly(number: int) -> int:
    time.sleep(0.2)
    return number


@pytest.mark.dask
def test_a_worker_that_stands_still_is_named_with_what_to_do(monkeypatch):
    class ObedientReader(io.StringIO):
        """Does what the message says, once it is there."""

        def write(self, text: str) -> int:
            if f"kill -9 {stopped} ends it" in text:
                os.kill(stopped, signal.SIGKILL)
            return super().write(text)

    monkeypatch.setattr(cluster, "STILL_SECONDS", 2)
    monkeypatch.setattr(cluster, "LOOK_SECONDS", 0.2)
    with closing(executor(workers=2)) as pool:
        stopped, _ = pool._own_processes().values()  # type: ignore[attr-defined]
        results = pool.map(slowly, [(number,) for number in range(20)])
        done = [next(results)]
        monkeypatch.setattr(sys, "stderr", ObedientReader())
        os.kill(stopped, signal.SIGSTOP)
        done += results
    assert sorted(done) == [(number, number) for number in range(20)]
    assert sys.stderr.getvalue().count("stands still") == 1
