"""The negatives of VSE-C and UniVSE as their papers make them: drawn uniformly, and not checked to be false or fluent.

For tables that are to be compared with the papers' (Shi et al. 2018, section 3.1 and Table 8; Wu et al. 2019, Table 2
and supplement B.2). UniVSE's are false only in that no caption of the image says so. Many of these negatives can be
told without the image, and some are true of it; the operators without `uniform_` make better ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise, permutations
from random import Random
from typing import Any

from ..caption import Caption, Token, cached
from ..context import Context
from ..edits import Candidate, Edit, cased, cased_like, replace
from ..language.grammar import article, with_article
from ..language.semantic_classes import attributes, prepositions
from ..language.wordnet import WordNet, first_sense
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon
from ..mentions import chunk_heads
from ..scene_graph import scene_graph
from ..slots.nouns import Slot, attribute_slots, noun_slots, quantity_slots, quantity_value
from ..slots.verbs import preposition_units, preposition_uses, verb_slots
from .replacement import attribute_candidate, preposition_candidate, verb_candidate

ENUMERATED = 6  # of up to so many noun phrases, all permutations are listed
JOINING = {",", "and", "or", "with"}  # noun phrases with nothing else between them are interchangeable
# The replacements for a slot, and what makes a candidate with one.
Options = tuple[Sequence[str], Callable[[str], Candidate]]


def draw_evenly(options: list[Options], rng: Random, draws: int, *, excluded: bool = False) -> Iterator[Candidate]:
    """Candidates of at most `draws` pairs of a slot and a replacement, all equally likely, without repetition.

    excluded: as of `replacement.draw`, but here nothing is.
    """
    pairs = [(candidate, name) for names, candidate in options for name in names]
    for candidate, name in rng.sample(pairs, min(draws, len(pairs))):
        yield candidate(name)


def uniform_noun(caption: Caption, context: Context) -> list[Options]:
    """Replace the head of a noun phrase by any noun neither above nor below it in WordNet: "a dog" -> "a bench".

    Heads and replacements are single words of the lexicon: frequent and concrete.
    """
    lexicon, nouns = context.lexicon, context.lexicon.nouns
    heads = [root for root in chunk_heads(caption) if root.lemma in nouns.number]
    return [(_unrelated(root.lemma, nouns), partial(_noun_candidate, caption, lexicon, root)) for root in heads]


def _noun_candidate(caption: Caption, lexicon: Lexicon, token: Token, name: str) -> Candidate:
    """The candidate that puts a noun of the lexicon in place of a token, in its number, with a/an adjusted."""
    surface = lexicon.in_number(name, many=token.tag == "NNS")
    edits = with_article(caption, token.index, replace(caption, token.index, token.index + 1, surface), surface)
    return Candidate("noun", edits, (token.index,), token.lemma, name, first_sense(token.lemma), first_sense(name))


@cached(4096)
def _unrelated(noun: str, nouns: Entries) -> tuple[str, ...]:
    """The single-word entries that are neither above nor below a noun in WordNet."""
    related = WordNet.load().related
    return tuple(name for name in nouns.names if name != noun and " " not in name and not related(noun, name))


def uniform_numeral(caption: Caption, context: Context) -> list[Options]:
    """Replace a quantity by any other of the lexicon; only the counted noun agrees: "a dog" -> "four dogs"."""
    options: list[Options] = []
    for slot in quantity_slots(caption):
        others = [name for value, name in _by_value(context.lexicon.numerals) if value != slot.value]
        options.append((others, partial(_numeral_candidate, caption, context.lexicon, slot)))
    return options


def _numeral_candidate(caption: Caption, lexicon: Lexicon, slot: Slot, name: str) -> Candidate:
    """The candidate with another quantity; the noun changes its number if it must."""
    noun, many = caption.tokens[slot.noun], quantity_value(name) > 1
    surface = noun.text
    if many != (slot.value > 1):
        surface = cased_like(lexicon.in_number(noun.lemma, many=many), noun.text, caption.casing)
    following = surface if slot.start + 1 == slot.noun else caption.tokens[slot.start + 1].text
    edits = [replace(caption, slot.start, slot.start + 1, article(following) if name == "a" else name)]
    if surface != noun.text:
        edits.append(Edit(noun.start, noun.end, surface))
    return Candidate("numeral", tuple(edits), (slot.noun,), slot.entry, name)


@cached(8)
def _by_value(numerals: Entries) -> tuple[tuple[int, str], ...]:
    """The most frequent entry of each value, as (value, entry)."""
    names: dict[int, str] = {}
    for number in (-numerals.counts).argsort(kind="stable").tolist():
        names.setdefault(quantity_value(numerals.names[number]), numerals.names[number])
    return tuple(names.items())


def uniform_preposition(caption: Caption, context: Context) -> list[Options]:
    """Replace a preposition by any frequent one that shares no set of Table 8 with it: "on a table" -> "with a table".

    As frequent as the rarest noun of the lexicon; several words ("in front of") are one preposition, which is in the
    sets of all its words: "next to" is never replaced by "near".
    """
    table, names = prepositions(), _frequent_prepositions(context.lexicon)
    options: list[Options] = []
    for start, end in preposition_units(caption):
        written = " ".join(caption.lowered[start:end])
        old = table.same.get(written, written)
        sets = _sets_of_words(old)
        others = [name for name in names if name != old and sets.isdisjoint(_sets_of_words(name))]
        options.append((others, partial(preposition_candidate, caption, start, end, end - 1, old)))
    return options


def _sets_of_words(preposition: str) -> set[int]:
    """The sets of Table 8 that any word of a preposition is in."""
    return {number for word in preposition.split() for number in prepositions().sets.get(word, ())}


@cached(8)
def _frequent_prepositions(lexicon: Lexicon) -> tuple[str, ...]:
    """The prepositions of the lexicon that were counted at least as often as its rarest noun."""
    entries, least = lexicon.prepositions, lexicon.nouns.counts.min(initial=math.inf)
    return tuple(name for name, count in zip(entries.names, entries.counts, strict=True) if count >= least)


def uniform_shuffle(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Permute the noun phrases: "a boy throws a ball to a dog" -> "a ball throws a dog to a boy".

    Not the interchangeable ones, as in VSE-C's released code: none takes the place of one that a comma, "and", "or" or
    "with" joins it to ("three boys and a girl").
    """
    tokens = caption.tokens
    chunks = [chunk for chunk in caption.chunks if tokens[chunk.root].pos in ("NOUN", "PROPN")]
    joined = [set(caption.lowered[one.end : other.start]) for one, other in pairwise(chunks)]
    groups = list(accumulate((not 0 < len(words) <= len(words & JOINING) for words in joined), initial=0))
    for order in _orders(groups, rng, draws):
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


