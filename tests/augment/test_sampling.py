"""Candidates are sampled by weight and ratings without replacement, and nothing else changes their keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from negcap.augment import kinds
from negcap.augment.candidates import FREE, REASONS, Batch, Candidates, Limits
from negcap.augment.caption import Caption, by_image, from_parses
from negcap.augment.raters import preference
from negcap.augment.reproducible import hash_keys
from negcap.augment.rows import UNNATURAL
from negcap.augment.sampling import Sampler, exponentials, order_keys
from tests.augment.fixtures import batch_of, captions_of, sample_parses

KINDS = ("noun", "attribute", "verb", "preposition")
MANY = 1000  # more than a caption has


def sample_images(number: int = 15) -> list[Sequence[Caption]]:
    return by_image(from_parses(sample_parses()))[:number]


def limited(images: Sequence[Sequence[Caption]], *kinds: str) -> Batch:
    """The batch of some images within the usual limits."""
    return batch_of(images, *kinds, limits=Limits())


def sampler_of(batch: Batch, *kinds: str, seed: int = 0, operator: str = "some") -> Sampler:
    candidates = batch.candidates.of_kinds(kinds)
    return Sampler(batch, candidates, batch.candidates.weight[candidates], seed, operator)


def taken(batch: Batch, *kinds: str, seed: int = 0, operator: str = "some") -> dict[int, list[int]]:
    """All candidates that are sampled of each caption, in order."""
    return sampler_of(batch, *kinds, seed=seed, operator=operator).take(dict.fromkeys(range(len(batch.evidence)), MANY))


def named(batch: Batch, numbers: Sequence[int]) -> list[tuple[str, int, str]]:
    """Candidates by kind, place and word, whatever else is in the table."""
    table = batch.candidates
    slots = [table.slots[table.slot[number]] for number in numbers]
    names = [batch.lexicon.entries(slot.kind).names for slot in slots]
    words = [names_of_kind[table.entry[number]] for names_of_kind, number in zip(names, numbers, strict=True)]
    return [(slot.kind, slot.start, word) for slot, word in zip(slots, words, strict=True)]


def test_keys_are_of_seed_operator_caption_place_and_word_alone():
    ids, names = ["a", "b", "a", "c"], hash_keys(["dog", "dog", "cat", "cat"])
    positions = np.array([1, 1, 3, 3])
    keys = exponentials(0, "noun", ids, positions, names)
    for some in ([0], [2, 0], [3, 1, 2]):
        part = exponentials(0, "noun", [ids[number] for number in some], positions[some], names[some])
        assert np.array_equal(part, keys[some])
    for other in (
        exponentials(1, "noun", ids, positions, names),
        exponentials(0, "verb", ids, positions, names),
        exponentials(0, "noun", [f"{caption}x" for caption in ids], positions, names),
        exponentials(0, "noun", ids, positions + 1, names),
        exponentials(0, "noun", ids, positions, hash_keys(["dogs", "horse", "cats", "bird"])),
    ):
        assert not np.isin(other, keys).any()


def test_keys_are_exponential():
    words = hash_keys(f"word {number}" for number in range(20_000))
    keys = exponentials(0, "noun", ["a"] * len(words), np.full(len(words), 3), words)
    assert len(set(keys.tolist())) == len(keys) and keys.min() > 0
    assert keys.mean() == pytest.approx(1.0, abs=0.03) and keys.std() == pytest.approx(1.0, abs=0.05)
    assert np.median(keys) == pytest.approx(np.log(2), abs=0.03)
    after = np.corrcoef(keys[:-1], keys[1:])[0, 1]
    assert abs(after) < 0.03


def test_what_an_operator_lists_has_keys_by_its_names():
    keys = dict(zip("abc", order_keys(0, "shuffle", "1", list("abc")), strict=True))
    assert order_keys(0, "shuffle", "1", ["c", "a"]).tolist() == [keys["c"], keys["a"]]
    assert len(order_keys(0, "shuffle", "1", [])) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_other_captions_kinds_and_operators_change_nothing(kind):
    images = sample_images()
    batch = limited(images, kind)
    before = taken(batch, kind)
    assert sum(map(len, before.values())) > 20
    others = limited(images[::-1], "numeral", *KINDS)
    of_captions = {own.caption.caption_id: number for number, own in enumerate(others.evidence)}
    taken(others, *KINDS, operator="other")  # another operator has taken some already
    after = taken(others, kind)
    for number, own in enumerate(batch.evidence):
        other = of_captions[own.caption.caption_id]
        assert named(batch, before[number]) == named(others, after[other])
    assert [named(batch, its) for its in taken(batch, kind, operator="other").values()] != [
        named(batch, its) for its in before.values()
    ]


def test_what_is_refused_or_left_out_changes_nothing_else():
    images = sample_images()
    before = taken(limited(images, *KINDS), *KINDS)
    refused = limited(images, *KINDS)
    table = refused.candidates
    some = np.flatnonzero(table.entry % 3 == 0)
    table.refuse(some, UNNATURAL)
    left = {caption: [number for number in its if number not in set(some.tolist())] for caption, its in before.items()}
    assert taken(refused, *KINDS) == left != before
    batch = limited(images, *KINDS)
    rest = np.flatnonzero(batch.candidates.entry % 3 != 0)
    sampler = Sampler(batch, rest, batch.candidates.weight[rest], 0, "some")
    assert sampler.take(dict.fromkeys(range(len(batch.evidence)), MANY)) == left


@pytest.mark.parametrize("sizes", [(1,), (3, 1, 7)])
def test_what_is_taken_in_pieces_is_what_is_taken_at_once(sizes):
    images = sample_images(6)
    for seed in range(2):
        once = taken(limited(images, *KINDS), *KINDS, seed=seed)
        sampler = sampler_of(limited(images, *KINDS), *KINDS, seed=seed)
        pieces: dict[int, list[int]] = {caption: [] for caption in once}
        for turn in range(2 * max(map(len, once.values())) + 8):
            # Not all captions are asked each time.
            wanted = {caption: sizes[(turn + caption) % len(sizes)] for caption in once if (turn + caption) % 4}
            for caption, numbers in sampler.take(wanted).items():
                assert len(numbers) <= wanted[caption]
                pieces[caption] += numbers
        assert pieces == once


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_is_that_of_rating_everything_first(kind):
    images, compared = sample_images(25), 0
    for seed in range(2):
        batch, rated = limited(images, kind), limited(images, kind)
        sampled, table = taken(batch, kind, seed=seed), rated.candidates
        asked = table.of_kinds([kind])
        rated.estimates.rate(asked)
        factors = bounded_preferences(table, asked)
        starts = np.array([table.slots[slot].start for slot in table.slot[asked].tolist()])
        ids = [rated.evidence[number].caption.caption_id for number in table.caption_of_candidate[asked].tolist()]
        names = hash_keys(rated.lexicon.entries(kind).names)[table.entry[asked]]
        with np.errstate(divide="ignore"):
            keys = exponentials(seed, "some", ids, starts, names) / (table.weight[asked] * factors)
        for caption, numbers in sampled.items():
            own = (table.caption_of_candidate[asked] == caption) & (table.weight[asked] > 0)
            own = np.flatnonzero(own & (table.reason[asked] == FREE))
            assert numbers == asked[own[np.argsort(keys[own])]].tolist()
            compared += len(numbers) > 1
    assert compared > 10


def bounded_preferences(table: Candidates, numbers: np.ndarray) -> np.ndarray:
    """The factors of rated candidates' weights; what is rated better than the best are counts as good as these."""
    at_best = table.least_unnatural[numbers]
    power = np.array([kinds.KINDS[table.slots[slot].kind].preference for slot in table.slot[numbers].tolist()])
    best = np.where(at_best > 0, preference(at_best, np.zeros(len(numbers)), power), 1.0)
    return np.minimum(preference(table.p_unnatural[numbers], table.p_compatible[numbers], power), best)


