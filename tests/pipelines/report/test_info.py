import json
import shutil
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import list_shards
from negcap.pipelines.report.info import columns_of, read_info, size
from negcap.schemas.captions import CAPTIONS
from tests.conftest import HERE
from tests.tables import rows_of


def test_info_counts_what_the_tables_hold(sample_run: Path) -> None:
    held = read_info(sample_run)
    captions = rows_of(sample_run, "captions")
    assert (held["captions"], held["images"]) == (len(captions), len({row["image_id"] for row in captions}))
    assert held["splits"] == {"unsplit": len(captions)}
    operators = [row["operator"] for row in rows_of(sample_run, "negatives")]
    assert held["operators"]["negatives"] == {name: operators.count(name) for name in set(operators)}
    assert held["provenance"]["seed"] == "0" and held["provenance"]["parser"].startswith("en_")
    tables = {table["name"]: table for table in held["tables"]}
    assert list(tables)[:3] == ["captions", "rejected_records", "parses"]
    for name, table in tables.items():
        sizes = [shard.stat().st_size for shard in list_shards(sample_run / name)]
        assert (table["shards"], table["bytes"]) == (len(sizes), sum(sizes))
        assert (table["rows"], table["state"]) == (len(rows_of(sample_run, name)), "finished")
    assert tables["rejections"]["stage"] == "negatives"


def test_info_tells_what_no_longer_fits(sample_copy: Path) -> None:
    again = ["--set", "min_count=9", "--overwrite", *HERE]
    assert main(["build", "--output", str(sample_copy), "--only", "lexicon", *again]) == 0
    shutil.rmtree(sample_copy / "balance")
    states = {table["name"]: table["state"] for table in read_info(sample_copy)["tables"]}
    assert states["lexicon"] == states["parses"] == "finished" and "balance" not in states
    assert states["truth"] == "stale: made from other lexicon" and states["negatives"].startswith("stale: ")


def test_the_command_prints_tables_and_columns_or_json(sample_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*flags: str) -> str:
        assert main(["info", *flags]) == 0
        return capsys.readouterr().out

    assert "200 of 40 images" in printed(str(sample_run))
    assert json.loads(printed(str(sample_run), "--json")) == json.loads(json.dumps(read_info(sample_run)))
    assert "\np_true  float, or null\n    estimated probability" in printed("--columns", "negatives")
    assert main(["info"]) == 2
    assert capsys.readouterr().err == "negcap info: RUN must be given, unless --columns is\n"
    assert [*map(size, (0, 999, 1000, 3_140_000, 2 * 10**12))] == ["0 B", "999 B", "1.0 kB", "3.1 MB", "2,000.0 GB"]


def test_the_columns_of_a_table_with_and_without_a_run(sample_run: Path) -> None:
    assert columns_of("negatives", sample_run) == columns_of("negatives", None)
    assert [column["column"] for column in columns_of("captions", sample_run)] == CAPTIONS.names
    with pytest.raises(ValueError, match="was: negativs; did you mean negatives"):
        columns_of("negativs", sample_run)
