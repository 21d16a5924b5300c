"""Tables on disk: a shard proves itself, a manifest says what it was made from, and whoever reads finds damage."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine import manifest
from negcap.pipelines.engine.errors import DamagedShardError, OtherConfigError
from negcap.pipelines.engine.manifest import Identity, Manifest, describe, manifest_path, read_manifest, write_manifest
from negcap.pipelines.engine.output import Output
from negcap.pipelines.engine.shards import Shard, list_shards, sealed, shard_index, shard_path, write_shard
from negcap.pipelines.engine.storage import write_atomically
from negcap.pipelines.engine.tables import WholeTable, has_table, hash_table, read_table, shards_of, verify
from negcap.pipelines.stages.lexicon import LexiconConfig
from negcap.schemas.fields import int32, schema, text
from tests.cases import cases_of
from tests.conftest import ROOT
from tests.pipelines.engine.toy_stages import TEXTS, run_toys, write_captions
from tests.tables import DAMAGES, halve, write_table

NOTES = schema("notes", 1, text=text("a text"), stars=int32("a number"))
BYTES = "its bytes are not those that were written"


def notes(*texts: str) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.string()), "stars": pa.array([1] * len(texts), pa.int32())}, NOTES)


def write(folder: Path, index: int, *texts: str) -> Shard:
    counts = {"captions": len(texts)}
    return write_shard(notes(*texts), shard_path(folder, index), NOTES, "k", {"stage": "note"}, counts)


def identity(**changes: object) -> Identity:
    values = {"stage": "note", "config": {"seed": 1}, "metadata": {"negcap_version": "1"}, "tables": ("notes",),
              "code": "c", "inputs": {"captions": "i", "lexicon": "l"}, "sharded": "captions"}  # fmt: skip
    return Identity(**{**values, **changes})  # type: ignore[arg-type]


def output(run: Path, overwrite: bool = False, **changes: object) -> Output:
    made_from = identity(**changes)
    return Output(run, made_from, dict.fromkeys(made_from.tables, NOTES), overwrite)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a table of three shards."""
    for index, texts in enumerate(("ab", "cd", "ef")):
        write_table(tmp_path / "run", "notes", notes(*texts), index)
    return tmp_path / "run"


def test_a_shard_comes_back_with_its_provenance_and_descriptions(tmp_path):
    shard = write(tmp_path / "notes", 3, "ein Hund", "")
    path = tmp_path / "notes" / "part-00003.parquet"
    assert sealed(path) == shard
    assert shard == Shard(path, 2, hashlib.sha256(path.read_bytes()).hexdigest(), "k", {"captions": 2})
    table = shard.read()
    assert table.equals(notes("ein Hund", ""))
    assert table.schema.metadata == {b"table": b"notes", b"schema_version": b"1", b"stage": b"note"}
    assert table.schema.field("stars").metadata[b"description"] == b"a number"
    assert shard.read(("stars",)).column_names == ["stars"]
    assert write(tmp_path / "other", 7, "ein Hund", "").sha256 == shard.sha256  # the same rows are the same bytes
    like_a_seal = write(tmp_path / "like", 0, "negcap.seal\x18\x40" + "1" * 64)  # in the file it stands before the seal
    assert sealed(like_a_seal.path) == like_a_seal
    assert write(tmp_path / "empty", 0).read().num_rows == 0


