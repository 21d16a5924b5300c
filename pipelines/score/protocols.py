"""The protocols, on unit vectors of images and texts: which cases a model gets right; a tie counts against it. Each is
computed with the images and with vectors "without image", which shows what the texts alone give away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..models.ranking import blocks, count_outranking, count_outranking_in_list, outranks
from ..readers.pairs import ALL
from .test_set import NONE, TestSet, group_masks

QUERIED = 5  # images that count as found by a caption, as in NegBench
QUERY = f"text to image, R@{QUERIED}"


class ProtocolOutcome(NamedTuple):
    """The n cases of a protocol in a group of operators.

    image: (n,) the image of each. right: (n,) whether the model is right: 1, 0 or between. blind: (n,) whether it is
    right without the image; None if it cannot be asked without one.
    """

    protocol: str
    group: str
    image: np.ndarray
    right: np.ndarray
    blind: np.ndarray | None = None


class Vectors(NamedTuple):
    """Unit vectors, float32. images: (V, d). texts: (N, d). vector_of: (I,) the row in `images` of each image's vector;
    images may share one.
    """

    images: np.ndarray
    texts: np.ndarray
    vector_of: np.ndarray

    @classmethod
    def of_each(cls, images: np.ndarray, texts: np.ndarray) -> Vectors:
        """The vectors of texts, and of I images that have a vector each: (I, d)."""
        return cls(images, texts, np.arange(len(images)))

    def without_images(self) -> Vectors:
        """Two vectors for all images: images with even numbers get the mean of those with odd numbers, and the reverse.
        A single image gets zeros.

        A mean is as near to true and false texts as the set's images are on average. An image is not in its own mean,
        which therefore does not tell its texts.
        """
        even = self.images[0::2]
        odd = self.images[1::2]
        of_even = odd.mean(0) if len(odd) else np.zeros(self.images.shape[1])
        of_odd = even.mean(0)
        means = np.stack([of_even, of_odd]).astype(np.float32)
        # A single image gets one vector, as there must not be more vectors than images.
        return Vectors(means[: len(self.images)], self.texts, np.arange(len(self.images)) % 2)

    def similarity(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """The inner products (n,) of images (n,) and texts (n,), given by index."""
        return _inner_products(self.images, self.vector_of[images], self.texts, texts)

    def text_similarity(self, texts: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The inner products (n,) of texts (n,) and other texts (n,), given by index."""
        return _inner_products(self.texts, texts, self.texts, others)

    def texts_outranking(self, sets: Sequence[np.ndarray], true: np.ndarray) -> np.ndarray:
        """How many texts of each of S sets are at least as near to an image as its true text is.

        Args:
            sets: of texts, each the numbers of its texts.
            true: the score of each image's true text, (I,).

        Returns:
            The numbers of texts, (I, S).
        """
        counts = np.empty((len(true), len(sets)), np.int64)
        if len(self.images) < len(true):  # images share vectors: the texts are scored once for each vector
            for vector, scores in enumerate(self.images @ self.texts.T):
                has_vector = self.vector_of == vector  # (I,): whether an image has this vector
                for number, texts in enumerate(sets):
                    counts[has_vector, number] = count_outranking_in_list(scores[texts], true[has_vector])
            return counts
        # Each image has a vector of its own.
        image_vectors = self.images[self.vector_of]
        for number, texts in enumerate(sets):
            counts[:, number] = count_outranking(self.texts[texts], image_vectors, true, _all_inner_products)
        return counts

    def images_outranking(self, texts: np.ndarray, true: np.ndarray) -> np.ndarray:
        """How many images are at least as near to each of n texts as the text's true image is, itself included: (n,).

        texts: their numbers, (n,). true: the score of the true image of each, (n,).
        """
        return count_outranking(self.images[self.vector_of], self.texts[texts], true, _all_inner_products)


