"""Log-probabilities of words in the places of a caption, by the cloze model shipped in augment/data/cloze or another.

p(unit | rest) is the model's probability of a unit (a word or a phrase, see negcap.augment.cloze.states) at a place,
given all other units of the caption. Its logarithm is the inner product of the vector of the place, which depends on
the rest alone, and the vector of the unit, plus the unit's bias. Training keeps the sum of p over the vocabulary near
1, so it is not computed; what exceeds log 1 is cut to 0. All logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from ..caption import read_only
from ..data import data_path
from .file import read_model
from .network import Network, Read, Shared, single_threaded, singles
from .states import SPECIAL, UNKNOWN, Place, Units

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
        numbers = (None if word is None else self.units.of(word) for word in words)
        return read_only(np.array([-1 if number is None else number for number in numbers], np.int64))

    def read(self, texts: Sequence[Sequence[str]], spans: Sequence[Sequence[Span]] | None = None) -> list[Reading]:
        """Compute what p(unit | rest) needs at the places of tokenised texts; faster for many texts in one call.

        spans: for each text, spans of tokens in whose place a single unit will be asked for, such as (1, 3) for "woman"
        in place of "tall man"; single units can be asked for in any case. The result does not depend on the other
        texts.
        """
        encoded = [self.units.read(words) for words in texts]
        all_places, rows = [], []
        for (units, of_token), its in zip(encoded, spans or [()] * len(texts), strict=True):
            places, row = singles(len(units)), dict[Place, int]()
            for start, end in its:
                before, after = place = _place(units, of_token, start, end)
                if after - before != 2 and place not in row:
                    row[place] = len(places)
                    places.append(place)
            all_places.append(places)
            rows.append(row)
        results = self.network.read([units for units, _ in encoded], all_places)
        scores = self._unit_scores([units for units, _ in encoded], [vectors for vectors, _ in results])
        return [
            Reading(self, units, of_token, its, vectors, row, states)
            for (units, of_token), row, (vectors, states), its in zip(encoded, rows, results, scores, strict=True)
        ]

    def read_edited(self, readings: Sequence[Reading], texts: Sequence[Sequence[str]]) -> list[Reading]:
        """Read texts that differ in a few words from others that have been read; the result is that of `read`.

        readings: for each text, the reading of the other, made by `read`, else ValueError. What they have in common is
        not computed again, so it takes half the time. No spans of tokens can be asked for.
        """
        encoded = [self.units.read(words) for words in texts]
        encoded_units = [units for units, _ in encoded]
        shared = []
        for units, reading in zip(encoded_units, readings, strict=True):
            if reading.states is None:
                raise ValueError("readings must be made by `read`, was one of an edited text")
            start, end = _common(reading.units, units)
            shared.append(Shared(reading.states, start, end))
        vectors = self.network.read_edited(encoded_units, shared)
        all_scores = self._unit_scores(encoded_units, vectors)
        return [
            Reading(self, units, of_token, scores, vectors_of_text)
            for (units, of_token), vectors_of_text, scores in zip(encoded, vectors, all_scores, strict=True)
        ]

    def _unit_scores(self, texts: Sequence[Sequence[int]], vectors: Sequence[np.ndarray]) -> list[list[float]]:
        """log p(unit | rest) of the units of each text but START and END; vectors: of their places, perhaps others."""
        if not texts:
            return []
        units = np.array([unit for text in texts for unit in text[1:-1]], np.int64)
        sizes = [len(text) - 2 for text in texts]
        rows = np.concatenate([of_text[:size] for size, of_text in zip(sizes, vectors, strict=True)])
        scores = self.scores(rows, units).tolist()
        return [scores[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]

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

    units: the numbers of its units, from START to END. place_of: for each token, the place of its unit. scores: log
    p(unit | rest) of each unit but START and END. vectors: of the places that can be asked for, first those of the
    units, (places, width). rows: the row in `vectors` of each other place. states: for texts that share units with this
    one; None if it was read so itself.
    """

    model: ClozeModel
    units: Sequence[int]
    place_of: Sequence[int]
    scores: Sequence[float]
    vectors: np.ndarray
    rows: Mapping[Place, int] = field(default_factory=dict)
    states: Read | None = None

    @single_threaded()
    def log_probabilities(
        self, start: int, end: int, units: np.ndarray, vectors: np.ndarray | None = None
    ) -> np.ndarray:
        """log p(unit | rest) of any units in place of the tokens from `start` to `end` (exclusive): (units,), -inf for
        -1.

        The tokens are those of a single unit, or a span that was given to `ClozeModel.read`, else KeyError. vectors:
        the units' word vectors, (units, width), if known.
        """
        before, after = place = _place(self.units, self.place_of, start, end)
        vector = self.vectors[before if after - before == 2 else self.rows[place]]
        scores = (self.model.embedding[units] if vectors is None else vectors) @ vector + self.model.bias[units]
        return np.where(units < 0, -np.inf, np.minimum(scores, 0.0))

    def is_unit(self, token: int) -> bool:
        """Whether a token is a unit of its own, not part of a phrase."""
        return self.place_of.count(self.place_of[token]) == 1

    def log_probability(self, token: int) -> float:
        """log p(unit | rest) of the unit that a token of the text belongs to; 0 for the final full stop."""
        place = self.place_of[token] - 1
        return self.scores[place] if place < len(self.scores) else 0.0

    def score_with(self, token: int, word: str) -> float:
        """The sum of `scores` if `word` replaced the unit of a token, and log p of all other units stayed as it is."""
        place, number = self.place_of[token] - 1, self.model.units.of(word)
        unit = np.array([self.model.units.number[UNKNOWN] if number is None else number])
        new = self.model.scores(self.vectors[place : place + 1], unit)
        return sum(self.scores) - self.scores[place] + float(new[0])


def _place(units: Sequence[int], place_of: Sequence[int], start: int, end: int) -> Place:
    """The place of the tokens `start` to `end` (exclusive) of a text: the units before and after them."""
    return place_of[start] - 1, min(place_of[end - 1] + 1, len(units) - 1)


def _common(one: Sequence[int], other: Sequence[int]) -> tuple[int, int]:
    """How many first and how many last units two texts have in common, without overlap in either."""
    most = min(len(one), len(other))
    start = next((i for i in range(most) if one[i] != other[i]), most - 1)
    end = next((i for i in range(most - start) if one[-1 - i] != other[-1 - i]), most - start)
    return start, end


@cache
def cloze_model() -> ClozeModel:
    """The shipped model, loaded once per process. Raises FileNotFoundError or ValueError for a damaged package."""
    return ClozeModel.load(data_path("cloze") / "model.npz")
