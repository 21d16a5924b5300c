"""Candidates are sampled by weight and ratings without replacement, and nothing else changes their keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from negcap.augment.candidates import FREE, Batch, Limits
from negcap.augment.caption import Caption
from negcap.augment.kinds import KINDS
from negcap.augment.raters import preference
from negcap.augment.reproducible import hash_keys
from negcap.augment.rows import UNNATURAL
from negcap.augment.sampling import Sampler, exponentials, order_keys
from tests.augment.fixtures import batch_of, captions_of, sample_images

REPLACED = ("noun", "attribute", "verb", "preposition")
MANY = 1000  # more candidates than a caption has


def limited(images: Sequence[Sequence[Caption]], *kinds: str) -> Batch:
    """The batch of some images within the usual limits."""
    return batch_of(images, *kinds, limits=Limits())


def sampler_of(batch: Batch, *kinds: str, seed: int = 0, operator: str = "some") -> Sampler:
    candidates = batch.candidates.of_kinds(kinds)
    return Sampler(batch, candidates, batch.candidates.weight[candidates], seed, operator)


def take_all(sampler: Sampler, batch: Batch) -> dict[int, list[int]]:
    """All candidates that are sampled of each caption, in order."""
    return sampler.take(dict.fromkeys(range(len(batch.evidence)), MANY))


def test_keys_are_of_seed_operator_caption_place_and_word_alone():
    ids = ["a", "b", "a", "c"]
    positions = np.array([1, 1, 3, 3])
    names = hash_keys(["dog", "dog", "cat", "cat"])
    keys = exponentials(0, "noun", ids, positions, names)
    for some in ([0], [2, 0], [3, 1, 2]):
        part = exponentials(0, "noun", [ids[number] for number in some], positions[some], names[some])
        assert np.array_equal(part, keys[some])
    for other in (
        exponentials(1, "noun", ids, positions, names),
        exponentials(0, "verb", ids, positions, names),
        exponentials(0, "noun", ["d", "e", "d", "f"], positions, names),
        exponentials(0, "noun", ids, positions + 1, names),
        exponentials(0, "noun", ids, positions, hash_keys(["dogs", "horse", "cats", "bird"])),
    ):
        assert not np.isin(other, keys).any()
    listed = order_keys(0, "shuffle", "1", list("abc"))
    assert order_keys(0, "shuffle", "1", ["c", "a"]).tolist() == [listed[2], listed[0]]


def test_keys_are_exponential():
    words = hash_keys(f"word {number}" for number in range(20_000))
    keys = exponentials(0, "noun", ["a"] * len(words), np.full(len(words), 3), words)
    assert len(set(keys.tolist())) == len(keys) and keys.min() > 0
    assert keys.mean() == pytest.approx(1.0, abs=0.03) and keys.std() == pytest.approx(1.0, abs=0.05)
    assert np.median(keys) == pytest.approx(np.log(2), abs=0.03)
    assert abs(np.corrcoef(keys[:-1], keys[1:])[0, 1]) < 0.03


@pytest.mark.parametrize("sizes", [(1,), (3, 1, 7)])
def test_what_is_taken_in_pieces_is_what_is_taken_at_once(sizes):
    images = sample_images(6)
    whole = limited(images, *REPLACED)
    once = take_all(sampler_of(whole, *REPLACED), whole)
    sampler = sampler_of(limited(images, *REPLACED), *REPLACED)
    pieces: dict[int, list[int]] = {caption: [] for caption in once}
    for turn in range(2 * max(map(len, once.values())) + 8):
        # Not all captions are asked each time.
        wanted = {caption: sizes[(turn + caption) % len(sizes)] for caption in once if (turn + caption) % 4}
        for caption, numbers in sampler.take(wanted).items():
            assert len(numbers) <= wanted[caption]
            pieces[caption] += numbers
    assert pieces == once


def factors_of_ratings(batch: Batch, numbers: np.ndarray) -> np.ndarray:
    """The factors of rated candidates' weights; what is rated better than the best are counts as good as these."""
    table = batch.candidates
    at_best = table.least_unnatural[numbers]
    power = np.array([KINDS[table.slots[slot].kind].preference for slot in table.slot[numbers].tolist()])
    best = np.where(at_best > 0, preference(at_best, np.zeros(len(numbers)), power), 1.0)
    return np.minimum(preference(table.p_unnatural[numbers], table.p_compatible[numbers], power), best)


@pytest.fixture(scope="module")
def beside_others() -> Batch:
    """A batch of which another operator has sampled, and a third of whose candidates are refused since."""
    batch = limited(sample_images(25)[::-1], "numeral", *REPLACED)
    take_all(sampler_of(batch, *REPLACED, operator="other"), batch)
    batch.candidates.refuse(np.flatnonzero(batch.candidates.entry % 3 == 0), UNNATURAL)
    return batch


@pytest.mark.parametrize("kind", REPLACED)
def test_the_order_is_that_of_rating_everything_first_whatever_else_is_sampled(kind, beside_others):
    rated = limited(sample_images(25), kind)
    table = rated.candidates
    asked = table.of_kinds([kind])
    rated.estimates.rate(asked)
    ids, starts, words = (np.array(column) for column in zip(*described(rated, asked), strict=True))
    with np.errstate(divide="ignore"):
        keys = exponentials(0, "some", ids.tolist(), starts, hash_keys(words.tolist()))
        keys = keys / (table.weight[asked] * factors_of_ratings(rated, asked))
    is_free = (table.reason[asked] == FREE) & (table.weight[asked] > 0) & (table.entry[asked] % 3 > 0)
    assert is_free.sum() > 15
    for caption, numbers in take_all(sampler_of(beside_others, kind), beside_others).items():
        own = np.flatnonzero(is_free & (ids == beside_others.evidence[caption].caption.caption_id))
        expected = asked[own[np.argsort(keys[own])]]
        assert described(beside_others, numbers) == described(rated, expected.tolist())


def described(batch: Batch, numbers: Sequence[int]) -> list[tuple[str, int, str]]:
    """The caption, place and word of candidates."""
    table = batch.candidates
    slots = [table.slots[table.slot[number]] for number in numbers]
    ids = [batch.evidence[table.caption_of_candidate[number]].caption.caption_id for number in numbers]
    words = [batch.lexicon.entries(slot.kind).names[table.entry[n]] for slot, n in zip(slots, numbers, strict=True)]
    return [(caption, slot.start, word) for caption, slot, word in zip(ids, slots, words, strict=True)]


def test_the_first_is_sampled_by_weight_times_preference_and_none_twice():
    batch, seeds = limited([captions_of("A dog is lying on a couch near a table.")], "noun"), 2000
    orders = [take_all(sampler_of(batch, "noun", seed=seed), batch)[0] for seed in range(seeds)]
    table = batch.candidates
    free = np.flatnonzero((table.reason == FREE) & (table.weight > 0))
    assert all(sorted(order) == free.tolist() for order in orders)
    shares = table.weight[free] * factors_of_ratings(batch, free)
    expected = seeds * shares / shares.sum()
    first = Counter(order[0] for order in orders)
    counts = np.array([first[number] for number in free.tolist()])
    frequent = expected >= 8
    chi_square = ((counts - expected) ** 2 / expected)[frequent].sum()
    freedom = frequent.sum() - 1
    assert freedom >= 2 and chi_square < freedom + 4 * np.sqrt(2 * freedom)
