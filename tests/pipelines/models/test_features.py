from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from negcap.pipelines.models.features import read_features
from tests.pipelines.models.trainer_world import write_features, write_table


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", [(4,), (3, 2)])
def test_features_are_matched_to_their_images(tmp_path: Path, dtype: type, shape: tuple[int, ...]) -> None:
    values = np.arange(3 * int(np.prod(shape))).reshape(3, *shape).astype(dtype)
    write_features(tmp_path, ["b", "x", "a"], values, "net")
    read = read_features(tmp_path, ["a", "b", "c"])
    assert read.backbone == "net" and read.available.tolist() == [True, True, False]
    assert read.values.numpy().dtype == dtype and read.values.shape == (3, *shape)
    assert (read.values[:2].numpy() == values[[2, 0]]).all()


def test_features_stored_as_tensors(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    schema = pa.schema([pa.field("image_id", pa.string(), False), pa.field("feature", column.type, False)])
    schema = schema.with_metadata({"shape": "[3, 2]", "backbone": "net"})
    write_table(tmp_path, "features", pa.Table.from_arrays([pa.array(["a", "b"]), column], schema=schema))
    assert (read_features(tmp_path, ["b", "a"]).values.numpy() == values[::-1]).all()


@pytest.mark.parametrize(
    ("values", "ids", "message"),
    [
        (np.ones((2, 3)), ["a", "a"], "must hold each image once, holds twice: a"),
        (np.full((2, 3), np.nan), ["a", "b"], "must be finite"),
        (np.ones((2, 3)), ["x", "y"], "must have features of its images, has none"),
    ],
)
def test_bad_features(tmp_path: Path, values: np.ndarray, ids: list[str], message: str) -> None:
    write_features(tmp_path, ids, values.astype(np.float32))
    with pytest.raises(ValueError, match=message):
        read_features(tmp_path, ["a", "b"])


def test_features_of_two_backbones_are_an_error(tmp_path: Path) -> None:
    write_features(tmp_path, ["a"], np.ones((1, 3), np.float32))
    (tmp_path / "features" / "part-00000.parquet").rename(tmp_path / "features" / "part-00001.parquet")
    write_features(tmp_path, ["b"], np.ones((1, 4), np.float32))
    with pytest.raises(ValueError, match="part-00001.parquet must have the backbone and shape of the shards before it"):
        read_features(tmp_path, ["a", "b"])
    with pytest.raises(FileNotFoundError, match="has no features: run negcap features first"):
        read_features(tmp_path / "none", ["a"])
