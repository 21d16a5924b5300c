"""What models are scored on, of a run or of a published set: `negcap publish`'s, COCO's, NegBench's, Winoground's …

Both sources give the same items, one after the other: a caption with its negatives, a question, or two images. `build`
numbers their images and texts, and makes one table of all pairs of a caption and a negative.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ...augment.language.negation import NEGATIONS
from ...augment.operators import OPERATORS
from ...augment.reproducible import record_rng
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
from ...schemas.messages import number_of
from ..engine.tables import has_table
from ..readers.pairs import (
    ALL,
    PUBLISHED,
    CaptionWithNegatives,
    MultipleChoice,
    NamedImage,
    Negative,
    Published,
    TwoImages,
    published_files,
    read_published,
)
from ..tables.columns import check_operators
from ..tables.examples import by_caption, by_image, chosen_names, example_tables, other_wordings, two_noun_questions
from ..tables.images import Images, abbreviate

if TYPE_CHECKING:
    import pandas as pd

NONE = -1  # of an index: there is no such text


class ScoreConfig(Settings):
    """The options of `negcap score`; those from `concurrency` on are of endpoints (see EndpointConfig)."""

    images: Photos = None
    splits: Splits = ()
    operators: Operators = ()
    refined: Refined = False
    per_operator: AtLeastOne | None = Field(
        None, description="negatives per caption and operator, at most, the first sampled; none: all"
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
    attempts: AtLeastOne = Field(6, description="endpoint: times that a request is sent before giving up")
    max_tokens: AtLeastOne = Field(16, description="endpoint: tokens of an answer")
    max_requests: NotNegative | None = Field(
        None, description="endpoint: requests in all, earlier ones included; none: no limit"
    )


class ScoredImage(NamedTuple):
    """An image that models are scored on, and its file; None if it is not looked for."""

    id: str
    file: Path | None


class Questions(NamedTuple):
    """M questions of multiple choice, by index into images and texts.

    image, true: (M,) the image and the true option. false: (M, most false options), NONE where a question has fewer.
    template: (M,) the form of the true option, an index into `templates`.
    """

    image: np.ndarray
    true: np.ndarray
    false: np.ndarray
    template: np.ndarray
    templates: tuple[str, ...]


class ScoredPair(NamedTuple):
    """A caption and a negative of it, by index into images, texts and operators: a row of `TestSet.pairs`.

    true, false: the caption and the negative. second: another true text of the image, or NONE. first: whether it is the
    first negative of its caption and operator. adds: whether the negative only adds to its caption.
    """

    image: int
    true: int
    false: int
    second: int
    operator: int
    first: bool
    adds: bool


class CaptionedImages(NamedTuple):
    """Two images with a caption each, by index into images, texts and operators: a row of `TestSet.two_images`."""

    first_image: int
    second_image: int
    first_text: int
    second_text: int
    operator: int


@dataclass(frozen=True)
class TestSet:
    """Distinct images and texts, and what a model is asked about them, by index.

    captions: (C, 2) image and true text; every image has one.
    pairs: a row for each ScoredPair.
    two_images: a row for each CaptionedImages.
    families: of each operator, in the order of their indices.
    missing: how many images were left out without a file.
    """

    __test__ = False  # for pytest

    images: tuple[ScoredImage, ...]
    texts: tuple[str, ...]
    captions: np.ndarray
    pairs: pd.DataFrame
    two_images: pd.DataFrame
    questions: Questions
    families: dict[str, str]
    missing: int = 0

    @property
    def image_ids(self) -> tuple[str, ...]:
        """The ids of the images."""
        return tuple(image.id for image in self.images)

    def image_files(self, model: str) -> list[Path]:
        """The files of the images. Raises ValueError, naming the model that needs them, if one is not known."""
        files = [image.file for image in self.images if image.file is not None]
        if len(files) != len(self.images):
            raise ValueError(f"{model} needs the image files: --images FOLDER")
        return files

    @property
    def first_pairs(self) -> pd.DataFrame:
        """The pairs of the first negative of each caption and operator."""
        return self.pairs[self.pairs["first"]]

    @cached_property
    def denies(self) -> np.ndarray:
        """(C,) bool: the caption denies something, that is, has a word such as "no" or "without"."""
        denying = [not NEGATIONS.isdisjoint(re.findall(r"\w+", text.lower())) for text in self.texts]
        return np.array(denying, bool)[self.captions[:, 1]]

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Masks (operators,) of what is reported together: `all`, each family of several operators, each operator."""
        names = list(self.families)
        sizes = Counter(self.families.values())
        # A family that shares its name with an operator is not reported: two groups of one name would be confused.
        several = [family for family, size in sizes.items() if size > 1 and family not in self.families]
        family_of = np.array(list(self.families.values()))
        return group_masks(names, {family: family_of == family for family in several})


