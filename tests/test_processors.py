"""Rows do not depend on the processor, the shard size or the hash seed of Python; for workers see `test_cli`."""

from pathlib import Path

import pytest

from tests.benchmarks.processors import build_everywhere, differences
from tests.conftest import SAMPLE

IMAGES = 6
SHAPES = ((1000, 1), (7, 1))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_everywhere(SAMPLE, IMAGES, tmp_path_factory.mktemp("processors"), SHAPES, SHAPES[:1], few=True)


def test_every_kernel_and_shard_size_makes_the_same_rows(runs):
    first, *others = runs.values()
    assert len(others) == 2
    assert [f"{name}: {found}" for name, run in runs.items() for found in differences(first, run)] == []
