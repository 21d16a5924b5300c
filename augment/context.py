"""What an operator knows besides its caption: the lexicon, and what all captions of the image mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .caption import Caption
from .cloze.model import Reading
from .language.coreference import Coreferent
from .lexicon.lexicon import Lexicon
from .mentions import Mentions
from .plausibility import entry_units, entry_vectors, log_probabilities, read

if TYPE_CHECKING:
    from .truth.estimates import ImageTruth, Truth

CAPTIONS, TOKENS = 125, 4000  # about as many captions are read by the cloze model together, or fewer of more tokens


@dataclass(frozen=True, eq=False)
class Context:
    """The context of a caption: the lexicon, what the caption mentions (`own`), what its siblings mention, and what the
    cloze model reads in the caption. image: what is probably true of the image; None: not estimated.
    """

    lexicon: Lexicon
    own: Mentions
    siblings: Mentions
    reading: Reading
    image: ImageTruth | None = None

    @cached_property
    def texts(self) -> frozenset[str]:
        """The texts of all captions of the image, in lower case."""
        return self.siblings.texts if self.own.texts <= self.siblings.texts else self.own.texts | self.siblings.texts

    @cached_property
    def coreferent_in_caption(self) -> Coreferent:
        """The nouns of the lexicon that may name the same thing as a noun of the caption."""
        return self._coreferent(self.own)

    @cached_property
    def coreferent_in_siblings(self) -> Coreferent:
        """The nouns of the lexicon that may name the same thing as a noun of a sibling caption."""
        return self._coreferent(self.siblings)

    def log_probabilities(
        self, kind: str, span: tuple[int, int], contexts: tuple[str, ...], form: str = ""
    ) -> np.ndarray:
        """log p(entry | rest of the caption) of each entry of the lexicon's `kind` in a slot: (entries,).

        span: the tokens of the slot, end exclusive. contexts: of the slot, see `plausibility.log_probabilities`. form:
        see `plausibility.entry_units`.
        """
        units = entry_units(self.lexicon, kind, form)
        vectors = entry_vectors(self.lexicon, kind, form)
        return log_probabilities(self.reading, self.lexicon.entries(kind), units, span, contexts, vectors)

    def _coreferent(self, mentions: Mentions) -> Coreferent:
        return self.lexicon.coreference.with_any(mentions.nouns)


def contexts(
    captions: Sequence[Caption],
    lexicon: Lexicon,
    readings: Sequence[Reading] | None = None,
    truth: Truth | None = None,
) -> list[Context]:
    """The contexts of all captions of one image, in the order of `captions`.

    readings: of the captions; None: they are made here, which is slower than for many captions at once. truth: the
    estimates of the corpus; None: nothing is estimated.
    """
    image = Mentions(tuple(captions))
    estimates = truth.of_image(captions) if truth is not None else None
    return [
        Context(lexicon, Mentions((caption,)), image.all_but(i), reading, estimates)
        for i, (caption, reading) in enumerate(zip(captions, readings or read(captions, lexicon.cloze), strict=True))
    ]


def contexts_by_image(
    images: Iterable[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None
) -> Iterator[list[Context]]:
    """The contexts of the captions of each image; the captions of several images are read together.

    truth: as in `contexts`.
    """
    for part in parts(images):
        readings = read([caption for captions in part for caption in captions], lexicon.cloze)
        start = 0
        for captions in part:
            yield contexts(captions, lexicon, readings[start : start + len(captions)], truth)
            start += len(captions)


def parts(images: Iterable[Sequence[Caption]]) -> Iterator[list[Sequence[Caption]]]:
    """Images in parts of at least CAPTIONS captions or TOKENS tokens; the last may have fewer."""
    part: list[Sequence[Caption]] = []
    captions = tokens = 0
    for image in images:
        part.append(image)
        captions += len(image)
        tokens += sum(len(caption.tokens) for caption in image)
        if captions >= CAPTIONS or tokens >= TOKENS:
            yield part
            part, captions, tokens = [], 0, 0
    if part:
        yield part
