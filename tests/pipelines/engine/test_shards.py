import errno
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.augment.settings import Settings
from negcap.pipelines.engine import manifest
from negcap.pipelines.engine.errors import DamagedShardError, OtherConfigError
from negcap.pipelines.engine.manifest import (
    Identity,
    Manifest,
    describe,
    difference,
    finish,
    manifest_path,
    prepare,
    read_manifest,
    write_manifest,
)
from negcap.pipelines.engine.shards import (
    Origin,
    Receipt,
    current_receipts,
    list_shards,
    read_receipt,
    remove_shards,
    shard_index,
    shard_path,
    write_shard,
)
from negcap.pipelines.engine.tables import read_shard
from negcap.schemas.fields import field, schema
from tests.conftest import ROOT

NOTES = schema("notes", 1, field("text", pa.string(), "a text"), field("stars", pa.int32(), "a number"))
SPANS = schema(
    "spans",
    1,
    field("spans", pa.list_(pa.field("item", pa.struct([field("start", pa.int32(), "from")]), nullable=False)), "all"),
)


def notes(*texts: str) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.string()), "stars": pa.array([1] * len(texts), pa.int32())}, NOTES)


def write(folder: Path, index: int, *texts: str, key: str = "k") -> Receipt:
    return write_shard(
        notes(*texts), shard_path(folder, index), NOTES, Origin(key, {"stage": "note"}, {"captions": len(texts)})
    )


def identity(**changes: object) -> Identity:
    values = {"stage": "note", "config": {"seed": 1}, "metadata": {"negcap_version": "1"}, "tables": ("notes",),
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
    assert back.schema.equals(SPANS)


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
    (folder / "notes.txt").touch()
    assert [shard_index(shard) for shard in list_shards(folder)] == [2, 99999, 100000]
    assert list_shards(tmp_path / "nowhere") == []
    with pytest.raises(ValueError, match=r"part-<number>\.parquet, was: notes\.txt"):
        shard_index(folder / "notes.txt")
    remove_shards(folder, 3)
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "part-00002.parquet"]


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


def take_the_seal(shard: Path) -> None:
    table = pq.read_table(shard)
    pq.write_table(table, shard)


def change_the_footer(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes().replace(b'{"counts"', b'{"Counts"'))


DAMAGES = [cut_short, change_a_byte, empty, remove, take_the_seal, change_the_footer]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_not_current(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    receipt = write(tmp_path / "notes", 0, "one", "two")
    shard = shard_path(tmp_path / "notes", 0)
    assert current_receipts(tmp_path, ["notes"], 0, "k") == {"notes": receipt}
    assert current_receipts(tmp_path, ["notes", "other"], 0, "k") is None
    assert current_receipts(tmp_path, ["notes"], 0, "other") is None
    damage(shard)
    assert current_receipts(tmp_path, ["notes"], 0, "k") is None and read_receipt(shard) is None
    said = "is missing" if damage is remove else r"part-00000\.parquet is damaged: its bytes are not"
    with pytest.raises(DamagedShardError, match=said):
        read_shard(shard, sha256=receipt.sha256)


def test_no_bit_of_a_shard_can_change_unseen(tmp_path: Path) -> None:
    write(tmp_path, 0, "one")
    shard = shard_path(tmp_path, 0)
    whole = shard.read_bytes()
    for position in range(len(whole)):
        shard.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        assert read_receipt(shard) is None, position


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_shard_or_none(tmp_path: Path, monkeypatch, failing: str) -> None:  # type: ignore[no-untyped-def]
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"os.{failing}", full)
    with pytest.raises(OSError, match="disk full, free some space and run again") as caught:
        write(tmp_path / "notes", 0, "a")
    assert caught.value.filename == str(tmp_path / "notes" / "part-00000.parquet")
    assert list((tmp_path / "notes").iterdir()) == []


@pytest.mark.parametrize(
    "change, said",
    [
        ({"stage": "other"}, "stage was note, is now other"),
        ({"config": {"seed": 2}}, "seed was 1, is now 2"),
        ({"config": {"seed": 1, "operators": ["noun"]}}, 'operators was unset, is now ["noun"]'),
        ({"metadata": {"negcap_version": "2"}}, "negcap_version was 1, is now 2"),
        ({"inputs": {"captions": "i", "lexicon": "other"}}, "its input lexicon has changed"),
        ({"tables": ("notes", "more")}, "its tables were notes, are now notes, more"),
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
    found = finish(tmp_path, ("notes",), identity(), made[:2])
    assert found.counts == {"captions": 3}
    assert [shard["notes"]["rows"] for shard in found.shards] == [2, 1]
    assert len(list_shards(tmp_path / "notes")) == 2
    assert read_manifest(tmp_path / "notes") == found
    text = manifest_path(tmp_path / "notes").read_text()
    assert json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n" == text
    assert str(tmp_path) not in text


def test_shards_without_or_with_a_garbled_manifest_are_refused(tmp_path: Path) -> None:
    write(tmp_path, 0, "a")
    with pytest.raises(OtherConfigError, match="it has shards but no manifest .--overwrite"):
        prepare(tmp_path, identity())
    manifest_path(tmp_path).write_text("{")
    with pytest.raises(OtherConfigError, match="is unreadable"):
        prepare(tmp_path, identity())
    write_manifest(tmp_path, Manifest(identity()))
    prepare(tmp_path, identity())


class Config(Settings):
    operators: tuple[str, ...] = ("noun", "shuffle")
    concreteness: Path | None


def test_a_path_counts_by_name_and_content_never_by_place(tmp_path: Path) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "norms.tsv").write_text("dog\t0.9\n")
    described = describe(Config(concreteness=tmp_path / "here" / "norms.tsv"))
    assert described == describe(Config(concreteness=tmp_path / "there" / "norms.tsv"))
    assert described["operators"] == ["noun", "shuffle"]
    assert described["concreteness"].startswith("norms.tsv sha256:")
    (tmp_path / "there" / "norms.tsv").write_text("dog\t0.8\n")
    assert described != describe(Config(concreteness=tmp_path / "there" / "norms.tsv"))
    assert describe({"folder": tmp_path / "here"}) != describe({"folder": tmp_path / "there"})
    with pytest.raises(FileNotFoundError):
        describe(Config(concreteness=tmp_path / "nowhere"))


def test_the_code_of_a_stage_is_all_that_can_make_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    before, changed = manifest.code_of(describe), "none"
    assert manifest.code_of("negcap.pipelines.stages.parse").sha256 == before.sha256
    assert manifest.code_of(notes).sha256 != before.sha256  # with this file
    plain = manifest.sha256_file
    monkeypatch.setattr(manifest, "sha256_file", lambda path: plain(path) + "*" * path.as_posix().endswith(changed))
    for changed, counts in {
        "augment/operators/noun.py": True,
        "augment/data/verbs.toml": True,
        "schemas/negatives.py": True,
        "pipelines/stages/parse.py": True,
        "pipelines/readers/formats.py": True,
        "pipelines/engine/cluster.py": False,
        "pipelines/report/summary.py": False,
        "tests/conftest.py": False,
    }.items():
        assert (ROOT / changed).exists()
        manifest._package_code.cache_clear()
        assert (manifest.code_of(describe) != before) == counts, changed
        if counts:
            with pytest.raises(RuntimeError, match="this worker has another version of negcap's code"):
                before.check()
    monkeypatch.undo()
    manifest._package_code.cache_clear()
    before.check()
