"""Noun, prepositional and verb phrases of the caption grammar, as trees."""

from random import Random

from . import caption_words as words
from .nodes import Node, coordinate, ing, participle, plural, preposition, third

ADJECTIVE_FIRST = {"hot", "polar", "golden", "black", "large", "small", "wooded", "grassy", "snowy", "rocky",
    "sandy",
                   "funny", "big", "wild", "remote", "aerial", "hard", "few", "red"}  # fmt: skip
NUMBERS = "two two two three three four five six 2 3 several many some various multiple numerous".split()
KINDS = {"person": words.PEOPLE, "animal": words.ANIMALS, "vehicle": words.VEHICLES, "thing": words.THINGS,
         "place": words.PLACES, "food": words.FOOD, "clothes": words.CLOTHES}  # fmt: skip
ADJECTIVES = {"person": words.PERSON_ADJECTIVES, "animal": words.ANIMAL_ADJECTIVES,
    "place": words.PLACE_ADJECTIVES,
              "vehicle": words.THING_ADJECTIVES, "thing": words.THING_ADJECTIVES, "food": ["large", "small",
              "half-eaten", "fresh", "big"],
              "clothes": words.COLOURS}  # fmt: skip
PARTICIPIAL = {"parked", "stuffed", "paved", "striped", "decorated", "spotted", "crowded", "tattooed",
    "bearded",
               "cluttered", "muzzled", "overweight_", "smiling", "broken"}  # fmt: skip
PARTICIPLES_AFTER = {
    *("colored", "made", "baked", "lit", "covered", "lined", "drawn", "shaped", "filled", "eaten", "painted", "coated")
}
PLAIN_NOUNS = [
    word for word in (*words.THINGS, *words.PLACES, *words.VEHICLES, *words.FOOD, *words.FOOD_MASS,
    *words.MASS, *words.ANIMALS)
    if not set("_-") & set(word)
]  # fmt: skip


def chance(rng: Random, probability: float) -> bool:
    """Return True with a probability from 0 to 1."""
    return rng.random() < probability


def noun(rng: Random, word: str, many: bool = False, tag: str = "") -> Node:
    """Return a vocabulary entry as a noun with its modifiers: tennis_racket, hot_dog, t-shirt, slice_of_pizza.

    many: in the plural; tag: its Penn tag, "" for NN or NNS.
    """
    if "_of_" in word:
        head, inner = word.split("_of_")
        return of(noun(rng, head, many), Node(inner, "NN"))
    first, dash, last = word.rpartition("-")
    if dash:
        word = last
    *before, head = word.split("_")
    if not before and not dash and word not in words.PEOPLE and chance(rng, 0.10):
        before = [rng.choice(PLAIN_NOUNS)]
    node = Node(plural(head) if many else head, tag or ("NNS" if many else "NN"))
    for part in before:
        if part in ADJECTIVE_FIRST:
            node.left.append(Node(part, "JJ", "amod"))
        else:
            node.left.append(Node(part, "NN", "compound"))
    if dash:
        node.left += [Node(first, "NN", "compound"), Node("-", "HYPH", "punct")]
    return node


def of(head: Node, inner: Node) -> Node:
    """Add "of" + the noun phrase `inner` to the noun `head`, and return it."""
    head.right.append(preposition("of", inner))
    return head


