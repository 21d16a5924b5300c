"""The dependency tree of a sentence, and where trees come from: CoNLL-U files, other trees, and parses of captions.

Other trees: random changes make sentences of treebanks more like captions (lower case, no full stop, fragments, pairs).
Parses: a caption is trained on if two models parse it alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random

import fsspec
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

# Hosts of the GUM documents whose texts may be adapted and redistributed: Wikinews (CC BY), Wikipedia, Wikivoyage and
# Wikisource (CC BY-SA). Everything else in GUM is left out: some of it is non-commercial (wikiHow, most of the fiction)
# or allows no derived works (Santa Barbara conversations), and the rest varies by document.
REDISTRIBUTABLE_HOSTS = ("en.wikinews.org", "en.wikipedia.org", "en.wikivoyage.org", "en.wikisource.org")


@dataclass
class Tree:
    """A sentence with one entry per word in every list.

    forms, lemmas: texts; spaces: whether a space follows; tags: Penn tags; pos: UPOS; heads: index of the head from 0,
    -1 for the root; deps: dependency labels. Generated trees have no lemmas.
    """

    forms: list[str]
    spaces: list[bool]
    tags: list[str]
    pos: list[str]
    heads: list[int]
    deps: list[str]
    lemmas: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.forms)

    def children(self, head: int, *deps: str) -> list[int]:
        """Return the dependents of word `head` from left to right; only those labelled with one of `deps`, if given."""
        children = [word for word, other in enumerate(self.heads) if other == head]
        return [word for word in children if self.deps[word] in deps] if deps else children

    def attach(self, word: int, head: int, dep: str | None = None) -> None:
        """Set the head of a word (indices from 0) and its label; None keeps the label."""
        self.heads[word] = head
        if dep is not None:
            self.deps[word] = dep

    def subtree(self, word: int) -> list[int]:
        """Return the indices of a word and all its descendants, in ascending order."""
        below = {word}
        stack = [word]
        while stack:
            new = set(self.children(stack.pop())) - below
            below |= new
            stack += new
        return sorted(below)

    def copy(self) -> Tree:
        """Return a deep copy."""
        return Tree(*(list(column) for column in vars(self).values()))

    def is_tree(self) -> bool:
        """Return whether there is exactly one root and every word is its descendant."""
        return self.heads.count(-1) == 1 and len(self.subtree(self.heads.index(-1))) == len(self)


def read_conllu(path: Path, hosts: tuple[str, ...] | None = None) -> Iterator[Tree]:
    """Yield the sentences of a CoNLL-U file, plain or gzipped, with its labels.

    hosts: if given, only documents whose `meta::sourceURL` is on one of these. Raises ValueError, with the file and the
    line, for a line that is no CoNLL-U.
    """
    is_wanted = hosts is None
    rows: list[list[str]] = []
    # For the words of contractions ("don't"), by their number from 1: whether no space follows.
    is_joined: dict[int, bool] = {}
    with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as lines:
        # One more empty line, as the last sentence may lack the one that ends it.
        for number, line in enumerate(chain(lines, ["\n"]), 1):
            columns = line.rstrip("\n").split("\t")
            if line.startswith("# newdoc"):
                is_wanted = hosts is None
            elif line.startswith("# meta::sourceURL") and hosts is not None:
                is_wanted = any(f"//{host}/" in line for host in hosts)
            elif line == "\n":
                if is_wanted and rows:
                    yield _tree_of_rows(rows, is_joined)
                rows = []
                is_joined = {}
            elif line.startswith("#"):
                continue
            elif len(columns) != 10:
                raise ValueError(f"{path}:{number}: a CoNLL-U line must have 10 columns, has: {len(columns)}")
            elif "-" in columns[0]:  # a multi-word token: its parts are written together
                first, last = map(int, columns[0].split("-"))
                is_joined |= dict.fromkeys(range(first, last), True)
                is_joined[last] = "SpaceAfter=No" in columns[9]
            elif "." not in columns[0]:  # "8.1" is a word that was left out of the sentence
                rows.append(columns)


def _tree_of_rows(rows: list[list[str]], is_joined: dict[int, bool]) -> Tree:
    """Return the tree of a sentence in CoNLL-U.

    Args:
        rows: the ten columns of each word.
        is_joined: for the words of contractions, by their number from 1, whether no space follows. Other words have a
            note, SpaceAfter=No.
    """
    _, forms, lemmas, pos, tags, _, heads, deps, _, notes = zip(*rows, strict=True)
    return Tree(
        forms=list(forms),
        spaces=[not is_joined.get(word, "SpaceAfter=No" in note) for word, note in enumerate(notes, 1)],
        tags=list(tags),
        pos=list(pos),
        heads=[int(head) - 1 for head in heads],
        deps=list(deps),
        lemmas=[lemma.lower() for lemma in lemmas],
    )


def to_doc(trees: Iterable[Tree], vocab: Vocab) -> Doc:
    """Return one spaCy document with one or more sentences and their gold annotation."""
    joined = Tree([], [], [], [], [], [])
    starts: list[bool | int | None] = []
    for tree in trees:
        offset = len(joined)
        joined.forms += tree.forms
        joined.spaces += [*tree.spaces[:-1], True]
        joined.tags += tree.tags
        joined.pos += tree.pos
        joined.deps += tree.deps
        for index, head in enumerate(tree.heads):
            # In spaCy a root is its own head.
            joined.heads.append(offset + (index if head < 0 else head))
            starts.append(index == 0)
    return Doc(
        vocab,
        words=joined.forms,
        spaces=joined.spaces,
        tags=joined.tags,
        pos=joined.pos,
        heads=joined.heads,
        deps=joined.deps,
        sent_starts=starts,
    )


# Shares of the sentences that are changed in an epoch: put into lower case, or left without their full stop.
LOWER = 0.30
UNSTOPPED = 0.35
# Of the sentences that keep their full stop, the share that gets a space before it.
SPACED_STOP = 0.50
# The share of sentences that make one document with the next sentence.
JOINED = 0.12
# How many words the first sentence of a pair may have.
LONGEST_JOINED = 24
# Words of a caption that is trained on as models parse it.
SHORTEST = 5
LONGEST = 30


def augment(tree: Tree, rng: Random) -> Tree:
    """Return the sentence; at random in lower case, without its final full stop, or with a space before that."""
    tree = tree.copy()
    if rng.random() < LOWER:
        tree.forms = [form.lower() for form in tree.forms]
    if rng.random() < UNSTOPPED:
        return without_final_stop(tree)
    if len(tree) > 1 and tree.forms[-1] == "." and rng.random() < SPACED_STOP:
        tree.spaces[-2] = True
    return tree


def joined(trees: list[Tree], rng: Random) -> Iterator[list[Tree]]:
    """Yield documents of mostly one sentence and sometimes two, so that the parser learns sentence boundaries."""
    pending: list[Tree] = []
    for tree in trees:
        if not pending and rng.random() < JOINED and len(tree) <= LONGEST_JOINED:
            pending = [tree]
        else:
            yield [*pending, tree]
            pending = []
    if pending:
        yield pending


def without_final_stop(tree: Tree) -> Tree:
    """Return the tree without its last word if that is a full stop without dependents; else the tree itself."""
    last = len(tree) - 1
    if last < 1 or tree.tags[last] != "." or tree.heads[last] < 0 or tree.children(last):
        return tree
    return select(tree, kept=list(range(last)), root=tree.heads.index(-1))  # the root's head is -1


def fragments(tree: Tree, rng: Random) -> Iterator[Tree]:
    """Yield a sentence made of a part of a sentence, if possible, since captions often have no finite verb.

    "a dog is running" gives "a dog running" (the participle becomes the subject's acl); other sentences give a whole
    noun phrase.
    """
    for verb in range(len(tree)):
        fragment = _without_auxiliary(tree, verb)
        if fragment is not None:
            yield fragment
            return
    deps = ("dobj", "pobj", "nsubj", "attr")
    nouns = [word for word in range(len(tree)) if tree.tags[word] in ("NN", "NNS") and tree.deps[word] in deps]
    rng.shuffle(nouns)
    for noun in nouns:
        phrase = tree.subtree(noun)
        is_contiguous = phrase[-1] - phrase[0] + 1 == len(phrase)
        if 3 <= len(phrase) <= 14 and is_contiguous:
            yield select(tree, kept=phrase, root=noun)
            return


def _without_auxiliary(tree: Tree, verb: int) -> Tree | None:
    """Return the noun phrase "a dog running" of a clause "a dog is running", given the verb's index; None if the word
    is no such verb.
    """
    if tree.tags[verb] != "VBG" or tree.deps[verb] not in ("ROOT", "conj", "ccomp", "parataxis"):
        return None
    auxiliaries = tree.children(verb, "aux", "neg", "mark")
    subjects = tree.children(verb, "nsubj", "nsubjpass")
    if len(auxiliaries) != 1 or len(subjects) != 1 or tree.children(verb, "conj", "parataxis"):
        return None
    auxiliary = auxiliaries[0]
    subject = subjects[0]
    # A slice, which for generated trees is empty, where an index would raise an error: they have no lemmas.
    if tree.deps[auxiliary] != "aux" or tree.lemmas[auxiliary : auxiliary + 1] != ["be"]:
        return None
    if tree.tags[subject][:2] != "NN" or subject > verb:
        return None
    words = set(tree.subtree(verb)) - {auxiliary, *tree.children(verb, "cc", "punct")}
    phrase = tree.copy()
    phrase.attach(subject, tree.heads[verb])
    phrase.attach(verb, subject, "acl")
    return select(phrase, kept=sorted(words), root=subject)


def select(tree: Tree, kept: list[int], root: int) -> Tree:
    """Return the subtree of the words `kept` (indices) with the new root `root`; all must be its descendants."""
    new_index = {old: new for new, old in enumerate(kept)}
    # `lemmas` may be empty.
    columns = vars(tree).values()
    selected = Tree(*([column[old] for old in kept] if column else [] for column in columns))
    # What depended on a word that is gone depends on the new root.
    selected.heads = [new_index.get(head, new_index[root]) for head in selected.heads]
    selected.attach(new_index[root], -1, "ROOT")
    return selected


def coco_captions(path: Path, held_out: bool = False) -> list[str]:
    """Return the captions of a COCO annotation file in file order, with normalised white space.

    Only COCO's captions may be trained on (CC BY 4.0). path: `captions_*.json` or `captions_*.json.gz`. held_out: True
    for the captions of images whose number ends in 0, on which the parser is evaluated, False for all others. Raises
    ValueError if the file has no `annotations`.
    """
    with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as stream:
        record = json.load(stream)
    if "annotations" not in record:
        raise ValueError(f"{path}: a COCO caption file must have 'annotations', has: {sorted(record)}")
    chosen = (entry for entry in record["annotations"] if (entry["image_id"] % 10 == 0) == held_out)
    return [" ".join(entry["caption"].split()) for entry in chosen]


def agreed_trees(first: Language, second: Language, captions: Iterable[str], count: int, rng: Random) -> list[Tree]:
    """Return parses on which two parsers agree in every tag, head and label: such parses are mostly right.

    Args:
        first, second: the parsers.
        captions: of which random ones are parsed.
        count: how many parses are wanted, at most.
        rng: chooses the captions.
    """
    texts = sorted(set(captions))
    agreed = []
    for parse, other in zip(first.pipe(texts), second.pipe(texts), strict=True):
        if _are_same_parse(parse, other) and _is_plausible(parse):
            agreed.append(_tree_of_parse(parse))
    return agreed if len(agreed) <= count else rng.sample(agreed, count)


def _are_same_parse(parse: Doc, other: Doc) -> bool:
    """Whether two parses of a sentence have the same tags, labels and heads."""
    pairs = zip(parse, other, strict=True)
    return all((a.tag, a.dep, a.head.i) == (b.tag, b.dep, b.head.i) for a, b in pairs)


def _tree_of_parse(parse: Doc) -> Tree:
    """A parse of spaCy, in which a root is its own head, as a tree."""
    return Tree(
        forms=[token.text for token in parse],
        spaces=[bool(token.whitespace_) for token in parse],
        tags=[token.tag_ for token in parse],
        pos=[token.pos_ for token in parse],
        heads=[-1 if token.head.i == token.i else token.head.i for token in parse],
        deps=[token.dep_ for token in parse],
    )


def _is_plausible(parse: Doc) -> bool:
    """Return whether a parse has 5 to 30 words, one root, and no determiner outside a noun chunk."""
    roots = sum(token.head.i == token.i for token in parse)
    if not SHORTEST <= len(parse) <= LONGEST or roots != 1:
        return False
    in_chunk = {token.i for chunk in parse.noun_chunks for token in chunk}
    determiners = [token for token in parse if token.tag_ in ("DT", "PRP$") and token.dep_ in ("det", "poss")]
    return all(token.i in in_chunk for token in determiners)
