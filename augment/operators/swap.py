"""Let two phrases of a caption change places: noun phrases or attributes, which makes it false, or stays true.

Texts that stay true (`Paraphrase`) are positive controls for audits and tests, never negatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, pairwise

import numpy as np

from ..candidates import Batch
from ..caption import Caption, Chunk
from ..edits import Edit, cased
from ..evidence import Evidence
from ..language.coreference import may_corefer, meaning
from ..language.grammar import agreement_edits, pronoun_edits
from ..language.negation import is_unsettled
from ..language.semantic_classes import GROUPS, LIVING, are_incompatible, gender, is_location, is_worn, semantic_class
from ..language.wordnet import first_sense
from ..lexicon.lexicon import Lexicon
from ..rows import BOTH, Row, exchange_row
from ..slots.nouns import ADJECTIVE_TAGS, Slot, attribute_slots, noun_slots, numeral_value
from ..truth.contradiction import Violation, interchangeable
from .attribute import attribute_violation, replace_attribute
from .numeral import ReplaceNumeral, may_be_one
from .operator import ListingOperator, Traits, in_random_order

# The lowest sum of the log-odds of two nouns in each other's place, in nats.
MIN_LOG_ODDS = -15.0
# Words behind a noun phrase that belong to its verb, so that the phrase stays: "puts a hat **on**".
PARTICLES = ("on", "off", "in", "out", "inside", "outside", "up", "down", "around", "together")
# If nothing else is between two noun phrases, these may change places and the caption stays true.
COORDINATING = (("and",), ("or",))
SYMMETRIC = (*COORDINATING, ("beside",), ("near",), ("alongside",), ("next", "to"), ("close", "to"), ("across", "from"))
COPULAS = {"is", "are", "was", "were"}
PRONOUNS = {"PRP", "PRP$", "WP", "WP$", "WDT", "EX"}  # their tags; EX: "there"
MODIFIERS = ("prep", "acl", "relcl", "appos", "conj", "advcl")  # dependencies of what may follow a noun


def _exchange_phrases(caption: Caption, left: Chunk, right: Chunk) -> list[Edit]:
    """The edits that let two phrases change places; what then begins the caption gets its capital.

    "A dog sees the cat" -> "The cat sees a dog".
    """
    tokens = caption.tokens
    new_left = caption.span(right.start, right.end)
    new_right = caption.span(left.start, left.end)
    first = tokens[left.start]
    if left.start == 0 and first.text[:1].isupper():
        # A capital of its own stays: of a name, and of "TV".
        is_abbreviation = len(first.text) > 1 and first.text.isupper()
        if first.pos != "PROPN" and not is_abbreviation:
            new_right = new_right[:1].lower() + new_right[1:]
        new_left = cased(new_left, "Xx", first=True)  # as a word that begins with a capital
    return [
        Edit(first.start, tokens[left.end - 1].end, new_left),
        Edit(tokens[right.start].start, tokens[right.end - 1].end, new_right),
    ]


class Shuffle(ListingOperator):
    """Swap two noun phrases (VSE-C, Section 3.1): "a boy chases a dog" -> "a dog chases a boy".

    The heads of the two must be plausible in each other's place, and both or neither must name a location. Unlike
    VSE-C, if one is singular and the other plural, their numbers alone are swapped, too: "two boys next to a dog" -> "a
    boy next to two dogs".
    """

    def __init__(self, name: str, traits: Traits, numerals: ReplaceNumeral) -> None:
        """Keep the operator that replaces numerals: it makes and checks the swaps of numbers."""
        super().__init__(name, traits)
        self.numerals = numerals

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """List the swaps of two noun phrases of a caption, and of their numbers alone, in random order."""
        caption = evidence.caption
        chunks = {chunk.root: chunk for chunk in caption.chunks}
        nouns = batch.lexicon.nouns
        # Two sorts of rows: swaps of phrases, below, and of their numbers alone, in `_with_numbers_swapped`.
        slots = [
            slot
            for slot in noun_slots(caption)
            if slot.entry in nouns.number
            and _can_move(caption, chunks[slot.noun])
            # A singular without an article moves only if the noun is often bare: "book on a table" is a headline.
            and (slot.plural or slot.form != "bare" or nouns.has_form(slot.entry, "bare"))
        ]
        pairs = [
            (left, right)
            for left, right in combinations(slots, 2)
            if left.entry != right.entry
            and is_location(left.entry) == is_location(right.entry)  # not "a dog in a park": "a park in a dog"
            and not (is_worn(left.entry) and is_worn(right.entry))  # not "in a hat and boots", which stays true
        ]
        rows = [_phrase_swap(caption, chunks, left, right) for left, right in _plausible_pairs(evidence, pairs)]
        rows += self._with_numbers_swapped(evidence, batch.lexicon)
        return in_random_order(rows, seed, self.name, caption)

    def _with_numbers_swapped(self, evidence: Evidence, lexicon: Lexicon) -> Iterator[Row]:
        """The rows that give each of two nouns the number of the other: "a" or "one", and more than one."""
        caption = evidence.caption
        slots = self.numerals.slots(evidence, lexicon)
        for left, right in combinations(slots, 2):
            several = left if left.value > 1 else right
            if (left.value > 1) == (right.value > 1) or not may_be_one(caption, several):
                continue
            # Each of the two changes as if it were replaced alone, with its noun, verbs and pronouns.
            one_changed_rows = [
                self.numerals.edit(left, right.entry, evidence, lexicon),
                self.numerals.edit(right, left.entry, evidence, lexicon),
            ]
            edits = sorted(edit for row in one_changed_rows for edit in row.edits)
            # If both are the subject of one verb, each row may change it, and the edits overlap.
            is_disjoint = all(first.end <= second.start for first, second in pairwise(edits))
            if is_disjoint and all(row.edits and row.reason is None for row in one_changed_rows):
                yield exchange_row("swap", tuple(edits), (left.noun, right.noun), left.entry, right.entry)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the swap may leave the caption true: the heads may name the same thing, or may change places freely.

        A swap of numbers may leave it true if the greater number may be true of the noun that gets it.
        """
        caption = evidence.caption
        if row.swaps_numbers:
            # Only the noun that becomes several is checked: where its new number may be true, so may the swap.
            numbers = row.replacement.split(BOTH)  # "two | a"
            single, several = sorted(numbers, key=numeral_value)
            noun = row.tokens[numbers.index(several)]
            to_several = Row(change="numeral", edits=(), tokens=(noun,), replaced=single, replacement=several)
            return self.numerals.violation(to_several, evidence, lexicon)
        left, right = (caption.tokens[index] for index in row.tokens)
        may_be_same = may_corefer(left.lemma, right.lemma) and not _are_told_apart(left.lemma, right.lemma)
        return Violation("interchangeable") if may_be_same or interchangeable(caption, left, right) else None


