"""What a caption denies, and which numbers are bounds; what is denied is written in capitals."""

import pytest

from negcap.augment.language.negation import is_bound, negated_tokens
from negcap.augment.language.parse import parse
from tests.augment.fixtures import accepted

DENIED = """
NO ONE IS SITTING ON THE BENCH .
NOBODY WEARS A RED HAT .
NONE OF THE MEN IS RIDING A HORSE .
HARDLY ANYONE IS ON THE BEACH .
NOTHING IS ON THE TABLE .
NEITHER THE CAT NOR THE DOG IS ON THE COUCH .
NEITHER DOG IS ON THE GRASS .
NOT A SINGLE CAR IS PARKED ON THE ROAD .
THERE ARE NO CARS ON THE STREET .
NO PEOPLE ARE VISIBLE IN FRONT OF THE WHITE HOUSE .
A MAN IS NOT WEARING A HAT .
A BOY CAN NOT REACH THE RED BALL .
A dog that NEVER BARKS sits on a couch .
A man WITH NO SHOES walks on a beach .
A kitchen WITHOUT A TABLE AND CHAIRS .
FEW PEOPLE SIT ON BENCHES IN A PARK .
A few people sit on benches in a park .
At least four dogs run in a park .
"""


@pytest.mark.parametrize("text", DENIED.strip().splitlines())
def test_what_is_denied_is_the_clause_or_the_phrase(text: str) -> None:
    first, *rest = text.split(" ")
    plain = " ".join([first.capitalize() if len(first) > 1 else first, *(word.lower() for word in rest)])
    (caption,) = parse([plain.replace("can not", "cannot")])
    denied = negated_tokens(caption)
    shown = [token.text.upper() if token.index in denied else token.text.lower() for token in caption.tokens]
    assert " ".join(shown).lower() == text.lower()
    assert [word.isupper() for word in shown if word.isalpha() and len(word) > 1] == [
        word.isupper() for word in text.split(" ") if word.isalpha() and len(word) > 1
    ]


@pytest.mark.parametrize(
    "text",
    [
        "At least four dogs run.", "At most two cats sleep.", "More than two birds fly.", "Fewer than five men wait.",
        "Up to six boats float.", "Over 20 people stand.", "About ten sheep graze.", "Two or three dogs play.",
        "Four or more dogs play.", "Three to four birds fly.",
    ],
)  # fmt: skip
def test_a_number_that_is_a_bound_or_one_of_several_is_not_replaced(text: str) -> None:
    (caption,) = parse([text])
    numbers = [token.index for token in caption.tokens if token.tag == "CD"]
    assert numbers and all(is_bound(caption, number) for number in numbers)
    assert not accepted("numeral", text)


@pytest.mark.parametrize("text", ["Exactly four dogs run.", "The two dogs run.", "Two dogs run."])
def test_an_exact_number_is_no_bound(text: str) -> None:
    (caption,) = parse([text])
    assert not [token for token in caption.tokens if token.tag == "CD" and is_bound(caption, token.index)]


@pytest.mark.parametrize("text", [line for line in DENIED.strip().splitlines() if line.isupper()])
@pytest.mark.parametrize("operator", ["noun", "attribute", "preposition", "numeral", "verb", "shuffle"])
def test_nothing_is_replaced_in_a_clause_that_is_denied(operator: str, text: str, without_floors: None) -> None:
    assert not accepted(operator, text.capitalize().replace("can not", "cannot").replace(" .", "."))
