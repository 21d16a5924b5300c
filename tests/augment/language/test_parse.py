"""Loading the shipped parser costs a worker no more than it needs, and no caption costs more than others."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from negcap.augment.caption import MAX_TOKENS
from negcap.augment.language.parse import TOKENS, _docs, parse


def test_the_parser_leaves_torch_alone_and_spacy_whole() -> None:
    code = """
import sys
from negcap.augment.language.parse import parse
assert parse(["A dog runs."])[0].tokens[1].lemma == "dog"
assert "spacy" in sys.modules and "spacy.cli" not in sys.modules and "torch" not in sys.modules
import spacy, torch
assert torch.zeros(2).tolist() == [0, 0] and spacy.info(silent=True)
import spacy.cli
assert spacy.cli.train
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "text",
    ["A man " + "(a dog " * 120 + ")" * 120 + " runs .", "(" * 300, "dog " * (MAX_TOKENS + 1), "A dog runs . " * 150],
)
def test_a_text_of_too_many_tokens_is_not_parsed_and_changes_no_other(text: str) -> None:
    short = ["A dog runs.", "dog " * MAX_TOKENS]
    alone, (first, long, last) = parse(short), parse([short[0], text, short[1]])
    assert long.too_long and long.text == text and not long.tokens and not long.chunks
    assert [first.tokens, last.tokens] == [one.tokens for one in alone]
    assert not first.too_long and not last.too_long and len(last.tokens) == MAX_TOKENS


@pytest.mark.parametrize(("lengths", "batches"), [([3] * 1200, [512, 512, 176]), ([200] * 100, [81, 19]), ([], [0])])
def test_few_long_texts_are_parsed_together(lengths: list[int], batches: list[int]) -> None:
    found: list[list[int]] = []

    def pipe(docs: list[list[int]], batch_size: int) -> list[list[int]]:
        assert len(docs) <= batch_size
        found.append([len(doc) for doc in docs])
        return docs

    nlp = SimpleNamespace(make_doc=str.split, pipe=pipe)
    assert len(list(_docs(["a " * length for length in lengths], nlp))) == len(lengths)  # type: ignore[arg-type]
    assert list(map(len, found)) == batches and max(map(sum, found)) <= TOKENS
