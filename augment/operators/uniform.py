"""The negatives of VSE-C and UniVSE as their papers make them: drawn uniformly, and not checked to be false or fluent.

For tables that are to be compared with the papers' (Shi et al. 2018, section 3.1 and Table 8; Wu et al. 2019, Table 2
and supplement B.2). UniVSE's are false only in that no caption of the image says so. Many of these negatives can be
told without the image, and some are true of it; the operators without `uniform_` make better ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from random import Random

from ..caption import Caption, cached
from ..context import Context
from ..edits import Candidate, Edit, cased, cased_like, replace
from ..language.grammar import article, with_article
from ..language.semantic_classes import attributes, prepositions
from ..language.wordnet import WordNet, first_sense
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon
from ..mentions import chunk_heads
from ..scene_graph import scene_graph
from ..slots.nouns import attribute_slots, noun_slots, quantity_slots, quantity_value
from ..slots.verbs import preposition_units, preposition_uses, verb_slots
from .replacement import appended, attribute_candidate, preposition_candidate, verb_candidate

ENUMERATED = 6  # of up to so many noun phrases, all permutations are listed


def uniform_noun(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the head of a noun phrase by any noun neither above nor below it in WordNet: "a dog" -> "a bench".

    Heads and replacements are single words of the lexicon: frequent and concrete. Pairs of a head and a replacement are
    equally likely.
    """
    nouns = context.lexicon.nouns
    pairs = [
        (root.index, name)
        for root in chunk_heads(caption)
        if root.lemma in nouns.number
        for name in _unrelated(root.lemma, nouns)
    ]
    for index, name in rng.sample(pairs, min(draws, len(pairs))):
        yield _noun_candidate(caption, context.lexicon, index, name)


def _noun_candidate(caption: Caption, lexicon: Lexicon, index: int, name: str) -> Candidate:
    """The candidate that puts a noun of the lexicon in place of token `index`, in its number, with a/an adjusted."""
    token = caption.tokens[index]
    surface = lexicon.in_number(name, many=token.tag == "NNS")
    edits = with_article(caption, index, replace(caption, index, index + 1, surface), surface)
    return Candidate("noun", edits, (index,), token.lemma, name, first_sense(token.lemma), first_sense(name))


@cached(4096)
def _unrelated(noun: str, nouns: Entries) -> tuple[str, ...]:
    """The single-word entries that are neither above nor below a noun in WordNet."""
    related = WordNet.load().related
    return tuple(name for name in nouns.names if name != noun and " " not in name and not related(noun, name))


