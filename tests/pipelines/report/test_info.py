import json
import shutil
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import list_shards
from negcap.pipelines.report.info import read_info, size
from negcap.schemas.captions import CAPTIONS
from tests.tables import rows_of


def test_info_counts_what_the_tables_hold(sample_run: Path) -> None:
    held = read_info(sample_run)
    captions = rows_of(sample_run, "captions")
    assert (held["captions"], held["images"]) == (len(captions), len({row["image_id"] for row in captions}))
    assert held["splits"] == {"unsplit": len(captions)}
    made = [row["operator"] for row in rows_of(sample_run, "negatives")]
    assert held["operators"]["negatives"] == {name: made.count(name) for name in set(made)}
    assert held["provenance"]["seed"] == "0" and held["provenance"]["parser"].startswith("en_")
    tables = {table["name"]: table for table in held["tables"]}
    assert list(tables)[:3] == ["captions", "rejected_records", "parses"]
    for name, table in tables.items():
        shards = list_shards(sample_run / name)
        assert table["rows"] == len(rows_of(sample_run, name))
        assert (table["shards"], table["bytes"]) == (len(shards), sum(shard.stat().st_size for shard in shards))
        assert table["state"] == "finished"
    assert tables["rejections"]["stage"] == "negatives"


def test_info_tells_what_no_longer_fits(sample_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sample_run, tmp_path / "run"))
    again = ["--set", "min_count=9", "--overwrite", "--scheduler", "synchronous", "--quiet"]
    assert main(["build", "--output", str(run), "--only", "lexicon", *again]) == 0
    states = {table["name"]: table["state"] for table in read_info(run)["tables"]}
    assert states["lexicon"] == states["parses"] == "finished"
    assert states["negatives"] == states["truth"] == "stale: made from other lexicon"
    shutil.rmtree(run / "balance")
    states = {table["name"]: table["state"] for table in read_info(run)["tables"]}
    assert "balance" not in states


def test_the_command_prints_a_table_or_json(sample_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(sample_run)]) == 0
    shown = capsys.readouterr().out
    assert "200 of 40 images" in shown and "finished" in shown
    assert main(["info", str(sample_run), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["captions"] == 200
    assert value["bytes"] == sum(table["bytes"] for table in value["tables"])
    assert [*map(size, (0, 999, 1000, 3_140_000, 2 * 10**12))] == ["0 B", "999 B", "1.0 kB", "3.1 MB", "2,000.0 GB"]


def test_the_columns_of_a_table_with_and_without_a_run(sample_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--columns", "negatives"]) == 0
    shown = capsys.readouterr().out
    assert "\np_true  float, or null\n    estimated probability" in shown
    assert main(["info", str(sample_run), "--columns", "negatives"]) == 0
    assert capsys.readouterr().out == shown
    assert main(["info", str(sample_run), "--columns", "captions", "--json"]) == 0
    assert [one["column"] for one in json.loads(capsys.readouterr().out)] == CAPTIONS.names
    assert main(["info", str(sample_run), "--columns", "negativs"]) == 2
    assert "was: negativs; did you mean negatives?" in capsys.readouterr().err
    assert main(["info", "--columns", "negative"]) == 2
    assert "embeddings, generated" in capsys.readouterr().err
    assert main(["info"]) == 2
    assert capsys.readouterr().err == "negcap info: RUN must be given, unless --columns is\n"