def _phrase_swap(caption: Caption, chunks: Mapping[int, Chunk], left: Slot, right: Slot) -> Row:
    """The row that swaps two noun phrases, with a reason if the sentence would not be grammatical."""
    edits = _phrase_swap_edits(caption, chunks, left, right)
    reason = None if edits else "ungrammatical"
    if _pronouns_change(caption, left, right) or _pronouns_change(caption, right, left):
        reason = "dangling_pronoun"
    return swap_row(left, right, edits, reason)


def swap_row(left: Slot, right: Slot, edits: tuple[Edit, ...], reason: str | None = None) -> Row:
    """The row that records that two nouns have changed places; reason: why it is rejected, None if it is not."""
    row = exchange_row("swap", edits, (left.noun, right.noun), left.entry, right.entry)
    row.replaced_synset = first_sense(left.entry)
    row.replacement_synset = first_sense(right.entry)
    row.reason = reason
    return row


def _are_told_apart(one: str, other: str) -> bool:
    """Whether a caption that has both nouns means two persons or animals: "a boy helps a woman".

    Synonyms may mean one, and so may a word for several: "a man in a crowd".
    """
    are_synonyms = not meaning(one).synsets.isdisjoint(meaning(other).synsets)
    if one in GROUPS or other in GROUPS or are_synonyms:
        return False
    return semantic_class(one) in LIVING and semantic_class(one) == semantic_class(other)


def _plausible_pairs(evidence: Evidence, pairs: list[tuple[Slot, Slot]]) -> list[tuple[Slot, Slot]]:
    """The pairs of nouns that the cloze model finds likely enough in each other's place (MIN_LOG_ODDS).

    Each noun is judged alone, in the caption as it is. A pair with a noun that the model does not know is left out.
    """
    if not pairs:
        return []
    encoding = evidence.encoding
    slots = list(dict.fromkeys(chain.from_iterable(pairs)))
    number_of = {slot: number for number, slot in enumerate(slots)}
    words = [" ".join(evidence.caption.lowered[slot.start : slot.end]) for slot in slots]
    units = encoding.model.numbers(words)
    vectors = np.stack([encoding.vector(slot.start, slot.end) for slot in slots])
    # scores[a, b]: log p of the noun of slot b in slot a, (slots, slots).
    scores = np.minimum(vectors @ encoding.model.embedding[units].T + encoding.model.bias[units], 0.0)

    def log_odds(left: Slot, right: Slot) -> float:
        """How much likelier both nouns are after the swap than before it: the sum of their log-odds, in nats."""
        a = number_of[left]
        b = number_of[right]
        if min(units[a], units[b]) < 0:  # a noun that the model does not know
            return -math.inf
        return scores[a, b] - scores[a, a] + scores[b, a] - scores[b, b]

    return [(left, right) for left, right in pairs if log_odds(left, right) >= MIN_LOG_ODDS]


