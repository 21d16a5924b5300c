"""The operators, one a file: each proposes candidates lazily, and neither builds text nor judges truth."""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from augment.caption import Caption
from augment.context import Context
from augment.edits import Candidate
from augment.operators.noun import noun
from augment.operators.numeral import numeral
from augment.operators.preposition import preposition
from augment.operators.shuffle import shuffle


class Operator(NamedTuple):
    """An operator, its family, and its share of the family's negatives."""

    propose: Callable[[Caption, Context, Random, int], Iterator[Candidate]]
    family: str
    share: float


OPERATORS: dict[str, Operator] = {
    "noun": Operator(noun, "noun", 1.0),
    "numeral": Operator(numeral, "numeral", 1.0),
    "shuffle": Operator(shuffle, "relation", 0.5),
    "preposition": Operator(preposition, "relation", 0.5),
}


def operator(name: str) -> Operator:
    """The operator of a name. Raises ValueError listing the valid ones."""
    if name not in OPERATORS:
        raise ValueError(f"operator must be one of {', '.join(OPERATORS)}, was: {name}")
    return OPERATORS[name]
