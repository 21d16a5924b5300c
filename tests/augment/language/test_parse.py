"""Parsing: what loading costs, long texts, attributes of tokens, exact products, and parses that are repaired."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import spacy

from negcap.augment.caption import MAX_TOKENS
from negcap.augment.language.exact import GRID, ExactOps, on_grid
from negcap.augment.language.parse import SHIPPED, is_cacheable, load_pipeline, parse, without_trailing_tags
from negcap.augment.scene_graph import scene_graph
from tests.cases import cases_of

CASES = cases_of(__file__)["parse"]


def test_the_parser_leaves_torch_alone_and_spacy_whole_and_is_freed():
    code = """
import sys
from weakref import ref
from negcap.augment.language.parse import load_pipeline, parse
from negcap.pipelines.stages.parse import STAGE
assert parse(["A dog runs."])[0].tokens[1].lemma == "dog"
assert "spacy" in sys.modules and "spacy.cli" not in sys.modules and "torch" not in sys.modules
import spacy, torch
assert torch.zeros(2).tolist() == [0, 0] and spacy.info(silent=True)
import spacy.cli
assert spacy.cli.train
pipeline = ref(load_pipeline(None))
STAGE.free()
assert pipeline() is None
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("text", ["(" * 1500, "dog " * (MAX_TOKENS + 1), "A dog runs . " * 400])
def test_a_text_of_too_many_tokens_is_not_parsed_and_changes_no_other(text):
    short = ["A dog runs.", "dog " * MAX_TOKENS]
    alone, (first, long, last) = parse(short), parse([short[0], text, short[1]])
    assert long.too_long and long.text == text and not long.tokens and not long.chunks
    assert [first.tokens, last.tokens] == [caption.tokens for caption in alone]
    assert not first.too_long and not last.too_long and len(last.tokens) == MAX_TOKENS


def test_hashtags_links_and_emoji_behind_a_sentence_are_not_parsed_and_others_are():
    plain, *decorated = parse(["Two dogs on a beach" + behind for behind in ("", *CASES["decorations"])])
    for caption, behind in zip(decorated, CASES["decorations"], strict=True):
        assert caption.text.endswith(behind) and caption.tokens == plain.tokens
    for text in CASES["undecorated"]:
        assert without_trailing_tags(text) == text
    assert without_trailing_tags("A dog" + " #ab" * 20_000) == "A dog"  # at once


def test_the_shipped_parser_keeps_answers_and_parses_as_before():
    texts = CASES["kept"] * 2
    for plain, kept in zip(spacy.load(SHIPPED).pipe(texts), load_pipeline(None).pipe(texts), strict=True):
        assert kept.to_json() == plain.to_json()


@pytest.mark.parametrize(("patterns", "attributes", "expected"), CASES["rules"])
def test_only_rules_on_one_token_are_kept(patterns, attributes, expected):
    other = {"patterns": [[{"TAG": "DT"}]], "attrs": {"POS": "DET"}}
    assert is_cacheable([other, {"patterns": patterns, "attrs": {"POS": "NOUN", **attributes}}]) is expected


def test_products_are_exact_wherever_a_row_stands():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((600, 288)).astype("f"), rng.standard_normal((5, 288)).astype("f")
    products = ExactOps().gemm(x, y, trans2=True)
    assert np.array_equal(products[300:307], ExactOps().gemm(x[300:307], y, trans2=True))
    row, column = ([Fraction(v) for v in on_grid(array[0]).tolist()] for array in (x, y))
    assert all((v / Fraction(GRID)).denominator == 1 for v in (*row, *column))
    assert products[0, 0] == np.float32(float(sum(a * b for a, b in zip(row, column, strict=True))))


def test_the_networks_of_a_pipeline_multiply_exactly_and_see_equal_vectors_in_every_batch():
    nlp = load_pipeline(None)
    models = [model for _, pipe in nlp.pipeline if (model := getattr(pipe, "model", None)) is not None]
    assert models and {type(layer.ops) for model in models for layer in model.walk()} == {ExactOps}
    texts = ["a man on a horse", "two dogs", "the small brown dog runs in the snow", "a man"] * 4
    one, many = ([doc.tensor for doc in nlp.pipe(texts, batch_size=size)] for size in (1, 16))
    assert all(map(np.array_equal, one, many))


@pytest.mark.parametrize(("text", "expected"), CASES["relations"].items())
def test_second_and_inverted_clauses_have_their_own_subjects_and_who_goes_has_a_way(text, expected):
    (caption,) = parse([text])
    relations, words = scene_graph(caption).relations, caption.lowered
    assert ", ".join(f"{words[r.subject]} > {r.name} > {words[r.object]}" for r in relations) == expected


@pytest.mark.parametrize(("text", "word", "label", "head"), CASES["right"])
def test_what_is_right_stays(text, word, label, head):
    (caption,) = parse([text])
    token = caption.tokens[caption.lowered.index(word)]
    assert (token.dep, caption.lowered[token.head]) == (label, head)


def test_every_text_is_repaired_by_itself():
    texts = ["", *CASES["relations"]]
    assert [caption.tokens for caption in parse(texts)] == [parse([text])[0].tokens for text in texts]