def _pronouns_change(caption: Caption, old: Slot, new: Slot) -> bool:
    """Whether a pronoun that may refer to a noun would not agree with the noun that takes its position.

    old: the noun that stands there now. new: the one that takes its position.
    """
    old_gender = None if old.plural else gender(old.entry)  # None: plural, where no gender shows
    edits = pronoun_edits(caption, old.noun, old_gender=old_gender, new_noun=new.entry, plural=new.plural)
    return edits is None or len(edits) > 0  # None: no form would agree


def _can_move(caption: Caption, chunk: Chunk) -> bool:
    """Whether a noun phrase can be moved, so that the caption stays grammatical and says something else.

    It cannot if it has a pronoun ("his dog") or an apposition ("a man, a farmer"), is negated ("no dog"), if its head
    occurs twice, if it stands before "of" or a particle ("puts a hat on"), or behind "of" or "with".
    """
    tokens = caption.tokens
    root = tokens[chunk.root]
    if any(tokens[i].tag in ("PRP", "PRP$", "EX", "WP", "WP$") for i in range(chunk.start, chunk.end)):
        return False
    if is_unsettled(caption, chunk.root) or sum(token.lemma == root.lemma for token in tokens) > 1:
        return False
    if caption.has_dependent(root.index, "appos"):
        return False
    if root.dep == "pobj" and caption.lowered[root.head] in ("of", "with"):
        return False
    behind = caption.word(chunk.end)
    # "on" of "puts a hat on"; not that of "a hat on a table", which has an object.
    is_before_particle = behind in PARTICLES and not caption.has_dependent(chunk.end, "pobj", "prep")
    return behind not in ("of", "'s") and not is_before_particle


def _phrase_swap_edits(caption: Caption, chunks: Mapping[int, Chunk], left: Slot, right: Slot) -> tuple[Edit, ...]:
    """The edits that swap two noun phrases, and make their verbs agree; () if no edit of a verb is known to be safe.

    chunks: the noun phrases, by the token of their head.
    """
    edits = _exchange_phrases(caption, chunks[left.noun], chunks[right.noun])
    if left.plural != right.plural:
        for noun, plural in ((left.noun, right.plural), (right.noun, left.plural)):
            verbs = agreement_edits(caption, noun, plural=plural)
            if verbs is None:
                return ()
            edits += verbs
    return tuple(sorted(edits))


