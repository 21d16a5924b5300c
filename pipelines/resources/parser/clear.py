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
CLAUSE_LEVEL = frozenset(WORDS["clause_level"].split())
DEGREE = frozenset(WORDS["degree"].split())
GERUND_PREPOSITIONS = frozenset(WORDS["gerund_prepositions"].split())
UNCONVERTIBLE = {"goeswith", "reparandum", "orphan", "dislocated"}  # a tree with one of these labels is left out
WANTING = {"want", "like", "love", "hate", "need", "prefer", "expect"}
NOMINAL_DEPS = {"nsubj", "nsubjpass", "dobj", "pobj", "attr", "dative", "conj", "ROOT", "appos"}
CLAUSE_MARKERS = ("cop", "aux", "aux:pass", "nsubj", "nsubj:pass", "nsubj:outer", "csubj", "expl")
FINITE = ("VBD", "VBZ", "VBP", "MD")
# Labels of dependents that stay with a predicate that is a verb.
WITHIN_VERB = ("nsubj", "nsubj:pass", "aux", "aux:pass", "mark", "obl", "advmod", "advcl")
LEADING = ("advmod", "obl:unmarked", "nmod:unmarked", "obl:npmod", "obl:tmod", "nummod")
ROOT_LEVEL = ("punct", "discourse", "vocative", "parataxis", "advcl", "cc", "mark", "list", "nsubj", "aux", "expl")
# Labels that a preposition takes over from its nominal, instead of prep.
OWN_LABEL = ("root", "conj", "parataxis", "ccomp", "appos", "list")


def read_clear(path: Path, hosts: tuple[str, ...] | None = None) -> Iterator[Tree]:
    """Yield the sentences of a UD file converted to CLEAR, where that is possible.

    hosts: if given, only documents whose `meta::sourceURL` is on one of these.
    """
    for tree in read_conllu(path, hosts):
        converted = convert(tree)
        if converted is not None:
            yield converted


def convert(ud: Tree) -> Tree | None:
    """Return a UD sentence in the labels of `en_core_web_*`, or None if these cannot express it.

    They cannot for words split in two (goeswith), speech repairs, gapping and two copulas on one predicate.
    """
    if UNCONVERTIBLE & set(ud.deps) or "_" in ud.tags:
        return None
    tree = ud.copy()
    predicates = [head for head, dep in zip(tree.heads, tree.deps, strict=True) if dep == "cop"]  # one of each copula
    if len(set(predicates)) < len(predicates):
        return None
    for convert_in_place in PASSES:
        convert_in_place(tree)
    return tree if tree.is_tree() else None


def expand_fixed(tree: Tree) -> None:
    """Replace the flat analysis of fixed expressions (in UD all words depend on the first) by a structure.

    "because of", "due to": a chain of prepositions; "as well as" (cc): well -> as, as -> well; "more than 20": more ->
    20 (amod), than -> 20 (quantmod); "each other": each -> other (det); "of course": course -> of.
    """
    for first in range(len(tree)):
        rest = tree.children(first, "fixed")
        if rest:
            _expand_expression(tree, first, rest)


def _expand_expression(tree: Tree, first: int, rest: list[int]) -> None:
    """Replace the flat analysis of one fixed expression, of the word `first` and the words `rest` below it."""
    phrase = " ".join(tree.forms[word].lower() for word in [first, *rest])
    head = tree.heads[first]
    dep = tree.deps[first]
    if phrase in ("each other", "one another"):
        _put_in_place_of(tree, first, rest[0])
        tree.attach(first, rest[0], "det")
    elif phrase in ("as well", "as well as", "rather than", "rather then"):
        previous = first
        for word in rest:
            _put_in_place_of(tree, previous, word)
            tree.attach(previous, word, "advmod")
            previous = word
    elif dep in ("case", "mark"):  # "because of": `raise_prepositions` makes a chain of them
        for word in rest:
            tree.attach(word, head, dep)
    elif head >= 0 and tree.tags[head] == "CD":  # "more than 20"
        for word in rest:
            tree.attach(word, head, "quantmod")
        tree.deps[first] = "amod" if len(rest) == 1 and tree.tags[first].startswith("JJ") else "quantmod"
    else:  # "of course"
        for word in rest:
            tree.attach(word, first, "pobj" if tree.tags[word] == "NN" else "advmod")


