"""What an operator knows besides its caption: the lexicon, and what all captions of the image mention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .caption import Caption, cached, cached_on_context, read_only
from .cloze.model import Reading, cloze_model
from .cloze.surrogate import surrogate_of
from .judgement import KINDS, MAX_COMPATIBLE, MAX_UNNATURAL, PREFERRED_UNNATURAL, judge_of, places_of, scores_of, terms
from .language.coreference import Coreferent, entry_numbers, more_general
from .lexicon.lexicon import Lexicon
from .mentions import Mentions
from .plausibility import CACHED, WINDOW, Change, entry_units, entry_vectors, head_units, log_probabilities, read
from .slots.nouns import Slot

if TYPE_CHECKING:
    from .truth.estimates import ImageTruth, Truth

Result = TypeVar("Result")
CAPTIONS, TOKENS = 160, 2400  # a batch of the cloze model ends with the image that reaches either number


@dataclass(frozen=True, eq=False)
class Said:
    """What is said of the image of a caption: what the caption mentions (`own`), and what its siblings mention.

    reading: what the cloze model reads in the caption. lexicon: its entries may replace words. image: what is probably
    true of the image; None: not estimated.
    """

    own: Mentions
    siblings: Mentions
    reading: Reading
    lexicon: Lexicon
    image: ImageTruth | None = None

    @property
    def caption(self) -> Caption:
        """The caption."""
        return self.own.captions[0]

    @cached_property
    def coreferent_in_caption(self) -> Coreferent:
        """The nouns of the lexicon that may name the same thing as a noun of the caption."""
        return self.lexicon.coreference.with_any(self.own.nouns)

    @cached_on_context
    def heard(self, replaced: str) -> frozenset[str]:
        """The nouns of sibling captions, without those that say less of what the noun `replaced` names and are not in
        the plural: "animal" for a dog does not make a cat likely.
        """
        less = more_general(self.siblings.nouns, replaced)
        return self.siblings.nouns - (less - self._several) if less else self.siblings.nouns

    @cached_property
    def _several(self) -> frozenset[str]:
        """The nouns of sibling captions that are in the plural, or counted."""
        return frozenset(noun for noun, count in self.siblings.quantities if count != 1)

    def may_be_true(self, replaced: str) -> np.ndarray:
        """Boolean mask of the lexicon's nouns that may be true of the image in place of the noun `replaced`: (nouns,).

        A noun is in it if it may name the same thing as a noun of one of the image's captions, or is one of
        `ImageTruth.likely_nouns`.
        """
        return self._may_be_true(self.heard(replaced))

    @cached_on_context
    def _may_be_true(self, heard: frozenset[str]) -> np.ndarray:
        bits = self.coreferent_in_caption.all | self.lexicon.coreference.with_any(heard).all
        true = np.zeros(len(self.lexicon.nouns.names), bool)
        true[entry_numbers(bits)] = True
        return read_only(true if self.image is None else true | self.image.likely_nouns)


@dataclass(frozen=True, eq=False)
class Batch:
    """Captions that the cloze model has read together, with the lexicon, and what was computed for all of them at once:
    `known`, by function. said: of each caption, in order. max_unnatural, max_compatible: the highest probabilities that
    readers call a negative odd, and that they say that it may be true of the same photo as its caption; odder ones than
    preferred_unnatural are drawn only where there are no others. excluded: whether operators also propose what is not
    drawn since it may be true or is too odd. excluded_words: in how many places that is so, by kind, entry and reason.
    """

    lexicon: Lexicon
    said: Sequence[Said]
    preferred_unnatural: float = PREFERRED_UNNATURAL
    max_unnatural: float = MAX_UNNATURAL
    max_compatible: float = MAX_COMPATIBLE
    excluded: bool = False
    known: dict[Callable[..., Any], Sequence[Any] | None] = field(default_factory=dict)
    excluded_words: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @cached_property
    def captions(self) -> list[Caption]:
        """The captions, in order."""
        return [one.caption for one in self.said]

    def result(self, function: Callable[[Batch], Sequence[Result]], number: int) -> Result:
        """The result of a function, one for each caption of a batch, for caption number `number`.

        If it raises an error for all captions together, it is called for each of them alone, so that one caption cannot
        spoil the others.
        """
        if function not in self.known:
            counted = self.excluded_words.copy()
            try:
                self.known[function] = function(self)
            except Exception:
                if len(self.captions) == 1:
                    raise
                self.known[function] = None
                self.excluded_words.clear()
                self.excluded_words.update(counted)
        known = self.known[function]
        return function(self._of([number]))[0] if known is None else known[number]

    def count_excluded(self, kind: str, numbers: np.ndarray, reason: str) -> None:
        """Add to `excluded_words` lexicon entries that could replace a word but are not drawn. kind: that of the
        entries, such as "noun". numbers: an entry's number, once for each word that it could replace, (replacements,).
        reason: why it is not drawn, as in `Choice.refused`.
        """
        names = self.lexicon.entries(kind).names
        for number, places in zip(*np.unique(numbers, return_counts=True), strict=True):
            self.excluded_words[kind, names[number], reason] += int(places)

    def part(self, numbers: Sequence[int]) -> list[Context]:
        """The contexts of the captions with these numbers in a batch of their own, which computes everything anew."""
        part = self._of(numbers)
        return [Context(one, part, number) for number, one in enumerate(part.said)]

    def _of(self, numbers: Sequence[int]) -> Batch:
        """A batch of the captions with these numbers, of which nothing is known."""
        return replace(self, said=[self.said[number] for number in numbers], known={}, excluded_words=Counter())

    def log_probabilities(self, kind: str, slots: Sequence[tuple[int, Slot]], form: str = "") -> np.ndarray:
        """log p(entry | rest of the caption) of each entry of the lexicon's `kind` in slots: (slots, entries).

        slots: the number of the caption, and the slot. form: see `plausibility.entry_units`.
        """
        units, vectors = entry_units(self.lexicon, kind, form), entry_vectors(self.lexicon, kind, form)
        asked = [(self.said[number].reading, (slot.start, slot.end), slot.contexts) for number, slot in slots]
        return log_probabilities(asked, self.lexicon.entries(kind), units, vectors)

    def judged(
        self,
        kind: str,
        slots: Sequence[tuple[int, Slot]],
        of: np.ndarray,
        new: np.ndarray,
        form: str = "",
        given: Change | None = None,
    ) -> np.ndarray:
        """Three estimates for each replacement, (3, replacements): `whole`, as in `plausibility.Change`, and the
        probabilities that readers would call the negative odd, and that they would say that the same photo may fit it
        and its caption (`negcap.augment.judgement`).

        They are made from what the cloze model's surrogate estimates. NaN where it cannot estimate, so that the model
        has to read the negative itself: everywhere if there is neither a surrogate nor `given`. of: for each
        replacement, the number of its slot, ascending. new: for each, the number of its entry. given: the change to
        assume for all, instead of the surrogate's estimates. The other arguments are those of `log_probabilities`.
        """
        found = np.full((3, len(of)), np.nan)
        if not len(of) or ((surrogate := surrogate_of(self.said[0].reading.model)) is None and given is None):
            return found
        places = [self.said[number].reading.place(slot.start, slot.end) for number, slot in slots]
        units = head_units(self.lexicon, kind, form)[new]
        known = (units >= 0) & np.array([place is not None for place in places])[of]
        if not known.any():
            return found
        asked, of = np.unique(of[known], return_inverse=True)
        units, at = units[known], [places[slot] for slot in asked.tolist()]
        readings = [self.said[slots[slot][0]].reading for slot in asked.tolist()]
        if given is not None:
            changes = np.tile(given, (len(of), 1))
        else:
            assert surrogate is not None
            changes = np.stack(surrogate.estimate(readings, np.array(at), of, units, WINDOW), axis=1)
        network = judge_of(readings[0].model)
        beside, olds = places_of(readings, at)
        shares = network.of_places(beside), unit_shares(self.lexicon, kind, form)
        sizes, means = scores_of(readings)
        kinds = np.full(len(of), KINDS.index(kind))
        judged = network.judge(kinds, terms(changes, sizes[of], means[of], olds[of]), *shares, of, new[known])
        found[:, known] = changes[:, 3], *judged
        return found


@cached(CACHED)
def unit_shares(lexicon: Lexicon, kind: str, form: str = "") -> np.ndarray:
    """`Judge.of_units` of each unit of `head_units`: (entries, hidden + products), read-only."""
    model = lexicon.cloze or cloze_model()
    return read_only(judge_of(model).of_units(model.embedding[head_units(lexicon, kind, form)]))


def computed_together(function: Callable[[Batch], Sequence[Result]]) -> Callable[[Caption, Context], Result]:
    """Make of a function of a batch, which has one result for each caption, a function of a caption and its context,
    which computes the results of the whole batch when the first of them is needed.
    """

    @wraps(function)
    def of_one(caption: Caption, context: Context) -> Result:
        return context.batch.result(function, context.number)

    return of_one


@dataclass(frozen=True, eq=False)
class Context:
    """A caption's context: what is said of its image, the batch that the cloze model has read, and its number there."""

    said: Said
    batch: Batch
    number: int

    @property
    def lexicon(self) -> Lexicon:
        """The lexicon, whose entries may replace words."""
        return self.batch.lexicon


def contexts(
    images: Iterable[Sequence[Caption]],
    lexicon: Lexicon,
    truth: Truth | None = None,
    *,
    only_first: bool = False,
    **settings: Any,
) -> list[Context]:
    """The contexts of the captions of some images, in order; the cloze model reads all captions together.

    images: the captions of each, one of the `batches` of a larger number. truth: the estimates of the corpus; None:
    nothing is estimated. only_first: of each image only the context of its first caption. settings:
    preferred_unnatural, max_unnatural, max_compatible and excluded, see `Batch`.
    """
    every = [(captions := tuple(image), captions[: 1 if only_first else None]) for image in images]
    readings, said = iter(read([*chain.from_iterable(asked for _, asked in every)], lexicon.cloze)), list[Said]()
    for captions, asked in every:
        known: dict[Any, tuple[frozenset[Any], frozenset[Any]]] = {}
        estimates = truth.of_image(captions) if truth is not None else None
        for number, caption in enumerate(asked):
            siblings = Mentions(captions, number, known)
            said.append(Said(Mentions((caption,)), siblings, next(readings), lexicon, estimates))
    batch = Batch(lexicon, said, **settings)
    return [Context(one, batch, number) for number, one in enumerate(said)]


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
