"""What models are scored on, of a run or of a published set: `negcap publish`'s, COCO's, NegBench's, Winoground's …"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
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
from ..readers.pairs import BESIDE, Foreign, NoColumnError, read_pairs
from ..readers.record import Rejected
from ..tables.columns import check_operators
from ..tables.examples import by_caption, by_image, chosen_names, example_tables, other_wordings, questions
from ..tables.images import Images, abbreviate

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"  # the group of all cases
NONE = -1  # of an index: there is no such text
KINDS = "SugarCrepe, ARO, CREPE, NegCLIP, VALSE, COCO, NegBench, Parquet …, or Winoground's examples.jsonl"
# What a text is of its item: a caption, another one of the image, a negative of the first; the true option of a
# question, a false one; a caption of one of two images, false of the other.
CAPTION = "caption"
SECOND = "second"
NEGATIVE = "negative"
TRUE = "true"
FALSE = "false"
OF_TWO = "of two"
WRONG = (NEGATIVE, FALSE, OF_TWO)


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


class Row(NamedTuple):
    """A text of an item. role: see above. label: operator or template. adds: a negative only adds to its caption."""

    image_id: str
    file: Path | None
    role: str
    text: str
    label: str = ""
    family: str = ""
    adds: bool = False


Items = Iterator[list[Row]]  # the texts of a caption and its negatives, a question, or two images


@dataclass(frozen=True)
class TestSet:
    """I images and N distinct texts, given by index. captions: (C, 2) image and true text; every image has one. pairs:
    a row each: image, true, false, second (another true text or NONE), operator (index), first (the first draw of its
    caption and operator), adds. quads: first, second (images), said, other (their texts), operator. questions: (M, 1 +
    options) image, true text and false ones, NONE for none; template: (M,) into `templates`. families: by operator.
    missing: images left out without a file.
    """

    __test__ = False  # for pytest

    image_ids: tuple[str, ...]
    files: tuple[Path | None, ...]
    texts: tuple[str, ...]
    captions: np.ndarray
    pairs: pd.DataFrame
    quads: pd.DataFrame
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


def read_test_set(source: Path, config: ScoreConfig) -> TestSet:
    """What a model is scored on, of a run or a published set. Raises FileNotFoundError without negatives, or for
    missing image files (unless `skip_missing`); ValueError for an unknown split or operator, a set without a file in a
    known format or with a damaged one, and what `chosen_names` raises.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such run or published set")
    import pandas as pd

    rows = table(_of_run(source, config)) if is_run(source) else _of_published(source, config)
    shown = rows.drop_duplicates("image_id")
    missing = list[str]()
    files: dict[str, Path | None] = dict.fromkeys(shown["image_id"].tolist())
    if config.images is not None:
        images = Images(config.images)
        for image, file in zip(shown["image_id"].tolist(), map(str, shown["file"]), strict=True):
            name = images.find(file)
            if name is None:
                missing.append(file)
                del files[image]
            else:
                files[image] = images.folder / name
        if missing and not config.skip_missing:
            raise FileNotFoundError(
                f"{number_of(len(missing), 'image')} missing from {config.images}: {abbreviate(missing)}; --set "
                "skip_missing=true leaves their captions out"
            )
        rows = rows[~rows["item"].isin(rows["item"][~rows["image_id"].isin(files)])]
    found = pd.Series([files[image] for image in rows["image_id"]], rows.index, object)
    return build(rows.assign(file=found), len(missing))


def table(items: Items) -> pd.DataFrame:
    """The rows of items, with the number of the item of each as the column `item`."""
    import pandas as pd

    columns = ["item", *Row._fields]
    return pd.DataFrame([(number, *row) for number, item in enumerate(items) for row in item], columns=columns)


