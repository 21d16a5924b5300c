"""The protocols, on unit vectors of images and texts: which cases a model gets right; a tie counts against it. Each is
computed with the images and with vectors "without image", which shows what the texts alone give away.
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


class Measured(NamedTuple):
    """A protocol's cases of a group: right (1), wrong (0) or between, and each image (n,). blind: without images."""

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
        """Each image's vector: the mean of the other half of the set, by parity; zeros for one image."""
        odd, even = (self.images[half::2].mean(0) if half < len(self.images) else 0 for half in (1, 0))
        means = np.stack([np.broadcast_to(mean, self.images.shape[1]) for mean in (odd, even)])
        return Vectors(means.astype(np.float32), self.texts, np.arange(len(self.images)) % 2)

    def similarity(self, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """The inner products (n,) of images (n,) and texts (n,), given by index."""
        return _inner(self.images, self.of[images], self.texts, texts)

    def texts_above(self, sets: Sequence[np.ndarray], limit: np.ndarray) -> np.ndarray:
        """How many texts of each of S sets score above the limit (I,) of each image: (I, S)."""
        above = np.empty((len(limit), len(sets)), np.int64)
        if len(self.images) < len(self.of):  # few vectors, each of many images: their scores are sorted
            for vector, scores in enumerate(self.images @ self.texts.T):
                inside = self.of == vector
                for number, texts in enumerate(sets):
                    below = np.searchsorted(np.sort(scores[texts]), limit[inside], side="right")
                    above[inside, number] = len(texts) - below
            return above
        columns = self.texts[np.concatenate(sets)].T
        ends = np.cumsum([0, *map(len, sets)])
        step = max(1, BLOCK // columns.shape[1])
        for at in range(0, len(limit), step):
            higher = self.images[at : at + step] @ columns > limit[at : at + step, None]
            for number, (first, last) in enumerate(pairwise(ends)):
                above[at : at + step, number] = np.count_nonzero(higher[:, first:last], axis=1)
        return above

    def images_above(self, texts: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """How many images score above the limit (n,) of each of some texts (n,): (n,)."""
        above = np.empty(len(texts), np.int64)
        step = max(1, BLOCK // len(self.images))
        sizes = np.bincount(self.of, minlength=len(self.images)).astype(np.float32)
        for at in range(0, len(texts), step):
            scores = self.texts[texts[at : at + step]] @ self.images.T
            above[at : at + step] = (scores > limit[at : at + step, None]).astype(np.float32) @ sizes
        return above


def _inner(left: np.ndarray, rows: np.ndarray, right: np.ndarray, others: np.ndarray) -> np.ndarray:
    step = max(1, BLOCK // left.shape[1])
    starts = range(0, len(rows), step)
    parts = [np.einsum("nd,nd->n", left[rows[at : at + step]], right[others[at : at + step]]) for at in starts]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def unit(vectors: np.ndarray, what: str) -> np.ndarray:
    """Vectors (n, d) as float32 of length 1. Raises ValueError, with `what`, if one is not finite or is zero."""
    found = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise ValueError(f"{what} must be finite and not zero, row {bad[0]} is not")
    return found / lengths


def measure(vectors: Vectors, tests: TestSet) -> list[Measured]:
    """All protocols that the set has cases for, for each group of operators (see `TestSet.groups`)."""

    def outcomes(some: Vectors) -> Iterator[Measured]:
        yield from _pairs(some, tests)
        yield from _quads(some, tests)
        yield from _choices(some, tests)
        if tests.denies.any():
            yield from _queries(some, tests)
        if len(tests.pairs):
            yield from _retrieval(some, tests)

    both = (outcomes(some) for some in (vectors, vectors.without_images()))
    return [seen._replace(blind=unseen.right) for seen, unseen in zip(*both, strict=True)]


def grouped(
    groups: Mapping[str, np.ndarray],
    protocol: str,
    of: np.ndarray,
    image: np.ndarray,
    right: np.ndarray,
    blind: np.ndarray | None = None,
) -> Iterator[Measured]:
    """One Measured per group that has cases; of: (n,) the operator of each case, of which a group is a mask."""
    for group, wanted in groups.items():
        inside = wanted[of]
        if inside.any():
            yield Measured(protocol, group, image[inside], right[inside], None if blind is None else blind[inside])


def _pairs(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """SugarCrepe's pairs, of the first negative of each caption and operator: the image is nearer to the caption.
    `half-truth` (CS-CLIP): of negatives that only add to it. `two captions` (SugarCrepe++): nearer to both true
    captions; `two captions, text only`: both are nearer to each other than to the negative.
    """
    pairs = tests.pairs[tests.pairs["first"]]
    image, true, negative, second, of = (
        pairs[name].to_numpy() for name in ("image", "true", "false", "second", "operator")
    )
    limit = vectors.similarity(image, negative) + TIE
    right = vectors.similarity(image, true) > limit
    both = right & (vectors.similarity(image, second) > limit)
    texts = vectors.texts
    near = _inner(texts, true, texts, second) - TIE
    only = (near > _inner(texts, true, texts, negative)) & (near > _inner(texts, second, texts, negative))
    adds = pairs["adds"].to_numpy()
    two = second != NONE
    for protocol, found, cases in (
        ("pairs", right, slice(None)),
        ("half-truth", right, adds),
        ("two captions", both, two),
        ("two captions, text only", only, two),
    ):
        yield from grouped(tests.groups, protocol, of[cases], image[cases], found[cases])


def _quads(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Winoground's scores (Thrush et al. 2022, equations 1 to 3) of two images with a caption each. `text`: for both
    images the own caption scores above the other; `image`: for both captions the own image does; `group`: both.
    """
    first, second, of_first, of_second, operator = (column.to_numpy() for _, column in tests.quads.items())
    first_right = vectors.similarity(first, of_first)
    second_right = vectors.similarity(second, of_second)
    # a tie counts as wrong
    first_wrong = vectors.similarity(first, of_second) + TIE
    second_wrong = vectors.similarity(second, of_first) + TIE
    text = (first_right > first_wrong) & (second_right > second_wrong)
    image = (first_right > second_wrong) & (second_right > first_wrong)
    for name, right in (("text", text), ("image", image), ("group", text & image)):
        yield from grouped(tests.groups, name, operator, first, right)


def _choices(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Multiple choice (NegBench): the image is nearer to the true option than to every false one, by template."""
    image, true, *false = tests.questions.T
    own = vectors.similarity(image, true)
    wrong = [np.where(one == NONE, -np.inf, vectors.similarity(image, one)) for one in false]
    right = own > np.max(wrong, axis=0, initial=-np.inf) + TIE
    yield from grouped(masks(tests.templates), "multiple choice", tests.template, image, right)


def _queries(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """NegBench's retrieval, if captions deny something: a caption finds its image if fewer than QUERIED others are as
    near, of captions that deny nothing and, `denials`, of those that do.
    """
    image, text = tests.captions.T
    right = vectors.images_above(text, vectors.similarity(image, text) - TIE) <= QUERIED  # its own image is one of them
    for protocol, inside in ((QUERY, ~tests.denies), (f"{QUERY}, denials", tests.denies)):
        if inside.any():
            yield Measured(protocol, ALL, image[inside], right[inside])


def _retrieval(vectors: Vectors, tests: TestSet) -> Iterator[Measured]:
    """How often an image ranks an own caption first: among all captions; with the negatives of its own (VSE-C), or of
    all (UniVSE), beside them. Each distinct text counts once, and an image's own captions never against it; a text that
    is true of another image counts as false.
    """
    image, text = tests.captions.T
    scores = vectors.similarity(image, text)
    best = np.full(len(tests.image_ids), -np.inf, np.float32)  # the score of each image's best true caption
    np.maximum.at(best, image, scores)
    best -= TIE
    captions = np.unique(text)
    places = np.arange(len(best))
    shown, false, operator = (tests.pairs[name].to_numpy() for name in ("image", "false", "operator"))
    negatives = [np.setdiff1d(false[operator == number], captions) for number in range(len(tests.operators))]
    above = vectors.texts_above([captions, *negatives], best)
    plain = above[:, 0] - np.bincount(image[scores > best[image]], minlength=len(best))  # but for its own
    yield Measured("image to text", ALL, places, plain == 0)
    beaten = vectors.similarity(shown, false) > best[shown]
    for group, wanted in tests.groups.items():
        inside = wanted[operator]
        if inside.any():
            some = np.unique(shown[inside])
            own = np.bincount(shown[inside & beaten], minlength=len(best))
            for which, more in (("own", own), ("all", above[:, 1:][:, wanted].sum(1))):
                yield Measured(f"image to text, {which} negatives", group, some, (plain + more == 0)[some])
