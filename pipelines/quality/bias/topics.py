"""Topics of images, read from their captions: clusters in which n-grams get further weights.

Over all images "bathroom" may take the place of "kitchen" as often as the reverse, but among kitchens alone it is never
true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....augment.reproducible import log
from .ngrams import NumberedTexts, Window

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

TOPICS = 20
ROUNDS = 10  # of k-means
# Words in the captions of fewer images tell no topic.
LEAST_IMAGES = 2
# Words in the captions of more than this share of the images tell no topic.
COMMON = 0.1
# Weights and vectors are fixed-point numbers, whole numbers that count 1024ths: the same on every processor.
UNIT = 2.0**10


class Documents(NamedTuple):
    """Counts of words that tell topics.

    images: (images, words), counted in all captions of an image. pairs: (pairs, words), the counts of the pair's image
    without the words where the pair's texts differ: they are true, and would tell which of the texts is.
    """

    images: csr_matrix
    pairs: csr_matrix


def documents(
    captions: NumberedTexts,
    caption_images: Sequence[str],
    true: NumberedTexts,
    window: Window,
    pair_images: Sequence[str],
) -> Documents:
    """Count the words of each image's captions, and what is left of them without the words in which a pair differs.

    Args:
        captions: each true caption once.
        caption_images: the image_id of each caption.
        true: the true text of each pair.
        window: where the true text differs from the negative.
        pair_images: the image_id of each pair.
    """
    from scipy.sparse import csr_matrix

    # Images are numbered for captions and pairs together, so that row i of `counts` is the image with number i.
    image_ids = np.asarray([*caption_images, *pair_images], dtype=object).astype(str)
    distinct, image = np.unique(image_ids, return_inverse=True)  # image: (captions + pairs,)
    image_of_caption = image[: len(caption_images)]
    image_of_pair = image[len(caption_images) :]
    words = int(max(captions.flat.max(initial=0), true.flat.max(initial=0))) + 1

    image_of_word = np.repeat(image_of_caption, np.diff(captions.offsets))
    ones = np.ones(len(image_of_word), np.int32)
    counts = csr_matrix((ones, (image_of_word, captions.flat)), (len(distinct), words))

    pair_of_word = np.repeat(np.arange(len(true)), np.diff(true.offsets))
    position = np.arange(len(true.flat))
    differs = (position >= window.start[pair_of_word]) & (position < window.end[pair_of_word])
    ones = np.ones(differs.sum(), np.int32)
    differing = csr_matrix((ones, (pair_of_word[differs], true.flat[differs])), (len(true), words))

    images_with_word = np.bincount(counts.indices, minlength=words)
    # Rare words tell nothing about other images, and words of most captions nothing about this one.
    most = max(COMMON * len(distinct), LEAST_IMAGES)
    telling = np.flatnonzero((images_with_word >= LEAST_IMAGES) & (images_with_word <= most))
    # Below 0 where a word differs that none of the listed captions says.
    without_differing = (counts[image_of_pair] - differing)[:, telling].maximum(0)
    return Documents(counts[:, telling], without_differing)


def topics_of(documents: Documents, seed: int = 0) -> np.ndarray:
    """(pairs,): the topic, 0 to TOPICS - 1, of each pair: the nearest to the vector that `Documents.pairs` has for it.

    The topics are found by k-means on the cosines of the images' words, which weigh the more the rarer they are
    (inverse document frequency). It starts from images drawn by the seed. (scikit-learn's k-means computes with
    floating point numbers, whose last bits differ from processor to processor, and with them the topics.)
    """
    from scipy.sparse import csr_matrix

    images, words = documents.images.shape
    images_with_word = np.bincount(documents.images.indices, minlength=words)
    rarity = np.rint(UNIT * log(max(images, 1) / np.maximum(images_with_word, 1)))
    weighted_images = csr_matrix(documents.images.multiply(rarity))
    weighted_pairs = csr_matrix(documents.pairs.multiply(rarity))

    # The vectors of images, (images, words), scaled to the length UNIT. Without words their length is 0: divide by 1.
    row = _row_of_values(weighted_images)
    lengths = np.sqrt(np.maximum(np.bincount(row, weighted_images.data**2, images), 1))  # (images,)
    unit = csr_matrix(weighted_images, dtype=np.int64)
    unit.data = np.rint(UNIT * weighted_images.data / lengths[row]).astype(np.int64)

    centres = unit[np.random.default_rng(seed).permutation(images)[:TOPICS]].toarray()  # (topics, words)
    for _ in range(ROUNDS):
        topic = (unit @ centres.T).argmax(axis=1)
        # (topics, images), 1 where an image belongs to a topic; the product sums up the images of each topic
        members = csr_matrix((np.ones(images, np.int64), (topic, np.arange(images))), (TOPICS, images))
        sums = (members @ unit).toarray()
        lengths_of_sums = np.sqrt(np.maximum((sums**2).sum(axis=1, keepdims=True), 1))  # (topics, 1)
        centres = np.rint(UNIT * sums / lengths_of_sums).astype(np.int64)
    # The vectors of pairs keep their lengths: scaled, they would have the same nearest centre.
    return (weighted_pairs.astype(np.int64) @ centres.T).argmax(axis=1)


def _row_of_values(matrix: csr_matrix) -> np.ndarray:
    """The row in which each stored value of a sparse matrix stands, (values,); they are stored row by row."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def by_topic(matrix: csr_matrix, topic: np.ndarray) -> csr_matrix:
    """The columns of a matrix once for all rows, then once more for the rows of each topic (Daume 2007).

    matrix: (rows, n); topic: (rows,); the result is (rows, n * (1 + TOPICS)):

        all rows | rows of topic 0, else 0 | rows of topic 1, else 0 | …
    """
    from scipy.sparse import coo_array, csr_matrix, hstack

    cells = matrix.tocoo()
    width = matrix.shape[1]
    columns = cells.col + width * topic[cells.row].astype("int64")
    by_its_topic = coo_array((cells.data, (cells.row, columns)), (matrix.shape[0], width * TOPICS))
    return csr_matrix(hstack([matrix, by_its_topic]))
