"""Where the estimates of p_true come from, and that it is said."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.augment.data import data_path
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.report.summary import truth_lines
from negcap.pipelines.stages import build
from negcap.pipelines.stages.truth import TruthConfig, sample_shard
from tests.runs import caption_row, write_run

REFERENCE = data_path("reference_lexicon") / "truth.parquet"


def test_the_sample_is_of_images_with_siblings():
    images = [f"{number}" for number in range(40)] + ["a", "a", "b", "b"]
    rows = {"caption_id": [*map(str, range(44))], "image_id": images, "split": [""] * 44}
    sample = sample_shard(pa.table(rows), TruthConfig(truth_sample=4))
    assert sorted(sample["image_id"].to_pylist()) == ["a", "a", "b", "b"]


@pytest.mark.parametrize(("captions", "origin", "lines"), [(1, "reference", 1), (2, "reference and own", 0)])
def test_runs_say_where_p_true_is_from(captions, origin, lines, tmp_path):
    texts = {"park": "A dog runs in a park.", "couch": "Two cats sleep on a red couch."}
    rows = [caption_row(text, image, number) for image, text in texts.items() for number in range(captions)]
    run = write_run(tmp_path / "run", captions=rows)
    build.build(None, run, {"operators": ("noun",)}, Execution())
    metadata = pq.read_schema(run / "negatives/part-00000.parquet").metadata
    assert metadata[b"p_true_from"].decode() == origin
    assert len(truth_lines(run)) == lines
    is_reference = pq.read_table(run / "truth").equals(pq.read_table(REFERENCE))
    assert is_reference == (origin == "reference")
    if lines:
        assert "p_true comes from built-in statistics alone" in truth_lines(run)[0]