def adjectives(rng: Random, word: str) -> list[Node]:
    """Return an adjective entry as amod nodes: plain, "black_and_white", "long-haired", "snow-covered"."""
    if "_and_" in word:
        first, second = word.split("_and_")
        return [coordinate([Node(first, "JJ", "amod"), Node(second, "JJ", "conj")])]
    first, _, last = word.partition("_")
    if last in PARTICIPLES_AFTER:  # "snow covered", "neatly made"
        tag, dep = ("RB", "advmod") if first.endswith("ly") or first == "well" else ("NN", "npadvmod")
        return [Node(last, "VBN", "amod", [Node(first, tag, dep)])]
    if last:
        return [Node(part, "JJ", "amod") for part in (first, last)]
    if "-" in word:
        first, last = word.split("-")
        verbal = last in ("covered", "lined", "eaten", "dressed")
        dep, tag = ("npadvmod", "NN") if first in ("snow", "tree") else ("amod", "JJ")
        if first in ("half", "well"):
            dep, tag = "advmod", "RB"
        return [Node(last, "VBN" if verbal else "JJ", "amod", [Node(first, tag, dep), Node("-", "HYPH", "punct")])]
    if word in PARTICIPIAL:
        return [Node(word, "VBG" if word.endswith("ing") else "VBN" if word == "parked" else "JJ", "amod")]
    return [Node(word, "JJ", "amod")]


def modified(rng: Random, kind: str, node: Node) -> Node:
    """Add zero to two adjectives (or a colour, a material, an age) that suit the kind before the noun `node`."""
    front: list[Node] = []
    if chance(rng, 0.42):
        front += adjectives(rng, rng.choice(ADJECTIVES[kind]))
        if chance(rng, 0.25) and kind != "place":
            if chance(rng, 0.2):
                front.append(Node(",", ",", "punct"))
            front += adjectives(
                rng, rng.choice(words.COLOURS if kind != "person" else ["young", "asian", "white", "black", "blond"])
            )
        if chance(rng, 0.05):
            front[0].left.insert(0, Node(rng.choice(["very", "brightly", "really", "extremely"]), "RB", "advmod"))
    if chance(rng, 0.025):  # "a snowy, icy, empty street"
        front = []
        for _ in range(rng.choice([2, 2, 3])):
            front += [*adjectives(rng, rng.choice(ADJECTIVES[kind])), Node(",", ",", "punct")]
        front.pop()
        if chance(rng, 0.4):
            front = [
                coordinate(
                    [Node(word, "JJ", "amod") for word in rng.sample(words.COLOURS, rng.choice([2, 3]))], oxford=True
                )
            ]
    if kind == "person" and chance(rng, 0.02):
        age = Node(
            "old",
            "JJ",
            "amod",
            [Node("year", "NN", "npadvmod", [Node(rng.choice(["two", "three", "5"]), "CD", "nummod")])],
        )
        if chance(rng, 0.6):
            age.left[0].left.append(Node("-", "HYPH", "punct"))
            age.left.append(Node("-", "HYPH", "punct"))
        front = [age]
    if kind in ("thing", "vehicle", "place") and chance(rng, 0.1):
        parts = [Node(word, "NN") for word in rng.sample(words.MATERIALS, 2 if chance(rng, 0.3) else 1)]
        front.append(coordinate(parts).labelled("compound"))
    node.left = front + node.left
    return node


def determined(rng: Random, node: Node, many: bool, bare: float) -> Node:
    """Add a determiner, possessive or number to a noun phrase, or nothing with probability `bare`; many: plural."""
    first = node.left[0] if node.left else node
    while first.left:
        first = first.left[0]
    if chance(rng, bare):
        return node
    if many:
        number = rng.choice(NUMBERS)
        if chance(rng, 0.2):
            node.left.insert(
                0,
                rng.choice(
                    [
                        Node("the", "DT", "det"),
                        Node("these", "DT", "det"),
                        Node("their", "PRP$", "poss"),
                        Node("all", "DT", "det"),
                        Node("other", "JJ", "amod"),
                        Node("both", "DT", "det"),
                    ]
                ),
            )
        elif chance(rng, 0.05):
            node.left = [Node("a", "DT", "det"), Node("few", "JJ", "amod"), *node.left]
        elif number in ("several", "many", "various", "multiple", "numerous"):
            node.left.insert(0, Node(number, "JJ", "amod"))
        else:
            node.left.insert(0, Node(number, "DT", "det") if number == "some" else Node(number, "CD", "nummod"))
            if number != "some" and chance(rng, 0.06):
                node.left.insert(1, Node("other", "JJ", "amod"))
    else:
        article = "an" if first.form[0] in "aeio" else "a"
        word = rng.choices([article, "the", "one", "another", "this", "his", "her", "their", "its",
        "the other"],
                           [60, 26, 2, 3, 1, 2, 1.5, 1, 1, 1])[0]  # fmt: skip
        if word == "the other":
            node.left = [Node("the", "DT", "det"), Node("other", "JJ", "amod"), *node.left]
        elif word in ("his", "her", "their", "its"):
            node.left.insert(0, Node(word, "PRP$", "poss"))
        else:
            node.left.insert(0, Node(word, "CD", "nummod") if word == "one" else Node(word, "DT", "det"))
    return node


