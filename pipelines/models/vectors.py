"""Pretrained word vectors: GloVe's text format, or npz with one array of words and one of vectors."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from ..readers.files import raw_lines
from .device import to_device
from .vocabulary import UNKNOWN_ID, WordVocabulary

Vectors = Iterable[tuple[str, npt.NDArray[np.float32]]]


def read_vectors(path: Path, vocabulary: WordVocabulary, size: int) -> Tensor:
    """Read the vectors of a vocabulary's words, (V, size); the row of a word that the file lacks is NaN.

    A name of several words ("tennis racket") that the file lacks gets the mean of those of its words that have a
    vector. A text file holds one word and its numbers per line, separated by spaces; an npz file two arrays of any
    names, words (n,) and vectors (n, size). Raises ValueError, naming the file and line, for another format or size, or
    if the file has none of the words.
    """
    found = torch.full((len(vocabulary), size), torch.nan)
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    for word, values in _npz(path, size) if zipped else _text(path, size):
        number = vocabulary.ids.get(word)
        if number is not None:
            found[number] = torch.from_numpy(np.array(values, np.float32))
    if found.isnan().any(1).all():
        raise ValueError(f"{path}: must have vectors of the vocabulary's words, has none of {len(vocabulary)}")
    for name, number in vocabulary.ids.items():
        if " " in name and found[number].isnan().any():
            parts = found[[vocabulary.ids[word] for word in name.split() if word in vocabulary.ids]]
            known = parts[~parts.isnan().any(1)]
            found[number] = known.mean(0)  # NaN if none is known
    return found


def vector_size(path: Path) -> int:
    """How many numbers the vectors of a file have. Raises ValueError for a file of another format."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if zipped:
        with np.load(path, allow_pickle=False) as arrays:
            sizes = [arrays[name].shape[1] for name in arrays.files if arrays[name].ndim == 2]
    else:
        with path.open(encoding="utf-8", errors="replace") as text:
            sizes = [len(line.split()) - 1 for line in islice(raw_lines(text), 1, 10)]
    if not sizes or min(sizes) < 1:
        raise ValueError(f"{path}: must hold words with their vectors, holds none")
    return min(sizes)


def _text(path: Path, size: int) -> Vectors:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(raw_lines(file), 1):
            word, *values = line.rstrip().rsplit(" ", size)  # some published words contain spaces
            if number == 1 and len(values) == 1 and size > 1:
                continue  # word2vec's first line: number of words, size
            if len(values) != size or _is_number(word.rpartition(" ")[2] if " " in word else ""):
                raise ValueError(f"{path}:{number}: must have a word and {size} numbers, has other numbers")
            try:
                yield word, np.array(values, np.float32)
            except ValueError:
                raise ValueError(f"{path}:{number}: must have a word and {size} numbers, has other text") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _npz(path: Path, size: int) -> Vectors:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in file.files]
    except ValueError as error:
        raise ValueError(f"{path}: must hold plain arrays: {error}") from None
    words = [array for array in arrays if array.ndim == 1 and array.dtype.kind == "U"]
    values = [array for array in arrays if array.ndim == 2 and array.dtype.kind == "f"]
    if len(words) != 1 or len(values) != 1 or values[0].shape != (len(words[0]), size):
        shapes = ", ".join(f"{array.dtype.kind}{list(array.shape)}" for array in arrays)
        raise ValueError(f"{path}: must have words (n,) and numbers (n, {size}), has: {shapes}")
    return zip(words[0].tolist(), values[0], strict=True)


class Phrase(NamedTuple):
    """An object, attributed object or triple, used as a query.

    words: the object ("dog",), attribute and object ("black", "dog"), or subject, relation and object ("dog", "run on",
    "grass"), as the tables of components spell them. text: the phrase as people write it: "dog running on grass".
    """

    words: tuple[str, ...]
    text: str


class ComponentLists(NamedTuple):
    """The components of one kind in n texts; those of text i are `words[offsets[i]:offsets[i + 1]]`.

    words: (total, k) word ids; k is 1 for objects, 2 for pairs, 3 for triples. offsets: (n + 1,).
    """

    words: Tensor
    offsets: Tensor

    def known_components(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """The components of texts (B,), without those that have an unknown word.

        Returns rows of `words` (m,), and for each the position in `texts` of its text (m,).
        """
        rows, owner = ragged_rows(self.offsets, texts)
        known = (self.words[rows] != UNKNOWN_ID).all(1)
        return rows[known], owner[known]


class SceneGraphs(NamedTuple):
    """Components of texts by kind: objects (noun,), pairs (attribute, noun), triples (subject, relation, object)."""

    objects: ComponentLists
    pairs: ComponentLists
    triples: ComponentLists

    def thinned(self, texts: Tensor, share: float, seed: int) -> SceneGraphs:
        """These scene graphs without a share of the pairs and of the triples of some texts, chosen at random by `seed`.

        texts: (B,). What is left out stays in its place, as an unknown word, which `known_components` leaves out.
        """
        generator = Generator().manual_seed(seed)
        parts = {}
        for kind in ("pairs", "triples"):
            words, offsets = getattr(self, kind)
            inside = torch.zeros(len(words), dtype=torch.bool)
            inside[ragged_rows(offsets, texts)[0]] = True
            out = inside & (torch.rand(len(words), generator=generator) < share)
            parts[kind] = ComponentLists(torch.where(to_device(out, words.device)[:, None], UNKNOWN_ID, words), offsets)
        return self._replace(**parts)


class Texts(NamedTuple):
    """A run's captions followed by its negatives, n texts; text i is `tokens[offsets[i]:offsets[i + 1]]`.

    tokens: (total,) word ids, on the device, each by the vocabulary of its text's language. offsets: (n + 1,), on the
    CPU. captions: how many of the n texts are captions. graphs: the components of the texts; None for models that do
    not use them. language: (n,) the index of each text's language among those of the model; None: all 0.
    """

    tokens: Tensor
    offsets: Tensor
    captions: int
    graphs: SceneGraphs | None = None
    language: Tensor | None = None


def ragged_rows(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of all entries in rows (B,) of a ragged array, and the position in `rows` of each; both (m,).

    offsets: (n + 1,), where each row starts and the last one ends.
    """
    counts = offsets[rows + 1] - offsets[rows]
    owner = torch.repeat_interleave(torch.arange(len(rows)), counts)
    return torch.arange(len(owner)) + (offsets[rows] - counts.cumsum(0) + counts)[owner], owner
