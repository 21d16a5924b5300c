"""Multiple choice in NegBench's templates: questions about a noun that the image shows and one that it does not.

The false options are of all three templates ("with a helmet", "without a hat", "with a helmet but no hat"). One of
them, drawn at random, is that of the true option ("with a hat", "without a helmet", "with a hat but no helmet"), so
that neither the words of denial nor the nouns tell which is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from ...augment.reproducible import record_rng
from .examples import Example, source_of
from .pairs import BOTH, DENIED, NEGATION

OPTIONS = 4
POSITIVE, NEGATIVE, HYBRID = "positive", "negative", "hybrid"


class Question(NamedTuple):
    """An example whose text is the true option, three false ones, and the true one's template.

    The template is that of NegBench: positive, negative (denies something) or hybrid (asserts one thing and denies
    another).
    """

    example: Example
    false: tuple[str, ...]
    template: str


def template(said: str) -> str:
    """NegBench's template of a sentence, from the column `replaced` or `replacement` that says what is in it."""
    return HYBRID if BOTH in said else NEGATIVE if DENIED in said else POSITIVE


def questions(examples: Sequence[Example]) -> Iterator[Question]:
    """The question of each caption of an image that has one about two nouns; `examples` are all of the image."""
    found: dict[str, list[Example]] = {}
    for example in examples:
        found.setdefault(source_of(example), []).append(example)
    for source, own in found.items():
        rng = record_rng(0, "question", source)
        pairs = [*_about_two(own)]
        if pairs:
            yield rng.choice(rng.choice(pairs))


def _about_two(examples: Sequence[Example]) -> Iterator[list[Question]]:
    """For each two nouns of a caption, the questions about them, one for each template of the true option.

    examples: of one caption. All three false sentences, and what they contradict, must be there.
    """
    said: dict[str, tuple[Example, str, str]] = {}  # by what is said: what it contradicts, false text and true template
    for example in examples:
        for one in example.negatives:
            if one.operator == NEGATION:
                said.setdefault(one.replacement, (example, one.text, template(one.replaced)))
    for key in said:
        if template(key) == HYBRID:
            missing, _, there = key.partition(BOTH)
            parts = [said[name] for name in (missing, there, key) if name in said]
            if len(parts) == OPTIONS - 1:
                false = tuple(text for _, text, _ in parts)
                yield [Question(example, false, true) for example, _, true in parts]


def shuffled(question: Question, rng: Random) -> tuple[list[str], int]:
    """The options in random order, and the position of the true one among them, from 0."""
    texts = [question.example.text, *question.false]
    rng.shuffle(texts)
    return texts, texts.index(question.example.text)