def noun_phrase(rng: Random, kind: str, many: bool | None = None, bare: float = 0.04) -> Node:
    """Return a base noun phrase of a kind: person, animal, vehicle, thing, place, food, clothes.

    many: plural, None for a random choice; bare: probability of no determiner.
    """
    if many is None:
        many = chance(rng, 0.22) and kind not in ("place", "clothes")
    if kind == "person" and many and chance(rng, 0.6):
        word = rng.choice(words.PEOPLE_PLURAL)
        return determined(rng, modified(rng, kind, Node(word, "NNS")), True, max(bare, 0.3))
    if kind == "clothes" and chance(rng, 0.3):
        return determined(rng, modified(rng, kind, Node(rng.choice(words.CLOTHES_PLURAL), "NNS")), True, 0.85)
    if kind in ("food", "thing", "place") and chance(rng, 0.08):
        mass = noun(rng, rng.choice(words.FOOD_MASS if kind == "food" else words.MASS))
        return determined(rng, mass, False, 0.6) if chance(rng, 0.8) else modified(rng, kind, mass)
    if kind == "food" and chance(rng, 0.12) or kind == "thing" and chance(rng, 0.03):
        inner = noun(rng, rng.choice(words.FOOD_MASS)) if chance(rng, 0.5) else noun(rng, rng.choice(words.FOOD), True)
        return of(determined(rng, noun(rng, rng.choice(words.PORTIONS)), False, bare), inner)
    node = modified(rng, kind, noun(rng, rng.choice(KINDS[kind]), many))
    node = determined(rng, node, many, 0.3 if many and bare < 0.3 else bare)
    if kind in ("thing", "place", "vehicle") and chance(rng, 0.03):
        owner = noun(rng, rng.choice(words.PEOPLE + words.ANIMALS))
        node.left = [part for part in node.left if part.dep in ("amod", "compound")]
        return owned(rng, determined(rng, owner, False, 0.0), node)
    return node


def owned(rng: Random, owner: Node, node: Node) -> Node:
    """Add the possessor `owner` to a noun: "the man 's hat"."""
    owner.dep = "poss"
    owner.right.append(Node("'s", "POS", "case"))
    node.left.insert(0, owner)
    return node


def body_part(rng: Random) -> Node:
    """Return "his hand", "its mouth", "their heads"."""
    many = chance(rng, 0.3)
    node = noun(rng, rng.choice(words.BODY), many)
    if chance(rng, 0.1):
        node.left.append(Node(rng.choice(["left", "right", "front", "bare"]), "JJ", "amod"))
    node.left.insert(0, Node(rng.choice(["his", "her", "its", "their"]), "PRP$", "poss"))
    if chance(rng, 0.15):
        node.left[0] = Node("the", "DT", "det")
    return node


