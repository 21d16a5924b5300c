"""The parts of a scene graph; which nouns of a caption name objects, and which object a noun stands for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ..caption import Caption, Token
from ..data import data_path, word_lists
from ..language.negation import NEGATIONS, is_denied_noun
from ..language.semantic_classes import WARMTH, attribute_table, is_compound, is_person

WORDS: dict[str, frozenset[str]] = word_lists(data_path("scene_graph.toml"))
MATERIALS = WORDS["materials"]
COLOURS = WORDS["colours"]
LOOKS = WORDS["looks"]
WRITTEN = {"wood": "wooden", "both": "two", "pieces": "piece", "slices": "slice"}
# Nouns before "of" that are an attribute of the noun after it; True: the attribute includes "of" ("group of").
FORMS = {"group": True, "piece": False, "pieces": False, "slice": False, "slices": False, "patch": False}
MUTUAL = frozenset((("each", "other"), ("one", "another")))
_LEADING = ("ROOT", "nsubj", "nsubjpass", "attr")  # dependencies of the nouns that a clause is about
_SIZES = frozenset(("size", "pattern", "age", "years"))  # dimensions of attributes that are no part of a name
_INNER = ("compound", "nmod")  # dependencies of the words of a name on its head noun: "**tennis** racket"
# How many nouns one may stand for, directly or not; a parse may be circular.
MAX_PENDING = 20


class Object(NamedTuple):
    """An object: `token` is its head noun, `start` the first token of its name, `name` e.g. "tennis racket".

    As in all parts of a scene graph, positions are token indices of the caption.
    """

    token: int
    start: int
    name: str


class Attribute(NamedTuple):
    """An attribute of the object with head token `object`: tokens `start` to `end` (exclusive), with head word `token`.

    value: the text in lower case, a few words normalised ("wood" -> "wooden").
    """

    object: int
    token: int
    start: int
    end: int
    value: str


class Relation(NamedTuple):
    """A relation between two objects, given by head tokens; `name` is e.g. "wear", "in front of", "sit on", "have".

    tokens: the words of the relation; empty if there are none ("the man's hat").
    """

    subject: int
    object: int
    tokens: tuple[int, ...]
    name: str


class SceneGraph(NamedTuple):
    """Objects in text order; attributes by object, in text order; relations in text order of their words."""

    objects: tuple[Object, ...]
    attributes: tuple[Attribute, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True)
class Nouns:
    """How a caption's nouns map to objects; all keys and values are token indices.

    objects: by head token.
    stands_for: portion noun -> the noun that it is a portion of ("a **group** of dogs").
    modifiers: noun modifiers that are attributes, not part of a name ("**brick** wall") -> head of their object.
    named: adjectives that are part of a name ("**hot** dog", "**right** hand").
    covers: participle -> the noun before it ("a **snow**-covered field").
    mutual: the last word of "each other" and "one another".
    """

    caption: Caption
    objects: dict[int, Object]
    stands_for: dict[int, int]
    modifiers: dict[int, int]
    named: frozenset[int]
    covers: dict[int, int]
    mutual: frozenset[int]

    @classmethod
    def read(cls, caption: Caption) -> Nouns:
        """Find which nouns of a caption name objects, and where the name of each begins.

        Of "a group of dogs behind a brick wall" these are "dog" and "wall": "group" stands for the dogs, and "brick" is
        an attribute.
        """
        objects: dict[int, Object] = {}
        stands_for: dict[int, int] = {}
        modifiers: dict[int, int] = {}
        named: set[int] = set()
        covers = _covers(caption)
        tokens = caption.tokens
        covering = set(covers.values())
        mutual = frozenset(i for i, pair in enumerate(pairwise(caption.lowered), start=1) if pair in MUTUAL)
        nameless = mutual | _paired(caption)  # nouns of set phrases
        for token in tokens:
            index = token.index
            if not _is_noun(token) or index in nameless or _names_nothing(caption, token):
                continue
            if token.dep in _INNER and _is_noun(tokens[token.head]) and index not in covering:
                # "tennis" of "tennis racket".
                continue
            of_noun = _noun_after_of(caption, index)
            # "a group of dogs".
            if of_noun is not None and token.lemma in WORDS["portions"]:
                stands_for[index] = of_noun
                continue
            if of_noun is not None and caption.lowered[index] in WORDS["places"] and token.dep == "pobj":
                # "on top of a table", which is a relation.
                continue

            # A name begins with its compounds, but attributes among these ("brick wall") are no part of it.
            start = index
            while start > 0 and tokens[start - 1].dep in _INNER and tokens[start - 1].head in range(start, index + 1):
                start -= 1
            while start < index and _is_attribute(tokens[start], caption):
                modifiers[start] = index
                start += 1
            if _is_adjective_of_name(caption, start, index):
                start -= 1
                named.add(start)
            name = " ".join([*caption.lowered[start:index], token.lemma])
            objects[index] = Object(token=index, start=start, name=name)
        return cls(
            caption=caption,
            objects=objects,
            stands_for=stands_for,
            modifiers=modifiers,
            named=frozenset(named),
            covers=covers,
            mutual=mutual,
        )

    def objects_of(self, index: int) -> list[int]:
        """The objects (head tokens) that a noun means: of "group" in "a group of dogs and a cat", "dogs" and "cat"."""
        objects = []
        pending = [index]
        for noun in pending:  # this also visits the nouns that are appended below
            thing = self.stands_for.get(noun, noun)
            if thing != noun:
                pending.append(thing)
            elif thing in self.objects:
                objects.append(thing)
            pending += [child.index for child in self.caption.dependents(noun, "conj")]
            del pending[MAX_PENDING:]  # so that this ends where the parse goes round in circles
        return objects

    def clause_subjects(self, index: int, clause: int) -> list[int]:
        """The subjects (head tokens) of a clause or phrase with head token `clause` that is attached to noun `index`.

        In a coordination, all conjuncts before the clause: "a man and a woman holding umbrellas". There are three
        exceptions, in which only noun `index` is meant: conjuncts of which some are persons and some are not ("a dog
        and a man holding umbrellas"); a phrase in a coordination that does not lead its clause ("in a suit and a hat
        with a feather"); and a conjunct with a modifier of its own ("a man on a bench and a woman holding umbrellas").
        """
        tokens = self.caption.tokens
        is_about_person = is_person(tokens[index].lemma)
        first = index
        while tokens[first].dep == "conj" and tokens[first].head < first and _is_noun(tokens[tokens[first].head]):
            first = tokens[first].head
            modifiers = self.caption.dependents(first, "prep", "acl", "relcl")
            is_modified = any(modifier.index > first for modifier in modifiers)
            if is_modified or is_person(tokens[first].lemma) != is_about_person:
                return self.objects_of(index)[:1]
        if first != index and tokens[clause].pos != "VERB" and tokens[first].dep not in _LEADING:
            first = index
        subjects = self.objects_of(first)
        if len(subjects) < 2:
            return subjects
        return [thing for thing in subjects if thing < clause]


def _paired(caption: Caption) -> set[int]:
    """The tokens of the nouns of "side by side", "hand in hand", "back to back", which name no objects."""
    lowered = caption.lowered
    paired = set()
    for index, word in enumerate(lowered[1:-1], start=1):
        if word in ("by", "in", "to") and lowered[index - 1] == lowered[index + 1]:
            paired |= {index - 1, index + 1}
    return paired


def _noun_after_of(caption: Caption, index: int) -> int | None:
    """The noun after "of" that depends on the noun at token `index`: dogs of "a group of dogs"; None without."""
    for preposition in caption.dependents(index, "prep"):
        if preposition.lower == "of":
            for noun in caption.dependents(preposition.index, "pobj"):
                return noun.index
    return None


def _is_adjective_of_name(caption: Caption, start: int, index: int) -> bool:
    """Whether the word before a name, from token `start` to the noun `index`, belongs to it: "hot dog", which WordNet
    has, and "right hand"; not "young man", since young is visible.
    """
    if start == 0:
        return False
    adjective = caption.tokens[start - 1]
    if adjective.dep != "amod" or adjective.head != index:
        return False
    is_in_wordnet = start == index and is_compound(adjective.lower, caption.tokens[index].lemma)
    return is_in_wordnet or adjective.lower in WORDS["sides"]


def _is_noun(token: Token) -> bool:
    """Whether a word is a noun or a name."""
    return token.pos in ("NOUN", "PROPN")


def _is_attribute(token: Token, caption: Caption) -> bool:
    """Whether a word before a noun describes it and is no part of its name: a material, a colour, an age or a size."""
    word = caption.lowered[token.index]
    dimensions = attribute_table().dimensions.get(word, WARMTH)
    return word in MATERIALS or word in COLOURS or word in WORDS["ages"] or not dimensions.isdisjoint(_SIZES)


def is_look(token: Token) -> bool:
    """Whether a word forms one attribute with the word before it: "heart-**shaped** cake", not "a woman looking up"."""
    return token.dep in ("amod", "compound", "nmod") and token.head > token.index and token.lower in LOOKS


def is_colour(token: Token) -> bool:
    """Whether a noun is a colour that describes something: "the car is **blue**", "red, white and **blue**"."""
    return token.dep in ("attr", "acomp", "conj") and token.pos == "NOUN" and token.lower in COLOURS


def in_colour(caption: Caption, token: Token) -> bool:
    """Whether a noun is a colour that a person wears or a picture has: "a man in **black**"."""
    while token.dep == "conj" and token.head < token.index and token.lower in COLOURS:
        token = caption.tokens[token.head]
    if token.dep != "pobj" or token.head >= token.index or token.lower not in COLOURS:
        return False
    is_last = token.index + 1 == len(caption.tokens)
    following_tag = "" if is_last else caption.tokens[token.index + 1].tag
    # "In black", "in all black"; but "in black shoes" says what the shoes are like.
    return caption.lowered[token.index - 1] in ("in", "all") and following_tag not in ("NN", "NNS", "JJ", "VBN")


def _names_nothing(caption: Caption, token: Token) -> bool:
    """Whether a noun names no object of the image: "no cars", "in front", "the other", the heart of "heart-shaped"."""
    lowered = caption.lowered
    index = token.index
    if lowered[index] in WORDS["nameless"] or (lowered[index] == "front" and token.dep == "pobj"):
        return True
    following = index + 2 if caption.word(index + 1) == "-" else index + 1
    if caption.word(following) in LOOKS and is_look(caption.tokens[following]):  # "heart - shaped"
        return True
    if is_denied_noun(caption, index) or token.lower in NEGATIONS:
        return True
    if any(lowered[child] == "zero" for child in caption.children[index]):
        return True
    # "The car is blue": a colour is an attribute, except in "a car and a blue" where it is joined to a noun.
    if is_colour(token):
        return token.dep != "conj" or caption.tokens[token.head].pos in ("ADJ", "VERB")
    return in_colour(caption, token)


def _covers(caption: Caption) -> dict[int, int]:
    """The token of each word such as "covered" between two nouns, with that of the first noun.

    "a snow-**covered** field" -> {3: 1}: the hyphen is a token, too.
    """
    covers: dict[int, int] = {}
    if WORDS["covering"].isdisjoint(caption.lowered):
        return covers
    for token in caption.tokens:
        if token.lower in WORDS["covering"] and token.dep in ("amod", "compound", "nmod") and token.head > token.index:
            has_hyphen = caption.word(token.index - 1) == "-"
            before = token.index - 2 if has_hyphen else token.index - 1
            if before >= 0 and _is_noun(caption.tokens[before]):
                covers[token.index] = before
    return covers