def _put_in_place_of(tree: Tree, old: int, new: int) -> None:
    """Give the word `new` the head, label and dependents of the word `old`, and make `old` a dependent of `new`."""
    head = tree.heads[old]
    dep = tree.deps[old]
    for child in tree.children(old):
        if child != new:
            tree.attach(child, new)
    tree.attach(new, head, dep)
    tree.attach(old, new)


def make_names_head_final(tree: Tree) -> None:
    """Make the last word of a name its head, which in UD is the first: "Ada Lovelace": Ada -> Lovelace (compound)."""
    for first in range(len(tree)):
        rest = tree.children(first, "flat")
        if rest and rest[-1] > first:
            last = rest[-1]
            _put_in_place_of(tree, first, last)
            for word in [first, *rest[:-1]]:
                tree.attach(word, last, "compound")


def invert_copulas(tree: Tree) -> None:
    """Make the verb "be" the head of each copular clause, as in CLEAR, and the predicate its dependent.

    The predicate becomes attr, acomp, ccomp, xcomp or advmod. "The dog is black": black -> is (acomp), dog -> is
    (nsubj). A predicate with a preposition is labelled `obl` for the moment, and `raise_prepositions` makes prep + pobj
    of it. Dependents that belong to the clause (subject, auxiliaries, negation, clause adverbs, punctuation, conjoined
    clauses) move to the verb; those of the predicate itself (determiner, adjectives, degree adverbs, complements) stay.
    """
    for copula in [index for index in range(len(tree)) if tree.deps[index] == "cop"]:
        predicate = tree.heads[copula]
        moving = [child for child in tree.children(predicate) if _belongs_to_clause(tree, child, copula, predicate)]
        tree.attach(copula, tree.heads[predicate], tree.deps[predicate])
        for child in moving:
            tree.attach(child, copula, "nsubj" if tree.deps[child] == "nsubj:outer" else None)
        tree.attach(predicate, copula, _predicate_label(tree, predicate))


def _predicate_label(tree: Tree, predicate: int) -> str:
    """Return the label of a predicate below its copula."""
    if any(tree.tags[child] != "POS" for child in tree.children(predicate, "case")):
        return "obl"  # with a preposition
    tag = tree.tags[predicate]
    pos = tree.pos[predicate]
    if tag.startswith("VB") and pos != "ADJ":
        if tree.children(predicate, "nsubj", "nsubj:pass"):
            return "ccomp"
        return "xcomp" if tree.children(predicate, "mark") or tag == "VB" else "acomp"
    # The predicate is itself a copular clause.
    if pos == "AUX":
        return "ccomp" if tree.children(predicate, "nsubj") else "xcomp"
    if pos == "ADJ":
        return "acomp"
    return "advmod" if pos in ("ADV", "ADP", "SCONJ", "PART") else "attr"


def _belongs_to_clause(tree: Tree, child: int, copula: int, predicate: int) -> bool:
    """Return whether a dependent of the predicate belongs to the clause and so moves to the copula."""
    dep = tree.deps[child]
    if child == copula or dep not in CLAUSE_LEVEL:
        return False
    is_between = copula < child < predicate
    is_verbal = tree.tags[predicate].startswith("VB") and tree.pos[predicate] != "ADJ"
    # A conjoined clause, but not a conjoined predicate ("is old and tired").
    if dep == "conj":
        return bool(tree.children(child, *CLAUSE_MARKERS)) or tree.tags[child] in FINITE
    # "the plan is to go there": there -> go.
    if is_verbal and child > copula and dep in WITHIN_VERB:
        return dep == "nsubj" and not tree.children(predicate, "mark", "nsubj:outer")
    # "the problem is that he left" (UD: problem is nsubj:outer): he -> left, not he -> is.
    if is_verbal and dep == "nsubj" and tree.children(predicate, "nsubj:outer"):
        return False
    if dep in ("mark", "punct"):
        return not is_between
    if dep == "advmod":
        return _adverb_belongs_to_clause(tree, child, copula, predicate)
    # "is full of it": of -> full.
    if tree.pos[predicate] in ("ADJ", "ADV") and dep.startswith("obl"):
        return child < copula if dep in ("obl", "obl:agent") else not is_between
    return True