def build(rows: pd.DataFrame, missing: int = 0) -> TestSet:
    """The test set of rows as of `table`: distinct images and texts, and indices into both. ValueError: no negative."""
    import pandas as pd

    if not rows["role"].isin(WRONG).any():
        raise ValueError("there is no negative to score a model on")
    named = rows["role"].isin([NEGATIVE, OF_TWO])
    operators = rows[named].drop_duplicates("label")
    families = dict(zip(operators["label"].tolist(), operators["family"].tolist(), strict=True))
    texts = pd.factorize(rows["text"])
    operator = pd.factorize(rows["label"].where(named))[0]
    image, image_ids = pd.factorize(rows["image_id"])
    files = tuple(rows.drop_duplicates("image_id")["file"])
    rows = rows.assign(image=image, text=texts[0], operator=operator)
    caption, second, negative, true, false, two = (
        rows[rows["role"] == role] for role in (CAPTION, SECOND, NEGATIVE, TRUE, FALSE, OF_TWO)
    )
    one = two.iloc[::2].reset_index()
    other = two.iloc[1::2].reset_index()
    options = false.assign(place=false.groupby("item").cumcount()).pivot(index="item", columns="place", values="text")
    template, templates = pd.factorize(true["label"])
    first, seconds = (negative["item"].map(some.set_index("item")["text"]) for some in (caption, second))
    pairs = negative[["image", "operator"]].assign(
        true=first.astype(int), false=negative["text"], second=seconds.fillna(NONE).astype(int)
    )
    pairs = pairs.assign(first=~negative.duplicated(["item", "operator"]), adds=negative["adds"].astype(bool))
    return TestSet(
        image_ids=tuple(image_ids),
        files=files,
        texts=tuple(texts[1]),
        captions=rows[~rows["role"].isin([NEGATIVE, FALSE])][["image", "text"]].drop_duplicates().to_numpy(),
        pairs=pairs.reset_index(drop=True),
        quads=pd.DataFrame(
            {"first": one["image"], "second": other["image"], "said": one["text"], "other": other["text"]}
        ).assign(operator=one["operator"]),
        operators=tuple(families),
        families={name: family or name for name, family in families.items()},
        questions=np.column_stack([true[["image", "text"]], options.reindex(true["item"]).fillna(NONE)]).astype(int),
        template=template,
        templates=tuple(templates),
        missing=missing,
    )


def is_run(source: Path) -> bool:
    """Whether a source is a run, as opposed to a published set."""
    return source.is_dir() and has_table(source, "captions")


def _of_run(run: Path, config: ScoreConfig) -> Items:
    table = "refined" if config.refined else "negatives"
    splits, operators = chosen_names(run, config.splits, config.operators, table)
    for shard in example_tables(run, operators, splits, table=table, per_operator=config.per_operator):
        shard["file"] = shard["image"].map(Path)
        for rows in by_image(shard.dropna(subset="negative_id").itertuples()):
            for some in by_caption(rows):
                true = some[0]
                others = other_wordings(some[0])  # of which one is chosen as format sugarcrepe++ does
                image = true.image_id, true.file
                second = [record_rng(config.seed, "caption2", true.text_id).choice(others)] if others else []
                texts = [Row(*image, CAPTION, true.text), *(Row(*image, SECOND, text) for text in second)]
                yield texts + [
                    Row(*image, NEGATIVE, row.negative, row.operator, row.family, not row.replaced) for row in some
                ]
            for true, false, template in questions(rows):
                options = ((TRUE, true.text), *((FALSE, text) for text in false))
                yield [Row(true.image_id, true.file, role, text, template) for role, text in options]


def _of_published(source: Path, config: ScoreConfig) -> pd.DataFrame:
    """The rows of a published folder, or of one file of it; splits are folders or files, operators too, or columns."""
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if _is_data(path, source))
    wanted = [file for file in files if not config.splits or set(config.splits) & _split_names(file, source)]
    rows = table(item for file in wanted for item in _read(file))
    if not len(rows):
        of = f" of split {', '.join(config.splits)}" if config.splits else ""
        raise ValueError(f"{source} must be a run or a published set{of} ({KINDS}), has no such file")
    named = rows["role"].isin([NEGATIVE, OF_TWO])
    check_operators(config.operators, rows["label"][named], source)
    kept = ~named | rows["label"].isin(config.operators or rows["label"])
    if config.per_operator is not None:
        kept &= (rows["role"] != NEGATIVE) | (rows.groupby(["item", "role", "label"]).cumcount() < config.per_operator)
    rows = rows[kept]
    return rows[rows["item"].isin(rows["item"][rows["role"].isin(WRONG)])]


