"""The protocols, on the unit vectors of images and texts: which cases a model gets right. A tie counts against it.

Each is computed twice, with the images and with vectors "without image", so that what the texts alone give away to the
model is known. Intervals are of a bootstrap over images: several pairs of one image are no independent evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .test_set import ALL, NONE, TestSet, masks

TIE = 1e-6  # scores this close count as equal: the accuracy of inner products of unit vectors in float32
BLOCK = 1 << 24  # scores computed at a time: 64 MiB in float32
QUERIED = 5  # images that count as found by a caption, as in NegBench
QUERY = f"text to image, R@{QUERIED}"
LEVELS = (2.5, 97.5)  # percentiles of a 95 % interval
WEIGHTS = 1 << 22  # weights of the bootstrap drawn at a time


class Measured(NamedTuple):
    """The n cases of one protocol and group: right (1), wrong (0) or between, and the image of each; all (n,).

    blind: the same without the image, None where it cannot be asked.
    """

    protocol: str
    group: str
    image: np.ndarray
    right: np.ndarray
    blind: np.ndarray | None = None


class Vectors(NamedTuple):
    """Unit vectors of images (V, d) and of N texts (N, d), float32; of: (I,) which of the V is that of each image."""

    images: np.ndarray
    texts: np.ndarray
    of: np.ndarray

    @classmethod
    def of_each(cls, images: np.ndarray, texts: np.ndarray) -> Vectors:
        """Those of I images that have a vector each: (I, d)."""
        return cls(images, texts, np.arange(len(images)))

    def without_images(self) -> Vectors:
        """In the place of each image, the mean vector of the images of the other half of the set.

        So the vector knows how images are in general, and nothing of the image in question. Halves are by parity of the
        image's index. Zeros for a set of one image: all texts are tied.
        """
        odd, even = (self.images[half::2].mean(0) if half < len(self.images) else 0 for half in (1, 0))
        means = np.stack([np.broadcast_to(mean, self.images.shape[1]) for mean in (odd, even)])
        return Vectors(means.astype(np.float32), self.texts, np.arange(len(self.images)) % 2)

    def similarity(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """The inner products (n,) of images (n,) and texts (n,), given by index."""
        return _inner(self.images, self.of[images], self.texts, texts)


def _inner(left: np.ndarray, rows: np.ndarray, right: np.ndarray, others: np.ndarray) -> np.ndarray:
    step = max(1, BLOCK // left.shape[1])
    parts = [
        np.einsum("nd,nd->n", left[rows[at : at + step]], right[others[at : at + step]])
        for at in range(0, len(rows), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def unit(vectors: np.ndarray, what: str) -> np.ndarray:
    """Vectors (n, d) as float32 of length 1. Raises ValueError, with `what`, if one is not finite or is zero."""
    found = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        bad = int(np.flatnonzero(~np.isfinite(lengths[:, 0]) | (lengths[:, 0] == 0))[0])
        raise ValueError(f"{what} must be finite and not zero, row {bad} is not")
    return found / lengths


def measure(vectors: Vectors, tests: TestSet) -> list[Measured]:
    """All protocols that the set has cases for, for each group of operators (see `TestSet.groups`)."""
    both = (_outcomes(some, tests) for some in (vectors, vectors.without_images()))
    return [seen._replace(blind=unseen.right) for seen, unseen in zip(*both, strict=True)]


def grouped(
    groups: Mapping[str, np.ndarray], protocol: str, of: np.ndarray, image: np.ndarray, right: np.ndarray
) -> Iterator[Measured]:
    """One Measured per group that has cases; of: (n,) the operator of each case, of which a group is a mask."""
    for group, wanted in groups.items():
        inside = wanted[of]
        if inside.any():
            yield Measured(protocol, group, image[inside], right[inside])


def _outcomes(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    yield from _pairs(vectors, tests)
    yield from _quads(vectors, tests)
    yield from _choices(vectors, tests)
    if tests.denies.any():
        yield from _queries(vectors, tests)
    if len(tests.pairs):
        yield from _retrieval(vectors, tests)


def _pairs(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Pairs (SugarCrepe), half-truths (CS-CLIP), and two true captions against a negative (SugarCrepe++).

    `pairs`: the image is nearer to the caption than to the negative, for the first negative of each caption and
    operator. `half-truth`: the same, for negatives that only add to their caption. `two captions`: it is nearer to both
    true captions. `two captions, text only`: both true captions are nearer to each other than to the negative.
    """
    of, adds = tests.operator[tests.first], tests.adds[tests.first]
    image, true, negative, second = tests.pairs[tests.first].T
    limit = vectors.similarity(image, negative) + TIE
    right = vectors.similarity(image, true) > limit
    yield from grouped(tests.groups, "pairs", of, image, right)
    yield from grouped(tests.groups, "half-truth", of[adds], image[adds], right[adds])
    two = second != NONE
    of, image, true, negative, second = (some[two] for some in (of, image, true, negative, second))
    both = right[two] & (vectors.similarity(image, second) > limit[two])
    yield from grouped(tests.groups, "two captions", of, image, both)
    texts = vectors.texts
    near = _inner(texts, true, texts, second)
    only = (near > _inner(texts, true, texts, negative) + TIE) & (near > _inner(texts, second, texts, negative) + TIE)
    yield from grouped(tests.groups, "two captions, text only", of, image, only)


