"""VSE-C's negatives as its paper makes them: drawn uniformly, and not checked to be false or fluent.

For tables that are to be compared with the paper's (Shi et al. 2018, section 3.1 and Table 8). Many of these negatives
can be told without the image, and some are true of it; the operators without `uniform_` make better ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from random import Random

from ..caption import Caption, cached
from ..context import Context
from ..edits import Candidate, Edit, cased, cased_like
from ..language.grammar import article, article_before, with_article
from ..language.semantic_classes import prepositions
from ..language.wordnet import WordNet, first_sense
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon
from ..mentions import chunk_heads
from ..slots.nouns import quantity_slots, quantity_value
from ..slots.verbs import preposition_units

ENUMERATED = 6  # of up to so many noun phrases, all permutations are listed


def uniform_noun(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the head of a noun phrase by any noun neither above nor below it in WordNet: "a dog" -> "a bench".

    Heads and replacements are single words of the lexicon: frequent and concrete. Pairs of a head and a replacement are
    equally likely. Yields at most `draws` candidates.
    """
    nouns = context.lexicon.nouns
    pairs = [
        (root.index, name)
        for root in chunk_heads(caption)
        if root.lemma in nouns.number
        for name in _unrelated(root.lemma, nouns)
    ]
    for index, name in rng.sample(pairs, min(draws, len(pairs))):
        yield noun_candidate(caption, context.lexicon, index, name)


def noun_candidate(caption: Caption, lexicon: Lexicon, index: int, name: str) -> Candidate:
    """The candidate that puts a noun of the lexicon in place of token `index`, in its number, with a/an adjusted."""
    token = caption.tokens[index]
    surface = lexicon.in_number(name, many=token.tag == "NNS")
    edit = Edit(token.start, token.end, cased(surface, token.text, caption.casing, first=index == 0))
    edits = with_article(article_before(caption, index), edit, surface)
    return Candidate("noun", edits, (index,), token.lemma, name, first_sense(token.lemma), first_sense(name))


@cached(4096)
def _unrelated(noun: str, nouns: Entries) -> tuple[str, ...]:
    """The single-word entries that are neither above nor below a noun in WordNet."""
    related = WordNet.load().related
    return tuple(name for name in nouns.names if name != noun and " " not in name and not related(noun, name))


def uniform_numeral(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a quantity by any other of the lexicon; only the counted noun agrees: "a dog" -> "four dogs".

    Yields at most `draws` candidates.
    """
    names = _by_value(context.lexicon.numerals)
    pairs = [(slot, name) for slot in quantity_slots(caption) for value, name in names if value != slot.value]
    for slot, name in rng.sample(pairs, min(draws, len(pairs))):
        token, noun, many = caption.tokens[slot.index], caption.tokens[slot.noun], quantity_value(name) > 1
        surface = noun.text
        if many != (slot.value > 1):
            surface = cased_like(context.lexicon.in_number(noun.lemma, many=many), noun.text, caption.casing)
        following = surface if slot.index + 1 == slot.noun else caption.tokens[slot.index + 1].text
        word = article(following) if name == "a" else name
        edits = [Edit(token.start, token.end, cased(word, token.text, caption.casing, first=slot.index == 0))]
        if surface != noun.text:
            edits.append(Edit(noun.start, noun.end, surface))
        yield Candidate("quantity", tuple(edits), (slot.noun,), slot.entry, name)


@cached(8)
def _by_value(numerals: Entries) -> tuple[tuple[int, str], ...]:
    """The most frequent entry of each value, as (value, entry)."""
    order = (-numerals.counts).argsort(kind="stable").tolist()
    names: dict[int, str] = {}
    for number in order:
        names.setdefault(quantity_value(numerals.names[number]), numerals.names[number])
    return tuple(names.items())


def uniform_shuffle(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Permute the noun phrases in any way: "a boy throws a ball to a dog" -> "a ball throws a dog to a boy".

    Yields at most `draws` candidates.
    """
    tokens = caption.tokens
    chunks = [chunk for chunk in caption.chunks if tokens[chunk.root].pos in ("NOUN", "PROPN")]
    for order in _orders(len(chunks), rng, draws):
        edits = []
        for place, source in zip(chunks, (chunks[n] for n in order), strict=True):
            if place is not source:
                text = caption.span(source.start, source.end)
                if source.start == 0 and tokens[0].pos != "PROPN":
                    text = text[:1].lower() + text[1:]
                here = caption.span(place.start, place.end)
                edit = cased(text, here, first=True) if place.start == 0 else text
                edits.append(Edit(tokens[place.start].start, tokens[place.end - 1].end, edit))
        moved = [n for n, source in enumerate(order) if n != source]
        old, new = ([tokens[chunks[n].root].lemma for n in which] for which in (moved, [order[n] for n in moved]))
        slots = tuple(chunks[n].root for n in moved)
        yield Candidate("swap", tuple(edits), slots, " | ".join(old), " | ".join(new))


def _orders(n: int, rng: Random, limit: int) -> Iterator[tuple[int, ...]]:
    """Up to `limit` distinct random permutations of 0 … n - 1, without the identity."""
    identity = tuple(range(n))
    if n <= ENUMERATED:
        every = [order for order in permutations(identity) if order != identity]
        yield from rng.sample(every, min(limit, len(every)))
        return
    seen = {identity}
    while len(seen) <= min(limit, math.factorial(ENUMERATED)):
        order = tuple(rng.sample(identity, n))
        if order not in seen:
            seen.add(order)
            yield order


def uniform_preposition(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a preposition by any frequent one that shares no set of Table 8 with it: "on a table" -> "with a table".

    Yields at most `draws` candidates.
    """
    table, lowered = prepositions(), caption.lowered
    pairs = []
    for start, end in preposition_units(caption):
        written = " ".join(lowered[start:end])
        old = table.same.get(written, written)
        own = set(table.sets.get(old, ()))
        names = frequent(context.lexicon.prepositions, context.lexicon)
        pairs += [(start, end, old, name) for name in names if name != old and own.isdisjoint(table.sets.get(name, ()))]
    for start, end, old, name in rng.sample(pairs, min(draws, len(pairs))):
        yield preposition_candidate(caption, start, end, old, name)


def preposition_candidate(caption: Caption, start: int, end: int, old: str, name: str) -> Candidate:
    """The candidate that puts the preposition `name` in place of `old`, at tokens `start` to `end` (exclusive)."""
    table, first = prepositions(), caption.tokens[start]
    edit = Edit(first.start, caption.tokens[end - 1].end, cased(name, first.text, caption.casing, first=start == 0))
    sets = table.table8_sets(old), table.table8_sets(name)
    return Candidate("preposition", (edit,), (start, end - 1), old, name, *sets)


@cached(8)
def frequent(entries: Entries, lexicon: Lexicon) -> tuple[str, ...]:
    """The entries that are as frequent as a noun of the lexicon must be: as often as its rarest noun."""
    least = lexicon.nouns.counts.min(initial=math.inf)
    return tuple(name for name, count in zip(entries.names, entries.counts, strict=True) if count >= least)
