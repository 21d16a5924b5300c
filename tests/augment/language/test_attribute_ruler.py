"""The ruler that keeps its answers gives those of the ruler it asks."""

import pytest
import spacy

from negcap.augment.language.parse import CACHED_RULER, SHIPPED, CachedAttributeRuler, is_cacheable, load

TEXTS = ["A dog that runs.", "The others run past that dog.", "A red dog runs.", "That dog, that runs, is red.", ""] * 2


def test_the_shipped_parser_keeps_answers_and_parses_as_before() -> None:
    assert isinstance(load().get_pipe("attribute_ruler"), CachedAttributeRuler)
    assert load().get_pipe_meta("attribute_ruler").factory == CACHED_RULER
    for plain, kept in zip(spacy.load(SHIPPED).pipe(TEXTS), load().pipe(TEXTS), strict=True):
        assert kept.to_json() == plain.to_json()


def test_the_ruler_is_asked_once_of_a_token() -> None:
    plain = spacy.load(SHIPPED, exclude=["lemmatizer"])
    asked = []
    ruler = CachedAttributeRuler()
    rules = plain.get_pipe("attribute_ruler")
    ruler.ruler = lambda doc: asked.append(doc.text) or rules(doc)
    for doc in plain.pipe(TEXTS[:2] * 2, disable=["attribute_ruler"]):
        assert [token.pos for token in ruler(doc)] == [token.pos for token in plain(doc.text)]
    assert asked == TEXTS[:2]


@pytest.mark.parametrize(
    ("patterns", "attributes", "expected"),
    [
        ([[{"TAG": "NN"}], [{"LOWER": "ski", "DEP": "pobj"}]], {}, True),
        ([[{"TAG": "NN"}, {"TAG": "NN"}]], {}, False),
        ([[{"TAG": "NN", "OP": "+"}]], {}, False),
        ([[{"LEMMA": "ski"}]], {}, False),
        ([[{"TAG": "NN"}]], {"LEMMA": "ski"}, False),
    ],
)
def test_only_rules_on_one_token_are_kept(patterns: list, attributes: dict, expected: bool) -> None:
    other = {"patterns": [[{"TAG": "DT"}]], "attrs": {"POS": "DET"}}
    assert is_cacheable([other, {"patterns": patterns, "attrs": {"POS": "NOUN", **attributes}}]) is expected
