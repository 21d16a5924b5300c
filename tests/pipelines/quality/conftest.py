"""The toy run that the tests of quality read; copy it to change it."""

from pathlib import Path

import pytest

from tests.pipelines.publish.fixtures import refine_attributes, rows, write_run


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("toy") / "run", *rows(24, 9))


@pytest.fixture(scope="session")
def refined_run(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return refine_attributes(sample_run, tmp_path_factory.mktemp("refined") / "run")
