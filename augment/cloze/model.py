"""Log-probabilities of words in the places of a caption, by the cloze model shipped in augment/data/cloze or another.

p(unit | rest) is the model's probability of a unit (a word or a phrase, see negcap.augment.cloze.units) at a place,
given all other units of the caption. Its logarithm is the inner product of the vector of the place, which depends on
the rest alone, and the vector of the unit, plus the unit's bias. Training keeps the sum of p over the vocabulary near
1, so it is not computed; what exceeds log 1 is cut to 0. All logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from negcap.augment.cache import read_only
from negcap.augment.cloze.file import read_model
from negcap.augment.cloze.network import Network, Place
from negcap.augment.cloze.units import SPECIAL, UNKNOWN, Units
from negcap.augment.data import data_path

Span = tuple[int, int]  # token numbers, the second exclusive


@dataclass(frozen=True, eq=False)
class ClozeModel:
    """A cloze model: its vocabulary, and the network that computes vectors of places."""

    units: Units
    network: Network

    @classmethod
    def load(cls, path: Path) -> ClozeModel:
        """Read a model from its file. Raises as `negcap.augment.cloze.file.read_model`."""
        units, arrays = read_model(path)
        return cls(units, Network(arrays))

    @cached_property
    def embedding(self) -> np.ndarray:
        """The word vectors of the units: (units, width)."""
        return self.network.arrays["embedding.weight"]

    @cached_property
    def bias(self) -> np.ndarray:
        """What is added to the score of each unit: (units,)."""
        return self.network.arrays["bias"]

    def numbers(self, words: Iterable[str | None]) -> np.ndarray:
        """The unit number of each word or phrase, -1 for None and for what is not in the vocabulary: (words,)."""
        found = (None if word is None else self.units.of(word) for word in words)
        return read_only(np.array([-1 if number is None else number for number in found], np.int64))

    def read(self, texts: Sequence[Sequence[str]], spans: Sequence[Sequence[Span]] | None = None) -> list[Reading]:
        """Compute what p(unit | rest) needs at the places of tokenised texts; faster for many texts in one call.

        texts: the words of each text. spans: for each text, spans of tokens in whose place a single unit will be asked
        for, such as (1, 3) to ask for "woman" in place of "tall man"; the places of the single units of a text can be
        asked for in any case. The result for a text does not depend on the other texts.
        """
        encoded = [self.units.read(words) for words in texts]
        all_places, rows = [], []
        for (units, of_token), own in zip(encoded, spans or [()] * len(texts), strict=True):
            places = [(i - 1, i + 1) for i in range(1, len(units) - 1)]
            row = {place: i for i, place in enumerate(places)}
            for start, end in own:
                place = _place(units, of_token, start, end)
                if place not in row:
                    row[place] = len(places)
                    places.append(place)
            all_places.append(places)
            rows.append(row)
        vectors = self.network.contexts([units for units, _ in encoded], all_places)
        return [
            Reading(self, units, of_token, row, found)
            for (units, of_token), row, found in zip(encoded, rows, vectors, strict=True)
        ]

    def scores(self, vectors: np.ndarray, units: np.ndarray) -> np.ndarray:
        """log p(unit | rest) of one unit at each of n places: (n,). For UNKNOWN it is the lowest bias.

        vectors: of the places, (n, width). units: the number of the unit asked for at each place, (n,).
        """
        scores = np.einsum("ij,ij->i", vectors, self.embedding[units]) + self.bias[units]
        scores[units < len(SPECIAL)] = self.bias.min()
        return np.minimum(scores, 0.0)


@dataclass(frozen=True, eq=False)
class Reading:
    """A text as a cloze model has read it, ready to be asked for p(unit | rest) at its places.

    units: the numbers of its units, from START to END. place_of: for each token, the place of its unit. vectors: of
    the places that can be asked for, (places, width). rows: the row of each such place in `vectors`; a place is given
    by the units before and after it.
    """

    model: ClozeModel
    units: Sequence[int]
    place_of: Sequence[int]
    rows: dict[Place, int]
    vectors: np.ndarray

    def log_probabilities(self, start: int, end: int, units: np.ndarray) -> np.ndarray:
        """log p(unit | rest) of any units in place of the tokens from `start` to `end` (exclusive): (units,).

        units: their numbers; -1 gives -inf. The tokens are those of a single unit, or a span that was given to
        `ClozeModel.read`; raises KeyError for others.
        """
        vector = self.vectors[self.rows[_place(self.units, self.place_of, start, end)]]
        scores = self.model.embedding[units] @ vector + self.model.bias[units]
        return np.where(units < 0, -np.inf, np.minimum(scores, 0.0))

    def is_unit(self, token: int) -> bool:
        """Whether a token is a unit of its own, not part of a phrase."""
        return self.place_of.count(self.place_of[token]) == 1

    def log_probability(self, token: int) -> float:
        """log p(unit | rest) of the unit that a token of the text belongs to; 0 for the final full stop."""
        place = self.place_of[token] - 1
        return float(self.own[place]) if place < len(self.own) else 0.0

    @cached_property
    def own(self) -> np.ndarray:
        """log p(unit | rest) of each unit of the text itself, without START and END: (units,)."""
        units = np.array(self.units[1:-1], np.int64)
        return self.model.scores(self.vectors[: len(units)], units)

    def own_with(self, token: int, word: str) -> float:
        """The sum of `own` if `word` replaced the unit of a token, and log p of all other units stayed as it is."""
        at = self.place_of[token] - 1
        number = self.model.units.of(word)
        unit = np.array([self.model.units.number[UNKNOWN] if number is None else number])
        new = self.model.scores(self.vectors[at : at + 1], unit)
        return float(np.add.reduce(self.own) - self.own[at] + new[0])


def _place(units: Sequence[int], place_of: Sequence[int], start: int, end: int) -> Place:
    """The place of the tokens `start` to `end` (exclusive) of a text: the units before and after them."""
    return place_of[start] - 1, min(place_of[end - 1] + 1, len(units) - 1)


@cache
def cloze_model() -> ClozeModel:
    """The shipped model, loaded once per process. Raises FileNotFoundError or ValueError for a damaged package."""
    return ClozeModel.load(data_path("cloze") / "model.npz")
