"""Contexts of words, how likely they make an entry, and a corpus' counts with those of a reference."""

import numpy as np
import pyarrow as pa
import pytest

from negcap.augment.components.vocabulary import PAPER_RARE
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.lexicon.entries import SMOOTHING, Keys, blend_counts, layout_of, read_entries
from negcap.augment.lexicon.lexicon import Lexicon, default_min_count, select_entries
from negcap.augment.slots.nouns import broader_context
from negcap.schemas.captions import LEXICON
from tests.augment.fixtures import sample_lexicon
from tests.cases import cases_of

CASES = cases_of(__file__)["entries"]


def table(rows: list) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(LEXICON.names, row, strict=True)) for row in rows], schema=LEXICON)


def usable(counts: pa.Table, min_count: int) -> pa.Table:
    return select_entries(counts, min_count, Concreteness.load(), 0.6)


def test_a_context_has_a_broader_one():
    expected = CASES["broader"]
    assert {context: broader_context(context) for context in expected} == expected


def test_a_context_backs_off_to_the_broader_one():
    rows = table(CASES["backing_off"])
    entries = read_entries(layout_of(Keys(rows), "preposition"), rows["count"].to_numpy())
    wide = (30 + SMOOTHING * 0.5) / (40 + SMOOTHING)
    narrow = (9 + SMOOTHING * wide) / (10 + SMOOTHING)
    for contexts, share in ((("obj kind:1",), wide), (("obj:dog", "obj kind:1"), narrow)):
        on, under = entries.lift(contexts)
        assert on / under == pytest.approx(share / (1 - share))
    assert entries.has_form("on", "") and not entries.has_form("on", "bare") and not entries.has_form("over", "")


def test_what_a_caption_has_is_counted_once_and_the_mean_lift_is_one():
    nouns, prepositions = sample_lexicon().nouns, sample_lexicon().entries("preposition")
    forms = [np.exp(prior) for form, prior in nouns.priors.items() if form]
    assert (np.sum(forms, axis=0) <= np.exp(nouns.priors[""]) + 1e-9).all()
    usual = np.exp(prepositions.priors[""])
    context = next(context for context in sorted(prepositions.layout.contexts) if context.startswith("obj kind:"))
    assert (prepositions.lift((context,)) @ usual) / usual.sum() == pytest.approx(1.0)


def test_frequent_is_scaled_to_the_number_of_captions():
    """35,000 captions are 6.2 % of COCO's: more than 200 there are more than 12.4 here, at least 13."""
    captions = (1, 31_000, 35_000, 283_218, 566_435, 10**7)
    assert [default_min_count(number) for number in captions] == [5, 11, 13, 101, 201, 201]
    assert [default_min_count(number, PAPER_RARE) for number in captions] == [5, 6, 7, 51, 101, 101]


def test_counts_are_added_and_frequent_words_of_the_corpus_enter():
    counts = CASES["counts"]
    rows, turned = (
        blend_counts(table(own), usable(table(own), 5), table(CASES["reference"]), 0.1)
        for own in (counts, counts[::-1])
    )
    assert rows.schema.equals(LEXICON) and rows.equals(turned)
    assert {tuple(row[:3]): pytest.approx(row[3]) for row in CASES["blended"]} == {
        (row["kind"], row["entry"], row["place"]): row["count"] for row in rows.to_pylist()
    }


def test_a_word_said_once_enters_if_once_is_enough():
    rows = usable(table([("noun", "cat", "", 1), ("noun", "cat", "form:a", 1), ("noun", "dog", "", 2)]), 1)
    assert (rows["entry"].to_pylist(), rows["place"].to_pylist()) == (["cat", "dog"], ["", ""])


@pytest.mark.parametrize("is_far", [False, True])
def test_a_far_corpus_takes_only_words_that_it_has_from_the_reference(is_far):
    counts = table([*CASES["counts"], ("noun", "horse", "", 2)])
    others = [("noun", "horse", "", 50), ("preposition", "below", "", 9), ("verb", "ski", "", 9)]
    reference = table([*CASES["reference"], *others])
    entries = set(blend_counts(counts, usable(counts, 5), reference, 0.1, is_far=is_far)["entry"].to_pylist())
    # Prepositions are of every world; one cat in the corpus is too few.
    assert entries == {"dog", "horse", "zebra", "below"} | (set() if is_far else {"cat", "ski"})


def test_a_large_corpus_has_its_own_probabilities_and_a_small_one_those_of_the_reference():
    p_cat = []
    for times in (0, 1, 10, 100, 1000):
        own = table([("noun", "dog", "", 6 * times), ("noun", "dog", "obj:walk", 2 * times)][: 2 * min(times, 1)])
        nouns = Lexicon.from_table(blend_counts(own, own, table(CASES["reference"]), 0.1)).nouns
        p_cat.append(nouns.probabilities([("obj:walk",)])[0, nouns.number["cat"]])
    assert p_cat == sorted(p_cat, reverse=True)
    assert p_cat[0] - p_cat[1] < 0.15 and p_cat[4] < 0.01


def test_a_fraction_of_a_count_cannot_be_left_out_twice():
    """Leaving out the occurrence in a slot takes at most what was counted there."""
    nouns = Lexicon.from_table(table([("noun", "dog", "", 3), ("noun", "dog", "obj:walk", 0.2)])).nouns
    assert nouns.gains(("obj:walk",), 0)[0] < nouns.gains(("obj:walk",))[0]


def test_plurals_and_what_has_none_are_those_of_the_corpus():
    lexicon = Lexicon.from_table(table([("surface", *row) for row in CASES["surfaces"]]))
    # Of beaches and elk, the singular was taken for a plural: rarely, and often. Snow and fields are hardly counted.
    plurals = {"beach": "beaches", "elk": "elk", "fish": "fish", "snow": "snow", "dog": "dogs"}
    assert lexicon.plural.items() >= plurals.items()
    assert lexicon.in_number("gentleman", many=True) == "gentlemen"
    assert lexicon.singular_only >= {"field", "court"} and not lexicon.singular_only & {"dog", "hinge", "person"}
