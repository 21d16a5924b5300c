"""Convert Universal Dependencies (UD) to the labels of spaCy's English models: CLEAR dependencies, Penn tags, UPOS.

CLEAR: Choi and Palmer, "Guidelines for the CLEAR Style Constituent to Dependency Conversion", 2012. `convert` applies
passes that each change the tree in place; their docstrings have examples, where a -> b (label) means that b is the head
of a.
"""

from collections.abc import Iterator
from pathlib import Path

from .clear_copula import invert_copulas
from .clear_prepositions import raise_gerund_markers, raise_prepositions
from .tree import Tree, read_conllu

UNCONVERTIBLE = {"goeswith", "reparandum", "orphan", "dislocated"}
RENAMED = {
    "root": "ROOT", "obj": "dobj", "iobj": "dative", "nsubj:pass": "nsubjpass", "nsubj:outer": "nsubj",
    "csubj:pass": "csubjpass", "csubj:outer": "csubj", "aux:pass": "auxpass", "compound:prt": "prt",
    "acl:relcl": "relcl", "advcl:relcl": "advcl", "nmod:poss": "poss", "det:predet": "predet",
    "cc:preconj": "preconj", "obl:unmarked": "npadvmod", "obl:tmod": "npadvmod", "obl:npmod": "npadvmod",
    "nmod:unmarked": "npadvmod", "nmod:tmod": "npadvmod", "nmod:npmod": "npadvmod", "obl": "npadvmod",
    "obl:agent": "npadvmod", "vocative": "npadvmod", "discourse": "intj", "list": "dep", "cop": "aux",
    "fixed": "advmod", "flat": "compound",
}  # fmt: skip
WANTING = {"want", "like", "love", "hate", "need", "prefer", "expect"}
NOMINAL_DEPS = {"nsubj", "nsubjpass", "dobj", "pobj", "attr", "dative", "conj", "ROOT", "appos"}


def read_clear(path: Path, hosts: tuple[str, ...] | None = None) -> Iterator[Tree]:
    """Yield the sentences of a UD file converted to CLEAR, where that is possible; parameters as in `read_conllu`."""
    for tree in read_conllu(path, hosts):
        converted = convert(tree)
        if converted is not None:
            yield converted


def convert(ud: Tree) -> Tree | None:
    """Return a UD sentence in the labels of `en_core_web_*`, or None if these cannot express it.

    That is the case for words split in two (goeswith), speech repairs, gapping and two copulas on one predicate.
    """
    if UNCONVERTIBLE & set(ud.deps) or "_" in ud.tags:
        return None
    tree = ud.copy()
    expand_fixed(tree)
    make_names_head_final(tree)
    if not invert_copulas(tree):
        return None
    chain_conjuncts(tree)
    raise_prepositions(tree)
    raise_gerund_markers(tree)
    convert_clauses(tree)
    rename(tree)
    reattach_punctuation(tree)
    convert_pos(tree)
    return tree if tree.is_tree() else None


def expand_fixed(tree: Tree) -> None:
    """Replace the flat analysis of fixed expressions by a structure.

    "because of", "due to": a chain of prepositions; "as well as" (cc): well -> as, as -> well; "more than 20": more ->
    20 (amod), than -> 20 (quantmod); "each other": each -> other (det); "of course": course -> of.
    """
    for first in range(len(tree)):
        rest = tree.children(first, "fixed")
        if not rest:
            continue
        phrase = " ".join(tree.forms[word].lower() for word in [first, *rest])
        head, dep = tree.heads[first], tree.deps[first]
        if phrase in ("each other", "one another"):
            _replace(tree, first, rest[0])
            tree.attach(first, rest[0], "det")
        elif phrase in ("as well", "as well as", "rather than", "rather then"):
            previous = first
            for word in rest:
                _replace(tree, previous, word)
                tree.attach(previous, word, "advmod")
                previous = word
        elif dep in ("case", "mark"):
            for word in rest:
                tree.attach(word, head, dep)
        elif head >= 0 and tree.tags[head] == "CD":
            for word in rest:
                tree.attach(word, head, "quantmod")
            tree.deps[first] = "amod" if len(rest) == 1 and tree.tags[first].startswith("JJ") else "quantmod"
        else:
            for word in rest:
                tree.attach(word, first, "advmod" if tree.tags[word] != "NN" else "pobj")


def _replace(tree: Tree, old: int, new: int) -> None:
    """Give the word `new` the head, label and dependents of the word `old`."""
    head, dep = tree.heads[old], tree.deps[old]
    for child in tree.children(old):
        if child != new:
            tree.attach(child, new)
    tree.attach(new, head, dep)
    tree.attach(old, new)


def make_names_head_final(tree: Tree) -> None:
    """Make the last word of a name its head: "Ada Lovelace": Ada -> Lovelace (compound)."""
    for first in range(len(tree)):
        rest = tree.children(first, "flat")
        if rest and rest[-1] > first:
            _replace(tree, first, rest[-1])
            for word in [first, *rest[:-1]]:
                tree.attach(word, rest[-1], "compound")


