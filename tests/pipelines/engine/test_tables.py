import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from negcap.pipelines.engine.errors import DamagedShardError
from negcap.pipelines.engine.manifest import Manifest, hash_table, manifest_path, read_manifest, write_manifest
from negcap.pipelines.engine.shards import list_shards, receipt_path, shard_path
from negcap.pipelines.engine.tables import WholeTable, has_table, hash_finished, read_table, shards_of
from tests.pipelines.engine.test_shards import change_a_byte, cut_short, empty, notes, remove
from tests.sources import below, name_of, nodes
from tests.tables import halve, replace_shard, write_table

BYTES = "its bytes are not those of its receipt"


def write(run: Path, *shards: tuple[str, ...]) -> Path:
    for index, texts in enumerate(shards):
        write_table(run, "notes", notes(*texts), index)
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(tmp_path / "run", ("a", "b"), ("c", "d"), ("e", "f"))


def remove_with_receipt(shard: Path) -> None:
    receipt_path(shard).unlink()
    shard.unlink()


def take_from_another_run(shard: Path) -> None:
    other = write(shard.parent.parent.parent / "other", ("a", "x"), ("c", "x"), ("e", "x"))
    for path in (shard, receipt_path(shard)):
        path.write_bytes((other / path.relative_to(shard.parent.parent)).read_bytes())


@pytest.mark.parametrize(
    "damage, said",
    [
        (halve, BYTES),
        (change_a_byte, BYTES),
        (cut_short, BYTES),
        (empty, BYTES),
        (take_from_another_run, BYTES),
        (remove, "is missing"),
        (remove_with_receipt, "is missing"),
    ],
)
@pytest.mark.parametrize("index", [1, 2])
def test_damage_is_found_by_whoever_reads(run: Path, damage: Callable[[Path], None], said: str, index: int) -> None:
    whole = WholeTable(run / "notes", hash_table(run, "notes"))
    shard = shard_path(run / "notes", index)
    damage(shard)
    for read in (whole.read, whole.check, lambda: list(read_table(run, "notes", ["text"]))):
        with pytest.raises(DamagedShardError) as caught:
            read()
        message = str(caught.value)
        assert message.startswith(f"{shard} ") and said in message
        assert message.endswith("; negcap made makes it again") and "\n" not in message


def test_a_table_is_read_shard_by_shard_or_whole(run: Path) -> None:
    assert [table.num_rows for table in read_table(run, "notes")] == [2, 2, 2]
    assert [(shard.name, shard.rows) for shard in shards_of(run, "notes")][1] == ("notes/part-00001.parquet", 2)
    whole = WholeTable(run / "notes", hash_finished(run, "notes"))
    assert whole.read(["text"])["text"].to_pylist() == list("abcdef")
    with pytest.raises(FileNotFoundError, match="has no words"):
        list(read_table(run, "words"))
    assert has_table(run, "notes") and not has_table(run, "words")
    receipt_path(shard_path(run / "notes", 0)).unlink()
    with pytest.raises(ValueError, match=r"notes/part-00000\.parquet has no readable receipt"):
        hash_finished(run, "notes")


def test_a_table_that_lost_all_its_shards_is_not_taken_for_none(run: Path) -> None:
    for shard in list_shards(run / "notes"):
        shard.unlink()
    assert has_table(run, "notes")
    with pytest.raises(DamagedShardError, match=r"part-00000\.parquet is missing"):
        shards_of(run, "notes")


def test_a_table_made_anew_is_not_read_as_the_old_one(run: Path) -> None:
    whole = WholeTable(run / "notes", hash_table(run, "notes"))
    write_table(run, "notes", notes("g"), 1)
    with pytest.raises(DamagedShardError, match="was made anew while it was being used"):
        whole.read()


def test_a_shard_and_receipt_of_another_run_are_no_input(run: Path) -> None:
    take_from_another_run(shard_path(run / "notes", 1))
    with pytest.raises(DamagedShardError, match=r"part-00001\.parquet is of another run"):
        hash_finished(run, "notes")


def test_the_rows_that_a_manifest_states_are_counted(run: Path) -> None:
    shard = shard_path(run / "notes", 2)
    replace_shard(shard, notes("e"))
    manifest = read_manifest(run / "notes")
    assert manifest is not None
    shards = [{"notes": {**entry["notes"], "rows": 2}} for entry in manifest.shards]
    write_manifest(run / "notes", Manifest(manifest.identity, True, tuple(shards)))
    with pytest.raises(DamagedShardError, match=r"part-00002\.parquet is damaged: must have 2 rows, has 1"):
        list(read_table(run, "notes"))


def test_a_surplus_shard_is_refused(run: Path) -> None:
    write(run / "other", ("x",))
    shard_path(run / "notes", 3).write_bytes(shard_path(run / "other" / "notes", 0).read_bytes())
    with pytest.raises(DamagedShardError, match=r"part-00003\.parquet is not in the manifest .* lists 3 shards"):
        shards_of(run, "notes")


def test_an_unfinished_table_is_read_only_on_demand(run: Path) -> None:
    manifest = read_manifest(run / "notes")
    assert manifest is not None
    write_manifest(run / "notes", Manifest(manifest.identity))
    receipt_path(shard_path(run / "notes", 1)).unlink()  # it is being written
    with pytest.raises(ValueError, match="notes is not complete: run negcap made"):
        shards_of(run, "notes")
    assert [shard.path.name[7:10] for shard in shards_of(run, "notes", unfinished=True)] == ["000", "002"]
    manifest_path(run / "notes").unlink()
    with pytest.raises(ValueError, match="notes cannot be checked: it has no manifest in _receipts"):
        shards_of(run, "notes")


OWN_FILES = {  # sources that open Parquet files which are no tables of a run, or write them
    "pipelines/engine/listing.py",
    "pipelines/engine/tables.py",
    "pipelines/engine/verify.py",
    "pipelines/models/order/taxonomy.py",
    "pipelines/models/papers/tables.py",
    "pipelines/readers/pairs.py",
    "pipelines/readers/table.py",
    "pipelines/tables/corpus.py",
    "pipelines/ingestion/grouping.py",
    "pipelines/stages/ingest.py",
    "pipelines/stages/lexicon.py",
    "pipelines/resources/cloze/corpus.py",
}
OPENERS = {
    "ParquetFile",
    "ParquetDataset",
    "read_table",
    "read_schema",
    "read_metadata",
    "read_parquet",
    "scan_parquet",
}


def test_no_other_source_opens_a_parquet_file() -> None:
    found = set()
    for path in below("pipelines/"):
        for node in nodes(path):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in OPENERS
                and ast.unparse(node.value) in ("pq", "pd", "pl")
            ):
                found.add(name_of(path))
    assert found == OWN_FILES
