"""Clauses: the subjects and objects of verbs, also through relative clauses, coordination and passives."""

from __future__ import annotations

from ..caption import Caption, Token
from .nouns import Nouns

RELATIVE = frozenset(("who", "which", "that", "whom"))
PRONOUNS = frozenset(("he", "she", "they", "it"))
_SHARED = ("conj", "xcomp", "advcl", "ccomp", "pcomp", "dep", "prep", "prt", "aux")


class Clauses:
    """Finds the subjects and objects of the verbs of one caption."""

    def __init__(self, caption: Caption, nouns: Nouns) -> None:
        self.caption = caption
        self.nouns = nouns
        self._subjects: dict[int, list[int]] = {}

    def subjects(self, index: int) -> list[int]:
        """The objects (head tokens) that are the subject of token `index`, a verb or predicate; for a passive, the
        patients.
        """
        found = self._subjects.get(index)
        if found is None:
            self._subjects[index] = []  # ends the recursion of a circular parse
            found = self._subjects[index] = self._read(index)
        return found

    def is_passive(self, verb: Token) -> bool:
        """Whether a verb is passive: with an auxiliary, or a participle after its noun."""
        if verb.tag not in ("VBN", "VBD"):
            return False
        for child in self.caption.children[verb.index]:
            token = self.caption.tokens[child]
            if token.dep in ("auxpass", "nsubjpass", "agent"):
                return True
            if token.dep == "aux" and token.lemma == "have":
                return False
            if token.dep == "nsubj" and token.lower not in RELATIVE:
                return False
        if verb.dep == "conj" and verb.head < verb.index:
            return self.is_passive(self.caption.tokens[verb.head])
        return verb.dep in ("acl", "amod", "advcl") or verb.tag == "VBN"

    def gap(self, index: int) -> list[int]:
        """The objects (head tokens) that fill the gap of a relative clause: the sofa in "the sofa the man is sitting
        on".

        Empty if token `index` does not head a relative clause with its own subject.
        """
        verb = self.caption.tokens[index]
        if verb.dep not in ("relcl", "acl"):
            return []
        for child in self.caption.children[index]:
            if self.caption.tokens[child].dep in ("nsubj", "nsubjpass"):
                return [] if self.caption.lowered[child] in RELATIVE else self.nouns.objects_of(verb.head)[:1]
        return []

    def _read(self, index: int) -> list[int]:
        tokens = self.caption.tokens
        token = tokens[index]
        for child in self.caption.children[index]:
            if tokens[child].dep in ("nsubj", "nsubjpass"):
                if tokens[child].lower in RELATIVE and token.dep in ("relcl", "acl"):
                    break
                if tokens[child].lower in PRONOUNS and token.dep == "advcl":  # "a man smiles while he runs"
                    return self.subjects(token.head)
                return self.nouns.objects_of(child)
        if token.pos in ("NOUN", "PROPN", "PRON"):
            return self.nouns.objects_of(index)
        if token.head == index:
            existing = [c for c in self.caption.children[index] if tokens[c].dep == "attr"]
            if existing and any(tokens[c].dep == "expl" for c in self.caption.children[index]):
                return self.nouns.objects_of(existing[0])
            return []
        if token.dep in ("relcl", "acl", "amod"):
            return self.nouns.clause_subjects(token.head, index)
        if token.dep in _SHARED or token.pos in ("AUX", "VERB"):
            return self.subjects(token.head)
        return []
