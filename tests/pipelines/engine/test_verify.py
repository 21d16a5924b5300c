import json
import shutil
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.manifest import MANIFEST, manifest_path, read_manifest
from negcap.pipelines.engine.shards import read_receipt, receipt_path, shard_path
from negcap.pipelines.engine.tables import verify
from tests.pipelines.engine.test_shards import DAMAGES
from tests.pipelines.engine.toy_stages import ToyConfig, run_toys, write_captions

TEXTS = [f"a dog chases {i} birds" for i in range(40)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("made") / "run"
    write_captions(run, TEXTS, 10)
    run_toys(run, scheduler="synchronous")
    return run


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def test_a_good_run_has_no_problems(run: Path) -> None:
    verdict = verify(run)
    assert verdict.problems == ()
    assert verdict.tables == 4
    assert verdict.shards == 4 + 4 + 4 + 1
    assert verdict.rows > 200


@pytest.mark.parametrize("table", ["words", "short", "captions", "counts"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_found(run: Path, damage, table: str) -> None:  # type: ignore[no-untyped-def]
    damage(shard_path(run / table, 0))
    found = [problem for problem in verify(run).problems if problem.startswith(f"{table}/part-00000.parquet: ")]
    assert len(found) == 1
    words = {"cut_short": "damaged", "change_a_byte": "damaged", "empty": "damaged", "remove": "missing"}
    assert words.get(damage.__name__, "no readable receipt") in found[0]


def copy_shard(folder: Path, source: int, target: int) -> None:
    old, new = shard_path(folder, source), shard_path(folder, target)
    shutil.copy(old, new)
    shutil.copy(receipt_path(old), receipt_path(new))


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_forged_receipt_is_found(run: Path) -> None:
    edit(receipt_path(shard_path(run / "words", 1)), key="f" * 64)
    edit(receipt_path(shard_path(run / "words", 2)), rows=7)
    assert verify(run).problems == (
        "words/part-00001.parquet: not made from what its manifest states",
        "words/part-00002.parquet: receipt and manifest disagree",
    )


def test_a_swapped_shard_is_found(run: Path) -> None:
    copy_shard(run / "words", 1, 2)
    problems = verify(run).problems
    assert "words/part-00002.parquet: receipt and manifest disagree" in problems
    assert "words/part-00002.parquet: damaged, its bytes are not those that were written" in problems


def test_an_unfinished_stage_and_stray_shards_are_found(run: Path) -> None:
    edit(manifest_path(run / "words"), complete=False)
    copy_shard(run / "counts", 0, 1)
    shutil.copytree(run / "short", run / "stray")
    (run / "short" / "part-00001.parquet.12ab.tmp").touch()
    assert set(verify(run).problems) == {
        "words: unfinished, run split again",
        "words: was made from other counts, run split again with --overwrite",
        "counts/part-00001.parquet: not in the manifest of count",
        f"stray: no {MANIFEST} names its shards",
    }


def test_a_stage_made_from_an_older_input_is_found(run: Path) -> None:
    write_captions(run, TEXTS[:30], 10)
    assert "words: was made from other captions, run split again with --overwrite" in verify(run).problems
    run_toys(run, ToyConfig(), scheduler="synchronous", overwrite=True)
    assert verify(run).problems == ()


def test_a_garbled_manifest_and_other_columns_are_found(run: Path) -> None:
    manifest = json.loads(manifest_path(run / "words").read_text())
    manifest["identity"]["schemas"]["short"] = "0" * 64
    manifest_path(run / "words").write_text(json.dumps(manifest))
    assert "short/part-00000.parquet: its columns are not those of short" in verify(run).problems
    manifest_path(run / "words").write_text("{")
    said = f"_receipts/words/{MANIFEST} must be a negcap manifest"
    assert any(problem.startswith(said) for problem in verify(run).problems)


def test_nothing_to_verify(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="must be the folder of a run, has no tables"):
            verify(folder)


DEEP = "[" * 100_000 + "]" * 100_000
ODD: list[tuple[tuple[str, ...], object]] = [
    ((), []),
    ((), 7),
    (("format",), 2),
    (("complete",), "yes"),
    (("shards",), 7),
    (("shards",), [7]),
    (("shards",), [{"words": 7}]),
    (("shards",), [{"words": {"rows": 1}}]),
    (("shards",), [{"words": {"rows": "1", "sha256": "x"}}]),
    (("counts",), {"captions": "many"}),
    (("counts",), []),
    (("identity",), None),
    (("identity",), {"stage": "split"}),
    (("identity", "stage"), 7),
    (("identity", "schemas"), ["words"]),
    (("identity", "schemas"), {"words": 7}),
    (("identity", "inputs"), None),
    (("identity", "config"), "none"),
    (("identity", "metadata"), {"seed": [1]}),
]


@pytest.mark.parametrize("place, value", ODD)
def test_an_odd_manifest_is_one_line(
    run: Path, place: tuple[str, ...], value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = manifest_path(run / "words")
    found = whole = json.loads(path.read_text())
    for name in place[:-1]:
        found = found[name]
    if place:
        found[place[-1]] = value
    path.write_text(json.dumps(whole if place else value))
    with pytest.raises(ValueError, match="manifest.json must be a negcap manifest, is unreadable"):
        read_manifest(run / "words")
    assert any("is unreadable" in problem for problem in verify(run).problems)
    assert main(["info", str(run)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_manifest_and_a_receipt_nested_without_end_are_unreadable(run: Path) -> None:
    manifest_path(run / "words").write_text(DEEP)
    receipt_path(shard_path(run / "short", 1)).write_text(DEEP)
    assert read_receipt(shard_path(run / "short", 1)) is None
    with pytest.raises(ValueError, match="must be a negcap manifest, is unreadable"):
        read_manifest(run / "words")
