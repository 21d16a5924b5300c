"""Convert Universal Dependencies (UD) to the labels of spaCy's English models: CLEAR dependencies, Penn tags, UPOS.

CLEAR: Choi and Palmer, "Guidelines for the CLEAR Style Constituent to Dependency Conversion", 2012. `convert` applies
passes that each change the tree in place; their docstrings have examples, where a -> b (label) means that b is the head
of a. The labels and lists of words are in clear.toml.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from .tree import Tree, read_conllu

WORDS = tomllib.loads(Path(__file__).with_name("clear.toml").read_text("utf-8"))
RENAMED = {ud: clear for clear, labels in WORDS["renamed"].items() for ud in labels.split()}
CLAUSE_LEVEL, DEGREE, GERUND_PREPOSITIONS = (
    frozenset(WORDS[name].split()) for name in ("clause_level", "degree", "gerund_prepositions")
)
UNCONVERTIBLE = {"goeswith", "reparandum", "orphan", "dislocated"}
WANTING = {"want", "like", "love", "hate", "need", "prefer", "expect"}
NOMINAL_DEPS = {"nsubj", "nsubjpass", "dobj", "pobj", "attr", "dative", "conj", "ROOT", "appos"}
CLAUSE_MARKERS = ("cop", "aux", "aux:pass", "nsubj", "nsubj:pass", "nsubj:outer", "csubj", "expl")
FINITE = ("VBD", "VBZ", "VBP", "MD")
LEADING = ("advmod", "obl:unmarked", "nmod:unmarked", "obl:npmod", "obl:tmod", "nummod")
ROOT_LEVEL = ("punct", "discourse", "vocative", "parataxis", "advcl", "cc", "mark", "list", "nsubj", "aux", "expl")
OWN_LABEL = ("root", "conj", "parataxis", "ccomp", "appos", "list")  # labels that a preposition takes over


def read_clear(path: Path, hosts: tuple[str, ...] | None = None) -> Iterator[Tree]:
    """Yield the sentences of a UD file converted to CLEAR, where that is possible; parameters as in `read_conllu`."""
    for tree in read_conllu(path, hosts):
        converted = convert(tree)
        if converted is not None:
            yield converted


def convert(ud: Tree) -> Tree | None:
    """Return a UD sentence in the labels of `en_core_web_*`, or None if these cannot express it. That is the case for
    words split in two (goeswith), speech repairs, gapping and two copulas on one predicate.
    """
    if UNCONVERTIBLE & set(ud.deps) or "_" in ud.tags:
        return None
    tree = ud.copy()
    copulas = [head for head, dep in zip(tree.heads, tree.deps, strict=True) if dep == "cop"]
    if len(set(copulas)) < len(copulas):
        return None
    for convert_in_place in PASSES:
        convert_in_place(tree)
    return tree if tree.is_tree() else None


def expand_fixed(tree: Tree) -> None:
    """Replace the flat analysis of fixed expressions by a structure. "because of", "due to": a chain of prepositions;
    "as well as" (cc): well -> as, as -> well; "more than 20": more -> 20 (amod), than -> 20 (quantmod); "each other":
    each -> other (det); "of course": course -> of.
    """
    for first in range(len(tree)):
        rest = tree.children(first, "fixed")
        if not rest:
            continue
        phrase = " ".join(tree.forms[word].lower() for word in [first, *rest])
        head = tree.heads[first]
        dep = tree.deps[first]
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
    head = tree.heads[old]
    dep = tree.deps[old]
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


def invert_copulas(tree: Tree) -> None:
    """Make the verb "be" the head of each copular clause, as in CLEAR, and the predicate its dependent.

    The predicate becomes attr, acomp, ccomp, xcomp or advmod. "The dog is black": black -> is (acomp), dog -> is
    (nsubj). A predicate with a preposition is labelled `obl` for the moment, and `raise_prepositions` makes prep + pobj
    of it. Dependents that belong to the clause (subject, auxiliaries, negation, clause adverbs, punctuation, conjoined
    clauses) move to the verb; those of the predicate itself (determiner, adjectives, degree adverbs, complements) stay.
    """
    for copula in [index for index in range(len(tree)) if tree.deps[index] == "cop"]:
        predicate = tree.heads[copula]
        moving = [child for child in tree.children(predicate) if _moves(tree, child, copula, predicate)]
        tree.attach(copula, tree.heads[predicate], tree.deps[predicate])
        for child in moving:
            tree.attach(child, copula, "nsubj" if tree.deps[child] == "nsubj:outer" else None)
        tree.attach(predicate, copula, _predicate_label(tree, predicate))


def _predicate_label(tree: Tree, predicate: int) -> str:
    if any(tree.tags[child] != "POS" for child in tree.children(predicate, "case")):
        return "obl"
    tag = tree.tags[predicate]
    pos = tree.pos[predicate]
    if tag.startswith("VB") and pos != "ADJ":
        if tree.children(predicate, "nsubj", "nsubj:pass"):
            return "ccomp"
        return "xcomp" if tree.children(predicate, "mark") or tag == "VB" else "acomp"
    if pos == "AUX":  # the predicate is itself a copular clause
        return "ccomp" if tree.children(predicate, "nsubj") else "xcomp"
    return {"ADJ": "acomp", **dict.fromkeys(("ADV", "ADP", "SCONJ", "PART"), "advmod")}.get(pos, "attr")


def _moves(tree: Tree, child: int, copula: int, predicate: int) -> bool:
    """Return whether a dependent of the predicate belongs to the clause and so moves to the copula."""
    dep = tree.deps[child]
    if child == copula or dep not in CLAUSE_LEVEL:
        return False
    after_copula = copula < child < predicate
    verbal = tree.tags[predicate].startswith("VB") and tree.pos[predicate] != "ADJ"
    if dep == "conj":
        return bool(tree.children(child, *CLAUSE_MARKERS)) or tree.tags[child] in FINITE
    within = ("nsubj", "nsubj:pass", "aux", "aux:pass", "mark", "obl", "advmod", "advcl")
    if verbal and child > copula and dep in within:
        return dep == "nsubj" and not tree.children(predicate, "mark", "nsubj:outer")
    if verbal and dep == "nsubj" and tree.children(predicate, "nsubj:outer"):
        return False
    if dep in ("mark", "punct"):
        return not after_copula
    if dep == "advmod":
        return _adverb_belongs_to_clause(tree, child, copula, predicate)
    if tree.pos[predicate] in ("ADJ", "ADV") and dep.startswith("obl"):
        return child < copula if dep in ("obl", "obl:agent") else not after_copula
    return True


def _adverb_belongs_to_clause(tree: Tree, adverb: int, copula: int, predicate: int) -> bool:
    """Return whether an adverb depends on the copula, as in CLEAR, instead of the predicate, as in UD.

    Outside of copula and predicate: all but "enough" ("old enough"). Between them: negation and "also" ("is not old");
    before an adjective what is no degree ("is usually old", but "is very old"); before a preposition what is not right
    before it ("is now in", but "is right in"); else what precedes the noun's own words ("is now a man").
    """
    word = tree.forms[adverb].lower()
    if not copula < adverb < predicate:
        return word != "enough"
    if word in ("not", "n't", "never", "also", "still"):
        return True
    if tree.pos[predicate] in ("ADJ", "ADV"):
        return not (word in DEGREE or word.endswith("ly") and adverb + 1 == predicate)
    cases = [case for case in tree.children(predicate, "case") if case < predicate]
    if cases:  # "is right in front": `raise_prepositions` attaches it to the preposition
        return adverb + 1 != cases[0]
    inner = [child for child in tree.children(predicate, "det", "amod", "nummod", "nmod:poss") if child < predicate]
    return not inner or adverb < inner[0]


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


def raise_prepositions(tree: Tree) -> None:
    """Put prepositions between a nominal and its head: case dependents become prep (or agent), the nominal their pobj.

    "sits on the table": on -> sits (prep), table -> on (pobj). "out of the box": a chain of two. "in the park and on
    the street": on -> in (conj), with the conjunction and comma. "chased by a dog": by is agent. "right in the middle":
    right -> in (advmod). "three feet above": feet -> above (npadvmod). Possessive 's remains case.
    """
    for nominal in range(len(tree)):
        cases = [case for case in tree.children(nominal, "case") if tree.tags[case] != "POS"]
        if cases:
            _raise(tree, nominal, cases)


def raise_gerund_markers(tree: Tree) -> None:
    """Convert preposition + V-ing to prep + pcomp, and "with" + subject + predicate to prep + pobj + acl. "before
    opening it": before -> main verb (prep), opening -> before (pcomp); "while V-ing" remains mark. "with a dog
    running": with (prep), dog -> with (pobj), running -> dog (acl).
    """
    for mark in range(len(tree)):
        if tree.deps[mark] != "mark" or tree.tags[mark] not in ("IN", "RB", "VBG", "TO"):
            continue
        verb = tree.heads[mark]
        word = tree.forms[mark].lower()
        if verb < 0 or verb < mark:
            continue
        subjects = tree.children(verb, "nsubj", "nsubj:pass", "nsubj:outer")
        finite = tree.tags[verb] in ("VBD", "VBZ", "VBP", "VB") or bool(tree.children(verb, "aux"))
        absolute = word in ("with", "without", "w/") and subjects and not finite
        gerund = tree.tags[verb] == "VBG" and not subjects and not finite and word in GERUND_PREPOSITIONS
        if not absolute and not gerund:
            continue
        tag = tree.tags[verb]
        label = "pcomp"
        if absolute:
            label = "acl" if tag.startswith("VB") else "amod" if tag.startswith("JJ") else "advmod"
            if tree.deps[verb] == "prep" or tree.children(verb, "prep", "pobj") and tag in ("IN", "TO"):
                label = "prep"
        tree.attach(mark, tree.heads[verb], tree.deps[verb] if gerund and tree.deps[verb] in OWN_LABEL else "prep")
        _move_left_commas(tree, verb, mark)
        if absolute:
            tree.attach(subjects[0], mark, "pobj")
        tree.attach(verb, subjects[0] if absolute else mark, label)


def _move_left_commas(tree: Tree, old: int, new: int) -> None:
    head = tree.heads[new]
    for child in tree.children(old, "punct", "cc"):
        if child < new and head >= 0:
            tree.attach(child, head)


def _raise(tree: Tree, nominal: int, cases: list[int]) -> None:
    """Make the prepositions of a nominal its heads: the first takes over its head, each other one depends on the last.
    What belongs to the outer phrase (conjunctions, commas, clause-level dependents) moves to the first preposition.
    """
    outer = cases[0]
    head = tree.heads[nominal]
    dep = tree.deps[nominal]
    label = "agent" if dep == "obl:agent" else dep if dep in OWN_LABEL else "prep"
    if dep == "conj":
        previous = _conjoined_preposition(tree, head)
        if previous is not None:
            for child in tree.children(head, "cc", "punct"):
                if head < child < outer:
                    tree.attach(child, previous)
            head = previous
    if len(cases) > 1 and tree.forms[outer].lower() == "such":  # such -> as (amod), as -> head (prep)
        tree.attach(outer, cases[1], "amod")
        outer = cases[1]
        cases = cases[1:]
    if label == "prep" and tree.tags[outer] in ("RB", "JJ") and len(cases) > 1:
        label = "advmod"  # instead of, next to: the preposition depends on the adverb
    tree.attach(outer, head, label)
    last = outer
    for case in cases[1:]:
        tree.attach(case, last if case < nominal else outer, "prep")
        last = case if case < nominal else last
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
    first_word = preposition
    for child in reversed(tree.children(nominal)):
        if child >= preposition or tree.deps[child] not in LEADING:
            continue
        if max(tree.subtree(child)) + 1 == first_word and tree.pos[child] not in ("NUM", "DET"):
            dep = tree.deps[child]
            tree.attach(child, preposition, dep if dep == "advmod" else "npadvmod")
            first_word = min(tree.subtree(child))


def convert_clauses(tree: Tree) -> None:
    """Convert the labels of clauses and complements, which depend on the governing verb.

    "There is a dog": dog is attr. "It is nice to see": it is nsubj, see xcomp. "sees a man jump": jump is ccomp, man
    its nsubj. "sees a man jumping": jumping is acl of man. "looks happy": acomp. "became a nurse": attr. "paint it
    red": red is oprd. "not": neg. "to V": aux. Prepositions without an object: prep.
    """
    for word in range(len(tree)):
        dep = tree.deps[word]
        head = tree.heads[word]
        form = tree.forms[word].lower()
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
    """Convert an xcomp of UD, whose subject is that of its head or its object, see `convert_clauses`."""
    objects = [child for child in tree.children(head, "obj") if child < word]
    tag = tree.tags[word]
    pos = tree.pos[word]
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
    """Rename the remaining labels to those of CLEAR; bare nominals become npadvmod, adverbs of numbers quantmod."""
    for word in range(len(tree)):
        dep = tree.deps[word]
        head = tree.heads[word]
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


PASSES = (
    expand_fixed, make_names_head_final, invert_copulas, chain_conjuncts, raise_prepositions, raise_gerund_markers,
    convert_clauses, rename, reattach_punctuation, convert_pos,
)  # fmt: skip
