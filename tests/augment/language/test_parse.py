"""Parsing: what loading costs, long texts, attributes of tokens, exact products, and parses that are repaired."""

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from negcap.augment.caption import MAX_TOKENS
from negcap.augment.language.exact import GRID, ExactOps, on_grid
from negcap.augment.language.parse import (
    CACHED_RULER,
    SHIPPED,
    CachedAttributeRuler,
    is_cacheable,
    load_pipeline,
    parse,
    without_trailing_tags,
)
from negcap.augment.scene_graph import scene_graph


def test_the_parser_leaves_torch_alone_and_spacy_whole_and_is_freed() -> None:
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


@pytest.mark.parametrize(
    "text",
    ["A man " + "(a dog " * 400 + ")" * 400 + " runs .", "(" * 1500, "dog " * (MAX_TOKENS + 1), "A dog runs . " * 400],
)
def test_a_text_of_too_many_tokens_is_not_parsed_and_changes_no_other(text: str) -> None:
    short = ["A dog runs.", "dog " * MAX_TOKENS]
    alone, (first, long, last) = parse(short), parse([short[0], text, short[1]])
    assert long.too_long and long.text == text and not long.tokens and not long.chunks
    assert [first.tokens, last.tokens] == [one.tokens for one in alone]
    assert not first.too_long and not last.too_long and len(last.tokens) == MAX_TOKENS


@pytest.mark.parametrize("behind", [" #photooftheday", " ❤️ #weekend  #brunch", " 😴", " https://example.org/a #dogs "])
def test_hashtags_links_and_emoji_behind_a_sentence_are_not_parsed(behind: str) -> None:
    plain, decorated = parse(["Two dogs on a beach", "Two dogs on a beach" + behind])
    assert decorated.text.endswith(behind) and decorated.tokens == plain.tokens


@pytest.mark.parametrize(
    "text", ["The number #22", "Walking my #dog", "A warm day of 20 °", "#dogs", "A #dog runs", ""]
)
def test_what_belongs_to_the_sentence_is_parsed(text: str) -> None:
    assert without_trailing_tags(text) == text


def test_many_hashtags_take_no_time() -> None:
    assert without_trailing_tags("A dog" + " #ab" * 20_000 + " b").endswith(" b")
    assert without_trailing_tags("A dog" + " #ab" * 20_000) == "A dog"


TEXTS = ["A dog that runs.", "The others run past that dog.", "A red dog runs.", "That dog, that runs, is red.", ""] * 2


def test_the_shipped_parser_keeps_answers_and_parses_as_before() -> None:
    assert isinstance(load_pipeline(None).get_pipe("attribute_ruler"), CachedAttributeRuler)
    assert load_pipeline(None).get_pipe_meta("attribute_ruler").factory == CACHED_RULER
    for plain, kept in zip(spacy.load(SHIPPED).pipe(TEXTS), load_pipeline(None).pipe(TEXTS), strict=True):
        assert kept.to_json() == plain.to_json()


def test_only_rules_on_one_token_are_kept() -> None:
    other = {"patterns": [[{"TAG": "DT"}]], "attrs": {"POS": "DET"}}
    for patterns, attributes, expected in (
        ([[{"TAG": "NN"}], [{"LOWER": "ski", "DEP": "pobj"}]], {}, True),
        ([[{"TAG": "NN"}, {"TAG": "NN"}]], {}, False),
        ([[{"TAG": "NN", "OP": "+"}]], {}, False),
        ([[{"LEMMA": "ski"}]], {}, False),
        ([[{"ORTH": "Ski"}]], {}, False),
        ([[{"LOWER": {"REGEX": "^ski"}}]], {}, False),
        ([[{"TAG": "NN"}]], {"LEMMA": "ski"}, False),
    ):
        rule = {"patterns": patterns, "attrs": {"POS": "NOUN", **attributes}}
        assert is_cacheable([other, rule]) is expected


class CountingRuler:
    """An attribute ruler that remembers the texts that it is run on."""

    def __init__(self, ruler: Any) -> None:
        self.ruler, self.vocab, self.patterns = ruler, ruler.vocab, ruler.patterns
        self.texts: list[str] = []

    def __call__(self, doc: Doc) -> Doc:
        self.texts.append(doc.text)
        return self.ruler(doc)


