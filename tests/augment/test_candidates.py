"""The table of candidates: what may replace the words of captions, with which weight, and what is refused unread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from negcap.augment.candidates import FREE, REASONS, Candidates, Limits
from negcap.augment.caption import by_image, from_parses
from negcap.augment.kinds import KINDS
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.operators import replacing
from negcap.augment.operators.noun import LIFT, MAX_LIFT, MIN_SCORE
from negcap.augment.operators.replacement import balance_ratios
from negcap.augment.plausibility import entry_units, entry_vectors, log_probabilities
from negcap.augment.raters import MAX_COMPATIBLE, MAX_UNNATURAL, PREFERRED_UNNATURAL, is_fallback
from negcap.augment.rows import COMPATIBLE, LIKELY_TRUE, UNNATURAL
from negcap.augment.slots.nouns import Slot
from tests.augment.fixtures import batch_of, captions_of, results, sample_lexicon, sample_parses

COLUMNS = ("slot", "entry", "unit", "is_head", "log_p", "log_odds", "weight", "reason")


def names_of(table: Candidates, chosen: np.ndarray, lexicon: Lexicon | None = None) -> set[str]:
    """The replacements of the candidates of a table that a mask has."""
    lexicon, found = lexicon or sample_lexicon(), np.flatnonzero(chosen).tolist()
    return {lexicon.entries(table.slots[table.slot[one]].kind).names[table.entry[one]] for one in found}


@pytest.mark.parametrize("kind", ["preposition", "attribute", "verb"])
def test_weights_are_the_probabilities_above_the_floor(kind):
    batch = batch_of([captions_of("A red dog sits on a couch.")], kind)
    table, lexicon, (evidence,) = batch.candidates, batch.lexicon, batch.evidence
    replacer, entries = replacing(kind)[kind], lexicon.entries(kind)
    assert table.slots == list(replacer.slots(evidence, lexicon)) and table.slots
    for number, slot in enumerate(table.slots):
        form = replacer.required_form(slot, evidence)
        asked = [(evidence.encoding, (slot.start, slot.end), slot.contexts)]
        units, vectors = entry_units(lexicon, kind, form), entry_vectors(lexicon, kind, form)
        (likely,) = log_probabilities(asked, entries, units, vectors)
        never, _ = replacer.never_replaces(slot, evidence, lexicon)
        likely[never] = -np.inf
        own = np.flatnonzero((table.slot == number) & (table.weight > 0))
        assert table.entry[own].tolist() == np.flatnonzero(likely >= KINDS[kind].floor).tolist()
        assert len(own) > 1
        everywhere = np.zeros(len(own), int)
        scores = replacer.scores(likely[None], everywhere, table.entry[own], [(0, slot)], lexicon)
        assert table.weight[own] == pytest.approx(np.exp(scores.astype(float)), rel=1e-5)
        assert table.log_p[own] == pytest.approx(likely[table.entry[own]])
    assert table.reason[table.weight > 0].tolist() == [FREE] * int((table.weight > 0).sum())


def test_a_noun_that_goes_with_its_verb_has_more_weight_but_no_more_than_a_limit():
    table = batch_of(by_image(from_parses(sample_parses()))[:20], "noun").candidates
    allowed = table.weight > 0
    lift = np.log(table.weight[allowed]) - table.log_p[allowed]
    assert lift.max() <= LIFT * MAX_LIFT + 1e-4 and lift.min() < 0 < np.median(lift)
    assert np.log(table.weight[allowed]).min() >= MIN_SCORE - 1e-4


def test_balance_multiplies_by_the_ratio_of_the_factors():
    factors = {("dog", False): 2.0, ("cat", False): 3.0, ("dog", True): 5.0, ("cat", True): 0.5}
    nouns = sample_lexicon().nouns.rebalanced(factors)
    entry = np.array([nouns.number["cat"], nouns.number["man"]])
    for plural, word, ratios in ((False, "dog", (1.5, 0.5)), (True, "dog", (0.1, 0.2)), (False, "yak", (3.0, 1.0))):
        slots = [(0, Slot("noun", 1, 2, word, 1))]
        assert balance_ratios(nouns, slots, np.zeros(2, int), entry, plural=plural) == pytest.approx(ratios)


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
    table = batch_of([captions_of("A dog is lying on a red couch.")], "noun", "attribute").candidates
    same = table.reason == REASONS.index(COMPATIBLE)
    assert {"puppy", "sofa"} & names_of(table, same) and "cat" not in names_of(table, same)
    assert not table.weight[same].any() and (table.weight[~same] > 0).all()


def test_a_candidate_keeps_its_first_reason():
    table = batch_of([captions_of("A dog is lying on a couch.")], "noun").candidates
    before, free = table.reason.copy(), table.reason == FREE
    assert free.any() and not free.all()
    table.refuse(np.arange(len(table)) % 2 == 0, UNNATURAL)
    table.refuse(np.arange(len(table)), LIKELY_TRUE)
    assert np.array_equal(table.reason[~free], before[~free])
    even = np.arange(len(table)) % 2 == 0
    assert (table.reason[free & even] == REASONS.index(UNNATURAL)).all()
    assert (table.reason[free & ~even] == REASONS.index(LIKELY_TRUE)).all()


def test_a_joined_table_has_the_candidates_of_its_parts_in_their_slots():
    images = by_image(from_parses(sample_parses()))[:4]
    parts = [batch_of(images, kind).candidates for kind in KINDS]
    whole = batch_of(images, *KINDS).candidates
    assert len(whole) == sum(map(len, parts)) and (np.diff(whole.slot) >= 0).all()
    first = slots = 0
    for kind, part in zip(KINDS, parts, strict=True):
        own = whole.of_kinds([kind])
        assert own.tolist() == list(range(first, first + len(part)))
        assert whole.slots[slots : slots + len(part.slots)] == part.slots
        for column in COLUMNS:
            values, shift = getattr(part, column), slots if column == "slot" else 0
            assert np.array_equal(getattr(whole, column)[own], values + shift if shift else values, equal_nan=True)
        assert np.array_equal(whole.caption_of_candidate[own], part.caption_of_candidate)
        first, slots = first + len(part), slots + len(part.slots)
    empty = Candidates.join([])
    assert len(empty) == 0 and not empty.slots and empty.of_kinds(list(KINDS)).tolist() == []


def test_ratings_do_not_depend_on_what_is_rated_together():
    images = by_image(from_parses(sample_parses()))[:10]
    whole, parts = batch_of(images, *KINDS, limits=Limits()), batch_of(images, *KINDS, limits=Limits())
    every = np.arange(len(whole.candidates))
    whole.estimates.rate(every)
    for part in np.array_split(np.random.default_rng(0).permutation(every), 17):
        parts.estimates.rate(part)
        parts.estimates.rate(part[:3])  # again
    for column in ("p_unnatural", "p_compatible", "log_odds", "reason"):
        one, other = getattr(whole.candidates, column), getattr(parts.candidates, column)
        assert np.array_equal(one, other, equal_nan=True)
    table = whole.candidates
    rated = ~np.isnan(table.p_unnatural)
    assert rated.any() and not rated[table.of_kinds(["numeral"])].any()  # their texts are read
    limits = whole.limits
    allowed = rated & (table.reason == FREE)
    assert (table.p_unnatural[allowed] <= limits.unnatural).all()
    assert (table.p_compatible[allowed] <= limits.max_compatible).all()


def test_what_is_refused_unrated_would_mostly_be_refused_when_it_is_rated():
    images = by_image(from_parses(sample_parses()))[:40]
    limited, unlimited = (batch_of(images, *KINDS, limits=limits) for limits in (Limits(), Limits(1.0, 1.0, 1.0)))
    unlimited.estimates.rate(np.arange(len(unlimited.candidates)))
    refused = (limited.candidates.reason == REASONS.index(UNNATURAL)) & ~np.isnan(unlimited.candidates.p_unnatural)
    assert refused.sum() > 500
    assert (unlimited.candidates.p_unnatural[refused] > MAX_UNNATURAL).mean() >= 0.98


def test_fallbacks_are_the_unnatural_that_are_good_enough():
    batch = batch_of(by_image(from_parses(sample_parses()))[:40], "noun", "attribute", limits=Limits())
    table, every = batch.candidates, np.arange(len(batch.candidates))
    batch.estimates.rate(every)
    fallbacks = batch.estimates.fallbacks(every)
    good = is_fallback(table.p_unnatural, table.p_compatible, MAX_UNNATURAL, MAX_COMPATIBLE)
    assert set(fallbacks.tolist()) == set(np.flatnonzero(good & (table.reason == REASONS.index(UNNATURAL))).tolist())
    assert len(fallbacks) > 20 and (table.p_unnatural[fallbacks] > PREFERRED_UNNATURAL).all()


def test_the_ratings_of_a_numeral_do_not_depend_on_what_is_sampled_first():
    texts = "Two dogs are running on a beach.", "A man sits on a chair.", "Three cups are on a table near a window."
    for text in texts:
        batch = batch_of([captions_of(text)], "numeral")
        found = []
        for seed in (0, 1, 2):
            rows = [
                results("numeral", batch.evidence[0], seed=seed, per_family=quota).accepted for quota in (1, 4, 400)
            ]
            found.append(
                {row.text: (row.p_unnatural, row.p_compatible, row.plausibility) for its in rows for row in its}
            )
            for some in rows:  # also with fewer beside it
                assert all(found[-1][row.text] == (row.p_unnatural, row.p_compatible, row.plausibility) for row in some)
        assert found[0] == found[1] == found[2] and len(found[0]) > 2
        assert None not in {p for ratings in found[0].values() for p in ratings}
