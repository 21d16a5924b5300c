"""Which nouns can stand in a place at all."""

import numpy as np

from negcap.augment.language.parse import parse
from negcap.augment.language.semantic_classes import LIVING, semantic_class
from negcap.augment.operators.plausible import implausible_nouns
from negcap.augment.slots.nouns import noun_slots
from tests.augment.fixtures import sample_lexicon


def fitting(text: str, noun: str, least: float = 0.25) -> set[str]:
    """The nouns of the sample's lexicon that may stand in the place of one."""
    (caption,) = parse([text])
    nouns = sample_lexicon().nouns
    slot = next(slot for slot in noun_slots(caption) if slot.entry == noun)
    return {nouns.names[i] for i in np.flatnonzero(~implausible_nouns(caption, slot, nouns, least))}


def test_only_the_living_do_and_wear_things() -> None:
    assert {semantic_class(noun) for noun in fitting("A man throws a ball.", "man")} <= set(LIVING)
    assert {semantic_class(noun) for noun in fitting("A man in a hat.", "man")} <= set(LIVING)
    assert {semantic_class(noun) for noun in fitting("A man throwing a ball.", "man")} <= set(LIVING)


def test_things_rest_as_well_and_may_give_way_to_the_living() -> None:
    assert not {semantic_class(noun) for noun in fitting("A man sits on a bench.", "man")} <= set(LIVING)
    assert "dog" in fitting("A car moves along a street.", "car")


def test_more_fits_where_less_is_asked() -> None:
    assert fitting("A dog on a street.", "street", 1.0) < fitting("A dog on a street.", "street", 0.1)
