"""What models are scored on: images, distinct texts, and which of the texts are true and false of which image."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...augment.language.determiners import NEGATIONS

NONE = -1  # of an index: there is no such text


class Foil(NamedTuple):
    """A negative of a caption. adds: whether it only adds to its caption, which is then the shorter, true half of it.

    draw: its number among the negatives of its caption and operator, from 0.
    """

    operator: str
    family: str
    text: str
    adds: bool
    draw: int = 0


class Item(NamedTuple):
    """A caption that is true of an image, another true one (None if there is none), and negatives of the caption.

    file: the image file; None if it is not known.
    """

    image_id: str
    file: Path | None
    text: str
    second: str | None
    negatives: tuple[Foil, ...]


class Quad(NamedTuple):
    """Two images with a caption each, of which each is false of the other image, as in Winoground.

    images: two (image_id, file); texts: their captions; operator: what made one of the captions from the other.
    """

    images: tuple[tuple[str, Path | None], tuple[str, Path | None]]
    texts: tuple[str, str]
    operator: str


class Question(NamedTuple):
    """Multiple choice: an image, the true option, false ones, and what kind of question it is (NegBench's template)."""

    image_id: str
    file: Path | None
    text: str
    false: tuple[str, ...]
    template: str


@dataclass(frozen=True)
class TestSet:
    """I images and N distinct texts, and what is true and false; all arrays hold indices.

    captions: (C, 2) image and text of the true captions. pairs: (P, 4) image, true text, false text, and a second true
    text or NONE. operator: (P,) into `operators`; first: (P,) bool, the first draw of its caption and operator; adds:
    (P,) bool, the false text only adds to the true one. quads: (Q, 4) the images 0 and 1, then their texts;
    quad_operator: (Q,) into `operators`. questions: (M, 1 + options) the image, the true text and false ones, NONE
    where a question has fewer; template: (M,) into `templates`. families: by operator. missing: number of images left
    out because their file is missing.
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
        found = {"all": np.ones(len(self.operators), bool)} if len(self.operators) != 1 else {}
        names = np.array(self.operators)
        of = np.array([self.families[name] for name in self.operators])
        for family in dict.fromkeys(of.tolist()):
            if family not in self.families and (of == family).sum() > 1:
                found[family] = of == family
        return {**found, **{name: names == name for name in self.operators}}


def build(items: Iterable[Item | Quad | Question], missing: int = 0) -> TestSet:
    """The test set of these items: their distinct images and texts, and the pairs as indices into both.

    missing: the number of images left out because their file is missing. Raises ValueError if there is no negative.
    """
    images: dict[str, int] = {}
    files: dict[str, Path | None] = {}
    texts: dict[str, int] = {}
    operators: dict[str, int] = {}
    families: dict[str, str] = {}
    captions: dict[tuple[int, int], None] = {}
    pairs: list[tuple[int, ...]] = []
    quads: list[tuple[int, ...]] = []
    questions: list[list[int]] = []
    templates: dict[str, int] = {}
    kinds: list[int] = []

    def number(known: dict[str, int], name: str) -> int:
        return known.setdefault(name, len(known))

    for item in items:
        if isinstance(item, Quad):
            for image_id, file in item.images:
                files[image_id] = file
            at = [number(images, image_id) for image_id, _ in item.images]
            said = [number(texts, text) for text in item.texts]
            quads.append((*at, *said, number(operators, item.operator)))
            captions |= dict.fromkeys(zip(at, said, strict=True))
            families.setdefault(item.operator, item.operator)
            continue
        files[item.image_id] = item.file
        image, true = number(images, item.image_id), number(texts, item.text)
        if isinstance(item, Question):
            captions |= {(image, true): None}
            questions.append([image, true, *(number(texts, text) for text in item.false)])
            kinds.append(number(templates, item.template))
            continue
        second = NONE if item.second is None else number(texts, item.second)
        captions |= dict.fromkeys([(image, true)] if second == NONE else [(image, true), (image, second)])
        firsts = set[str]()
        for negative in item.negatives:
            false, operator = number(texts, negative.text), number(operators, negative.operator)
            families.setdefault(negative.operator, negative.family or negative.operator)
            first = negative.operator not in firsts
            firsts.add(negative.operator)
            pairs.append((image, true, false, second, operator, first, negative.adds))
    if not pairs and not quads and not questions:
        raise ValueError("there is no negative to score a model on")
    rows = np.array(pairs, np.int64).reshape(-1, 7)
    fours = np.array(quads, np.int64).reshape(-1, 5)
    longest = max(map(len, questions), default=2)
    asked = np.array([[*one, *[NONE] * (longest - len(one))] for one in questions], np.int64).reshape(-1, longest)
    return TestSet(
        tuple(images),
        tuple(files[name] for name in images),
        tuple(texts),
        np.array(list(captions), np.int64).reshape(-1, 2),
        rows[:, :4],
        rows[:, 4],
        rows[:, 5].astype(bool),
        rows[:, 6].astype(bool),
        fours[:, :4],
        fours[:, 4],
        tuple(operators),
        families,
        asked,
        np.array(kinds, np.int64),
        tuple(templates),
        missing,
    )


def only_adds(caption: str, negative: str) -> bool:
    """Whether a negative has all words of its caption in their order, and more: "a dog" -> "a black dog on a couch".

    Upper case and punctuation at the ends of words do not count.
    """
    said, longer = ([word.strip(".,;:!?\"'").lower() for word in text.split()] for text in (caption, negative))
    words = iter(longer)
    return len(said) < len(longer) and all(word in words for word in said)
