"""How near captions are to everyday photos, and what the reference weighs then."""

from collections import Counter

import pyarrow as pa
import pytest

from negcap.augment.lexicon.nearness import LEAST_NOUNS, count_nouns, nearness_of, reference_shares, reference_weight


def test_the_reference_weighs_less_below_the_limit_and_ever_less():
    assert reference_weight(None) == reference_weight(1.0) == reference_weight(0.15) == 1.0
    weights = [reference_weight(nearness) for nearness in (0.149, 0.12, 0.09, 0.03, 0.0)]
    assert weights == pytest.approx([0.926, 0.1, 0.01, 0.0001, 0.00001], rel=0.001)


def test_nearness_is_the_share_of_nouns_in_common_if_there_are_enough():
    dogs = reference_shares()["dog"]
    assert nearness_of({"dog": 500, "viaduct": 500}) == pytest.approx(dogs)  # the lesser of both shares
    everyday = {noun: round(1e6 * share) for noun, share in reference_shares().items()}
    assert nearness_of(everyday) == pytest.approx(1.0, abs=0.01)
    assert nearness_of({"viaduct": LEAST_NOUNS}) == 0.0
    assert nearness_of({"viaduct": LEAST_NOUNS - 1}) is None and nearness_of({}) is None


def test_nouns_are_counted_by_their_lemmas():
    words = [("Dog", "NNS"), ("run", "VBP"), ("dog", "NN"), ("rome", "NNP")]
    tokens = [{"lemma": lemma, "tag": tag} for lemma, tag in words]
    assert count_nouns(pa.table({"tokens": [tokens, tokens[:1], []]})) == Counter(dog=3)
