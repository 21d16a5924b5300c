"""The cloze model of captions that is shipped in augment/data/cloze, and what it says about captions.

p(word | rest) is the model's probability of a word at a place given all other words of the caption. Scores of units are
log-probabilities: training keeps their sum over the vocabulary near 1, so no sum is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from negcap.augment.cache import read_only
from negcap.augment.cloze.file import read_model
from negcap.augment.cloze.network import OFFSETS, Network, Place, States
from negcap.augment.cloze.units import SPECIAL, UNKNOWN, Units
from negcap.augment.data import data_path

Span = tuple[int, int]  # token numbers, the second exclusive


@dataclass(frozen=True, eq=False)
class ClozeModel:
    """A cloze model: its vocabulary and its network."""

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
        """The number of the unit of each word or phrase, -1 for one that the model does not know: (words,)."""
        found = (None if word is None else self.units.of(word) for word in words)
        return read_only(np.array([-1 if number is None else number for number in found], np.int64))

    def read(self, texts: Sequence[Sequence[str]], spans: Sequence[Sequence[Span]] | None = None) -> list[Reading]:
        """Read tokenised texts, all in one pass.

        spans: for each text, the token spans that are asked for and may cover several units; a single unit can be asked
        for in any case.
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
        vectors, states = self.network.contexts([units for units, _ in encoded], all_places)
        return [
            Reading(self, units, of_token, row, found, own)
            for (units, of_token), row, found, own in zip(encoded, rows, vectors, states, strict=True)
        ]

    def drops(self, readings: Sequence[Reading], at: Sequence[int], new: Sequence[int]) -> np.ndarray:
        """The most that a unit beside an exchanged one loses in log p: (exchanges,); 0 if none loses.

        readings: of the texts. at: the number of the unit that is exchanged in each. new: the unit put there. BESIDE
        units before it and BESIDE after it are looked at.
        """
        vectors = self.network.beside_exchanges(
            [one.units for one in readings], [one.states for one in readings], at, new
        )
        drops = np.zeros(len(readings))
        for i, (reading, place) in enumerate(zip(readings, at, strict=True)):
            inside = [
                (row, place + offset)
                for row, offset in enumerate(OFFSETS)
                if 0 < place + offset < len(reading.units) - 1
            ]
            if inside:
                rows, places = (np.array(column) for column in zip(*inside, strict=True))
                scores = self.scores(vectors[i, rows], np.array(reading.units)[places])
                drops[i] = float((reading.own[places - 1] - scores).max(initial=0.0))
        return drops

    def scores(self, vectors: np.ndarray, units: np.ndarray) -> np.ndarray:
        """log p of one unit in each context: (n,). Unknown words get the probability of the rarest unit.

        vectors: of the contexts, (n, width). units: (n,).
        """
        scores = np.einsum("ij,ij->i", vectors, self.embedding[units]) + self.bias[units]
        scores[units < len(SPECIAL)] = self.bias.min()
        return np.minimum(scores, 0.0)


@dataclass(frozen=True, eq=False)
class Reading:
    """What the cloze model reads in one text: its units, and the context vectors of places.

    units: their numbers, with START and END. place_of: for each token, the number of its unit. rows: the row of each
    place in `vectors`, (places, width). states: of the network after each unit.
    """

    model: ClozeModel
    units: Sequence[int]
    place_of: Sequence[int]
    rows: dict[Place, int]
    vectors: np.ndarray
    states: States

    def log_probabilities(self, start: int, end: int, units: np.ndarray) -> np.ndarray:
        """log p(unit | rest) of units in place of the tokens `start` to `end` (exclusive): (units,).

        units: their numbers; -1 for an unknown one, whose result is -inf.
        """
        vector = self.vectors[self.rows[_place(self.units, self.place_of, start, end)]]
        scores = self.model.embedding[units] @ vector + self.model.bias[units]
        return np.where(units < 0, -np.inf, np.minimum(scores, 0.0))

    def is_unit(self, token: int) -> bool:
        """Whether a token is a unit of its own, not part of a phrase."""
        return self.place_of.count(self.place_of[token]) == 1

    def log_probability(self, token: int) -> float:
        """log p(unit | rest) of the unit that a token belongs to; 0 for the final full stop."""
        place = self.place_of[token] - 1
        return float(self.own[place]) if place < len(self.own) else 0.0

    @cached_property
    def own(self) -> np.ndarray:
        """log p(unit | rest) of each unit of the text: (units without START and END,)."""
        units = np.array(self.units[1:-1], np.int64)
        return self.model.scores(self.vectors[: len(units)], units)

    def own_with(self, token: int, word: str) -> float:
        """The sum of `own` if `word` replaced the unit of a token and nothing else changed."""
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
    """The shipped model, loaded once per process. Raises ValueError if the file is damaged."""
    return ClozeModel.load(data_path("cloze") / "model.npz")
