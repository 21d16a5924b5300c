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
from ..language.negation import is_negated
from ..language.semantic_classes import (
    GROUPS,
    LIVING,
    are_incompatible,
    gender,
    is_location,
    is_worn,
    semantic_class,
)
from ..language.wordnet import first_sense
from ..lexicon.lexicon import Lexicon
from ..rows import BOTH, Row, exchanged
from ..sampling import order_keys
from ..slots.nouns import ADJECTIVE_TAGS, Slot, attribute_slots, noun_slots, numeral_value
from ..truth.contradiction import Violation, interchangeable
from .attribute import attribute_violation, replace_attribute
from .numeral import ReplaceNumeral, may_be_one
from .operator import ListingOperator, Traits

# The lowest sum of the log-odds of two nouns in each other's place, in nats.
MIN_LOG_ODDS = -15.0
PARTICLES = ("on", "off", "in", "out", "inside", "outside", "up", "down", "around", "together")
# Symmetric words, if nothing else is between two noun phrases.
COORDINATING = (("and",), ("or",))
SYMMETRIC = (*COORDINATING, ("beside",), ("near",), ("alongside",), ("next", "to"), ("close", "to"), ("across", "from"))
COPULAS = {"is", "are", "was", "were"}
PRONOUNS = {"PRP", "PRP$", "WP", "WP$", "WDT", "EX"}
MODIFIERS = ("prep", "acl", "relcl", "appos", "conj", "advcl")


def _exchange(caption: Caption, one: tuple[int, int], other: tuple[int, int]) -> list[Edit]:
    """The edits that let two spans of tokens change places; what then begins the caption gets its capital."""
    tokens = caption.tokens
    texts = [caption.span(*other), caption.span(*one)]
    start = caption.tokens[one[0]]
    if one[0] == 0 and start.text[:1].isupper():
        if start.pos != "PROPN" and not (len(start.text) > 1 and start.text.isupper()):
            texts[1] = texts[1][:1].lower() + texts[1][1:]
        texts[0] = cased(texts[0], "Xx", first=True)
    return [
        Edit(tokens[span[0]].start, tokens[span[1] - 1].end, text)
        for span, text in zip((one, other), texts, strict=True)
    ]


def in_random_order(rows: list[Row], seed: int, operator: str, caption: Caption) -> list[Row]:
    """The rows of one caption in an order that depends on nothing but the seed, the operator and the caption."""
    if len(rows) < 2:
        return rows
    names = [f"{row.tokens} {row.replacement}" for row in rows]
    return [rows[number] for number in np.argsort(order_keys(seed, operator, caption.caption_id, names)).tolist()]


class Shuffle(ListingOperator):
    """Swap two noun phrases (VSE-C, Section 3.1): "a boy chases a dog" -> "a dog chases a boy".

    Only pairs of which both or neither name locations, and whose heads are plausible in each other's place. Where two
    phrases have different numbers, also these alone are swapped, which VSE-C does not: "two boys next to a dog" -> "a
    boy next to two dogs".
    """

    def __init__(self, name: str, traits: Traits, numerals: ReplaceNumeral) -> None:
        """numerals: the operator that replaces numerals."""
        super().__init__(name, traits)
        self.numerals = numerals

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """As `ListingOperator.list_rows`."""
        caption = evidence.caption
        chunks = {chunk.root: chunk for chunk in caption.chunks}
        nouns = batch.lexicon.nouns
        slots = [
            slot
            for slot in noun_slots(caption)
            if slot.entry in nouns.number
            and _moves(caption, chunks[slot.noun])
            # "book on a table" is a headline
            and (slot.plural or slot.form != "bare" or nouns.has_form(slot.entry, "bare"))
        ]
        pairs = [
            (one, other)
            for one, other in combinations(slots, 2)
            if one.entry != other.entry
            and is_location(one.entry) == is_location(other.entry)
            and not (is_worn(one.entry) and is_worn(other.entry))
        ]
        rows = [_swapped(caption, chunks, one, other) for one, other in _plausible(evidence, pairs)]
        rows += self._with_numbers_swapped(evidence, batch.lexicon)
        return in_random_order(rows, seed, self.name, caption)

    def _with_numbers_swapped(self, evidence: Evidence, lexicon: Lexicon) -> Iterator[Row]:
        """The rows that give each of two nouns the number of the other: "a" or "one", and more than one."""
        caption = evidence.caption
        slots = self.numerals.slots(evidence, lexicon)
        for one, other in combinations(slots, 2):
            several = one if one.value > 1 else other
            if (one.value > 1) == (other.value > 1) or not may_be_one(caption, several):
                continue
            halves = [
                self.numerals.edit(one, other.entry, evidence, lexicon),
                self.numerals.edit(other, one.entry, evidence, lexicon),
            ]
            edits = sorted(edit for half in halves for edit in half.edits)
            is_disjoint = all(first.end <= second.start for first, second in pairwise(edits))
            if is_disjoint and all(half.edits and half.reason is None for half in halves):
                yield Row("swap", tuple(edits), (one.noun, other.noun), *exchanged(one.entry, other.entry))

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """The two heads name the same kind of thing, or swapping them may leave the caption true. Of swapped numbers:
        the greater one may be true of its noun.
        """
        caption = evidence.caption
        if row.swaps_numbers:
            old, new = row.replaced.split(BOTH)
            numbers = dict(zip(row.tokens, (new, old), strict=True))  # which each noun has now
            noun, number = max(numbers.items(), key=lambda item: numeral_value(item[1]))
            single = min(numbers.values(), key=numeral_value)
            return self.numerals.violation(Row("numeral", (), (noun,), single, number), evidence, lexicon)
        one, other = (caption.tokens[index] for index in row.tokens)
        same = may_corefer(one.lemma, other.lemma) and not _told_apart(one.lemma, other.lemma)
        return Violation("interchangeable") if same or interchangeable(caption, one, other) else None


