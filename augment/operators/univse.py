"""UniVSE's attacks: replace an object or a part of a relation (Wu et al. 2019, supplement B.2).

The paper also adds objects, attributes and relations. In 47, 81 and 27 % of 38, 26 and 26 readings, what was added was
held possible in the same photo, so that only the operators that do as the paper does add something (see `uniform`).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ..caption import Caption
from ..context import Context
from ..edits import Candidate
from ..scene_graph import scene_graph
from .replacement import draw, noun_choices, preposition_choices, verb_choices


def relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple (UniVSE, supplement B.2).

    "a dog chases a cat" -> "a horse chases a cat", "a dog carries a cat" or "a dog chases a ball".
    """
    graph = scene_graph(caption)
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
