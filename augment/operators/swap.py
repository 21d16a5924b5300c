"""Let two phrases of a caption change places: noun phrases or attributes, which makes it false, or stays true.

Texts that stay true (`paraphrase`) are positive controls for audits and tests, never negatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, pairwise
from random import Random

import numpy as np

from ..caption import Caption, Chunk
from ..context import Context
from ..edits import Candidate, Edit, cased, exchanged
from ..language.grammar import agreement_edits, is_negated, pronoun_edits
from ..language.semantic_classes import are_incompatible, gender, is_location, is_worn
from ..language.wordnet import first_sense
from ..slots.nouns import ADJECTIVE_TAGS, Slot, attribute_slots, noun_slots
from .replacement import FLOORS, attribute_candidate

PARTICLES = ("on", "off", "in", "out", "inside", "outside", "up", "down", "around", "together")
# Symmetric words, if nothing else is between two noun phrases.
COORDINATING = (("and",), ("or",))
SYMMETRIC = (*COORDINATING, ("beside",), ("near",), ("alongside",), ("next", "to"), ("close", "to"), ("across", "from"))
COPULAS = {"is", "are", "was", "were"}
PRONOUNS = {"PRP", "PRP$", "WP", "WP$", "WDT", "EX"}
MODIFIERS = ("prep", "acl", "relcl", "appos", "conj", "advcl")


def _exchange(caption: Caption, one: tuple[int, int], other: tuple[int, int]) -> list[Edit]:
    """The edits that let two spans of tokens change places; what then begins the caption gets its capital."""
    tokens, texts, start = caption.tokens, [caption.span(*other), caption.span(*one)], caption.tokens[one[0]]
    if one[0] == 0 and start.text[:1].isupper():
        if start.pos != "PROPN" and not (len(start.text) > 1 and start.text.isupper()):
            texts[1] = texts[1][:1].lower() + texts[1][1:]
        texts[0] = cased(texts[0], "Xx", first=True)
    return [
        Edit(tokens[span[0]].start, tokens[span[1] - 1].end, text)
        for span, text in zip((one, other), texts, strict=True)
    ]


def shuffle(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Swap two noun phrases (VSE-C, Section 3.1): "a boy chases a dog" -> "a dog chases a boy".

    Only pairs of which both or neither name locations, and whose heads are plausible in each other's place.
    """
    chunks = {chunk.root: chunk for chunk in caption.chunks}
    nouns = context.lexicon.nouns
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
    pairs = _plausible(caption, context, pairs)
    rng.shuffle(pairs)
    for one, other in pairs[:draws]:
        edits = _edits(caption, chunks, one, other)
        rejected = None if edits else "ungrammatical"
        if _pronouns_change(caption, one, other) or _pronouns_change(caption, other, one):
            rejected = "dangling_pronoun"
        roots, words = (one.noun, other.noun), exchanged(one.entry, other.entry)
        senses = first_sense(one.entry), first_sense(other.entry)
        yield Candidate("swap", edits, roots, *words, *senses, rejected)


def _plausible(caption: Caption, context: Context, pairs: list[tuple[Slot, Slot]]) -> list[tuple[Slot, Slot]]:
    """The pairs of nouns that the model knows, and whose log-odds in each other's place to where they are, each given
    the caption as it is, are at least the floor.
    """
    if not pairs:
        return []
    reading, slots = context.said.reading, [*dict.fromkeys(chain.from_iterable(pairs))]
    words = [" ".join(caption.lowered[slot.start : slot.end]) for slot in slots]
    units, number = reading.model.numbers(words), {slot: i for i, slot in enumerate(slots)}
    vectors = np.stack([reading.vector(slot.start, slot.end) for slot in slots])
    scores = np.minimum(vectors @ reading.model.embedding[units].T + reading.model.bias[units], 0.0)

    def log_odds(a: int, b: int) -> float:
        return scores[a, b] - scores[a, a] + scores[b, a] - scores[b, b] if min(units[a], units[b]) >= 0 else -math.inf

    return [pair for pair in pairs if log_odds(*map(number.__getitem__, pair)) >= FLOORS["shuffle"]]