def _orders(groups: Sequence[int], rng: Random, limit: int) -> Iterator[tuple[int, ...]]:
    """Up to `limit` distinct random permutations of 0 … n - 1, none of which moves a number within its group.

    groups: (n,) of each number. Without the identity. Of more than ENUMERATED numbers, they are looked for among as
    many permutations as that number has.
    """
    identity = tuple(range(len(groups)))
    orders: Iterable[tuple[int, ...]] = permutations(identity)
    if len(groups) > ENUMERATED:
        orders = (tuple(rng.sample(identity, len(identity))) for _ in range(math.factorial(ENUMERATED)))
    good = [
        order
        for order in dict.fromkeys(orders)
        if order != identity and all(n == m or groups[n] != groups[m] for n, m in enumerate(order))
    ]
    yield from rng.sample(good, min(limit, len(good)))


def uniform_attribute(caption: Caption, context: Context) -> list[Options]:
    """Replace an attribute by any of the paper's 37; if there is none, add one to a noun.

    "a red car" -> "a snowy car"; "a car" -> "a snowy car". Not those that a caption of the image mentions, and no
    others of their groups.
    """
    table, slots = attributes(), attribute_slots(caption)
    said = {word for word, _ in context.said.own.attributes | context.said.siblings.attributes} | {
        slot.entry for slot in slots
    }
    names = [
        name
        for name in table.univse
        if name not in said and not any((name, word) in table.univse_groups for word in said)
    ]
    options: list[Options] = [(names, partial(attribute_candidate, caption, slot)) for slot in slots]
    if not any(others for others, _ in options):
        options = [(names, partial(_added_attribute, caption, slot)) for slot in noun_slots(caption)]
    return options


def _added_attribute(caption: Caption, noun: Slot, name: str) -> Candidate:
    """The candidate with an attribute before a noun."""
    edits = with_article(caption, noun.start, _before(caption, noun.start, name), name)
    return Candidate("attribute", edits, (noun.noun, noun.noun), "", name)


def _before(caption: Caption, start: int, words: str) -> Edit:
    """The edit that puts words before the token `start`; at the beginning of the caption they get its capital."""
    first = caption.tokens[start]
    if start:
        return Edit(first.start, first.start, f"{words} ")
    return Edit(first.start, first.end, f"{cased(words, first.text, caption.casing, first=True)} {first.lower}")


