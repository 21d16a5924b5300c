"""Keep an API key out of what is printed, though a server may repeat it in any spelling."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator
from urllib.parse import unquote_plus

HIDDEN = "[API key]"
SHORTEST = 4  # a key of fewer characters is no secret, and would be found in many words
PIECE = 8  # so many characters in a row of the key, in a text, count as a piece of the key
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(?=[^xu]))")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")


def without_key(text: str, key: str) -> str:
    """A text without the API key and without pieces of it, whatever their case.

    If the text has the key in another spelling (%2D, &#45;, \\u002d, base64, broken over lines), nothing is shown.
    """
    if len(key) < SHORTEST:
        return text
    pieces = _pieces(key)
    size = len(pieces[0])
    is_hidden = [False] * len(text)
    for start in _piece_starts(text, pieces):
        # Pieces overlap; what any of them covers is hidden.
        is_hidden[start : start + size] = [True] * size
    # "\0" marks a letter to hide: each run of them then becomes one HIDDEN, which does not tell how long it was.
    marked = "".join("\0" if hidden else letter for letter, hidden in zip(text, is_hidden, strict=True))
    shown = re.sub("\0+", HIDDEN, marked)
    for spelling in _spellings(shown):
        if next(_piece_starts(spelling, pieces), None) is not None:
            return f"what it says is not shown, it has the {HIDDEN}"
    return shown


def _pieces(key: str) -> list[str]:
    """All runs of PIECE characters in a key, in lower case; a shorter key is one piece."""
    key = key.lower()
    size = min(PIECE, len(key))
    return [key[start : start + size] for start in range(len(key) - size + 1)]


def _piece_starts(text: str, pieces: list[str]) -> Iterator[int]:
    """Where pieces of the key begin in a text."""
    size = len(pieces[0])
    wanted = set(pieces)
    # Only ASCII is lowered, as a key is: other letters may become two, and the places would no longer be the text's.
    lower = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    for start in range(len(text) - size + 1):
        if lower[start : start + size] in wanted:
            yield start


def _spellings(text: str) -> Iterator[str]:
    """What a text says if it is read as quoted in a URL, HTML or JSON, as broken over lines, or as base64."""
    yield unquote_plus(text)
    yield unquote_plus(unquote_plus(text))
    yield html.unescape(text)
    yield _ESCAPED.sub(_unescaped, text)
    yield "".join(text.split())
    for token in _BASE64.findall(text):
        # Four letters are three bytes, so where the base64 begins within the token decides what it says.
        for skipped in range(4):
            part = token[skipped:].replace("-", "+").replace("_", "/")
            try:
                yield base64.b64decode(part[: len(part) // 4 * 4]).decode("latin-1")
            except binascii.Error:
                continue


def _unescaped(match: re.Match[str]) -> str:
    """The letter that `\\x2d` or `\\u002d` stands for; nothing for another backslash."""
    number = match[1] or match[2]
    return chr(int(number, 16)) if number else ""
