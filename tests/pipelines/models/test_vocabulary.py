"""Words and their ids, and vectors of words from files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from negcap.pipelines.models.vocabulary import build_vocabulary, read_vectors, tokenize, vector_size


@pytest.mark.parametrize(("text", "words"), [
    ("Two dogs, one's wet.", "two dogs , one 's wet ."),
    ("They can't see 3.5 boats", "they ca n't see 3.5 boats"),
    ("black-and-white \t T-shirt\n", "black-and-white t-shirt"),
    ("", ""),
])  # fmt: skip
def test_tokenize(text: str, words: str) -> None:
    assert tokenize(text) == words.split()


@pytest.mark.parametrize(("negative", "unknown"), [
    ("A cat on a mat", False),  # both known
    ("A tapir on a mat", True),
    ("A dog on a tapir", True),
    ("A cat on a yurt", False),  # the unknown word is the caption's
    ("A quokka on a yurt", True),
    ("", False),
])  # fmt: skip
def test_a_negative_inserts_a_word_that_a_model_does_not_know(negative: str, unknown: bool) -> None:
    vocabulary = build_vocabulary(["a dog on a mat", "a cat"], 1)
    captions = pa.array(["A cat", "A dog on a yurt", "A tapir and a quokka"])
    texts = ["A tapir", negative, "A quokka and a tapir"]
    encoded = vocabulary.encode_negatives(pa.array(texts), captions, np.arange(3))
    assert encoded.inserts_unknown.tolist() == [True, unknown, False]
    assert encoded.texts.tokens.tolist() == vocabulary.encode(texts).tokens.tolist()


def test_read_vectors(tmp_path: Path) -> None:
    vocabulary = build_vocabulary(["dog cat new york"], 1)
    (tmp_path / "v.txt").write_text("dog 1 2\nhen 3 4\nnew 5 -6.5\n")
    (tmp_path / "w.txt").write_text("2 2\ndog 1 2\nnew 5 -6.5\n")
    np.savez(tmp_path / "v.npz", words=np.array(["new", "dog"]), vecs=np.array([[5, -6.5], [1, 2]], np.float32))
    for name in ("v.txt", "w.txt", "v.npz"):
        read = read_vectors(tmp_path / name, vocabulary, 2)
        assert read[vocabulary.ids["dog"]].tolist() == [1, 2] and read[vocabulary.ids["new"]].tolist() == [5, -6.5]
        assert read.isnan().all(1).sum() == len(vocabulary) - 2
        assert vector_size(tmp_path / name) == 2


def test_a_name_of_several_words_gets_the_mean_of_their_vectors(tmp_path: Path) -> None:
    vocabulary = build_vocabulary(["tennis racket"], 1, ["tennis racket", "tennis shoe", "tank top"])
    (tmp_path / "v.txt").write_text("tennis 1 2\nracket 3 6\n")
    read = read_vectors(tmp_path / "v.txt", vocabulary, 2)
    of_names = read[[vocabulary.ids[name] for name in ("tennis racket", "tennis shoe", "tank top")]].nan_to_num(0)
    assert of_names.tolist() == [[2, 4], [1, 2], [0, 0]]


@pytest.mark.parametrize(("text", "message"), [
    ("dog 1 2 3\n", "v.txt:1: must have a word and 2 numbers"),
    ("dog 1 2\ncat 1 x\n", "v.txt:2: must have a word and 2 numbers, has other text"),
    ("cat 1 2\n", "must have vectors of the vocabulary's words, has none of 5"),
])  # fmt: skip
def test_bad_vectors(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_vectors(tmp_path / "v.txt", build_vocabulary(["dog"], 1), 2)


def test_a_pickle_among_vectors_is_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", words=np.array([{"a": 1}], object))
    with pytest.raises(ValueError, match="must hold plain arrays"):
        read_vectors(tmp_path / "v.npz", build_vocabulary(["dog"], 1), 2)
