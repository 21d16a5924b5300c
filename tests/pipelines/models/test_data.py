from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from negcap.pipelines.models.captions import read_captions, split_captions
from negcap.pipelines.models.corpus import encode_run
from negcap.pipelines.models.features import read_features
from negcap.pipelines.models.vectors import read_vectors
from negcap.pipelines.models.vocabulary import build_vocabulary, tokenize
from negcap.schemas.captions import CAPTIONS
from tests.pipelines.models.trainer_world import write_features, write_table, write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), [("train", 30), ("test", 10)])


def test_a_run_is_encoded_as_it_stands(world: Path) -> None:
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
    counting = [text.split()[0] in ("two", "three") or "two" in text or "three" in text for text in texts[:80]]
    assert corpus.plural.tolist() == counting
    assert corpus.of_families(["relation"]).tolist() == [row["family"] == "relation" for row in rows]
    assert corpus.made_by(["noun", "shuffle"]).tolist() == [row["operator"] == "noun" for row in rows]


def test_encoding_is_kept_and_hangs_on_words_and_tables(world: Path) -> None:
    captions = read_captions(world)
    one, other = (build_vocabulary(captions.texts.to_pylist(), n) for n in (1, 9))
    made = encode_run(world, captions, one)
    kept = sorted((world / "encoded").iterdir())
    times = [path.stat().st_mtime_ns for path in kept]
    assert torch.equal(encode_run(world, captions, one).tokens, made.tokens)
    assert [path.stat().st_mtime_ns for path in kept] == times
    encode_run(world, captions, other)
    assert len(list((world / "encoded").iterdir())) == len(kept) + 1
    kept[0].write_bytes(b"cut short")
    with pytest.raises(ValueError, match="is damaged"):
        for vocabulary in (one, other, build_vocabulary(captions.texts.to_pylist(), 4)):
            encode_run(world, captions, vocabulary)
    kept[0].unlink()


def test_splits(world: Path) -> None:
    captions = read_captions(world)
    there = torch.ones(40, dtype=torch.bool)
    train, held = split_captions(captions, ["train"], "val", 5, there)
    assert (len(train), len(held)) == (50, 10)
    assert not set(captions.image[train].tolist()) & set(captions.image[held].tolist())
    assert held.tolist() != train.tolist()[-10:] and held.tolist() != list(range(10))  # not the first or last ones
    train, held = split_captions(captions, ["train", "none"], "test", 5, there)
    assert (len(train), len(held)) == (60, 20)
    there[captions.image[0]] = False
    assert len(split_captions(captions, ["train"], "test", 5, there)[0]) == 58
    with pytest.raises(ValueError, match="have none: the splits are 'train', 'test'"):
        split_captions(captions, ["trian"], "test", 5, there)
    with pytest.raises(ValueError, match="no split 'val' and validation_images is 0"):
        split_captions(captions, ["train"], "val", 0, there)


def test_only_english_captions_are_read(tmp_path: Path) -> None:
    row = {"caption_id": "a:b:0", "image_id": "b", "image": "b.png", "split": "", "origin": "human", "text": "A hen."}
    rows = [{**row, "language": "en"}, {**row, "caption_id": "a:b:1", "language": "de", "text": "Ein Huhn."}]
    write_table(tmp_path, "captions", pa.Table.from_pylist(rows, CAPTIONS))
    assert read_captions(tmp_path).texts.to_pylist() == ["A hen."]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", [(4,), (3, 2)])
def test_features_go_to_their_images(tmp_path: Path, dtype: type, shape: tuple[int, ...]) -> None:
    values = np.arange(3 * int(np.prod(shape))).reshape(3, *shape).astype(dtype)
    write_features(tmp_path, ["b", "x", "a"], values, "net")
    read = read_features(tmp_path, ["a", "b", "c"])
    assert read.backbone == "net" and read.available.tolist() == [True, True, False]
    assert read.values.numpy().dtype == dtype and read.values.shape == (3, *shape)
    assert (read.values[:2].numpy() == values[[2, 0]]).all()


