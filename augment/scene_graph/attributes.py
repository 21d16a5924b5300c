"""Attributes: what a caption says of one thing."""

from __future__ import annotations

from collections.abc import Iterable

from augment.caption import Caption
from augment.scene_graph.clauses import Clauses
from augment.scene_graph.graph import Attribute
from augment.scene_graph.nouns import Nouns
from augment.scene_graph.words import WRITTEN

_MODIFIERS = ("amod", "nummod")


def attributes(caption: Caption, nouns: Nouns, states: Iterable[tuple[int, int]]) -> tuple[Attribute, ...]:
    """The attributes of a caption's things; `states` are (object, token) pairs of verbs that stand alone."""
    found: set[tuple[int, int]] = {(object, token) for token, object in nouns.modifiers.items()}
    found.update(states)
    tokens = caption.tokens
    clauses = Clauses(caption, nouns)
    for token in tokens:
        if token.dep in _MODIFIERS and (token.head in nouns.objects or token.head in nouns.stands_for):
            for object in nouns.things(token.head)[:1]:
                for word in _coordinated(caption, token.index):
                    found.add((object, word))
        elif token.dep == "acomp" and token.pos in ("ADJ", "VERB"):
            for object in clauses.subjects(token.head):
                for word in _coordinated(caption, token.index):
                    found.add((object, word))
    return tuple(
        Attribute(object, word, word, word + 1, WRITTEN.get(tokens[word].lower, tokens[word].lower))
        for object, word in sorted(found)
    )


def _coordinated(caption: Caption, index: int) -> list[int]:
    found = [index]
    for at in found:
        found.extend(t.index for t in caption.dependents(at, "conj") if t.pos not in ("NOUN", "PROPN"))
    return found
