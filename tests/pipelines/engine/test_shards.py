import errno
import hashlib
import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.augment.settings import Settings
from negcap.pipelines.engine import manifest
from negcap.pipelines.engine.errors import OtherConfigError
from negcap.pipelines.engine.manifest import Identity, Manifest, describe, manifest_path, read_manifest, write_manifest
from negcap.pipelines.engine.output import Output
from negcap.pipelines.engine.shards import Shard, list_shards, sealed, shard_index, shard_path, write_shard
from negcap.schemas.fields import column, int32, listed, schema, struct, text
from tests.conftest import ROOT
from tests.tables import DAMAGES

NOTES = schema("notes", 1, text=text("a text"), stars=int32("a number"))
SPANS = schema("spans", 1, spans=column(listed(struct(start=int32("from"))), "all"))


def notes(*texts: str) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.string()), "stars": pa.array([1] * len(texts), pa.int32())}, NOTES)


def write(folder: Path, index: int, *texts: str, key: str = "k") -> Shard:
    return write_shard(
        notes(*texts), shard_path(folder, index), NOTES, key, {"stage": "note"}, {"captions": len(texts)}
    )


def output(run: Path, overwrite: bool = False, **changes: object) -> Output:
    made = identity(**changes)
    return Output(run, made, dict.fromkeys(made.tables, NOTES), overwrite)


def identity(**changes: object) -> Identity:
    values = {"stage": "note", "config": {"seed": 1}, "metadata": {"negcap_version": "1"}, "tables": ("notes",),
              "code": "c", "inputs": {"captions": "i", "lexicon": "l"}, "sharded": "captions"}  # fmt: skip
    return Identity(**{**values, **changes})  # type: ignore[arg-type]


def test_a_shard_comes_back_with_its_provenance_and_descriptions(tmp_path: Path) -> None:
    shard = write(tmp_path / "notes", 3, "ein Hund", "")
    path = tmp_path / "notes" / "part-00003.parquet"
    assert sealed(path) == shard
    assert shard == Shard(path, 2, hashlib.sha256(path.read_bytes()).hexdigest(), "k", {"captions": 2})
    table = shard.read()
    assert table.equals(notes("ein Hund", ""))
    assert table.schema.metadata == {b"table": b"notes", b"schema_version": b"1", b"stage": b"note"}
    assert table.schema.field("stars").metadata[b"description"] == b"a number"
    assert shard.read(("stars",)).column_names == ["stars"]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    assert write(tmp_path / "other", 7, "ein Hund", "").sha256 == shard.sha256  # the same rows are the same bytes
    empty = write(tmp_path / "empty", 0)
    assert empty.rows == empty.read().num_rows == 0


def test_the_schema_of_a_nested_table_survives_the_file(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{"spans": [{"start": 1}]}, {"spans": []}], SPANS)
    back = write_shard(table, shard_path(tmp_path, 0), SPANS, "k", {"stage": "x"}).read()
    assert back.to_pylist() == table.to_pylist()
    assert back.schema.equals(SPANS)


def test_a_table_that_breaks_its_schema_is_not_written(tmp_path: Path) -> None:
    nulls = pa.table({"text": [None], "stars": [1]}, pa.schema([("text", pa.string()), ("stars", pa.int32())]))
    with pytest.raises(ValueError, match=r"notes\.text: must not be null"):
        write_shard(nulls, shard_path(tmp_path / "n", 0), NOTES, "k")
    with pytest.raises(ValueError, match="notes: columns must be"):
        write_shard(pa.table({"text": ["a"]}), shard_path(tmp_path / "n", 0), NOTES, "k")
    assert not (tmp_path / "n").exists()


def test_shards_are_listed_by_number(tmp_path: Path) -> None:
    for index in (100000, 99999, 2):
        write(tmp_path, index, "x")
    (tmp_path / "notes.txt").touch()
    names = ["part-00002.parquet", "part-99999.parquet", "part-100000.parquet"]
    assert [shard.name for shard in list_shards(tmp_path)] == names
    assert [shard_index(shard) for shard in list_shards(tmp_path)] == [2, 99999, 100000]
    assert list_shards(tmp_path / "nowhere") == []
    with pytest.raises(ValueError, match=r"part-<number>\.parquet, was: notes\.txt"):
        shard_index(tmp_path / "notes.txt")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_not_current(tmp_path: Path, damage: str) -> None:
    shard = write(tmp_path / "notes", 0, "one", "two")
    made = output(tmp_path, overwrite=True)
    assert made.current(0, "k") == {"notes": shard}
    assert made.current(0, "k", ["notes", "other"]) is made.current(0, "other") is None
    DAMAGES[damage](shard.path, Random(0))
    assert made.current(0, "k") is sealed(shard.path) is None


