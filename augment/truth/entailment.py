"""Which nouns of a lexicon a mentioned noun entails: itself, and its hypernyms and hyponyms by first senses.

Narrower than negcap.augment.language.coreference, which compares all senses in use, since any doubt must reject a
negative; here, pairs that are really true are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..cache import cached
from ..language.overlaps import head
from ..language.wordnet import WordNet

NOUNS = 1 << 14  # number of nouns whose results are cached


class Entailment:
    """Finds, of given nouns (entries), those that other nouns entail: a "puppy" entails "puppy", "dog" and "animal"."""

    def __init__(self, entries: Sequence[str]) -> None:
        """Index the entries by their first senses and the hypernyms of these."""
        self._named = {entry: number for number, entry in enumerate(entries)}
        self._is: dict[int, list[int]] = {}
        self._below: dict[int, list[int]] = {}
        for number, entry in enumerate(entries):
            above = _hypernyms(entry)
            if above:
                self._is.setdefault(above[0], []).append(number)
            for synset in above:
                self._below.setdefault(synset, []).append(number)

    def entries(self, nouns: Iterable[str]) -> np.ndarray:
        """The numbers, ascending, of the entries that any of these nouns entails: itself, its synonyms, and what lies
        above or below it in WordNet.
        """
        return np.array(sorted(frozenset[int]().union(*map(self._of_noun, nouns))), int)

    @cached(NOUNS)
    def _of_noun(self, noun: str) -> frozenset[int]:
        above = _hypernyms(noun)
        numbers = {self._named[noun]} if noun in self._named else set()
        numbers.update(self._below.get(above[0], ()) if above else ())
        numbers.update(*(self._is.get(synset, ()) for synset in above))
        return frozenset(numbers)


def _hypernyms(noun: str) -> list[int]:
    """The first sense of a noun, or of its head, followed by all its hypernyms; empty for an unknown noun."""
    wordnet = WordNet.load()
    for word in (noun, head(noun)):
        senses = wordnet.senses(word, "n")
        if senses:
            return [senses[0], *sorted(wordnet.closure(senses[0]) - {senses[0]})]
    return []
