"""Places of words and how likely they make an entry."""

import numpy as np
import pytest

from augment.language.places import broader
from tests.augment_fixtures import sample_lexicon


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("obj:poodle", "obj kind:1"),
        ("pobj:woman", "obj kind:0"),
        ("gov:man", "gov kind:0"),
        ("verb:stroll", "verb kind:verb.motion"),
        ("nsubj:eat", "nsubj kind:verb.consumption"),
        ("pobj:sit on", "pobj:on"),
        ("left:on a", ""),
        ("obj kind:1", ""),
    ],
)
def test_a_place_has_a_broader_one(place: str, found: str) -> None:
    assert broader(place) == found


def test_an_entry_that_was_never_seen_in_a_place_is_as_likely_as_in_the_broader_one() -> None:
    nouns = sample_lexicon().nouns
    narrow = next(place for place in sorted(nouns.places) if broader(place) in nouns.places)
    unseen = nouns.observed(narrow) + nouns.observed(broader(narrow)) == 0
    alone, both = nouns.favoured((broader(narrow),)), nouns.favoured((narrow, broader(narrow)))
    of_kind = nouns.kinds == nouns.kinds[unseen][0]
    ratio = (both / alone)[unseen & of_kind]
    assert np.allclose(ratio, ratio[0])


def test_what_is_favoured_is_so_on_average_not_at_all() -> None:
    entries = sample_lexicon().prepositions
    usual = np.exp(entries.priors[""])
    place = next(place for place in sorted(entries.places) if place.startswith("obj kind:"))
    assert (entries.favoured((place,)) @ usual) / usual.sum() == pytest.approx(1.0)
    among = np.arange(len(usual)) < 5
    assert (entries.favoured((place,), among) @ (usual * among)) / (usual * among).sum() == pytest.approx(1.0)
