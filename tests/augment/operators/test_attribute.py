from importlib import import_module
from random import Random

import pytest

from negcap.augment.context import contexts
from negcap.augment.generate import Settings, generate_tables
from negcap.augment.language.parse import parse
from negcap.augment.language.semantic_classes import are_incompatible, attributes
from negcap.augment.operators.attribute import added_attribute
from negcap.augment.slots.nouns import attribute_slots
from tests.augment.fixtures import accepted, proposals, sample_lexicon, sample_parses

pytestmark = pytest.mark.usefixtures("without_floors")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("red", "blue", True), ("wet", "dry", True), ("young", "old", True), ("striped", "plaid", True),
        ("wooden", "metal", True), ("empty", "crowded", True), ("large", "tiny", True), ("sunny", "overcast", True),
        ("red", "pink", False), ("grey", "silver", False), ("young", "tall", False), ("red", "striped", False),
        ("large", "huge", False), ("old", "senior", False), ("red", "red", False), ("other", "red", False),
    ],
)  # fmt: skip
def test_which_attributes_exclude_one_another(one: str, other: str, expected: bool) -> None:
    assert are_incompatible(one, other) == are_incompatible(other, one) == expected


@pytest.mark.parametrize(
    "group",
    [
        ("white", "snowy", "polar"),
        ("red", "pink"),
        ("blue", "cloudy"),
        ("green", "grassy"),
        ("brown", "sandy", "yellow", "orange"),
        ("rocky", "concrete"),
    ],
)
def test_the_groups_of_univse_are_kept_together(group: tuple[str, ...]) -> None:
    assert not [(a, b) for a in group for b in group if are_incompatible(a, b)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A red car.", [("red", "car", "attributive")]),
        ("The car is red.", [("red", "car", "predicative")]),
        ("A big brown dog.", [("big", "dog", "attributive"), ("brown", "dog", "attributive")]),
        ("A black and white cat.", [("black", "cat", "attributive"), ("white", "cat", "attributive")]),
        ("A metal bench.", [("metal", "bench", "attributive")]),
        ("An old man.", [("old", "man", "attributive")]),
    ],
)
def test_slots_know_the_owner(text: str, expected: list[tuple[str, str, str]]) -> None:
    caption = parse([text])[0]
    assert [(s.entry, caption.tokens[s.noun].lemma, s.form) for s in attribute_slots(caption)] == expected


@pytest.mark.parametrize(
    "text", ["A black man.", "A little boy.", "A dirt bike.", "The other dog.", "A light blue car."]
)
def test_what_says_something_else_is_no_slot(text: str) -> None:
    assert not attribute_slots(parse([text])[0])


def test_attribute_replaces_by_what_excludes_it() -> None:
    made = accepted("attribute", "A red car is parked on the street.")
    assert {"A blue car is parked on the street.", "A white car is parked on the street."} <= made
    replaced = [text for text in made if len(text.split()) == 8]
    assert not [text for text in replaced for word in ("pink", "large", "old", "wooden") if f" {word} " in text]


def test_attribute_carries_the_article_along() -> None:
    assert "An old man is riding a bike." in accepted("attribute", "A young man is riding a bike.")


def test_attribute_replaces_a_predicate() -> None:
    assert "The car is blue." in accepted("attribute", "The car is red.")


def test_attribute_heeds_the_caption_and_its_siblings() -> None:
    made = proposals("attribute", "A small white dog is on the grass.", "A brown dog is on the grass.")
    said = {reason for text, reason in made if " yellow " in text or " brown " in text}
    assert said == {"sibling_says_so"}
    assert any(reason is None and " black " in text for text, reason in made)


def test_an_attribute_is_added_only_where_none_is_replaced() -> None:
    tables, _ = generate_tables(sample_parses(), sample_lexicon(), Settings(operators=("attribute",)))
    added: dict[str, set[bool]] = {}
    for row in tables["negatives"].to_pylist():
        added.setdefault(row["caption_id"], set()).add(row["replaced"] == "")
    assert {True} in added.values() and {False} in added.values()
    assert {True, False} not in added.values()


def test_an_added_attribute_is_one_that_the_corpus_never_gives_the_noun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("negcap.augment.operators.attribute"), "EXPECTED", 0.05)
    attributes = sample_lexicon().attributes
    (caption,) = parse(["A car is parked on the street."])
    made = list(added_attribute(caption, contexts([[caption]], sample_lexicon())[0], Random(0), 50))
    assert made
    for one in made:
        noun = caption.tokens[one.slots[0]].lemma
        assert attributes.counts_in(f"noun:{noun}")[attributes.number[one.replacement]] == 0
        assert one.replaced == "" and one.plausibility is None


def test_swap_attribute_exchanges_what_excludes() -> None:
    text = "A woman in a red shirt is holding a blue umbrella."
    made = set().union(*(accepted("swap_attribute", text, seed=seed) for seed in range(40)))
    assert made == {"A woman in a blue shirt is holding a red umbrella."}


@pytest.mark.parametrize(
    "texts",
    [
        ("A white dog with a black dog.",),
        ("A small dog next to a white house.",),
        ("A red ball next to a pink box.",),
        ("A red car is next to a blue house.", "A red house."),
    ],
)
def test_swap_attribute_leaves_what_may_stay_true(texts: tuple[str, ...]) -> None:
    assert not set().union(*(accepted("swap_attribute", *texts, seed=seed) for seed in range(40)))


def test_every_word_of_an_overlap_is_known_or_of_the_paper() -> None:
    assert {"red", "blue", "wooden"} <= attributes().words
    assert "other" not in attributes().words


def test_no_part_of_a_unit_of_the_cloze_model_is_replaced() -> None:
    # The model knows "leather jacket" as one word, so it has no probability of "leather" alone.
    assert not accepted("attribute", "A man in a leather jacket.")
    assert accepted("attribute", "A man in a black jacket.")
