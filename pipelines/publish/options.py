"""Multiple choice: a caption and its negatives in random order, with the letter of the caption."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from ...augment.rng import record_rng
from ..tables.examples import Example
from .publication import Publication

LETTERS = "ABCD"
QUESTION = "Which caption describes the image?"


class Choice(NamedTuple):
    """A question about an image: texts in the order in which they are offered, and the position of the true one.

    operator, family: of the negatives among them.
    """

    example: Example
    operator: str
    family: str
    texts: tuple[str, ...]
    true: int

    @property
    def answer(self) -> str:
        """The letter of the true text."""
        return LETTERS[self.true]


def choices(publication: Publication, most: int = len(LETTERS) - 1) -> Iterator[Choice]:
    """One question per caption and operator, with at most `most` of its negatives, all different."""
    seed = publication.selection.draws.seed
    for example in publication.examples():
        for (operator, family), some in groupby(example.negatives, key=lambda n: (n.operator, n.family)):
            wrong = [text for text in dict.fromkeys(n.text for n in some) if text != example.text][:most]
            texts = [example.text, *wrong]
            record_rng(seed, "options", f"{example.caption_id}#{operator}").shuffle(texts)
            yield Choice(example, operator, family, tuple(texts), texts.index(example.text))
