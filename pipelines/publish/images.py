"""Formats that hold the images themselves. huggingface: `data/{operator}/{split}-00000-of-000NN.parquet`, a row per
negative; the hub's viewer shows the configs in the card's head, one per operator and `default`, as a menu; with images,
mteb reads the folder by the task file beside it. lmms-eval: Parquet files of questions, a YAML file per split and its
functions: `lmms-eval --include_path DIR --tasks negcap_SPLIT` in the folder asks which caption is true. webdataset:
`{split}-00000.tar`, a sample per caption, and `sizes.json` with their numbers. clip_benchmark: `{split}/0.tar`, a
sample per image with its captions as lines of `.txt`, `{split}/nshards.txt` and `dataset_type.txt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files as resources
from itertools import count, groupby
from pathlib import Path, PurePosixPath
from typing import Any

from jinja2 import Template

from ...augment.reproducible import record_rng
from ..tables.examples import Row
from ..tables.pairs import MEASURES
from .layout import EMBEDDED, FLOAT, IMAGE, Column, FileSet, Format, ParquetFiles, Publication, RecordSet, Rows, Tars

SPLIT = Column("split", "the split", property="fullpath", regex=r"^.*/([^/]+)-\d+-of-\d+\.parquet$")
DEFAULT = "default"
HUB_SPLIT = re.compile(r"\w+(\.\w+)*")
NOT_IN_A_SPLIT = re.compile(r"\W")
EVERY_SPLIT = "all"  # of the hub, whatever the splits are called
PATH = Column("image", "the image's path, relative to the image folder")
MEASURED = {
    "p_true": "estimated probability that one more caption of the image would make it true, or null",
    "plausibility": "log-odds of the negative to the caption under a language model, in nats, or null",
    "p_unnatural": "estimated probability that a reader calls it odd, or null",
    "p_compatible": "estimated probability that a reader says that one photo could be described by both texts, or null",
    "concreteness": "concreteness of the noun that was put in, or null",
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

    A name that is allowed stays as it is. In others (`val-1`) what is not allowed becomes `_` (`val_1`), and a number
    is added to one that is taken then (`val_1_2`).
    """
    names = {split: split for split in splits if HUB_SPLIT.fullmatch(split) and split != EVERY_SPLIT}
    for split in splits:
        if split not in names:
            words = (NOT_IN_A_SPLIT.sub("_", word) or "_" for word in split.split("."))
            name = ".".join(words)
            tried = (name if number == 1 else f"{name}_{number}" for number in count(1))
            names[split] = next(each for each in tried if each not in {*names.values(), EVERY_SPLIT})
    return names


def hub_configs(splits: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The field `configs` of the dataset card: all operators together, then each, with its splits."""
    together = list(dict.fromkeys(split for some in splits.values() for split in some))
    configs = {DEFAULT: ("*", together)} | {name: (name, some) for name, some in splits.items()}
    made = []
    for name, (folder, some) in configs.items():
        files = [{"split": split, "path": f"data/{folder}/{split}-*.parquet"} for split in some]
        made.append({"config_name": name, **({"default": True} if name == DEFAULT else {}), "data_files": files})
    return {"configs": made}


def hub_columns(publication: Publication) -> tuple[Column, ...]:
    """The columns of format huggingface: the image is the file if images are published too, else its path."""
    return tuple(EMBEDDED if publication.config.copy_images and column is PATH else column for column in COLUMNS)


def hub_rows(publication: Publication) -> Rows:
    """`data/{operator}/{split}`: a row per negative."""
    for rows in publication.by_caption():
        embedded = picture(publication, rows[0]) if publication.config.copy_images else None
        for row in rows:
            keys = (row.negative_id, row.caption_id, row.text_id, row.image_id)
            image = embedded or publication.prefix + row.image
            change = (row.text, row.negative, row.family, row.operator, row.replaced, row.replacement)
            measures = (getattr(row, name) for name in MEASURES)
            yield f"data/{row.operator}/{publication.split_names[row.split]}", (*keys, image, *change, *measures)


def picture(publication: Publication, row: Row) -> dict[str, Any]:
    """The image of a row as `datasets` reads it."""
    return {"bytes": publication.read(row), "path": row.image}


def finish_hub(publication: Publication, folder: Path, files: Mapping[str, Any]) -> list[RecordSet]:
    """Write mteb's task file if there are images; one record set per operator."""
    if publication.config.copy_images:
        write_template(folder / "mteb_task.py", "mteb_task.py", splits=sorted({Path(name).name for name in files}))
    made = {Path(name).parent.name for name in files}
    columns = (*hub_columns(publication), SPLIT)
    return [
        RecordSet(name, f"negatives by {name} with their captions", columns, FileSet(f"data/{name}/*.parquet"))
        for name in publication.operators
        if name in made
    ]


def write_template(file: Path, name: str, **values: Any) -> None:
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
        image = picture(publication, rows[0])
        for (operator, family), some in groupby(rows, key=lambda row: (row.operator, row.family)):
            wrong = [text for text in dict.fromkeys(row.negative for row in some) if text != caption.text]
            texts = [caption.text, *wrong[: len(LETTERS) - 1]]
            question_id = f"{caption.text_id}#{operator}"
            record_rng(seed, "options", question_id).shuffle(texts)
            options = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, texts, strict=False))
            asked = f"{QUESTION}\n{options}\nAnswer with the letter only."
            answer = LETTERS[texts.index(caption.text)]
            yield (
                f"data/{publication.split_names[caption.split]}",
                (question_id, image, asked, answer, operator, family),
            )


