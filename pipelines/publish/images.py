"""Formats that hold the images themselves.

- huggingface: `data/{operator}/{split}-00000-of-000NN.parquet`, a row per negative. The hub's viewer shows the configs
  in the card's head, one per operator and `default`, as a menu. With images, mteb reads the folder by the task file
  beside it.
- lmms-eval: Parquet files of questions, a YAML file per split and its functions: `lmms-eval --include_path DIR --tasks
  negcap_SPLIT` in the folder asks which caption is true.
- webdataset: `{split}-00000.tar`, a sample per caption, and `sizes.json` with their numbers.
- clip_benchmark: `{split}/0.tar`, a sample per image with its captions as lines of `.txt`, `{split}/nshards.txt` and
  `dataset_type.txt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files as resources
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from jinja2 import Template

from ...augment.reproducible import record_rng
from ..tables.examples import Row
from ..tables.pairs import MEASURES
from .layout import (
    EMBEDDED,
    FLOAT,
    IMAGE,
    Addition,
    Column,
    Files,
    FileSet,
    Format,
    Json,
    ParquetFiles,
    Publication,
    RecordSet,
    Rows,
    Tars,
)

SPLIT = Column("split", "the split", property="fullpath", regex=r"^.*/([^/]+)-\d+-of-\d+\.parquet$")
DEFAULT = "default"
HUB_SPLIT = re.compile(r"\w+(\.\w+)*")
NOT_IN_A_SPLIT = re.compile(r"\W")
# The hub's name for all splits together, which no split can have.
EVERY_SPLIT = "all"
PATH = Column("image", "the image's path, relative to the image folder")
MEASURED = {
    "p_true": "estimated probability that one more caption of the image would make it true, or null",
    "plausibility": "log-odds of the negative to the caption under a language model, in nats, or null",
    "p_unnatural": "estimated probability that a rater calls it unnatural, or null",
    "p_compatible": "estimated probability that a rater says that one photo could be described by both texts, or null",
    "concreteness": "concreteness of the inserted noun, or null",
}
COLUMNS = (
    Column("negative_id", "`<caption_id>#<operator>:<k>`"),
    Column("caption_id", "the caption that the negative was made of"),
    Column("text_id", "the true text: the caption_id or, of a denial that was made of the caption, its own"),
    Column("image_id", "the image"),
    PATH,
    Column("caption", "the true text: the caption, or the denial"),
    Column("negative_caption", "the negative caption"),
    Column("family", "family of the operator"),
    Column("operator", "the operator that made the negative"),
    Column("replaced", "what was replaced"),
    Column("replacement", "what replaced it"),
    *(Column(name, description, FLOAT) for name, description in MEASURED.items()),
)


def hub_splits(splits: Sequence[str]) -> dict[str, str]:
    """The distinct names that the hub allows for splits: words of letters, digits and underscores, dots between them.

    A name that is allowed stays as it is. In others (`val-1`) forbidden characters become `_` (`val_1`); if another
    split has that name already, a number is added (`val_1_2`).
    """
    # Names that are allowed come first, so that no changed name equals one of them.
    names = {split: split for split in splits if HUB_SPLIT.fullmatch(split) and split != EVERY_SPLIT}
    for split in splits:
        if split in names:
            continue
        allowed = ".".join(NOT_IN_A_SPLIT.sub("_", word) or "_" for word in split.split("."))
        name = allowed
        number = 1
        while name in names.values() or name == EVERY_SPLIT:
            number += 1
            name = f"{allowed}_{number}"
        names[split] = name
    return names


def hub_configs(splits: Mapping[str, Sequence[str]]) -> Json:
    """The field `configs` of the dataset card: all operators together, then each, with its splits."""
    all_splits = list(dict.fromkeys(split for splits_of_operator in splits.values() for split in splits_of_operator))
    configs: list[Json] = [{"config_name": DEFAULT, "default": True, "data_files": _hub_data_files("*", all_splits)}]
    for operator, splits_of_operator in splits.items():
        configs.append({"config_name": operator, "data_files": _hub_data_files(operator, splits_of_operator)})
    return {"configs": configs}


def _hub_data_files(folder: str, splits: Sequence[str]) -> list[Json]:
    """Where the hub finds the files of each split: `data/noun/test-*.parquet` for the folder `noun`."""
    return [{"split": split, "path": f"data/{folder}/{split}-*.parquet"} for split in splits]


def hub_columns(publication: Publication) -> tuple[Column, ...]:
    """The columns of format huggingface: the image is the file if images are published too, else its path."""
    return tuple(EMBEDDED if publication.config.copy_images and column is PATH else column for column in COLUMNS)


def hub_rows(publication: Publication) -> Rows:
    """`data/{operator}/{split}`: a row per negative."""
    for rows in publication.by_caption():
        embedded = picture(publication, rows[0]) if publication.config.copy_images else None
        for row in rows:
            cells = [
                *(row.negative_id, row.caption_id, row.text_id, row.image_id),
                embedded or publication.prefix + row.image,
                *(row.text, row.negative, row.family, row.operator, row.replaced, row.replacement),
                *(getattr(row, name) for name in MEASURED),
            ]
            yield Addition(f"data/{row.operator}/{publication.split_names[row.split]}", cells)


def picture(publication: Publication, row: Row) -> Json:
    """The image of a row as `datasets` reads it."""
    return {"bytes": publication.read(row), "path": row.image}


def finish_hub(publication: Publication, folder: Path, files: Files) -> list[RecordSet]:
    """Write mteb's task file if there are images; return a record set per operator. files: by `data/OPERATOR/SPLIT`."""
    if publication.config.copy_images:
        write_template(folder / "mteb_task.py", "mteb_task.py", splits=sorted({Path(name).name for name in files}))
    written = {Path(name).parent.name for name in files}
    columns = (*hub_columns(publication), SPLIT)
    return [
        RecordSet(name, f"negatives by {name} with their captions", columns, FileSet(f"data/{name}/*.parquet"))
        for name in publication.operators
        if name in written
    ]


