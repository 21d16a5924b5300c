"""The protocols, on the unit vectors of images and texts: which cases a model gets right. A tie counts against it.

Every function also takes vectors "without image": a constant image vector for every image, so that what is left is what
the texts alone give away to the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .intervals import Cases
from .test_set import NONE, TestSet

TIE = 1e-6  # scores this close count as equal: the accuracy of inner products of unit vectors in float32
BLOCK = 1 << 24  # scores computed at a time: 64 MiB in float32
ALL = "all"
QUERIED = 5  # images that count as found by a caption, as in NegBench
QUERY = f"text to image, R@{QUERIED}"


class Measured(NamedTuple):
    """The cases of one protocol and one group of operators: of the model, and of the model without image."""

    protocol: str
    group: str
    model: Cases
    blind: Cases


class Vectors(NamedTuple):
    """Unit vectors of I images (I, d) and N texts (N, d), float32."""

    images: np.ndarray
    texts: np.ndarray

    def without_images(self) -> np.ndarray:
        """(I, d): in the place of each image, the mean vector of the images of the other half of the set.

        So the vector knows how images are in general, and nothing of the image in question. Halves are by parity of the
        image's index. Zeros for a set of one image: all texts are tied.
        """
        halves = np.arange(len(self.images)) % 2
        means = [self.images[halves == half].mean(0) if (halves == half).any() else 0 for half in (0, 1)]
        return np.stack([np.broadcast_to(mean, self.images.shape[1]) for mean in means])[1 - halves].astype(np.float32)


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
    blind = Vectors(vectors.without_images(), vectors.texts)
    measured = [*_pairs(vectors, blind, tests), *_quads(vectors, blind, tests), *_choices(vectors, blind, tests)]
    measured += _queries(vectors, blind, tests)
    if len(tests.pairs):
        measured += _retrieval(vectors, blind, tests)
    return measured


def similarity(vectors: Vectors, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """The inner products (n,) of images (n,) and texts (n,), given by index."""
    step = max(1, BLOCK // vectors.images.shape[1])
    parts = [
        np.einsum("nd,nd->n", vectors.images[images[at : at + step]], vectors.texts[texts[at : at + step]])
        for at in range(0, len(images), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _grouped(
    tests: TestSet, protocol: str, operator: np.ndarray, image: np.ndarray, both: tuple[np.ndarray, np.ndarray]
) -> Iterator[Measured]:
    """One Measured per group of operators that has cases."""
    for group, wanted in tests.groups.items():
        inside = wanted[operator]
        if inside.any():
            model, blind = (Cases(right[inside].astype(np.float64), image[inside]) for right in both)
            yield Measured(protocol, group, model, blind)


def _pairs(vectors: Vectors, blind: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Pairs (SugarCrepe), half-truths (CS-CLIP), and two true captions against a negative (SugarCrepe++).

    `pairs`: the image is nearer to the caption than to the negative, for the first negative of each caption and
    operator. `half-truth`: the same, for negatives that only add to their caption. `two captions`: it is nearer to both
    true captions. `two captions, text only`: both true captions are nearer to each other than to the negative.
    """
    first, half = tests.first, tests.first & tests.adds
    two = first & (tests.pairs[:, 3] != NONE)

    def above(some: Vectors, rows: np.ndarray, column: int) -> np.ndarray:
        image, negative = tests.pairs[rows, 0], tests.pairs[rows, 2]
        return similarity(some, image, tests.pairs[rows, column]) > similarity(some, image, negative) + TIE

    both = tuple(above(some, first, 1) for some in (vectors, blind))
    operator, image = tests.operator[first], tests.pairs[first, 0]
    yield from _grouped(tests, "pairs", operator, image, (both[0], both[1]))
    inside = half[first]
    yield from _grouped(tests, "half-truth", operator[inside], image[inside], (both[0][inside], both[1][inside]))
    if two.any():
        seen, unseen = (
            right[two[first]] & above(some, two, 3) for right, some in zip(both, (vectors, blind), strict=True)
        )
        operator, image = tests.operator[two], tests.pairs[two, 0]
        yield from _grouped(tests, "two captions", operator, image, (seen, unseen))
        texts = Vectors(vectors.texts, vectors.texts)
        _, true, negative, second = tests.pairs[two].T
        near = similarity(texts, true, second)
        only = (near > similarity(texts, true, negative) + TIE) & (near > similarity(texts, second, negative) + TIE)
        yield from _grouped(tests, "two captions, text only", operator, image, (only, only))


