"""Noun phrases, objects and places of the caption grammar, as trees."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from .lexical import TAG_TO_POS
from .tree import Tree


def _read_words(path: Path) -> dict[str, Any]:
    """The vocabulary: every string becomes a list of its words; an entry of several words has "_" between them."""

    def split(value: object) -> object:
        """Split all strings in a value, at any depth of tables."""
        if isinstance(value, dict):
            return {name: split(entries) for name, entries in value.items()}
        return value.split() if isinstance(value, str) else value

    return {name: split(value) for name, value in tomllib.loads(path.read_text("utf-8")).items()}


WORDS = _read_words(Path(__file__).with_name("captions.toml"))
IRREGULAR = {tag: dict(pair.split(":") for pair in pairs) for tag, pairs in WORDS["irregular"].items()}


def inflected(word: str, tag: str) -> str:
    """Return the form of a noun or verb that has a Penn tag.

    NNS: man -> men. VBZ: watch -> watches. VBG: ride -> riding, run -> running. VBN: cover -> covered, make -> made.
    """
    if word in IRREGULAR.get(tag, {}):
        return IRREGULAR[tag][word]
    ends_in_y = word.endswith("y") and word[-2] not in "aeou"  # after a consonant: carry -> carries, but play -> plays
    stem = word + word[-1] if word in WORDS["doubling"] else word
    match tag:
        case "VBG" if word.endswith("e") and not word.endswith("ee"):
            return word[:-1] + "ing"
        case "VBG":
            return stem + "ing"
        case "VBN" if ends_in_y:
            return word[:-1] + "ied"
        case "VBN":
            return stem + ("d" if stem.endswith("e") else "ed")
        case "VBZ" | "NNS" if word.endswith(("s", "x", "z", "ch", "sh")):
            return word + "es"
        case "VBZ" | "NNS" if ends_in_y:
            return word[:-1] + "ies"
        case "VBZ" | "NNS":
            return word + "s"
    return word


@dataclass
class Node:
    """A word with its Penn tag, dependency label, and dependents on either side, each from left to right."""

    form: str
    tag: str
    dep: str = ""
    left: list["Node"] = field(default_factory=list)
    right: list["Node"] = field(default_factory=list)

    def labelled(self, dep: str) -> "Node":
        """Set the dependency label and return the node itself."""
        self.dep = dep
        return self

    def before(self, *nodes: "Node") -> "Node":
        """Put dependents before all others, and return the node itself."""
        self.left[:0] = nodes
        return self

    def after(self, *nodes: "Node") -> "Node":
        """Put dependents after all others, and return the node itself."""
        self.right += nodes
        return self


def leaf(described: str) -> Node:
    """Return a node without dependents from its form, tag and, if it has one already, label: "the/DT/det"."""
    form, tag, dep = f"{described}/".split("/")[:3]
    return Node(form, tag, dep)


def comma() -> Node:
    """Return a comma, as a dependent of any word."""
    return leaf(",/,/punct")


def flatten(root: Node) -> Tree:
    """Return the tree below `root` in word order: left dependents, the word, right dependents; labels the root ROOT."""
    tree = Tree([], [], [], [], [], [])

    def visit(node: Node) -> int:
        """Add a node and all below it; returns its index."""
        lefts = [visit(child) for child in node.left]
        index = len(tree)
        tree.forms.append(node.form)
        tree.tags.append(node.tag)
        tree.pos.append("AUX" if node.dep in ("aux", "auxpass") and node.tag != "TO" else TAG_TO_POS[node.tag])
        tree.deps.append(node.dep)
        tree.heads.append(-1)
        for child in lefts + [visit(child) for child in node.right]:
            tree.heads[child] = index
        return index

    visit(root.labelled("ROOT"))
    for form, following in pairwise(tree.forms):
        tree.spaces.append(form != "-" and following not in (".", ",", "'s", "'", "-"))
    tree.spaces.append(True)
    return tree


def coordinate(parts: list[Node], oxford: bool = False) -> Node:
    """Coordinate noun or verb phrases (a, b and c) in place, and return the first.

    Each conjunct, with conjunction and comma, becomes a dependent of the previous one. oxford: with a comma before the
    conjunction of more than two.
    """
    # From the last to the first, so that a conjunct is complete when it becomes a dependent.
    for index in range(len(parts) - 1, 0, -1):
        previous = parts[index - 1]
        is_last = index == len(parts) - 1
        if not is_last or (oxford and len(parts) > 2):
            previous.after(comma())
        if is_last:
            previous.after(leaf("and/CC/cc"))
        previous.after(parts[index].labelled("conj"))
    return parts[0]


def preposition(name: str, complement: Node, dep: str = "prep") -> Node:
    """Return a preposition with a node as its object.

    Args:
        name: its words, joined by "_". "on": on -> object (pobj). "next_to", "close_to": an adverb (advmod), then "to"
            below it. "in_front_of": in -> front (pobj) -> of. "out_of", "down_at": a chain of two prepositions.
        complement: the object.
        dep: the label of the preposition.
    """
    first, *words = name.split("_")
    complement.labelled("pobj")
    if not words:
        return Node(first, "IN", dep, right=[complement])
    inner = Node(words[-1], "IN", "prep", right=[complement])
    if first in ("next", "close"):
        return Node(first, "RB", "advmod", right=[inner])
    if len(words) == 2:
        inner = Node(words[0], "NN", "pobj", right=[inner])
    return Node(first, "IN", dep, right=[inner])


T = TypeVar("T")
NOUNS = WORDS["nouns"]
ADJECTIVES = WORDS["adjectives"]
OBJECTS = WORDS["objects"]
COLOURS = ADJECTIVES["colour"]
# Kinds of nouns that have the adjectives of another kind.
ADJECTIVE_KINDS = {"vehicle": "thing", "clothes": "colour"}
_NOUN_LISTS = (
    NOUNS["thing"], NOUNS["place"], NOUNS["vehicle"], NOUNS["food"], WORDS["food_mass"], WORDS["mass"], NOUNS["animal"],
)  # fmt: skip
PLAIN_NOUNS = [word for entries in _NOUN_LISTS for word in entries if not set("_-") & set(word)]


def chance(rng: Random, probability: float) -> bool:
    """Return True with a probability from 0 to 1."""
    return rng.random() < probability


def weighted(rng: Random, weights: Mapping[T, float]) -> T:
    """Return one of the keys at random, in proportion to their values."""
    return rng.choices(list(weights), list(weights.values()))[0]


def noun(rng: Random, word: str, many: bool = False) -> Node:
    """Return a vocabulary entry as a noun, plural if many: tennis_racket, hot_dog, t-shirt, slice_of_pizza."""
    if "_of_" in word:
        head, inner = word.split("_of_")
        return of(noun(rng, head, many), Node(inner, "NN"))
    before_dash, dash, last = word.rpartition("-")
    *before, head = last.split("_")
    is_plain = not before and not dash and word not in NOUNS["person"]
    # Some plain nouns become compounds with any other plain noun.
    if is_plain and chance(rng, 0.10):
        before = [rng.choice(PLAIN_NOUNS)]
    tag = "NNS" if many else "NN"
    node = Node(inflected(head, tag), tag)
    for part in before:
        node.left.append(leaf(f"{part}/JJ/amod" if part in WORDS["adjective_first"] else f"{part}/NN/compound"))
    if dash:
        node.left += [Node(before_dash, "NN", "compound"), leaf("-/HYPH/punct")]
    return node


def of(head: Node, inner: Node) -> Node:
    """Add "of" + the noun phrase `inner` to the noun `head`, and return it."""
    return head.after(preposition("of", inner))


def adjectives(word: str) -> list[Node]:
    """Return an adjective entry as amod nodes: plain, "black_and_white", "long-haired", "snow-covered"."""
    if "_and_" in word:
        first, second = word.split("_and_")
        return [coordinate([Node(first, "JJ", "amod"), Node(second, "JJ", "conj")])]
    first, _, last = word.partition("_")
    # Two words of which the second is a participle: "snow covered", "neatly made".
    if last in WORDS["participles_after"]:
        role = "RB/advmod" if first.endswith("ly") or first == "well" else "NN/npadvmod"
        return [Node(last, "VBN", "amod", [leaf(f"{first}/{role}")])]
    if last:  # two adjectives
        return [Node(first, "JJ", "amod"), Node(last, "JJ", "amod")]
    if "-" in word:  # "snow-covered", "long-haired"
        first, last = word.split("-")
        tag = "VBN" if last in ("covered", "lined", "eaten", "dressed") else "JJ"
        roles = {"snow": "NN/npadvmod", "tree": "NN/npadvmod", "half": "RB/advmod", "well": "RB/advmod"}
        front = [leaf(f"{first}/{roles.get(first, 'JJ/amod')}"), leaf("-/HYPH/punct")]
        return [Node(last, tag, "amod", front)]
    if word in WORDS["participial"] and word.endswith("ing"):
        return [Node(word, "VBG", "amod")]
    if word in WORDS["participial"] and word == "parked":
        return [Node(word, "VBN", "amod")]
    return [Node(word, "JJ", "amod")]


def modified(rng: Random, kind: str, node: Node) -> Node:
    """Add zero to two adjectives (or a colour, a material, an age) that suit the kind before the noun `node`."""
    suitable = ADJECTIVES[ADJECTIVE_KINDS.get(kind, kind)]
    front: list[Node] = []
    if chance(rng, 0.42):
        front += _one_or_two_adjectives(rng, kind, suitable)
    if chance(rng, 0.025):
        front = _many_adjectives(rng, suitable)
    if kind == "person" and chance(rng, 0.02):
        front = [_years_old(rng)]
    if kind in ("thing", "vehicle", "place") and chance(rng, 0.1):
        materials = rng.sample(WORDS["materials"], 2 if chance(rng, 0.3) else 1)
        front.append(coordinate([Node(word, "NN") for word in materials]).labelled("compound"))
    return node.before(*front)


def _one_or_two_adjectives(rng: Random, kind: str, suitable: list[str]) -> list[Node]:
    """Return "big", "big red", "big, red", "very big"."""
    front = adjectives(rng.choice(suitable))
    if chance(rng, 0.25) and kind != "place":
        if chance(rng, 0.2):
            front.append(comma())
        front += adjectives(rng.choice(COLOURS if kind != "person" else WORDS["person_colours"]))
    if chance(rng, 0.05):
        front[0].before(Node(rng.choice(["very", "brightly", "really", "extremely"]), "RB", "advmod"))
    return front


def _many_adjectives(rng: Random, suitable: list[str]) -> list[Node]:
    """Return "snowy, icy, empty", or "red, white, and blue"."""
    front: list[Node] = []
    for _ in range(rng.choice([2, 2, 3])):
        front += [*adjectives(rng.choice(suitable)), comma()]
    front.pop()  # the last comma
    if chance(rng, 0.4):
        colours = rng.sample(COLOURS, rng.choice([2, 3]))
        return [coordinate([Node(word, "JJ", "amod") for word in colours], oxford=True)]
    return front


def _years_old(rng: Random) -> Node:
    """Return "two year old", "two-year-old"."""
    year = leaf("year/NN/npadvmod").before(Node(rng.choice(["two", "three", "5"]), "CD", "nummod"))
    old = Node("old", "JJ", "amod", [year])
    if chance(rng, 0.6):
        year.left.append(leaf("-/HYPH/punct"))
        old.left.append(leaf("-/HYPH/punct"))
    return old


def determined(rng: Random, node: Node, many: bool, bare: float) -> Node:
    """Put a determiner, possessive or number before a noun phrase: "the dog", "his dog", "two dogs".

    Args:
        rng: draws it.
        node: the head of the phrase.
        many: whether it is plural.
        bare: the probability that nothing is put before it.
    """
    if chance(rng, bare):
        return node
    if many:
        number = leaf(rng.choice(WORDS["numbers"]))
        if chance(rng, 0.2):
            return node.before(leaf(rng.choice(WORDS["plural_determiners"])))
        if chance(rng, 0.05):
            return node.before(leaf("a/DT/det"), leaf("few/JJ/amod"))
        if number.tag == "CD" and chance(rng, 0.06):
            return node.before(number, leaf("other/JJ/amod"))
        return node.before(number)
    # The first word of the phrase so far, which decides between "a" and "an".
    following = node
    while following.left:
        following = following.left[0]
    front = [leaf(described) for described in weighted(rng, WORDS["determiners"]).split()]
    if front[0].form == "a" and following.form[0] in "aeio":
        front[0].form = "an"
    return node.before(*front)


def noun_phrase(rng: Random, kind: str, many: bool | None = None, bare: float = 0.04) -> Node:
    """Return a base noun phrase.

    Args:
        rng: chooses.
        kind: person, animal, vehicle, thing, place, food or clothes.
        many: whether it is plural; None for a random choice.
        bare: the probability that it has no determiner.
    """
    if many is None:
        many = chance(rng, 0.22) and kind not in ("place", "clothes")
    if kind == "person" and many and chance(rng, 0.6):
        people = Node(rng.choice(WORDS["people"]), "NNS")
        return determined(rng, modified(rng, kind, people), many=True, bare=max(bare, 0.3))
    if kind == "clothes" and chance(rng, 0.3):  # "jeans"
        return determined(
            rng, modified(rng, kind, Node(rng.choice(WORDS["clothes_plural"]), "NNS")), many=True, bare=0.85
        )
    if kind in ("food", "thing", "place") and chance(rng, 0.08):  # "grass"
        mass = noun(rng, rng.choice(WORDS["food_mass" if kind == "food" else "mass"]))
        return determined(rng, mass, many=False, bare=0.6) if chance(rng, 0.8) else modified(rng, kind, mass)
    # "a bowl of apples".
    if (kind == "food" and chance(rng, 0.12)) or (kind == "thing" and chance(rng, 0.03)):
        is_mass = chance(rng, 0.5)
        inner = noun(rng, rng.choice(WORDS["food_mass"] if is_mass else NOUNS["food"]), not is_mass)
        return of(determined(rng, noun(rng, rng.choice(WORDS["portions"])), many=False, bare=bare), inner)
    node = modified(rng, kind, noun(rng, rng.choice(NOUNS[kind]), many))
    node = determined(rng, node, many, max(bare, 0.3) if many else bare)
    # "the man 's hat".
    if kind in ("thing", "place", "vehicle") and chance(rng, 0.03):
        owner = noun(rng, rng.choice(NOUNS["person"] + NOUNS["animal"]))
        owner = determined(rng, owner, many=False, bare=0.0).after(leaf("'s/POS/case"))
        node.left = [owner.labelled("poss"), *(part for part in node.left if part.dep in ("amod", "compound"))]
    return node


def body_part(rng: Random) -> Node:
    """Return "his hand", "its mouth", "their heads"."""
    many = chance(rng, 0.3)
    node = noun(rng, rng.choice(WORDS["body"]), many)
    if chance(rng, 0.1):
        node.left.append(Node(rng.choice(["left", "right", "front", "bare"]), "JJ", "amod"))
    owner = Node(rng.choice(["his", "her", "its", "their"]), "PRP$", "poss")
    return node.before(leaf("the/DT/det") if chance(rng, 0.15) else owner)


def object_of(rng: Random, kind: str) -> Node:
    """Return an object of a verb, sometimes two: "a ball", "a ball and a bat".

    Args:
        rng: draws it.
        kind: of object: "body" (a part of one), a kind of the vocabulary, or the noun itself.
    """
    if kind == "body":
        return body_part(rng)
    if kind in NOUNS:
        node = noun_phrase(rng, kind)
        if kind not in ("vehicle", "place") and chance(rng, 0.3 if kind == "clothes" else 0.15):
            parts = [node] + [noun_phrase(rng, kind) for _ in range(rng.choice([1, 1, 1, 2]))]
            return coordinate(parts, oxford=chance(rng, 0.4))
        return node
    if kind not in OBJECTS:
        return determined(rng, noun(rng, kind), many=False, bare=0.1)
    word = rng.choice(OBJECTS[kind])
    if word[0] == "@":  # without a determiner
        return noun(rng, word[1:])
    if word[0] == "^":  # always plural
        return determined(rng, Node(word[1:], "NNS"), many=True, bare=0.5)
    many = chance(rng, 0.1)
    return determined(rng, modified(rng, "thing", noun(rng, word, many)), many, 0.08)


def location(rng: Random, name: str = "") -> Node:
    """Draw a phrase of place: "on a beach", "on a beach near the sea", "at the edge of a field", "in the background".

    Args:
        rng: draws it.
        name: the preposition, such as "on" or "in_front_of"; "": any.
    """
    if not name and chance(rng, 0.08):
        return _setting(rng)
    if not name and chance(rng, 0.1):
        return _part_of_place(rng)
    name = name or rng.choice(WORDS["prepositions"])
    kinds = WORDS["targets"].get(name, ["place", "thing", "vehicle", "person", "animal"])
    if name in ("between", "in_between"):
        return preposition(name, coordinate([noun_phrase(rng, "thing"), noun_phrase(rng, "thing")]))
    target = noun_phrase(rng, rng.choice(kinds))
    if chance(rng, 0.05) and name in ("with", "at", "around", "near", "against"):
        target = _pronoun(rng)
    elif chance(rng, 0.08):
        target.after(location(rng, rng.choice(["in", "of", "with", "near", "on"])))
    elif chance(rng, 0.06):
        coordinate([target, noun_phrase(rng, rng.choice(kinds))])
    phrase = preposition(name, target)
    if chance(rng, 0.02) and phrase.tag == "IN":
        phrase.left.append(Node(rng.choice(["right", "just", "directly", "halfway", "all"]), "RB", "advmod"))
    return phrase


def _setting(rng: Random) -> Node:
    """Return "in the background", "on a sunny day"."""
    first, *before, head = rng.choice(WORDS["settings"]).split("_")
    roles = {"the": "DT/det", "a": "DT/det", "sunny": "JJ/amod", "mid": "JJ/amod"}
    front = [leaf(f"{word}/{roles.get(word, 'NN/amod')}") for word in before]
    return preposition(first, Node(head, "NN", left=front))


def _part_of_place(rng: Random) -> Node:
    """Return "at the edge of NP", "on top of NP"."""
    first, part = rng.choice(WORDS["location_nouns"]).split(":")
    head = Node(part, "NN", left=[Node(rng.choice(["the", "the", "the", "a"]), "DT", "det")])
    return preposition(first, of(head, noun_phrase(rng, rng.choice(["place", "thing", "vehicle"]))))


def _pronoun(rng: Random) -> Node:
    """Return "each other", "one another", "it", "them" or "him"."""
    each = Node(rng.choice(["each", "each", "the"]), "DT", "det")
    each_other = leaf("other/JJ").before(each)
    one_another = leaf("another/DT").before(leaf("one/CD/det"))
    return rng.choice([each_other, one_another, leaf("it/PRP"), leaf("them/PRP"), leaf("him/PRP")])


def coloured(rng: Random) -> Node:
    """Return "in red" or "in black and white", where the colour is a noun."""
    return preposition("in", coordinate([Node(rng.choice(COLOURS), "NN") for _ in range(rng.choice([1, 1, 2]))]))