def chain_conjuncts(tree: Tree) -> None:
    """Attach each conjunct, conjunction and comma to the previous conjunct: "a, b and c": c -> b, and -> b, b -> a."""
    for first in range(len(tree)):
        previous = first
        for conjunct in tree.children(first, "conj"):
            if conjunct < first:
                continue
            others = [child for child in tree.children(conjunct) if tree.deps[child] not in ("cc", "punct")]
            start = min([conjunct, *others])
            for child in tree.children(conjunct, "cc", "punct"):
                if previous < child < start:
                    tree.attach(child, previous)
            tree.attach(conjunct, previous)
            previous = conjunct


def convert_clauses(tree: Tree) -> None:
    """Convert the labels of clauses and complements, which depend on the governing verb.

    "There is a dog": dog is attr. "It is nice to see": it is nsubj, see xcomp. "sees a man jump": jump is ccomp, man
    its nsubj. "sees a man jumping": jumping is acl of man. "looks happy": acomp. "became a nurse": attr. "paint it
    red": red is oprd. "not": neg. "to V": aux. Prepositions without an object: prep.
    """
    for word in range(len(tree)):
        dep, head, form = tree.deps[word], tree.heads[word], tree.forms[word].lower()
        if dep == "expl" and form in ("there", "ther"):
            if tree.lemmas[head] in ("be", "'s"):
                for subject in tree.children(head, "nsubj"):
                    tree.deps[subject] = "attr"
        elif dep == "expl":
            tree.deps[word] = "nsubj"
            for clause in tree.children(head, "csubj"):
                infinitive = any(tree.tags[child] == "TO" for child in tree.children(clause))
                if clause > head:
                    tree.deps[clause] = "xcomp" if infinitive else "ccomp"
        elif dep == "xcomp" and head >= 0:
            _convert_xcomp(tree, word, head)
        elif dep == "mark" and tree.tags[word] == "TO":
            tree.deps[word] = "aux"
        elif dep == "advmod" and form in ("not", "n't", "never", "nt", "n’t"):
            tree.deps[word] = "neg"
        elif dep in ("obl", "nmod", "acl:relcl", "acl", "compound") and tree.tags[word] in ("IN", "RP"):
            if dep == "compound":
                tree.deps[word] = "prt" if tree.tags[head].startswith("VB") else dep
            elif not tree.children(word, "nsubj"):
                tree.deps[word] = "prep"


def _convert_xcomp(tree: Tree, word: int, head: int) -> None:
    objects = [child for child in tree.children(head, "obj") if child < word]
    tag, pos = tree.tags[word], tree.pos[word]
    marked = any(tree.tags[child] == "TO" for child in tree.children(word))
    if pos in ("VERB", "AUX"):
        if not objects:
            return
        if tag == "VBG":
            tree.attach(word, objects[0], "acl")
        elif tag in ("VB", "VBN") and not marked or marked and tree.lemmas[head] in WANTING:
            tree.deps[word] = "ccomp"
            tree.attach(objects[0], word, "nsubj")
    elif pos == "ADJ":
        tree.deps[word] = "oprd" if objects else "acomp"
    elif pos in ("ADV", "ADP"):
        tree.deps[word] = "advmod"
    else:
        tree.deps[word] = "oprd" if objects else "attr"


def rename(tree: Tree) -> None:
    """Rename the remaining labels to those of CLEAR; nominals without preposition become npadvmod, adverbs of numbers
    quantmod.
    """
    for word in range(len(tree)):
        dep, head = tree.deps[word], tree.heads[word]
        if dep == "nmod:desc":
            tree.deps[word] = "compound" if word < head else "appos"
        elif dep == "nmod":
            tree.deps[word] = "compound" if word < head and tree.tags[word].startswith("NN") else "nmod"
        elif dep == "compound" and tree.tags[head][:3] in ("VBN", "VBG", "JJ") and tree.tags[word][:2] == "NN":
            tree.deps[word] = "npadvmod"
        elif dep == "advmod" and head >= 0 and tree.tags[head] == "CD" and word < head:
            tree.deps[word] = "quantmod"
        else:
            tree.deps[word] = RENAMED.get(dep, dep)


def reattach_punctuation(tree: Tree) -> None:
    """Attach the final full stop to the root, and other punctuation such that its arc crosses no other."""
    root = tree.heads.index(-1)
    for word in range(len(tree)):
        if tree.deps[word] != "punct" or word == root:
            continue
        if word == len(tree) - 1 and not tree.children(word):
            tree.attach(word, root)
            continue
        while tree.heads[word] >= 0 and _crosses(tree, word):
            grandparent = tree.heads[tree.heads[word]]
            if grandparent < 0:
                break
            tree.attach(word, grandparent)


def _crosses(tree: Tree, word: int) -> bool:
    low, high = sorted((word, tree.heads[word]))
    for other, head in enumerate(tree.heads):
        if head < 0 or other == word:
            continue
        left, right = sorted((other, head))
        if left < low < right < high or low < left < high < right:
            return True
        if left < word < right and (tree.heads[word] < left or tree.heads[word] > right):
            return True
    return False


def convert_pos(tree: Tree) -> None:
    """Adapt the few UPOS tags that spaCy's models use differently: "other" without a noun is NOUN and heads a chunk."""
    for word in range(len(tree)):
        if tree.forms[word].lower() in ("other", "others") and tree.deps[word] in NOMINAL_DEPS:
            tree.pos[word] = "NOUN"
