"""Paraphrases that stay true: positive controls for audits and tests, never negatives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from ..caption import Caption, Chunk
from ..context import Context
from ..edits import Candidate, Edit, cased, exchanged
from ..language.grammar import agreement_edits
from ..slots.nouns import ADJECTIVE_TAGS

# Symmetric words, if nothing else is between two noun phrases.
COORDINATING = (("and",), ("or",))
SYMMETRIC = (*COORDINATING, ("beside",), ("near",), ("alongside",), ("next", "to"), ("close", "to"), ("across", "from"))
COPULAS = {"is", "are", "was", "were"}
PRONOUNS = {"PRP", "PRP$", "WP", "WP$", "WDT", "EX"}
MODIFIERS = ("prep", "acl", "relcl", "appos", "conj", "advcl")


def paraphrase(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Swap phrases without changing the meaning: "a dog next to a cat" -> "a cat next to a dog".

    Also coordinated adjectives, "black and white". Only if no other modifier is attached to either side, since it would
    change its owner.
    """
    candidates = [*_noun_phrases(caption), *_adjectives(caption)]
    rng.shuffle(candidates)
    yield from candidates[:draws]


def _noun_phrases(caption: Caption) -> Iterator[Candidate]:
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
            yield _swap(caption, (one.start, one.end), (other.start, other.end), one.root, other.root)


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
            yield _swap(caption, (one, one + 1), (other, other + 1), one, other)


def _swap(caption: Caption, a: tuple[int, int], b: tuple[int, int], one: int, other: int) -> Candidate:
    tokens = caption.tokens
    first, second = caption.span(*a), caption.span(*b)
    word = tokens[0].text
    if a[0] == 0 and word[:1].isupper() and (len(word) == 1 or not word.isupper()) and tokens[0].pos != "PROPN":
        first, second = first[:1].lower() + first[1:], cased(second, "Xx", first=True)
    edits = (
        Edit(tokens[a[0]].start, tokens[a[1] - 1].end, second),
        Edit(tokens[b[0]].start, tokens[b[1] - 1].end, first),
    )
    return Candidate("none", edits, (one, other), *exchanged(tokens[one].lemma, tokens[other].lemma))