def _adverb_belongs_to_clause(tree: Tree, adverb: int, copula: int, predicate: int) -> bool:
    """Return whether an adverb depends on the copula, as in CLEAR, instead of the predicate, as in UD.

    If it does not stand between copula and predicate, it does, unless it is "enough" ("old enough"). Between them do:
    negation and "also" ("is not old"); before an adjective, adverbs other than of degree ("is usually old", but "is
    very old"); before a preposition, adverbs not right before it ("is now in", but "is right in"); before a noun, those
    that precede the noun's own words ("is now a man").
    """
    word = tree.forms[adverb].lower()
    if not copula < adverb < predicate:
        return word != "enough"
    if word in ("not", "n't", "never", "also", "still"):
        return True
    if tree.pos[predicate] in ("ADJ", "ADV"):
        is_of_degree = word in DEGREE or (word.endswith("ly") and adverb + 1 == predicate)
        return not is_of_degree
    cases = [case for case in tree.children(predicate, "case") if case < predicate]
    # "is right in front": `raise_prepositions` attaches it to the preposition.
    if cases:
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
            # The first word of the conjunct: a conjunction or comma before it joins it to the previous one.
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
            _raise_prepositions_of(tree, nominal, cases)


def raise_gerund_markers(tree: Tree) -> None:
    """Convert preposition + V-ing to prep + pcomp, and "with" + subject + predicate to prep + pobj + acl.

    "before opening it": before -> main verb (prep), opening -> before (pcomp); "while V-ing" remains mark. "with a dog
    running": with (prep), dog -> with (pobj), running -> dog (acl).
    """
    for mark in range(len(tree)):
        if tree.deps[mark] != "mark" or tree.tags[mark] not in ("IN", "RB", "VBG", "TO"):
            continue
        verb = tree.heads[mark]
        if verb < 0 or verb < mark:
            continue
        word = tree.forms[mark].lower()
        subjects = tree.children(verb, "nsubj", "nsubj:pass", "nsubj:outer")
        is_finite = tree.tags[verb] in ("VBD", "VBZ", "VBP", "VB") or bool(tree.children(verb, "aux"))
        if is_finite:
            continue
        if subjects and word in ("with", "without", "w/"):
            label = _label_after_subject(tree, verb)
            tree.attach(mark, tree.heads[verb], "prep")
            _move_left_commas(tree, verb, mark)
            tree.attach(subjects[0], mark, "pobj")
            tree.attach(verb, subjects[0], label)
        elif not subjects and tree.tags[verb] == "VBG" and word in GERUND_PREPOSITIONS:
            tree.attach(mark, tree.heads[verb], tree.deps[verb] if tree.deps[verb] in OWN_LABEL else "prep")
            _move_left_commas(tree, verb, mark)
            tree.attach(verb, mark, "pcomp")


def _label_after_subject(tree: Tree, predicate: int) -> str:
    """Return the label, below the object of "with", of what is said of it: "with a dog running" (acl)."""
    tag = tree.tags[predicate]
    if tree.deps[predicate] == "prep":
        return "prep"
    # "with a dog on the table".
    if tree.children(predicate, "prep", "pobj") and tag in ("IN", "TO"):
        return "prep"
    if tag.startswith("VB"):
        return "acl"
    return "amod" if tag.startswith("JJ") else "advmod"


def _move_left_commas(tree: Tree, old: int, new: int) -> None:
    """Attach the commas and conjunctions that depend on `old` and stand before `new` to the head of `new`.

    new: the new head of `old`.
    """
    head = tree.heads[new]
    for child in tree.children(old, "punct", "cc"):
        if child < new and head >= 0:
            tree.attach(child, head)


def _raise_prepositions_of(tree: Tree, nominal: int, cases: list[int]) -> None:
    """Make the prepositions of a nominal its heads: the first depends on the old head of the nominal, each further one
    on the preposition before it, and the nominal on the last.

    What belongs to the outer phrase (conjunctions, commas, clause-level dependents) moves to the first preposition.

    Args:
        tree: the sentence, changed in place.
        nominal: the index of a word such as "table".
        cases: the indices of its prepositions, from left to right.
    """
    outer = cases[0]
    head = tree.heads[nominal]
    dep = tree.deps[nominal]
    if dep == "obl:agent":
        label = "agent"
    else:
        label = dep if dep in OWN_LABEL else "prep"
    # "in the park and on the street": on -> in, not on -> park.
    if dep == "conj":
        previous = _conjoined_preposition(tree, head)
        if previous is not None:
            for child in tree.children(head, "cc", "punct"):
                if head < child < outer:
                    tree.attach(child, previous)
            head = previous
    # "such as": such -> as (amod), as -> head (prep).
    if len(cases) > 1 and tree.forms[outer].lower() == "such":
        tree.attach(outer, cases[1], "amod")
        outer = cases[1]
        cases = cases[1:]
    if label == "prep" and tree.tags[outer] in ("RB", "JJ") and len(cases) > 1:
        # "instead of", "next to": the preposition depends on the adverb.
        label = "advmod"
    tree.attach(outer, head, label)
    last = outer
    for case in cases[1:]:
        # "out of the box": a chain. One behind the nominal depends on the first.
        if case < nominal:
            tree.attach(case, last, "prep")
            last = case
        else:
            tree.attach(case, outer, "prep")
    _move_leading(tree, nominal, outer)
    if label != "prep" and dep in ("root", "parataxis", "ccomp", "list", "conj"):
        _move_clause_dependents(tree, nominal, outer)
    _move_left_commas(tree, nominal, outer)
    is_verbal = tree.tags[nominal] in ("VBG", "VB", "WRB", "RB")
    tree.attach(nominal, last, "pcomp" if is_verbal else "pobj")


