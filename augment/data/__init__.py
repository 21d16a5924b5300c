"""Data files that the package ships: WordNet, the parser, and word lists in TOML, which users may edit.

Access them only through `data_path`: calls with a literal name are how the code of a stage declares the files it reads.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def data_path(name: str) -> Path:
    """The path of a shipped file or folder: data_path("verbs.toml"). Call it with a literal name.

    Raises FileNotFoundError if there is no such file.
    """
    path = FOLDER / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: install negcap again")
    return path
