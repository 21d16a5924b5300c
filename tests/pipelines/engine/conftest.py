from collections.abc import Iterator

import pytest

from negcap.pipelines.engine.cluster import Executor, executor


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
