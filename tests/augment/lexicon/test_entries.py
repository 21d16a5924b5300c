"""Contexts of words and how likely they make an entry."""

import numpy as np
import pyarrow as pa
import pytest

from negcap.augment.lexicon.entries import SMOOTHING, Entries, read_entries
from negcap.augment.lexicon.lexicon import default_min_count
from negcap.augment.slots.nouns import broader
from tests.augment.fixtures import sample_lexicon


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ("obj:poodle", "obj kind:1"),
        ("pobj:woman", "obj kind:0"),
        ("gov:man", "gov kind:0"),
        ("verb:stroll", "verb kind:verb.motion"),
        ("nsubj:eat", "nsubj kind:verb.consumption"),
        ("pobj:sit on", "pobj:on"),
        ("pobj:roof of", "of kind:18"),
        ("left:on a", ""),
        ("obj kind:1", ""),
    ],
)
def test_a_context_has_a_broader_one(context: str, found: str) -> None:
    assert broader(context) == found


def hand_made() -> Entries:
    """Prepositions: "on" before animals 30 times of 40, before dogs 9 times of 10."""
    rows = [
        ("on", "", 50), ("under", "", 50),
        ("on", "obj kind:1", 30), ("under", "obj kind:1", 10), ("on", "obj:dog", 9), ("under", "obj:dog", 1),
    ]  # fmt: skip
    columns = zip(*(("preposition", *row) for row in rows), strict=True)
    return read_entries(
        pa.table([pa.array(column) for column in columns], ["kind", "entry", "place", "count"]), nouns=False
    )


def test_a_context_backs_off_to_the_broader_one() -> None:
    entries = hand_made()
    wide = (30 + SMOOTHING * 0.5) / (40 + SMOOTHING)
    narrow = (9 + SMOOTHING * wide) / (10 + SMOOTHING)
    on, under = entries.lift(("obj kind:1",))
    assert on / under == pytest.approx(wide / (1 - wide))
    on, under = entries.lift(("obj:dog", "obj kind:1"))
    assert on / under == pytest.approx(narrow / (1 - narrow))
    assert entries.has_form("on", "") and not entries.has_form("on", "bare") and not entries.has_form("over", "")


def test_what_a_caption_has_is_counted_once() -> None:
    nouns = sample_lexicon().nouns
    forms = [np.exp(prior) for form, prior in nouns.priors.items() if form]
    assert (np.sum(forms, axis=0) <= np.exp(nouns.priors[""]) + 1e-9).all()
    assert "" not in nouns.contexts


def test_the_mean_lift_is_one() -> None:
    entries = sample_lexicon().prepositions
    usual = np.exp(entries.priors[""])
    context = next(context for context in sorted(entries.contexts) if context.startswith("obj kind:"))
    assert (entries.lift((context,)) @ usual) / usual.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("captions", "expected"), [(1, 5), (35_000, 13), (283_218, 101), (566_435, 201), (10**7, 201)])
def test_frequent_is_more_than_200_at_the_papers_size(captions: int, expected: int) -> None:
    """35,000 captions are 6.2 % of COCO's: more than 12.4 occurrences are at least 13."""
    assert default_min_count(captions) == expected
