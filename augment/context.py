"""What an operator knows besides its caption: the lexicon, and what all captions of the image mention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from negcap.augment.caption import Caption
from negcap.augment.language.coreference import Coreferent, union
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.mentions import Mentions, mentioned_nouns


@dataclass(frozen=True, eq=False)
class Context:
    """The context of a caption: the lexicon, what the caption mentions (`own`), and what its siblings mention."""

    lexicon: Lexicon
    own: Mentions
    siblings: Mentions

    @cached_property
    def texts(self) -> frozenset[str]:
        """The texts of all captions of the image, in lower case."""
        return frozenset(caption.text.lower() for caption in (*self.own.captions, *self.siblings.captions))

    @cached_property
    def coreferent_in_caption(self) -> Coreferent:
        """The nouns of the lexicon that may name the same thing as a noun of the caption."""
        return self._coreferent(self.own)

    @cached_property
    def coreferent_in_siblings(self) -> Coreferent:
        """The nouns of the lexicon that may name the same thing as a noun of a sibling caption."""
        return self._coreferent(self.siblings)

    def _coreferent(self, mentions: Mentions) -> Coreferent:
        index = self.lexicon.coreference
        return union(index.with_any(mentioned_nouns(caption)) for caption in mentions.captions)


def contexts(captions: Sequence[Caption], lexicon: Lexicon) -> list[Context]:
    """The contexts of all captions of one image, in the order of `captions`."""
    captions = tuple(captions)
    return [
        Context(lexicon, Mentions((caption,)), Mentions(captions[:i] + captions[i + 1 :]))
        for i, caption in enumerate(captions)
    ]
