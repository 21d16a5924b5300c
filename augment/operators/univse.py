"""UniVSE's attacks: replace or add an object, an attribute or a part of a relation (Wu et al. 2019, supplement B.2)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from ..caption import Caption, cached
from ..context import Context
from ..edits import Candidate, Edit, cased
from ..language.grammar import agreement_edits, article, is_negated, with_article
from ..language.semantic_classes import NOT_OF_PERSONS, attributes, is_animal, is_person
from ..lexicon.lexicon import sample
from ..scene_graph import scene_graph
from ..slots.nouns import Slot, broader, noun_slots
from .replacement import appended, draw, known_slots, noun_choices, preposition_choices, verb_choices

APPENDED = {"nsubj", "nsubjpass", "dobj", "pobj", "ROOT"}
# An attribute may be added to a noun if at least EXPECTED occurrences are expected by chance in a lexicon of NOUNS
# nouns (less in a smaller one), and there is none.
EXPECTED, NOUNS = 5.0, 400_000
# Dimensions that are visible in photos; size and age are a matter of opinion.
ADDED = frozenset("colour pattern material hair curl shape".split())


def object_(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a noun by one that is not in the image, or append one, with equal chance (UniVSE, supplement B.2).

    "a dog on a couch" -> "a dog on a table", or "a dog and a cat on a couch", which is longer than the caption.
    """
    names = context.lexicon.nouns.names
    open = [slot for slot in known_slots(caption, context.lexicon.nouns) if _appends(caption, slot)]
    replaced = draw(noun_choices(caption, context), rng, draws)
    added = sample([_weights_of_appended(slot, context) for slot in open], rng, draws)
    for _ in range(draws):
        if rng.random() >= 0.5:
            candidate = next(replaced, None)
            if candidate is not None:
                yield candidate
        elif (drawn := next(added, None)) is not None:
            slot, name = open[drawn[0]], names[drawn[1]]
            surface = context.lexicon.forms(many=slot.plural)[name]
            words = f"{article(surface)} {surface}" if _form(slot) == "a" else surface
            verbs = [] if slot.plural else agreement_edits(caption, slot.noun, plural=True)
            yield appended(caption, slot.noun, f"and {words}", name, verbs)


def _appends(caption: Caption, slot: Slot) -> bool:
    """Whether "and a cat" can follow a noun: no list, no "of" after it, no possessor, no predicate, no mass noun."""
    if not slot.plural and slot.form not in ("a", "the"):
        return False
    root = caption.tokens[slot.noun]
    listed = root.dep == "conj" or caption.has(slot.noun, "conj", "cc", "appos")
    continued = caption.word(slot.end) in ("of", "'s", "'", "and", "or", ",", "-")
    return root.dep in APPENDED and not listed and not continued


def _weights_of_appended(slot: Slot, context: Context) -> np.ndarray:
    """The weight of each noun as an addition to that of a slot: its probability there; 0 for another semantic class."""
    nouns = context.lexicon.nouns
    number = nouns.number[slot.entry]
    (weights,) = nouns.probabilities([slot.contexts[:2]], _form(slot), [number])
    weights[context.lexicon.may_corefer(slot.entry)] = 0.0
    weights[nouns.classes != nouns.classes[number]] = 0.0
    return weights


def _form(slot: Slot) -> str:
    return "a" if slot.form == "the" else slot.form


def added_attribute(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Add an attribute that the corpus never gives the noun: "a dog" -> "a cloudy dog"."""
    names = context.lexicon.attributes.names
    nouns = [slot for slot in noun_slots(caption) if slot.start + 1 == slot.end and not is_negated(caption, slot.noun)]
    for number, entry in sample([_weights_of_absent(caption, slot, context) for slot in nouns], rng, draws):
        root, name = nouns[number].noun, names[entry]
        token, first = caption.tokens[root], root == 0
        noun = token.lower if first and caption.casing == "sentence" else token.text
        edit = Edit(token.start, token.end, f"{cased(name, token.text, caption.casing, first=first)} {noun}")
        yield Candidate("attribute", with_article(caption, root, edit, name), (root, root), "", name)


def _weights_of_absent(caption: Caption, slot: Slot, context: Context) -> np.ndarray:
    """The weight of each attribute as an addition to a noun: its frequency, 0 if the corpus has it with the noun."""
    entries, known = context.lexicon.attributes, attributes().dimensions
    seen = entries.counts_in(f"noun:{slot.entry}")
    expected = entries.counts * (seen.sum() / max(entries.counts.sum(), 1.0))
    least = EXPECTED * min(1.0, np.add.reduce(context.lexicon.nouns.counts) / NOUNS)
    weights = np.where((expected >= least) & (seen == 0), entries.counts, 0.0)
    # Dimensions that the noun has already, and those whose words mean something else: "a black man", "a wooden dog".
    never = {name for token in caption.dependents(slot.noun, "amod") for name in known.get(token.lower, ())}
    never |= NOT_OF_PERSONS if is_person(slot.entry) else {"material", "shape"} if is_animal(slot.entry) else set()
    weights[_not_added(entries.names, frozenset(never))] = 0.0
    return weights


@cached(256)
def _not_added(names: tuple[str, ...], never: frozenset[str]) -> list[int]:
    """The entry numbers of attributes that are vague ("large"), or have no dimension that may be added."""
    known, open = attributes(), ADDED - never
    return [n for n, name in enumerate(names) if name in known.vague or open.isdisjoint(known.dimensions.get(name, ()))]


def relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple (UniVSE, supplement B.2).

    "a dog chases a cat" -> "a horse chases a cat", "a dog carries a cat" or "a dog chases a ball". In a caption without
    relations, a relation word and a noun are added: "a dog" -> "a dog on a couch".
    """
    graph = scene_graph(caption)
    if not graph.relations:
        yield from _added_relations(caption, context, rng, draws)
        return
    subjects = {triple.subject for triple in graph.relations}
    objects = {triple.object for triple in graph.relations}
    words = {index for triple in graph.relations for index in triple.tokens}
    nouns = noun_choices(caption, context)
    others = [*preposition_choices(caption, context), *verb_choices(caption, context)]
    parts = [
        draw([choice for choice in choices if choice.tokens[0] in replaced], rng, draws)
        for choices, replaced in ((nouns, subjects), (nouns, objects), (others, words))
    ]
    for _ in range(draws):
        candidate = next(rng.choice(parts), None)
        if candidate:
            yield candidate


def _added_relations(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Add a preposition and a noun after a noun, sampled by how the corpus uses them there."""
    lexicon = context.lexicon
    slots = [
        slot
        for slot in noun_slots(caption)
        if caption.word(slot.end) not in ("of", "'s") and not is_negated(caption, slot.noun)
    ]
    heads = lexicon.prepositions.probabilities([(f"gov:{slot.entry}",) for slot in slots])
    for number, word in sample([*heads], rng, draws):
        root, preposition = slots[number].noun, lexicon.prepositions.names[word]
        *_, above, last = (caption.tokens[root].lemma, *preposition.split())
        governed = f"pobj:{above} {last}"
        contexts = governed, broader(governed), f"left:{last} a"
        for _, entry in sample([*lexicon.nouns.probabilities([contexts], "a")], rng, 1):
            name = lexicon.nouns.names[entry]
            surface = lexicon.singular[name]
            yield appended(caption, root, f"{preposition} {article(surface)} {surface}", name)
