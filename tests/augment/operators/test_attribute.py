from importlib import import_module
from random import Random

import pytest

from negcap.augment.context import contexts
from negcap.augment.generate import Settings, generate_tables
from negcap.augment.language.parse import parse
from negcap.augment.language.semantic_classes import are_incompatible, attributes
from negcap.augment.operators.attribute import added_attribute
from tests.augment.fixtures import accepted, sample_lexicon, sample_parses

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


def test_the_groups_of_univse_are_kept_together() -> None:
    groups = """white snowy polar; red pink; blue cloudy; green grassy; brown sandy yellow orange; rocky concrete"""
    for group in map(str.split, groups.split(";")):
        assert not [(a, b) for a in group for b in group if are_incompatible(a, b)]
    assert {"red", "blue", "wooden"} <= attributes().words and "other" not in attributes().words


def test_attribute_replaces_by_what_excludes_it() -> None:
    replaced = [text for text in accepted("attribute", "A red car is parked on the street.") if len(text.split()) == 8]
    assert replaced
    assert not [text for text in replaced for word in ("pink", "large", "old", "wooden") if f" {word} " in text]
    assert accepted("attribute", "A man in a black jacket.")


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
