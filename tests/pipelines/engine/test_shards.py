import errno
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines.engine import shards
from negcap.pipelines.engine.errors import DamagedShardError, OtherConfigError
from negcap.pipelines.engine.manifest import (
    MANIFEST,
    Identity,
    Manifest,
    describe,
    difference,
    finish,
    hash_schema,
    manifest_path,
    prepare,
    read_manifest,
    write_manifest,
)
from negcap.pipelines.engine.shards import (
    Origin,
    current_receipt,
    list_shards,
    read_receipt,
    receipt_path,
    remove_shards,
    remove_temporary,
    shard_index,
    shard_path,
    write_shard,
)
from negcap.pipelines.engine.tables import read_shard
from negcap.schemas.fields import field, schema

NOTES = schema("notes", 1, field("text", pa.string(), "a text"), field("stars", pa.int32(), "a number"))
SPANS = schema(
    "spans",
    1,
    field("spans", pa.list_(pa.field("item", pa.struct([field("start", pa.int32(), "from")]), nullable=False)), "all"),
)


def notes(*texts: str) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.string()), "stars": pa.array([1] * len(texts), pa.int32())}, NOTES)


def write(folder: Path, index: int, *texts: str, key: str = "k") -> shards.Receipt:
    return write_shard(
        notes(*texts), shard_path(folder, index), NOTES, Origin(key, {"stage": "note"}, {"captions": len(texts)})
    )


def identity(**changes: object) -> Identity:
    values = {"stage": "note", "config": {"seed": 1}, "metadata": {"negcap_version": "1"}, "schemas": {"notes": "s"},
              "code": "c", "inputs": {"captions": "i", "lexicon": "l"}, "sharded": "captions"}  # fmt: skip
    return Identity(**{**values, **changes})  # type: ignore[arg-type]


def test_a_shard_comes_back_with_its_provenance_and_descriptions(tmp_path: Path) -> None:
    receipt = write(tmp_path / "notes", 3, "ein Hund", "")
    shard = tmp_path / "notes" / "part-00003.parquet"
    assert read_receipt(shard) == receipt
    assert receipt.rows == 2
    assert receipt.counts == {"captions": 2}
    assert receipt.sha256 == hashlib.sha256(shard.read_bytes()).hexdigest()
    table = read_shard(shard, sha256=receipt.sha256)
    assert table.equals(notes("ein Hund", ""))
    assert table.schema.metadata == {b"table": b"notes", b"schema_version": b"1", b"stage": b"note"}
    assert table.schema.field("stars").metadata[b"description"] == b"a number"
    assert read_shard(shard, ("stars",), sha256=receipt.sha256).column_names == ["stars"]
    assert pq.ParquetFile(shard).metadata.row_group(0).column(0).compression == "ZSTD"


def test_the_schema_of_a_nested_table_survives_the_file(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{"spans": [{"start": 1}]}, {"spans": []}], SPANS)
    receipt = write_shard(table, shard_path(tmp_path, 0), SPANS, Origin("k", {"stage": "x"}))
    back = read_shard(shard_path(tmp_path, 0), sha256=receipt.sha256)
    assert back.to_pylist() == table.to_pylist()
    assert hash_schema(back.schema) == hash_schema(SPANS)


def test_the_same_rows_are_the_same_bytes_and_an_empty_table_is_a_shard(tmp_path: Path) -> None:
    assert write(tmp_path / "a", 0, "x").sha256 == write(tmp_path / "b", 7, "x").sha256
    receipt = write(tmp_path / "empty", 0)
    assert receipt.rows == 0
    assert read_shard(tmp_path / "empty" / "part-00000.parquet", sha256=receipt.sha256).num_rows == 0