def uniform_object(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a noun by any noun that no caption of the image mentions, or append one, with equal chance.

    "a dog on a couch" -> "a dog on a wave" or "a dog and a wave on a couch".
    """
    nouns, names = [caption.tokens[slot.noun] for slot in noun_slots(caption)], _not_said(context)
    for _ in range(draws if nouns and names else 0):
        noun, name = rng.choice(nouns), rng.choice(names)
        if rng.random() < 0.5:
            yield _noun_candidate(caption, context.lexicon, noun, name)
        else:
            yield _appended(caption, context.lexicon, noun, "and", name)


def uniform_relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple by any other of the lexicon, equally often.

    "a dog chases a cat" -> "a wave chases a cat", "a dog wears a cat" or "a dog chases a wave". In a caption without
    relations one is added, with the new noun as its object or subject: "a dog" -> "a dog on a wave", "a wave on a dog".
    """
    lexicon, triples = context.lexicon, scene_graph(caption).relations
    words = {index for triple in triples for index in triple.tokens}
    said = {entry for entry, _ in context.said.own.relations | context.said.siblings.relations}
    acts = context.said.own.verbs | context.said.siblings.verbs
    ends = [caption.tokens[index] for triple in triples for index in (triple.subject, triple.object)]
    nouns = [] if triples else [caption.tokens[slot.noun] for slot in noun_slots(caption)]
    new_nouns = _not_said(context)
    new_prepositions = [name for name in _frequent_prepositions(lexicon) if name not in said]
    new_verbs = [name for name in lexicon.verbs.names if name not in acts]

    def preposition(use: Slot, name: str) -> Candidate:
        return preposition_candidate(caption, use.start, use.end, use.end - 1, use.entry, name)

    uses = [use for use in preposition_uses(caption) if use.start in words]
    verbs = [slot for slot in verb_slots(caption) if slot.start in words]
    ends_of_noun = ([end for end in ends if end.tag in ("NN", "NNS")], new_nouns)
    parts: list[tuple[int, tuple[Sequence[Any], ...], Callable[..., Candidate | None]]] = [  # with weights
        (4, ends_of_noun, partial(_noun_candidate, caption, lexicon)),
        (1 if verbs else 2, (uses, new_prepositions), preposition),
        (1 if uses else 2, (verbs, new_verbs), partial(verb_candidate, caption, lexicon)),
        (1, (nouns, new_prepositions, new_nouns), partial(_appended, caption, lexicon)),
        (1, (nouns, new_prepositions, new_nouns), partial(_prepended, caption, lexicon)),
    ]
    present = [part for part in parts if part[1][0]]
    weights = [weight for weight, *_ in present]
    for _ in range(draws if present else 0):
        ((_, lists, candidate_of),) = rng.choices(present, weights)
        if all(lists) and (candidate := candidate_of(*map(rng.choice, lists))) is not None:
            yield candidate


def _not_said(context: Context) -> list[str]:
    """The single-word nouns of the lexicon that no caption of the image mentions."""
    said = context.said.own.nouns | context.said.siblings.nouns
    return [name for name in context.lexicon.nouns.names if " " not in name and name not in said]


def _appended(caption: Caption, lexicon: Lexicon, noun: Token, word: str, name: str) -> Candidate:
    """The candidate with "and a NAME" or "on a NAME" behind a noun; in the plural after a plural."""
    edit = Edit(noun.end, noun.end, f" {word} {_phrase(lexicon, noun, name)}")
    return Candidate("noun", (edit,), (noun.index,), "", name, None, first_sense(name))


def _prepended(caption: Caption, lexicon: Lexicon, noun: Token, preposition: str, name: str) -> Candidate:
    """The candidate with "a NAME on" before the phrase of a noun; in the plural before a plural."""
    start = next((chunk.start for chunk in caption.chunks if chunk.start <= noun.index < chunk.end), noun.index)
    edit = _before(caption, start, f"{_phrase(lexicon, noun, name)} {preposition}")
    return Candidate("noun", (edit,), (noun.index,), "", name, None, first_sense(name))


def _phrase(lexicon: Lexicon, noun: Token, name: str) -> str:
    """A noun of the lexicon in the number of another one, with a/an in the singular."""
    many = noun.tag == "NNS"
    surface = lexicon.in_number(name, many=many)
    return surface if many else f"{article(surface)} {surface}"