def _swapped(caption: Caption, chunks: Mapping[int, Chunk], one: Slot, other: Slot) -> Row:
    edits = _edits(caption, chunks, one, other)
    reason = None if edits else "ungrammatical"
    if _pronouns_change(caption, one, other) or _pronouns_change(caption, other, one):
        reason = "dangling_pronoun"
    words = exchanged(one.entry, other.entry)
    senses = (first_sense(one.entry), first_sense(other.entry))
    return Row("swap", edits, (one.noun, other.noun), *words, *senses, reason=reason)


def _told_apart(one: str, other: str) -> bool:
    """Whether a caption that has both nouns means two persons or animals: "a boy helps a woman".

    Not by synonyms, nor by a word for several: "a man in a crowd".
    """
    if one in GROUPS or other in GROUPS or not meaning(one).synsets.isdisjoint(meaning(other).synsets):
        return False
    return semantic_class(one) == semantic_class(other) in LIVING


def _plausible(evidence: Evidence, pairs: list[tuple[Slot, Slot]]) -> list[tuple[Slot, Slot]]:
    """The pairs of nouns that the model knows, and whose log-odds in each other's place to where they are, each given
    the caption as it is, are at least the floor.
    """
    if not pairs:
        return []
    encoding = evidence.encoding
    slots = list(dict.fromkeys(chain.from_iterable(pairs)))
    words = [" ".join(evidence.caption.lowered[slot.start : slot.end]) for slot in slots]
    units = encoding.model.numbers(words)
    number = {slot: i for i, slot in enumerate(slots)}
    vectors = np.stack([encoding.vector(slot.start, slot.end) for slot in slots])
    scores = np.minimum(vectors @ encoding.model.embedding[units].T + encoding.model.bias[units], 0.0)

    def log_odds(a: int, b: int) -> float:
        return scores[a, b] - scores[a, a] + scores[b, a] - scores[b, b] if min(units[a], units[b]) >= 0 else -math.inf

    return [pair for pair in pairs if log_odds(*map(number.__getitem__, pair)) >= MIN_LOG_ODDS]


def _pronouns_change(caption: Caption, old: Slot, new: Slot) -> bool:
    """Whether a pronoun that may refer to a noun would not agree with the noun that takes its position."""
    old_gender = None if old.plural else gender(old.entry)
    return pronoun_edits(caption, old.noun, old=old_gender, new=new.entry, plural=new.plural) != []


def _moves(caption: Caption, chunk: Chunk) -> bool:
    """Whether a noun phrase can be moved, and moving it changes what the caption says.

    False if it contains a pronoun or is negated; if "of" or a particle follows, or an apposition; if it is after "of"
    or "with"; and if its head occurs twice.
    """
    tokens = caption.tokens
    root = tokens[chunk.root]
    if any(tokens[i].tag in ("PRP", "PRP$", "EX", "WP", "WP$") for i in range(chunk.start, chunk.end)):
        return False
    if is_negated(caption, chunk.root) or sum(token.lemma == root.lemma for token in tokens) > 1:
        return False
    if caption.has(root.index, "appos"):
        return False
    if root.dep == "pobj" and caption.lowered[root.head] in ("of", "with"):
        return False
    behind = caption.word(chunk.end)
    stranded = behind in PARTICLES and not caption.has(chunk.end, "pobj", "prep")
    return behind not in ("of", "'s") and not stranded


def _edits(caption: Caption, chunks: Mapping[int, Chunk], one: Slot, other: Slot) -> tuple[Edit, ...]:
    """The edits that swap two noun phrases, and make their verbs agree; () if no edit of a verb is known to be safe."""
    a = chunks[one.noun]
    b = chunks[other.noun]
    edits = _exchange(caption, (a.start, a.end), (b.start, b.end))
    if one.plural != other.plural:
        for root, plural in ((a.root, other.plural), (b.root, one.plural)):
            verbs = agreement_edits(caption, root, plural=plural)
            if verbs is None:
                return ()
            edits += verbs
    return tuple(sorted(edits))


