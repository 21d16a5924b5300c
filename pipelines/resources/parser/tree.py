"""The dependency tree of a sentence, and a reader of CoNLL-U files."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
            new = set(self.children(stack.pop())) - below
            below |= new
            stack += new
        return sorted(below)

    def copy(self) -> "Tree":
        """Return a deep copy."""
        return Tree(*(list(column) for column in vars(self).values()))

    def is_tree(self) -> bool:
        """Return whether there is exactly one root and every word is its descendant."""
        return self.heads.count(-1) == 1 and len(self.subtree(self.heads.index(-1))) == len(self)


def read_conllu(path: Path, hosts: tuple[str, ...] | None = None) -> Iterator[Tree]:
    """Yield the sentences of a CoNLL-U file, plain or gzipped, with the labels of the file.

    hosts: if given, only documents whose `meta::sourceURL` is on one of these hosts are read. Raises ValueError for a
    line that is not CoNLL-U, with the file and the line.
    """
    import fsspec

    wanted, rows = hosts is None, list[list[str]]()
    glued: dict[int, bool] = {}  # by the number of a word that is part of a token: whether no space follows
    with fsspec.open(str(path), "rt", encoding="utf-8", compression="infer") as lines:
        for number, line in enumerate(chain(lines, ["\n"]), 1):
            columns = line.rstrip("\n").split("\t")
            if line.startswith("# newdoc"):
                wanted = hosts is None
            elif line.startswith("# meta::sourceURL") and hosts is not None:
                wanted = any(f"//{host}/" in line for host in hosts)
            elif line == "\n":
                if wanted and rows:
                    forms, lemmas, pos, tags, _, heads, deps, _, notes = list(zip(*rows, strict=True))[1:]
                    spaces = [not glued.get(i, "SpaceAfter=No" in note) for i, note in enumerate(notes, 1)]
                    yield Tree([*forms], spaces, [*tags], [*pos], [int(head) - 1 for head in heads], [*deps],
                               [lemma.lower() for lemma in lemmas])  # fmt: skip
                rows, glued = [], {}
            elif line.startswith("#"):
                continue
            elif len(columns) != 10:
                raise ValueError(f"{path}:{number}: a CoNLL-U line must have 10 columns, has: {len(columns)}")
            elif "-" in columns[0]:  # a multi-word token: its parts are written together
                first, last = map(int, columns[0].split("-"))
                glued |= {part: True for part in range(first, last)} | {last: "SpaceAfter=No" in columns[9]}
            elif "." not in columns[0]:
                rows.append(columns)


def to_doc(trees: Iterable[Tree], vocab: "Vocab") -> "Doc":
    """Return one spaCy document with one or more sentences and their gold annotation."""
    from spacy.tokens import Doc

    joined, starts = Tree([], [], [], [], [], []), list[bool | int | None]()
    for tree in trees:
        offset = len(joined)
        joined.forms += tree.forms
        joined.spaces += [*tree.spaces[:-1], True]
        joined.tags += tree.tags
        joined.pos += tree.pos
        joined.deps += tree.deps
        joined.heads += [offset + (index if head < 0 else head) for index, head in enumerate(tree.heads)]
        starts += [index == 0 for index in range(len(tree))]
    return Doc(vocab, words=joined.forms, spaces=joined.spaces, tags=joined.tags, pos=joined.pos, heads=joined.heads,
               deps=joined.deps, sent_starts=starts)  # fmt: skip
