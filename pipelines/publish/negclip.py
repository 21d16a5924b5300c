"""NegCLIP: one TSV per split with an index column and `title filepath neg_caption neg_image`.

Yuksekgonul et al. 2023; https://github.com/vinid/neg_clip reads `neg_caption` and `neg_image` as Python lists and
samples one entry of each; `neg_image` holds row numbers of the same file. The paper takes nearest neighbours by image
features; here they are the images whose captions are most similar (tf-idf cosine), of 50,000 in a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ..tables.examples import Row, by_caption
from .layout import Column, Format, Publication, Rows, TableFile

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


def rows(publication: Publication) -> Rows:
    """`{split}.tsv`: a row per caption. Raises ValueError for a split with one image. Neighbours are among TOGETHER
    images in a row, so that time and memory do not grow with the square of their number.
    """
    waiting: dict[str, list[list[list[Row]]]] = {}
    written = Counter[str]()
    for some in publication.by_image():
        captions = [*by_caption(some)]
        for split in dict.fromkeys(rows[0].split for rows in captions):
            images = waiting.setdefault(split, [])
            images.append([rows for rows in captions if rows[0].split == split])
            if len(images) == TOGETHER + NEIGHBOURS:  # the last images have neighbours, too
                yield from _rows(images[:TOGETHER], publication.prefix, written)
                waiting[split] = images[TOGETHER:]
    for split, images in waiting.items():
        if len(images) < 2:
            raise ValueError(f"negclip needs at least two images per split, {split} has {len(images)}")
        yield from _rows(images, publication.prefix, written)


def _rows(images: Sequence[Sequence[list[Row]]], prefix: str, written: Counter[str]) -> Rows:
    """The rows of some images of a split, each by caption; written: by split, how many rows are written."""
    firsts = [captions[0][0] for captions in images]
    split = firsts[0].split
    texts = [" ".join([caption.text, *caption.siblings]) for caption in firsts]
    first = [*accumulate(map(len, images), initial=written[split])]
    for i, (captions, alike) in enumerate(zip(images, neighbours(texts), strict=True)):
        for n, rows in enumerate(captions):
            negatives = [row.negative for row in rows]
            positions = [first[j] + n % len(images[j]) for j in alike]
            row = [first[i] + n, rows[0].text, prefix + rows[0].image, repr(negatives), repr(positions)]
            yield f"{split}.tsv", row
    written[split] = first[-1]


def neighbours(texts: Sequence[str]) -> list[list[int]]:
    """For every text, the positions of the NEIGHBOURS most similar others, nearest first, ties by position: the cosine
    of tf-idf vectors over words in at least two texts and at most a tenth (or two). Needs scikit-learn.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    counts = CountVectorizer(token_pattern=r"\w+").fit_transform([*texts, "0"])[:-1]  # never without any word
    seen = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = (seen >= 2) & (seen <= max(2, COMMON * len(texts)))
    weights = np.where(kept, np.log(len(texts) / seen.clip(1)), 0.0)
    vectors = normalize(counts.multiply(weights).tocsr().astype(np.float32))
    found = []
    for start in range(0, len(texts), BLOCK):
        for i, row in enumerate((vectors[start : start + BLOCK] @ vectors.T).toarray(), start):
            row[i] = -1.0
            some = min(NEIGHBOURS, len(texts) - 1)
            near = np.flatnonzero(row >= np.partition(row, -some)[-some])
            found.append(near[np.argsort(-row[near], kind="stable")][:some].tolist())
    return found


NEGCLIP = Format(
    rows,
    lambda file, _: TableFile(file, ["", *(column.name for column in COLUMNS)], "\t"),
    "NegCLIP training data, one TSV per split",
    "`pd.read_csv('$file', sep='\\t', index_col=0, converters={'neg_caption': ast.literal_eval, 'neg_image': "
    "ast.literal_eval})`. Run the training in the folder that the paths are relative to.",
    "captions, their negatives and similar images",
    COLUMNS,
    training=True,
    ordered=True,
)
