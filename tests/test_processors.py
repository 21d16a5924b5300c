"""Rows do not depend on the processor, the shard size or the hash seed of Python; for workers see `test_cli`."""

from tests.benchmarks.processors import build_everywhere, differences
from tests.conftest import SAMPLE

IMAGES = 6
LARGE, SMALL = (1000, 1), (7, 1)  # captions a shard, workers


def test_another_kernel_and_shard_size_make_the_same_rows(tmp_path):
    runs = build_everywhere(SAMPLE, IMAGES, tmp_path, [LARGE], [SMALL], few=True)
    one, other = runs.values()
    assert list(differences(one, other)) == []
