"""Topics of images, read from their captions: clusters in which n-grams get further weights. Over all images "bathroom"
may take the place of "kitchen" as often as the reverse, but among kitchens alone it is never true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....augment.reproducible import log
from .ngrams import Texts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

TOPICS = 20
ROUNDS = 10
LEAST_IMAGES = 2  # words of fewer images tell no topic
COMMON = 0.1  # share of the images; words of more of them tell no topic
UNIT = 2.0**10  # weights and vectors are whole numbers, in parts of it: the same on every processor


class Documents(NamedTuple):
    """Counts of words that tell topics. images: (images, words), in all captions of an image; pairs: (pairs, words),
    the same of the image of each pair, without those where its texts differ, which would tell which of them is true.
    """

    images: csr_matrix
    pairs: csr_matrix


def documents(
    captions: Texts, of: Sequence[str], true: Texts, window: tuple[np.ndarray, np.ndarray], images: Sequence[str]
) -> Documents:
    """The documents of pairs. captions: of the images `of`, each once; true: the true text of each pair, window: where
    it differs from the negative; images: of the pairs.
    """
    from scipy.sparse import csr_matrix

    names, number = np.unique(np.asarray([*of, *images], dtype=object).astype(str), return_inverse=True)
    size = int(max(captions.flat.max(initial=0), true.flat.max(initial=0))) + 1
    row = np.repeat(number[: len(of)], np.diff(captions.offsets))
    said = csr_matrix((np.ones(len(row), np.int32), (row, captions.flat)), (len(names), size))
    pair = np.repeat(np.arange(len(true)), np.diff(true.offsets))
    at = np.arange(len(true.flat))
    inside = (at >= window[0][pair]) & (at < window[1][pair])
    own = csr_matrix((np.ones(inside.sum(), np.int32), (pair[inside], true.flat[inside])), (len(true), size))
    seen = np.bincount(said.indices, minlength=size)
    telling = np.flatnonzero((seen >= LEAST_IMAGES) & (seen <= max(COMMON * len(names), LEAST_IMAGES)))
    left = (said[number[len(of) :]] - own)[:, telling].maximum(0)
    return Documents(said[:, telling], left)


def topics_of(found: Documents, seed: int = 0) -> np.ndarray:
    """(pairs,): the topic, 0 to TOPICS - 1, of the image of each pair, by k-means on the cosines of the images' words,
    which weigh the more the rarer they are (inverse document frequency); it starts from images drawn by the seed.
    """
    from scipy.sparse import csr_matrix

    images, words = found.images.shape
    rarity = np.rint(UNIT * log(max(images, 1) / np.maximum(np.bincount(found.images.indices, minlength=words), 1)))
    weighted = [csr_matrix(rows.multiply(rarity)) for rows in found]
    lengths = np.sqrt(np.maximum(np.bincount(_row(weighted[0]), weighted[0].data ** 2, images), 1))
    unit = csr_matrix(weighted[0], dtype=np.int64)
    unit.data = np.rint(UNIT * weighted[0].data / lengths[_row(weighted[0])]).astype(np.int64)
    centres = unit[np.random.default_rng(seed).permutation(images)[:TOPICS]].toarray()
    for _ in range(ROUNDS):
        topic = (unit @ centres.T).argmax(axis=1)
        member = csr_matrix((np.ones(images, np.int64), (topic, np.arange(images))), (TOPICS, images))
        sums = (member @ unit).toarray()
        lengths = np.sqrt(np.maximum((sums**2).sum(axis=1, keepdims=True), 1))
        centres = np.rint(UNIT * sums / lengths).astype(np.int64)
    return (weighted[1].astype(np.int64) @ centres.T).argmax(axis=1)


def _row(matrix: csr_matrix) -> np.ndarray:
    """The row of each value of a matrix."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def by_topic(matrix: csr_matrix, topic: np.ndarray) -> csr_matrix:
    """The columns of a matrix once for all rows, then once for the rows of each topic (Daume 2007)."""
    from scipy.sparse import coo_array, csr_matrix, hstack

    cells = matrix.tocoo()
    width = matrix.shape[1]
    columns = cells.col + width * topic[cells.row].astype("int64")
    apart = coo_array((cells.data, (cells.row, columns)), (matrix.shape[0], width * TOPICS))
    return csr_matrix(hstack([matrix, apart]))
