"""Contexts of words and how likely they make an entry."""

import numpy as np
import pyarrow as pa
import pytest

from negcap.augment.lexicon.entries import SMOOTHING, Entries, read_entries
from negcap.augment.lexicon.lexicon import default_min_count
from negcap.augment.slots.nouns import broader
from tests.augment.fixtures import sample_lexicon


def test_a_context_has_a_broader_one() -> None:
    expected = {
        "obj:poodle": "obj kind:1", "pobj:woman": "obj kind:0", "gov:man": "gov kind:0", "pobj:sit on": "pobj:on",
        "verb:stroll": "verb kind:verb.motion", "nsubj:eat": "nsubj kind:verb.consumption", "left:on a": "",
        "pobj:roof of": "of kind:18", "obj kind:1": "",
    }  # fmt: skip
    assert {context: broader(context) for context in expected} == expected


def hand_made() -> Entries:
    """Prepositions: "on" before animals 30 times of 40, before dogs 9 times of 10."""
    rows = [
        ("on", "", 50), ("under", "", 50),
        ("on", "obj kind:1", 30), ("under", "obj kind:1", 10), ("on", "obj:dog", 9), ("under", "obj:dog", 1),
    ]  # fmt: skip
    columns = list(zip(*(("preposition", *row) for row in rows), strict=True))
    return read_entries(pa.table(columns, ["kind", "entry", "place", "count"]), nouns=False)


def test_a_context_backs_off_to_the_broader_one() -> None:
    entries = hand_made()
    wide = (30 + SMOOTHING * 0.5) / (40 + SMOOTHING)
    narrow = (9 + SMOOTHING * wide) / (10 + SMOOTHING)
    on, under = entries.lift(("obj kind:1",))
    assert on / under == pytest.approx(wide / (1 - wide))
    on, under = entries.lift(("obj:dog", "obj kind:1"))
    assert on / under == pytest.approx(narrow / (1 - narrow))
    assert entries.has_form("on", "") and not entries.has_form("on", "bare") and not entries.has_form("over", "")


def test_what_a_caption_has_is_counted_once_and_the_mean_lift_is_one() -> None:
    nouns, prepositions = sample_lexicon().nouns, sample_lexicon().prepositions
    forms = [np.exp(prior) for form, prior in nouns.priors.items() if form]
    assert (np.sum(forms, axis=0) <= np.exp(nouns.priors[""]) + 1e-9).all() and "" not in nouns.contexts
    usual = np.exp(prepositions.priors[""])
    context = next(context for context in sorted(prepositions.contexts) if context.startswith("obj kind:"))
    assert (prepositions.lift((context,)) @ usual) / usual.sum() == pytest.approx(1.0)


def test_frequent_is_more_than_200_at_the_papers_size() -> None:
    """35,000 captions are 6.2 % of COCO's: more than 12.4 occurrences are at least 13."""
    assert [*map(default_min_count, (1, 35_000, 283_218, 566_435, 10**7))] == [5, 13, 101, 201, 201]
