"""Tokenised captions as the units that the cloze model reads."""

import pytest

from negcap.augment.cloze.states import END, SPECIAL, START, UNKNOWN, Units

UNITS = Units((*SPECIAL, "a", "man", "tennis", "racket", "tennis racket", "in", "front", "in front of", "of", "stands"))


def read(text: str) -> tuple[list[str], list[int]]:
    numbers, places = UNITS.read(text.split(" "))
    return [UNITS.names[number] for number in numbers], places


@pytest.mark.parametrize(
    ("text", "units", "places"),
    [
        ("A man stands", ["a", "man", "stands"], [1, 2, 3]),
        ("an man", ["a", "man"], [1, 2]),
        ("An Tennis racket", ["a", "tennis racket"], [1, 2, 2]),
        ("tennis tennis racket racket", ["tennis", "tennis racket", "racket"], [1, 2, 2, 3]),
        ("stands in front of a man", ["stands", "in front of", "a", "man"], [1, 2, 2, 2, 3, 4]),
        ("stands in front", ["stands", "in", "front"], [1, 2, 3]),
        ("in front of", ["in front of"], [1, 1, 1]),
        ("a zebra stands", ["a", UNKNOWN, "stands"], [1, 2, 3]),
        ("a man stands .", ["a", "man", "stands"], [1, 2, 3, 4]),
        ("a man !", ["a", "man"], [1, 2, 3]),
        ("a . man", ["a", UNKNOWN, "man"], [1, 2, 3]),
        (".", [], [1]),
    ],
)
def test_a_text_is_read_as_units(text: str, units: list[str], places: list[int]) -> None:
    assert read(text) == ([START, *units, END], places)


def test_a_text_without_tokens_is_start_and_end() -> None:
    assert UNITS.read([]) == ([0, 1], [])


@pytest.mark.parametrize(
    ("word", "unit"), [("Man", "man"), ("AN", "a"), ("In front of", "in front of"), ("zebra", None)]
)
def test_a_word_or_phrase_is_found_by_name(word: str, unit: str | None) -> None:
    number = UNITS.of(word)
    assert (None if number is None else UNITS.names[number]) == unit
