"""Clusters that are not negcap's own: by file, by function, with TLS, with workers that come and go."""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster
from distributed.security import Security

from negcap.pipelines.engine import cluster as engine
from negcap.pipelines.engine.cluster import executor
from negcap.pipelines.engine.errors import ClusterError
from tests.docs.pages import FOLDER, blocks
from tests.pipelines.engine.conftest import WITHOUT_NEGCAP, DaskProcesses, wait_for
from tests.pipelines.engine.toy_stages import TEXTS, run_toys, tree, write_captions

PAGE = FOLDER / "how-to" / "cluster.md"
HERE = __name__


def cluster() -> LocalCluster:
    return LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="inproc")


def client() -> Client:
    return Client(cluster(), set_as_default=False)


def nothing() -> None: ...


def broken() -> None:
    raise OSError("no account\nand more lines")


@pytest.mark.dask
@pytest.mark.parametrize("function", [cluster, client])
def test_a_cluster_that_a_function_makes_is_used_and_closed(run, expected, function):
    pool = executor(scheduler=f"{HERE}:{function.__name__}")
    run_toys(run, pool=pool)
    assert tree(run) == expected
    assert pool.client.status == "running"  # type: ignore[attr-defined]
    made = pool.client.cluster  # type: ignore[attr-defined]
    pool.close()
    assert made.status.name == "closed"


@pytest.mark.dask
@pytest.mark.parametrize("function, said", [(nothing, "must return a Dask cluster"), (broken, "OSError: no account$")])
def test_a_function_that_makes_no_cluster(function, said):
    pool = executor(scheduler=f"{HERE}:{function.__name__}")
    with pytest.raises(ClusterError, match=f"^{HERE}:{function.__name__} .*{said}"):
        list(pool.map(nothing, [()]))


@pytest.mark.parametrize("content, why", [("{}", "KeyError: 'address'"), ("[" * 100_000, "RecursionError: maximum ")])
def test_a_file_without_an_address(content, why, tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text(content)
    with pytest.raises(ClusterError, match=f"^{file} must be the file of a Dask scheduler, holds no address: {why}"):
        executor(scheduler=str(file))


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, str]:
    """Dask's settings for TLS, as variables, with certificates in files; this process has them, too."""
    made = Security.temporary().get_tls_config_for_role("client")
    for name in ("ca_file", "cert", "key"):
        (tmp_path / name).write_text(made[name])
    settings = {"require-encryption": True, "tls.ca-file": str(tmp_path / "ca_file")}
    for role in ("scheduler", "worker", "client"):
        settings |= {f"tls.{role}.{name}": str(tmp_path / name) for name in ("cert", "key")}
    settings = {f"distributed.comm.{name}": value for name, value in settings.items()}
    with dask.config.set(settings):
        yield {
            f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": str(value) for name, value in settings.items()
        }


@pytest.mark.dask
def test_workers_that_come_and_go_lose_nothing(run, tmp_path, expected, certificates, dask_processes):
    """Scheduler and workers are processes of their own, with TLS; the only worker is killed, then another one comes."""
    killed = tmp_path / "killed"
    worker = {**certificates, "TOY_KILL": str(killed)}
    dask_processes.start_scheduler("--protocol", "tls", **certificates)
    dask_processes.start_worker(**worker)
    assert dask_processes.address().startswith("tls://127.0.0.1")
    coming = threading.Thread(target=lambda: (wait_for(killed.exists), dask_processes.start_worker(**worker)))
    coming.start()
    run_toys(run, scheduler=str(dask_processes.file))
    coming.join()
    assert dask_processes.started[1].wait() < 0  # it was killed
    assert tree(run) == expected


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_s_function_for_slurm_submits_this_job_script(tmp_path, monkeypatch, golden):
    from dask_jobqueue import SLURMCluster

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SLURMCluster, "adapt", lambda self, **limits: None)  # it would submit jobs
    shown: dict = {}
    for block in blocks(PAGE):
        if block.kind == "python":
            exec(compile(block.text, str(PAGE), "exec"), shown)
    made = shown["slurm"]()
    try:
        script = made.job_script().strip() + "\n"
    finally:
        made.close()
    script = script.replace(sys.executable, "python").replace(f"{tmp_path}/", "").replace("./.dask", ".dask")
    script = re.sub(r"tls://[\d.]+:\d+", "tls://10.0.0.1:8786", script)
    script = re.sub(r"(worker\.(?:ca_file|cert|key))\.\w+", r"\1", script)
    golden("slurm.sh", script)


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a worker on a machine without negcap."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(WITHOUT_NEGCAP)
    return {"PYTHONPATH": str(tmp_path / "bare")}


