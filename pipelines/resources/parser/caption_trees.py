"""Generate captions with gold trees from a grammar, for constructions of captions that web treebanks lack.

They are captions without verb or article ("zebra walking on grass"), reduced relatives before the finite verb ("a boy
wearing a cap is crouching"), third persons that look like plurals ("a dog leaps"), existential and picture captions
("a close up of"), long coordinations and complex prepositions. Vocabulary and templates were written for this project.
"""

from collections.abc import Callable
from random import Random

from . import caption_words as words
from .caption_clauses import clause_adverbial, full_clause, noun_modifier, passive, subject, verb_phrase
from .caption_phrases import chance, determined, location, noun, noun_phrase, of
from .nodes import Node, coordinate, flatten
from .tree import Tree


def caption_trees(count: int, rng: Random, longest: int = 32) -> list[Tree]:
    """Return `count` random captions of 3 to `longest` words, with Penn tags and CLEAR dependencies."""
    trees: list[Tree] = []
    while len(trees) < count:
        template = rng.choices([entry[0] for entry in TEMPLATES], [entry[1] for entry in TEMPLATES])[0]
        tree = flatten(_punctuated(rng, template(rng)))
        if 3 <= len(tree) <= longest:
            _write(rng, tree)
            trees.append(tree)
    return trees


def reduced_relative(rng: Random) -> Node:
    """Return a clause whose subject is modified by a participle: "a boy wearing a cap is crouching"."""
    node = full_clause(rng)
    who = node.left[0]
    if not who.right:
        modifier = noun_modifier(rng)
        if chance(rng, 0.6):
            modifier = verb_phrase(rng, "VBG", 2).labelled("acl")
        who.right.append(modifier)
    return node


def existential(rng: Random) -> Node:
    """Return "there is a dog on the couch", "there are two men V-ing"."""
    who, many = subject(rng, 0.0)
    if chance(rng, 0.5):
        who.right.append(verb_phrase(rng, "VBG", 1).labelled("acl"))
    node = Node(
        "are" if many else "is",
        "VBP" if many else "VBZ",
        left=[Node("there", "EX", "expl")],
        right=[who.labelled("attr")],
    )
    if chance(rng, 0.4):
        node.right.append(location(rng))
    return node


def fronted(rng: Random) -> Node:
    """Return a clause that begins with a place or participle: "in a field , a dog is running"."""
    node = full_clause(rng)
    front = location(rng) if chance(rng, 0.6) else verb_phrase(rng, "VBG", 2).labelled("advcl")
    node.left = [front, *([Node(",", ",", "punct")] if chance(rng, 0.8) else []), *node.left]
    return node


def two_clauses(rng: Random) -> Node:
    """Return two clauses: "a man is V-ing and a woman is V-ing", "..., while ...", "..., a dog next to him"."""
    first = full_clause(rng, 1)
    if chance(rng, 0.65):
        if chance(rng, 0.4):
            first.right.append(Node(",", ",", "punct"))
        second = full_clause(rng, 1)
        first.right += [Node(rng.choice(["and", "and", "but"]), "CC", "cc"), second.labelled("conj")]
    elif chance(rng, 0.6):
        if chance(rng, 0.3):
            first.right.append(Node(",", ",", "punct"))
        first.right.append(clause_adverbial(rng))
    else:
        second = full_clause(rng, 2)
        first.right += [Node(",", ",", "punct"), second.labelled("parataxis")]
    return first


def subjectless(rng: Random) -> Node:
    """Return "riding a horse on the beach", "sitting on a bench"."""
    return verb_phrase(rng, "VBG")


def coordinated_subjects(rng: Random) -> Node:
    """Return "a man in a red shirt and a woman with a hat are V-ing", or the same without verb."""
    parts = []
    for _ in range(rng.choice([2, 2, 2, 3])):
        part, _many = subject(rng, 0.1)
        while any(child.dep == "conj" for child in part.right):
            part, _many = subject(rng, 0.1)
        if not part.right and chance(rng, 0.5):
            part.right.append(noun_modifier(rng))
        parts.append(part)
    who = coordinate(parts, oxford=chance(rng, 0.5))
    if chance(rng, 0.35):
        return who
    progressive = chance(rng, 0.6)
    node = verb_phrase(rng, "VBG" if progressive else "VBP")
    if progressive:
        node.left.insert(0, Node("are", "VBP", "aux"))
    node.left.insert(0, who.labelled("nsubj"))
    return node


