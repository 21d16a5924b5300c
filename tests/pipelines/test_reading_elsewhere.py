"""A table's folder holds Parquet only: what reads Parquet opens it by its path alone, every table of a run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import list_shards

READERS = {
    "pandas": """
import pandas

def rows(folder):
    return len(pandas.read_parquet(folder))
""",
    "polars": """
import polars

def rows(folder):
    return polars.read_parquet(folder).height
""",
    "duckdb": """
import duckdb

def rows(folder):
    return len(duckdb.sql(f"SELECT * FROM '{folder}/*.parquet'").fetchall())
""",
    "dask.dataframe": """
import dask.dataframe

def rows(folder):
    return len(dask.dataframe.read_parquet(folder).compute())
""",
    "datasets": """
import datasets

# fixed-shape tensors have no type of their own there
FEATURES = {"image_id": datasets.Value("string"), "feature": datasets.Sequence(datasets.Value("float16"))}

def rows(folder):
    given = datasets.Features(FEATURES) if "/features" in folder else None
    try:
        return len(datasets.load_dataset(folder, split="train", features=given))
    except ValueError as error:  # it has no notion of a table without rows
        assert "corresponds to no data" in str(error)
        return 0
""",
    "torch": """
import pathlib
import pyarrow.parquet
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

class Rows(IterableDataset):
    def __init__(self, folder):
        self.shards = sorted(pathlib.Path(folder).iterdir())

    def __iter__(self):
        worker = get_worker_info()
        for shard in self.shards[worker.id :: worker.num_workers] if worker else self.shards:
            for batch in pyarrow.parquet.ParquetFile(shard).iter_batches():
                yield from range(batch.num_rows)

def rows(folder):
    return sum(map(len, DataLoader(Rows(folder), batch_size=256)))
""",
}
COUNT = "import json, sys\nprint(json.dumps({folder: rows(folder) for folder in sys.argv[1:]}))\n"


@pytest.fixture(scope="module")
def expected(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The rows of every table of a run of captions, and of a run of drawn scenes, which has features too."""
    scenes = tmp_path_factory.mktemp("scenes") / "run"
    assert main(["scenes", "--output", str(scenes), "--images", "6", "--quiet"]) == 0
    folders = [path for run in (sample_run, scenes) for path in run.iterdir()]
    tables = [path for path in folders if path.name[0] not in "._" and path.name != "images"]
    return {str(path): sum(pq.read_metadata(shard).num_rows for shard in list_shards(path)) for path in tables}


@pytest.mark.parametrize("name", READERS)
def test_every_table_opens_by_its_folder(name: str, expected: dict[str, int], tmp_path: Path) -> None:
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", READERS[name] + COUNT, *expected],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected
    assert {Path(folder).name for folder in expected} >= {"captions", "parses", "negatives", "features", "components"}


def test_a_tables_folder_holds_shards_only(expected: dict[str, int]) -> None:
    for folder in map(Path, expected):
        assert list_shards(folder) == sorted(folder.iterdir())