class SwapAttribute(ListingOperator):
    """Swap the attributes of two nouns: "a red car and a blue house" -> "a blue car and a red house".

    Only incompatible attributes.
    """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """As `ListingOperator.list_rows`."""
        caption = evidence.caption
        slots = [slot for slot in attribute_slots(caption) if slot.form == "attributive"]
        slots = [slot for slot in slots if not is_negated(caption, slot.noun)]
        rows = []
        for one, other in combinations(slots, 2):
            if one.noun != other.noun and are_incompatible(one.entry, other.entry):
                halves = replace_attribute(caption, one, other.entry), replace_attribute(caption, other, one.entry)
                edits = tuple(sorted(edit for half in halves for edit in half.edits))
                tokens = (one.noun, other.noun)
                rows.append(Row("attribute_swap", edits, tokens, *exchanged(one.entry, other.entry)))
        return in_random_order(rows, seed, self.name, caption)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """An attribute is already given to the other noun, or the two nouns may be the same thing."""
        one, other = (evidence.caption.tokens[index].lemma for index in row.tokens)
        if may_corefer(one, other):
            return Violation("interchangeable")
        mine, theirs = row.replaced.split(BOTH)
        return attribute_violation(theirs, one, evidence) or attribute_violation(mine, other, evidence)


class Paraphrase(ListingOperator):
    """Swap phrases without changing the meaning: "a dog next to a cat" -> "a cat next to a dog".

    Also coordinated adjectives, "black and white". Only if no other modifier is attached to either side, since it would
    change its owner.
    """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        """As `ListingOperator.list_rows`."""
        caption = evidence.caption
        rows = [*_symmetric_phrases(caption), *_adjectives(caption)]
        return in_random_order(rows, seed, self.name, caption)


def _symmetric_phrases(caption: Caption) -> Iterator[Row]:
    lowered = caption.lowered
    for one, other in pairwise(caption.chunks):
        between = lowered[one.end : other.start]
        root = caption.tokens[one.root]
        tag = caption.tokens[other.root].tag
        if between[:1] and between[0] in COPULAS and root.tag == tag:
            between = between[1:]
        if between not in SYMMETRIC or not _bare(caption, one, other):
            continue
        if between not in COORDINATING and root.dep not in ("ROOT", "nsubj", "attr"):
            continue  # "in a canoe near a forest" is not "in a forest near a canoe"
        plural = tag == "NNS"  # the verb must agree when the second phrase takes the place of the first
        agrees = plural == (root.tag == "NNS") or agreement_edits(caption, one.root, plural=plural) == []
        if lowered[other.root] != lowered[one.root] and agrees:
            yield _paraphrase(caption, (one.start, one.end), (other.start, other.end), one.root, other.root)


def _bare(caption: Caption, one: Chunk, other: Chunk) -> bool:
    """Whether two phrases can be swapped whole: equally determined, no pronouns, and nothing else modifies one."""
    tokens = caption.tokens
    lowered = caption.lowered
    if any(tokens[i].tag in PRONOUNS for chunk in (one, other) for i in range(chunk.start, chunk.end)):
        return False
    if any(tokens[chunk.root].tag not in ("NN", "NNS") for chunk in (one, other)):
        return False
    determined = [tokens[chunk.start].dep in ("det", "nummod") for chunk in (one, other)]
    if determined[0] != determined[1] or (not determined[0] and one.end - one.start > 1):
        return False
    if one.start and (tokens[one.start - 1].dep in ("conj", "amod", "compound", "cc") or lowered[one.start - 1] == ","):
        return False
    if other.end < len(tokens):
        behind = tokens[other.end]
        finite = behind.pos == "AUX" or behind.tag in ("VBZ", "VBP")
        if not finite and (behind.pos != "PUNCT" or behind.lower == ","):
            return False
        if finite and tokens[one.root].dep not in ("nsubj", "nsubjpass"):
            return False  # "a cup is by a plate and a spoon is by a fork": another clause has begun
    between = lowered[one.end]
    allowed = {other.root} | {i for i in range(one.end, other.start)}
    for chunk in (one, other):
        for child in caption.dependents(chunk.root, *MODIFIERS):
            if child.index not in allowed and not (between == "and" and child.index < one.start):
                return False
    return True


def _adjectives(caption: Caption) -> Iterator[Row]:
    tokens = caption.tokens
    lowered = caption.lowered
    for token in tokens[1:-1]:
        one = token.index - 1
        other = token.index + 1
        if lowered[token.index] != "and" or tokens[other].tag not in ADJECTIVE_TAGS or tokens[other].head != one:
            continue
        if tokens[one].tag in ADJECTIVE_TAGS and tokens[one].dep == "amod" and caption.word(one - 1) != ",":
            yield _paraphrase(caption, (one, one + 1), (other, other + 1), one, other)


def _paraphrase(caption: Caption, a: tuple[int, int], b: tuple[int, int], one: int, other: int) -> Row:
    words = exchanged(caption.tokens[one].lemma, caption.tokens[other].lemma)
    return Row("none", tuple(_exchange(caption, a, b)), (one, other), *words)
