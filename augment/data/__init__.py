"""Data files that the package ships: WordNet, the parser, and word lists in TOML, which users may edit.

Access them only through `data_path`: calls with a literal name are how the code of a stage declares the files it reads.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def data_path(name: str) -> Path:
    """The path of a shipped file or folder: data_path("verbs.toml"). Call it with a literal name.

    Raises FileNotFoundError if there is no such file.
    """
    path = FOLDER / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: install negcap again")
    return path


def word_lists(path: Path) -> dict[str, Any]:
    """A TOML file in which lists of words, also those of its tables, become frozensets; all else stays as it is."""

    def lists_to_sets(value: Any) -> Any:
        """A value of the file, in which lists of words become frozensets, also inside tables."""
        if isinstance(value, dict):
            return {name: lists_to_sets(inner) for name, inner in value.items()}
        is_word_list = isinstance(value, list) and all(isinstance(word, str) for word in value)
        return frozenset(value) if is_word_list else value

    return lists_to_sets(tomllib.loads(path.read_text("utf-8")))
