"""Contexts of words, how likely they make an entry, and a corpus' counts with those of a reference."""

import numpy as np
import pyarrow as pa
import pytest

from negcap.augment.language.concreteness import Concreteness
from negcap.augment.lexicon.entries import SMOOTHING, Entries, Keys, blend_counts, layout_of, read_entries
from negcap.augment.lexicon.lexicon import Lexicon, default_min_count, select_entries
from negcap.augment.slots.nouns import broader_context
from negcap.schemas.captions import LEXICON
from tests.augment.fixtures import sample_lexicon
from tests.cases import cases_of

CASES = cases_of(__file__)["entries"]


def test_a_context_has_a_broader_one():
    expected = {
        "obj:poodle": "obj kind:1", "pobj:woman": "obj kind:0", "gov:man": "gov kind:0", "pobj:sit on": "pobj:on",
        "verb:stroll": "verb kind:verb.motion", "nsubj:eat": "nsubj kind:verb.consumption", "left:on a": "",
        "pobj:roof of": "of kind:18", "obj kind:1": "",
    }  # fmt: skip
    assert {context: broader_context(context) for context in expected} == expected


def hand_made() -> Entries:
    """Prepositions: "on" before animals 30 times of 40, before dogs 9 times of 10."""
    rows = [
        ("on", "", 50), ("under", "", 50),
        ("on", "obj kind:1", 30), ("under", "obj kind:1", 10), ("on", "obj:dog", 9), ("under", "obj:dog", 1),
    ]  # fmt: skip
    columns = list(zip(*(("preposition", *row) for row in rows), strict=True))
    rows_of_table = pa.table(columns, ["kind", "entry", "place", "count"])
    return read_entries(layout_of(Keys(rows_of_table), "preposition"), rows_of_table["count"].to_numpy())


def test_a_context_backs_off_to_the_broader_one():
    entries = hand_made()
    wide = (30 + SMOOTHING * 0.5) / (40 + SMOOTHING)
    narrow = (9 + SMOOTHING * wide) / (10 + SMOOTHING)
    on, under = entries.lift(("obj kind:1",))
    assert on / under == pytest.approx(wide / (1 - wide))
    on, under = entries.lift(("obj:dog", "obj kind:1"))
    assert on / under == pytest.approx(narrow / (1 - narrow))
    assert entries.has_form("on", "") and not entries.has_form("on", "bare") and not entries.has_form("over", "")


def test_what_a_caption_has_is_counted_once_and_the_mean_lift_is_one():
    nouns, prepositions = sample_lexicon().nouns, sample_lexicon().entries("preposition")
    forms = [np.exp(prior) for form, prior in nouns.priors.items() if form]
    assert (np.sum(forms, axis=0) <= np.exp(nouns.priors[""]) + 1e-9).all() and "" not in nouns.layout.contexts
    usual = np.exp(prepositions.priors[""])
    context = next(context for context in sorted(prepositions.layout.contexts) if context.startswith("obj kind:"))
    assert (prepositions.lift((context,)) @ usual) / usual.sum() == pytest.approx(1.0)


def test_frequent_is_more_than_200_at_the_papers_size():
    """35,000 captions are 6.2 % of COCO's: more than 12.4 occurrences are at least 13."""
    assert [*map(default_min_count, (1, 35_000, 283_218, 566_435, 10**7))] == [5, 13, 101, 201, 201]


def table(rows: list) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(LEXICON.names, row, strict=True)) for row in rows], schema=LEXICON)


def blended(counts: list) -> pa.Table:
    return blend_counts(
        table(counts), select_entries(table(counts), 5, Concreteness.load(), 0.6), table(CASES["reference"]), 0.1
    )


def test_counts_are_added_and_frequent_words_of_the_corpus_enter():
    made = blended(CASES["counts"])
    assert made.schema.equals(LEXICON) and made.equals(blended(CASES["counts"][::-1]))
    assert list(zip(*made.to_pydict().values(), strict=True)) == [
        ("noun", "cat", "", pytest.approx(1 + 10)),
        ("noun", "cat", "obj:walk", pytest.approx(1 + 1)),
        ("noun", "dog", "", pytest.approx(6 + 20)),
        ("noun", "dog", "form:a", 6),
        ("noun", "dog", "obj:walk", pytest.approx(1 + 0.8)),  # 1 counts: the reference has the context
        ("noun", "zebra", "", 5),
        ("noun", "zebra", "obj:see", 2),
        ("surface", "zebra", "nns:zebras", 1),
    ]


