"""What the caption grammar builds with: its vocabulary (captions.toml), inflected forms, trees under construction."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .lexical import TAG_TO_POS
from .tree import Tree


def _split(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _split(entries) for name, entries in value.items()}
    return value.split() if isinstance(value, str) else value


WORDS: dict[str, Any] = _split(tomllib.loads(Path(__file__).with_name("captions.toml").read_text("utf-8")))
IRREGULAR = {tag: dict(pair.split(":") for pair in pairs) for tag, pairs in WORDS["irregular"].items()}


def inflected(word: str, tag: str) -> str:
    """Return the form of a noun or verb that has a Penn tag.

    NNS: man -> men. VBZ: watch -> watches. VBG: ride -> riding, run -> running. VBN: cover -> covered, make -> made.
    """
    if word in IRREGULAR.get(tag, {}):
        return IRREGULAR[tag][word]
    ends_in_y = word.endswith("y") and word[-2] not in "aeou"
    stem = word + word[-1] if word in WORDS["doubling"] else word
    if tag == "VBG":
        return (word[:-1] if word.endswith("e") and not word.endswith("ee") else stem) + "ing"
    if tag == "VBN":
        return word[:-1] + "ied" if ends_in_y else stem + ("d" if stem.endswith("e") else "ed")
    if tag not in ("VBZ", "NNS"):
        return word
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if ends_in_y else word + "s"


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
        """Put dependents behind all others, and return the node itself."""
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
        lefts = [visit(child) for child in node.left]
        place = len(tree)
        tree.forms.append(node.form)
        tree.tags.append(node.tag)
        tree.pos.append("AUX" if node.dep in ("aux", "auxpass") and node.tag != "TO" else TAG_TO_POS[node.tag])
        tree.deps.append(node.dep)
        tree.heads.append(-1)
        for child in lefts + [visit(child) for child in node.right]:
            tree.heads[child] = place
        return place

    visit(root.labelled("ROOT"))
    followed = zip(tree.forms, tree.forms[1:], strict=False)
    tree.spaces = [form != "-" and after not in (".", ",", "'s", "'", "-") for form, after in followed] + [True]
    return tree


def coordinate(parts: list[Node], oxford: bool = False) -> Node:
    """Coordinate noun or verb phrases (a, b and c) in place, and return the first.

    Each conjunct, with the conjunction and the comma before it, becomes a dependent of the previous conjunct. oxford:
    with a comma before the conjunction, if there are more than two.
    """
    for index in range(len(parts) - 1, 0, -1):
        previous, last = parts[index - 1], index == len(parts) - 1
        if not last or oxford and len(parts) > 2:
            previous.after(comma())
        if last:
            previous.after(leaf("and/CC/cc"))
        previous.after(parts[index].labelled("conj"))
    return parts[0]


def preposition(name: str, complement: Node, dep: str = "prep") -> Node:
    """Return a preposition with the node `complement` as its object; dep: the preposition's label.

    The words of a complex preposition are joined by "_". "on": on -> object (pobj). "next_to", "close_to": an adverb
    (advmod), then "to" below it. "in_front_of": in -> front (pobj) -> of. "out_of", "down_at": a chain of two
    prepositions.
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