def telegraphic(rng: Random) -> Node:
    """Return a clause without articles: "man sits on bike in air", "young woman lifts arms"."""
    node = full_clause(rng) if chance(rng, 0.7) else headless(rng)
    _drop_articles(node)
    return node


def _drop_articles(node: Node) -> None:
    node.left = [child for child in node.left if child.form not in ("a", "an", "the")]
    for child in node.left + node.right:
        _drop_articles(child)


def place_only(rng: Random) -> Node:
    """Return a noun phrase with places: "a bench in front of a lake", "a kitchen with a stove and a sink"."""
    who, _ = subject(rng, 0.15)
    if not any(child.dep == "conj" for child in who.right):
        names = ["in", "on", "with", "next_to", "in_front_of", "at", "near", "on_top_of"]
        who.right.append(location(rng, rng.choice(names)) if chance(rng, 0.7) else noun_modifier(rng))
        if chance(rng, 0.3):
            who.right.append(location(rng))
        if chance(rng, 0.25):
            who.right += [Node(",", ",", "punct"), noun_modifier(rng)]
    return who


def headless(rng: Random) -> Node:
    """Return a noun phrase: "a dog running on grass", "man riding horse", "a plate with food on it"."""
    who, _ = subject(rng, 0.3)
    if chance(rng, 0.03) and not who.right:
        who.right.append(Node(rng.choice(words.NOUN_ADVERBS), "RB", "advmod"))
    if not any(part.dep in ("acl", "relcl") for part in who.right) and not any(
        part.dep == "conj" for part in who.right
    ):
        who.right.append(passive(rng).labelled("acl") if chance(rng, 0.2) else verb_phrase(rng, "VBG").labelled("acl"))
    elif chance(rng, 0.6):  # it modifies all conjuncts, so it depends on the first
        who.right.append(verb_phrase(rng, "VBG", 1).labelled("acl"))
    if chance(rng, 0.12):
        who.right.append(clause_adverbial(rng))
    return who


def picture(rng: Random) -> Node:
    """Return "a close up of NP", "a black and white photo of NP V-ing", "a view of", "this is a picture of"."""
    word = rng.choice(words.PICTURES)
    inner = (
        headless(rng)
        if chance(rng, 0.5)
        else noun_phrase(rng, rng.choice(["person", "animal", "thing", "place", "food"]))
    )
    if word in ("close_up", "close-up"):
        head = Node("up", "NN", left=[Node("close", "JJ", "amod")])
        if "-" in word:
            head.left.append(Node("-", "HYPH", "punct"))
    else:
        head = noun(rng, word.rsplit("_", 1)[-1])
        before = word.rpartition("_")[0]
        if before:
            head.left = _picture_adjectives(before)
    head = of(determined(rng, head, False, 0.1), inner)
    if chance(rng, 0.12):
        return Node(
            "is", "VBZ", left=[Node(rng.choice(["this", "here"]), "DT", "nsubj")], right=[head.labelled("attr")]
        )
    return head


def _picture_adjectives(word: str) -> list[Node]:
    if "_and_" in word:
        first, second = word.split("_and_")
        return [coordinate([Node(first, "JJ", "amod"), Node(second, "JJ", "conj")])]
    return [Node(word, "NN" if word == "side" else "JJ", "compound" if word == "side" else "amod")]


def _punctuated(rng: Random, root: Node) -> Node:
    if chance(rng, 0.75):
        root.right.append(Node(".", ".", "punct"))
    return root


def _write(rng: Random, tree: Tree) -> None:
    """Capitalise most captions; put a space before the final full stop in some, as in Flickr's token files."""
    if chance(rng, 0.75):
        tree.forms[0] = tree.forms[0][0].upper() + tree.forms[0][1:]
    if tree.forms[-1] == "." and chance(rng, 0.5):
        tree.spaces[-2] = True


TEMPLATES: list[tuple[Callable[[Random], Node], float]] = [
    (full_clause, 30), (reduced_relative, 16), (headless, 22), (place_only, 9), (picture, 6), (existential,
    5),
    (fronted, 4), (two_clauses, 7), (coordinated_subjects, 9), (subjectless, 2), (telegraphic, 6),
]  # fmt: skip
