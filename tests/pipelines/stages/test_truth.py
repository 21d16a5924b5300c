"""Where the estimates of p_true come from, and that it is said."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines.engine.cluster import Executor
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.report.summary import truth_lines
from negcap.pipelines.stages import build
from negcap.pipelines.stages.truth import TruthConfig, origin, sample_shard


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"captions": 9}, "own"),
        ({"captions": 9, "blended": 1}, "reference and own"),
        ({"captions": 0, "blended": 1}, "reference"),
        ({"captions": 0}, "none"),
        ({"captions": 0, "given": 1}, "given"),
    ],
)
def test_origin(counts, expected):
    assert origin(counts) == expected


def test_the_sample_is_of_images_with_siblings():
    images = [f"{number}" for number in range(40)] + ["a", "a", "b", "b"]
    rows = {"caption_id": [*map(str, range(44))], "image_id": images, "split": [""] * 44}
    sample = sample_shard(pa.table(rows), TruthConfig(truth_sample=4))
    assert sorted(sample["image_id"].to_pylist()) == ["a", "a", "b", "b"]


@pytest.mark.parametrize(("captions", "origin", "lines"), [(1, "reference", 1), (2, "reference and own", 0)])
def test_runs_say_where_p_true_is_from(captions, origin, lines, tmp_path):
    source = tmp_path / "captions.csv"
    texts = ["A dog runs in a park.", "Two cats sleep on a red couch."]
    rows = [f"{image}.jpg,{text}" for image, text in enumerate(texts) for _ in range(captions)]
    source.write_text("\n".join(["image,caption", *rows]))
    run = tmp_path / "run"
    build.build(str(source), run, {"operators": ("noun",)}, Execution(Executor(), Progress()))
    metadata = pq.read_schema(run / "negatives/part-00000.parquet").metadata
    assert metadata[b"p_true_from"].decode() == origin
    assert len(truth_lines(run)) == lines
    if lines:
        assert "p_true comes from built-in statistics alone" in truth_lines(run)[0]
