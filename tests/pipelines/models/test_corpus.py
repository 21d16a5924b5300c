from pathlib import Path

import pyarrow.parquet as pq
import pytest

from negcap.pipelines.models.captions import read_captions
from negcap.pipelines.models.corpus import encode_run
from negcap.pipelines.models.vocabulary import build_vocabulary, tokenize
from tests.pipelines.models.trainer_world import write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), [("train", 30), ("test", 10)])


def test_a_run_is_encoded_in_its_order(world: Path) -> None:
    captions = read_captions(world)
    assert len(captions.ids) == 80 and len(captions.image_ids) == 40
    vocabulary = build_vocabulary(captions.texts.to_pylist(), 4)
    corpus = encode_run(world, captions, vocabulary)
    rows = pq.read_table(world / "negatives").to_pylist()
    texts = [*captions.texts.to_pylist(), *(row["text"] for row in rows)]
    assert len(corpus.offsets) == len(texts) + 1
    for n in range(0, len(texts), 7):
        read = [vocabulary.words[k] for k in corpus.tokens[corpus.offsets[n] : corpus.offsets[n + 1]]]
        assert read == ["<start>", *(w if w in vocabulary.ids else "<unk>" for w in tokenize(texts[n])), "<end>"]
    assert [captions.ids[n] for n in corpus.negative_caption.tolist()] == [row["caption_id"] for row in rows]
    assert [corpus.operators[n] for n in corpus.operator.tolist()] == [row["operator"] for row in rows]
    assert [corpus.families[n] for n in corpus.family.tolist()] == [row["family"] for row in rows]
    assert [f":{n}" for n in corpus.draw.tolist()] == [row["negative_id"][-2:] for row in rows]
    for column, flags in (("replaced", corpus.was_plural), ("replacement", corpus.is_plural)):
        counted = [row["operator"] == "numeral" and row[column] in ("two", "three") for row in rows]
        assert flags.tolist() == counted and any(counted) and not all(counted)
    assert corpus.concreteness.tolist() == pytest.approx([row["concreteness"] or 0.0 for row in rows])
    assert corpus.of_families(["relation"]).tolist() == [row["family"] == "relation" for row in rows]
    assert corpus.made_by(["noun", "shuffle"]).tolist() == [row["operator"] == "noun" for row in rows]
