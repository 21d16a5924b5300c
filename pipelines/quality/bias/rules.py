"""Blind baselines without training: the text with fewer formatting errors is true; the shorter text is true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from .accuracy import Accuracy, by_image
from .pairs import Pair

SPACED = re.compile(r"\s[.,;:!?]")
LOWER_I = re.compile(r"(?<![\w.'’-])i(?:['’](?:m|ve|ll|d))?(?![\w.'’-])")


def format_faults(text: str) -> int:
    """Count the formatting errors that careless scripts leave in a text.

    1 each, however often they occur: a lower-case start, a lower-case "i", a double space, a space before punctuation,
    no final punctuation, `<unk>`. 1 per occurrence: a wrong a/an, a doubled word.
    """
    from ....augment.language.grammar import article

    words = text.lower().split()
    faults = text[:1].islower() + ("  " in text) + bool(SPACED.search(text)) + ("<unk>" in text.lower())
    faults += bool(LOWER_I.search(text))
    faults += not text.rstrip().endswith((".", "!", "?", '"'))
    for word, following in zip(words, words[1:], strict=False):
        faults += word == following and word.isalpha()
        faults += word in ("a", "an") and following[:1].isalnum() and article(following) != word
    return faults


def format_rule(pairs: Iterable[Pair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer formatting errors is true; a tie counts half."""
    return _fewer(pairs, format_faults)


def shorter(pairs: Iterable[Pair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer characters is true; a tie counts half."""
    return _fewer(pairs, len)


def _fewer(pairs: Iterable[Pair], measure: Callable[[str], int]) -> Accuracy:
    right, images = [], []
    for pair in pairs:
        true, negative = measure(pair.true), measure(pair.negative)
        right.append(0.5 if true == negative else float(true < negative))
        images.append(pair.image_id)
    return by_image(right, images)
