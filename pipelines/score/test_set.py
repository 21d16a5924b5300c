"""What models are scored on, and how: images, distinct texts, which are true and false of which image; the options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...augment.language.grammar import NEGATIONS
from ..engine.bounds import above_zero, at_least, one_of

ALL = "all"  # the group of all cases
NONE = -1  # of an index: there is no such text
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class ScoreConfig:
    """The options of `negcap score`. Raises ValueError for a value that is not valid.

    images: the folder of the image files, None if the models need none. splits, operators: only these, all if empty;
    refined: only the negatives that `negcap refine` kept; per_caption: at most so many negatives per caption and
    operator, the first drawn, None for all. skip_missing: leave out captions whose image file is missing. seed: of the
    bootstrap and of the choice of second captions; resamples: of the bootstrap. device: cpu, cuda or auto (a GPU where
    there is one); threads: of the CPU, 0 for one per core; batch: images or texts computed at once; precision: what a
    GPU computes in, where auto is bfloat16 on a GPU and float32 on a CPU.
    Of endpoints (see EndpointConfig): concurrency, timeout, attempts, max_tokens of an answer, max_requests in all.
    """

    images: Path | None = None
    splits: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    refined: bool = False
    per_caption: int | None = None
    skip_missing: bool = False
    seed: int = 0
    resamples: int = 1000
    device: str = "auto"
    threads: int = 0
    batch: int = 64
    precision: str = "auto"
    concurrency: int = 8
    timeout: float = 120.0
    attempts: int = 6
    max_tokens: int = 16
    max_requests: int | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, ("per_caption", "batch", "resamples", "concurrency", "attempts", "max_tokens"))
        at_least(self, 0, ("threads", "max_requests"))
        above_zero(self, ["timeout"])
        one_of(self, {"device": DEVICES, "precision": PRECISIONS})


class Foil(NamedTuple):
    """A negative of a caption. adds: whether it only adds to its caption, the shorter, true half of it."""

    operator: str
    family: str
    text: str
    adds: bool


class Image(NamedTuple):
    """An image, and its file; None if that is not known."""

    image_id: str
    file: Path | None


class Item(NamedTuple):
    """A caption that is true of an image, another true one (None if there is none), and negatives of the caption.

    The first negative of each operator is the first drawn.
    """

    images: tuple[Image, ...]
    text: str
    second: str | None
    negatives: tuple[Foil, ...]


class Quad(NamedTuple):
    """Two images with a caption each, of which each is false of the other image, as in Winoground.

    operator: what made one of the captions from the other.
    """

    images: tuple[Image, ...]
    texts: tuple[str, str]
    operator: str


class Question(NamedTuple):
    """Multiple choice: an image, the true option, false ones, and what kind of question it is (NegBench's template)."""

    images: tuple[Image, ...]
    text: str
    false: tuple[str, ...]
    template: str


@dataclass(frozen=True)
class TestSet:
    """I images and N distinct texts, and what is true and false; all arrays hold indices.

    captions: (C, 2) image and text of the true captions; every image has one. pairs: (P, 4) image, true text, false
    text, and a second true text or NONE. operator: (P,) into `operators`; first: (P,) bool, the first draw of its
    caption and operator; adds: (P,) bool, the false text only adds to the true one. quads: (Q, 4) the images 0 and 1,
    then their texts; quad_operator: (Q,) into `operators`. questions: (M, 1 + options) the image, the true text and
    false ones, NONE where a question has fewer; template: (M,) into `templates`. families: by operator. missing: number
    of images left out because their file is missing.
    """

    __test__ = False  # for pytest

    image_ids: tuple[str, ...]
    files: tuple[Path | None, ...]
    texts: tuple[str, ...]
    captions: np.ndarray
    pairs: np.ndarray
    operator: np.ndarray
    first: np.ndarray
    adds: np.ndarray
    quads: np.ndarray
    quad_operator: np.ndarray
    operators: tuple[str, ...]
    families: dict[str, str]
    questions: np.ndarray
    template: np.ndarray
    templates: tuple[str, ...]
    missing: int = 0

    @cached_property
    def denies(self) -> np.ndarray:
        """(C,) bool: the caption denies something, that is, has a word such as "no" or "without"."""
        said = [not NEGATIONS.isdisjoint(re.findall(r"\w+", text.lower())) for text in self.texts]
        return np.array(said, bool)[self.captions[:, 1]]

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Masks (operators,) of what is reported together: `all`, each family of several operators, each operator."""
        of = np.array([self.families[name] for name in self.operators])
        several = [name for name in dict.fromkeys(of.tolist()) if (of == name).sum() > 1 and name not in self.families]
        return masks(self.operators, {family: of == family for family in several})


def masks(names: Sequence[str], between: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Masks (n,) of all of n names, if they are several, of what is `between`, and of each."""
    every = {ALL: np.ones(len(names), bool)} if len(names) > 1 else {}
    return {**every, **(between or {}), **{name: np.array(names) == name for name in names}}


def build(items: Iterable[Item | Quad | Question], missing: int = 0) -> TestSet:
    """The test set of these items: their distinct images and texts, and the pairs as indices into both.

    missing: the number of images left out because their file is missing. Raises ValueError if there is no negative.
    """
    images, texts, operators, templates = (dict[str, int]() for _ in range(4))  # the index of each name
    files: dict[str, Path | None] = {}
    families: dict[str, str] = {}
    captions: dict[tuple[int, int], None] = {}  # a set that keeps its order
    pairs: list[tuple[int, ...]] = []
    quads: list[tuple[int, ...]] = []
    questions: list[list[int]] = []
    template: list[int] = []

    def number(known: dict[str, int], name: str) -> int:
        return known.setdefault(name, len(known))

    for item in items:
        files |= dict(item.images)
        at = [number(images, image.image_id) for image in item.images]
        said = [number(texts, text) for text in (item.texts if isinstance(item, Quad) else [item.text])]
        captions |= dict.fromkeys(zip(at, said, strict=True))
        if isinstance(item, Quad):
            quads.append((*at, *said, number(operators, item.operator)))
            families.setdefault(item.operator, item.operator)
        elif isinstance(item, Question):
            questions.append([*at, *said, *(number(texts, text) for text in item.false)])
            template.append(number(templates, item.template))
        else:
            second = NONE if item.second is None else number(texts, item.second)
            if second != NONE:
                captions[at[0], second] = None
            seen = set[str]()
            for negative in item.negatives:
                false, operator = number(texts, negative.text), number(operators, negative.operator)
                families.setdefault(negative.operator, negative.family or negative.operator)
                pairs.append((*at, *said, false, second, operator, negative.operator not in seen, negative.adds))
                seen.add(negative.operator)
    if not pairs and not quads and not questions:
        raise ValueError("there is no negative to score a model on")
    rows = np.array(pairs, np.int64).reshape(-1, 7)
    fours = np.array(quads, np.int64).reshape(-1, 5)
    longest = max(map(len, questions), default=2)
    options = [[*one, *[NONE] * (longest - len(one))] for one in questions]
    return TestSet(
        image_ids=tuple(images),
        files=tuple(files[name] for name in images),
        texts=tuple(texts),
        captions=np.array(list(captions), np.int64),
        pairs=rows[:, :4],
        operator=rows[:, 4],
        first=rows[:, 5].astype(bool),
        adds=rows[:, 6].astype(bool),
        quads=fours[:, :4],
        quad_operator=fours[:, 4],
        operators=tuple(operators),
        families=families,
        questions=np.array(options, np.int64).reshape(-1, longest),
        template=np.array(template, np.int64),
        templates=tuple(templates),
        missing=missing,
    )
