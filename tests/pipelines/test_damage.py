"""No command accepts damaged tables: each ends in one line that names the file and what makes it again."""

import shutil
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import list_shards
from tests.cases import cases_of
from tests.conftest import HERE
from tests.pipelines.models.worlds import write_world
from tests.tables import content, halve


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The line in which a command that ends with exit status 2 says why."""
    capsys.readouterr()
    assert main(arguments) == 2
    (said,) = capsys.readouterr().err.splitlines()
    return said


@pytest.mark.parametrize("table, command", cases_of(__file__)["damage"]["commands"])
def test_every_command_checks_what_it_reads(sample_copy, table, command, capsys):
    shard = list_shards(sample_copy / table)[-1]
    halve(shard)
    damaged = content(sample_copy)
    out = sample_copy.parent / "out"
    words = command.replace("HERE", " ".join(HERE)).format(run=sample_copy, out=out).split()
    assert f"{table}/{shard.name} is damaged: its bytes are not" in refused(words, capsys)
    assert not out.exists() or not any(out.iterdir())
    if table in ("lexicon", "truth", "balance"):  # read whole: checked before anything is written
        assert content(sample_copy) == damaged


def test_the_lexicon_of_another_run_is_checked(sample_copy, sample_run, tmp_path, capsys):
    other = Path(shutil.copytree(sample_run, tmp_path / "other"))
    halve(other / "lexicon" / "part-00000.parquet")
    flags = ["--only", "lexicon", "--set", f"lexicon={other}", "--overwrite", *HERE]
    said = refused(["build", "--output", str(sample_copy), *flags], capsys)
    assert "other/lexicon/part-00000.parquet is damaged: its bytes are not" in said


@pytest.mark.parametrize("table", ["captions", "negatives", "features"])
def test_a_training_checks_what_it_reads(tmp_path, table, capsys):
    run = write_world(tmp_path / "run", (("train", 12), ("test", 4)))
    halve(run / table / "part-00000.parquet")
    train = ["train", str(run), "--output", str(tmp_path / "model"), "--set", "validation_images=4"]
    reads_negatives = ["--model", "vse-c"]
    assert f"{table}/part-00000.parquet is damaged" in refused([*train, *reads_negatives], capsys)