def _quads(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Winoground's scores, where there are two images with a caption each (Thrush et al. 2022, equations 1 to 3).

    `text`: for both images, the own caption scores above the other. `image`: for both captions, the own image does.
    `group`: both.
    """
    first, second, said, other = tests.quads.T
    own, across = vectors.similarity(first, said), vectors.similarity(second, other)
    wrong_text, wrong_image = vectors.similarity(first, other) + TIE, vectors.similarity(second, said) + TIE
    text = (own > wrong_text) & (across > wrong_image)
    image = (own > wrong_image) & (across > wrong_text)
    for name, right in (("text", text), ("image", image), ("group", text & image)):
        yield from grouped(tests.groups, name, tests.quad_operator, first, right)


def _choices(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Multiple choice (NegBench): the image is nearer to the true option than to every false one, by template."""
    image, true, *false = tests.questions.T
    own = vectors.similarity(image, true)
    wrong = [np.where(one == NONE, -np.inf, vectors.similarity(image, one)) for one in false]
    right = own > np.max(wrong, axis=0, initial=-np.inf) + TIE
    yield from grouped(masks(tests.templates), "multiple choice", tests.template, image, right)


def _queries(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """How often a caption finds its image among the first QUERIED, if captions deny something (NegBench's retrieval).

    `text to image`: captions that deny nothing; `text to image, denials`: those that do. A caption finds its image if
    fewer than QUERIED others are as near to it.
    """
    image, text = tests.captions.T
    least = vectors.similarity(image, text) - TIE
    step = max(1, BLOCK // len(vectors.of))
    near = np.zeros(len(text), np.int64)
    for at in range(0, len(text), step):
        scores = (vectors.texts[text[at : at + step]] @ vectors.images.T)[:, vectors.of]
        near[at : at + step] = np.count_nonzero(scores > least[at : at + step, None], axis=1)
    for protocol, inside in ((QUERY, ~tests.denies), (f"{QUERY}, denials", tests.denies)):
        if inside.any():
            yield Measured(protocol, ALL, image[inside], near[inside] <= QUERIED)  # its own image is one of them


def _retrieval(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """How often an image ranks one of its own captions first: among all captions, and with negatives beside them.

    `image to text`: among all captions of the set. `image to text, own negatives`: the negatives of the image's own
    captions are added (VSE-C). `image to text, all negatives`: those of all captions (UniVSE). Each distinct text
    counts once, and an image's own captions never against it; a text that is true of another image counts as false.
    """
    image, text = tests.captions.T
    best = np.full(len(tests.image_ids), -np.inf, np.float32)  # the score of each image's best true caption
    np.maximum.at(best, image, vectors.similarity(image, text))
    best -= TIE
    captions = np.unique(text)
    negatives = [np.unique(tests.pairs[tests.operator == number, 2]) for number in range(len(tests.operators))]
    above = _outranking(vectors, tests, best, [captions, *(np.setdiff1d(some, captions) for some in negatives)])
    yield Measured("image to text", ALL, np.arange(len(best)), above[:, 0] == 0)
    beaten = vectors.similarity(tests.pairs[:, 0], tests.pairs[:, 2]) > best[tests.pairs[:, 0]]
    for group, wanted in tests.groups.items():
        inside = wanted[tests.operator]
        shown = np.unique(tests.pairs[inside, 0])
        if len(shown):
            own = np.bincount(tests.pairs[inside & beaten, 0], minlength=len(best))
            for which, more in (("own", own), ("all", above[:, 1:][:, wanted].sum(1))):
                yield Measured(f"image to text, {which} negatives", group, shown, (above[:, 0] + more == 0)[shown])


def _outranking(vectors: Vectors, tests: TestSet, best: np.ndarray, sets: Sequence[np.ndarray]) -> np.ndarray:
    """How many texts of each of S sets, the first of them the captions, score above `best` (I,) of each image: (I, S).

    An image's own captions are not counted.
    """
    texts = vectors.texts[np.concatenate(sets)].T.copy()
    ends = np.cumsum([0, *map(len, sets)])
    image, text = tests.captions.T
    column = np.searchsorted(sets[0], text)
    counts = np.zeros((len(best), len(sets)), np.int64)
    step = max(1, BLOCK // texts.shape[1])
    for start in range(0, len(best), step):
        of, place = np.unique(vectors.of[start : start + step], return_inverse=True)
        above = (vectors.images[of] @ texts)[place] > best[start : start + step, None]
        own = (image >= start) & (image < start + step)
        above[image[own] - start, column[own]] = False
        for number, (first, last) in enumerate(pairwise(ends)):
            counts[start : start + step, number] = np.count_nonzero(above[:, first:last], axis=1)
    return counts


class Percent(NamedTuple):
    """A percentage over `n` cases, and its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


def percents(cases: Sequence[tuple[np.ndarray, np.ndarray]], images: int, resamples: int, seed: int) -> list[Percent]:
    """The percentage right of each of K lists of cases, with percentile intervals of one bootstrap over all I images.

    cases: the image and the value from 0 to 1 of each, (n,); every list must have a case. A resample draws I images
    with replacement, and takes all their cases; a resample that has none of a list does not count for it.
    """
    if not cases:
        return []
    sums = np.stack([np.bincount(image, right, images) for image, right in cases], 1)
    sizes = np.stack([np.bincount(image, minlength=images) for image, _ in cases], 1)
    rng, at_once, shares = np.random.default_rng(seed), max(1, WEIGHTS // images), []
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = rng.integers(images, size=(rows, images)) + images * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * images).reshape(rows, images).astype(np.float64)
        right, number = weights @ sums, weights @ sizes
        shares.append(100 * np.divide(right, number, out=np.full_like(right, np.nan), where=number > 0))
    bounds = np.nanpercentile(np.concatenate(shares), LEVELS, axis=0)
    values = 100 * sums.sum(0) / sizes.sum(0)
    found = zip(values.tolist(), *bounds.tolist(), cases, strict=True)
    return [Percent(value, low, high, len(image)) for value, low, high, (image, _) in found]
