"""UniVSE's relation attack: replace a part of a (subject, relation, object) triple."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ..caption import Caption
from ..context import Context
from ..edits import Candidate, Edit
from ..language.determiners import is_negated
from ..language.grammar import article
from ..language.wordnet import first_sense
from ..lexicon.lexicon import sample
from ..scene_graph import scene_graph
from ..slots.nouns import NounSlot, broader, noun_slots
from .choices import draw
from .noun import noun_choices
from .preposition import preposition_choices
from .verb import verb_choices


def relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple (UniVSE, supplement B.2).

    "a dog chases a cat" -> "a horse chases a cat", "a dog carries a cat" or "a dog chases a ball". In a caption without
    relations, a relation word and a noun are added: "a dog" -> "a dog on a couch". Yields at most `draws` candidates.
    """
    graph = scene_graph(caption)
    if not graph.relations:
        yield from _added(caption, context, rng, draws)
        return
    subjects = {triple.subject for triple in graph.relations}
    objects = {triple.object for triple in graph.relations}
    words = {index for triple in graph.relations for index in triple.tokens}
    nouns = noun_choices(caption, context)
    prepositions = [one for one in preposition_choices(caption, context) if one.tokens[0] in words]
    verbs = [one for one in verb_choices(caption, context) if one.tokens[0] in words]
    parts = [
        draw([one for one in nouns if one.tokens[0] in subjects], rng, draws),
        draw([one for one in nouns if one.tokens[0] in objects], rng, draws),
        draw([*prepositions, *verbs], rng, draws),
    ]
    for _ in range(draws):
        made = next(rng.choice(parts), None)
        if made:
            yield made


def _added(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Add a preposition and a noun after a noun, sampled by how the corpus uses them there."""
    lexicon = context.lexicon
    slots = [
        slot
        for slot in noun_slots(caption)
        if caption.lowered[slot.end : slot.end + 1] not in (("of",), ("'s",)) and not is_negated(caption, slot.root)
    ]
    heads = [lexicon.prepositions.probabilities((f"gov:{slot.entry}",)) for slot in slots]
    for at, word in sample(heads, rng, draws):
        name = lexicon.prepositions.names[word]
        *_, above, last = (caption.tokens[slots[at].root].lemma, *name.split())
        governed = f"pobj:{above} {last}"
        contexts = governed, broader(governed), f"left:{last} a"
        for _, entry in sample([lexicon.nouns.probabilities(contexts, "a")], rng, 1):
            yield _behind(caption, context, slots[at], name, lexicon.nouns.names[entry])


def _behind(caption: Caption, context: Context, slot: NounSlot, word: str, name: str) -> Candidate:
    surface = context.lexicon.singular[name]
    end = caption.tokens[slot.root].end
    edit = Edit(end, end, f" {word} {article(surface)} {surface}")
    return Candidate("noun", (edit,), (slot.root,), "", name, None, first_sense(name))
