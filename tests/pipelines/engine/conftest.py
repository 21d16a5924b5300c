"""An S3 server on the loopback, and worker processes, for all tests of the engine."""

import logging
from collections.abc import Iterator

import fsspec
import pytest

from negcap.pipelines.engine.cluster import Executor, executor


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
    pool = executor(workers=2)
    yield pool
    pool.close()


@pytest.fixture(params=["synchronous", pytest.param("workers", marks=pytest.mark.dask)])
def somewhere(request: pytest.FixtureRequest) -> dict[str, object]:
    """Options of run_toys: this process, and then worker processes."""
    if request.param == "synchronous":
        return {"scheduler": "synchronous"}
    return {"pool": request.getfixturevalue("workers_of_two")}
