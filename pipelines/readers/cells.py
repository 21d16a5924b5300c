"""Take the cells of a table apart: a cell may be a list of texts, or hold one that is written as text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence

from .record import MAX_CAPTIONS, MAX_TEXT, Cell

# A longer text is no list of captions that could all be kept, and parsing takes a multiple of its size as memory.
MAX_LISTED = MAX_CAPTIONS * MAX_TEXT
NESTED = "[" * 50  # no list of captions begins so; Python 3.13 reads what is nested 100 times deeper, others do not
TEXT_OF_ITEM = ("raw", "caption", "sentence", "phrase", "text", "caption_str")
ANSWERING = ("gpt", "assistant", "model", "bot")
_LIST_MARK = re.compile(r"^\s*(?:\(?\d{1,3}[.):]|[-*\u2022])\s+(?=\S)")
_STRING = re.compile(r"""[uU]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)  # as Python writes it


def items_of(cell: Cell) -> list[Cell]:
    """The items of a cell: of a list, or of a text that is wholly one list or object, its items; else the cell itself.

    A list may be written as JSON, as Python prints it, or as numpy does, without commas. `[blurred] A man walks.` and
    `[blurred]` are texts.
    """
    if isinstance(cell, list | tuple):
        return list(cell)
    items = _parse_written_list(cell) if isinstance(cell, str) else None
    return [cell] if items is None else items


def captions_in(cell: Cell) -> list[Cell]:
    """The captions in a cell, see `items_of`; an empty list is one caption, which `clean` rejects: no row is lost.

    From objects such as `{"raw": "A dog sleeps."}` the text is taken, from a conversation what the model answers. If
    all lines are numbered, or all have bullets, each is a caption.
    """
    items = items_of(cell)
    # A list as a chat model writes it. Lines without numbers or bullets may be one sentence, and stay one text.
    if isinstance(cell, str) and "\n" in cell:
        lines = [line for line in cell.splitlines() if line.strip()]
        if len(lines) > 1 and all(_LIST_MARK.match(line) for line in lines):
            items = [_LIST_MARK.sub("", line) for line in lines]
    if items and all(isinstance(item, Mapping) for item in items):
        if all(_speaker(item) for item in items):
            items = _answers_of_model(items)
        else:
            items = [text_of(item) or item for item in items]
    return items or [[]]  # an empty list as the one caption: `clean` refuses it, and the row is counted


def is_missing(cell: Cell) -> bool:
    """Whether a cell is empty: null, a text of spaces, or NaN, which pandas writes for null."""
    is_nan = cell != cell  # only NaN differs from itself
    return cell is None or is_nan or (isinstance(cell, str) and not cell.strip())


def text_of(item: Mapping[str, Cell]) -> Cell:
    """The caption in an object; None if it has no member of such a name."""
    for name in TEXT_OF_ITEM:
        if name in item:
            return item[name]
    return None


def _speaker(turn: Mapping[str, Cell]) -> str:
    """Who says a turn of a conversation, as LLaVA (from, value) or OpenAI (role, content) write it; else empty."""
    name = None
    if "value" in turn:
        name = turn.get("from")
    elif "content" in turn:
        name = turn.get("role")
    return name if isinstance(name, str) else ""


def _answers_of_model(turns: Sequence[Mapping[str, Cell]]) -> list[Cell]:
    """What a model says in a conversation; if its content has several parts, their texts."""
    answers: list[Cell] = []
    for turn in turns:
        if _speaker(turn) not in ANSWERING:
            continue  # a question, or instructions
        content = turn["value"] if "value" in turn else turn["content"]
        parts = content if isinstance(content, list) else [content]
        answers += [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return answers


def _parse_written_list(text: str) -> list[Cell] | None:
    """The list that a text consists of, an object as a list of one, or None if it is something else."""
    # Nearly every caption leaves here: a bracket may stand behind spaces, but not behind 80 of them.
    if "[" not in text[:80] and "{" not in text[:80] or len(text) > MAX_LISTED:
        return None
    text = text.strip()
    if text[:1] + text[-1:] not in ("[]", "{}") or text.startswith(NESTED):
        return None
    try:
        value = json.loads(text)
        return value if isinstance(value, list) else [value]
    except (ValueError, RecursionError):
        pass  # maybe as Python or numpy print it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # for a backslash that escapes nothing
            warnings.simplefilter("ignore", DeprecationWarning)  # the same, before Python 3.12
            strings = _strings_in(text[1:-1]) if text[0] == "[" else []
            if strings:
                return [ast.literal_eval(string) for string in strings]
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else None


def _strings_in(inner: str) -> list[str]:
    """The strings, in their quotes, that stand in a row between commas or white space; [] if anything else is there.

    Python itself would join two strings without a comma to one, which numpy writes between captions.
    """
    strings = _STRING.findall(inner)
    if not strings:
        return []
    first, *between, last = _STRING.split(inner)  # what stands before, between and after the strings
    separated = all(gap and gap.strip() in ("", ",") for gap in between)
    return strings if separated and not first.strip() and last.strip() in ("", ",") else []


def captions_in_lines(text: str) -> list[str]:
    """The captions in a text of several lines, one a line; a sentence that goes on in the next line is one caption.

    It goes on where the first line begins with a capital and a later one does not: `A brown dog` / `sleeps.`
    """
    captions = [line.strip() for line in text.splitlines() if line.strip()]
    if captions and captions[0][0].isupper() and any(line[0].islower() for line in captions):
        return [" ".join(captions)]
    return captions