def write_template(file: Path, name: str, **values: object) -> None:
    """Write a file of this package, with values in it."""
    text = resources(__package__).joinpath(f"{name}.jinja").read_text(encoding="utf-8")
    rendered = Template(text, keep_trailing_newline=True).render(values)
    file.write_text(rendered, encoding="utf-8", newline="\n")


LETTERS = "ABCD"
QUESTION = "Which caption describes the image?"
QUESTIONS = (
    Column("question_id", "`<text_id>#<operator>`; text_id: the caption_id, or the id of a denial made of the caption"),
    EMBEDDED,
    Column("question", "the question with its options, as it is asked"),
    Column("answer", "the letter of the true caption"),
    Column("operator", "the operator that made the other options"),
    Column("family", "the family of the operator"),
)


def question_rows(publication: Publication) -> Rows:
    """`data/{split}`: per caption and operator the caption and at most three other negatives, in random order."""
    seed = publication.config.seed
    for rows in publication.by_caption():
        caption = rows[0]
        image = picture(publication, caption)
        for (operator, family), group in groupby(rows, key=lambda row: (row.operator, row.family)):
            # Each text once, and never the caption's own: else two letters would be right.
            false = [text for text in dict.fromkeys(row.negative for row in group) if text != caption.text]
            options = [caption.text, *false[: len(LETTERS) - 1]]
            question_id = f"{caption.text_id}#{operator}"
            record_rng(seed, "options", question_id).shuffle(options)
            lines = [f"{letter}. {text}" for letter, text in zip(LETTERS, options, strict=False)]
            asked = "\n".join([QUESTION, *lines, "Answer with the letter only."])
            answer = LETTERS[options.index(caption.text)]
            cells = [question_id, image, asked, answer, operator, family]
            yield Addition(f"data/{publication.split_names[caption.split]}", cells)


def finish_questions(publication: Publication, folder: Path, files: Files) -> list[RecordSet]:
    """Write a task for each split, and their functions; return the record set of all questions. files: `data/SPLIT`."""
    for split in (Path(path).name for path in files):
        write_template(folder / f"negcap_{split}.yaml", "lmms_eval.yaml", split=split)
    write_template(folder / "utils.py", "lmms_eval.py")
    return [RecordSet("questions", "questions about images", (*QUESTIONS, SPLIT), FileSet("data/*.parquet"))]


KEY = Column("key", "number of the sample, the same for all its members", property="filename", regex=r"(\d+)\.")


class MemberContent(NamedTuple):
    """What the members with one suffix hold, in all samples: the name of their record set, and their content."""

    name: str
    content: Column


Members = Mapping[str, MemberContent]  # by suffix
MEMBERS: Members = {
    ".txt": MemberContent("captions", Column("caption", "the true caption", property="content")),
    ".neg.json": MemberContent(
        "negatives", Column("negatives", "the negatives of the caption, as JSON", property="content")
    ),
}
CAPTIONS: Members = {
    ".txt": MemberContent("captions", Column("captions", "the captions of the image, one a line", property="content"))
}


def caption_samples(publication: Publication) -> Rows:
    """`{split}-{}.tar`: a sample per caption."""
    for rows in publication.by_caption():
        first = rows[0]
        described = {
            "caption_id": first.caption_id,
            "text_id": first.text_id,
            "image_id": first.image_id,
            "image": first.image,
            "negatives": [_described_negative(row) for row in rows],
        }
        json_of_negatives = json.dumps(described, ensure_ascii=False)
        texts = {".txt": first.text.encode(), ".neg.json": json_of_negatives.encode()}
        yield Addition(f"{first.split}-{{:05d}}.tar", _image_member(publication, first) | texts)


def _described_negative(row: Row) -> Json:
    """A negative in the JSON member of its caption's sample, with what was replaced and how it is measured."""
    negative = {"negative_id": row.negative_id, "operator": row.operator, "family": row.family, "text": row.negative}
    negative |= {"replaced": row.replaced, "replacement": row.replacement}
    return negative | {name: getattr(row, name) for name in MEASURES}


