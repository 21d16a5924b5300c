"""Read the JSON that a language model was asked for out of its answer."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
MAX_TEXT = 2000


def json_in(text: str) -> Any:
    """The JSON object or list in an answer: alone, in a fenced block, or after other words (the last that is whole).

    Raises ValueError if there is none.
    """
    text = _THOUGHT.sub("", text)
    decoder = json.JSONDecoder()
    for part in (*_FENCED.findall(text), text):
        found, at = None, 0
        while (start := min((i for i in (part.find("{", at), part.find("[", at)) if i >= 0), default=-1)) >= 0:
            try:
                found, at = decoder.raw_decode(part, start)
            except (ValueError, RecursionError):
                at = start + 1
        if found is not None:
            return found
    raise ValueError("must be JSON, has none")


def negatives_in(text: str, k: int) -> list[str]:
    """The first k texts of {"negatives": ["…", …]}, or of such a list alone, with white space normalised.

    Raises ValueError if the answer has another form, or no text in it.
    """
    value = json_in(text)
    if isinstance(value, dict):
        value = value.get("negatives")
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise ValueError('must be {"negatives": [texts]}')
    texts = [" ".join(item.split()) for item in value[:k]]
    if not all(0 < len(item) <= MAX_TEXT and item.isprintable() for item in texts):
        raise ValueError(f"each text must have 1 to {MAX_TEXT} printable characters")
    return texts