@pytest.mark.parametrize("limits", [Limits(), Limits(1.0, 1.0, 1.0)])
def test_the_first_is_sampled_by_weight_times_preference_and_none_twice(limits):
    batch = batch_of([captions_of("A dog is lying on a couch near a table.")], "noun", limits=limits)
    table, seeds = batch.candidates, 2000
    rows = [taken(batch, "noun", seed=seed)[0] for seed in range(seeds)]
    free = np.flatnonzero((table.reason == FREE) & (table.weight > 0))
    assert all(len(its) == len(set(its)) and set(its) == set(free.tolist()) for its in rows)
    shares = table.weight[free] * bounded_preferences(table, free)
    shares /= shares.sum()
    first = Counter(its[0] for its in rows)
    counts = np.array([first[number] for number in free.tolist()])
    frequent = shares * seeds >= 8
    expected, found = shares[frequent] * seeds, counts[frequent]
    chi_square, freedom = ((found - expected) ** 2 / expected).sum(), frequent.sum() - 1
    assert freedom >= 2 and chi_square < freedom + 4 * np.sqrt(2 * freedom)
    # Of the others, the second is sampled by weight again.
    top = free[np.argmax(shares)]
    second = Counter(its[1] for its in rows if its[0] == top)
    rest = np.where(free == top, 0.0, shares) / shares[free != top].sum()
    likeliest = int(np.argmax(rest))
    assert second[int(free[likeliest])] / second.total() == pytest.approx(rest[likeliest], abs=0.08)


def test_seeds_and_what_has_no_weight():
    batch = limited([captions_of("A dog is lying on a couch.")], "noun")
    assert taken(batch, "noun", seed=3) == taken(batch, "noun", seed=3)
    assert len({tuple(taken(batch, "noun", seed=seed)[0]) for seed in range(20)}) > 5
    table = batch.candidates
    none = Sampler(batch, np.arange(len(table)), np.zeros(len(table)), 0, "some")
    assert none.take({0: 9}) == {0: []}
    assert Sampler(batch, np.zeros(0, int), np.zeros(0), 0, "some").take({0: 9}) == {0: []}
    assert sampler_of(batch, "noun").take({}) == {}
    table.reason[:] = REASONS.index(UNNATURAL)
    assert taken(batch, "noun") == {0: []}
