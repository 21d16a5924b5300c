"""The units that the cloze model reads: words in lower case, and phrases that it treats as one word.

A phrase ("tennis racket", "in front of") is one unit, so its probability at a place is one number. "An" is read as "a",
so which article stands before a place says nothing about the word there. A final full stop or exclamation mark is left
out. Units are numbered by their position in the vocabulary. A text becomes START, its units, END; the place of a unit
is its position in this sequence, so that START has place 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
SPECIAL = (START, END, UNKNOWN)
FINAL = frozenset({".", "!"})


def normalised(word: str) -> str:
    """A word as the model reads it: in lower case, "an" as "a"."""
    lower = word.lower()
    return "a" if lower == "an" else lower


@dataclass(frozen=True, eq=False)
class Units:
    """The vocabulary of a cloze model: `names` are its units; the first three are START, END and UNKNOWN.

    A name that contains a space is a phrase.
    """

    names: tuple[str, ...]

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The number of each unit, by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def phrases(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The phrases by their first word, each as its words; longer ones first."""
        return by_first_word(name for name in self.names if " " in name)

    def of(self, word: str) -> int | None:
        """The number of the unit of a word or phrase, None if the model does not know it."""
        return self.number.get(normalised(word))

    def read(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Group the words of a tokenised text into units.

        Returns the numbers of the units, from START to END, and for each token the place of its unit: of "two dogs in
        front of it", with the phrase "in front of", 6 numbers and the places 1, 2, 3, 3, 3, 4. Words that are not in
        the vocabulary become UNKNOWN. A final full stop is no unit; its token gets the place of END.
        """
        unknown, number = self.number[UNKNOWN], self.number
        units, places = [0], []
        for words_of_unit in joined([normalised(word) for word in words], self.phrases):
            if not words_of_unit:
                places.append(-1)
                continue
            places.extend([len(units)] * len(words_of_unit))
            units.append(number.get(" ".join(words_of_unit), unknown))
        units.append(1)
        return units, [place if place >= 0 else len(units) - 1 for place in places]


def by_first_word(phrases: Iterable[str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Phrases by their first word, each as a tuple of its words; longer ones first."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for phrase in phrases:
        words = tuple(phrase.split(" "))
        found.setdefault(words[0], []).append(words)
    return {first: tuple(sorted(them, key=lambda words: (-len(words), words))) for first, them in found.items()}


def joined(words: Sequence[str], phrases: Mapping[str, tuple[tuple[str, ...], ...]]) -> list[tuple[str, ...]]:
    """Group normalised words into units, from left to right, each the longest phrase that matches.

    The final full stop becomes an empty tuple.
    """
    units: list[tuple[str, ...]] = []
    at, end = 0, len(words)
    final = end > 0 and words[-1] in FINAL
    end -= final
    while at < end:
        unit: tuple[str, ...] = (words[at],)
        for phrase in phrases.get(words[at], ()):
            if at + len(phrase) <= end and tuple(words[at : at + len(phrase)]) == phrase:
                unit = phrase
                break
        units.append(unit)
        at += len(unit)
    if final:
        units.append(())
    return units
