"""What models are scored on, and how: images, distinct texts, which are true and false of which image; the options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from ...augment.language.determiners import NEGATIONS
from ...augment.settings import (
    AboveZero,
    AtLeastOne,
    Device,
    NotNegative,
    Operators,
    Photos,
    Refined,
    Seed,
    Settings,
    Splits,
)

ALL = "all"  # the group of all cases
NONE = -1  # of an index: there is no such text


class ScoreConfig(Settings):
    """The options of `negcap score`; those from `concurrency` on are of endpoints (see EndpointConfig)."""

    images: Photos = None
    splits: Splits = ()
    operators: Operators = ()
    refined: Refined = False
    per_caption: AtLeastOne | None = Field(
        None, description="negatives per caption and operator, the first drawn; none: all"
    )
    skip_missing: bool = Field(False, description="leave out captions whose image file is missing")
    seed: Seed = 0
    resamples: AtLeastOne = Field(1000, description="resamples of the bootstrap")
    device: Device = "auto"
    threads: NotNegative = Field(0, description="CPU threads; 0: one per core")
    batch: AtLeastOne = Field(64, description="images or texts computed at once")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="what to compute in; auto: bfloat16 on a GPU, else float32"
    )
    concurrency: AtLeastOne = Field(8, description="endpoint: requests in flight at once")
    timeout: AboveZero = Field(120.0, description="endpoint: seconds to wait for an answer")
    attempts: AtLeastOne = Field(6, description="endpoint: how often a request is sent before giving up")
    max_tokens: AtLeastOne = Field(16, description="endpoint: tokens of an answer")
    max_requests: NotNegative | None = Field(
        None, description="endpoint: requests in all, earlier ones included; none: no limit"
    )


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
