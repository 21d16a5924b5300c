"""An S3 server on the loopback, worker processes, and a run of toy stages, for all tests of the engine."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import fsspec
import pytest
from distributed import LocalCluster

from negcap.pipelines.engine.cluster import Executor, executor
from tests.conftest import ROOT
from tests.pipelines.engine.toy_stages import TEXTS, run_toys, tree, write_captions

# the text of a sitecustomize.py that makes a process one of a machine without negcap
WITHOUT_NEGCAP = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "negcap":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a bucket of an S3 server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}.items():
            patch.setenv(name, value)
        patch.setenv("FSSPEC_S3_ENDPOINT_URL", address)  # of other processes; this one has read its variables already
        patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": address})
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        fsspec.filesystem("s3").makedirs("runs", exist_ok=True)  # servers of one process share all
        yield "s3://runs"
    server.stop()


@pytest.fixture(scope="package")
def workers_of_two() -> Iterator[Executor]:
    """Two worker processes, started once for all tests of the engine."""
    with closing(executor(workers=2)) as pool:
        yield pool


@pytest.fixture(params=["synchronous", pytest.param("workers", marks=pytest.mark.dask)])
def pool(request: pytest.FixtureRequest) -> Executor:
    """This process, and then worker processes."""
    if request.param == "synchronous":
        return Executor()
    return request.getfixturevalue("workers_of_two")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with captions alone."""
    return write_captions(tmp_path / "run", TEXTS, 10)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the toy stages, to be read."""
    run = write_captions(tmp_path_factory.mktemp("finished") / "run", TEXTS, 10)
    run_toys(run)
    return run


@pytest.fixture
def toys(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture(scope="session")
def expected(finished: Path) -> dict[str, bytes]:
    return tree(finished)


class DaskProcesses:
    """A scheduler and workers in processes of their own, as on a cluster; `file` is where they meet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.started: list[subprocess.Popen] = []
        self.cluster: LocalCluster | None = None

    def start(self, *words: str, **environment: str) -> None:
        """Start a scheduler or a worker."""
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(self.file), "--no-dashboard"]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": path, **environment}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.started.append(subprocess.Popen(command, env=env, cwd=self.folder, **quiet))  # type: ignore[call-overload]

    def start_scheduler_here(self) -> None:
        """A scheduler in this process, which is cheaper."""
        self.cluster = LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None)
        self.file.write_text(json.dumps({"address": self.cluster.scheduler_address}))

    def start_worker(self, **environment: str) -> None:
        self.start("worker", "--nthreads", "1", "--no-nanny", **environment)

    def address(self) -> str:
        """The scheduler's address, as soon as it has one."""
        wait_for(lambda: self.file.exists() and self.file.read_text().rstrip().endswith("}"))
        return str(json.loads(self.file.read_text())["address"])

    def end_last(self) -> None:
        """Kill the process that was started last."""
        process = self.started.pop()
        process.kill()
        process.wait()

    def close(self) -> None:
        """End them; a worker without its scheduler would wait for another one."""
        while self.started:
            self.end_last()
        if self.cluster is not None:
            self.cluster.close()


@pytest.fixture
def dask_processes(tmp_path: Path) -> Iterator[DaskProcesses]:
    """Those that a test starts; they are ended with it."""
    with closing(DaskProcesses(tmp_path)) as processes:
        yield processes


def wait_for(is_true: Callable[[], object], seconds: float = 300) -> None:
    """Wait until something is true, or so long."""
    deadline = time.monotonic() + seconds
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.005)
