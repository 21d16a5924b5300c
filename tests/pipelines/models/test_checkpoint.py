"""The cache of a run: what is encoded once is read again, and what is used no more is deleted."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from negcap.pipelines.models.checkpoint import KEPT_ENTRIES, ArrayWriter, cache_file, cached_arrays, mapped_arrays


def mapped(run: Path, key: int, prefix: str = "texts-") -> torch.Tensor:
    def write(out: ArrayWriter) -> None:
        out.append(numbers=np.full(3, key))

    return mapped_arrays(run, prefix, key, write).tensors["numbers"]


def stored(run: Path, key: int, prefix: str = "features-") -> torch.Tensor:
    def make() -> tuple[dict[str, torch.Tensor], dict[str, int]]:
        cache_file(run, prefix, key, "npy").write_bytes(b"beside it")
        return {"numbers": torch.full((3,), key)}, {}

    return cached_arrays(run, prefix, key, make).tensors["numbers"]


def age(run: Path) -> None:
    """Make everything in the cache a second older, as clocks of files may be coarse."""
    for path in (run / "encoded").iterdir():
        os.utime(path, ns=(path.stat().st_mtime_ns - 10**9,) * 2)


@pytest.mark.parametrize(
    ("read", "prefix", "suffixes"), [(mapped, "texts-", ["arrays"]), (stored, "features-", ["npy", "safetensors"])]
)
def test_entries_of_the_cache_that_were_used_longest_ago_are_deleted(
    tmp_path: Path, read: Callable[[Path, int], torch.Tensor], prefix: str, suffixes: list[str]
) -> None:
    mapped(tmp_path, 0, "others-")
    stored(tmp_path, 0, "features_grid-")
    being_written = tmp_path / "encoded" / f"{prefix}00.arrays.12ab.tmp"
    being_written.mkdir()
    deleted = read(tmp_path, 1)
    for key in (0, *range(2, KEPT_ENTRIES + 2)):
        age(tmp_path)
        read(tmp_path, key)
        assert read(tmp_path, 0).tolist() == [0, 0, 0]  # used again and again
    kept = [0, *range(3, KEPT_ENTRIES + 2)]
    names = {cache_file(tmp_path, prefix, key, suffix).name for key in kept for suffix in suffixes}
    assert {path.name for path in (tmp_path / "encoded").glob(f"{prefix}*")} - {being_written.name} == names
    assert being_written.is_dir() and cache_file(tmp_path, "others-", 0, "arrays").is_dir()
    assert cache_file(tmp_path, "features_grid-", 0, "npy").is_file()
    assert deleted.tolist() == read(tmp_path, 1).tolist() == [1, 1, 1]  # who has it reads on; it is written again


def test_a_cache_that_cannot_be_written_to_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    mapped(tmp_path, 0)
    monkeypatch.setattr(os, "utime", refuse)
    assert mapped(tmp_path, 0).tolist() == [0, 0, 0]
