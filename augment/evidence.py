"""Evidence: what a caption and the other captions of its image say, found once for each image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from .caption import Caption, cached_on_caption
from .cloze.model import CaptionEncoding, ClozeModel
from .kinds import KINDS
from .language.coreference import more_general
from .plausibility import encode_captions

if TYPE_CHECKING:
    from .truth.estimates import ImageTruth, Truth

# What a caption asserts by one word, see `negcap.augment.mentions`: a thing ("dog"), or a pair of a thing and the value
# that the caption gives it, ("dog", 2) or ("couch", "red"). Which of these depends on the kind of the word.
Mention = Any
Mentions = Mapping[str, frozenset[Mention]]  # by the name of a kind of word
# A batch of captions that the cloze model reads together ends with the image that reaches the first number, or before
# the one that would exceed the second. Larger ones are a little faster and take more memory: 50 MB for twice the size.
BATCH_CAPTIONS = 160
BATCH_TOKENS = 2400


class SiblingMention(NamedTuple):
    """What a sibling mentions, and the caption_id of the first sibling that does."""

    mention: Mention
    sibling_id: str


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of the image of a caption.

    caption: the caption.
    siblings: the other captions of the image.
    caption_mentions, sibling_mentions: what the caption asserts, and what any of its siblings does.
    plural_sibling_nouns: the nouns that siblings have in the plural, or counted.
    texts: the texts of all captions of the image, in lower case.
    encoding: how the cloze model has read the caption.
    image: what is probably true of the image; None: not estimated.
    """

    caption: Caption
    siblings: tuple[Caption, ...]
    caption_mentions: Mentions
    sibling_mentions: Mentions
    plural_sibling_nouns: frozenset[str]
    texts: frozenset[str]
    encoding: CaptionEncoding = field(repr=False)
    image: ImageTruth | None = field(default=None, repr=False)

    def specific_sibling_nouns(self, replaced: str) -> frozenset[str]:
        """The nouns of siblings, without those that only say less of what the noun `replaced` names.

        A sibling's "animal" for a dog does not make a cat likely; "animals" may mean a dog and a cat, and stays.
        """
        nouns = self.sibling_mentions["noun"]
        return nouns - (more_general(nouns, replaced) - self.plural_sibling_nouns)

    def first_sibling_mention(self, kind: str, fits: Callable[[Mention], bool]) -> SiblingMention | None:
        """The first mention of a kind that fits, by the first sibling that has one; None: no sibling has one."""
        fitting = frozenset(filter(fits, self.sibling_mentions[kind]))
        if not fitting:  # mostly: then no sibling has to be looked at
            return None
        for sibling in self.siblings:
            said_by_sibling = fitting & mentions_of(sibling)[kind]
            if said_by_sibling:
                return SiblingMention(min(said_by_sibling), sibling.caption_id)
        return None


@cached_on_caption
def mentions_of(caption: Caption) -> Mentions:
    """What a caption asserts, by kind of word."""
    return {name: kind.mentions(caption) for name, kind in KINDS.items()}


def gather_evidence(
    images: Iterable[Sequence[Caption]],
    cloze: ClozeModel | None = None,
    truth: Truth | None = None,
    *,
    only_first: bool = False,
) -> list[Evidence]:
    """The evidence for the captions of some images, in order; the cloze model reads all captions together.

    Args:
        images: the captions of each image, one of the `batches` of a larger number.
        cloze: the model that reads them; None: the shipped one.
        truth: the estimates of the corpus; None: nothing is estimated.
        only_first: of each image only the evidence for its first caption, or for the sentences of it.
    """
    whole_images = [tuple(image) for image in images]
    chosen = whole_images  # of each image, the captions that get evidence
    if only_first:
        # Sentences count as captions here: the first caption is all sentences of the same whole as the first sentence.
        chosen = [tuple(caption for caption in image if caption.whole is image[0].whole) for image in whole_images]
    encodings = iter(encode_captions(list(chain.from_iterable(chosen)), cloze))
    evidence: list[Evidence] = []
    for image, captions in zip(whole_images, chosen, strict=True):
        said = [mentions_of(caption) for caption in image]
        # A mention is a sibling's unless only the caption itself has it. So the mentions of all captions are counted
        # once for the image, instead of joined anew for each caption.
        counts = {name: Counter(chain.from_iterable(mentions[name] for mentions in said)) for name in KINDS}
        said_once = {
            name: {mention for mention, times in of_kind.items() if times == 1} for name, of_kind in counts.items()
        }
        texts = frozenset(caption.text.lower() for caption in image)
        estimates = truth.of_image(image) if truth is not None else None
        for number, caption in enumerate(captions):
            # All mentions of the image, without those that only this caption has.
            by_siblings = {name: frozenset(counts[name]) - (said_once[name] & said[number][name]) for name in KINDS}
            evidence.append(
                Evidence(
                    caption=caption,
                    siblings=image[:number] + image[number + 1 :],
                    caption_mentions=said[number],
                    sibling_mentions=by_siblings,
                    plural_sibling_nouns=frozenset(noun for noun, count in by_siblings["numeral"] if count != 1),
                    texts=texts,
                    encoding=next(encodings),
                    image=estimates,
                )
            )
    return evidence


def batches(images: Iterable[Sequence[Caption]]) -> Iterator[list[Sequence[Caption]]]:
    """Images in batches: each ends when it has BATCH_CAPTIONS captions, or before it would exceed BATCH_TOKENS tokens.

    A batch of a single image may have more tokens. Reading many captions together is fast, and keeping the evidence of
    only one batch bounds the memory.
    """
    batch: list[Sequence[Caption]] = []
    captions = tokens = 0
    for image in images:
        size = sum(len(caption.tokens) for caption in image)
        if batch and (captions >= BATCH_CAPTIONS or tokens + size > BATCH_TOKENS):
            yield batch
            batch = []
            captions = 0
            tokens = 0
        batch.append(image)
        captions += len(image)
        tokens += size
    if batch:
        yield batch
