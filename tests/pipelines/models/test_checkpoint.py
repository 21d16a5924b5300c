"""The cache of a run: what is encoded once is read again, and what is used no more is deleted."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from negcap.pipelines.models.checkpoint import KEPT_ENTRIES, ArrayWriter, cache_folder, mapped_arrays


def numbers(run: Path, key: int, prefix: str = "texts-") -> torch.Tensor:
    def write(out: ArrayWriter) -> None:
        out.append(numbers=np.full(3, key))

    return mapped_arrays(run, prefix, key, write).tensors["numbers"]


def age(run: Path) -> None:
    """Make everything in the cache a second older, as clocks of files may be coarse."""
    for path in (run / "encoded").iterdir():
        os.utime(path, ns=(path.stat().st_mtime_ns - 10**9,) * 2)


def test_entries_of_the_cache_that_were_used_longest_ago_are_deleted(tmp_path: Path) -> None:
    for prefix in ("others-", "texts_more-", "texts-more-"):
        numbers(tmp_path, 0, prefix)
    being_written = tmp_path / "encoded" / "texts-00.arrays.12ab.tmp"
    being_written.mkdir()
    deleted = numbers(tmp_path, 1)
    for key in (0, *range(2, KEPT_ENTRIES + 2)):
        age(tmp_path)
        numbers(tmp_path, key)
        assert numbers(tmp_path, 0).tolist() == [0, 0, 0]  # used again and again
    kept = {cache_folder(tmp_path, "texts-", key).name for key in (0, *range(3, KEPT_ENTRIES + 2))}
    there = {path.name for path in (tmp_path / "encoded").iterdir()}
    others = {cache_folder(tmp_path, prefix, 0).name for prefix in ("others-", "texts_more-", "texts-more-")}
    assert there == kept | others | {being_written.name}
    assert deleted.tolist() == numbers(tmp_path, 1).tolist() == [1, 1, 1]  # who has it reads on; it is written again


def test_arrays_of_any_shape_are_written_part_by_part_and_changes_stay_in_memory(tmp_path: Path) -> None:
    def write(out: ArrayWriter) -> dict[str, str]:
        for start in (0, 2):
            out.append(pairs=np.arange(start, start + 4).reshape(2, 2), empty=np.empty((0, 3), np.int8))
            out.place("placed", [3 - start, start], np.full((2, 2), start + 1.5, np.float16), 5)
        with pytest.raises(TypeError, match="pairs must be <i8, was: <f8"):
            out.append(pairs=np.zeros((1, 2)))
        return {"about": "them"}

    for _ in range(2):
        stored = mapped_arrays(tmp_path, "x-", {"key": 1}, write)
        assert stored.tensors["pairs"].tolist() == [[0, 1], [2, 3], [2, 3], [4, 5]]
        assert stored.tensors["placed"][:, 0].tolist() == [1.5, 3.5, 3.5, 1.5, 0] and stored.about == {"about": "them"}
        assert stored.tensors["empty"].shape == (0, 3) and stored.tensors["placed"].dtype == torch.float16
        stored.tensors["pairs"].zero_()


def test_a_cache_that_cannot_be_written_to_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    numbers(tmp_path, 0)
    monkeypatch.setattr(os, "utime", refuse)
    assert numbers(tmp_path, 0).tolist() == [0, 0, 0]
