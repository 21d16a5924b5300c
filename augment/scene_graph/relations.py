"""The relations of a scene graph: verbs, prepositions and possessives between objects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from ..caption import Caption, Token
from ..language.wordnet import WordNet
from ..slots.verbs import verbs
from .clauses import Clauses
from .graph import Relation
from .nouns import Nouns
from .phrases import Phrase, phrases
from .words import CONTAINERS, INVERTED, SUBSTANCE_SYNSETS, SUBSTANCES


def relations(caption: Caption, nouns: Nouns) -> tuple[tuple[Relation, ...], list[tuple[int, int]]]:
    """The relations of a caption in text order, and (object, verb) token pairs of verbs that are attributes."""
    reader = _Reader(caption, nouns)
    attached: dict[int, list[Phrase]] = {}
    for phrase in phrases(caption):
        attached.setdefault(phrase.head, []).append(phrase)
    states = []
    for token in caption.tokens:
        its = attached.get(token.index, [])
        if token.index in nouns.covers:
            reader.add([nouns.covers[token.index]], nouns.objects_of(token.head)[:1], (token.index,), token.lemma)
        elif token.pos == "VERB":
            states += reader.verb(token, its)
        elif its:
            reader.noun(token, its)
        if token.dep == "poss":
            reader.add(nouns.objects_of(token.index), nouns.objects_of(token.head)[:1], (), "have")
    found = {(r.subject, r.object, r.name): r for r in reversed(reader.found)}
    return tuple(sorted(found.values(), key=lambda r: (r.tokens or (r.object,), r.subject, r.object))), states


@cache
def is_substance(noun: str) -> bool:
    """Whether a noun's first WordNet sense is a food, liquid or substance, or it is listed in SUBSTANCES."""
    wordnet = WordNet.load()
    senses = wordnet.senses(noun, "n")
    return (
        noun in SUBSTANCES
        or bool(senses)
        and not wordnet.closure(senses[0]).isdisjoint(map(wordnet.synset, SUBSTANCE_SYNSETS))
    )


class _Reader:
    def __init__(self, caption: Caption, nouns: Nouns) -> None:
        self.caption, self.nouns = caption, nouns
        self.clauses = Clauses(caption, nouns)
        self.found: list[Relation] = []

    def add(self, subjects: Iterable[int], objects: Iterable[int], tokens: tuple[int, ...], name: str) -> bool:
        """Relate all subjects to all objects; returns whether any relation was added."""
        before = len(self.found)
        for subject in subjects:
            for object in objects:
                if subject != object:
                    self.found.append(Relation(subject, object, tokens, name))
        return len(self.found) > before

    def mutual(self, subjects: list[int], tokens: tuple[int, ...], name: str) -> bool:
        """Relate the first subject to the others, a single plural to itself: "dogs face each other".

        Returns whether there was any subject.
        """
        self.found += [Relation(subjects[0], other, tokens, name) for other in subjects[1:] or subjects]
        return bool(subjects)

    def noun(self, token: Token, its: list[Phrase]) -> None:
        """Add the relations of the phrases attached to a noun, an adjective or a form of "be"."""
        is_noun = token.pos in ("NOUN", "PROPN", "PRON")
        clause = self.clauses.subjects(token.index)
        for phrase in its:
            subjects = self.nouns.clause_subjects(token.index, phrase.tokens[0]) if is_noun else clause
            if phrase.object is None:
                self.add(subjects, self.clauses.gap(token.index), phrase.tokens, phrase.name)
                continue
            if phrase.object in self.nouns.mutual:
                self.mutual(subjects, phrase.tokens, phrase.name)
                continue
            objects = self.nouns.objects_of(phrase.object)
            if phrase.name == "of":
                if not is_noun or token.index in self.nouns.stands_for:
                    continue
                if token.lemma in CONTAINERS or self._is_substance(phrase.object):
                    self.add(subjects, objects, phrase.tokens, "have")
                else:
                    self.add(objects, subjects, phrase.tokens, "have")
            else:
                self.add(subjects, objects, phrase.tokens, phrase.name)

    def _is_substance(self, noun: int) -> bool:
        """Whether the noun at token `noun`, without determiner, is a substance: "a pool of water"."""
        tokens = self.caption.tokens
        deps = {tokens[child].dep for child in self.caption.children[noun]}
        return (
            deps.isdisjoint(("det", "poss", "nummod")) and tokens[noun].tag == "NN" and is_substance(tokens[noun].lemma)
        )

    def verb(self, verb: Token, its: list[Phrase]) -> list[tuple[int, int]]:
        """Add the relations of a verb; returns (object, verb) pairs if it relates its subject to nothing."""
        caption, clauses = self.caption, self.clauses
        subjects = clauses.subjects(verb.index)
        words: tuple[int, ...] = (verb.index,)
        name = verb.lemma
        objects: list[int] = []
        said = False
        for child in caption.children[verb.index]:
            token = caption.tokens[child]
            if token.dep == "prt":
                words, name = (*words, child), f"{name} {token.lower}"
            elif token.dep == "dobj" and child in self.nouns.mutual:
                said = self.mutual(subjects, words, name)
            elif token.dep in ("dobj", "dative") and token.pos in ("NOUN", "PROPN", "PRON"):
                objects += self.nouns.objects_of(child)
        passive = clauses.is_passive(verb)
        gap = clauses.gap(verb.index)
        stranded = [phrase for phrase in its if phrase.object is None]
        if gap and not objects and not stranded:
            objects = gap
        if not passive or objects:
            said |= self.add(subjects, objects, words, name)
        first = not said
        for phrase in its:
            ends = gap if phrase.object is None else self.nouns.objects_of(phrase.object)
            if passive and (phrase.name == "by" or verb.lemma in INVERTED and phrase.name in ("with", "in")):
                said |= self.add(ends, subjects, words, name)
            elif objects or not first:
                said |= self.add(subjects, ends, phrase.tokens, phrase.name)
            elif phrase.object in self.nouns.mutual:
                said |= self.mutual(subjects, (*words, *phrase.tokens), f"{name} {phrase.name}")
                first = False
            else:
                said |= self.add(subjects, ends, (*words, *phrase.tokens), f"{name} {phrase.name}")
                first = False
        if said or gap or verb.dep in ("amod", "compound") or verb.tag == "VB" or verb.lemma in verbs().vague:
            return []
        return [(subject, verb.index) for subject in subjects]
