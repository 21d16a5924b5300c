"""Manifests of many shards keep the entries of these in a file of their own."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from negcap.pipelines.engine import manifest as manifest_module
from negcap.pipelines.engine.errors import OtherConfigError
from negcap.pipelines.engine.listing import Listing
from negcap.pipelines.engine.manifest import Manifest, manifest_path, read_manifest, refuse_other, write_manifest
from negcap.pipelines.engine.tables import hash_table, shards_of, verify
from tests.pipelines.engine.test_shards import identity

SHARDS = tuple(
    {"notes": {"rows": n, "sha256": f"{n:064d}"}} | ({"lost": {"rows": 1, "sha256": "0" * 64}} if n == 2 else {})
    for n in range(5)
)


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the manifest of five shards, of which four would be in the manifest itself."""
    monkeypatch.setattr(manifest_module, "INLINE", 4)
    write_manifest(tmp_path / "notes", Manifest(identity(), True, SHARDS, {"captions": 10}))
    return tmp_path / "notes"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in manifest_path(folder).parent.iterdir())


def test_what_was_listed_is_read_when_it_is_asked_for(listed: Path) -> None:
    file = listed.parent / "_receipts" / "notes" / files(listed)[1]
    assert file.name.startswith("shards-") and "0001" not in manifest_path(listed).read_text()
    data = file.read_bytes()
    file.unlink()
    found = read_manifest(listed)
    assert found is not None and isinstance(found.shards, Listing) and len(found.shards) == 5
    with pytest.raises(ValueError, match="shards-.* cannot be read"):
        list(found.shards)
    file.write_bytes(data)
    assert tuple(found.shards) == SHARDS and found.shards[2] == SHARDS[2]
    assert found == read_manifest(listed)


def test_fewer_shards_leave_no_listing_and_the_manifest_is_as_ever(listed: Path, tmp_path: Path) -> None:
    found = read_manifest(listed)
    assert found is not None
    write_manifest(listed, replace(found, shards=tuple(found.shards)[:4]), found)
    assert files(listed) == ["manifest.json"]
    value = json.loads(manifest_path(listed).read_text())
    assert value["shards"] == list(SHARDS[:4])
    assert sorted(value) == ["complete", "counts", "identity", "processor", "shards"]


def test_a_damaged_listing_is_an_unreadable_manifest(listed: Path) -> None:
    file = listed.parent / "_receipts" / "notes" / files(listed)[1]
    listed.mkdir()
    (listed / "part-00000.parquet").touch()
    file.write_bytes(file.read_bytes()[:-1])
    for read in (shards_of, hash_table):
        with pytest.raises(ValueError, match="shards-.* is damaged: its bytes are not those that were written"):
            read(listed.parent, "notes")
    assert "is damaged: its bytes are not those that were written; run its" in verify(listed.parent).problems[0]
    value = json.loads(manifest_path(listed).read_text())
    manifest_path(listed).write_text(json.dumps(value | {"shards": {"file": "x", "count": 5, "sha256": ""}}))
    with pytest.raises(OtherConfigError, match="must name the file, number and sha256 of its shards"):
        refuse_other(listed, identity())
