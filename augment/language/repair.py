"""Repair two errors that small parsers often make in captions: wrong subjects of second and of inverted clauses.

"A boy is behind [a house and three apples] are sitting": the noun before a finite verb without a subject becomes its
subject. "On [a desk] [sits a keyboard]": the noun before the verb becomes the object of the preposition, and the noun
after it the subject.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

FINITE = {"VBZ", "VBP", "VBD"}
SINGULAR, PLURAL = {"NN", "NNP"}, {"NNS", "NNPS"}
AGREEING = {"VBZ": SINGULAR, "VBP": PLURAL, "VBD": SINGULAR | PLURAL}
SUBJECTS = {"nsubj", "nsubjpass", "expl"}
AUXILIARIES = {"aux", "auxpass"}
FIRST = {"IN", "RB", "VBG", "VBN"}
FRONTED = {"prep", "csubj", "advmod", "punct"}


def repair_parse(columns: Mapping[str, np.ndarray], lengths: np.ndarray, strings: Any) -> None:
    """Correct the subjects of second and inverted clauses in the columns DEP and HEAD, in place.

    columns: arrays over the tokens of all texts, shape (tokens,). TAG and DEP hold hashes of `strings`, a spaCy
    StringStore; HEAD holds the position of each token's head among all tokens. lengths: the number of tokens of each
    text, shape (texts,).
    """
    tags, deps, heads = columns["TAG"], columns["DEP"], columns["HEAD"]

    def among(values: np.ndarray, labels: set[str]) -> np.ndarray:
        return np.isin(values, np.array([strings[label] for label in sorted(labels)], np.uint64))

    finite = np.flatnonzero(among(tags, FINITE))
    main = np.where(among(deps[finite], AUXILIARIES), heads[finite], finite)
    has_subject = np.zeros(len(tags), bool)
    has_subject[heads[among(deps, SUBJECTS)]] = True
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)[finite]
    ends = np.repeat(np.cumsum(lengths), lengths)[finite]
    nouns = among(tags, SINGULAR | PLURAL)
    behind_noun = (finite > starts) & nouns[finite - 1]
    fronted = among(tags[starts], FIRST) if len(finite) else behind_noun
    for at in np.flatnonzero(behind_noun & (fronted | ~has_subject[main])).tolist():
        verb, start, end = int(main[at]), int(starts[at]), int(ends[at])
        text = _Text(columns, start, end, strings)
        if not has_subject[verb]:
            text.second_clause(int(finite[at]), verb)
        if fronted[at]:
            text.inversion(int(finite[at]), verb)


@dataclass(frozen=True)
class _Text:
    """One text: the tokens `start` to `end` (exclusive) in the columns TAG, DEP and HEAD of all texts."""

    columns: Mapping[str, np.ndarray]
    start: int
    end: int
    strings: Any

    def tag(self, at: int) -> str:
        return self.strings[int(self.columns["TAG"][at])]

    def dep(self, at: int) -> str:
        return self.strings[int(self.columns["DEP"][at])]

    def head(self, at: int) -> int:
        return int(self.columns["HEAD"][at])

    def children(self, of: int) -> list[int]:
        found = np.flatnonzero(self.columns["HEAD"][self.start : self.end] == of) + self.start
        return [int(child) for child in found if child != of]

    def attach(self, at: int, head: int, dep: str | None = None) -> None:
        self.columns["HEAD"][at] = head
        if dep:
            self.columns["DEP"][at] = self.strings.add(dep)

    def second_clause(self, finite: int, verb: int) -> None:
        """Make the last conjunct of a noun phrase the subject of the verb directly after it, if they agree."""
        noun, first = finite - 1, self.head(verb)
        listed = self.head(noun)
        if self.dep(verb) != "conj" or self.dep(noun) != "conj" or self.tag(noun) not in AGREEING[self.tag(finite)]:
            return
        if not first < listed < noun or self.tag(first)[:2] != "VB" or not self.subject(first):
            return
        self.attach(noun, verb, "nsubj")
        for child in self.children(listed):
            if listed < child < noun and self.dep(child) in ("cc", "punct"):
                self.attach(child, first)

    def inversion(self, finite: int, verb: int) -> None:
        """Make the noun after a verb its subject if the clause begins with a prepositional or participle phrase."""
        own = self.children(verb)
        left = [child for child in own if child < finite]
        first = self.start
        subject = next((child for child in left if self.dep(child) == "nsubj"), None)
        if subject is not None:
            between = all(self.head(at) != verb for at in range(first + 1, finite) if at != subject)
            if self.dep(first) != "prep" or self.head(first) != verb or self.children(first) or not between:
                return
        if any(self.dep(child) not in FRONTED for child in left if child != subject):
            return
        behind = [child for child in own if child > max(finite, verb) and self.tag(child) in SINGULAR | PLURAL]
        if not behind or self.dep(behind[0]) not in ("dobj", "attr", "nsubj"):
            return
        if subject is not None:
            self.attach(subject, first, "pobj")
        self.attach(behind[0], verb, "nsubj")

    def subject(self, verb: int) -> int | None:
        return next((child for child in self.children(verb) if self.dep(child) in SUBJECTS), None)