def test_a_table_that_breaks_its_schema_is_not_written(tmp_path: Path) -> None:
    nulls = pa.table({"text": [None], "stars": [1]}, pa.schema([("text", pa.string()), ("stars", pa.int32())]))
    with pytest.raises(ValueError, match=r"notes\.text: must not be null"):
        write_shard(nulls, shard_path(tmp_path / "n", 0), NOTES, Origin("k"))
    with pytest.raises(ValueError, match="notes: columns must be"):
        write_shard(pa.table({"text": ["a"]}), shard_path(tmp_path / "n", 0), NOTES, Origin("k"))
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize("index, name", [(0, "part-00000.parquet"), (123456, "part-123456.parquet")])
def test_shard_names(index: int, name: str) -> None:
    assert shard_path(Path("run"), index).name == name
    assert shard_index(Path(name)) == index


def test_shards_are_listed_by_number(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    for index in (100000, 99999, 2):
        write(folder, index, "x")
    (folder / "part-00001.parquet.0a0b.tmp").touch()
    (tmp_path / "_receipts" / "notes" / "part-00007.parquet.0a0b.tmp").touch()
    (folder / "notes.txt").touch()
    assert [shard_index(shard) for shard in list_shards(folder)] == [2, 99999, 100000]
    assert list_shards(tmp_path / "nowhere") == []
    with pytest.raises(ValueError, match=r"part-<number>\.parquet, was: notes\.txt"):
        shard_index(folder / "notes.txt")
    remove_temporary(folder)
    remove_shards(folder, 3)
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "part-00002.parquet"]
    assert [path.name for path in (tmp_path / "_receipts" / "notes").iterdir()] == ["part-00002.json"]


def cut_short(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-20])


def change_a_byte(shard: Path) -> None:
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)


def empty(shard: Path) -> None:
    shard.write_bytes(b"")


def remove(shard: Path) -> None:
    shard.unlink()


def garble_receipt(shard: Path) -> None:
    receipt_path(shard).write_text('{"key": "k", "rows": 1')


def strip_receipt(shard: Path) -> None:
    receipt_path(shard).write_text('{"key": "k"}')


def remove_receipt(shard: Path) -> None:
    receipt_path(shard).unlink()


DAMAGES = [cut_short, change_a_byte, empty, remove, garble_receipt, strip_receipt, remove_receipt]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_not_current(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    receipt = write(tmp_path, 0, "one", "two")
    shard = shard_path(tmp_path, 0)
    assert current_receipt(shard, "k")
    assert not current_receipt(shard, "other")
    damage(shard)
    assert not current_receipt(shard, "k")
    if shard.suffix and damage in (cut_short, change_a_byte, empty):
        with pytest.raises(DamagedShardError, match=r"part-00000\.parquet is damaged: its bytes are not"):
            read_shard(shard, sha256=receipt.sha256)
    if damage is remove:
        with pytest.raises(DamagedShardError, match="is missing"):
            read_shard(shard, sha256=receipt.sha256)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_shard_or_none(tmp_path: Path, monkeypatch, failing: str) -> None:  # type: ignore[no-untyped-def]
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"os.{failing}", full)
    with pytest.raises(OSError, match="disk full, free some space and run again") as caught:
        write(tmp_path / "notes", 0, "a")
    assert caught.value.filename == str(tmp_path / "notes" / "part-00000.parquet")
    assert list((tmp_path / "notes").iterdir()) == []


def test_a_shard_is_never_seen_with_another_shards_receipt(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, 0, "a")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shards, "write_json", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path, 0, "b")
    assert read_receipt(shard_path(tmp_path, 0)) is None


@pytest.mark.parametrize(
    "change, said",
    [
        ({"stage": "other"}, "stage was note, is now other"),
        ({"config": {"seed": 2}}, "seed was 1, is now 2"),
        ({"config": {"seed": 1, "operators": ["noun"]}}, 'operators was unset, is now ["noun"]'),
        ({"metadata": {"negcap_version": "2"}}, "negcap_version was 1, is now 2"),
        ({"inputs": {"captions": "i", "lexicon": "other"}}, "its input lexicon has changed"),
        ({"schemas": {"notes": "other"}}, "the columns of notes have changed"),
        ({"code": "other"}, "another version of negcap's code wrote it"),
    ],
)
def test_another_identity_is_refused_by_name(tmp_path: Path, change: dict, said: str) -> None:
    other = identity(**change)
    prepare(tmp_path, identity())
    before = manifest_path(tmp_path).read_bytes()
    assert difference(identity(), other) == said
    with pytest.raises(OtherConfigError) as caught:
        prepare(tmp_path, other)
    assert str(caught.value) == f"{tmp_path} was made from something else: {said} (--overwrite replaces it)"
    assert manifest_path(tmp_path).read_bytes() == before
    prepare(tmp_path, other, overwrite=True)
    assert read_manifest(tmp_path) == Manifest(other)
    assert other.key("shard") != identity().key("shard")


