import ast
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.errors import DamagedShardError
from negcap.pipelines.engine.manifest import Manifest, manifest_path, read_manifest, write_manifest
from negcap.pipelines.engine.shards import list_shards, shard_path
from negcap.pipelines.engine.tables import WholeTable, has_table, hash_table, read_table, shards_of, verify
from tests.pipelines.engine.test_shards import notes
from tests.pipelines.engine.toy_stages import TEXTS, ToyConfig, run_toys, write_captions
from tests.sources import below, name_of, nodes
from tests.tables import DAMAGES, halve, write_table

BYTES = "its bytes are not those that were written"


def write(run: Path, *shards: tuple[str, ...]) -> Path:
    for index, texts in enumerate(shards):
        write_table(run, "notes", notes(*texts), index)
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(tmp_path / "run", ("a", "b"), ("c", "d"), ("e", "f"))


def take_from_another_run(shard: Path, random: Random) -> None:
    other = write(shard.parent.parent.parent / "other", ("a", "x"), ("c", "x"), ("e", "x"))
    shard.write_bytes((other / "notes" / shard.name).read_bytes())


@pytest.mark.parametrize("damage", [*DAMAGES.values(), take_from_another_run], ids=[*DAMAGES, "of another run"])
def test_damage_is_found_by_whoever_reads(run: Path, damage: Callable[[Path, Random], None]) -> None:
    whole = WholeTable(run / "notes", hash_table(run, "notes"))
    shard = shard_path(run / "notes", 2)
    damage(shard, Random(0))
    for read in (whole.read, whole.check, lambda: list(read_table(run, "notes", ["text"]))):
        with pytest.raises(DamagedShardError) as caught:
            read()
        said = f"is damaged: {BYTES}" if shard.exists() else "is missing"
        assert str(caught.value) == f"{shard} {said}; negcap made makes it again"


def test_a_table_is_read_shard_by_shard_or_whole(run: Path) -> None:
    assert [table.num_rows for table in read_table(run, "notes")] == [2, 2, 2]
    assert [(shard.name, shard.rows) for shard in shards_of(run, "notes")][1] == ("notes/part-00001.parquet", 2)
    whole = WholeTable(run / "notes", hash_table(run, "notes"))
    assert whole.read(["text"])["text"].to_pylist() == list("abcdef")
    with pytest.raises(FileNotFoundError, match="has no words"):
        list(read_table(run, "words"))
    assert has_table(run, "notes") and not has_table(run, "words")


def test_shards_that_are_gone_new_or_too_many_are_refused(run: Path) -> None:
    whole = WholeTable(run / "notes", hash_table(run, "notes"))
    write_table(run, "notes", notes("g"), 1)
    with pytest.raises(DamagedShardError, match="was made anew while it was being used"):
        whole.read()
    copy_shard(run / "notes", 0, 3)
    with pytest.raises(DamagedShardError, match=r"part-00003\.parquet is not in the manifest .* lists 3 shards"):
        shards_of(run, "notes")
    for shard in list_shards(run / "notes"):
        shard.unlink()
    assert has_table(run, "notes")  # it is not taken for none
    with pytest.raises(DamagedShardError, match=r"part-00000\.parquet is missing"):
        shards_of(run, "notes")


def test_an_unfinished_table_is_read_only_on_demand(run: Path) -> None:
    manifest = read_manifest(run / "notes")
    assert manifest is not None
    write_manifest(run / "notes", Manifest(manifest.identity))
    halve(shard_path(run / "notes", 1))
    with pytest.raises(ValueError, match="notes is not complete: run negcap made"):
        shards_of(run, "notes")
    assert [shard.path.name[7:10] for shard in shards_of(run, "notes", unfinished=True)] == ["000", "002"]
    manifest_path(run / "notes").unlink()
    with pytest.raises(ValueError, match="notes cannot be checked: it has no manifest in _manifests"):
        shards_of(run, "notes")


def test_a_good_run_has_no_problems(toys: Path, tmp_path: Path) -> None:
    verdict = verify(toys)
    assert (verdict.problems, verdict.tables, verdict.shards) == ((), 4, 10 + 10 + 10 + 1)
    assert verdict.rows > 200
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="must be the folder of a run, .* makes one"):
            verify(folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_found(toys: Path, damage: str) -> None:
    tables = ("words", "short", "captions", "counts")
    for table in tables:
        DAMAGES[damage](shard_path(toys / table, 0), Random(0))
    said = "missing" if damage == "file removed" else f"damaged, {BYTES}"
    assert {*verify(toys).problems} == {f"{table}/part-00000.parquet: {said}" for table in tables}


def copy_shard(folder: Path, source: int, target: int) -> None:
    shutil.copy(shard_path(folder, source), shard_path(folder, target))


def test_an_unfinished_stage_and_stray_shards_are_found(toys: Path) -> None:
    manifest = manifest_path(toys / "words")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "complete": False}))
    copy_shard(toys / "counts", 0, 1)
    copy_shard(toys / "captions", 1, 2)
    shutil.copytree(toys / "short", toys / "stray")
    (toys / "short" / "part-00001.parquet.12ab.tmp").touch()
    assert set(verify(toys).problems) == {
        f"captions/part-00002.parquet: damaged, {BYTES}",
        "words: unfinished, run split again",
        "counts/part-00001.parquet: not in the manifest of count",
        "stray: no manifest names its shards",
    }


def test_a_stage_made_from_an_older_input_is_found(toys: Path) -> None:
    write_captions(toys, TEXTS[:30], 10)
    assert "words: was made from other captions, run split again with --overwrite" in verify(toys).problems
    run_toys(toys, ToyConfig(), scheduler="synchronous", overwrite=True)
    assert verify(toys).problems == ()


def test_a_garbled_manifest_is_one_line(toys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partial = '{"identity": {"stage": "split"}, "shards": []}', '{"identity": {}, "shards": [{"words": 7}]}'
    for text in ("{", "[]", "{}", "[" * 100_000, '{"a":' * 100_000, *partial):
        manifest_path(toys / "words").write_text(text)
        with pytest.raises(ValueError, match="_manifests/words.json must be a negcap manifest, is unreadable"):
            read_manifest(toys / "words")
        assert any("words.json must be a negcap manifest" in problem for problem in verify(toys).problems)
        assert main(["info", str(toys)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


OWN_FILES = {  # sources that open Parquet files which are no tables of a run, or write them
    "pipelines/engine/shards.py",
    "pipelines/models/order/taxonomy.py",
    "pipelines/readers/table.py",
    "pipelines/tables/corpus.py",
    "pipelines/ingestion/grouping.py",
    "pipelines/stages/ingest.py",
    "pipelines/stages/lexicon.py",
    "pipelines/resources/cloze/corpus.py",
}
OPENERS = {"ParquetFile", "ParquetDataset", "read_table", "read_schema", "read_metadata"}


def test_no_other_source_opens_a_parquet_file() -> None:
    found = {
        name_of(path)
        for path in below("pipelines/")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in OPENERS and ast.unparse(node.value) in ("pq", "pd", "pl")
    }
    assert found == OWN_FILES
