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
from .layout import Addition, Column, Format, Publication, Rows, TableFile

COLUMNS = (
    Column("title", "the true caption"),
    Column("filepath", "the image, opened as it is written"),
    Column("neg_caption", "its negatives, as a Python list of strings"),
    Column("neg_image", "rows of similar images, as a Python list of positions from 0"),
)
NEIGHBOURS = 3
# The number of images that are compared with each other.
TOGETHER = 50_000
# A word in more than this share of the texts says little about an image.
COMMON = 0.1
# The number of texts that are compared with all others at once, to bound memory.
BLOCK = 256

# The captions of an image, each as its rows.
Image = Sequence[list[Row]]


def rows(publication: Publication) -> Rows:
    """`{split}.tsv`: a row per caption, which names a few images with similar captions, its neighbours.

    They are sought among TOGETHER images in a row, so that time and memory do not grow with the square of their number.
    Raises ValueError for a split with one image.
    """
    waiting: dict[str, list[Image]] = {}  # by split, images whose rows are not written yet
    written = Counter[str]()  # by split, how many rows are: rows name their neighbours by the number of the row
    for rows_of_image in publication.by_image():
        captions = [*by_caption(rows_of_image)]
        for split in dict.fromkeys(rows[0].split for rows in captions):
            images = waiting.setdefault(split, [])
            images.append([rows for rows in captions if rows[0].split == split])
            # A few images are held back, so that the last ones of a split never stand alone.
            if len(images) == TOGETHER + NEIGHBOURS:
                together = images[:TOGETHER]
                yield from _rows_of_images(together, publication.prefix, written[split])
                written[split] += sum(map(len, together))
                waiting[split] = images[TOGETHER:]
    for split, images in waiting.items():
        if len(images) < 2:
            raise ValueError(f"negclip needs at least two images per split, {split} has {len(images)}")
        yield from _rows_of_images(images, publication.prefix, written[split])


def _rows_of_images(images: Sequence[Image], prefix: str, written: int) -> Rows:
    """The rows of some images of one split, which are neighbours of each other.

    Args:
        images: each a list of captions, and each caption a list of its negatives (`Row`).
        prefix: of the paths of image files.
        written: how many rows of the split are in the file already; `neg_image` are numbers of rows of the file.
    """
    first_captions = [captions[0][0] for captions in images]
    split = first_captions[0].split
    texts = [" ".join([caption.text, *caption.siblings]) for caption in first_captions]
    # The row of the file with which each image begins.
    first_row = [*accumulate(map(len, images), initial=written)]
    for number, (captions, similar) in enumerate(zip(images, neighbours(texts), strict=True)):
        for position, rows in enumerate(captions):
            negatives = [row.negative for row in rows]
            # Caption k of this image names caption k of each similar one, counted around if that has fewer.
            rows_of_similar = [first_row[image] + position % len(images[image]) for image in similar]
            path = prefix + rows[0].image
            cells = [first_row[number] + position, rows[0].text, path, repr(negatives), repr(rows_of_similar)]
            yield Addition(f"{split}.tsv", cells)


def neighbours(texts: Sequence[str]) -> list[list[int]]:
    """For every text, the positions of the NEIGHBOURS most similar others, nearest first, ties by position.

    Similarity is the cosine of tf-idf vectors. Words count that are in at least two texts, and in at most the share
    COMMON of all texts (or in two, if that is more). Needs scikit-learn.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    # scikit-learn refuses texts without any word, so one with a word is added and taken away.
    counts = CountVectorizer(token_pattern=r"\w+").fit_transform([*texts, "0"])[:-1]  # (texts, words)
    texts_with_word = np.bincount(counts.indices, minlength=counts.shape[1])
    is_telling = (texts_with_word >= 2) & (texts_with_word <= max(2, COMMON * len(texts)))
    weights = np.where(is_telling, np.log(len(texts) / texts_with_word.clip(1)), 0.0)
    vectors = normalize(counts.multiply(weights).tocsr().astype(np.float32))
    number = min(NEIGHBOURS, len(texts) - 1)
    nearest = []
    for start in range(0, len(texts), BLOCK):
        cosines = (vectors[start : start + BLOCK] @ vectors.T).toarray()
        for text, to_others in enumerate(cosines, start):
            to_others[text] = -1.0  # not itself
            least_cosine = np.partition(to_others, -number)[-number]  # that of the neighbour which is furthest
            # These are more than `number` if there are ties.
            candidates = np.flatnonzero(to_others >= least_cosine)
            by_cosine = candidates[np.argsort(-to_others[candidates], kind="stable")]
            nearest.append(by_cosine[:number].tolist())
    return nearest


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
