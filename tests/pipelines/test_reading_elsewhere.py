"""A table's folder holds Parquet only: what reads Parquet opens it by its path alone, every table of a run."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.shards import list_shards


def by_pandas(folder: str) -> int:
    import pandas

    return len(pandas.read_parquet(folder))


def by_duckdb(folder: str) -> int:
    import duckdb

    return len(duckdb.sql(f"FROM '{folder}/*.parquet'").fetchall())


def by_datasets(folder: str) -> int:
    import datasets

    # fixed-shape tensors have no type of their own there
    features = {"image_id": datasets.Value("string"), "feature": datasets.Sequence(datasets.Value("float16"))}
    given = datasets.Features(features) if "/features" in folder else None
    try:
        return len(datasets.load_dataset(folder, split="train", features=given))
    except ValueError as error:  # it has no notion of a table without rows
        assert "corresponds to no data" in str(error)
        return 0


@pytest.fixture(scope="module")
def expected(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The rows of every table of a run of captions, and of a run of drawn scenes, which has features too."""
    scenes = tmp_path_factory.mktemp("scenes") / "run"
    assert main(["scenes", "--output", str(scenes), "--images", "6", "--quiet"]) == 0
    folders = [path for run in (sample_run, scenes) for path in run.iterdir()]
    tables = [path for path in folders if path.name[0] not in "._" and path.name != "images"]
    return {str(path): sum(pq.read_metadata(shard).num_rows for shard in list_shards(path)) for path in tables}


@pytest.mark.filterwarnings("ignore")  # libraries warn of one another
@pytest.mark.parametrize("count_rows", [by_pandas, by_duckdb, by_datasets])
def test_every_table_opens_by_its_folder(count_rows, expected, datasets_cache):
    assert {folder: count_rows(folder) for folder in expected} == expected
    assert {Path(folder).name for folder in expected} >= {"captions", "parses", "negatives", "features", "components"}
