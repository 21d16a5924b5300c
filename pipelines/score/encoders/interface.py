"""What a model must offer to be scored by its vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


class Embedder(ABC):
    """A model that maps images and texts to vectors of one space; the score of a pair is their cosine.

    name: for tables. identity: plain JSON that determines the vectors (hashes of the model's files, the precision).
    needs_files: whether images are read from their files. stored: whether the vectors are worth keeping in the run.
    """

    name: str
    identity: Mapping[str, str]
    needs_files: bool = True
    stored: bool = True

    @abstractmethod
    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """The vectors (n, d) of n images, given by id and by file."""

    @abstractmethod
    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors (n, d) of n texts."""
