"""What is encoded of a run once, and read again: arrays in its cache, and features of images."""

import os
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch

from negcap.pipelines.models.checkpoint import KEPT_ENTRIES, ArrayWriter, cache_folder, mapped_arrays
from negcap.pipelines.models.device import load_ahead, rows_to_device, to_device_if_it_fits
from negcap.pipelines.models.features import read_features
from tests.pipelines.models.worlds import write_features


def numbers(run: Path, key: int, prefix: str = "texts-") -> torch.Tensor:
    def write(out: ArrayWriter) -> None:
        out.append(numbers=np.full(3, key))

    return mapped_arrays(run, prefix, key, write).tensors["numbers"]


def age(run: Path) -> None:
    """Make everything in the cache a second older, as clocks of files may be coarse."""
    for path in (run / "encoded").iterdir():
        os.utime(path, ns=(path.stat().st_mtime_ns - 10**9,) * 2)


def test_entries_of_the_cache_that_were_used_longest_ago_are_deleted(tmp_path: Path) -> None:
    numbers(tmp_path, 0, "others-")
    being_written = tmp_path / "encoded" / "texts-00.arrays.12ab.tmp"
    being_written.mkdir()
    deleted = numbers(tmp_path, 1)
    for key in (0, *range(2, KEPT_ENTRIES + 2)):
        age(tmp_path)
        numbers(tmp_path, key)
        assert numbers(tmp_path, 0).tolist() == [0, 0, 0]  # used again and again
    kept = {cache_folder(tmp_path, "texts-", key).name for key in (0, *range(3, KEPT_ENTRIES + 2))}
    kept |= {cache_folder(tmp_path, "others-", 0).name, being_written.name}
    assert {path.name for path in (tmp_path / "encoded").iterdir()} == kept
    assert deleted.tolist() == numbers(tmp_path, 1).tolist() == [1, 1, 1]  # who has it reads on; it is written again


def test_bad_features(tmp_path: Path) -> None:
    for values, ids, message in (
        (np.ones((2, 3)), ["a", "a"], "must hold each image once, holds twice: a"),
        (np.full((2, 3), np.nan), ["a", "b"], "must be finite"),
        (np.ones((2, 3)), ["x", "y"], "must have features of its images, has none"),
    ):
        write_features(tmp_path, ids, values.astype(np.float32))
        with pytest.raises(ValueError, match=message):
            read_features(tmp_path, ["a", "b"])


def test_features_are_stored_once_and_damage_is_told(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float16).reshape(3, 4, 2)
    write_features(tmp_path, ["b", "x"], values[:2], "net")
    write_features(tmp_path, ["a"], values[2:], "net", index=1)
    first = read_features(tmp_path, ["a", "c", "b"])
    (folder,) = (tmp_path / "encoded").glob("features-*")
    written = (folder / "values").stat().st_mtime_ns
    assert torch.equal(first.values, torch.from_numpy(np.stack([values[2], np.zeros((4, 2)), values[0]])).half())
    assert (first.backbone, first.available.tolist()) == ("net", [True, False, True])
    write_features(tmp_path, ["a"], values[:1], "other net", index=1)
    with pytest.raises(ValueError, match="must have the backbone and shape of the shards before it"):
        read_features(tmp_path, ["a", "c", "b"])
    write_features(tmp_path, ["a"], values[2:], "net", index=1)
    assert torch.equal(read_features(tmp_path, ["a", "c", "b"]).values, first.values)
    assert (folder / "values").stat().st_mtime_ns == written
    (folder / "values").write_bytes((folder / "values").read_bytes()[:30])
    with pytest.raises(ValueError, match=f"{folder.name} is damaged"):
        read_features(tmp_path, ["a", "c", "b"])


def test_features_that_do_not_fit_on_a_gpu_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.zeros(10, 4)  # 160 bytes
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: "moved")
    for free, moved in ((319, False), (320, True)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10**9))
        assert (to_device_if_it_fits(values, torch.device("cuda")) == "moved") == moved
    assert to_device_if_it_fits(values, torch.device("cpu")) is values


def test_the_next_batch_is_read_while_one_is_in_use() -> None:
    values, second = torch.arange(12.0).reshape(6, 2), Event()
    read: list[int] = []

    def load(rows: torch.Tensor) -> torch.Tensor:
        read.append(len(rows))
        if len(read) == 2:
            second.set()
        return rows_to_device(values, rows, torch.device("cpu"))

    batches = [torch.tensor(rows) for rows in ([5, 0, 5], [1, 2], [3])]
    for rows, loaded in zip(batches, load_ahead(batches, load), strict=True):
        assert torch.equal(loaded.rows, rows) and torch.equal(loaded.values, values[rows])
        assert second.wait(5)  # is read before the first is done with
    assert read == [3, 2, 1] and list(load_ahead([], load)) == []
    with pytest.raises(IndexError):
        list(load_ahead([torch.tensor([0])], lambda rows: [][0]))
