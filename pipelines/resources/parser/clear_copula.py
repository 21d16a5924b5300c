"""UD to CLEAR, copular clauses: the head is the predicate in UD, but the verb "be" in CLEAR."""

from .tree import Tree

CLAUSE_LEVEL = {
    "nsubj", "nsubj:pass", "nsubj:outer", "csubj", "csubj:outer", "csubj:pass", "expl", "aux", "aux:pass",
    "discourse", "vocative", "parataxis", "dislocated", "list", "advcl", "obl", "obl:unmarked", "obl:tmod",
    "obl:npmod", "obl:agent", "mark", "advmod", "punct", "cc", "conj", "cop",
}  # fmt: skip
CLAUSE_MARKERS = ("cop", "aux", "aux:pass", "nsubj", "nsubj:pass", "nsubj:outer", "csubj", "expl")
FINITE = ("VBD", "VBZ", "VBP", "MD")
DEGREE = {
    "very", "so", "too", "quite", "really", "more", "most", "less", "least", "as", "pretty", "rather", "how",
    "almost", "all", "that", "extremely", "totally", "completely", "fully", "mostly", "partially", "slightly",
    "a", "bit", "super", "much", "far", "way", "even", "absolutely", "highly", "incredibly", "nearly",
    "about",
}  # fmt: skip


def invert_copulas(tree: Tree) -> bool:
    """Change a tree in place: make each copula the head of its clause, and the predicate its dependent.

    The predicate becomes attr, acomp, ccomp, xcomp or advmod. "The dog is black": black -> is (acomp), dog -> is
    (nsubj). A predicate with a preposition is labelled `obl` for the moment, and `raise_prepositions` makes prep + pobj
    of it. Dependents that belong to the clause (subject, auxiliaries, negation, clause adverbs, punctuation, conjoined
    clauses) move to the verb; those of the predicate itself (determiner, adjectives, degree adverbs, complements) stay.

    Returns
    -------
    bool
        False if a predicate has two copulas; such a sentence cannot be converted.
    """
    copulas = [index for index in range(len(tree)) if tree.deps[index] == "cop"]
    if len({tree.heads[index] for index in copulas}) < len(copulas):
        return False
    for copula in copulas:
        predicate = tree.heads[copula]
        moving = [child for child in tree.children(predicate) if _moves(tree, child, copula, predicate)]
        tree.attach(copula, tree.heads[predicate], tree.deps[predicate])
        for child in moving:
            tree.attach(child, copula, "nsubj" if tree.deps[child] == "nsubj:outer" else None)
        tree.attach(predicate, copula, _predicate_label(tree, predicate, copula))
    return True


def _predicate_label(tree: Tree, predicate: int, copula: int) -> str:
    if any(tree.tags[child] != "POS" for child in tree.children(predicate, "case")):
        return "obl"
    tag, pos = tree.tags[predicate], tree.pos[predicate]
    if tag.startswith("VB") and pos != "ADJ":
        if tree.children(predicate, "nsubj", "nsubj:pass"):
            return "ccomp"
        return "xcomp" if tree.children(predicate, "mark") or tag == "VB" else "acomp"
    if pos == "AUX":  # the predicate is itself a copular clause
        return "ccomp" if tree.children(predicate, "nsubj") else "xcomp"
    if pos == "ADJ":
        return "acomp"
    if pos in ("ADV", "ADP", "SCONJ", "PART"):
        return "advmod"
    return "attr"


def _moves(tree: Tree, child: int, copula: int, predicate: int) -> bool:
    """Return whether a dependent of the predicate belongs to the clause and so moves to the copula."""
    dep = tree.deps[child]
    if child == copula or dep not in CLAUSE_LEVEL:
        return False
    after_copula = copula < child < predicate
    verbal = tree.tags[predicate].startswith("VB") and tree.pos[predicate] != "ADJ"
    if dep == "conj":
        return bool(tree.children(child, *CLAUSE_MARKERS)) or tree.tags[child] in FINITE
    if (
        verbal
        and child > copula
        and dep in ("nsubj", "nsubj:pass", "aux", "aux:pass", "mark", "obl", "advmod", "advcl")
    ):
        return (
            not tree.children(predicate, "mark") and dep in ("nsubj",) and not tree.children(predicate, "nsubj:outer")
        )
    if verbal and dep == "nsubj" and tree.children(predicate, "nsubj:outer"):
        return False
    if dep == "mark":
        return not after_copula
    if dep == "punct":
        return not after_copula
    if dep == "advmod":
        return _adverb_moves(tree, child, copula, predicate)
    if tree.pos[predicate] in ("ADJ", "ADV") and dep.startswith("obl"):
        if dep in ("obl:unmarked", "obl:tmod", "obl:npmod"):
            return not after_copula
        return child < copula
    return True


def _adverb_moves(tree: Tree, adverb: int, copula: int, predicate: int) -> bool:
    word = tree.forms[adverb].lower()
    if not copula < adverb < predicate:
        return word != "enough"
    if word in ("not", "n't", "never", "also", "still"):
        return True
    cases = [case for case in tree.children(predicate, "case") if case < predicate]
    if tree.pos[predicate] in ("ADJ", "ADV"):
        return not (word in DEGREE or word.endswith("ly") and adverb + 1 == predicate)
    if cases:  # "is right in front": `raise_prepositions` attaches it to the preposition
        return adverb + 1 != cases[0]
    inner = [child for child in tree.children(predicate, "det", "amod", "nummod", "nmod:poss") if child < predicate]
    return not inner or adverb < inner[0]
