"""The relations of a scene graph: verbs, prepositions and possessives between objects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..caption import Caption, Token
from ..language.negation import denied_tokens
from ..language.wordnet import WordNet
from ..slots.verbs import verbs
from .nouns import WORDS, Nouns, Relation

RELATIVE = frozenset(("who", "which", "that", "whom"))
PRONOUNS = frozenset(("he", "she", "they", "it"))
INVERTED = frozenset(("cover", "surround"))
SUBSTANCE_SYNSETS = ("food.n.01", "food.n.02", "substance.n.01", "body_of_water.n.01")
_ADVERBS = ("ADV", "ADJ", "SCONJ", "ADP", "PART")
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
        subjects = self._subjects.get(index)
        if subjects is None:
            self._subjects[index] = []  # ends the recursion of a circular parse
            subjects = self._subjects[index] = self._read(index)
        return subjects

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
        subject = next(self.caption.dependents(index, "nsubj", "nsubjpass"), None)
        if verb.dep not in ("relcl", "acl") or subject is None or subject.lower in RELATIVE:
            return []
        return self.nouns.objects_of(verb.head)[:1]

    def _read(self, index: int) -> list[int]:
        tokens = self.caption.tokens
        token = tokens[index]
        subject = next(self.caption.dependents(index, "nsubj", "nsubjpass"), None)
        if subject is not None and not (subject.lower in RELATIVE and token.dep in ("relcl", "acl")):
            if subject.lower in PRONOUNS and token.dep == "advcl":  # "a man smiles while he runs"
                return self.subjects(token.head)
            return self.nouns.objects_of(subject.index)
        if token.pos in ("NOUN", "PROPN", "PRON"):
            return self.nouns.objects_of(index)
        if token.head == index:
            existing = next(self.caption.dependents(index, "attr"), None)
            if existing is None or not self.caption.has(index, "expl"):
                return []
            return self.nouns.objects_of(existing.index)
        if token.dep in ("relcl", "acl", "amod"):
            return self.nouns.clause_subjects(token.head, index)
        if token.dep in _SHARED or token.pos in ("AUX", "VERB"):
            return self.subjects(token.head)
        return []


class Phrase(NamedTuple):
    """A preposition of one or more words, attached to token `head`; `object` is its noun, None if stranded."""

    tokens: tuple[int, ...]
    name: str
    head: int
    object: int | None


def phrases(caption: Caption) -> list[Phrase]:
    """The prepositional phrases of a caption, in text order of their first word."""
    tokens = caption.tokens
    inner: set[int] = set()
    phrases = []
    for token in tokens:
        if token.dep not in ("prep", "dative", "ROOT", "agent") or token.pos not in _ADVERBS or token.index in inner:
            continue
        words, object = _downward(caption, token.index)
        if object is None and token.dep != "prep":
            continue
        inner.update(words)
        head = token.head
        above = tokens[head]
        adverbial = above.dep in ("advmod", "acomp", "amod", "prt", "ROOT", "npadvmod", "oprd")
        if adverbial and above.pos in _ADVERBS and above.index == words[0] - 1 and above.index != token.index:
            words = (above.index, *words)
            head = above.head if above.dep != "ROOT" else above.index
        phrases.append(Phrase(words, " ".join(caption.lowered[w] for w in words), head, object))
    return phrases


def _downward(caption: Caption, index: int) -> tuple[tuple[int, ...], int | None]:
    """The words of a preposition and its final noun, through further prepositions and nouns of place with "of"."""
    words = [index]
    tokens = caption.tokens
    lowered = caption.lowered
    for _ in range(4):
        behind = [tokens[child] for child in caption.children[words[-1]] if child > words[-1]]
        noun = next((token.index for token in behind if token.dep == "pobj"), None)
        if noun is None:
            preposition = next((token.index for token in behind if token.dep == "prep"), None)
            if preposition is None:
                return tuple(words), None
            words.append(preposition)
            continue
        ofs = [token.index for token in caption.dependents(noun, "prep") if token.lower == "of"]
        if lowered[noun] not in WORDS["places"] or not ofs:
            return tuple(words), noun
        words += [child for child in caption.children[noun] if child < noun and lowered[child] in WORDS["between"]]
        words += [noun, ofs[-1]]
    return tuple(words), None


def relations(caption: Caption, nouns: Nouns) -> tuple[tuple[Relation, ...], list[tuple[int, int]]]:
    """The asserted relations of a caption in text order, and (object, verb) pairs of verbs that are attributes."""
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
    denied = denied_tokens(caption)
    asserted = [one for one in reader.found if denied.isdisjoint(one.tokens)]
    states = [(thing, verb) for thing, verb in states if verb not in denied]
    distinct = {(r.subject, r.object, r.name): r for r in reversed(asserted)}
    return tuple(sorted(distinct.values(), key=lambda r: (r.tokens or (r.object,), r.subject, r.object))), states


@cache
def is_substance(noun: str) -> bool:
    """Whether a noun's first WordNet sense is a food, liquid or substance, or it is listed."""
    wordnet = WordNet.load()
    first = wordnet.senses(noun, "n")[:1]
    is_below = bool(first) and wordnet.first_above(*SUBSTANCE_SYNSETS)[first[0]] < len(SUBSTANCE_SYNSETS)
    return noun in WORDS["substances"] or bool(is_below)


class _Reader:
    def __init__(self, caption: Caption, nouns: Nouns) -> None:
        self.caption = caption
        self.nouns = nouns
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
                if token.lemma in WORDS["containers"] or self._is_substance(phrase.object):
                    self.add(subjects, objects, phrase.tokens, "have")
                else:
                    self.add(objects, subjects, phrase.tokens, "have")
            else:
                self.add(subjects, objects, phrase.tokens, phrase.name)

    def _is_substance(self, noun: int) -> bool:
        """Whether the noun at token `noun`, without determiner, is a substance: "a pool of water"."""
        token = self.caption.tokens[noun]
        return token.tag == "NN" and not self.caption.has(noun, "det", "poss", "nummod") and is_substance(token.lemma)

    def verb(self, verb: Token, its: list[Phrase]) -> list[tuple[int, int]]:
        """Add the relations of a verb; returns (object, verb) pairs if it relates its subject to nothing."""
        caption = self.caption
        clauses = self.clauses
        subjects = clauses.subjects(verb.index)
        words: tuple[int, ...] = (verb.index,)
        name = verb.lemma
        objects: list[int] = []
        said = False
        for child in caption.children[verb.index]:
            token = caption.tokens[child]
            if token.dep == "prt":
                words = (*words, child)
                name = f"{name} {token.lower}"
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
