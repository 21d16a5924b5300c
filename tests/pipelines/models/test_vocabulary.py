import pytest
from hypothesis import given
from hypothesis import strategies as st

from negcap.pipelines.models.vocabulary import SPECIALS, WordVocabulary, build_vocabulary, tokenize

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