def test_no_bit_of_a_shard_can_change_unseen(tmp_path: Path) -> None:
    write(tmp_path, 0, "one")
    shard = shard_path(tmp_path, 0)
    whole = shard.read_bytes()
    for position in range(0, len(whole), 5):
        shard.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        assert sealed(shard) is None, position


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_shard_or_none(tmp_path: Path, monkeypatch, failing: str) -> None:  # type: ignore[no-untyped-def]
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"os.{failing}", full)
    with pytest.raises(OSError, match="disk full, free some space and run again") as caught:
        write(tmp_path / "notes", 0, "a")
    assert caught.value.filename == str(tmp_path / "notes" / "part-00000.parquet")
    assert list((tmp_path / "notes").iterdir()) == []


def test_another_identity_is_refused_by_name(tmp_path: Path) -> None:
    for number, (change, said) in enumerate((
        ({"stage": "other"}, "stage was note, is now other"),
        ({"config": {"seed": 2}}, "seed was 1, is now 2"),
        ({"config": {"seed": 1, "operators": ["noun"]}}, 'operators was unset, is now ["noun"]'),
        ({"metadata": {"negcap_version": "2"}}, "negcap_version was 1, is now 2"),
        ({"inputs": {"captions": "i", "lexicon": "other"}}, "its input lexicon has changed"),
        ({"inputs": {"captions": "i", "words": "l"}}, "its input lexicon is now called words"),
        ({"inputs": {"a.json": "i", "lexicon": "l"}}, "its input captions is now called a.json"),
        ({"inputs": {"captions": "i", "words": "other"}}, "its input lexicon has changed"),
        ({"inputs": {"captions": "i"}}, "its input lexicon has changed"),
        ({"inputs": {"captions": "l", "lexicon": "i"}}, "its input captions has changed"),
        ({"tables": ("notes", "more")}, "its tables were notes, are now notes, more"),
        ({"code": "other"}, "another version of negcap's code wrote it"),
    )):  # fmt: skip
        run, other = tmp_path / str(number), identity(**change)
        folder = run / other.tables[-1]
        write_manifest(folder, Manifest(identity()))
        assert identity().difference(other) == said
        with pytest.raises(OtherConfigError) as caught:
            output(run, **change).begin()
        refused = f"{folder} was made with other settings or input: {said} (--overwrite replaces it; "
        assert str(caught.value) == f"{refused}another output folder keeps it)"
        assert read_manifest(folder) == Manifest(identity())
        output(run, overwrite=True, **change).begin()
        assert read_manifest(folder) == Manifest(other)
        assert other.key("shard") != identity().key("shard")
    grown = identity(inputs={"captions": "more", "lexicon": "l"})  # a key counts its shard, not the others
    assert grown.key("shard") == identity().key("shard") != identity().key("other")
    assert grown.key() != identity().key()


def test_a_finished_stage_sums_counts_and_drops_shards_beyond_its_last(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    made = [{"notes": write(folder, index, *texts)} for index, texts in enumerate(["ab", "c", "d"])]
    (folder / "notes.txt").touch()
    assert output(tmp_path, overwrite=True).finish(made[:2]) == {"captions": 3}
    found = read_manifest(folder)
    assert found is not None and found.complete and found.counts == {"captions": 3}
    assert [shard["notes"]["rows"] for shard in found.shards] == [2, 1]
    assert {path.name for path in folder.iterdir()} == {"notes.txt", "part-00000.parquet", "part-00001.parquet"}
    text = manifest_path(folder).read_text()
    assert json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n" == text
    assert str(tmp_path) not in text


def test_shards_without_or_with_a_garbled_manifest_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "notes", 0, "a")
    with pytest.raises(OtherConfigError, match="it has shards but no manifest .--overwrite"):
        output(tmp_path)
    manifest_path(tmp_path / "notes").write_text("{")
    with pytest.raises(OtherConfigError, match="is unreadable"):
        output(tmp_path)
    write_manifest(tmp_path / "notes", Manifest(identity()))
    output(tmp_path).begin()


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
    assert manifest.code_of("negcap.pipelines.stages.parse") == before != manifest.code_of(notes)  # with this file
    plain = manifest.sha256_file
    monkeypatch.setattr(manifest, "sha256_file", lambda path: plain(path) + "*" * path.as_posix().endswith(changed))
    for changed, counts in {
        "augment/operators/numeral.py": True,
        "augment/data/verbs.toml": True,
        "schemas/negatives.py": True,
        "pipelines/stages/parse.py": True,
        "pipelines/readers/formats.py": True,
        "pipelines/engine/cluster.py": False,
        "pipelines/report/summary.py": False,
        "tests/conftest.py": False,
    }.items():
        assert (ROOT / changed).exists()
        manifest._package_code_hash.cache_clear()
        assert (manifest.code_of(describe) != before) == counts, changed
        if counts:
            with pytest.raises(RuntimeError, match="this worker has another version of negcap's code"):
                manifest.check_code(before, describe)
    monkeypatch.undo()
    manifest._package_code_hash.cache_clear()
    manifest.check_code(before, describe)