class SwapAttribute(ListingOperator):
    """Swap the attributes of two nouns: "a red car and a blue house" -> "a blue car and a red house".

    Only incompatible attributes.
    """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """List the swaps of two incompatible attributes of different nouns, in random order."""
        caption = evidence.caption
        slots = [slot for slot in attribute_slots(caption) if slot.form == "attributive"]
        slots = [slot for slot in slots if not is_unsettled(caption, slot.noun)]
        rows = []
        for left, right in combinations(slots, 2):
            if left.noun == right.noun or not are_incompatible(left.entry, right.entry):
                continue
            new_left = replace_attribute(caption, left, right.entry)
            new_right = replace_attribute(caption, right, left.entry)
            edits = tuple(sorted([*new_left.edits, *new_right.edits]))
            rows.append(exchange_row("attribute_swap", edits, (left.noun, right.noun), left.entry, right.entry))
        return in_random_order(rows, seed, self.name, caption)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the swap may leave the caption true: a noun may have its new attribute, or both may be the same thing."""
        left, right = (evidence.caption.tokens[index].lemma for index in row.tokens)
        if may_corefer(left, right):
            return Violation("interchangeable")
        attribute_of_left, attribute_of_right = row.replacement.split(BOTH)
        by_left = attribute_violation(attribute_of_left, left, evidence)
        return by_left or attribute_violation(attribute_of_right, right, evidence)


class Paraphrase(ListingOperator):
    """Swap phrases without changing the meaning: "a dog next to a cat" -> "a cat next to a dog".

    Adjectives that "and" joins are swapped, too: "black and white". No other modifier may be attached to either phrase,
    since it would then belong to the other one.
    """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """List the swaps of two phrases or adjectives that leave the meaning as it is, in random order."""
        caption = evidence.caption
        rows = [*_swaps_of_symmetric_phrases(caption), *_swaps_of_adjectives(caption)]
        return in_random_order(rows, seed, self.name, caption)


def _swaps_of_symmetric_phrases(caption: Caption) -> Iterator[Row]:
    """The swaps of two neighbouring noun phrases that only a SYMMETRIC word joins: "a dog is near a cat"."""
    lowered = caption.lowered
    for left, right in pairwise(caption.chunks):
        between = lowered[left.end : right.start]
        root = caption.tokens[left.root]
        tag = caption.tokens[right.root].tag
        if between[:1] and between[0] in COPULAS and root.tag == tag:  # "is near": the verb fits both nouns
            between = between[1:]
        if between not in SYMMETRIC or not _can_be_swapped_whole(caption, left, right):
            continue
        if between not in COORDINATING and root.dep not in ("ROOT", "nsubj", "attr"):
            continue  # "in a canoe near a forest" is not "in a forest near a canoe"
        plural = tag == "NNS"  # the verb must agree when the second phrase takes the place of the first
        agrees = plural == (root.tag == "NNS") or agreement_edits(caption, left.root, plural=plural) == []
        if lowered[right.root] != lowered[left.root] and agrees:
            yield _paraphrase_row(caption, left, right)


def _can_be_swapped_whole(caption: Caption, left: Chunk, right: Chunk) -> bool:
    """Whether two neighbouring noun phrases can change places, so that the caption stays true and grammatical.

    Both must be common nouns, both with a determiner or number ("a dog") or both bare ("dogs"), and have no pronoun.
    The first must not go on to the left, nor the second to the right, and nothing else may modify only one of them.
    """
    tokens = caption.tokens
    lowered = caption.lowered
    for chunk in (left, right):
        if any(tokens[index].tag in PRONOUNS for index in range(chunk.start, chunk.end)):
            return False
        if tokens[chunk.root].tag not in ("NN", "NNS"):
            return False

    is_left_determined = tokens[left.start].dep in ("det", "nummod")
    is_right_determined = tokens[right.start].dep in ("det", "nummod")
    has_several_words = left.end - left.start > 1
    if is_left_determined != is_right_determined or (not is_left_determined and has_several_words):
        return False
    # The phrase goes on to the left: it is part of a list ("a bird, a dog and a cat"), or the word before it may belong
    # to both phrases.
    before = tokens[left.start - 1] if left.start else None
    if before is not None and (before.dep in ("conj", "amod", "compound", "cc") or before.lower == ","):
        return False
    if right.end < len(tokens):
        behind = tokens[right.end]
        # A VBD may be a participle that belongs to the noun: "a dog dressed as a pirate".
        is_finite = behind.pos == "AUX" or behind.tag in ("VBZ", "VBP")
        if not is_finite and (behind.pos != "PUNCT" or behind.lower == ","):
            return False  # the phrase goes on to the right: "a dog near a cat in a box"
        if is_finite and tokens[left.root].dep not in ("nsubj", "nsubjpass"):
            return False  # "a cup is by a plate and a spoon is by a fork": another clause has begun
    is_joined_by_and = lowered[left.end] == "and"
    # What joins the phrases to each other: "near" or "and", and in "a dog and a cat" the cat, a conjunct of the dog.
    joining = {right.root, *range(left.end, right.start)}
    for chunk in (left, right):
        for child in caption.dependents(chunk.root, *MODIFIERS):
            # "In the water a duck and a swan": what stands before both belongs to both.
            is_of_both = is_joined_by_and and child.index < left.start
            if child.index not in joining and not is_of_both:
                return False  # "a dog with a hat near a cat": the cat would get the hat
    return True


def _swaps_of_adjectives(caption: Caption) -> Iterator[Row]:
    """The swaps of two adjectives of a noun that "and" joins: "black and white"."""
    tokens = caption.tokens
    lowered = caption.lowered
    for token in tokens[1:-1]:
        left = token.index - 1
        right = token.index + 1
        if lowered[token.index] != "and" or tokens[right].tag not in ADJECTIVE_TAGS or tokens[right].head != left:
            continue
        if tokens[left].tag in ADJECTIVE_TAGS and tokens[left].dep == "amod" and caption.word(left - 1) != ",":
            # Each adjective as a phrase of one word.
            yield _paraphrase_row(caption, Chunk(left, left + 1, left), Chunk(right, right + 1, right))


def _paraphrase_row(caption: Caption, left: Chunk, right: Chunk) -> Row:
    """The row of the swap of two phrases, in text order, that leaves the caption true.

    It says which words changed places, by the heads of the phrases: "dog | cat".
    """
    edits = tuple(_exchange_phrases(caption, left, right))
    heads = (left.root, right.root)
    return exchange_row("none", edits, heads, *(caption.tokens[head].lemma for head in heads))
