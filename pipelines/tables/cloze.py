"""Load a cloze model of the user's own, cached in the process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ...augment.cloze.model import ClozeModel


def load_cloze(path: Path | None) -> ClozeModel | None:
    """The cloze model in a file, read again if the file has changed; None for None, which means the shipped model.

    Raises FileNotFoundError or ValueError, naming the file, if it is missing or damaged.
    """
    if path is None:
        return None
    if not path.is_file():
        raise FileNotFoundError(f"cloze must be the file of a cloze model, was: {path}")
    return _cloze(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _cloze(path: Path, modified: int) -> ClozeModel:
    return ClozeModel.load(path)