def test_features_as_tensors(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    schema = pa.schema([pa.field("image_id", pa.string(), False), pa.field("feature", column.type, False)])
    schema = schema.with_metadata({"shape": "[3, 2]", "backbone": "net"})
    write_table(tmp_path, "features", pa.Table.from_arrays([pa.array(["a", "b"]), column], schema=schema))
    assert (read_features(tmp_path, ["b", "a"]).values.numpy() == values[::-1]).all()


@pytest.mark.parametrize(
    ("values", "ids", "message"),
    [
        (np.ones((2, 3)), ["a", "a"], "must hold an image once, has again: a"),
        (np.full((2, 3), np.nan), ["a", "b"], "must be finite"),
        (np.ones((2, 3)), ["x", "y"], "must be of its images, has none of them"),
    ],
)
def test_bad_features(tmp_path: Path, values: np.ndarray, ids: list[str], message: str) -> None:
    write_features(tmp_path, ids, values.astype(np.float32))
    with pytest.raises(ValueError, match=message):
        read_features(tmp_path, ["a", "b"])


def test_features_of_two_nets(tmp_path: Path) -> None:
    write_features(tmp_path, ["a"], np.ones((1, 3), np.float32))
    (tmp_path / "features" / "part-00000.parquet").rename(tmp_path / "features" / "part-00001.parquet")
    write_features(tmp_path, ["b"], np.ones((1, 4), np.float32))
    with pytest.raises(
        ValueError, match="part-00001.parquet must be of the backbone and shape of the shards before it"
    ):
        read_features(tmp_path, ["a", "b"])
    with pytest.raises(FileNotFoundError, match="has no features: run negcap features first"):
        read_features(tmp_path / "none", ["a"])


def test_vectors(tmp_path: Path) -> None:
    vocabulary = build_vocabulary(["dog cat new york"], 1)
    (tmp_path / "v.txt").write_text("dog 1 2\nhen 3 4\nnew 5 -6.5\n")
    (tmp_path / "w.txt").write_text("2 2\ndog 1 2\nnew 5 -6.5\n")
    np.savez(tmp_path / "v.npz", words=np.array(["new", "dog"]), vecs=np.array([[5, -6.5], [1, 2]], np.float32))
    for name in ("v.txt", "w.txt", "v.npz"):
        read = read_vectors(tmp_path / name, vocabulary, 2)
        assert read[vocabulary.ids["dog"]].tolist() == [1, 2] and read[vocabulary.ids["new"]].tolist() == [5, -6.5]
        assert read.isnan().all(1).sum() == len(vocabulary) - 2


def test_a_name_of_several_words_has_the_mean_of_their_vectors(tmp_path: Path) -> None:
    vocabulary = build_vocabulary(["tennis racket"], 1, ["tennis racket", "tennis shoe", "tank top"])
    (tmp_path / "v.txt").write_text("tennis 1 2\nracket 3 6\n")
    read = read_vectors(tmp_path / "v.txt", vocabulary, 2)
    assert read[vocabulary.ids["tennis racket"]].tolist() == [2, 4]
    assert read[vocabulary.ids["tennis shoe"]].tolist() == [1, 2] and read[vocabulary.ids["tank top"]].isnan().all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog 1 2 3\n", "v.txt:1: must have a word and 2 numbers"),
        ("dog 1 2\ncat 1 x\n", "v.txt:2: must have a word and 2 numbers, has other text"),
        ("cat 1 2\n", "must have vectors of the vocabulary's words, has none of 5"),
    ],
)
def test_bad_vectors(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(ValueError) as error:
        read_vectors(tmp_path / "v.txt", build_vocabulary(["dog"], 1), 2)
    assert message in str(error.value)


def test_a_pickle_in_an_npz_is_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", words=np.array([{"a": 1}], object))
    with pytest.raises(ValueError, match="must hold plain arrays"):
        read_vectors(tmp_path / "v.npz", build_vocabulary(["dog"], 1), 2)
