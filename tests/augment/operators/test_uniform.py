"""The operators that make negatives as VSE-C's and UniVSE's papers do."""

from collections import Counter
from itertools import islice, permutations

import pytest

from negcap.augment.language.semantic_classes import attribute_table, preposition_table
from negcap.augment.language.wordnet import WordNet
from negcap.augment.operators import OPERATORS, PRESETS, UNCHECKED
from negcap.augment.rows import Row
from tests.augment.fixtures import batch_of, captions_of, first_of, results, sample_lexicon


def made(name: str, *texts: str, per_family: int = 20) -> list[Row]:
    """The negatives of the first text; the others are captions of the same image."""
    return results(name, first_of(texts), per_family=per_family).accepted


def texts_of(rows: list[Row]) -> set[str]:
    return {row.text for row in rows}


def test_the_papers_operators_are_unchecked_and_not_in_all():
    papers = {*PRESETS["vse-c-paper"], *PRESETS["univse-paper"]}
    assert set(UNCHECKED) == papers == set(OPERATORS) - set(PRESETS["all"])
    assert not any(OPERATORS[name].traits.is_rated for name in papers)


def test_nouns_are_uniform_and_neither_above_nor_below():
    found = made("uniform_noun", "A dog is lying on a couch.", "An animal and a cat on a table.", per_family=1000)
    new = Counter(row.replacement for row in found if row.replaced == "dog")
    assert {"cat", "table"} <= set(new)  # also what a sibling caption says
    lexicon, related = sample_lexicon(), WordNet.load().related
    others = {lexicon.singular.get(n, n) for n in lexicon.nouns.names if " " not in n and not related("dog", n)}
    assert len(new) == len(others) and set(new.values()) == {1} and not {"animal", "puppy", "dog"} & set(new)


def test_numerals_take_every_other_value_and_leave_the_verb():
    found = texts_of(made("uniform_numeral", "Two dogs are running."))
    assert {"A dog are running.", "Three dogs are running."} <= found
    assert not any(text.startswith(("Two ", "One ")) for text in found)


def test_noun_phrases_take_every_other_order_but_not_the_place_of_one_they_are_joined_to():
    phrases = ("a boy", "two balls", "a dog")
    orders = [f"{one} throws {other} to {third}.".capitalize() for one, other, third in permutations(phrases)]
    assert texts_of(made("uniform_shuffle", orders[0])) == set(orders[1:])
    assert made("uniform_shuffle", "A boy, two balls and a dog with a cat.") == []
    found = texts_of(made("uniform_shuffle", "A boy and a dog on a hill."))
    assert found == {"A hill and a dog on a boy.", "A boy and a hill on a dog."}
    long = "A boy and a dog on a hill near a car behind a cat under a tree in front of a house."
    assert len(texts_of(made("uniform_shuffle", long))) == 20


def test_an_order_that_says_what_its_caption_says_is_rejected_and_no_sibling_is_named():
    evidence = first_of(("A dog throws a dog to a dog.", "A dog throws a ball to a dog."))
    rejected = {(row.reason, row.detail, row.sibling_id) for row in results("uniform_shuffle", evidence).rejected}
    assert rejected == {("sibling_says_so", None, None)}


def test_prepositions_share_no_set_of_table_8():
    found = made("uniform_preposition", "A man in a hat stands on a hill next to a car.", per_family=1000)
    sets = preposition_table().sets
    assert {row.replaced for row in found} == {"in", "on", "next to"}
    for row in found:
        old, new = (
            {n for word in text.split() for n in sets.get(word, ())} for text in (row.replaced, row.replacement)
        )
        assert not old & new
    assert {"above", "behind"} <= {row.replacement for row in found}


@pytest.mark.parametrize("name", PRESETS["univse-paper"])
def test_univse_makes_five_of_each_for_every_caption(name):
    for text in ("A red car.", "Two dogs run.", "A man rides a horse on a beach."):
        found = made(name, text)
        assert len(texts_of(found)) == 5
        assert {row.p_true for row in found} == {row.plausibility for row in found} == {None}


def test_univse_attributes_are_of_the_37_outside_the_group_and_not_said():
    found = made("uniform_attribute", "A red car.", "A dirty car.", "A brown dog.", per_family=1000)
    brown = {"brown", "sandy", "yellow", "orange"}  # a group
    assert {row.replacement for row in found} == set(attribute_table().univse) - {"red", "pink", "dirty", *brown}
    assert len(attribute_table().univse) == 37
    assert "An orange car." in texts_of(made("uniform_attribute", "A red car.", per_family=1000))


def test_univse_relations_change_a_noun_in_two_of_three_cases_and_add_either_side():
    operator, batch = OPERATORS["uniform_relation"], batch_of([captions_of("A man rides a horse.")])
    replaced = Counter(row.replaced for row in islice(operator.list_rows(batch.evidence[0], batch, 0), 600))
    assert {word: round(count / 200) for word, count in replaced.items()} == {"man": 1, "horse": 1, "ride": 1}
    texts = texts_of(made("uniform_relation", "Two dogs run.", per_family=200))
    assert any(text.startswith("Two dogs ") for text in texts)
    assert any(text.endswith(" two dogs run.") for text in texts)


def test_univse_objects_are_not_said_of_the_image():
    found = made("uniform_object", "A dog on a couch.", "A cat near a window.", per_family=400)
    words = {row.replacement for row in found}
    assert words and not {"dog", "couch", "cat", "window"} & words
    assert any(row.replaced == "" and " and a" in row.text for row in found)
