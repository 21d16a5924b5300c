"""Whether a sentence looks like English: by the words of the shipped model of captions, without a parser."""

from __future__ import annotations

import re
from functools import cache

from ..cloze.file import read_words
from ..data import data_path

WORD = re.compile(r"[^\W\d_]+")
LEAST_WORDS = 3
KNOWN = 0.4  # of the words of English captions 99 % are known, of German ones 11 %
LATIN = "\u024f"  # the last letter of Latin Extended-B


def looks_english(text: str) -> bool:
    """Whether at least 40 % of the words of a sentence are in the vocabulary of the shipped cloze model.

    A text of fewer than 3 words cannot be told and counts as English, unless most of its letters are of another script.
    """
    words = WORD.findall(text.lower())
    letters = "".join(words)
    if 2 * sum(letter > LATIN for letter in letters) > len(letters):
        return False
    return len(words) < LEAST_WORDS or sum(word in _vocabulary() for word in words) >= KNOWN * len(words)


@cache
def _vocabulary() -> frozenset[str]:
    return read_words(data_path("cloze/model.npz")) | {"an"}
