"""UniVSE's relation attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate, Edit
from negcap.augment.language.articles import article
from negcap.augment.language.determiners import is_negated
from negcap.augment.language.wordnet import first_sense
from negcap.augment.lexicon.sampling import draw
from negcap.augment.operators.noun import noun_candidates, noun_choices
from negcap.augment.operators.preposition import preposition_candidate, preposition_choices
from negcap.augment.operators.verb import verb_candidate, verb_choices
from negcap.augment.scene_graph import scene_graph
from negcap.augment.slots.nouns import NounSlot, broader, noun_slots


def relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple (B.2 of UniVSE's supplement).

    "a dog chases a cat" -> "a horse chases a cat", "a dog carries a cat" or "a dog chases a ball". A caption without
    relations gets a relation word and a noun: "a dog" -> "a dog on a couch".
    """
    graph = scene_graph(caption)
    if not graph.relations:
        yield from _added(caption, context, rng, draws)
        return
    subjects = {triple.subject for triple in graph.relations}
    objects = {triple.object for triple in graph.relations}
    words = {index for triple in graph.relations for index in triple.tokens}
    nouns, noun_masses = noun_choices(caption, context)
    prepositions, preposition_masses = preposition_choices(caption, context)
    verbs, verb_masses = verb_choices(caption, context)
    at_subjects = _of(nouns, noun_masses, [slot.root in subjects for slot in nouns])
    at_objects = _of(nouns, noun_masses, [slot.root in objects for slot in nouns])
    at_prepositions = _of(prepositions, preposition_masses, [slot.start in words for slot in prepositions])
    at_verbs = _of(verbs, verb_masses, [slot.index in words for slot in verbs])
    parts: list[Iterator[Candidate | None]] = [
        _nouns(caption, context, rng, draws, at_subjects),
        _nouns(caption, context, rng, draws, at_objects),
        _words(caption, context, rng, draws, at_prepositions, at_verbs),
    ]
    for _ in range(draws):
        made = next(rng.choice(parts), None)
        if made:
            yield made


def _of(slots: Sequence[Any], masses: Sequence[np.ndarray], mask: list[bool]) -> tuple[list[Any], list[np.ndarray]]:
    chosen = [at for at, one in enumerate(mask) if one]
    return [slots[at] for at in chosen], [masses[at] for at in chosen]


def _nouns(
    caption: Caption, context: Context, rng: Random, draws: int, nouns: tuple[list, list]
) -> Iterator[Candidate | None]:
    """Candidates for the subjects, or for the objects, of the triples."""
    slots, masses = nouns
    made = [noun_candidates(caption, context, slot) for slot in slots]
    for at, entry in draw(masses, rng, draws):
        yield made[at](context.lexicon.nouns.names[entry])


def _words(
    caption: Caption,
    context: Context,
    rng: Random,
    draws: int,
    prepositions: tuple[list, list],
    verbs: tuple[list, list],
) -> Iterator[Candidate | None]:
    """Candidates for the relation words, prepositions and verbs in one draw."""
    for at, entry in draw(prepositions[1] + verbs[1], rng, draws):
        if at < len(prepositions[0]):
            name = context.lexicon.prepositions.names[entry]
            yield preposition_candidate(caption, context, prepositions[0][at], name)
        else:
            name = context.lexicon.verbs.names[entry]
            yield verb_candidate(caption, context, verbs[0][at - len(prepositions[0])], name)


def _added(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Put a preposition and a noun behind a noun, both as the corpus uses them there."""
    lexicon = context.lexicon
    slots = [
        slot
        for slot in noun_slots(caption)
        if caption.lowered[slot.end : slot.end + 1] not in (("of",), ("'s",)) and not is_negated(caption, slot.root)
    ]
    heads = [lexicon.prepositions.probabilities((f"gov:{slot.entry}",)) for slot in slots]
    for at, word in draw(heads, rng, draws):
        name = lexicon.prepositions.names[word]
        *_, above, last = (caption.tokens[slots[at].root].lemma, *name.split())
        governed = f"pobj:{above} {last}"
        places = governed, broader(governed), f"left:{last} a"
        for _, entry in draw([lexicon.nouns.probabilities(places, "a")], rng, 1):
            yield _behind(caption, context, slots[at], name, lexicon.nouns.names[entry])


def _behind(caption: Caption, context: Context, slot: NounSlot, word: str, name: str) -> Candidate:
    surface = context.lexicon.singular[name]
    end = caption.tokens[slot.root].end
    edit = Edit(end, end, f" {word} {article(surface)} {surface}")
    return Candidate("noun", (edit,), (slot.root,), "", name, None, first_sense(name))