def _move_clause_dependents(tree: Tree, nominal: int, preposition: int) -> None:
    """Attach to the preposition what belongs to the whole phrase and depended on its nominal."""
    for child in tree.children(nominal, *ROOT_LEVEL):
        follows = child > nominal and tree.deps[child] in ("punct", "discourse", "parataxis", "advcl")
        if child < preposition or follows:
            tree.attach(child, preposition)


def _conjoined_preposition(tree: Tree, nominal: int) -> int | None:
    """Return the preposition above a nominal, the outermost one of a chain such as "out of"; None if it has none."""
    if tree.deps[nominal] not in ("pobj", "pcomp"):
        return None
    preposition = tree.heads[nominal]
    while tree.deps[preposition] == "prep" and tree.deps[tree.heads[preposition]] in ("prep", "agent", "conj"):
        if tree.tags[tree.heads[preposition]] not in ("IN", "TO", "RB", "JJ"):
            break
        preposition = tree.heads[preposition]
    return preposition


def _move_leading(tree: Tree, nominal: int, preposition: int) -> None:
    """Attach what stands right before a preposition to it: "right in the middle", "three feet above".

    nominal: the noun of the prepositional phrase, on which such words depend until now.
    """
    first_word = preposition
    for child in reversed(tree.children(nominal)):
        if child >= preposition or tree.deps[child] not in LEADING:
            continue
        is_adjacent = max(tree.subtree(child)) + 1 == first_word
        if is_adjacent and tree.pos[child] not in ("NUM", "DET"):
            tree.attach(child, preposition, "advmod" if tree.deps[child] == "advmod" else "npadvmod")
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
                is_infinitive = any(tree.tags[child] == "TO" for child in tree.children(clause))
                if clause > head:
                    tree.deps[clause] = "xcomp" if is_infinitive else "ccomp"
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
    """Convert an xcomp of UD: a complement whose subject is the subject or the object of its head.

    "sees a man jumping" and "sees a man jump": jumping, jump; "looks happy": happy; "paint it red": red.
    """
    objects = [child for child in tree.children(head, "obj") if child < word]
    tag = tree.tags[word]
    pos = tree.pos[word]
    has_to = any(tree.tags[child] == "TO" for child in tree.children(word))
    if pos in ("VERB", "AUX"):
        if not objects:
            return  # "starts to run" stays xcomp
        # "sees a man jump", "wants a man to jump": the object is the subject of the complement.
        takes_subject = tree.lemmas[head] in WANTING if has_to else tag in ("VB", "VBN")
        if tag == "VBG":  # "sees a man jumping"
            tree.attach(word, objects[0], "acl")
        elif takes_subject:
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
    """Attach the final full stop to the root, and other punctuation so high that its arc crosses no other arc."""
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
    """Return whether the arc from a word to its head crosses another, or leaves an arc that spans the word."""
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
    """Adapt the UPOS tags that spaCy's models use differently: "other" without a noun is NOUN and heads a chunk."""
    for word in range(len(tree)):
        if tree.forms[word].lower() in ("other", "others") and tree.deps[word] in NOMINAL_DEPS:
            tree.pos[word] = "NOUN"


PASSES = (
    expand_fixed, make_names_head_final, invert_copulas, chain_conjuncts, raise_prepositions, raise_gerund_markers,
    convert_clauses, rename, reattach_punctuation, convert_pos,
)  # fmt: skip
