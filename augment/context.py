"""What an operator knows besides its caption: the lexicon, and what all captions of the image mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .caption import Caption
from .cloze.model import Reading
from .language.coreference import Coreferent, says_less
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

    @property
    def caption(self) -> Caption:
        """The caption that this is the context of."""
        return self.own.captions[0]

    @cached_property
    def texts(self) -> frozenset[str]:
        """The texts of all captions of the image, in lower case."""
        return self.siblings.texts if self.own.texts <= self.siblings.texts else self.own.texts | self.siblings.texts

    @cached_property
    def coreferent_in_caption(self) -> Coreferent:
        """The nouns of the lexicon that may name the same thing as a noun of the caption."""
        return self.lexicon.coreference.with_any(self.own.nouns)

    def coreferent_in_siblings(self, replaced: str) -> Coreferent:
        """The nouns of the lexicon that may name the same thing as a noun of a sibling caption.

        A sibling's noun that says less of what the noun `replaced` names is left out, unless it is in the plural:
        "animal" for a dog does not make a cat likely.
        """
        several = {noun for noun, count in self.siblings.quantities if count != 1}
        nouns = self.siblings.nouns
        return self.lexicon.coreference.with_any(
            frozenset(noun for noun in nouns if noun in several or not says_less(noun, replaced))
        )

    def log_probabilities(
        self, kind: str, span: tuple[int, int], contexts: tuple[str, ...], form: str = ""
    ) -> np.ndarray:
        """log p(entry | rest of the caption) of each entry of the lexicon's `kind` in a slot: (entries,).

        span: the tokens of the slot, end exclusive. contexts: of the slot, see `plausibility.log_probabilities`. form:
        see `plausibility.entry_units`.
        """
        units, vectors = entry_units(self.lexicon, kind, form), entry_vectors(self.lexicon, kind, form)
        return log_probabilities(self.reading, self.lexicon.entries(kind), units, span, contexts, vectors)


def contexts(images: Iterable[Sequence[Caption]], lexicon: Lexicon, truth: Truth | None = None) -> list[Context]:
    """The contexts of the captions of some images, in order; the cloze model reads all captions together.

    images: the captions of each, one of the `batches` of a larger number. truth: the estimates of the corpus; None:
    nothing is estimated.
    """
    images = list(images)
    readings = iter(read([caption for captions in images for caption in captions], lexicon.cloze))
    contexts: list[Context] = []
    for captions in map(tuple, images):
        known: dict[Any, tuple[frozenset[Any], frozenset[Any]]] = {}
        estimates = truth.of_image(captions) if truth is not None else None
        for number, caption in enumerate(captions):
            siblings = Mentions(captions, number, known)
            contexts.append(Context(lexicon, Mentions((caption,)), siblings, next(readings), estimates))
    return contexts


def batches(images: Iterable[Sequence[Caption]]) -> Iterator[list[Sequence[Caption]]]:
    """Images in batches of at least CAPTIONS captions or TOKENS tokens; the last may have fewer.

    Reading many captions together is fast, and keeping only a batch of contexts bounds the memory.
    """
    batch: list[Sequence[Caption]] = []
    captions = tokens = 0
    for image in images:
        batch.append(image)
        captions += len(image)
        tokens += sum(len(caption.tokens) for caption in image)
        if captions >= CAPTIONS or tokens >= TOKENS:
            yield batch
            batch, captions, tokens = [], 0, 0
    if batch:
        yield batch
