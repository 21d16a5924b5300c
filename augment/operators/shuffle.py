"""The noun phrase shuffle of VSE-C: swap two noun phrases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from random import Random

from ..caption import Caption, Chunk
from ..context import Context
from ..edits import Candidate, Edit, cased, exchanged
from ..language.determiners import is_negated
from ..language.grammar import agreement_edits, pronoun_edits
from ..language.semantic_classes import gender, is_location, is_worn
from ..language.wordnet import first_sense
from ..slots.nouns import NounSlot, noun_slots

# The lowest sum of the log-odds of both nouns in each other's place, before the negative is read as a whole.
FLOOR = -8.0
PARTICLES = ("on", "off", "in", "out", "inside", "outside", "up", "down", "around", "together")


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
        and _moves(caption, chunks[slot.root])
        # "book on a table" is a headline
        and (slot.plural or slot.form != "bare" or nouns.has_form(slot.entry, "bare"))
    ]
    pairs = [
        (one, other)
        for one, other in combinations(slots, 2)
        if _alike(one, other) and _log_odds(caption, context, one, other) >= FLOOR
    ]
    rng.shuffle(pairs)
    for one, other in pairs[:draws]:
        edits = _edits(caption, chunks[one.root], chunks[other.root], one, other)
        rejected = None if edits else "ungrammatical"
        if _pronouns_change(caption, one, other) or _pronouns_change(caption, other, one):
            rejected = "dangling_pronoun"
        roots, words = (one.root, other.root), exchanged(one.entry, other.entry)
        senses = first_sense(one.entry), first_sense(other.entry)
        yield Candidate("swap", edits, roots, *words, *senses, rejected)


def _log_odds(caption: Caption, context: Context, one: NounSlot, other: NounSlot) -> float:
    """The log-odds of two nouns in each other's place to where they are, each given the caption as it is."""
    reading = context.reading
    words = [" ".join(caption.lowered[slot.start : slot.end]) for slot in (one, other)]
    units = reading.model.numbers(words)
    if (units < 0).any():
        return -math.inf
    here = reading.log_probabilities(one.start, one.end, units)
    there = reading.log_probabilities(other.start, other.end, units)
    return float(here[1] - here[0] + there[0] - there[1])


def _pronouns_change(caption: Caption, old: NounSlot, new: NounSlot) -> bool:
    """Whether a pronoun that may refer to a noun would not agree with the noun that takes its position."""
    old_gender = None if old.plural else gender(old.entry)
    return pronoun_edits(caption, old.root, old=old_gender, new=new.entry, plural=new.plural) != []


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


def _alike(one: NounSlot, other: NounSlot) -> bool:
    """Whether two nouns may swap positions: both or neither name locations, and they are not both clothing."""
    worn = is_worn(one.entry) and is_worn(other.entry)
    return one.entry != other.entry and is_location(one.entry) == is_location(other.entry) and not worn


def _edits(caption: Caption, a: Chunk, b: Chunk, one: NounSlot, other: NounSlot) -> tuple[Edit, ...]:
    """The edits that swap two noun phrases, and make their verbs agree; () if no edit of a verb is known to be safe."""
    tokens = caption.tokens
    first, second = caption.span(a.start, a.end), caption.span(b.start, b.end)
    if a.start == 0 and first[:1].isupper():
        if tokens[a.start].pos != "PROPN" and not (len(tokens[a.start].text) > 1 and tokens[a.start].text.isupper()):
            first = first[:1].lower() + first[1:]
        second = cased(second, "Xx", first=True)
    edits = [
        Edit(tokens[a.start].start, tokens[a.end - 1].end, second),
        Edit(tokens[b.start].start, tokens[b.end - 1].end, first),
    ]
    if one.plural != other.plural:
        for place, plural in ((a.root, other.plural), (b.root, one.plural)):
            verbs = agreement_edits(caption, place, plural=plural)
            if verbs is None:
                return ()
            edits += verbs
    return tuple(sorted(edits))
