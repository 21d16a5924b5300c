"""The relations of a scene graph: verbs, prepositions and possessives between objects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..caption import Caption, Token
from ..language.negation import denied_tokens
from ..language.wordnet import WordNet
from ..slots.verbs import verb_table
from .nouns import WORDS, Nouns, Relation

RELATIVE = frozenset(("who", "which", "that", "whom"))
PRONOUNS = frozenset(("he", "she", "they", "it"))
INVERTED = frozenset(("cover", "surround"))  # "covered with snow", "covered in snow": the snow covers it
SUBSTANCE_SYNSETS = ("food.n.01", "food.n.02", "substance.n.01", "body_of_water.n.01")
# How many prepositions and nouns of place may stand below each other; a parse may be circular.
MAX_CHAIN = 4
# Parts of speech of a preposition, and of a word before it that belongs to it ("close to").
_PARTICLES = ("ADV", "ADJ", "SCONJ", "ADP", "PART")
# Dependencies of words that have the same subject as the word they depend on: "a dog runs and **barks**".
_SAME_SUBJECT = ("conj", "xcomp", "advcl", "ccomp", "pcomp", "dep", "prep", "prt", "aux")


class Clauses:
    """Finds the subjects and objects of the verbs of one caption."""

    def __init__(self, caption: Caption, nouns: Nouns) -> None:
        self.caption = caption
        self.nouns = nouns
        self._subjects: dict[int, list[int]] = {}

    def subjects(self, index: int) -> list[int]:
        """The things (head tokens of the caption's objects) that are the subject of the verb or predicate `index`.

        Those of a passive are what it is done to: the dog in "a dog is chased by a cat".
        """
        subjects = self._subjects.get(index)
        if subjects is None:
            self._subjects[index] = []  # ends the recursion where the parse goes round in circles
            subjects = self._subjects[index] = self._read(index)
        return subjects

    def is_passive(self, verb: Token) -> bool:
        """Whether a verb is passive: with an auxiliary or "by", or a participle with neither "have" nor a subject."""
        if verb.tag not in ("VBN", "VBD"):
            return False
        for child in self.caption.children[verb.index]:
            token = self.caption.tokens[child]
            if token.dep in ("auxpass", "nsubjpass", "agent"):
                return True
            if token.dep == "aux" and token.lemma == "have":
                return False
            # A relative pronoun does not tell: "a dog **which** chased by a cat".
            if token.dep == "nsubj" and token.lower not in RELATIVE:
                return False
        if verb.dep == "conj" and verb.head < verb.index:
            return self.is_passive(self.caption.tokens[verb.head])
        # A participle beside its noun is passive even if it is tagged as past tense: "a door **painted** red".
        return verb.dep in ("acl", "amod", "advcl") or verb.tag == "VBN"

    def filler_of_gap(self, index: int) -> list[int]:
        """The objects (head tokens) that fill the gap of a relative clause: the sofa in "the sofa the man is sitting
        on".

        Empty if token `index` does not head a relative clause with its own subject.
        """
        verb = self.caption.tokens[index]
        subject = self.caption.first_dependent(index, "nsubj", "nsubjpass")
        if verb.dep not in ("relcl", "acl") or subject is None or subject.lower in RELATIVE:
            return []
        return self.nouns.objects_of(verb.head)[:1]

    def _read(self, index: int) -> list[int]:
        """Read from the parse what `subjects` returns and remembers: the things (head tokens) that are the subject."""
        tokens = self.caption.tokens
        token = tokens[index]
        subject = self.caption.first_dependent(index, "nsubj", "nsubjpass")
        # A relative pronoun names nothing: the subject of "who runs" is what the clause belongs to, see below.
        if subject is not None and not (subject.lower in RELATIVE and token.dep in ("relcl", "acl")):
            # "a man smiles while he runs".
            if subject.lower in PRONOUNS and token.dep == "advcl":
                return self.subjects(token.head)
            return self.nouns.objects_of(subject.index)
        if token.pos in ("NOUN", "PROPN", "PRON"):
            return self.nouns.objects_of(index)
        # The root: "there is a dog sleeping".
        if token.head == index:
            existing = self.caption.first_dependent(index, "attr")
            if existing is None or not self.caption.has_dependent(index, "expl"):
                return []
            return self.nouns.objects_of(existing.index)
        if token.dep in ("relcl", "acl", "amod"):
            return self.nouns.clause_subjects(token.head, index)
        if token.dep in _SAME_SUBJECT or token.pos in ("AUX", "VERB"):
            return self.subjects(token.head)
        return []


class PrepositionalPhrase(NamedTuple):
    """A preposition of one or more words, attached to token `head`; `object` is its noun, None if stranded."""

    tokens: tuple[int, ...]
    name: str
    head: int
    object: int | None


def prepositional_phrases(caption: Caption) -> list[PrepositionalPhrase]:
    """The prepositional phrases of a caption, in text order of their first word: "in front of a car", "close to it"."""
    tokens = caption.tokens
    used: set[int] = set()  # the words of the phrases found so far: "of" of "in front of" begins no phrase of its own
    phrases = []
    for token in tokens:
        if token.dep not in ("prep", "dative", "ROOT", "agent") or token.pos not in _PARTICLES or token.index in used:
            continue
        preposition = _follow_preposition(caption, token.index)
        words = preposition.words
        if preposition.object is None and token.dep != "prep":  # but "the sofa he sits **on**" is a phrase
            continue
        used.update(words)
        head = token.head
        above = tokens[head]
        # In "a dog close to it", "close" belongs to the preposition, and the phrase is attached to "dog".
        is_adverb = above.pos in _PARTICLES and above.index == words[0] - 1 and above.index != token.index
        if is_adverb and above.dep in ("advmod", "acomp", "amod", "prt", "ROOT", "npadvmod", "oprd"):
            words = (above.index, *words)
            head = above.head if above.dep != "ROOT" else above.index
        name = " ".join(caption.lowered[word] for word in words)
        phrases.append(PrepositionalPhrase(tokens=words, name=name, head=head, object=preposition.object))
    return phrases


class _Preposition(NamedTuple):
    """The words of a preposition, and the noun that it governs; None if it governs none."""

    words: tuple[int, ...]
    object: int | None


def _follow_preposition(caption: Caption, index: int) -> _Preposition:
    """A preposition and its final noun, through further prepositions and nouns of place with "of": "on top of"."""
    words = [index]
    tokens = caption.tokens
    lowered = caption.lowered
    for _ in range(MAX_CHAIN):
        behind = [tokens[child] for child in caption.children[words[-1]] if child > words[-1]]
        noun = next((token.index for token in behind if token.dep == "pobj"), None)
        if noun is None:
            preposition = next((token.index for token in behind if token.dep == "prep"), None)
            if preposition is None:
                return _Preposition(tuple(words), None)
            words.append(preposition)
            continue
        of_words = [token.index for token in caption.dependents(noun, "prep") if token.lower == "of"]
        if lowered[noun] not in WORDS["places"] or not of_words:
            return _Preposition(tuple(words), noun)
        words += [child for child in caption.children[noun] if child < noun and lowered[child] in WORDS["between"]]
        words += [noun, of_words[-1]]
    return _Preposition(tuple(words), None)


class Described(NamedTuple):
    """An object, and a word that says something of it: token indices."""

    object: int
    word: int


class ClauseRelations(NamedTuple):
    """relations: what a caption asserts, in text order. states: the verbs that relate their subject to nothing ("a dog
    **sleeps**"), and so are attributes of it.
    """

    relations: tuple[Relation, ...]
    states: list[Described]


def read_relations(caption: Caption, nouns: Nouns) -> ClauseRelations:
    """The relations that a caption asserts, and the verbs that relate their subject to nothing.

    Relations come from verbs, prepositional phrases, possessives ("the man's hat") and words such as "covered" in "a
    snow-covered field". Those of denied words are left out. nouns: which objects the caption's nouns name.
    """
    collector = _RelationCollector(caption, nouns)
    phrases_of: dict[int, list[PrepositionalPhrase]] = {}
    for phrase in prepositional_phrases(caption):
        phrases_of.setdefault(phrase.head, []).append(phrase)
    states = []
    for token in caption.tokens:
        attached = phrases_of.get(token.index, [])
        if token.index in nouns.covers:
            covering = nouns.covers[token.index]  # the snow, which covers the field
            collector.add([covering], nouns.objects_of(token.head)[:1], (token.index,), token.lemma)
        elif token.pos == "VERB":
            states += collector.add_verb(token, attached)
        elif attached:
            collector.add_noun(token, attached)
        if token.dep == "poss":  # "the man's hat": the man has it
            collector.add(nouns.objects_of(token.index), nouns.objects_of(token.head)[:1], (), "have")
    denied = denied_tokens(caption)
    asserted = [relation for relation in collector.relations if denied.isdisjoint(relation.tokens)]
    # If several relations of one name hold between two objects, the first stays: it is put into the dict last.
    distinct = {(relation.subject, relation.object, relation.name): relation for relation in reversed(asserted)}
    # By the words of the relation; one without words, as of "the man's hat", stands where its object does.
    in_order = sorted(distinct.values(), key=lambda r: (r.tokens or (r.object,), r.subject, r.object))
    return ClauseRelations(tuple(in_order), [state for state in states if state.word not in denied])


@cache
def is_substance(noun: str) -> bool:
    """Whether a noun is a food, liquid or substance, by its first WordNet sense or the list "substances"."""
    wordnet = WordNet.load()
    first = wordnet.senses(noun, "n")[:1]
    # `first_above` gives the number of these synsets if the sense is below none of them.
    is_below = bool(first) and wordnet.first_above(*SUBSTANCE_SYNSETS)[first[0]] < len(SUBSTANCE_SYNSETS)
    return noun in WORDS["substances"] or bool(is_below)


class _RelationCollector:
    """Collects the relations of one caption."""

    def __init__(self, caption: Caption, nouns: Nouns) -> None:
        self.caption = caption
        self.nouns = nouns
        self.clauses = Clauses(caption, nouns)
        self.relations: list[Relation] = []

    def add(self, subjects: Iterable[int], objects: Iterable[int], tokens: tuple[int, ...], name: str) -> bool:
        """Relate all subjects to all objects; returns whether any relation was added.

        Args:
            subjects, objects: their head tokens.
            tokens: the words of the relation, () if there are none.
            name: of the relation, such as "sit on".
        """
        before = len(self.relations)
        for subject in subjects:
            for object in objects:
                if subject != object:
                    self.relations.append(Relation(subject=subject, object=object, tokens=tokens, name=name))
        return len(self.relations) > before

    def add_mutual(self, subjects: list[int], tokens: tuple[int, ...], name: str) -> bool:
        """Relate the first subject to the others, a single plural to itself: "dogs face each other".

        Returns whether there was any subject.
        """
        others = subjects[1:] or subjects
        self.relations += [Relation(subject=subjects[0], object=other, tokens=tokens, name=name) for other in others]
        return bool(subjects)

    def add_noun(self, token: Token, attached: list[PrepositionalPhrase]) -> None:
        """Add the relations of the prepositional phrases attached to a noun, an adjective or a form of "be".

        "A dog on a sofa" is (dog, on, sofa); "of" names the owner, "the roof of a house" is (house, have, roof).
        """
        is_noun = token.pos in ("NOUN", "PROPN", "PRON")
        subjects_of_clause = self.clauses.subjects(token.index)
        for phrase in attached:
            subjects = subjects_of_clause
            if is_noun:
                subjects = self.nouns.clause_subjects(token.index, phrase.tokens[0])
            # "the sofa the man is on".
            if phrase.object is None:
                self.add(subjects, self.clauses.filler_of_gap(token.index), phrase.tokens, phrase.name)
            elif phrase.object in self.nouns.mutual:
                self.add_mutual(subjects, phrase.tokens, phrase.name)
            elif phrase.name != "of":
                self.add(subjects, self.nouns.objects_of(phrase.object), phrase.tokens, phrase.name)
            elif is_noun and token.index not in self.nouns.stands_for:  # "a group of dogs" is no relation
                objects = self.nouns.objects_of(phrase.object)
                # "a bowl of soup".
                if token.lemma in WORDS["containers"] or self._is_substance(phrase.object):
                    self.add(subjects, objects, phrase.tokens, "have")
                else:  # "the roof of a house": the house has it
                    self.add(objects, subjects, phrase.tokens, "have")

    def _is_substance(self, noun: int) -> bool:
        """Whether the noun at token `noun`, without determiner, is a substance: "a pool of water"."""
        token = self.caption.tokens[noun]
        return (
            token.tag == "NN"
            and not self.caption.has_dependent(noun, "det", "poss", "nummod")
            and is_substance(token.lemma)
        )

    def add_verb(self, verb: Token, attached: list[PrepositionalPhrase]) -> list[Described]:
        """Add the relations of a verb and of the phrases attached to it.

        Returns:
            The verb for each of its subjects if it relates them to nothing, and so describes them.
        """
        caption = self.caption
        clauses = self.clauses
        subjects = clauses.subjects(verb.index)
        words: tuple[int, ...] = (verb.index,)
        name = verb.lemma
        objects: list[int] = []
        relates = False
        for child in caption.children[verb.index]:
            token = caption.tokens[child]
            if token.dep == "prt":
                words = (*words, child)
                name = f"{name} {token.lower}"
            elif token.dep == "dobj" and child in self.nouns.mutual:
                relates = self.add_mutual(subjects, words, name)
            elif token.dep in ("dobj", "dative") and token.pos in ("NOUN", "PROPN", "PRON"):
                objects += self.nouns.objects_of(child)
        gap = clauses.filler_of_gap(verb.index)
        is_stranded = any(phrase.object is None for phrase in attached)
        # "the ball the boy throws".
        if gap and not objects and not is_stranded:
            objects = gap
        relates |= self.add(subjects, objects, words, name)

        # Without an object the first phrase belongs to the relation, the second does not: "sit on" a sofa, "in" a room.
        joins_phrase = not relates and not objects
        for phrase in attached:
            ends = gap if phrase.object is None else self.nouns.objects_of(phrase.object)
            is_agent = phrase.name == "by" or (verb.lemma in INVERTED and phrase.name in ("with", "in"))
            # "held by a boy": the boy holds it.
            if is_agent and clauses.is_passive(verb):
                relates |= self.add(ends, subjects, words, name)
            elif not joins_phrase:
                relates |= self.add(subjects, ends, phrase.tokens, phrase.name)
            else:
                joined = (*words, *phrase.tokens)
                if phrase.object in self.nouns.mutual:
                    relates |= self.add_mutual(subjects, joined, f"{name} {phrase.name}")
                else:
                    relates |= self.add(subjects, ends, joined, f"{name} {phrase.name}")
                joins_phrase = False
        # A verb that relates its subject to nothing describes it: "a dog sleeps"; not before a noun, nor in "to sleep".
        is_attribute = not (relates or gap or verb.dep in ("amod", "compound") or verb.tag == "VB")
        if not is_attribute or verb.lemma in verb_table().vague:
            return []
        return [Described(subject, verb.index) for subject in subjects]
