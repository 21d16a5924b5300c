"""The toy run that the tests of quality read; copy it to change it."""

from pathlib import Path

import pytest

from tests.pipelines.publish.fixtures import rows, write_run


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("toy") / "run", *rows(24, 9))