def _is_data(path: Path, source: Path) -> bool:
    inside = path.relative_to(source).parts
    hidden = any(part.startswith((".", "_")) for part in inside) or inside[0] == "images"
    return path.is_file() and not hidden and path.name not in BESIDE and path.suffix in READERS


def _split_names(file: Path, source: Path) -> set[str]:
    """The names that may be the split of a file: of its folders, its own, and the parts of its own."""
    parts = set(file.relative_to(source).parts[:-1]) if file != source else set()
    return parts | {file.stem} | set(file.stem.split("-")[:1]) | {file.stem.removeprefix("captions_")}


def _read(file: Path) -> Items:
    try:
        yield from READERS[file.suffix](file)
    except NoColumnError:  # another file of a folder, without captions and negatives
        return
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{file}: must be a published set ({KINDS}), cannot be read: {error!r:.120}") from error


def _image(path: str) -> tuple[str, Path]:
    return Path(path).stem, Path(path)


def _captioned(image: tuple[str, Path], true: Sequence[str], false: Iterable[tuple[str, str]]) -> list[Row]:
    """The item of a caption, perhaps with another one, and (text, operator) of its negatives."""
    families = {name: operator.family for name, operator in OPERATORS.items()}
    return [Row(*image, role, text) for role, text in zip((CAPTION, SECOND), true, strict=False)] + [
        Row(*image, NEGATIVE, text, name, families.get(name, name), only_adds(true[0], text)) for text, name in false
    ]


def only_adds(caption: str, negative: str) -> bool:
    """Whether a negative has all words of its caption in order, and more: "a dog" -> "a black dog on a couch"."""
    said, longer = ([word.strip(".,;:!?\"'").lower() for word in text.split()] for text in (caption, negative))
    words = iter(longer)
    return len(said) < len(longer) and all(word in words for word in said)


def _pairs(file: Path) -> Items:
    """The records of one file, those of one caption that follow each other as one item."""

    def read() -> Iterator[Foreign]:
        for record in read_pairs(str(file)):
            if isinstance(record, Rejected):
                raise ValueError(f"record {record.line}: {record.detail}")
            yield record

    for (image, _), some in groupby(read(), lambda record: (record.image, record.captions[0])):
        if image is None:
            raise ValueError("a record must name its image")
        path = image.removeprefix("images/") if Path(image).suffix else f"{image}.jpg"  # a number in CREPE
        records = [*some]
        false = [
            (text, ALL if record.split and label == file.stem else label)  # as in NegCLIP's files of splits
            for record in records
            for text, label in record.negatives
        ]
        yield _captioned(_image(path), records[-1].captions[:2], false)


def _csv(file: Path) -> Items:
    """NegBench's multiple choice; other files as `_pairs`."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if "correct_answer" not in (rows.fieldnames or ()):
            yield from _pairs(file)
            return
        for row in rows:
            options = [row[name] for name in row if name.startswith("caption_")]
            true = int(row["correct_answer"])
            template = row.get("correct_answer_template") or ALL
            made = [Row(*_image(row["image_path"]), FALSE, text, template) for text in options]
            yield [made.pop(true)._replace(role=TRUE), *made]


def _jsonl(file: Path) -> Items:
    """Winoground, `{"image_0", "image_1", "caption_0", "caption_1", "tag"}` a line; other files as `_pairs`."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "caption_1" not in row or "image_1" not in row:
                yield from _pairs(file)
                return
            operator = row.get("operator") or row.get("tag") or ALL
            yield [Row(*_image(row[f"image_{n}"]), OF_TWO, row[f"caption_{n}"], operator) for n in (0, 1)]


READERS: dict[str, Callable[[Path], Items]] = {
    ".json": _pairs,
    ".csv": _csv,
    ".tsv": _pairs,
    ".parquet": _pairs,
    ".jsonl": _jsonl,
}