def _all_inner_products(candidates: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The score of each candidate (n, d) for each query (m, d): (n, m)."""
    return candidates @ queries.T


def _inner_products(left: np.ndarray, rows: np.ndarray, right: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The inner product of row rows[i] of `left` and row others[i] of `right`, for each i: (n,)."""
    # In blocks: a copy of the vectors of all rows may be larger than both arrays.
    products = []
    for block in blocks(len(rows), left.shape[1]):
        products.append(np.einsum("nd,nd->n", left[rows[block]], right[others[block]]))
    return np.concatenate(products)


def unit(vectors: np.ndarray, what: str) -> np.ndarray:
    """Vectors (n, d) as float32 of length 1. Raises ValueError, with `what`, if one is not finite or is zero."""
    vectors = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A vector of length 0 has no direction: divided by its length it would be NaN, and NaN outranks nothing.
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise ValueError(f"{what} must be finite and not zero, row {bad[0]} is not")
    return vectors / lengths


def measure(vectors: Vectors, tests: TestSet) -> list[ProtocolOutcome]:
    """All protocols that the set has cases for, for each group of operators (see `TestSet.groups`)."""
    # `blind`: what is right without images, too, is given away by the texts alone. Both have the same cases in order.
    with_images = _outcomes_of_vectors(vectors, tests)
    without_images = _outcomes_of_vectors(vectors.without_images(), tests)
    return [seen._replace(blind=unseen.right) for seen, unseen in zip(with_images, without_images, strict=True)]


def _outcomes_of_vectors(vectors: Vectors, tests: TestSet) -> Iterator[ProtocolOutcome]:
    """The outcomes of all protocols by one model's vectors, in a fixed order."""
    yield from _pair_outcomes(vectors, tests)
    yield from _two_image_outcomes(vectors, tests)
    yield from _multiple_choice_outcomes(vectors, tests)
    # Without denials NegBench's retrieval says nothing new.
    if tests.denies.any():
        yield from _query_outcomes(vectors, tests)
    if len(tests.pairs):
        yield from _retrieval_outcomes(vectors, tests)


def outcomes_by_group(
    groups: Mapping[str, np.ndarray],
    protocol: str,
    operator: np.ndarray,
    image: np.ndarray,
    right: np.ndarray,
    blind: np.ndarray | None = None,
) -> Iterator[ProtocolOutcome]:
    """The outcome of n cases for each group that has some of them.

    Args:
        groups: by name, which operators are in the group, (operators,).
        protocol: its name.
        operator: (n,) the operator of each case, by index.
        image, right, blind: (n,) of each case, see `ProtocolOutcome`.
    """
    for group, members in groups.items():
        in_group = members[operator]  # (n,) bool: whether the operator of each case is in the group
        if in_group.any():
            blind_of_group = None if blind is None else blind[in_group]
            yield ProtocolOutcome(protocol, group, image[in_group], right[in_group], blind_of_group)


def _pair_outcomes(vectors: Vectors, tests: TestSet) -> Iterator[ProtocolOutcome]:
    """SugarCrepe's pairs, with the first negative of each caption and operator: is the image nearer to the caption?

    `half-truth` (CS-CLIP): the same for negatives that only add to it. `two captions` (SugarCrepe++): is it nearer to
    both true captions? `two captions, text only`: are both nearer to each other than to the negative?
    """
    pairs = tests.first_pairs
    image = pairs["image"].to_numpy()
    true = pairs["true"].to_numpy()
    second = pairs["second"].to_numpy()
    negative = pairs["false"].to_numpy()
    operator = pairs["operator"].to_numpy()

    of_negative = vectors.similarity(image, negative)
    right = ~outranks(of_negative, vectors.similarity(image, true))
    # Where there is no second caption, NONE picks the last text; `has_two` leaves these rows out.
    both_right = right & ~outranks(of_negative, vectors.similarity(image, second))
    # Without the image: a model that has understood both captions sees that they say the same.
    of_captions = vectors.text_similarity(true, second)
    text_right = ~outranks(vectors.text_similarity(true, negative), of_captions)
    text_right &= ~outranks(vectors.text_similarity(second, negative), of_captions)

    every = np.ones(len(pairs), bool)
    adds = pairs["adds"].to_numpy()
    has_two = second != NONE
    for protocol, outcome, cases in (
        ("pairs", right, every),
        ("half-truth", right, adds),
        ("two captions", both_right, has_two),
        ("two captions, text only", text_right, has_two),
    ):
        yield from outcomes_by_group(tests.groups, protocol, operator[cases], image[cases], outcome[cases])


def _two_image_outcomes(vectors: Vectors, tests: TestSet) -> Iterator[ProtocolOutcome]:
    """Winoground's scores (Thrush et al. 2022, equations 1 to 3) of two images with a caption each.

    `text`: for both images the own caption scores above the other; `image`: for both captions the own image does;
    `group`: both. A tie is wrong. For intervals, which are over images, a case counts as one of its first image.
    """
    cases = tests.two_images
    first_image = cases["first_image"].to_numpy()
    second_image = cases["second_image"].to_numpy()
    first_text = cases["first_text"].to_numpy()
    second_text = cases["second_text"].to_numpy()
    # The four scores of a case, each (n,). "Own": of an image and its own caption.
    first_own = vectors.similarity(first_image, first_text)
    second_own = vectors.similarity(second_image, second_text)
    first_image_second_text = vectors.similarity(first_image, second_text)
    second_image_first_text = vectors.similarity(second_image, first_text)
    text = ~outranks(first_image_second_text, first_own) & ~outranks(second_image_first_text, second_own)
    image = ~outranks(second_image_first_text, first_own) & ~outranks(first_image_second_text, second_own)
    for name, right in (("text", text), ("image", image), ("group", text & image)):
        yield from outcomes_by_group(tests.groups, name, cases["operator"].to_numpy(), first_image, right)


def _multiple_choice_outcomes(vectors: Vectors, tests: TestSet) -> Iterator[ProtocolOutcome]:
    """Multiple choice (NegBench): the image is nearer to the true option than to every false one, by template."""
    # M questions: image, true option and template are (M,); the false options (M, F), with NONE behind the last one.
    image, true, false, template, templates = tests.questions
    of_true = vectors.similarity(image, true)
    right = np.ones(len(image), bool)  # a question whose false options are all NONE cannot be missed
    for option in false.T:  # (M,), the next false option of each question
        right &= (option == NONE) | ~outranks(vectors.similarity(image, option), of_true)
    # Here the groups are of templates of questions, in the place of operators.
    yield from outcomes_by_group(group_masks(templates), "multiple choice", template, image, right)


def _query_outcomes(vectors: Vectors, tests: TestSet) -> Iterator[ProtocolOutcome]:
    """NegBench's retrieval of images: a caption finds its image if fewer than QUERIED other images are as near.

    Captions that deny something are reported by themselves, as `denials`.
    """
    image, text = tests.captions.T
    outranking = vectors.images_outranking(text, vectors.similarity(image, text))
    right = outranking <= QUERIED  # a caption's own image ties with itself, so it is one of them
    # denies: (captions,) whether each denies something
    for protocol, reported in ((QUERY, ~tests.denies), (f"{QUERY}, denials", tests.denies)):
        if reported.any():
            yield ProtocolOutcome(protocol, ALL, image[reported], right[reported])


def _retrieval_outcomes(vectors: Vectors, tests: TestSet) -> Iterator[ProtocolOutcome]:
    """How often an image ranks a caption of its own first, in three settings.

    Among all captions; with the negatives of its own captions beside them (VSE-C); with the negatives of all captions
    (UniVSE). Each distinct text counts once, and an image's own captions never against it; a text that is true of
    another image counts as false.
    """
    image, text = tests.captions.T
    images = len(tests.images)
    scores = vectors.similarity(image, text)
    best = np.full(images, -np.inf, np.float32)  # the score of each image's best true caption
    np.maximum.at(best, image, scores)  # an image has several; `best[image] = …` would keep the last

    captions = np.unique(text)
    shown = tests.pairs["image"].to_numpy()
    false = tests.pairs["false"].to_numpy()
    operator = tests.pairs["operator"].to_numpy()
    # By operator, the negatives that are not also a caption (of another image), which would count twice.
    negatives = [np.setdiff1d(false[operator == number], captions) for number in range(len(tests.families))]
    outranking = vectors.texts_outranking([captions, *negatives], best)
    # Among all captions are the image's own ones. Those that outrank the best, also itself by a tie, are subtracted.
    own_outranking = np.bincount(image[outranks(scores, best[image])], minlength=images)
    false_captions = outranking[:, 0] - own_outranking
    yield ProtocolOutcome("image to text", ALL, np.arange(images), false_captions == 0)

    beaten = outranks(vectors.similarity(shown, false), best[shown])
    for group, members in tests.groups.items():
        inside = members[operator]
        if inside.any():
            # Images without a negative of the group do not count, as nothing attacks them.
            attacked = np.unique(shown[inside])
            # (images,): how many negatives outrank the best caption of each image.
            own_negatives = np.bincount(shown[inside & beaten], minlength=images)
            all_negatives = outranking[:, 1:][:, members].sum(1)  # column 0 is of the captions, 1 on of the operators
            for which, negatives_above in (("own", own_negatives), ("all", all_negatives)):
                right = false_captions + negatives_above == 0
                yield ProtocolOutcome(f"image to text, {which} negatives", group, attacked, right[attacked])
