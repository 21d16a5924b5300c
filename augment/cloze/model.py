"""The cloze model of captions that is shipped in augment/data/cloze, and what it says about captions.

p(word | rest) is the model's probability of a word at a place given all other words of the caption. Scores of units are
log-probabilities: training keeps their sum over the vocabulary near 1, so no sum is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from negcap.augment.cache import read_only
from negcap.augment.caption import Caption
from negcap.augment.cloze.file import read_model
from negcap.augment.cloze.network import Network, Place
from negcap.augment.cloze.units import Units
from negcap.augment.data import data_path


@dataclass(frozen=True, eq=False)
class ClozeModel:
    """A cloze model: its vocabulary and its network."""

    units: Units
    network: Network

    @cached_property
    def embedding(self) -> np.ndarray:
        """The word vectors of the units: (units, width)."""
        return self.network.arrays["embedding.weight"]

    @cached_property
    def bias(self) -> np.ndarray:
        """What is added to the score of each unit: (units,)."""
        return self.network.arrays["bias"]

    def numbers(self, words: Iterable[str | None]) -> np.ndarray:
        """The number of the unit of each word or phrase, -1 for one that the model does not know: (words,)."""
        found = (None if word is None else self.units.of(word) for word in words)
        return read_only(np.array([-1 if number is None else number for number in found], np.int64))

    def read(self, captions: Sequence[Caption], spans: Sequence[Sequence[tuple[int, int]]]) -> list[Reading]:
        """Read captions, in one pass.

        spans: for each caption, the token spans (start, end exclusive) that are asked for and may cover several units;
        every single unit can be asked for in any case.
        """
        encoded = [self.units.read(caption.lowered) for caption in captions]
        all_places, rows = [], []
        for (units, of_token), own in zip(encoded, spans, strict=True):
            places = [(i - 1, i + 1) for i in range(1, len(units) - 1)]
            row = {place: i for i, place in enumerate(places)}
            for start, end in own:
                place = (of_token[start] - 1, min(of_token[end - 1] + 1, len(units) - 1))
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

    def pseudo_log_likelihoods(self, texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """log p(unit | rest) of every unit of tokenised texts: for each text, (units,).

        Unknown words count as the unit UNKNOWN, which gets the score of the rarest known one.
        """
        encoded = [self.units.read(words)[0] for words in texts]
        places = [[(i - 1, i + 1) for i in range(1, len(units) - 1)] for units in encoded]
        vectors = self.network.contexts(encoded, places)
        return [self._scores(found, np.array(units[1:-1])) for found, units in zip(vectors, encoded, strict=True)]

    def _scores(self, vectors: np.ndarray, units: np.ndarray) -> np.ndarray:
        """The score of one unit for each context vector: (n,)."""
        scores = np.einsum("ij,ij->i", vectors, self.embedding[units]) + self.bias[units]
        scores[units < 3] = self.bias.min()
        return np.minimum(scores, 0.0)


@dataclass(frozen=True, eq=False)
class Reading:
    """What the cloze model reads in one caption: its units, and the context vectors of places.

    units: their numbers, with START and END. place_of: for each token, the number of its unit. rows: the row of each
    place in `vectors`, (places, width).
    """

    model: ClozeModel
    units: Sequence[int]
    place_of: Sequence[int]
    rows: dict[Place, int]
    vectors: np.ndarray

    def log_probabilities(self, start: int, end: int, units: np.ndarray) -> np.ndarray:
        """log p(unit | rest) of units in place of the tokens `start` to `end` (exclusive): (units,).

        units: their numbers; -1 for an unknown one, whose result is -inf.
        """
        place = (self.place_of[start] - 1, min(self.place_of[end - 1] + 1, len(self.units) - 1))
        vector = self.vectors[self.rows[place]]
        scores = self.model.embedding[units] @ vector + self.model.bias[units]
        return np.where(units < 0, -np.inf, np.minimum(scores, 0.0))

    def log_probability(self, token: int) -> float:
        """log p(unit | rest) of the unit that a token belongs to."""
        return float(self.own[self.place_of[token] - 1])

    @cached_property
    def own(self) -> np.ndarray:
        """log p(unit | rest) of each unit of the caption: (units without START and END,)."""
        units = np.array(self.units[1:-1])
        return self.model._scores(self.vectors[: len(units)], units)


@cache
def cloze_model() -> ClozeModel:
    """The shipped model, loaded once per process. Raises ValueError if the file is damaged."""
    units, arrays = read_model(data_path("cloze") / "model.npz")
    return ClozeModel(units, Network(arrays))