@pytest.mark.dask
def test_workers_without_negcap_are_named_with_what_to_install(run, dask_processes, bare, capsys):
    dask_processes.start_scheduler_here()
    dask_processes.start_worker(**bare)
    why = r"\(ModuleNotFoundError: No module named 'negcap'\): install this version of negcap, "
    with pytest.raises(ClusterError, match=rf"^the worker tcp://127.0.0.1:\d+ cannot run negcap {why}"):
        run_toys(run, scheduler=dask_processes.address())
    assert "cannot run" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def cluster_of_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    """A scheduler and a worker; what a test adds, it ends."""
    with closing(DaskProcesses(tmp_path_factory.mktemp("cluster"))) as processes:
        processes.start_scheduler_here()
        processes.start_worker()
        yield processes


@pytest.mark.dask
def test_a_worker_without_negcap_is_left_out_whenever_it_comes(tmp_path, expected, cluster_of_one, bare, capsys):
    address = cluster_of_one.address()
    with Client(address, set_as_default=False) as other:
        for number, later in enumerate((False, True)):
            other.wait_for_workers(1)
            if not later:
                cluster_of_one.start_worker(**bare)
                other.wait_for_workers(2)
            pool = executor(scheduler=address)
            assert len(pool.client.nthreads()) == (1 if later else 2)  # type: ignore[attr-defined]
            if later:
                cluster_of_one.start_worker(**bare)
                other.wait_for_workers(2)
            run = write_captions(tmp_path / str(number), TEXTS, 10)
            run_toys(run, pool=pool)
            pool.close()
            assert tree(run) == expected
            [line] = re.findall("negcap: the worker .*", capsys.readouterr().err)
            assert line.endswith("there; it is left out")
            cluster_of_one.end_last()
            wait_for(lambda: len(other.nthreads()) == 1)


def slowly(number: int) -> int:
    time.sleep(0.2)
    return number


@pytest.mark.dask
@pytest.mark.parametrize("own", [True, False])
def test_a_worker_that_stands_still_is_named_with_what_to_do(own, cluster_of_one, monkeypatch, capsys):
    monkeypatch.setattr(engine, "STILL_SECONDS", 2)
    monkeypatch.setattr(engine, "LOOK_SECONDS", 0.2)
    if own:
        pool = executor(workers=2)
        stopped, _ = pool._own_processes().values()  # type: ignore[attr-defined]
    else:
        cluster_of_one.start_worker()
        pool = executor(scheduler=cluster_of_one.address())
        wait_for(lambda: len(pool.client.nthreads()) == 2)  # type: ignore[attr-defined]
        stopped = cluster_of_one.started[1].pid
    results = pool.map(slowly, [(number,) for number in range(20)])
    done = [next(results)]
    os.kill(stopped, signal.SIGSTOP)
    said: list[str] = []

    def heal() -> None:
        """Do what the message says, once it is there."""
        wait_for(lambda: said.append(capsys.readouterr().err) or "stands still" in "".join(said))
        os.kill(stopped, signal.SIGKILL if own else signal.SIGCONT)

    healing = threading.Thread(target=heal)
    healing.start()
    done += results
    healing.join()
    pool.close()
    assert sorted(done) == [(number, number) for number in range(20)]
    [line] = re.findall("negcap: the worker .* stands still; .*", "".join(said))
    assert f"kill -9 {stopped} ends it" in line if own else "let it go on, or end it" in line
