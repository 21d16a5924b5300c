"""Sorted blocks on disk: every row is in one range, whatever the files and blocks."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from negcap.pipelines.engine.cluster import Distributed, Synchronous
from negcap.pipelines.engine.places import RemotePath
from negcap.pipelines.ingestion.spill import KEYS, once, read_blocks, read_range, sort_block, write_blocks
from negcap.pipelines.stages.ingest import _share_scratch

SCHEMA = pa.schema([("key", pa.uint64()), ("text", pa.string())])
KEY = st.one_of(st.integers(0, 9), st.integers(KEYS - 3, KEYS - 1))


def block(keys: list[int], name: str) -> pa.RecordBatch:
    return sort_block(
        pa.table([pa.array(keys, pa.uint64()), [f"{name}{at}" for at in range(len(keys))]], schema=SCHEMA)
    )


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(st.lists(st.lists(KEY, max_size=6), max_size=3), max_size=3), ranges=st.integers(1, 5))
def test_each_row_is_in_one_range(files, ranges, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spill")
    paths = [folder / f"{number}.arrow" for number in range(len(files))]
    for number, (path, blocks) in enumerate(zip(paths, files, strict=True)):
        write_blocks(path, SCHEMA, [block(keys, f"{number}-{at}-") for at, keys in enumerate(blocks)])
    found = []
    for part in range(ranges):
        low, high = KEYS * part // ranges, KEYS * (part + 1) // ranges
        rows = read_range(paths, SCHEMA, low, high)
        assert all(low <= key < high for key in rows["key"].to_pylist())
        found += rows["text"].to_pylist()
    assert sorted(found) == sorted(row for path in paths for one in read_blocks(path) for row in one[1].to_pylist())
    assert len(found) == sum(len(keys) for blocks in files for keys in blocks)


def test_a_file_is_whole_or_not_there(tmp_path):
    def blocks():
        yield block([1], "a")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_blocks(tmp_path / "a.arrow", SCHEMA, blocks())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="all workers must see this folder"):
        read_range([tmp_path / "a.arrow"], SCHEMA, 0, KEYS)


def test_a_call_is_made_once_unless_its_files_or_its_key_change(tmp_path):
    file, made = tmp_path / "a.arrow", []

    def make() -> dict[str, int]:
        made.append(1)
        file.write_bytes(b"rows")
        return {"rows": len(made)}

    assert [once(tmp_path / "a.json", "key", [file], make)["rows"] for _ in range(2)] == [1, 1]
    file.write_bytes(b"rowz")
    assert once(tmp_path / "a.json", "key", [file], make) == {"rows": 2}
    assert once(tmp_path / "a.json", "other", [file], make) == {"rows": 3}
    (tmp_path / "a.json").write_text("{")
    assert once(tmp_path / "a.json", "other", [file], make) == {"rows": 4}


def test_workers_elsewhere_share_a_folder_only_if_told(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    bucket, elsewhere = RemotePath("s3://bucket/run"), Distributed(2, "tcp://10.0.0.1:8786", 2)
    assert _share_scratch(Synchronous(), bucket) and _share_scratch(Distributed(2, None, 2), bucket)
    assert _share_scratch(elsewhere, Path("/shared/run")) and not _share_scratch(elsewhere, bucket)
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared/cache")
    assert _share_scratch(elsewhere, bucket)
