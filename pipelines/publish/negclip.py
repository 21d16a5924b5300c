"""NegCLIP: one TSV per split with an index column and `title filepath neg_caption neg_image`.

Yuksekgonul et al. 2023; https://github.com/vinid/neg_clip reads `neg_caption` and `neg_image` as Python lists and
samples one entry of each; `neg_image` holds row numbers of the same file. The paper takes nearest neighbours by image
features; here they are the images whose captions are most similar (tf-idf cosine), of 50,000 in a row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..tables.examples import Example
from .publication import Column, Publication, RecordSet
from .writers import TableRows

COLUMNS = (
    Column("title", "the true caption"),
    Column("filepath", "the image, opened as it is written"),
    Column("neg_caption", "its negatives, as a Python list of strings"),
    Column("neg_image", "rows of similar images, as a Python list of positions from 0"),
)
NEIGHBOURS = 3
TOGETHER = 50_000  # images that are compared with each other
COMMON = 0.1
BLOCK = 256
WORD = re.compile(r"\w+")


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{split}.tsv`; one record set per file. Raises ValueError for a split with only one image.

    The neighbours of an image are among TOGETHER images that follow each other in the run, so that time and memory do
    not grow with the square of their number.
    """
    files: dict[str, _File] = {}
    for examples in publication.by_image():
        for split in dict.fromkeys(example.split for example in examples):
            if split not in files:
                files[split] = _File(folder / f"{split}.tsv", publication.prefix)
            files[split].add([example for example in examples if example.split == split])
    for file in files.values():
        file.close()
    return [RecordSet(f"{split}.tsv", "captions, their negatives and similar images", COLUMNS) for split in files]


class _File:
    """The rows of a split, which are written when TOGETHER more images have come."""

    def __init__(self, file: Path, prefix: str) -> None:
        self._prefix, self._split = prefix, file.stem
        self._rows = TableRows(file, ["", *(column.name for column in COLUMNS)], "\t")
        self._waiting: list[Sequence[Example]] = []
        self._first = 0

    def add(self, examples: Sequence[Example]) -> None:
        """Add the examples of an image."""
        self._waiting.append(examples)
        if len(self._waiting) == TOGETHER + NEIGHBOURS:  # the last images have neighbours, too
            rest = self._waiting[TOGETHER:]
            self._write(self._waiting[:TOGETHER])
            self._waiting = rest

    def close(self) -> None:
        """Write the last images."""
        if len(self._waiting) < 2:
            self._rows.close()
            raise ValueError(f"negclip needs at least two images per split, {self._split} has {len(self._waiting)}")
        self._write(self._waiting)
        self._rows.close()

    def _write(self, images: Sequence[Sequence[Example]]) -> None:
        alike = neighbours(
            [" ".join([examples[0].text, *(text for _, text in examples[0].siblings)]) for examples in images]
        )
        first = [self._first]
        for examples in images:
            first.append(first[-1] + len(examples))
        for i, examples in enumerate(images):
            for n, example in enumerate(examples):
                positions = [first[j] + n % len(images[j]) for j in alike[i]]
                texts = [negative.text for negative in example.negatives]
                self._rows.add([first[i] + n, example.text, self._prefix + example.image, repr(texts), repr(positions)])
        self._first = first[-1]


def neighbours(texts: Sequence[str], count: int = NEIGHBOURS) -> list[list[int]]:
    """For every text, the positions of the `count` most similar others (all if there are fewer), nearest first.

    Similarity is the cosine of tf-idf vectors over words that are in at least two texts, and in at most a tenth of all
    (or two, if that is more). Ties go to the lower position.
    """
    import numpy as np
    from scipy.sparse import csr_matrix

    words = [Counter(WORD.findall(text.lower())) for text in texts]
    seen = Counter(word for counts in words for word in counts)
    most = max(2, COMMON * len(texts))
    number = {word: i for i, word in enumerate(sorted(word for word, n in seen.items() if 2 <= n <= most))}
    weight = {word: np.log(len(texts) / seen[word]) for word in number}
    entries = [
        (i, number[w], n * weight[w]) for i, counts in enumerate(words) for w, n in counts.items() if w in number
    ]
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    matrix = csr_matrix((values, (rows, columns)), shape=(len(texts), len(number)), dtype=np.float32)
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix = matrix.multiply(1 / np.maximum(norms, 1e-9)[:, None]).tocsr()
    across, found = matrix.T.tocsr(), []
    for start in range(0, len(texts), BLOCK):
        scores = (matrix[start : start + BLOCK] @ across).toarray()
        for i, row in enumerate(scores):
            row[start + i] = -1.0
            kept = min(count, len(texts) - 1)
            least = np.partition(row, -kept)[-kept]
            near = np.flatnonzero(row >= least)
            near = near[np.argsort(-row[near], kind="stable")][:kept]
            found.append([int(j) for j in near])
    return found