def test_a_word_said_once_enters_if_once_is_enough():
    counts = table([("noun", "cat", "", 1), ("noun", "cat", "form:a", 1), ("noun", "dog", "", 2)])
    rows = select_entries(counts, 1, Concreteness.load(), 0.6).to_pydict()
    assert (rows["entry"], rows["place"]) == (["cat", "dog"], ["", ""])


def test_a_far_corpus_takes_only_words_that_it_has_from_the_reference():
    counts = table([*CASES["counts"], ("noun", "horse", "", 2)])
    others = [("noun", "horse", "", 50), ("preposition", "below", "", 9), ("verb", "ski", "", 9)]
    reference = table([*CASES["reference"], *others])
    usable = select_entries(counts, 5, Concreteness.load(), 0.6)
    entries = {
        is_far: set(blend_counts(counts, usable, reference, 0.1, is_far=is_far)["entry"].to_pylist())
        for is_far in (False, True)
    }
    far = {"dog", "horse", "zebra", "below"}  # prepositions are of every world
    assert entries == {True: far, False: far | {"cat", "ski"}}  # one cat is too few


def test_a_large_corpus_has_its_own_probabilities_and_a_small_one_those_of_the_reference():
    def p_cat(rows: pa.Table) -> float:
        nouns = Lexicon.from_table(rows).nouns
        return nouns.probabilities([("obj:walk",)])[0, nouns.number["cat"]]

    found = []
    for times in (1, 10, 100, 1000):
        own = table([("noun", "dog", "", 6 * times), ("noun", "dog", "obj:walk", 2 * times)])
        found.append(p_cat(blend_counts(own, own, table(CASES["reference"]), 0.1)))
    limit = p_cat(blend_counts(table(CASES["counts"][:0]), table(CASES["counts"][:0]), table(CASES["reference"]), 0.1))
    assert limit > found[0] > found[1] > found[2] > found[3]
    assert limit - found[0] < 0.15 and found[3] < 0.01


def test_a_fraction_of_a_count_cannot_be_left_out_twice():
    """Leaving out the occurrence in a slot takes at most what was counted there."""
    nouns = Lexicon.from_table(table([("noun", "dog", "", 3), ("noun", "dog", "obj:walk", 0.2)])).nouns
    assert nouns.gains(("obj:walk",), 0)[0] < nouns.gains(("obj:walk",))[0]


def test_a_singular_that_is_rarely_taken_for_a_plural_has_another():
    counts = [("nn:beach", 1000.0), ("nns:beach", 2.0), ("nn:elk", 10.0), ("nns:elk", 8.0), ("nns:fish", 9.0)]
    counts += [("nn:snow", 900.0), ("nns:snow", 1.0)]
    rows = [("surface", place.partition(":")[2], place, count) for place, count in counts]
    rows += [("surface", "beach", "counted", 700.0), ("surface", "snow", "counted", 3.0)]
    forms = Lexicon.from_table(pa.Table.from_arrays([pa.array(one) for one in zip(*rows, strict=True)], schema=LEXICON))
    assert forms.plural == {"beach": "beaches", "elk": "elk", "fish": "fish", "person": "people", "snow": "snow"}
    assert forms.in_number("gentleman", many=True) == "gentlemen"


def test_a_noun_that_is_often_said_and_hardly_ever_of_several_has_no_plural_number():
    rows = [
        ("surface", "field", "nn:field", 1000),
        ("surface", "field", "nns:fields", 3),
        ("surface", "court", "nn:court", 99),
        ("surface", "dog", "nn:dog", 1000),
        ("surface", "dog", "nns:dogs", 400),
        ("surface", "hinge", "nn:hinge", 49),
        ("surface", "person", "nn:person", 1000),
    ]
    assert Lexicon.from_table(table(rows)).singular_only == {"field", "court"}
