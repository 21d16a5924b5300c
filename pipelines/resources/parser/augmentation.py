"""Random changes that make training sentences more like captions: lower case, no full stop, fragments, pairs."""

from collections.abc import Iterator
from random import Random

from .tree import Tree

LOWER, UNSTOPPED, SPACED_STOP, JOINED = 0.30, 0.35, 0.50, 0.12
SUBJECTS = ("nsubj", "nsubjpass")


def augment(tree: Tree, rng: Random) -> Tree:
    """Return the sentence, at random in lower case, and without its final full stop or with a space before it."""
    tree = tree.copy()
    if rng.random() < LOWER:
        tree.forms = [form.lower() for form in tree.forms]
    if rng.random() < UNSTOPPED:
        tree = without_final_stop(tree)
    elif len(tree) > 1 and tree.forms[-1] == "." and rng.random() < SPACED_STOP:
        tree.spaces[-2] = True
    return tree


def joined(trees: list[Tree], rng: Random) -> Iterator[list[Tree]]:
    """Yield documents of mostly one sentence and sometimes two, so that the parser learns sentence boundaries."""
    pending: Tree | None = None
    for tree in trees:
        if pending is not None:
            yield [pending, tree]
            pending = None
        elif rng.random() < JOINED and len(tree) < 25:
            pending = tree
        else:
            yield [tree]
    if pending is not None:
        yield [pending]


def without_final_stop(tree: Tree) -> Tree:
    """Return the tree without its last word if that is a full stop without dependents; else the tree itself."""
    last = len(tree) - 1
    if last < 1 or tree.tags[last] != "." or tree.heads[last] < 0 or tree.children(last):
        return tree
    return select(tree, list(range(last)), tree.heads.index(-1))


def fragments(tree: Tree, rng: Random) -> Iterator[Tree]:
    """Yield sentences made of parts of a sentence, since captions often have no finite verb.

    One is a noun phrase with all its dependents. The other is "a dog running" from "a dog is running": the subject
    becomes the root, and the participle its acl.
    """
    for verb in range(len(tree)):
        if tree.tags[verb] != "VBG" or tree.deps[verb] not in ("ROOT", "conj", "ccomp", "parataxis"):
            continue
        auxiliaries = [aux for aux in tree.children(verb, "aux") if tree.lemmas[aux : aux + 1] == ["be"]]
        subjects = tree.children(verb, *SUBJECTS)
        if len(auxiliaries) == 1 == len(subjects) and len(tree.children(verb, "aux", "neg", "mark")) == 1:
            subject, kept = subjects[0], set(tree.subtree(verb))
            kept -= set(auxiliaries) | set(tree.children(verb, "cc", "conj", "punct"))
            if tree.tags[subject][:2] == "NN" and subject < verb and not tree.children(verb, "conj", "parataxis"):
                headless = tree.copy()
                headless.attach(subject, tree.heads[verb])
                headless.attach(verb, subject, "acl")
                yield select(headless, sorted(kept), subject)
                return
    nouns = [
        word
        for word in range(len(tree))
        if tree.tags[word] in ("NN", "NNS") and tree.deps[word] in ("dobj", "pobj", "nsubj", "attr")
    ]
    rng.shuffle(nouns)
    for noun in nouns:
        phrase = tree.subtree(noun)
        if 3 <= len(phrase) <= 14 and phrase[-1] - phrase[0] + 1 == len(phrase):
            yield select(tree, phrase, noun)
            return


def select(tree: Tree, kept: list[int], root: int) -> Tree:
    """Return the subtree of the words `kept` (indices) with the new root `root`; all must be its descendants."""
    place = {old: new for new, old in enumerate(kept)}
    return Tree(
        forms=[tree.forms[old] for old in kept],
        spaces=[tree.spaces[old] for old in kept],
        tags=[tree.tags[old] for old in kept],
        pos=[tree.pos[old] for old in kept],
        heads=[-1 if old == root else place.get(tree.heads[old], place[root]) for old in kept],
        deps=["ROOT" if old == root else tree.deps[old] for old in kept],
        lemmas=[tree.lemmas[old] for old in kept] if tree.lemmas else [],
    )
