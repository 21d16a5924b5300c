"""The table of candidates: what may replace the words of captions, with which weight, and what is refused unread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from negcap.augment.candidates import FREE, REASONS, Candidates, Limits
from negcap.augment.kinds import KINDS
from negcap.augment.operators.noun import LIFT, MAX_LIFT, MIN_SCORE
from negcap.augment.raters import MAX_UNNATURAL
from negcap.augment.rows import COMPATIBLE, LIKELY_TRUE, UNNATURAL
from tests.augment.fixtures import batch_of, captions_of, sample_images, sample_lexicon

COLUMNS = ("slot", "entry", "unit", "is_head", "log_p", "log_odds", "weight", "reason")


@pytest.mark.parametrize("kind", ["attribute", "verb"])
def test_the_weight_of_a_word_is_its_probability_in_its_place_if_above_a_floor(kind):
    batch = batch_of([captions_of("A red dog sits on a couch.")], kind)
    table, encoding = batch.candidates, batch.evidence[0].encoding
    free = np.flatnonzero(table.reason == FREE)
    starts = [table.slots[slot].start for slot in table.slot[free].tolist()]
    vectors = np.stack([encoding.vector(start, start + 1) for start in starts])
    expected = encoding.model.scores(vectors, table.unit[free])
    assert len(free) > 1 and expected.min() >= KINDS[kind].floor
    assert table.log_p[free] == pytest.approx(expected, abs=1e-4)
    assert table.weight[free] == pytest.approx(np.exp(expected), rel=1e-4)
    old = [encoding.log_probability(start) for start in starts]
    assert table.log_odds[free] == pytest.approx(expected - old, abs=1e-4)


def test_a_noun_that_goes_with_its_verb_has_more_weight_but_no_more_than_a_limit():
    table = batch_of(sample_images(20), "noun").candidates
    weighted = table.weight > 0
    lift = np.log(table.weight[weighted]) - table.log_p[weighted]
    assert lift.max() <= LIFT * MAX_LIFT + 1e-4 and lift.min() < 0 < np.median(lift)
    assert np.log(table.weight[weighted]).min() >= MIN_SCORE - 1e-4


@pytest.mark.parametrize(("text", "plural"), [("A dog on a couch.", False), ("Two dogs on a couch.", True)])
def test_balanced_weights_are_of_the_number_of_the_noun(text, plural):
    images, lexicon = [captions_of(text)], sample_lexicon()
    before = batch_of(images, "noun").candidates
    allowed = before.weight > 0
    of_dog = np.array([slot.entry == "dog" for slot in before.slots])[before.slot]
    in_number = np.array([slot.plural == plural for slot in before.slots])[before.slot]
    new = before.entry[of_dog & allowed][0]
    factors = {("dog", plural): 2.0, (lexicon.nouns.names[new], plural): 3.0}
    balanced = replace(lexicon, by_kind={**lexicon.by_kind, "noun": lexicon.nouns.rebalanced(factors)})
    after = batch_of(images, "noun", lexicon=balanced).candidates
    expected = np.where(of_dog, 1 / 2.0, 1.0) * np.where((before.entry == new) & in_number, 3.0, 1.0)
    assert after.weight[allowed] / before.weight[allowed] == pytest.approx(expected[allowed])


def test_what_may_name_the_same_thing_is_in_the_table_but_refused():
    table = batch_of([captions_of("A dog is lying on a red couch.")], "noun").candidates
    same = table.reason == REASONS.index(COMPATIBLE)
    names = {sample_lexicon().nouns.names[entry] for entry in table.entry[same].tolist()}
    assert {"puppy", "sofa"} & names and "cat" not in names
    assert not table.weight[same].any() and (table.weight[~same] > 0).all()


def test_a_candidate_keeps_its_first_reason():
    table = batch_of([captions_of("A dog is lying on a couch.")], "noun").candidates
    expected, even = table.reason.copy(), np.arange(len(table)) % 2 == 0
    expected[(expected == FREE) & even] = REASONS.index(UNNATURAL)
    expected[(expected == FREE) & ~even] = REASONS.index(LIKELY_TRUE)
    table.refuse(even, UNNATURAL)
    table.refuse(np.arange(len(table)), LIKELY_TRUE)
    assert np.array_equal(table.reason, expected)


def test_a_joined_table_has_the_candidates_of_its_parts_in_their_slots():
    whole, first, slots = batch_of(sample_images(4), *KINDS).candidates, 0, 0
    for kind in KINDS:
        part = batch_of(sample_images(4), kind).candidates
        own = whole.of_kinds([kind])
        assert own.tolist() == list(range(first, first + len(part)))
        assert whole.slots[slots : slots + len(part.slots)] == part.slots
        part.slot += slots
        for column in COLUMNS:
            assert np.array_equal(getattr(whole, column)[own], getattr(part, column), equal_nan=True)
        first, slots = first + len(part), slots + len(part.slots)
    assert len(whole) == first and len(Candidates.join([])) == 0


def test_ratings_do_not_depend_on_what_is_rated_together_and_decide_by_the_limits():
    whole, parts = (batch_of(sample_images(10), *KINDS, limits=Limits()) for _ in range(2))
    table, every = whole.candidates, np.arange(len(whole.candidates))
    whole.estimates.rate(every)
    for part in np.array_split(np.random.default_rng(0).permutation(every), 17):
        parts.estimates.rate(part)
        parts.estimates.rate(part[:3])  # again
    for column in ("p_unnatural", "p_compatible", "log_odds", "reason"):
        assert np.array_equal(getattr(table, column), getattr(parts.candidates, column), equal_nan=True)
    rated = ~np.isnan(table.p_unnatural)
    assert rated.any() and not rated[table.of_kinds(["numeral"])].any()  # their texts are read
    allowed = rated & (table.reason == FREE)
    assert (table.p_unnatural[allowed] <= Limits().unnatural).all()
    assert (table.p_compatible[allowed] <= Limits().max_compatible).all()


def test_what_is_refused_unrated_would_mostly_be_refused_when_it_is_rated():
    limited, unlimited = (batch_of(sample_images(40), *KINDS, limits=limits) for limits in (Limits(), Limits(1, 1, 1)))
    unlimited.estimates.rate(np.arange(len(unlimited.candidates)))
    refused = (limited.candidates.reason == REASONS.index(UNNATURAL)) & ~np.isnan(unlimited.candidates.p_unnatural)
    assert refused.sum() > 500
    assert (unlimited.candidates.p_unnatural[refused] > MAX_UNNATURAL).mean() >= 0.98
