"""Dependency trees under construction: words with dependents to their left and right; `flatten` makes a `Tree`."""

from dataclasses import dataclass, field

from .attributes import TAG_TO_POS
from .tree import Tree

ING = {
    "picnic": "picnicking",
    "lie": "lying",
    "tie": "tying",
    "die": "dying",
    "dye": "dyeing",
    "ski": "skiing",
    "be": "being",
}
PAST = {
    "spin": "spun", "draw": "drawn", "sew": "sewn", "write": "written", "shear": "shorn", "sweep": "swept",
    "make": "made", "set": "set", "see": "seen", "cut": "cut", "leave": "left", "build": "built",
    "throw": "thrown",
    "ride": "ridden", "lead": "led", "hold": "held", "show": "shown", "light": "lit", "take": "taken",
    "drive": "driven",
    "hang": "hung", "eat": "eaten", "catch": "caught", "feed": "fed", "drag": "dragged",
    "wrap": "wrapped", "strap": "strapped", "plug": "plugged", "top": "topped", "equip": "equipped",
    "do": "done",
    "put": "put", "hit": "hit", "fly": "flown", "bring": "brought", "buy": "bought", "give": "given",
}  # fmt: skip
DOUBLING = {"run", "trek", "sit", "swim", "skip", "stop", "shop", "hug", "cut", "hit", "grab", "dig", "jog", "pet",
    "sled", "trot", "step", "spin", "nap", "clap", "chat", "sip", "flip", "mop", "drop",
            "tip", "rub", "scrub", "tug", "zip", "trim", "spar", "slip",
            "get", "set", "put", "wrap", "strap", "drag", "plug", "top", "squat", "bat"}  # fmt: skip


def ing(verb: str) -> str:
    """Return the present participle: ride -> riding, run -> running."""
    if verb in ING:
        return ING[verb]
    if verb in DOUBLING:
        return verb + verb[-1] + "ing"
    return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb) + "ing"


def third(verb: str) -> str:
    """Return the third person singular: watch -> watches, try -> tries."""
    if verb in ("be", "have", "do"):
        return {"be": "is", "have": "has", "do": "does"}[verb]
    if verb.endswith(("s", "x", "z", "ch", "sh")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeou" else verb + "s"


def participle(verb: str) -> str:
    """Return the past participle: cover -> covered, make -> made."""
    if verb in PAST:
        return PAST[verb]
    if verb in DOUBLING:
        return verb + verb[-1] + "ed"
    if verb.endswith("y") and verb[-2] not in "aeou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def plural(noun: str) -> str:
    """Return the plural of a noun of the caption vocabulary."""
    irregular = {"man": "men", "woman": "women", "child": "children", "person": "people", "sheep": "sheep",
    "deer": "deer",
                 "fish": "fish", "goose": "geese", "mouse": "mice", "knife": "knives", "shelf": "shelves",
                 "ox": "oxen",
                 "calf": "calves", "policeman": "policemen", "fireman": "firemen", "fisherman": "fishermen",
                 "lady": "ladies",
                 "gentleman": "gentlemen", "foot": "feet", "scarf": "scarves", "leaf": "leaves"}  # fmt: skip
    return irregular.get(noun) or third(noun)


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


def flatten(root: Node) -> Tree:
    """Return the tree below `root` in word order: left dependents, the word, right dependents; labels the root ROOT."""
    tree = Tree([], [], [], [], [], [])
    _visit(root.labelled("ROOT"), tree)
    for index, form in enumerate(tree.forms[:-1]):
        glued = tree.forms[index + 1] in (".", ",", "'s", "'", "-") or form == "-"
        tree.spaces[index] = not glued
    return tree


def _visit(node: Node, tree: Tree) -> int:
    lefts = [_visit(child, tree) for child in node.left]
    place = len(tree.forms)
    tree.forms.append(node.form)
    tree.tags.append(node.tag)
    tree.pos.append("AUX" if node.dep in ("aux", "auxpass") and node.tag != "TO" else TAG_TO_POS[node.tag])
    tree.deps.append(node.dep)
    tree.heads.append(-1)
    tree.spaces.append(True)
    rights = [_visit(child, tree) for child in node.right]
    for child in lefts + rights:
        tree.heads[child] = place
    return place


def coordinate(parts: list[Node], conjunction: str = "and", oxford: bool = False) -> Node:
    """Coordinate noun or verb phrases (a, b and c) in place, and return the first.

    Each conjunct, with the conjunction and the comma before it, becomes a dependent of the previous conjunct. oxford:
    with a comma before the conjunction, if there are more than two.
    """
    for index in range(len(parts) - 1, 0, -1):
        previous, last = parts[index - 1], index == len(parts) - 1
        if not last or oxford and len(parts) > 2:
            previous.right.append(Node(",", ",", "punct"))
        if last:
            previous.right.append(Node(conjunction, "CC", "cc"))
        previous.right.append(parts[index].labelled("conj"))
    return parts[0]


def preposition(name: str, complement: Node, dep: str = "prep") -> Node:
    """Return a preposition with the node `complement` as its object; dep: the preposition's label.

    The words of a complex preposition are joined by "_". "on": on -> object (pobj). "next_to", "close_to": an adverb
    (advmod), then "to" below it. "in_front_of": in -> front (pobj) -> of. "out_of", "down_at": a chain of two
    prepositions.
    """
    words = name.split("_")
    if not complement.dep == "pcomp":
        complement.dep = "pobj"
    inner = Node(words[-1], "IN", "prep" if len(words) > 1 else dep, right=[complement])
    if len(words) == 1:
        return inner
    if words[0] in ("next", "close"):
        return Node(words[0], "RB", "advmod", right=[inner])
    if len(words) == 3:
        return Node(words[0], "IN", dep, right=[Node(words[1], "NN", "pobj", right=[inner])])
    return Node(words[0], "IN", dep, right=[inner])
