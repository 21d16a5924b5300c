"""What of a caption may be replaced: its slots, each with its word and the form that a replacement takes."""

import pytest

from negcap.augment.language.parse import parse
from negcap.augment.slots.nouns import attribute_slots, noun_slots, numeral_slots
from negcap.augment.slots.verbs import are_incompatible, inflect_verb, preposition_slots, verb_slots
from tests.cases import cases_of

CASES = cases_of(__file__)["slots"]


@pytest.mark.parametrize(("text", "entry", "form", "plural"), CASES["forms"])
def test_forms_of_noun_slots(text, entry, form, plural):
    slots = {slot.entry: slot for slot in noun_slots(parse([text])[0])}
    assert (slots[entry].form, slots[entry].plural) == (form, plural)


@pytest.mark.parametrize(("text", "editable"), CASES["plurals"].items())
def test_a_plural_is_edited_where_its_number_is_clear(text, editable):
    assert [slot.entry for slot in noun_slots(parse([text])[0]) if slot.plural] == editable


def test_slots_know_compounds_quantities_and_prepositions_of_several_words():
    caption, other = parse(["A woman is holding two tennis rackets.", "A dog is standing in front of a car."])
    assert [slot.entry for slot in noun_slots(caption)] == ["woman", "tennis racket"]
    assert [(slot.entry, slot.value) for slot in numeral_slots(caption)] == [("a", 1), ("two", 2)]
    assert [(slot.entry, slot.end - slot.start) for slot in preposition_slots(other)] == [("in front of", 3)]


@pytest.mark.parametrize(("text", "nouns"), CASES["names"].items())
def test_nouns_of_a_name_are_no_slots_unless_all_words_are_written_so(text, nouns):
    assert [slot.entry for slot in noun_slots(parse([text])[0])] == nouns


@pytest.mark.parametrize(("text", "expected"), CASES["attributes"].items())
def test_slots_know_the_owner_of_an_attribute(text, expected):
    (caption,) = parse([text])
    slots = [f"{slot.entry} {caption.tokens[slot.noun].lemma} {slot.form}" for slot in attribute_slots(caption)]
    assert slots == expected


@pytest.mark.parametrize(("text", "expected"), CASES["verbs"].items())
def test_slots_know_the_pattern_of_a_verb(text, expected):
    assert [f"{slot.entry} {slot.form}" for slot in verb_slots(parse([text])[0])] == expected


@pytest.mark.parametrize(("one", "other", "pattern", "expected"), CASES["verbs_exclude"])
def test_which_verbs_exclude_one_another(one, other, pattern, expected):
    assert are_incompatible(one, other, pattern) == are_incompatible(other, one, pattern) == expected


def test_verbs_are_inflected_as_the_corpus_writes_them():
    assert inflect_verb("sit", "VBG", {"sit": "sitting"}) == "sitting"
    assert [inflect_verb("catch", tag, {}) for tag in ("VBZ", "VBP", "VBD")] == ["catches", "catch", None]