def finish_questions(publication: Publication, folder: Path, files: Mapping[str, Any]) -> list[RecordSet]:
    """Write `negcap_{split}.yaml` and `utils.py`; one record set."""
    for split in (Path(name).name for name in files):
        write_template(folder / f"negcap_{split}.yaml", "lmms_eval.yaml", split=split)
    write_template(folder / "utils.py", "lmms_eval.py")
    return [RecordSet("questions", "questions about images", (*QUESTIONS, SPLIT), FileSet("data/*.parquet"))]


KEY = Column("key", "number of the sample, the same for all its members", property="filename", regex=r"(\d+)\.")
MEMBERS = {  # by suffix of a sample's members: the name of their record set, and their content
    ".txt": ("captions", Column("caption", "the true caption", property="content")),
    ".neg.json": ("negatives", Column("negatives", "the negatives of the caption, as JSON", property="content")),
}
CAPTIONS = {".txt": ("captions", Column("captions", "the captions of the image, one a line", property="content"))}


def caption_samples(publication: Publication) -> Rows:
    """`{split}-{}.tar`: a sample per caption."""
    of_negative = ("negative_id", "operator", "family", "negative", "replaced", "replacement", *MEASURES)
    for rows in publication.by_caption():
        keys = {name: getattr(rows[0], name) for name in ("caption_id", "text_id", "image_id", "image")}
        made = [{"text" if name == "negative" else name: getattr(row, name) for name in of_negative} for row in rows]
        negatives = json.dumps({**keys, "negatives": made}, ensure_ascii=False)
        texts = {".txt": rows[0].text.encode(), ".neg.json": negatives.encode()}
        yield f"{rows[0].split}-{{:05d}}.tar", _image_member(publication, rows[0]) | texts


def finish_captions(publication: Publication, folder: Path, files: Mapping[str, Tars]) -> list[RecordSet]:
    """Write the number of samples by tar file, by which OpenCLIP knows the length of an epoch."""
    sizes = {name: size for tars in files.values() for name, size in tars.sizes.items()}
    (folder / "sizes.json").write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")
    return [record for name, tars in files.items() for record in _records(name.rpartition("-")[0], tars, MEMBERS)]


def image_samples(publication: Publication) -> Rows:
    """`{split}/{}.tar`: a sample per image and split."""
    for rows in publication.by_image():
        for split in dict.fromkeys(row.split for row in rows):
            texts = [" ".join(row.text.split()) for row in rows if row.split == split]
            captions = {".txt": "\n".join(texts).encode()}
            yield f"{split}/{{}}.tar", captions | _image_member(publication, rows[0])


def finish_images(publication: Publication, folder: Path, files: Mapping[str, Tars]) -> list[RecordSet]:
    """Write the two small files that describe the tar files."""
    (folder / "dataset_type.txt").write_text("retrieval\n", encoding="utf-8")
    for name, tars in files.items():
        (folder / name).with_name("nshards.txt").write_text(f"{len(tars.sizes)}\n", encoding="utf-8")
    return [
        record
        for name, tars in files.items()
        for record in _records(name.partition("/")[0], tars, CAPTIONS, inside=True)
    ]


def _image_member(publication: Publication, row: Row) -> dict[str, bytes]:
    suffix = PurePosixPath(row.image).suffix.lower()
    return {{".jpeg": ".jpg", "": ".jpg"}.get(suffix, suffix): publication.read(row)}


def _records(
    split: str, tars: Tars, members: Mapping[str, tuple[str, Column]], inside: bool = False
) -> list[RecordSet]:
    """A record set per kind of archive member: Croissant readers handle one each. inside: archives are in a folder."""
    archives = tuple(f"{split}/{name}" if inside else name for name in tars.sizes)
    found = []
    for suffix in sorted(tars.suffixes):
        picture = (f"images-{suffix[1:]}", Column("image", "the image", IMAGE, property="content"))
        name, column = members.get(suffix, picture)
        files = FileSet(f"*{suffix}", archives)
        found.append(RecordSet(f"{split}-{name}", f"{name} of the samples", (KEY, column), files))
    return found


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