def finish_captions(publication: Publication, folder: Path, files: Mapping[str, Tars]) -> list[RecordSet]:
    """Write sizes.json, the number of samples in each tar file, by which OpenCLIP knows the length of an epoch; returns
    the record sets of the archives. files: by `{split}-{}.tar`.
    """
    sizes = {name: size for tars in files.values() for name, size in tars.sizes.items()}
    (folder / "sizes.json").write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")
    records = []
    for name, tars in files.items():
        records += _records_of_archives(name.rpartition("-")[0], tars.suffixes, list(tars.sizes), MEMBERS)
    return records


def image_samples(publication: Publication) -> Rows:
    """`{split}/{}.tar`: a sample per image and split."""
    for rows in publication.by_image():
        for split in dict.fromkeys(row.split for row in rows):
            # A caption is a line of the sample's text, so that it must not have line breaks itself.
            texts = [" ".join(row.text.split()) for row in rows if row.split == split]
            captions = {".txt": "\n".join(texts).encode()}
            yield Addition(f"{split}/{{}}.tar", captions | _image_member(publication, rows[0]))


def finish_images(publication: Publication, folder: Path, files: Mapping[str, Tars]) -> list[RecordSet]:
    """Write the type of the data set and each split's number of tar files; returns the record sets of the tar files.
    files: the tar files of each split, by `{split}/{}.tar`.
    """
    (folder / "dataset_type.txt").write_text("retrieval\n", encoding="utf-8")
    records = []
    for name, tars in files.items():
        (folder / name).with_name("nshards.txt").write_text(f"{len(tars.sizes)}\n", encoding="utf-8")
        split = name.partition("/")[0]
        records += _records_of_archives(split, tars.suffixes, [f"{split}/{tar}" for tar in tars.sizes], CAPTIONS)
    return records


def _image_member(publication: Publication, row: Row) -> dict[str, bytes]:
    """The bytes of a row's image file, by the suffix of its member in the archive; JPEGs are all called `.jpg`."""
    # a name without a suffix is a JPEG's: readers choose their decoder by the suffix
    suffix = PurePosixPath(row.image).suffix.lower()
    if suffix in (".jpeg", ""):
        suffix = ".jpg"
    return {suffix: publication.read(row)}


def _records_of_archives(
    split: str, suffixes: Iterable[str], archives: Sequence[str], members: Members
) -> list[RecordSet]:
    """A record set per kind of archive member: Croissant readers handle one each.

    Args:
        split: of the samples.
        suffixes: of all members that occur.
        archives: the paths of the tar files.
        members: what those hold that are not images.
    """
    records = []
    for suffix in sorted(suffixes):
        picture = MemberContent(f"images-{suffix[1:]}", Column("image", "the image", IMAGE, property="content"))
        name, column = members.get(suffix, picture)
        files = FileSet(f"*{suffix}", tuple(archives))
        records.append(RecordSet(f"{split}-{name}", f"{name} of the samples", (KEY, column), files))
    return records


WEBDATASET = Format(
    caption_samples,
    lambda path, _: Tars(path),
    "WebDataset, tar shards of 5,000 captions",
    "`webdataset.WebDataset('$split-00000.tar', shardshuffle=False).decode('pil')` gives samples with `jpg`, `txt` "
    "and `neg.json`; `neg.json` has the negatives of the caption with what was replaced.",
    finish=finish_captions,
    images="files",
    embeds=True,
    training=True,
)
HUGGINGFACE = Format(
    hub_rows,
    lambda stem, publication: ParquetFiles(stem, hub_columns(publication)),
    "Parquet files for the Hugging Face hub, one row per negative",
    "`datasets.load_dataset('path/of/this/folder', '$operator', split='$split')` loads the negatives of one "
    "operator, `load_dataset('path/of/this/folder', split='$split')` those of all operators.",
    finish=finish_hub,
    embeds=True,
    card_fields=hub_configs,
    name_splits=hub_splits,
)
CLIP_BENCHMARK = Format(
    image_samples,
    lambda path, _: Tars(path),
    "WebDataset for CLIP_benchmark's retrieval, one sample per image, true captions only",
    "`clip_benchmark eval --dataset wds/this --dataset_root path/of/this/folder --split $split "
    "--task zeroshot_retrieval`.",
    finish=finish_images,
    negatives=False,
    images="files",
    prepare=lambda rows: rows,
    embeds=True,
)
LMMS_EVAL = Format(
    question_rows,
    lambda stem, _: ParquetFiles(stem, QUESTIONS),
    "A task of lmms-eval, multiple choice with images",
    "In this folder: `python -m lmms_eval --include_path . --tasks negcap_$split --model NAME`.",
    finish=finish_questions,
    name_splits=hub_splits,
    per_operator=1,
    images="files",
    embeds=True,
)