def _pronouns_change(caption: Caption, old: Slot, new: Slot) -> bool:
    """Whether a pronoun that may refer to a noun would not agree with the noun that takes its position."""
    old_gender = None if old.plural else gender(old.entry)
    return pronoun_edits(caption, old.noun, old=old_gender, new=new.entry, plural=new.plural) != []


def _moves(caption: Caption, chunk: Chunk) -> bool:
    """Whether a noun phrase can be moved, and moving it changes what the caption says.

    False if it contains a pronoun or is negated; if "of" or a particle follows; if it is in a list, or after "of" or
    "with"; and if its head occurs twice.
    """
    tokens = caption.tokens
    root = tokens[chunk.root]
    if any(tokens[i].tag in ("PRP", "PRP$", "EX", "WP", "WP$") for i in range(chunk.start, chunk.end)):
        return False
    if is_negated(caption, chunk.root) or sum(token.lemma == root.lemma for token in tokens) > 1:
        return False
    if root.dep == "conj" or caption.has(root.index, "conj", "appos"):
        return False
    if root.dep == "pobj" and caption.lowered[root.head] in ("of", "with"):
        return False
    behind = caption.word(chunk.end)
    stranded = behind in PARTICLES and not caption.has(chunk.end, "pobj", "prep")
    return behind not in ("of", "'s") and not stranded


def _edits(caption: Caption, chunks: Mapping[int, Chunk], one: Slot, other: Slot) -> tuple[Edit, ...]:
    """The edits that swap two noun phrases, and make their verbs agree; () if no edit of a verb is known to be safe."""
    a, b = chunks[one.noun], chunks[other.noun]
    edits = _exchange(caption, (a.start, a.end), (b.start, b.end))
    if one.plural != other.plural:
        for root, plural in ((a.root, other.plural), (b.root, one.plural)):
            verbs = agreement_edits(caption, root, plural=plural)
            if verbs is None:
                return ()
            edits += verbs
    return tuple(sorted(edits))


def swap_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Swap the attributes of two nouns: "a red car and a blue house" -> "a blue car and a red house".

    Only incompatible attributes.
    """
    slots = [slot for slot in attribute_slots(caption) if slot.form == "attributive"]
    pairs = [(a, b) for a, b in combinations(slots, 2) if a.noun != b.noun and are_incompatible(a.entry, b.entry)]
    rng.shuffle(pairs)
    for one, other in pairs[:draws]:
        candidates = attribute_candidate(caption, one, other.entry), attribute_candidate(caption, other, one.entry)
        edits = sorted(edit for candidate in candidates for edit in candidate.edits)
        words = exchanged(one.entry, other.entry)
        yield Candidate("attribute_swap", tuple(edits), (one.noun, other.noun), *words)


def paraphrase(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Swap phrases without changing the meaning: "a dog next to a cat" -> "a cat next to a dog".

    Also coordinated adjectives, "black and white". Only if no other modifier is attached to either side, since it would
    change its owner.
    """
    candidates = [*_symmetric_phrases(caption), *_adjectives(caption)]
    rng.shuffle(candidates)
    yield from candidates[:draws]


def _symmetric_phrases(caption: Caption) -> Iterator[Candidate]:
    lowered = caption.lowered
    for one, other in pairwise(caption.chunks):
        between = lowered[one.end : other.start]
        root, tag = caption.tokens[one.root], caption.tokens[other.root].tag
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
    tokens, lowered = caption.tokens, caption.lowered
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


def _adjectives(caption: Caption) -> Iterator[Candidate]:
    tokens, lowered = caption.tokens, caption.lowered
    for token in tokens[1:-1]:
        one, other = token.index - 1, token.index + 1
        if lowered[token.index] != "and" or tokens[other].tag not in ADJECTIVE_TAGS or tokens[other].head != one:
            continue
        if tokens[one].tag in ADJECTIVE_TAGS and tokens[one].dep == "amod" and caption.word(one - 1) != ",":
            yield _paraphrase(caption, (one, one + 1), (other, other + 1), one, other)


def _paraphrase(caption: Caption, a: tuple[int, int], b: tuple[int, int], one: int, other: int) -> Candidate:
    words = exchanged(caption.tokens[one].lemma, caption.tokens[other].lemma)
    return Candidate("none", tuple(_exchange(caption, a, b)), (one, other), *words)
