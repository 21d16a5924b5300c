from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from negcap.pipelines.models.captions import read_captions
from negcap.pipelines.models.corpus import build_pool, encode_run, pack_sentences, sample_negatives, shuffled_batches
from negcap.pipelines.models.vectors import read_vectors
from negcap.pipelines.models.vocabulary import SPECIALS, WordVocabulary, build_vocabulary, tokenize
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


OWNERS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=40)


@given(OWNERS, st.integers(1, 9), st.integers(0, 99))
def test_sampled_negatives_belong_to_their_captions_and_are_distinct(
    negatives: list[tuple[int, int, bool]], n: int, seed: int
) -> None:
    caption, family = (torch.tensor([row[k] for row in negatives], dtype=torch.long) for k in (0, 1))
    wanted = torch.tensor([row[2] for row in negatives], dtype=torch.bool)
    pool = build_pool(caption, family, wanted, 5)
    batch = torch.tensor([3, 0, 4, 3])
    drawn = sample_negatives(pool, batch, n, Generator().manual_seed(seed))
    assert wanted[drawn.rows].all()
    assert caption[drawn.rows].tolist() == batch[drawn.owner].tolist()
    for place, of in enumerate(batch.tolist()):
        mine = drawn.rows[drawn.owner == place].tolist()
        assert len(set(mine)) == len(mine) == min(n, int((wanted & (caption == of)).sum()))


def test_families_are_equally_likely_whatever_their_sizes() -> None:
    caption = torch.zeros(22, dtype=torch.long)
    family = torch.tensor([0] * 20 + [1, 1])
    pool = build_pool(caption, family, torch.ones(22, dtype=torch.bool), 1)
    batch, generator = torch.zeros(4000, dtype=torch.long), Generator().manual_seed(0)
    rows = sample_negatives(pool, batch, 1, generator).rows
    assert (rows >= 20).double().mean().item() == pytest.approx(0.5, abs=0.03)
    assert torch.bincount(rows, minlength=22)[:20].min() > 50  # 100 expected
    again = sample_negatives(pool, batch, 1, generator).rows
    assert (rows != again).double().mean() > 0.5  # sampled anew each time
    assert torch.equal(rows, sample_negatives(pool, batch, 1, Generator().manual_seed(0)).rows)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=9), st.data())
def test_a_packed_batch_equals_torchs(lengths: list[int], data: st.DataObject) -> None:
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=9)))
    tokens = torch.arange(int(offsets[-1]))
    packed = pack_sentences(offsets, rows)
    sentences = [tokens[offsets[row] : offsets[row + 1]] for row in rows]
    expected = torch.nn.utils.rnn.pack_sequence(sorted(sentences, key=len, reverse=True))
    assert torch.equal(tokens[packed.positions], expected.data)
    assert torch.equal(packed.sizes, expected.batch_sizes)
    for place, sentence in zip(packed.inverse.tolist(), sentences, strict=True):
        assert tokens[packed.positions[place]] == sentence[0]


def test_batches_contain_every_caption_once() -> None:
    captions = torch.arange(100, 121)
    batches = list(shuffled_batches(captions, 4, Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [4] * 5  # the 21st alone would have no negative
    seen = torch.cat(list(shuffled_batches(captions, 5, Generator().manual_seed(0)))[:4])
    assert len(seen.unique()) == 20 and seen.tolist() != sorted(seen.tolist())
    assert torch.equal(batches[0], next(shuffled_batches(captions, 4, Generator().manual_seed(0))))


TEXTS = ["Two dogs, one's wet.", "A dog isn't two dogs!", "", "  a  DOG (wet) "]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two dogs, one's wet.", "two dogs , one 's wet ."),
        ("They can't see 3.5 boats", "they ca n't see 3.5 boats"),
        ("A dog. A cat", "a dog . a cat"),
        ("black-and-white \t T-shirt\n", "black-and-white t-shirt"),
        ("", ""),
    ],
)
def test_tokenize(text: str, expected: str) -> None:
    assert tokenize(text) == expected.split()


def decoded(vocabulary: WordVocabulary, texts: list[str]) -> list[list[str]]:
    tokens, offsets = vocabulary.encode(texts)
    return [[vocabulary.words[n] for n in tokens[a:b]] for a, b in zip(offsets, offsets[1:], strict=False)]


def test_encode() -> None:
    vocabulary = build_vocabulary(TEXTS, 2)
    assert decoded(vocabulary, TEXTS) == [
        "<start> two dogs <unk> <unk> <unk> wet <unk> <end>".split(),
        "<start> a dog <unk> <unk> two dogs <unk> <end>".split(),
        ["<start>", "<end>"],
        "<start> a dog <unk> wet <unk> <end>".split(),
    ]
    assert decoded(vocabulary, []) == []


@given(st.lists(st.text(st.sampled_from("aB .,'!\n\té漢"), max_size=30), max_size=8))
def test_a_text_is_encoded_independently_of_other_texts(texts: list[str]) -> None:
    vocabulary = WordVocabulary((*SPECIALS, "a", "b", ".", "'s", "ab"))
    expected = [
        ["<start>", *(w if w in vocabulary.ids else "<unk>" for w in tokenize(text)), "<end>"] for text in texts
    ]
    assert decoded(vocabulary, texts) == expected


def test_read_vectors(tmp_path: Path) -> None:
    vocabulary = build_vocabulary(["dog cat new york"], 1)
    (tmp_path / "v.txt").write_text("dog 1 2\nhen 3 4\nnew 5 -6.5\n")
    (tmp_path / "w.txt").write_text("2 2\ndog 1 2\nnew 5 -6.5\n")
    np.savez(tmp_path / "v.npz", words=np.array(["new", "dog"]), vecs=np.array([[5, -6.5], [1, 2]], np.float32))
    for name in ("v.txt", "w.txt", "v.npz"):
        read = read_vectors(tmp_path / name, vocabulary, 2)
        assert read[vocabulary.ids["dog"]].tolist() == [1, 2] and read[vocabulary.ids["new"]].tolist() == [5, -6.5]
        assert read.isnan().all(1).sum() == len(vocabulary) - 2


def test_a_name_of_several_words_gets_the_mean_of_their_vectors(tmp_path: Path) -> None:
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
