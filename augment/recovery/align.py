"""Recover the edits that make one text of another, by aligning their words."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import pairwise

from ..edits import Edit

_PIECE = re.compile(r"\s+|[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")


def align(caption: str, text: str) -> tuple[Edit, ...]:
    """The edits of whole words that turn `caption` into `text`: apply(caption, align(caption, text)) == text.

    Disjoint, in order, and as short as they can be. Neighbouring words are edits of their own where one word takes the
    place of one ("an orange" -> "a grey"), and else one edit ("in front of" -> "next to"). A word that is put in brings
    the space behind it; before it, at the end of the text. Equal texts: none.
    """
    old, new = _PIECE.findall(caption), _PIECE.findall(text)
    starts = [0]
    for piece in old:
        starts.append(starts[-1] + len(piece))
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    runs: list[list[tuple[int, int, int, int]]] = []  # neighbouring spans of pieces: start and end in old, in new
    for tag, *(a, b, c, d) in opcodes:
        if tag == "equal":
            continue
        if runs and "".join(old[runs[-1][-1][1] : a]).isspace():
            runs[-1].append((a, b, c, d))
        else:
            runs.append([(a, b, c, d)])
    spans = []
    for run in runs:
        alone = all(b - a == 1 == d - c for a, b, c, d in run)
        spans += run if alone else [(run[0][0], run[-1][1], run[0][2], run[-1][3])]
    return tuple(_tidy(caption, Edit(starts[a], starts[b], "".join(new[c:d]))) for a, b, c, d in spans)


def _tidy(caption: str, edit: Edit) -> Edit:
    """An edit without white space that both sides have at an end; " red" put in becomes "red " one place on."""
    start, end, new = edit
    while start < end and new and caption[start] == new[0] and new[0].isspace():
        start, new = start + 1, new[1:]
    while start < end and new and caption[end - 1] == new[-1] and new[-1].isspace():
        end, new = end - 1, new[:-1]
    if start == end and new[:1].isspace() and caption[start : start + 1] == new[0]:
        return Edit(start + 1, end + 1, new[1:] + new[0])
    return Edit(start, end, new)


def least(caption: str, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The same change with each edit cut to the words that differ, and words put in as early as they can be.

    Edits that people or operators wrote down may hold words that stay ("dog" -> "green dog"); the least edits of a
    change are the same however it is written down.
    """
    made = []
    for edit in edits:
        start, end, new = edit
        while (first := _PIECE.match(caption, start, end)) and new.startswith(first[0]):
            start, new = first.end(), new[len(first[0]) :]
        while (rest := _PIECE.findall(caption[start:end])) and _PIECE.findall(new)[-1:] == rest[-1:]:
            end, new = end - len(rest[-1]), new[: len(new) - len(rest[-1])]
        if start == end:
            pieces = _PIECE.findall(new)
            while (before := _PIECE.findall(caption[:start])) and pieces and before[-1] == pieces[-1]:
                start, pieces = start - len(pieces[-1]), [pieces[-1], *pieces[:-1]]
            end, new = start, "".join(pieces)
        if start != end or new:
            made.append(Edit(start, end, new))
    joined: list[Edit] = made[:1]
    for left, right in pairwise(made):
        if left.end == right.start:
            joined[-1] = Edit(joined[-1].start, right.end, joined[-1].new + right.new)
        else:
            joined.append(right)
    return tuple(joined)