def uniform_numeral(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a quantity by any other of the lexicon; only the counted noun agrees: "a dog" -> "four dogs"."""
    names = _by_value(context.lexicon.numerals)
    pairs = [(slot, name) for slot in quantity_slots(caption) for value, name in names if value != slot.value]
    for slot, name in rng.sample(pairs, min(draws, len(pairs))):
        noun, many = caption.tokens[slot.noun], quantity_value(name) > 1
        surface = noun.text
        if many != (slot.value > 1):
            surface = cased_like(context.lexicon.in_number(noun.lemma, many=many), noun.text, caption.casing)
        following = surface if slot.start + 1 == slot.noun else caption.tokens[slot.start + 1].text
        word = article(following) if name == "a" else name
        edits = [replace(caption, slot.start, slot.start + 1, word)]
        if surface != noun.text:
            edits.append(Edit(noun.start, noun.end, surface))
        yield Candidate("quantity", tuple(edits), (slot.noun,), slot.entry, name)


@cached(8)
def _by_value(numerals: Entries) -> tuple[tuple[int, str], ...]:
    """The most frequent entry of each value, as (value, entry)."""
    names: dict[int, str] = {}
    for number in (-numerals.counts).argsort(kind="stable").tolist():
        names.setdefault(quantity_value(numerals.names[number]), numerals.names[number])
    return tuple(names.items())


def uniform_shuffle(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Permute the noun phrases in any way: "a boy throws a ball to a dog" -> "a ball throws a dog to a boy"."""
    tokens = caption.tokens
    chunks = [chunk for chunk in caption.chunks if tokens[chunk.root].pos in ("NOUN", "PROPN")]
    for order in _orders(len(chunks), rng, draws):
        edits = []
        for target, source in zip(chunks, (chunks[n] for n in order), strict=True):
            if target is not source:
                text = caption.span(source.start, source.end)
                if source.start == 0 and tokens[0].pos != "PROPN":
                    text = text[:1].lower() + text[1:]
                here = caption.span(target.start, target.end)
                edit = cased(text, here, first=True) if target.start == 0 else text
                edits.append(Edit(tokens[target.start].start, tokens[target.end - 1].end, edit))
        moved = [n for n, source in enumerate(order) if n != source]
        old, new = ([tokens[chunks[n].root].lemma for n in which] for which in (moved, [order[n] for n in moved]))
        slots = tuple(chunks[n].root for n in moved)
        yield Candidate("swap", tuple(edits), slots, " | ".join(old), " | ".join(new))


def _orders(n: int, rng: Random, limit: int) -> Iterator[tuple[int, ...]]:
    """Up to `limit` distinct random permutations of 0 … n - 1, without the identity."""
    identity = tuple(range(n))
    if n <= ENUMERATED:
        orders = [order for order in permutations(identity) if order != identity]
        yield from rng.sample(orders, min(limit, len(orders)))
        return
    seen = {identity}
    while len(seen) <= min(limit, math.factorial(ENUMERATED)):
        order = tuple(rng.sample(identity, n))
        if order not in seen:
            seen.add(order)
            yield order


def uniform_preposition(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a preposition by any frequent one that shares no set of Table 8 with it: "on a table" -> "with a table".

    As frequent as the rarest noun of the lexicon; several words ("in front of") are one preposition.
    """
    table, names = prepositions(), _frequent_prepositions(context.lexicon)
    pairs = []
    for start, end in preposition_units(caption):
        written = " ".join(caption.lowered[start:end])
        old = table.same.get(written, written)
        sets = set(table.sets.get(old, ()))
        pairs += [
            (start, end, old, name) for name in names if name != old and sets.isdisjoint(table.sets.get(name, ()))
        ]
    for start, end, old, name in rng.sample(pairs, min(draws, len(pairs))):
        yield preposition_candidate(caption, start, end, end - 1, old, name)


@cached(8)
def _frequent_prepositions(lexicon: Lexicon) -> tuple[str, ...]:
    """The prepositions that are as frequent as a noun of the lexicon must be: as often as its rarest noun."""
    entries, least = lexicon.prepositions, lexicon.nouns.counts.min(initial=math.inf)
    return tuple(name for name, count in zip(entries.names, entries.counts, strict=True) if count >= least)


def uniform_object(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a noun by any noun that no caption of the image mentions, or append one, with equal chance.

    "a dog on a couch" -> "a dog on a wave" or "a dog and a wave on a couch".
    """
    roots = [slot.noun for slot in noun_slots(caption)]
    names = _not_said(context)
    if not roots or not names:
        return
    for _ in range(draws):
        index, name = rng.choice(roots), rng.choice(names)
        if rng.random() < 0.5:
            yield _noun_candidate(caption, context.lexicon, index, name)
        else:
            yield _appended(caption, context.lexicon, index, "and", name)


def uniform_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace an attribute by any of the paper's 37 outside its group; if there is none, add one to a noun.

    "a red car" -> "a snowy car"; "a car" -> "a snowy car". Not those that a caption of the image mentions.
    """
    table = attributes()
    said = {word for word, _ in context.own.attributes | context.siblings.attributes}
    pairs = [
        (slot, name)
        for slot in attribute_slots(caption)
        for name in table.univse
        if name not in said and name != slot.entry and (name, slot.entry) not in table.univse_groups
    ]
    if pairs:
        for slot, name in rng.sample(pairs, min(draws, len(pairs))):
            yield attribute_candidate(caption, slot, name)
        return
    added = [(slot, name) for slot in noun_slots(caption) for name in table.univse if name not in said]
    for noun, name in rng.sample(added, min(draws, len(added))):
        first = caption.tokens[noun.start]
        edit = Edit(first.start, first.start, f"{name} ")
        if noun.start == 0:
            edit = Edit(first.start, first.end, f"{cased(name, first.text, caption.casing, first=True)} {first.lower}")
        edits = with_article(caption, noun.start, edit, name)
        yield Candidate("attribute", edits, (noun.noun, noun.noun), "", name)


def uniform_relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple by any other of the lexicon.

    "a dog chases a cat" -> "a wave chases a cat", "a dog wears a cat" or "a dog chases a wave". In a caption without
    relations a relation is added: "a dog" -> "a dog on a wave".
    """
    lexicon, graph, names = context.lexicon, scene_graph(caption), _not_said(context)
    words = {index for triple in graph.relations for index in triple.tokens}
    said = {entry for entry, _ in context.own.relations | context.siblings.relations}
    over = [name for name in _frequent_prepositions(lexicon) if name not in said]
    acts = [name for name in lexicon.verbs.names if name not in context.own.verbs | context.siblings.verbs]
    ends = [index for triple in graph.relations for index in (triple.subject, triple.object)]
    ends = [index for index in ends if caption.tokens[index].tag in ("NN", "NNS")]
    uses = [use for use in preposition_uses(caption) if use.start in words]
    verbs = [slot for slot in verb_slots(caption) if slot.start in words]
    alone = [slot.noun for slot in noun_slots(caption)] if not graph.relations else []
    parts = [name for name, here in (("end", ends), ("over", uses), ("act", verbs), ("alone", alone)) if here]
    for _ in range(draws if parts else 0):
        candidate: Candidate | None = None
        part = rng.choice(parts)
        if part == "end" and names:
            candidate = _noun_candidate(caption, lexicon, rng.choice(ends), rng.choice(names))
        elif part == "over" and over:
            use = rng.choice(uses)
            candidate = preposition_candidate(caption, use.start, use.end, use.end - 1, use.entry, rng.choice(over))
        elif part == "act" and acts:
            candidate = verb_candidate(caption, context, rng.choice(verbs), rng.choice(acts))
        elif part == "alone" and over and names:
            candidate = _appended(caption, lexicon, rng.choice(alone), rng.choice(over), rng.choice(names))
        if candidate is not None:
            yield candidate


def _not_said(context: Context) -> list[str]:
    """The single-word nouns of the lexicon that no caption of the image mentions."""
    said = context.own.nouns | context.siblings.nouns
    return [name for name in context.lexicon.nouns.names if " " not in name and name not in said]


def _appended(caption: Caption, lexicon: Lexicon, index: int, word: str, name: str) -> Candidate:
    """The candidate with "and a NAME" or "on a NAME" behind token `index`; in the plural after a plural."""
    many = caption.tokens[index].tag == "NNS"
    surface = lexicon.in_number(name, many=many)
    return appended(caption, index, f"{word} {surface if many else f'{article(surface)} {surface}'}", name)
