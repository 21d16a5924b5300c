"""UniVSE's relation attack: replace a part of a (subject, relation, object) triple."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ..caption import Caption
from ..context import Context
from ..edits import Candidate
from ..language.determiners import is_negated
from ..language.grammar import article
from ..lexicon.lexicon import sample
from ..scene_graph import scene_graph
from ..slots.nouns import broader, noun_slots
from .choices import draw
from .noun import appended, noun_choices
from .preposition import preposition_choices
from .verb import verb_choices


def relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple (UniVSE, supplement B.2).

    "a dog chases a cat" -> "a horse chases a cat", "a dog carries a cat" or "a dog chases a ball". In a caption without
    relations, a relation word and a noun are added: "a dog" -> "a dog on a couch".
    """
    graph = scene_graph(caption)
    if not graph.relations:
        yield from _added(caption, context, rng, draws)
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


def _added(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Add a preposition and a noun after a noun, sampled by how the corpus uses them there."""
    lexicon = context.lexicon
    slots = [
        slot
        for slot in noun_slots(caption)
        if caption.word(slot.end) not in ("of", "'s") and not is_negated(caption, slot.root)
    ]
    heads = [lexicon.prepositions.probabilities((f"gov:{slot.entry}",)) for slot in slots]
    for number, word in sample(heads, rng, draws):
        root, preposition = slots[number].root, lexicon.prepositions.names[word]
        *_, above, last = (caption.tokens[root].lemma, *preposition.split())
        governed = f"pobj:{above} {last}"
        contexts = governed, broader(governed), f"left:{last} a"
        for _, entry in sample([lexicon.nouns.probabilities(contexts, "a")], rng, 1):
            name = lexicon.nouns.names[entry]
            surface = lexicon.singular[name]
            yield appended(caption, root, f"{preposition} {article(surface)} {surface}", name)
