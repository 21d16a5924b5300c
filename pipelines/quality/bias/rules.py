"""Blind baselines that learn nothing: the text of fewer format faults is true; the shorter text is true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from negcap.pipelines.quality.bias.accuracy import Accuracy, by_image
from negcap.pipelines.quality.bias.pairs import Pair

SPACED = re.compile(r"\s[.,;:!?]")
LOWER_I = re.compile(r"(?<![\w.'’-])i(?:['’](?:m|ve|ll|d))?(?![\w.'’-])")


def format_faults(text: str) -> int:
    """Count the faults of format that a careless script leaves in a text.

    A lower-cased start or "i", a double space, a space before punctuation, no full stop, `<unk>`: 1 each, however
    often; each wrong a/an and each doubled word: 1.
    """
    from negcap.augment.language.articles import article

    words = text.lower().split()
    faults = text[:1].islower() + ("  " in text) + bool(SPACED.search(text)) + ("<unk>" in text.lower())
    faults += bool(LOWER_I.search(text))
    faults += not text.rstrip().endswith((".", "!", "?", '"'))
    for word, following in zip(words, words[1:], strict=False):
        faults += word == following and word.isalpha()
        faults += word in ("a", "an") and following[:1].isalnum() and article(following) != word
    return faults


def format_rule(pairs: Iterable[Pair]) -> Accuracy:
    """The accuracy of taking the text with fewer format faults for the true one."""
    return _fewer(pairs, format_faults)


def shorter(pairs: Iterable[Pair]) -> Accuracy:
    """The accuracy of taking the text of fewer characters for the true one."""
    return _fewer(pairs, len)


def _fewer(pairs: Iterable[Pair], measure: Callable[[str], int]) -> Accuracy:
    right, images = [], []
    for pair in pairs:
        true, negative = measure(pair.true), measure(pair.negative)
        right.append(0.5 if true == negative else float(true < negative))
        images.append(pair.image_id)
    return by_image(right, images)
