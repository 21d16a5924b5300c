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
from pathlib import Path

import numpy as np

from ..caption import read_only
from ..data import data_path
from .file import read_model
from .network import Network, Read, places_of_units
from .states import SPECIAL, Place, Units, UnitsOfText

EDITED = 12_000  # number of units of edited texts that are read together, about: their states take 70 MB
Span = tuple[int, int]  # token numbers, the second exclusive


@dataclass(frozen=True, eq=False)
class ClozeModel:
    """A cloze model: its vocabulary, and the network that computes vectors of places.

    shift: added to the bias of each unit to suit a corpus, see `negcap.augment.cloze.adaptation`, (units,); None:
    nothing is added.
    """

    units: Units
    network: Network
    shift: np.ndarray | None = None

    @classmethod
    def load(cls, path: Path) -> ClozeModel:
        """Read a model from its file. Raises FileNotFoundError, or ValueError if it is no file of a cloze model."""
        units, arrays = read_model(path)
        return cls(units, Network(arrays))

    @cached_property
    def embedding(self) -> np.ndarray:
        """The word vectors of the units: (units, width)."""
        return self.network.arrays["embedding.weight"]

    @cached_property
    def bias(self) -> np.ndarray:
        """The number that is added to the score of each unit: (units,)."""
        bias = self.network.arrays["bias"]
        return bias if self.shift is None else read_only(bias + self.shift)

    def numbers(self, words: Iterable[str | None]) -> np.ndarray:
        """The unit number of each word or phrase, -1 for None and for words outside of the vocabulary: (words,)."""
        numbers = (None if word is None else self.units.number_of(word) for word in words)
        return read_only(np.array([-1 if number is None else number for number in numbers], np.int64))

    def read(
        self, texts: Sequence[Sequence[str]], spans: Sequence[Sequence[Span]] | None = None
    ) -> list[CaptionEncoding]:
        """Compute what p(unit | rest) needs at the places of tokenised texts; faster for many texts in one call.

        spans: for each text, spans of several tokens that a single unit may replace, such as (1, 3) for "woman" instead
        of "tall man". Places of single units are always computed. The result does not depend on the other texts.
        """
        encoded = [self.units.to_units(words) for words in texts]
        all_places = []
        rows = []
        for text, spans_of_text in zip(encoded, spans or [()] * len(texts), strict=True):
            # A text has a row for the place of each unit between START and END, then one for each other place.
            row_of_place: dict[Place, int] = {}
            for start, end in spans_of_text:
                place = _place_of_tokens(text.units, text.unit_of_token, start, end)
                before, after = place
                is_single_unit = after - before == 2
                if not is_single_unit and place not in row_of_place:
                    row_of_place[place] = len(text.units) - 2 + len(row_of_place)
            places = places_of_units(len(text.units))
            all_places.append(np.concatenate([places, list(row_of_place)]) if row_of_place else places)
            rows.append(row_of_place)
        return self._encodings(encoded, all_places, rows)

    def read_edited(
        self, encodings: Sequence[CaptionEncoding], texts: Sequence[Sequence[str]]
    ) -> list[CaptionEncoding]:
        """Read texts that differ in a few words from others that have been read; the result is that of `read`.

        States that a text shares with its original are not computed again, so it takes half the time. There are no
        spans of several tokens. encodings: for each text, that of its original, made by `read`, else ValueError.
        """
        if any(encoding.states is None for encoding in encodings):
            raise ValueError("encodings must be made by `read`, was one of an edited text")
        encoded = [self.units.to_units(words) for words in texts]
        # Texts whose originals were read in one call are read together, about EDITED units at a time.
        together: dict[tuple[int, int], list[int]] = {}
        total = 0
        for number, (encoding, text) in enumerate(zip(encodings, encoded, strict=True)):
            together.setdefault((id(encoding.states), total // EDITED), []).append(number)
            total += len(text.units)
        results: dict[int, CaptionEncoding] = {}
        for numbers in together.values():
            some_texts = [encoded[number] for number in numbers]
            places = [places_of_units(len(text.units)) for text in some_texts]
            read = self._encodings(some_texts, places, known=encodings[numbers[0]].states)
            results |= zip(numbers, read, strict=True)
        return [results[number] for number in range(len(texts))]

    def _encodings(
        self,
        texts: Sequence[UnitsOfText],
        places: Sequence[np.ndarray],
        rows: Sequence[Mapping[Place, int]] | None = None,
        known: Read | None = None,
    ) -> list[CaptionEncoding]:
        """Read texts together.

        Args:
            texts: their units.
            places: the places of each text that can be asked for, first those of its units, (places, 2).
            rows: the rows of the other places; None if there are none.
            known: the states of texts that share units with these.
        """
        vectors, states = self.network.read([text.units for text in texts], places, known)
        counts = [len(text.units) - 2 for text in texts]
        unit_vectors = [of_text[:count] for of_text, count in zip(vectors, counts, strict=True)]
        no_vectors = np.zeros((0, self.embedding.shape[1]), np.float32)
        inner_units = np.array([unit for text in texts for unit in text.units[1:-1]], np.int64)
        scores = self.scores(np.concatenate([no_vectors, *unit_vectors]), inner_units).tolist()
        encodings = []
        end = 0
        for number, text in enumerate(texts):
            start = end
            end += counts[number]
            encodings.append(
                CaptionEncoding(
                    model=self,
                    units=text.units,
                    unit_of_token=text.unit_of_token,
                    scores=scores[start:end],
                    vectors=vectors[number],
                    rows={} if rows is None else rows[number],
                    states=states if known is None else None,
                    number=number,
                )
            )
        return encodings

    def scores(self, vectors: np.ndarray, units: np.ndarray) -> np.ndarray:
        """log p(unit | rest) of one unit at each of n places: (n,).

        UNKNOWN stands for many rare words together, so it gets the lowest bias of all units instead.

        vectors: of the places, (n, width). units: the number of the unit asked for at each place, (n,).
        """
        scores = np.einsum("ij,ij->i", vectors, self.embedding[units]) + self.bias[units]
        scores[units < len(SPECIAL)] = self.bias.min()
        return np.minimum(scores, 0.0)


@dataclass(frozen=True, eq=False)
class CaptionEncoding:
    """A text as a cloze model has read it, ready to be asked for p(unit | rest) at its places.

    units: the numbers of its units, from START to END.
    unit_of_token: for each token, the index of its unit in `units`; that of END for the final full stop.
    scores: log p(unit | rest) of each unit but START and END.
    vectors: of the places that can be asked for, first those of the units, (places, width).
    rows: the row in `vectors` of each other place, which has several units or none.
    states: of the GRUs, of all texts that were read together, for `ClozeModel.read_edited`; None for an edited text.
    number: the number of the text among them.
    """

    model: ClozeModel
    units: Sequence[int]
    unit_of_token: Sequence[int]
    scores: Sequence[float]
    vectors: np.ndarray
    rows: Mapping[Place, int] = field(default_factory=dict)
    states: Read | None = None
    number: int = 0

    @cached_property
    def total(self) -> float:
        """The pseudo-log-likelihood of the text: the sum of log p(unit | rest) over its units."""
        return sum(self.scores)

    def vector_at(self, place: Place) -> np.ndarray:
        """The vector of a place: (width,). It is that of a unit, or was asked for when the text was read."""
        before, after = place
        return self.vectors[before if after - before == 2 else self.rows[place]]

    def place(self, start: int, end: int) -> Place | None:
        """The place of the tokens from `start` to `end` (exclusive), such as (0, 2) for the first word.

        None: the tokens are not whole units, or `vector_at` does not know the place.
        """
        unit_of_token = self.unit_of_token
        if start >= end:
            return None
        begins_inside_a_unit = start > 0 and unit_of_token[start - 1] == unit_of_token[start]
        ends_inside_a_unit = end < len(unit_of_token) and unit_of_token[end] == unit_of_token[end - 1]
        if begins_inside_a_unit or ends_inside_a_unit:
            return None
        before, after = place = _place_of_tokens(self.units, unit_of_token, start, end)
        return place if after - before == 2 or place in self.rows else None

    def place_of_token(self, token: int) -> Place | None:
        """The place of the unit of a token; None for the final full stop, which is no unit."""
        unit = self.unit_of_token[token]
        return (unit - 1, unit + 1) if unit <= len(self.scores) else None  # units have the numbers from 1 on

    def vector(self, start: int, end: int) -> np.ndarray:
        """The vector that predicts what stands in place of the tokens `start` to `end` (exclusive): (width,).

        It is computed from the rest of the caption. The tokens are those of a single unit, or a span that was given to
        `ClozeModel.read`, else KeyError.
        """
        return self.vector_at(_place_of_tokens(self.units, self.unit_of_token, start, end))

    def is_unit(self, token: int) -> bool:
        """Whether a token is a unit of its own, not part of a phrase."""
        return self.unit_of_token.count(self.unit_of_token[token]) == 1

    def log_probability(self, token: int) -> float:
        """log p(unit | rest) of the unit that a token of the text belongs to; 0 for the final full stop."""
        unit = self.unit_of_token[token] - 1  # START has no score
        return self.scores[unit] if unit < len(self.scores) else 0.0


def _place_of_tokens(units: Sequence[int], unit_of_token: Sequence[int], start: int, end: int) -> Place:
    """The place of the tokens `start` to `end` (exclusive) of a text: the indices of the units before and after them.

    units, unit_of_token: of the text, see `CaptionEncoding`.
    """
    # The final full stop counts to END, behind which there is no unit.
    return unit_of_token[start] - 1, min(unit_of_token[end - 1] + 1, len(units) - 1)


@cache
def cloze_model() -> ClozeModel:
    """The shipped model, loaded once per process. Raises FileNotFoundError or ValueError for a damaged package."""
    return ClozeModel.load(data_path("cloze") / "model.npz")