def group_masks(names: Sequence[str], larger: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Masks (n,) of groups of n distinct names: `all`, if n > 1; then larger groups; then each name alone.

    ["a", "b"] -> {"all": [1, 1], "a": [1, 0], "b": [0, 1]}. larger: the masks of groups of several names, by group.
    """
    all_names = {ALL: np.ones(len(names), bool)} if len(names) > 1 else {}
    return {**all_names, **(larger or {}), **{name: np.array(names) == name for name in names}}


def read_test_set(source: Path, config: ScoreConfig) -> TestSet:
    """What a model is scored on, of a run or a published set.

    Raises:
        FileNotFoundError: there are no negatives, or, unless `skip_missing`, an image has no file.
        ValueError: the source lacks a split or an operator, or it has a damaged file or none in a known format.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such run or published set")
    items = list(_items_of_run(source, config)) if is_run(source) else _items_of_published(source, config)
    paths: dict[str, str] = {}  # of each image, as it is named first
    for item in items:
        for image in item.images:
            paths.setdefault(image.id, image.path)
    files: dict[str, Path | None] = dict.fromkeys(paths)
    missing: list[str] = []
    if config.images is not None:
        folder = Images(config.images)
        names = {image: folder.find(str(Path(path))) for image, path in paths.items()}
        files = {image: folder.folder / name for image, name in names.items() if name is not None}
        missing = [str(Path(paths[image])) for image, name in names.items() if name is None]
    if missing and not config.skip_missing:
        raise FileNotFoundError(
            f"{number_of(len(missing), 'image')} missing from {config.images}: {abbreviate(missing)}; --set "
            "skip_missing=true leaves their captions out"
        )
    with_files = [item for item in items if all(image.id in files for image in item.images)]
    return build_test_set(with_files, files, len(missing))


class _Numbering(dict[str, int]):
    """Numbers of names, from 0, in the order in which they are first asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def build_test_set(
    items: Iterable[Published], files: dict[str, Path | None] | None = None, missing: int = 0
) -> TestSet:
    """The test set of items.

    Args:
        items: in the order in which their images and texts are numbered.
        files: of the images, by id; None: not known.
        missing: how many images were left out.

    Raises:
        ValueError: there is no negative.
    """
    builder = _TestSetBuilder()
    for item in items:
        match item:
            case CaptionWithNegatives():
                builder.add_caption(item)
            case MultipleChoice():
                builder.add_question(item)
            case TwoImages():
                builder.add_two_images(item)
    return builder.test_set(files or {}, missing)


class _TestSetBuilder:
    """Numbers images and texts as items come, and keeps the rows of each table."""

    def __init__(self) -> None:
        self.images = _Numbering()
        self.texts = _Numbering()
        self.operators = _Numbering()
        self.templates = _Numbering()
        self.families: dict[str, str] = {}
        self.captions: dict[tuple[int, int], None] = {}  # (image, text), in order, each once
        self.pairs: list[ScoredPair] = []
        self.two_images: list[CaptionedImages] = []
        self.questions: list[list[int]] = []  # image, template, true option, false ones

    def add_caption(self, item: CaptionWithNegatives) -> None:
        """Add the true captions of an image, and a pair of the first one with each of its negatives."""
        image = self.images[item.image_id]
        # Only the first other true caption is used, as in SugarCrepe++.
        true, *others = [self.texts[text] for text in item.captions[:2]]
        for text in (true, *others):
            self.captions[image, text] = None
        labels: set[str] = set()  # those of the caption's negatives so far
        for negative in item.negatives:
            self.families.setdefault(negative.label, _family_of_negative(negative))
            pair = ScoredPair(
                image=image,
                true=true,
                false=self.texts[negative.text],
                second=others[0] if others else NONE,
                operator=self.operators[negative.label],
                first=negative.label not in labels,
                adds=only_adds(item.captions[0], negative.text) if negative.only_adds is None else negative.only_adds,
            )
            self.pairs.append(pair)
            labels.add(negative.label)

    def add_question(self, item: MultipleChoice) -> None:
        """Add a question, whose true option is a caption of its image."""
        image = self.images[item.image.id]
        true = self.texts[item.true]
        self.captions[image, true] = None
        false = [self.texts[text] for text in item.false]
        self.questions.append([image, self.templates[item.template], true, *false])

    def add_two_images(self, item: TwoImages) -> None:
        """Add two images with a caption each."""
        first_image, second_image = (self.images[image.id] for image in item.images)
        first_text, second_text = (self.texts[text] for text in item.captions)
        self.captions[first_image, first_text] = None
        self.captions[second_image, second_text] = None
        self.families.setdefault(item.label, item.label)
        operator = self.operators[item.label]
        self.two_images.append(CaptionedImages(first_image, second_image, first_text, second_text, operator))

    def test_set(self, files: dict[str, Path | None], missing: int) -> TestSet:
        """The test set of all items that were added. Raises ValueError if there is no negative."""
        import pandas as pd

        # (M, 3 + most false options): image, template, true option, false ones, then NONE where a question has fewer.
        options = np.full((len(self.questions), max(map(len, self.questions), default=3)), NONE)
        for row, question in zip(options, self.questions, strict=True):
            row[: len(question)] = question
        if not (self.pairs or self.two_images or options[:, 3:].size):
            raise ValueError("there is no negative to score a model on")
        pairs = np.array(self.pairs, int).reshape(-1, len(ScoredPair._fields))
        two_images = np.array(self.two_images, int).reshape(-1, len(CaptionedImages._fields))
        return TestSet(
            images=tuple(ScoredImage(image, files.get(image)) for image in self.images),
            texts=tuple(self.texts),
            captions=np.array(list(self.captions), int),
            pairs=pd.DataFrame(pairs, columns=ScoredPair._fields).astype({"first": bool, "adds": bool}),
            two_images=pd.DataFrame(two_images, columns=CaptionedImages._fields),
            questions=Questions(
                image=options[:, 0],
                template=options[:, 1],
                true=options[:, 2],
                false=options[:, 3:],
                templates=tuple(self.templates),
            ),
            families=self.families,
            missing=missing,
        )


def _family_of_negative(negative: Negative) -> str:
    """The family of a negative's operator; the label itself if it is no operator."""
    if negative.family:
        return negative.family
    return OPERATORS[negative.label].family if negative.label in OPERATORS else negative.label


def only_adds(caption: str, negative: str) -> bool:
    """Whether a negative has all words of its caption in order, and more: "a dog" -> "a black dog on a couch"."""
    asserted = _bare_words(caption)
    longer = _bare_words(negative)
    # `in` reads an iterator up to the word that it finds, so that the words must come in the same order.
    rest = iter(longer)
    return len(asserted) < len(longer) and all(word in rest for word in asserted)


def _bare_words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation at their ends."""
    return [word.strip(".,;:!?\"'").lower() for word in text.split()]


def is_run(source: Path) -> bool:
    """Whether a source is a run, as opposed to a published set."""
    return source.is_dir() and has_table(source, "captions")


def _items_of_run(run: Path, config: ScoreConfig) -> Iterator[Published]:
    """The captions of a run with their negatives, and the questions about them, image by image."""
    table = "refined" if config.refined else "negatives"
    splits, operators = chosen_names(run, config.splits, config.operators, table)
    for shard in example_tables(run, operators, splits, table=table, per_operator=config.per_operator):
        # Image by image, so that the lists of images and texts (--lists) follow the order of the run.
        for rows in by_image(shard.dropna(subset="negative_id").itertuples()):
            for same_text in by_caption(rows):
                first = same_text[0]
                others = other_wordings(first)
                # The same choice as in what `negcap publish --format sugarcrepe++` writes.
                second = [record_rng(config.seed, "caption2", first.text_id).choice(others)] if others else []
                negatives = [Negative(row.negative, row.operator, row.family, not row.replaced) for row in same_text]
                yield CaptionWithNegatives(
                    first.image, (first.text, *second), tuple(negatives), image_id=first.image_id
                )
            for question in two_noun_questions(rows):
                image = NamedImage(question.true.image_id, question.true.image)
                yield MultipleChoice(image, question.true.text, question.false, question.template)


def _items_of_published(source: Path, config: ScoreConfig) -> list[Published]:
    """The items of a published folder or of one of its files, cut down to the splits and operators of the config."""
    items = [item for file in published_files(source, config.splits) for item in read_published(file)]
    if not items:
        of_split = f" of split {', '.join(config.splits)}" if config.splits else ""
        raise ValueError(f"{source} must be a run or a published set{of_split} ({PUBLISHED}), has no such file")
    # Checked against the labels of all items, so that a misspelled operator is an error.
    labels = [label for item in items for label in _labels_of_item(item)]
    check_operators(config.operators, labels, source)
    operators = frozenset(config.operators or labels)
    chosen = (_with_operators(item, operators, config.per_operator) for item in items)
    return [item for item in chosen if item is not None]


def _labels_of_item(item: Published) -> list[str]:
    """The operators of an item; a question has none."""
    match item:
        case CaptionWithNegatives():
            return [negative.label for negative in item.negatives]
        case TwoImages():
            return [item.label]
        case _:
            return []


def _with_operators(item: Published, operators: Collection[str], per_operator: int | None) -> Published | None:
    """An item with the negatives of these operators alone, the first few of each; None if nothing is left of it."""
    match item:
        case CaptionWithNegatives():
            kept: list[Negative] = []
            so_far: Counter[str] = Counter()
            for negative in item.negatives:
                # Counted by operator, so that the other chosen operators change nothing.
                so_far[negative.label] += 1
                if negative.label in operators and (per_operator is None or so_far[negative.label] <= per_operator):
                    kept.append(negative)
            return replace(item, negatives=tuple(kept)) if kept else None
        case TwoImages():
            return item if item.label in operators else None
        case MultipleChoice():
            return item if item.false else None
