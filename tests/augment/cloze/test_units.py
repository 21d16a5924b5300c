"""Tokenised captions as the units that the cloze model reads."""

import pytest

from negcap.augment.cloze.states import END, SPECIAL, START, UNKNOWN, Units

UNITS = Units((*SPECIAL, "a", "man", "tennis", "racket", "tennis racket", "in", "front", "in front of", "of", "stands"))


READ = {
    "A man stands": (["a", "man", "stands"], [1, 2, 3]),
    "an man": (["a", "man"], [1, 2]),
    "An Tennis racket": (["a", "tennis racket"], [1, 2, 2]),
    "tennis tennis racket racket": (["tennis", "tennis racket", "racket"], [1, 2, 2, 3]),
    "stands in front of a man": (["stands", "in front of", "a", "man"], [1, 2, 2, 2, 3, 4]),
    "stands in front": (["stands", "in", "front"], [1, 2, 3]),
    "in front of": (["in front of"], [1, 1, 1]),
    "a zebra stands": (["a", UNKNOWN, "stands"], [1, 2, 3]),
    "a man stands .": (["a", "man", "stands"], [1, 2, 3, 4]),
    "a man !": (["a", "man"], [1, 2, 3]),
    "a . man": (["a", UNKNOWN, "man"], [1, 2, 3]),
    ".": ([], [1]),
    "": ([], []),
}


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_a_text_is_read_as_units(text: str, expected: tuple[list[str], list[int]]) -> None:
    numbers, places = UNITS.read(text.split())
    assert ([UNITS.names[number] for number in numbers], places) == ([START, *expected[0], END], expected[1])


def test_a_word_or_phrase_is_found_by_name() -> None:
    for word, unit in (("Man", "man"), ("AN", "a"), ("In front of", "in front of")):
        assert UNITS.names[UNITS.of(word)] == unit
    assert UNITS.of("zebra") is None
