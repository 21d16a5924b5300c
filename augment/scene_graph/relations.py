"""Relations between things: verbs, prepositions, possessives."""

from __future__ import annotations

from augment.caption import Caption
from augment.scene_graph.graph import Relation
from augment.scene_graph.nouns import Nouns


def relations(caption: Caption, nouns: Nouns) -> tuple[tuple[Relation, ...], list[tuple[int, int]]]:
    """The relations of a caption in text order, and the verbs that say something of one thing alone."""
    found: set[Relation] = set()
    states: list[tuple[int, int]] = []
    for token in caption.tokens:
        if token.dep == "prep":
            for noun in caption.dependents(token.index, "pobj"):
                for subject in nouns.things(token.head):
                    for object in nouns.things(noun.index):
                        found.add(Relation(subject, object, (token.index,), token.lower))
        elif token.pos == "VERB":
            subjects = [t.index for t in caption.dependents(token.index, "nsubj")]
            if token.dep == "acl":
                subjects.append(token.head)
            for noun in caption.dependents(token.index, "dobj"):
                for at in subjects:
                    for subject in nouns.things(at):
                        for object in nouns.things(noun.index):
                            found.add(Relation(subject, object, (token.index,), token.lemma))
    return tuple(sorted(found, key=lambda r: (r.tokens, r.subject, r.object))), states
