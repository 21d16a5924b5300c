"""Replace a part of a relation (UniVSE, supplement B.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..candidates import Batch
from ..caption import Caption, cached_on_caption
from ..evidence import Evidence
from ..lexicon.lexicon import Lexicon
from ..rows import Row
from ..scene_graph import Relation, scene_graph
from ..slots.nouns import Slot
from ..truth.contradiction import Violation
from .operator import Traits
from .replacement import ReplacingOperator, SamplingOperator, WeightedCandidates

TINY = 1e-300  # instead of 0, by which nothing is divided


class RolesOfWord(NamedTuple):
    """Whether a word is the subject of any relation of its caption, the object of any, and a word of any relation."""

    subject: bool
    object: bool
    word: bool


class ReplaceRelation(SamplingOperator):
    """Replace the subject, the relation word or the object of a triple (UniVSE, supplement B.2).

    "a dog chases a cat" -> "a horse chases a cat", "a dog carries a cat" or "a dog chases a ball". The paper also adds
    objects, attributes and relations, as the operators of `uniform` do. Readers held many of these possible in the same
    photo: 47 % of 38 objects, 81 % of 26 attributes and 27 % of 26 relations.
    """

    def __init__(self, name: str, traits: Traits, replacers: Mapping[str, ReplacingOperator]) -> None:
        """Keep the operators that replace nouns, prepositions and verbs, by kind: they make and check the rows."""
        super().__init__(name, traits)
        self.replacers = replacers

    def replacer(self, kind: str) -> ReplacingOperator:
        """The operator that replaces words of the kind."""
        return self.replacers[kind]

    def weighted_candidates(self, batch: Batch) -> WeightedCandidates:
        """The candidates whose words are in relations (subject, word, object) of their captions.

        The weights are such that each of the three parts is replaced equally often: those of the subjects of a caption
        sum to 1, and so do those of the relation words and of the objects.
        """
        table = batch.candidates
        roles = [
            roles_of_word(slot, relations_of(batch.evidence[number].caption))
            for slot, number in zip(table.slots, table.caption, strict=True)
        ]
        has_role = np.array(roles, bool).reshape(-1, 3)  # (slots, 3), in the order of `RolesOfWord`
        candidates = table.of_kinds(list(self.replacers))
        candidates = candidates[has_role[table.slot[candidates]].any(axis=1)]
        slot = table.slot[candidates]
        weights = np.zeros(len(candidates))
        for has_this_role in has_role.T:  # (slots,)
            counts = has_this_role[slot] & table.is_proposed[candidates]
            weight_in_role = np.where(counts, table.weight[candidates], 0.0)
            sum_of_caption = np.bincount(table.caption[slot], weight_in_role, len(batch.evidence))
            weights += weight_in_role / np.maximum(sum_of_caption, TINY)[table.caption[slot]]
        return WeightedCandidates(candidates, weights)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the new word may be true, by the operator that replaces words of its kind; None if nothing tells."""
        return self.replacers[row.change].violation(row, evidence, lexicon)


@cached_on_caption
def relations_of(caption: Caption) -> tuple[Relation, ...]:
    """The relations of a caption's scene graph, kept for the operators and batches that ask again."""
    return scene_graph(caption).relations


def roles_of_word(slot: Slot, relations: Sequence[Relation]) -> RolesOfWord:
    """What the word in a slot is in the relations of its caption: "dog" of (dog, chase, cat) is a subject."""
    is_noun = slot.kind == "noun"
    return RolesOfWord(
        subject=is_noun and any(relation.subject == slot.noun for relation in relations),
        object=is_noun and any(relation.object == slot.noun for relation in relations),
        word=not is_noun and any(slot.start in relation.tokens for relation in relations),
    )