def test_the_ruler_is_run_again_only_for_other_tags_or_for_words_that_its_rules_name() -> None:
    ruler: Any = spacy.load(SHIPPED).get_pipe("attribute_ruler")
    counting = CountingRuler(ruler)
    cached = CachedAttributeRuler()
    cached.wrap(counting)

    def parts_of_speech(component: Any, words: list[str], tags: list[str], deps: list[str]) -> list[str]:
        doc = Doc(ruler.vocab, words, tags=tags, deps=deps, heads=[0] * len(words))
        return [token.pos_ for token in component(doc)]

    examples = [
        (["dogs", "run"], ["NNS", "VBP"]),
        (["cats", "sleep"], ["NNS", "VBP"]),
        (["Dogs", "are"], ["NNS", "VBP"]),
        (["CATS", "ARE"], ["NNS", "VBP"]),
        (["the", "other"], ["DT", "JJ"]),
        (["the", "red"], ["DT", "JJ"]),
    ]
    for words, tags in examples:
        for deps in (["dep", "ROOT"], ["dep", "amod"]):
            assert parts_of_speech(cached, words, tags, deps) == parts_of_speech(ruler, words, tags, deps)
    assert counting.texts == ["dogs run "] * 2 + ["Dogs are "] * 2 + ["the other "] * 2 + ["the red "] * 2


def test_products_are_exact_wherever_a_row_stands() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((600, 288)).astype("f"), rng.standard_normal((5, 288)).astype("f")
    made = ExactOps().gemm(x, y, trans2=True)
    assert np.array_equal(made[300:307], ExactOps().gemm(x[300:307], y, trans2=True))
    row, column = ([Fraction(v) for v in on_grid(array[0]).tolist()] for array in (x, y))
    assert all((v / Fraction(GRID)).denominator == 1 for v in (*row, *column))
    assert made[0, 0] == np.float32(float(sum(a * b for a, b in zip(row, column, strict=True))))


def test_the_networks_of_a_pipeline_multiply_exactly_and_see_equal_vectors_in_every_batch() -> None:
    nlp = load_pipeline(None)
    models = [model for _, pipe in nlp.pipeline if (model := getattr(pipe, "model", None)) is not None]
    assert models and {type(layer.ops) for model in models for layer in model.walk()} == {ExactOps}
    texts = ["a man on a horse", "two dogs", "the small brown dog runs in the snow", "a man"] * 4
    one, many = ([doc.tensor for doc in nlp.pipe(texts, batch_size=size)] for size in (1, 16))
    assert all(map(np.array_equal, one, many))


SAID = {
    "A boy is behind a house and three apples are sitting next to the house.":
        "boy > behind > house, apples > sit next to > house",
    "A kite is over a house and a small white chair is beside the house.":
        "kite > over > house, chair > beside > house",
    "Behind the red table is a house.": "house > behind > table",
    "On two balls is a pink box.": "box > on > balls",
    "On a desk sits a keyboard.": "keyboard > sit on > desk",
    "Parked outside the house are two cars.": "cars > park outside > house",
    "Next to the table is a chair.": "chair > next to > table",
    "In the middle of the room stands a table.": "table > stand in middle of > room",
    "A skier goes up a hill.": "skier > go up > hill",
    "A cat climbs up a tall tree.": "cat > climb up > tree",
    "A dog runs up the steep wooden stairs.": "dog > run up > stairs",
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SAID.items())
def test_second_and_inverted_clauses_have_their_own_subjects_and_who_goes_has_a_way(text: str, expected: str) -> None:
    (caption,) = parse([text])
    relations, words = scene_graph(caption).relations, caption.lowered
    assert ", ".join(f"{words[r.subject]} > {r.name} > {words[r.object]}" for r in relations) == expected


def test_what_is_right_stays() -> None:
    for text, subject, verb in (
        ("A dog and a cat sit on a bed.", "dog", "sit"),
        ("A man holding a dog and a cat is standing on a street.", "man", "standing"),
        ("Two dogs are playing in the grass and a man walks by a tree.", "man", "walks"),
        ("In this picture a dog sleeps on a bed.", "dog", "sleeps"),
    ):
        (caption,) = parse([text])
        token = caption.tokens[caption.lowered.index(subject)]
        assert (token.dep, caption.lowered[token.head]) == ("nsubj", verb)


@pytest.mark.parametrize("text", ["A man picks up a ball.", "A woman holds up a sign.", "A man rolls up a carpet."])
def test_particles_of_verbs_with_an_object_stay(text: str) -> None:
    (caption,) = parse([text])
    assert [token.dep for token in caption.tokens if token.lower == "up"] == ["prt"]


def test_every_text_is_repaired_by_itself() -> None:
    texts = ["A dog sleeps.", "On a desk sits a keyboard.", "", "A boy is behind a house and a cat is on the house."]
    together = [caption.tokens for caption in parse(texts)]
    assert together == [parse([text])[0].tokens for text in texts]