def object_of(rng: Random, kind: str) -> Node:
    """Return an object for a transitive verb, sometimes two coordinated.

    kind: one of `KINDS`, a key of `OBJECTS`, or a noun itself.
    """
    if kind == "body":
        return body_part(rng)
    if kind not in words.OBJECTS and kind not in KINDS:  # a noun
        return determined(rng, noun(rng, kind), False, 0.1)
    if kind in KINDS:
        node = noun_phrase(rng, kind)
        if kind in ("thing", "food", "clothes", "person", "animal") and chance(rng, 0.3 if kind == "clothes" else 0.15):
            parts = [node] + [noun_phrase(rng, kind) for _ in range(rng.choice([1, 1, 1, 2]))]
            return coordinate(parts, oxford=chance(rng, 0.4))
        return node
    word = rng.choice(words.OBJECTS[kind].split())
    if word[0] == "@":
        return noun(rng, word[1:])
    if word[0] == "^":
        return determined(rng, Node(word[1:], "NNS"), True, 0.5)
    many = chance(rng, 0.1)
    return determined(rng, modified(rng, "thing", noun(rng, word, many)), many, 0.08)


def location(rng: Random, name: str = "") -> Node:
    """Return a prepositional phrase of place: simple, complex, or "at the edge of NP", "in the background".

    name: the preposition, "" for a random one.
    """
    if not name and chance(rng, 0.08):
        first, *rest = rng.choice(words.SETTINGS).split("_")
        inner = [
            Node(word, "DT" if word in ("the", "a") else "JJ" if word in ("sunny", "mid") else "NN") for word in rest
        ]
        *before, head = inner
        head.left = [part.labelled("det" if part.tag == "DT" else "amod") for part in before]
        return preposition(first, head)
    if not name and chance(rng, 0.1):
        first, part = rng.choice(words.LOCATION_NOUNS).split(":")
        head = Node(part, "NN", left=[Node(rng.choice(["the", "the", "the", "a"]), "DT", "det")])
        return preposition(first, of(head, noun_phrase(rng, rng.choice(["place", "thing", "vehicle"]))))
    name = name or rng.choice(
        "in on at near by with behind beside next_to in_front_of under on_top_of through over along across "
        "down "
        "against around inside outside out_of between above past towards into from off_of close_to atop "
        "underneath "
        "alongside onto below beneath during outside_of inside_of in_between".split()
    )
    kinds = {
        "on": ["place", "thing", "vehicle"],
        "in": ["place", "place", "vehicle", "thing"],
        "with": ["person", "thing", "animal"],
        "for": ["person", "thing", "food"],
        "at": ["place", "thing", "person", "food"],
    }.get(name, ["place", "thing", "vehicle", "person", "animal"])
    if name in ("between", "in_between"):
        return preposition(name, coordinate([noun_phrase(rng, "thing"), noun_phrase(rng, "thing")]))
    target = noun_phrase(rng, rng.choice(kinds))
    if chance(rng, 0.05) and name in ("with", "at", "around", "near", "against"):
        target = rng.choice(
            [
                Node("other", "JJ", left=[Node(rng.choice(["each", "each", "the"]), "DT", "det")]),
                Node("another", "DT", left=[Node("one", "CD", "det")]),
                Node("it", "PRP"),
                Node("them", "PRP"),
                Node("him", "PRP"),
            ]
        )
    elif chance(rng, 0.08):
        target.right.append(location(rng, rng.choice(["in", "of", "with", "near", "on"])))
    elif chance(rng, 0.06):
        target = coordinate([target, noun_phrase(rng, rng.choice(kinds))])
    place = preposition(name, target)
    if chance(rng, 0.02) and place.tag == "IN":
        place.left.append(Node(rng.choice(["right", "just", "directly", "halfway", "all"]), "RB", "advmod"))
    return place


def inflected(verb: str, form: str) -> tuple[str, str]:
    """Return the verb's form and tag; `form` is one of VBG, VBZ, VBP, VB, VBN."""
    if form == "VBN":
        return participle(verb), "VBN"
    return {"VBG": ing(verb), "VBZ": third(verb)}.get(form, verb), form


def coloured(rng: Random) -> Node:
    """Return "in red" or "in black and white", where the colour is a noun."""
    parts = [Node(rng.choice(words.COLOURS), "NN") for _ in range(rng.choice([1, 1, 2]))]
    return preposition("in", coordinate(parts) if len(parts) == 2 else parts[0])
