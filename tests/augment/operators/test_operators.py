"""What each operator makes of captions, what it never makes, and what it leaves alone."""

import numpy as np
import pytest

from negcap.augment.language.parse import parse
from negcap.augment.language.semantic_classes import are_incompatible, attribute_table, preposition_table
from negcap.augment.operators import OPERATORS, PRESETS, operator_named, operators_of_preset
from negcap.augment.operators.numeral import MIN_RATIO
from negcap.augment.truth.contradiction import interchangeable
from tests.augment.fixtures import accepted, batch_of, sentences
from tests.cases import cases_of

pytestmark = pytest.mark.usefixtures("without_floors")
CASES, SETS = cases_of(__file__), cases_of(__file__, "sets.toml")


def test_an_unknown_operator_or_preset_lists_the_valid_ones():
    with pytest.raises(ValueError, match="noun, numeral, shuffle, preposition, .*, was: adverb"):
        operator_named("adverb")
    with pytest.raises(ValueError, match="preset must be one of vse-c, univse, negation, benchmark, all, .*, was: vse"):
        operators_of_preset("vse")


def test_presets_share_a_family_as_the_papers_do():
    shares: dict[str, float] = {}
    for name in PRESETS["vse-c"]:
        traits = OPERATORS[name].traits
        shares[traits.family] = shares.get(traits.family, 0.0) + traits.share
    assert shares == {"noun": 1.0, "numeral": 1.0, "relation": 1.0}
    assert {20 * OPERATORS[name].traits.share for name in PRESETS["univse"]} == {5.0}


def cases(kind: str, table: dict[str, dict[str, list[list[str]]]] = CASES) -> list[tuple[str, str, list[str]]]:
    """(operator, caption and its siblings, what is expected) of a table of `cases.toml` or `sets.toml`."""
    return [(name, text, expected) for name, rows in table[kind].items() for text, *expected in rows]


@pytest.mark.parametrize(("name", "text", "expected"), [*cases("made"), *cases("made", SETS)])
def test_what_is_made_keeps_the_grammar_of_the_caption(name, text, expected):
    assert set(expected) <= accepted(name, text)


@pytest.mark.parametrize(("name", "text", "kept"), cases("kept", SETS))
def test_what_is_named_again_divided_or_listed_is_kept(name, text, kept):
    assert not [made for made in accepted(name, text) for words in kept if words not in made]


@pytest.mark.parametrize(("name", "text", "words"), cases("together", SETS))
def test_all_mentions_of_a_thing_change(name, text, words):
    counts = {made.count(word) for made in accepted(name, text) for word in words}
    assert counts <= {0, *(text.count(word) for word in words)} and 0 in counts


@pytest.mark.parametrize(("name", "text", "expected"), cases("only"))
def test_this_is_made_and_nothing_else(name, text, expected):
    assert accepted(name, text) == set(expected)


@pytest.mark.parametrize(("name", "texts", "never"), cases("never"))
def test_nothing_is_said_that_may_be_true_or_is_no_english(name, texts, never):
    made = accepted(name, *sentences(texts))
    assert made and not [text for text in made for word in never if word in text]


@pytest.mark.parametrize(("name", "texts"), CASES["left_alone"].items())
def test_what_cannot_be_exchanged_is_left_alone(name, texts):
    assert [text for text in texts if accepted(name, text)] == []


@pytest.mark.parametrize("text", CASES["operators"]["absent"])
def test_what_is_not_there_is_left_alone(text):
    made = set().union(*(accepted(name, text) for name in ("noun", "object", "numeral", "attribute")))
    assert all(any(f" {word}" in negative for word in ("table", "hat", "car", "bus", "dog")) for negative in made)


@pytest.mark.parametrize(("text", "one", "other"), CASES["operators"]["same_again"])
def test_shuffle_never_says_the_same_again(text, one, other):
    (caption,) = parse([text])
    last = {token.lower: token for token in caption.tokens}
    assert interchangeable(caption, last[one], last[other])


def test_relation_samples_its_parts_from_their_own_nouns_and_adds_nothing():
    made = accepted("relation", "A dog is next to a tree.")
    assert made and all(text.startswith("A dog ") or text.endswith(" next to a tree.") for text in made)
    assert not accepted("relation", "A dog.")


def test_each_part_of_a_relation_is_replaced_equally_often():
    batch = batch_of([parse(["A dog is on a table."])], "noun", "preposition", "verb")
    candidates, weights = OPERATORS["relation"].weighted_candidates(batch)
    slots = np.array([batch.candidates.slots[slot].entry for slot in batch.candidates.slot[candidates].tolist()])
    for word in ("dog", "on", "table"):
        assert weights[slots == word].sum() == pytest.approx(1.0)


def test_a_pronoun_follows_what_it_means():
    made = accepted("numeral", "There is a boat with a dog in it.")
    assert {text for text in made if "two boats" in text} == {"There are two boats with a dog in them."}
    assert {text for text in made if "two dogs" in text} <= {"There is a boat with two dogs in it."}


def test_which_prepositions_may_replace_which():
    table = preposition_table()
    for pair in CASES["operators"]["prepositions_that_overlap"]:
        one, other = pair.split("/")
        assert not table.are_exclusive(one, other) and not table.are_exclusive(other, one), pair
    assert table.are_exclusive("on", "under") and table.are_exclusive("under", "on")
    for old, new, noun, other in CASES["operators"]["prepositions_exclusive_before"]:
        assert table.are_exclusive(old, new, noun) and not table.are_exclusive(old, new, other)
    assert set(table.relations) <= table.entries
    assert {one for one, _ in table.exclusions} == set(table.relations.values())
    assert not [pair for pair in table.exclusions if pair[0] == pair[1]]


@pytest.mark.parametrize(("text", "replaced"), CASES["replaced"].items())
def test_a_noun_is_replaced_where_another_thing_would_exclude_it(text, replaced):
    table = batch_of([parse([text])], "noun").candidates
    slots = table.slot[table.weight > 0].tolist()
    assert {table.slots[slot].entry for slot in slots} == set(replaced.split())


@pytest.mark.parametrize("text", ["A dog runs.", "Two men play in a field with a ball."])
def test_numerals_that_the_lexicon_finds_unlikely_are_not_tried(text):
    table = batch_of([parse([text])], "numeral").candidates
    for slot in range(len(table.slots)):
        tried = table.weight[table.slot == slot]
        assert tried.min() >= MIN_RATIO * tried.max() > 0


@pytest.mark.parametrize(("one", "other", "expected"), CASES["operators"]["attributes_exclude"])
def test_which_attributes_exclude_one_another(one, other, expected):
    assert are_incompatible(one, other) == are_incompatible(other, one) == expected


def test_the_groups_of_univse_are_kept_together():
    for group in map(str.split, CASES["operators"]["groups_of_univse"]):
        assert not [(a, b) for a in group for b in group if are_incompatible(a, b)]
    assert {"red", "blue", "wooden"} <= attribute_table().dimensions.keys() and "other" in attribute_table().vague