def test_a_key_counts_the_shard_and_the_tables_read_whole(tmp_path: Path) -> None:
    grown = identity(inputs={"captions": "more", "lexicon": "l"})
    assert grown.key("shard") == identity().key("shard")
    assert grown.key() != identity().key()
    assert identity().key("other") != identity().key("shard")
    assert identity(inputs={"captions": "i", "lexicon": "m"}).key("shard") != identity().key("shard")


def test_a_finished_stage_sums_counts_and_drops_shards_beyond_its_last(tmp_path: Path) -> None:
    made = [{"notes": write(tmp_path / "notes", index, *texts)} for index, texts in enumerate(["ab", "c", "d"])]
    prepare(tmp_path / "notes", identity(), overwrite=True)
    manifest = finish(tmp_path, ("notes",), identity(), made[:2])
    assert manifest.counts == {"captions": 3}
    assert [shard["notes"]["rows"] for shard in manifest.shards] == [2, 1]
    assert len(list_shards(tmp_path / "notes")) == 2
    assert read_manifest(tmp_path / "notes") == manifest
    text = manifest_path(tmp_path / "notes").read_text()
    assert json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n" == text
    assert str(tmp_path) not in text


def test_shards_without_or_with_a_garbled_manifest_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 0, "a")
    with pytest.raises(OtherConfigError, match=f"it has shards but no {MANIFEST} \\(--overwrite"):
        prepare(tmp_path, identity())
    manifest_path(tmp_path).write_text("{")
    with pytest.raises(OtherConfigError, match="is unreadable"):
        prepare(tmp_path, identity())
    write_manifest(tmp_path, Manifest(identity()))
    prepare(tmp_path, identity())


@dataclass(frozen=True)
class Config:
    seed: int
    operators: tuple[str, ...]
    concreteness: Path | None


def test_a_path_counts_by_name_and_content_never_by_place(tmp_path: Path) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "norms.tsv").write_text("dog\t0.9\n")
    described = describe(Config(1, ("noun", "shuffle"), tmp_path / "here" / "norms.tsv"))
    assert described == describe(Config(1, ("noun", "shuffle"), tmp_path / "there" / "norms.tsv"))
    assert described["operators"] == ["noun", "shuffle"]
    assert described["concreteness"].startswith("norms.tsv sha256:")
    (tmp_path / "there" / "norms.tsv").write_text("dog\t0.8\n")
    assert described != describe(Config(1, ("noun", "shuffle"), tmp_path / "there" / "norms.tsv"))
    assert describe({"folder": tmp_path / "here"}) != describe({"folder": tmp_path / "there"})
    with pytest.raises(FileNotFoundError):
        describe(Config(1, (), tmp_path / "nowhere"))


def test_the_schema_hash_follows_names_types_nulls_and_version() -> None:
    def one(name: str = "a", type: pa.DataType = pa.int32(), version: int = 1, nullable: bool = False) -> str:  # noqa: B008
        return hash_schema(schema("t", version, field(name, type, "d", nullable=nullable)))

    assert one(type=pa.list_(pa.field("item", pa.string()))) == one(type=pa.list_(pa.field("element", pa.string())))
    struct = [pa.list_(pa.struct([field("x", pa.int32(), text)])) for text in ("d", "e")]
    hashes = {one(), one("b"), one(type=pa.int64()), one(version=2), one(nullable=True), *map(one, "xy", struct)}
    assert len(hashes) == 7
