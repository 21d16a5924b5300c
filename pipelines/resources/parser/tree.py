"""The dependency tree of a sentence, and a reader of CoNLL-U files."""

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

# Hosts of the GUM documents whose texts may be adapted and redistributed: Wikinews (CC BY), Wikipedia, Wikivoyage and
# Wikisource (CC BY-SA). Everything else in GUM is left out: some of it is non-commercial (wikiHow, most of the fiction)
# or allows no derived works (Santa Barbara conversations), and the rest varies by document.
REDISTRIBUTABLE_HOSTS = ("en.wikinews.org", "en.wikipedia.org", "en.wikivoyage.org", "en.wikisource.org")


def read_conllu(path: Path, hosts: tuple[str, ...] | None = None) -> Iterator["Tree"]:
    """Yield the sentences of a CoNLL-U file, plain or gzipped, with the labels of the file.

    Parameters
    ----------
    path
        `*.conllu` or `*.conllu.gz`.
    hosts
        If given, only documents whose `meta::sourceURL` is on one of these hosts are read.

    Raises
    ------
    ValueError
        For a line that is not CoNLL-U, with the file and the line.
    """
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    wanted, rows, spaced_until = hosts is None, list[list[str]](), 0
    with opened as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if line.startswith("# newdoc"):
                wanted = hosts is None
            elif line.startswith("# meta::sourceURL") and hosts is not None:
                wanted = any(f"//{host}/" in line for host in hosts)
            elif not line:
                if wanted and rows:
                    yield _tree_of(rows)
                rows, spaced_until = [], 0
            elif not line.startswith("#"):
                columns = line.split("\t")
                if len(columns) != 10:
                    raise ValueError(f"{path}:{number}: a CoNLL-U line must have 10 columns, has: {len(columns)}")
                if "-" in columns[0]:  # a multi-word token: its parts are written together
                    first, last = columns[0].split("-")
                    spaced_until = int(last)
                    glued_after = "SpaceAfter=No" in columns[9]
                elif "." not in columns[0]:
                    index = int(columns[0])
                    if spaced_until and index <= spaced_until:
                        inside = index < spaced_until or glued_after
                        columns[9] = "SpaceAfter=No" if inside else "_"
                    rows.append(columns)
    if wanted and rows:
        yield _tree_of(rows)


def _tree_of(rows: list[list[str]]) -> "Tree":
    return Tree(
        forms=[row[1] for row in rows],
        spaces=["SpaceAfter=No" not in row[9] for row in rows],
        tags=[row[4] for row in rows],
        pos=[row[3] for row in rows],
        heads=[int(row[6]) - 1 for row in rows],
        deps=[row[7] for row in rows],
        lemmas=[row[2].lower() for row in rows],
    )


def to_doc(trees: Iterable["Tree"], vocab: "Vocab") -> "Doc":
    """Return one spaCy document with one or more sentences and their gold annotation."""
    from spacy.tokens import Doc

    words: list[str] = []
    spaces: list[bool] = []
    tags: list[str] = []
    pos: list[str] = []
    deps: list[str] = []
    heads: list[int] = []
    starts: list[bool | int | None] = []
    for tree in trees:
        offset = len(words)
        words += tree.forms
        spaces += [*tree.spaces[:-1], True]
        tags += tree.tags
        pos += tree.pos
        deps += tree.deps
        heads += [offset + (head if head >= 0 else index) for index, head in enumerate(tree.heads)]
        starts += [index == 0 for index in range(len(tree))]
    return Doc(vocab, words=words, spaces=spaces, tags=tags, pos=pos, heads=heads, deps=deps, sent_starts=starts)


@dataclass
class Tree:
    """A sentence with one entry per word in every list.

    forms, lemmas: texts; spaces: whether a space follows; tags: Penn tags; pos: UPOS; heads: index of the head from 0,
    -1 for the root; deps: dependency labels.
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
        return [
            index for index, other in enumerate(self.heads) if other == head and (not deps or self.deps[index] in deps)
        ]

    def attach(self, word: int, head: int, dep: str | None = None) -> None:
        """Set the head of a word (indices from 0) and its label; None keeps the label."""
        self.heads[word] = head
        if dep is not None:
            self.deps[word] = dep

    def subtree(self, word: int) -> list[int]:
        """Return the indices of a word and all its descendants, in ascending order."""
        below, stack = {word}, [word]
        while stack:
            for child in self.children(stack.pop()):
                if child not in below:
                    below.add(child)
                    stack.append(child)
        return sorted(below)

    def copy(self) -> "Tree":
        """Return a deep copy."""
        return Tree(
            list(self.forms), list(self.spaces), list(self.tags), list(self.pos),
            list(self.heads), list(self.deps), list(self.lemmas),
        )  # fmt: skip

    def is_tree(self) -> bool:
        """Return whether there is exactly one root and every word is its descendant."""
        if sum(head < 0 for head in self.heads) != 1:
            return False
        for index in range(len(self)):
            seen = set()
            while index >= 0:
                if index in seen:
                    return False
                seen.add(index)
                index = self.heads[index]
        return True