def test_no_bit_of_a_shard_can_change_unseen(tmp_path):
    path = write(tmp_path, 0, "one").path
    whole = path.read_bytes()
    for position in range(0, len(whole), 5):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        assert sealed(path) is None, position


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "it failed")

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="cannot write: disk full, free some space"):
        write_atomically(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"


def take_from_another_run(shard: Path, random: Random) -> None:
    other = shard.parent.parent.parent / "other"
    for index in range(3):
        write_table(other, "notes", notes("x"), index)
    shutil.copy(other / "notes" / shard.name, shard)


@pytest.mark.parametrize("damage", [*DAMAGES.values(), take_from_another_run], ids=[*DAMAGES, "of another run"])
def test_damage_is_found_by_whoever_reads(run, damage):
    whole = WholeTable(run / "notes", hash_table(run, "notes"))
    shard = shard_path(run / "notes", 2)
    damage(shard, Random(0))
    why = f"damaged: {BYTES}" if shard.exists() else "missing"
    for read in (whole.read, whole.check, lambda: list(read_table(run, "notes", ["text"]))):
        with pytest.raises(DamagedShardError, match=f"^{shard} is {why}; negcap made makes it again$"):
            read()
    assert verify(run).problems == (f"notes/part-00002.parquet: {why.replace(': ', ', ')}",)
    if damage is not take_from_another_run:  # whose shards are whole
        assert sealed(shard) is None


def test_shards_that_are_gone_new_or_too_many_are_refused(run):
    whole = WholeTable(run / "notes", hash_table(run, "notes"))
    write_table(run, "notes", notes("g"), 1)
    with pytest.raises(DamagedShardError, match="was made anew while it was being used"):
        whole.read()
    shutil.copy(shard_path(run / "notes", 0), shard_path(run / "notes", 3))
    with pytest.raises(DamagedShardError, match=r"part-00003\.parquet is not in the manifest .* lists 3 shards"):
        shards_of(run, "notes")
    for shard in list_shards(run / "notes"):
        shard.unlink()
    assert has_table(run, "notes") and not has_table(run, "words")  # it is not taken for none
    with pytest.raises(DamagedShardError, match=r"part-00000\.parquet is missing"):
        shards_of(run, "notes")


def test_an_unfinished_table_is_read_only_on_demand(run):
    complete = read_manifest(run / "notes")
    assert complete is not None
    write_manifest(run / "notes", Manifest(complete.identity))
    halve(shard_path(run / "notes", 1))
    with pytest.raises(ValueError, match="notes is not complete: run negcap made"):
        shards_of(run, "notes")
    assert [shard_index(shard.path) for shard in shards_of(run, "notes", unfinished=True)] == [0, 2]


def test_a_good_run_has_no_problems_and_every_other_one_is_told(toys):
    good = verify(toys)
    assert (good.problems, good.tables, good.shards) == ((), 4, 10 + 10 + 10 + 1) and good.rows > 200
    unfinished = manifest_path(toys / "words")
    unfinished.write_text(json.dumps({**json.loads(unfinished.read_text()), "complete": False}))
    shutil.copy(shard_path(toys / "counts", 0), shard_path(toys / "counts", 1))
    shutil.copy(shard_path(toys / "captions", 1), shard_path(toys / "captions", 2))
    shutil.copytree(toys / "short", toys / "stray")
    assert set(verify(toys).problems) == {
        f"captions/part-00002.parquet: damaged, {BYTES}",
        "words: unfinished, run split again",
        "counts/part-00001.parquet: not in the manifest of count",
        "stray: no manifest names its shards",
    }


def test_a_stage_made_from_an_older_input_is_found(toys):
    write_captions(toys, TEXTS[:30], 10)
    assert "words: was made from other captions, run split again with --overwrite" in verify(toys).problems
    run_toys(toys, overwrite=True)
    assert verify(toys).problems == ()


@pytest.mark.parametrize("change, said", cases_of(__file__)["shards"]["differences"])
def test_another_identity_is_refused_by_name(change, said, tmp_path):
    change = {name: tuple(value) if name == "tables" else value for name, value in change.items()}
    other = identity(**change)
    folder = tmp_path / other.tables[-1]
    write_manifest(folder, Manifest(identity()))
    assert identity().difference(other) == said and other.key("shard") != identity().key("shard")
    with pytest.raises(OtherConfigError) as caught:
        output(tmp_path, **change)
    assert str(caught.value).startswith(f"{folder} was made with other settings or input: {said} (--overwrite ")
    assert read_manifest(folder) == Manifest(identity())
    output(tmp_path, overwrite=True, **change).begin()
    assert read_manifest(folder) == Manifest(other)


def test_the_key_of_a_shard_counts_its_own_input_not_the_others():
    grown = identity(inputs={"captions": "more", "lexicon": "l"})
    assert grown.key("shard") == identity().key("shard") != identity().key("other")
    assert grown.key() != identity().key()


def test_a_finished_stage_sums_counts_and_drops_shards_beyond_its_last(tmp_path):
    made = [{"notes": write(tmp_path / "notes", index, *texts)} for index, texts in enumerate(["ab", "c", "d"])]
    assert output(tmp_path, overwrite=True).finish(made[:2]) == {"captions": 3}
    complete = read_manifest(tmp_path / "notes")
    assert complete is not None and complete.complete and complete.counts == {"captions": 3}
    assert [shard["notes"]["rows"] for shard in complete.shards] == [2, 1]
    assert [path.name for path in list_shards(tmp_path / "notes")] == ["part-00000.parquet", "part-00001.parquet"]
    assert str(tmp_path) not in manifest_path(tmp_path / "notes").read_text()


@pytest.mark.parametrize("garbled", ["{", "[]", "{}", "[" * 100_000, '{"identity": {}, "shards": [{"words": 7}]}'])
def test_a_garbled_manifest_is_refused(garbled, toys, capsys):
    manifest_path(toys / "words").write_text(garbled)
    assert any("words.json must be a negcap manifest" in problem for problem in verify(toys).problems)
    assert main(["info", str(toys)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(OtherConfigError, match="is unreadable"):
        output(toys, tables=("words",))
    manifest_path(toys / "words").unlink()
    with pytest.raises(OtherConfigError, match="it has shards but no manifest .--overwrite"):
        output(toys, tables=("words",))


def test_a_path_counts_by_name_and_content_never_by_place(tmp_path):
    here, there = (tmp_path / place / "norms.tsv" for place in ("here", "there"))
    for path in (here, there):
        path.parent.mkdir()
        path.write_text("dog\t0.9\n")
    described = describe(LexiconConfig(concreteness=here))
    assert described == describe(LexiconConfig(concreteness=there)) and described["min_concreteness"] == 0.6
    there.write_text("dog\t0.8\n")
    assert described != describe(LexiconConfig(concreteness=there))
    assert describe({"folder": here.parent}) != describe({"folder": there.parent})


@pytest.mark.parametrize("changed, makes_rows", cases_of(__file__)["shards"]["sources"].items())
def test_the_code_of_a_stage_is_all_that_can_make_rows(changed, makes_rows, monkeypatch):
    before = manifest.code_of(describe)
    assert manifest.code_of("negcap.pipelines.stages.parse") == before != manifest.code_of(notes)  # with this file
    sha256_file = manifest.sha256_file
    assert (ROOT / changed).exists()
    monkeypatch.setattr(manifest, "sha256_file", lambda path: "" if path == ROOT / changed else sha256_file(path))
    manifest._package_code_hash.cache_clear()
    try:
        assert (manifest.code_of(describe) != before) == makes_rows
        if makes_rows:
            with pytest.raises(RuntimeError, match="this worker has another version of negcap's code"):
                manifest.check_code(before, describe)
    finally:
        manifest._package_code_hash.cache_clear()