def _quads(vectors: Vectors, blind: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Winoground's scores, where there are two images with a caption each (Thrush et al. 2022, equations 1 to 3).

    `text`: for both images, the own caption scores above the other. `image`: for both captions, the own image does.
    `group`: both.
    """
    if not len(tests.quads):
        return
    first, second, said, other = tests.quads.T

    def rights(some: Vectors) -> dict[str, np.ndarray]:
        own, across = similarity(some, first, said), similarity(some, second, other)
        wrong_text, wrong_image = similarity(some, first, other), similarity(some, second, said)
        text = (own > wrong_text + TIE) & (across > wrong_image + TIE)
        image = (own > wrong_image + TIE) & (across > wrong_text + TIE)
        return {"text": text, "image": image, "group": text & image}

    seen, unseen = rights(vectors), rights(blind)
    for name in seen:
        yield from _grouped(tests, name, tests.quad_operator, first, (seen[name], unseen[name]))


def _choices(vectors: Vectors, blind: Vectors, tests: TestSet) -> Iterator[Measured]:
    """Multiple choice (NegBench): the image is nearer to the true option than to every false one, by template."""
    if not len(tests.questions):
        return
    image, true, *false = tests.questions.T

    def rights(some: Vectors) -> np.ndarray:
        own = similarity(some, image, true)
        wrong = [np.where(one == NONE, -np.inf, similarity(some, image, one)) for one in false]
        return own > np.max(wrong, axis=0) + TIE

    seen, unseen = rights(vectors), rights(blind)
    groups = {ALL: np.ones(len(image), bool)} if len(tests.templates) > 1 else {}
    groups |= {name: tests.template == number for number, name in enumerate(tests.templates)}
    for group, inside in groups.items():
        model, without = (Cases(right[inside].astype(float), image[inside]) for right in (seen, unseen))
        yield Measured("multiple choice", group, model, without)


def _queries(vectors: Vectors, blind: Vectors, tests: TestSet) -> Iterator[Measured]:
    """How often a caption finds its image among the first QUERIED, if captions deny something (NegBench's retrieval).

    `text to image`: captions that deny nothing; `text to image, denials`: those that do.
    """
    if not tests.denies.any():
        return
    image = tests.captions[:, 0]
    found = [_found(some, tests) for some in (vectors, blind)]
    for protocol, inside in ((QUERY, ~tests.denies), (f"{QUERY}, denials", tests.denies)):
        if inside.any():
            yield Measured(protocol, ALL, *(Cases(right[inside].astype(float), image[inside]) for right in found))


def _found(vectors: Vectors, tests: TestSet) -> np.ndarray:
    """(C,) bool: fewer than QUERIED other images are as near to the caption as its own."""
    image, text = tests.captions.T
    own = similarity(vectors, image, text) - TIE
    step = max(1, BLOCK // len(vectors.images))
    above = np.concatenate(
        [
            np.count_nonzero(vectors.texts[text[at : at + step]] @ vectors.images.T > own[at : at + step, None], axis=1)
            for at in range(0, len(text), step)
        ]
    )
    return above - 1 < QUERIED  # its own image is one of them


def _retrieval(vectors: Vectors, blind: Vectors, tests: TestSet) -> Iterator[Measured]:
    """How often an image ranks one of its own captions first: among all captions, and with negatives beside them.

    `image to text`: among all captions of the set. `image to text, own negatives`: the negatives of the image's own
    captions are added (VSE-C). `image to text, all negatives`: those of all captions (UniVSE). Each distinct text
    counts once, and an image's own captions never against it; a text that is true of another image counts as false.
    """
    image, text = tests.captions.T
    is_true = np.zeros(len(tests.texts), bool)
    is_true[text] = True
    columns = {"": np.flatnonzero(is_true)}
    by_operator = {
        name: np.unique(tests.pairs[tests.operator == number, 2]) for number, name in enumerate(tests.operators)
    }
    columns |= {name: texts[~is_true[texts]] for name, texts in by_operator.items()}
    rows = np.unique(image)
    rank = [_outranked(vectors, tests, rows, columns), _outranked_blind(blind, tests, rows, columns)]
    plain = [some[""] for some in rank]
    yield Measured("image to text", ALL, *(Cases((above == 0).astype(float), rows) for above in plain))
    own = [_own_outranking(some, tests) for some in (vectors, blind)]
    for group, wanted in tests.groups.items():
        names = [name for name, inside in zip(tests.operators, wanted, strict=True) if inside]
        has = np.zeros(len(tests.image_ids), bool)
        has[tests.pairs[wanted[tests.operator], 0]] = True
        if not has.any():
            continue
        shown = has[rows]
        beaten = [np.bincount(tests.pairs[some & wanted[tests.operator], 0], minlength=len(has))[rows] for some in own]
        for protocol, extra in (
            ("image to text, own negatives", beaten),
            ("image to text, all negatives", [sum(some[name] for name in names) for some in rank]),
        ):
            right = [(above + more == 0)[shown].astype(float) for above, more in zip(plain, extra, strict=True)]
            yield Measured(protocol, group, *(Cases(some, rows[shown]) for some in right))


def _best_own(vectors: Vectors, tests: TestSet) -> np.ndarray:
    """(I,) the score of each image's best true caption; -inf without any."""
    best = np.full(len(tests.image_ids), -np.inf, np.float32)
    np.maximum.at(best, tests.captions[:, 0], similarity(vectors, *tests.captions.T))
    return best


def _own_outranking(vectors: Vectors, tests: TestSet) -> np.ndarray:
    """(P,) bool: the negative scores as high as the best true caption of its image, or higher."""
    found = similarity(vectors, tests.pairs[:, 0], tests.pairs[:, 2])
    return found > _best_own(vectors, tests)[tests.pairs[:, 0]] - TIE


def _outranked(
    vectors: Vectors, tests: TestSet, rows: np.ndarray, columns: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """For each image of `rows` and each set of texts, how many that are not its own reach its best true caption."""
    best = _best_own(vectors, tests) - TIE
    order = np.concatenate(list(columns.values()))
    ends = np.cumsum([0, *map(len, columns.values())])
    texts = np.ascontiguousarray(vectors.texts[order].T)
    place = np.full(len(tests.texts), NONE)
    place[columns[""]] = np.arange(len(columns[""]))
    image, text = tests.captions.T
    owner, mine = np.searchsorted(rows, image), place[text]
    by_owner = np.argsort(owner, kind="stable")
    owner, mine = owner[by_owner], mine[by_owner]
    step = max(1, BLOCK // max(1, len(order)))
    counts = np.zeros((len(rows), len(columns)), np.int64)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        above = vectors.images[some] @ texts > best[some][:, None]
        first, last = np.searchsorted(owner, [start, start + step])
        above[owner[first:last] - start, mine[first:last]] = False
        for number in range(len(columns)):
            counts[start : start + step, number] = np.count_nonzero(above[:, ends[number] : ends[number + 1]], axis=1)
    return dict(zip(columns, counts.T, strict=True))


def _outranked_blind(
    vectors: Vectors, tests: TestSet, rows: np.ndarray, columns: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The same where the images of each parity of index share one vector, as in `Vectors.without_images`."""
    best = _best_own(vectors, tests) - TIE
    image, text = tests.captions.T
    own = similarity(vectors, image, text) > best[image]
    reached = np.bincount(image[own], minlength=len(best))  # of an image's own captions, which do not count
    counts = {name: np.zeros(len(rows), np.int64) for name in columns}
    for half in {0, 1} & set((rows % 2).tolist()):
        inside = rows % 2 == half
        scores = vectors.texts @ vectors.images[rows[inside][0]]
        for name, some in columns.items():
            found = np.sort(scores[some])
            counts[name][inside] = len(found) - np.searchsorted(found, best[rows[inside]], side="right")
    counts[""] -= reached[rows]
    return counts
