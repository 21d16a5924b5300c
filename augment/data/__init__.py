"""Tables that this package ships: WordNet, the parser, and lists of words in TOML that anyone may edit.

`data_path` is the only way to them: what a stage's rows depend on is found by looking for its calls in the sources.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def data_path(name: str) -> Path:
    """The path of a file or folder that is shipped: data_path("verbs.toml"). Call it with a literal name.

    Raises FileNotFoundError when there is none of this name.
    """
    path = FOLDER / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: install negcap again")
    return path
