"""Read JSON files of any size item by item: `json_items`, `json_events`, and `json_text` for the strings in them.

The parser (yajl, in C) stops at a byte that is not UTF-8, takes half a surrogate pair for something else, and, given
deep nesting, fills the memory. So the file is made harmless before it is parsed: in strings, what cannot be decoded is
replaced by marks, which `json_text` turns into lone surrogates, and a bad caption costs only its own record.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import IO, Any

from .files import MAX_LINE, open_bytes, reading

MAX_DEPTH = 100  # of lists and objects; COCO's annotations need 3, Karpathy's data sets 6
_CHUNK = 1 << 18
_FIRST_MARK = 0x10F000  # private-use characters that stand for the code points from U+D800, surrogates
_MARKS = re.compile("[\U0010f000-\U0010f7ff]")
_ESCAPES = re.compile(
    r"(?P<cut>\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z)"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    r"|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\.",
    re.DOTALL,
)
_LONGEST_CUT = 11
_ANY_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(rb'"[^"]*"')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS = bytes(set(range(256)) - {*_STEPS, ord('"')})


def json_items(url: str, prefix: str, expected: str) -> Iterator[Any]:
    """The items of one list in a JSON file, e.g. `annotations.item`; `item` if the whole file is one list.

    Raises ValueError, naming the file and what was `expected`, when it is broken or nested more than 100 deep.
    """
    import ijson

    with reading(url, expected, ijson.JSONError), open_bytes(url) as file:
        yield from ijson.items(Harmless(file), prefix, use_float=True, buf_size=_CHUNK)


def json_events(url: str, expected: str) -> Iterator[tuple[str, str, Any]]:
    """The events of ijson's parser for a JSON file: (prefix, event, value).

    Raises ValueError, naming the file and what was `expected`, when it is broken or nested more than 100 deep.
    """
    import ijson

    with reading(url, expected, ijson.JSONError), open_bytes(url) as file:
        yield from ijson.parse(Harmless(file), use_float=True)


def json_text(value: Any) -> Any:
    """A JSON value; in a string, the marks for what could not be decoded become lone surrogates."""
    if type(value) is str and not value.isascii():
        return _MARKS.sub(lambda mark: chr(ord(mark.group()) - _FIRST_MARK + 0xD800), value)
    return value


def is_deep(text: str) -> bool:
    """Whether a JSON text is nested more than 100 deep."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    return Nesting().add(text.encode(errors="replace")) > MAX_DEPTH


class Nesting:
    """Counts how deep a JSON text, given in pieces, is nested; brackets in strings do not count."""

    def __init__(self) -> None:
        self._depth = 0
        self._inside = self._backslash = b""  # a quote if the last piece ended in a string; a backslash if with one
        self.text = 0  # bytes so far of the string that the last piece ended in, or those of a piece too many

    def add(self, piece: bytes) -> int:
        """Read a piece of the text; returns the greatest depth in it."""
        piece = self._backslash + piece
        if b"\\" in piece:
            piece = _ANY_ESCAPE.sub(b"", piece)
        self._backslash = b"\\" if piece.endswith(b"\\") else b""
        found = piece.translate(None, _OTHERS)
        marks = (self._inside + found).replace(b'""', b"")
        outside, self._inside, _ = _STRING.sub(b"", marks).partition(b'"')
        self.text = (0 if b'"' in found else self.text) + len(piece) if self._inside else 0
        depths = list(accumulate(map(_STEPS.__getitem__, outside), initial=self._depth))
        self._depth = depths[-1]
        return max(depths)


class Harmless:
    """The bytes of a JSON file, changed so that every parser reads the same and none is harmed.

    A byte b that is not UTF-8 becomes the mark for U+DC00 + b, an escape of half a surrogate pair the mark for it.
    Raises JSONError when the nesting is too deep, or a text longer than MAX_LINE.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("negcap_mark")
        self._start = True
        self._cut = ""  # an escape of which the rest has not been read yet
        self._nesting = Nesting()

    def read(self, size: int = -1) -> bytes:
        """The next bytes, about `size` at most; empty only at the end of the file."""
        import ijson

        while size != 0:
            chunk = self._file.read(size)
            text = self._cut + self._decoder.decode(chunk, final=not chunk)
            self._cut = ""
            if self._start and text:
                self._start, text = False, text.removeprefix("\ufeff")
            if "\\ud" in text or "\\uD" in text or "\\" in text[-_LONGEST_CUT:]:
                text = self._mended(text, final=not chunk)
            if self._nesting.add(data := text.encode()) > MAX_DEPTH:
                raise ijson.JSONError(f"nested more than {MAX_DEPTH} deep")
            if self._nesting.text > MAX_LINE:
                raise ijson.JSONError(f"a text must have <= {MAX_LINE:,} characters, has more")
            if data or not chunk:
                return data
        return b""

    def _mended(self, text: str, final: bool) -> str:
        """A text, which must not start within an escape, with marks for halves of surrogate pairs.

        An escape that is cut at its end is kept for the next text, unless there is none.
        """

        def marked(escape: re.Match[str]) -> str:
            if escape["cut"] and not final:
                self._cut = escape["cut"]
                return ""
            half = escape["half"] or (escape["cut"] or "")[2:]
            return chr(_FIRST_MARK + int(half, 16) - 0xD800) if len(half) == 4 else escape[0]

        return _ESCAPES.sub(marked, text)


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    first = _FIRST_MARK + 0xDC00 - 0xD800
    return "".join(chr(first + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("negcap_mark", _mark)
