"""UD to CLEAR, prepositions: dependents of their nominal in UD, but between the nominal and its head in CLEAR."""

from .tree import Tree

GERUND_PREPOSITIONS = {
    "after", "before", "without", "by", "for", "of", "in", "from", "on", "with", "to", "at", "about", "upon",
    "through", "like", "despite", "besides", "into", "toward", "towards", "against", "between", "over",
    "during",
}  # fmt: skip
LEADING = ("advmod", "obl:unmarked", "nmod:unmarked", "obl:npmod", "obl:tmod", "nummod")
ROOT_LEVEL = ("punct", "discourse", "vocative", "parataxis", "advcl", "cc", "mark", "list", "nsubj", "aux", "expl")
OWN_LABEL = ("root", "conj", "parataxis", "ccomp", "appos", "list", "xcomp")


def raise_prepositions(tree: Tree) -> None:
    """Change a tree in place: make case dependents prep (or agent), and the nominal their pobj.

    "sits on the table": on -> sits (prep), table -> on (pobj). "out of the box": a chain of two. "in the park and on
    the street": on -> in (conj), with the conjunction and comma. "chased by a dog": by is agent. "right in the middle":
    right -> in (advmod). "three feet above": feet -> above (npadvmod). Possessive 's remains case.
    """
    for nominal in range(len(tree)):
        cases = [case for case in tree.children(nominal, "case") if tree.tags[case] != "POS"]
        if cases:
            _raise(tree, nominal, cases)


def raise_gerund_markers(tree: Tree) -> None:
    """Change a tree in place: preposition + V-ing to prep + pcomp, "with" + subject + predicate to prep + pobj + acl.

    "before opening it": before -> main verb (prep), opening -> before (pcomp); "while V-ing" remains mark. "with a dog
    running": with (prep), dog -> with (pobj), running -> dog (acl).
    """
    for mark in range(len(tree)):
        if tree.deps[mark] != "mark" or tree.tags[mark] not in ("IN", "RB", "VBG", "TO"):
            continue
        verb, word = tree.heads[mark], tree.forms[mark].lower()
        if verb < 0 or verb < mark:
            continue
        subjects = tree.children(verb, "nsubj", "nsubj:pass", "nsubj:outer")
        finite = tree.tags[verb] in ("VBD", "VBZ", "VBP", "VB") or bool(tree.children(verb, "aux"))
        if word in ("with", "without", "w/") and subjects and not finite:
            _raise_absolute(tree, mark, verb, subjects[0])
        elif tree.tags[verb] == "VBG" and not subjects and not finite and word in GERUND_PREPOSITIONS:
            own = tree.deps[verb] in OWN_LABEL and tree.deps[verb] != "xcomp"
            tree.attach(mark, tree.heads[verb], tree.deps[verb] if own else "prep")
            _move_left_commas(tree, verb, mark)
            tree.attach(verb, mark, "pcomp")


def _raise_absolute(tree: Tree, mark: int, predicate: int, subject: int) -> None:
    tag = tree.tags[predicate]
    label = "acl" if tag.startswith("VB") else "amod" if tag.startswith("JJ") else "advmod"
    if tree.deps[predicate] == "prep" or tree.children(predicate, "prep", "pobj") and tag in ("IN", "TO"):
        label = "prep"
    tree.attach(mark, tree.heads[predicate], "prep")
    _move_left_commas(tree, predicate, mark)
    tree.attach(subject, mark, "pobj")
    tree.attach(predicate, subject, label)


def _move_left_commas(tree: Tree, old: int, new: int) -> None:
    head = tree.heads[new]
    for child in tree.children(old, "punct", "cc"):
        if child < new and head >= 0:
            tree.attach(child, head)


def _raise(tree: Tree, nominal: int, cases: list[int]) -> None:
    outer, head, dep = cases[0], tree.heads[nominal], tree.deps[nominal]
    label = "agent" if dep == "obl:agent" else dep if dep in OWN_LABEL and dep != "xcomp" else "prep"
    if dep == "conj":
        previous = _conjoined_preposition(tree, head)
        if previous is not None:
            for child in tree.children(head, "cc", "punct"):
                if head < child < outer:
                    tree.attach(child, previous)
            head = previous
        elif tree.tags[head][:2] not in ("VB", "IN", "TO", "RB", "JJ", "MD"):
            label = "conj"
    if len(cases) > 1 and tree.forms[outer].lower() == "such":  # such -> as (amod), as -> head (prep)
        tree.attach(outer, cases[1], "amod")
        outer, cases = cases[1], cases[1:]
    if label == "prep" and tree.tags[outer] in ("RB", "JJ") and len(cases) > 1:
        label = "advmod"  # instead of, next to: the preposition depends on the adverb
    tree.attach(outer, head, label)
    last = outer
    for case in cases[1:]:
        if case > nominal:
            tree.attach(case, outer, "prep")
            continue
        tree.attach(case, last, "prep")
        last = case
    _move_leading(tree, nominal, outer)
    if label != "prep" and dep in ("root", "parataxis", "ccomp", "list", "conj"):
        for child in tree.children(nominal, *ROOT_LEVEL):
            if child < outer or child > nominal and tree.deps[child] in ("punct", "discourse", "parataxis", "advcl"):
                tree.attach(child, outer)
    _move_left_commas(tree, nominal, outer)
    verbal = tree.tags[nominal] in ("VBG", "VB", "WRB", "RB")
    tree.attach(nominal, last, "pcomp" if verbal else "pobj")


def _conjoined_preposition(tree: Tree, nominal: int) -> int | None:
    if tree.deps[nominal] not in ("pobj", "pcomp"):
        return None
    preposition = tree.heads[nominal]
    while tree.deps[preposition] == "prep" and tree.deps[tree.heads[preposition]] in ("prep", "agent", "conj"):
        if tree.tags[tree.heads[preposition]] not in ("IN", "TO", "RB", "JJ"):
            break
        preposition = tree.heads[preposition]
    return preposition


def _move_leading(tree: Tree, nominal: int, preposition: int) -> None:
    place = preposition
    for child in reversed(tree.children(nominal)):
        if child >= preposition or tree.deps[child] not in LEADING:
            continue
        if max(tree.subtree(child)) + 1 == place and tree.pos[child] not in ("NUM", "DET"):
            dep = tree.deps[child]
            tree.attach(child, preposition, dep if dep == "advmod" else "npadvmod")
            place = min(tree.subtree(child))
