"""The formats that `negcap publish` writes, by name.

- sugarcrepe: Hsieh et al. 2023. https://github.com/RAIVNLab/sugar-crepe and CLIP_benchmark expect keys that count from
  "0".
- sugarcrepe++: Dumpala et al. 2024. The second true caption is another of the image.
- aro: Yuksekgonul et al. 2023. VG_Relation and VG_Attribution of
  https://github.com/mertyg/vision-language-models-are-bows crop images to the box, and group rows by `relation_name` or
  the two `attributes`.
- vse-c: Shi et al. 2018, in the "precomp" layout of VSE++: five lines per image, in the order of the features.
  https://github.com/ExplorerFreda/VSE-C opens `{split}_ex/{i}.txt` for every line i, in training and evaluation, so
  there is a file per caption, maybe empty.
- negbench: questions about two nouns if the run has denials (`negcap.pipelines.tables.examples`); of other captions two
  negatives and both together.
- valse: Parcalabescu et al. 2022. Its readers keep pairs of which two of three voters in `mturk` said that only the
  caption describes the image.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import combinations
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from ...augment.reproducible import record_rng
from ...schemas.messages import word
from ..quality.annotation import find_key, read_key, read_sheets
from ..tables.examples import (
    OPTIONS,
    POSITIVE,
    NegBenchQuestion,
    Row,
    by_caption,
    by_image,
    negatives_of,
    other_wordings,
    two_noun_questions,
)
from ..tables.pairs import MEASURES, NEGATION
from .images import CLIP_BENCHMARK, HUGGINGFACE, LMMS_EVAL, WEBDATASET
from .layout import (
    FLOAT,
    INTEGER,
    TEXT,
    Addition,
    Column,
    Files,
    FileSet,
    Format,
    Json,
    JsonFile,
    Keyed,
    LinesFile,
    Publication,
    PublishOptions,
    RecordSet,
    Rows,
    TableFile,
    with_negatives,
)
from .negclip import NEGCLIP
from .snli import SNLI

if TYPE_CHECKING:
    import pandas as pd


def _with_paths(root: str, *columns: Column) -> tuple[Column, ...]:
    """Columns with their JSON paths: `caption` below the root `$[*]`, a list of objects, is at `$[*].caption`."""
    return tuple(column._replace(path=f"{root}.{column.name}") for column in columns)


IMAGE_FILE = "the image, relative to the image folder"
# By operator, the part of SugarCrepe that it is like. A negative that only adds to its caption is in `add_…` instead.
PARTS = {
    "noun": "replace_obj",
    "object": "replace_obj",
    "attribute": "replace_att",
    "relation": "replace_rel",
    "verb": "replace_rel",
    "preposition": "replace_rel",
    "shuffle": "swap_obj",
    "swap_attribute": "swap_att",
    # operators that are recognised in negatives that others made
    **{f"replace_{kind}": "replace_rel" for kind in ("preposition", "verb")},
    **{f"replace_{kind}": "replace_att" for kind in ("attribute", "numeral")},
    "replace_noun": "replace_obj",
    "swap": "swap_obj",
    "add": "add_obj",
}


def file_of(publication: Publication, row: Row) -> str:
    """The file for a row, named by its operator or, with SugarCrepe's names, by the part of SugarCrepe like it."""
    name = row.operator
    if publication.config.names == "sugarcrepe":
        name = PARTS.get(name, name)
        # Nothing was replaced: the negative only adds to its caption, as in SugarCrepe's files `add_…`.
        if not row.replaced:
            name = name.replace("replace_obj", "add_obj").replace("replace_att", "add_att")
    return publication.file(row.split, f"{name}.json")


def sugarcrepe_rows(publication: Publication) -> Rows:
    """`{operator}.json`: `{"0": {"filename", "caption", "negative_caption"}}`."""
    # The keys count the rows of a file from "0": SugarCrepe's readers expect that.
    written = Counter[str]()
    for row in publication.rows():
        file = file_of(publication, row)
        pair = {"filename": row.image, "caption": row.text, "negative_caption": row.negative}
        yield Addition(file, Keyed(str(written[file]), pair))
        written[file] += 1


def sugarcrepe_pp_rows(publication: Publication) -> Rows:
    """`{operator}.json`: a list of `{"id", "filename", "caption", "caption2", "negative_caption"}`."""
    written = Counter[str]()
    for row in publication.rows():
        file = file_of(publication, row)
        # Chosen by the caption's id alone, so that all its negatives are shown with the same second caption.
        second = record_rng(publication.config.seed, "caption2", row.text_id).choice(other_wordings(row))
        texts = {"caption": row.text, "caption2": second, "negative_caption": row.negative}
        yield Addition(file, {"id": written[file], "filename": row.image, **texts})
        written[file] += 1


def with_another(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a negative, and whose image has another caption with a different text."""
    kept = with_negatives(rows)
    return kept.loc[[bool(other_wordings(row)) for row in kept.itertuples()]]


def aro_rows(publication: Publication) -> Rows:
    """`{operator}.json`: a list of rows with `image_path`, a box, `true_caption` and `false_caption`.

    The box is the region that a caption describes, or the whole image. ARO's readers group by `relation_name` or by
    `attributes`, so every row has both, whatever its operator changed.
    """
    for row in publication.rows():
        box = dict(zip(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), publication.box(row), strict=True))
        texts = {"true_caption": row.text, "false_caption": row.negative, "relation_name": row.replaced}
        pair = {"image_path": row.image, **box, **texts, "attributes": [row.replaced, row.replacement]}
        yield Addition(publication.file(row.split, f"{row.operator}.json"), pair)


def negbench_rows(publication: Publication) -> Rows:
    """`{split}.csv`: a row per caption with three false options."""
    for rows in publication.by_image():
        for true, false, template in _one_question_per_caption(rows):
            options = [true.text, *false]
            record_rng(publication.config.seed, "options", true.text_id).shuffle(options)
            cells = [publication.prefix + true.image, *options, options.index(true.text), template]
            yield Addition(f"{true.split}.csv", cells)


def in_questions(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows (each a caption with a negative) whose negative becomes an option of a NegBench question."""
    options = set[tuple[str, str]]()  # (caption_id, text of an option)
    for rows_of_image in by_image(with_negatives(rows).itertuples()):
        for question in _one_question_per_caption(rows_of_image):
            options.update((question.true.caption_id, text) for text in question.false)
    is_option = [pair in options for pair in zip(rows["caption_id"], rows["negative"], strict=True)]
    return rows[np.array(is_option, bool)]


def _one_question_per_caption(rows: list[Row]) -> Iterator[NegBenchQuestion]:
    """The questions about the captions of an image, at most one each; those about two nouns first."""
    captions_asked = set[str]()  # the caption_ids of those that have a question
    for question in two_noun_questions(rows):
        captions_asked.add(question.true.caption_id)
        yield question
    for rows_of_caption in by_caption(rows):
        true = rows_of_caption[0]
        # Only captions are asked about here, no denials made of them, which have a text_id of their own.
        if true.text_id == true.caption_id and true.caption_id not in captions_asked:
            yield from _question_of_two_changes(rows_of_caption)


def _question_of_two_changes(rows: Sequence[Row]) -> Iterator[NegBenchQuestion]:
    """The question about a caption, from its rows; none if its negatives do not change two places.

    Two false options are negatives that change different places of the caption, and the third has both changes. (If all
    three had one change each, the caption would be the option that is most like the others, which gives it away.)
    """
    true = rows[0]
    negatives = sorted({row.negative for row in rows if row.operator != NEGATION} - {true.text})
    # One change of each place (start, end) in the caption. Their order is random, so that no operator is preferred.
    changes: dict[tuple[int, int], Change] = {}
    for text in record_rng(0, "false options", true.caption_id).sample(negatives, len(negatives)):
        change = find_change(true.text, text)
        changes.setdefault((change.start, change.end), change)
    true_word_bags = {_word_bag(text) for text in (true.text, *true.siblings)}
    for pair in combinations(changes.values(), 2):
        left, right = sorted(pair)
        both = with_changes(true.text, pair)
        # A word must stand between them, as two changes side by side may depend on each other.
        are_apart = left.end < right.start
        # The words of a true caption in another order may be true: "a cat next to a dog" of "a dog next to a cat".
        if are_apart and _word_bag(both) not in true_word_bags:
            first, second = (with_changes(true.text, [change]) for change in pair)
            yield NegBenchQuestion(true, (first, second, both), POSITIVE)
            return


def _word_bag(text: str) -> tuple[str, ...]:
    """The words of a text, whatever their order."""
    return tuple(sorted(text.lower().split()))


class Change(NamedTuple):
    """An edit of a text: its words from number `start` to `end` (exclusive) are replaced by `words`."""

    start: int
    end: int
    words: list[str]


def find_change(caption: str, negative: str) -> Change:
    """The edit that makes a negative of its caption, from the first to the last word that differs.

    "a dog sleeps", "a big cat sleeps" -> Change(1, 2, ["big", "cat"]).
    """
    old = caption.split(" ")
    new = negative.split(" ")
    start = len(commonprefix([old, new]))
    # Only words after the common start: in "a dog" and "a dog dog" the same "dog" must not be counted from both ends.
    same_at_end = len(commonprefix([old[start:][::-1], new[start:][::-1]]))
    return Change(start, len(old) - same_at_end, new[start : len(new) - same_at_end])


def with_changes(caption: str, changes: Sequence[Change]) -> str:
    """The caption after several edits, whose places must not overlap."""
    words = caption.split(" ")
    # the last one first: an edit moves only the words after it
    for change in sorted(changes, reverse=True):
        words[change.start : change.end] = change.words
    return " ".join(words)


NEGBENCH = (
    Column("image_path", "the image, opened as it is written"),
    *(Column(f"caption_{n}", f"option {n}") for n in range(OPTIONS)),
    Column("correct_answer", "number of the true caption, from 0", INTEGER),
    Column(
        "correct_answer_template",
        "NegBench's template of the true caption: positive if it only asserts, negative if it denies something, "
        "hybrid if it asserts one thing and denies another",
    ),
)
VOTES = ("foil", "caption", "other")


def valse_rows(publication: Publication) -> Rows:
    """`{operator}.json`: by negative_id, a pair as VALSE has it: `image_file`, `caption`, `foil`, `mturk` (votes) …"""
    for row in publication.rows():
        pair = {
            "dataset": "negcap",
            "original_split": row.split,
            "dataset_idx": row.image_id,
            "linguistic_phenomena": row.operator,
            "image_file": row.image,
            "caption": row.text,
            "classes": row.replaced,
            "classes_foil": row.replacement,
            "mturk": publication.votes[row.negative_id],
            "foil": row.negative,
        }
        yield Addition(publication.file(row.split, f"{row.operator}.json"), Keyed(row.negative_id, pair))


# VALSE's vote for each answer to "what describes the image?"; `text` is the negative. A negative that is true as well
# as its caption is as useless as one that is true alone: both are votes for the foil.
VOTE_OF_ANSWER = {"caption": "caption", "neither": "other", "unsure": "other", "text": "foil", "both": "foil"}


def votes(sheets: Sequence[Path]) -> dict[str, Mapping[str, int]]:
    """Count the votes on annotation sheets for each negative: {negative_id: {"foil": 0, "caption": 2, "other": 1}}.

    caption: only the caption describes the image; foil: the negative does, or both; other: neither, or unsure. Raises
    FileNotFoundError without a key beside the first sheet, ValueError for several, and for invalid votes or items.
    """
    answers = read_sheets(sheets, read_key(find_key(sheets[0])))
    answers = answers[answers["describes"].notna()]
    votes_of_negative: dict[str, Counter[str]] = {}
    for negative_id, vote in zip(answers["id"], answers["describes"].map(VOTE_OF_ANSWER), strict=True):
        votes_of_negative.setdefault(negative_id, Counter())[vote] += 1
    return {negative_id: {name: counts[name] for name in VOTES} for negative_id, counts in votes_of_negative.items()}


LINES = (Column("captions", "all captions, one per line, five lines per image", property="content"),)
EXTENDED = (
    Column("line", "line of the caption in the captions' file, from 0", INTEGER, property="filename", regex=r"(\d+)"),
    Column("negatives", "its negatives, one per line; empty if it has none", property="content"),
)
CAPTIONS_PER_IMAGE = 5


def first_five(rows: pd.DataFrame) -> pd.DataFrame:
    """The first five captions of each image in one split; none of an image with fewer, since the layout needs five."""
    # Captions of one image may be in several splits, but the five lines of an image are in one file.
    split_of_image = rows.groupby("image_id")["split"].transform("first")
    of_one_split = rows[rows["split"] == split_of_image]
    # A caption has a row for each of its negatives; here it counts once.
    captions = of_one_split.drop_duplicates("text_id").groupby("image_id")["text_id"]
    has_enough = captions.transform("size") >= CAPTIONS_PER_IMAGE  # whether the image of each caption has five
    first = captions.head(CAPTIONS_PER_IMAGE)[has_enough]
    return of_one_split[of_one_split["text_id"].isin(first)]


def vse_c_rows(publication: Publication) -> Rows:
    """A folder per family: `{split}_caps.txt`, `{split}_images.txt`, and in `{split}_ex/{i}.txt` line i's negatives."""
    for family in sorted({family for rows in publication.tables() for family in rows["family"].dropna()}):
        lines = Counter[str]()
        for rows_of_image in publication.by_image():
            stem = f"{family}/{rows_of_image[0].split}"
            yield Addition(f"{stem}_images.txt", [rows_of_image[0].image])
            for rows_of_caption in by_caption(rows_of_image):
                yield Addition(f"{stem}_caps.txt", [rows_of_caption[0].text])
                negatives = [row.negative for row in rows_of_caption if row.family == family]
                yield Addition(f"{stem}_ex/{lines[stem]}.txt", negatives)
                lines[stem] += 1


def finish_vse_c(publication: Publication, folder: Path, files: Files) -> list[RecordSet]:
    """Write nothing more; returns two record sets per family and split. files: by path, see `vse_c_rows`."""
    records = []
    for name in files:
        if name.endswith("_caps.txt"):
            stem = name.removesuffix("_caps.txt")
            family = stem.partition("/")[0]
            negatives = FileSet(f"{stem}_ex/*.txt", listed=False)
            records.append(RecordSet(name, "captions", LINES))
            records.append(RecordSet(f"{stem}_ex", f"negatives of the family {family}", EXTENDED, negatives))
    return records


COCO_COLUMNS = (
    Column("id", "number of the caption", INTEGER, "$.annotations[*].id"),
    Column("image_id", "number of its image", INTEGER, "$.annotations[*].image_id"),
    Column("caption", "the true caption", path="$.annotations[*].caption"),
    *(
        Column(name, description, type, "$.annotations[*].negatives", member=member, repeated=True)
        for name, description, member, type in (
            ("negatives", "its negative captions", "caption", TEXT),
            ("operators", "the operator that made each negative", "operator", TEXT),
            ("replaced", "what was replaced in each", "replaced", TEXT),
            ("replacements", "what replaced it in each", "replacement", TEXT),
            ("p_true", "estimated probability that one more caption of the image makes each true", "p_true", FLOAT),
            ("plausibility", "log-odds of each negative to the caption, in nats", "plausibility", FLOAT),
            ("p_unnatural", "estimated probability that a rater calls each unnatural", "p_unnatural", FLOAT),
            ("p_compatible", "estimated probability that one photo could be described by both", "p_compatible", FLOAT),
            ("concreteness", "concreteness of the inserted noun", "concreteness", FLOAT),
        )
    ),
)


class Annotation(NamedTuple):
    """A caption as COCO has it, and a row with its image."""

    annotation: Json
    row: Row


class CocoFile(JsonFile):
    """A COCO file: annotations are written one by one, and all images, collected meanwhile, at the end."""

    def __init__(self, file: Path, publication: Publication) -> None:
        """Open the file; every image refers to the one license of the publication."""
        info = '{"info": {"description": "captions and negative captions"},'
        licenses = f'"licenses": [{{"id": 1, "name": {json.dumps(publication.config.license)}}}],'
        super().__init__(file, publication, f'{info}\n{licenses}\n"annotations": [')
        self.publication = publication
        self.images: dict[int, str] = {}

    def add(self, content: object) -> None:
        """Write an `Annotation`."""
        assert isinstance(content, Annotation)
        annotation, row = content
        number = annotation["image_id"]
        if number not in self.images:
            image: Json = {"id": number, "file_name": row.image, "license": 1}
            if self.publication.images is not None:
                box = self.publication.images.box(row.image)
                image |= {"width": box.width, "height": box.height}
            self.images[number] = json.dumps(image)
        super().add(annotation)

    def close(self) -> None:
        """Write the images."""
        self.foot = '],\n"images": [\n' + ",\n".join(self.images.values()) + "\n]}"
        super().close()


def coco_rows(publication: Publication) -> Rows:
    """`captions_{split}.json`, with images that have numbers."""
    # All image_ids are read first, to know whether they can be the numbers themselves.
    image_ids = list(dict.fromkeys(name for rows in publication.tables() for name in rows["image_id"].unique()))
    number_of_image = _numbers_of_images(image_ids)
    for number, rows in enumerate(publication.by_caption(), 1):
        caption = rows[0]
        annotation = {
            "id": number,
            "image_id": number_of_image[caption.image_id],
            "caption": caption.text,
            "negatives": [_coco_negative(row) for row in negatives_of(rows)],
        }
        yield Addition(f"captions_{caption.split}.json", Annotation(annotation, caption))


def _numbers_of_images(image_ids: Sequence[str]) -> dict[str, int]:
    """The number of each image, by its image_id, for formats that want whole numbers as ids.

    It is the image_id itself if all of these are different integers, else the image's position, from 1.
    """
    if all(name.isascii() and name.isdigit() for name in image_ids):
        numbers = {name: int(name) for name in image_ids}
        if len(set(numbers.values())) == len(numbers):  # "1" and "01" are the same number
            return numbers
    return {name: position for position, name in enumerate(image_ids, 1)}


def _coco_negative(row: Row) -> Json:
    """A negative inside an annotation of COCO: its text as `caption`, what was replaced, and how it is measured."""
    change = {"operator": row.operator, "replaced": row.replaced, "replacement": row.replacement}
    return {"caption": row.negative, **change, **{name: getattr(row, name) for name in MEASURES}}


FORMATS: dict[str, Format] = {
    "sugarcrepe": Format(
        sugarcrepe_rows,
        partial(JsonFile, head="{", foot="}"),
        "SugarCrepe, one JSON file per operator",
        "`json.load(open('$file'))['0']` has `filename`, `caption` and `negative_caption`. A model passes where "
        "the image is nearer to the caption than to the negative.",
        "pairs of a true caption and its negative",
        _with_paths(
            "$.*",
            Column("filename", IMAGE_FILE),
            Column("caption", "the true caption"),
            Column("negative_caption", "the negative caption"),
        ),
        per_operator=1,
    ),
    "sugarcrepe++": Format(
        sugarcrepe_pp_rows,
        JsonFile,
        "SugarCrepe++, one JSON file per operator",
        "`json.load(open('$file'))[0]` has `filename`, two true captions `caption` and `caption2`, and the "
        "`negative_caption` of the first. A model passes where the image is nearer to both than to the negative.",
        "two true captions and a negative of the first",
        _with_paths(
            "$[*]",
            Column("id", "number of the row, from 0", INTEGER),
            Column("filename", IMAGE_FILE),
            Column("caption", "a true caption"),
            Column("caption2", "another true caption of the image"),
            Column("negative_caption", "a negative of caption"),
        ),
        per_operator=1,
        siblings=True,
        prepare=with_another,
    ),
    "aro": Format(
        aro_rows,
        JsonFile,
        "ARO, one JSON file per operator",
        "`VG_Relation` reads the file of an operator as `visual_genome_relation.json`, `VG_Attribution` as "
        "`visual_genome_attribution.json`, with the images in `images/` beside it.",
        "a region of an image, its true caption and a negative",
        _with_paths(
            "$[*]",
            Column("image_path", IMAGE_FILE),
            Column("bbox_x", "left edge of the box in pixels", INTEGER),
            Column("bbox_y", "upper edge of the box in pixels", INTEGER),
            Column("bbox_w", "width of the box in pixels", INTEGER),
            Column("bbox_h", "height of the box in pixels", INTEGER),
            Column("true_caption", "the true caption"),
            Column("false_caption", "the negative caption"),
            Column("relation_name", "what was replaced"),
        ),
        per_operator=1,
        images="sizes",
    ),
    "negclip": NEGCLIP,
    "vse-c": Format(
        vse_c_rows,
        lambda file, _: LinesFile(file),
        "VSE-C, one folder per family in the layout of VSE++: five captions per image",
        "Line i of `$file` has its negatives in the file `i.txt` of the folder `${split}_ex` beside it, which is empty "
        "if there are none; lines 5j to 5j + 4 belong to line j of `${split}_images.txt`. All count from 0. With image "
        "features as `${split}_ims.npy`, the folder is VSE-C's `--data_path`/`--data_name`.",
        finish=finish_vse_c,
        ordered=True,
        prepare=first_five,
    ),
    "webdataset": WEBDATASET,
    "huggingface": HUGGINGFACE,
    "snli": SNLI,
    "coco": Format(
        coco_rows,
        CocoFile,
        "COCO captions, one JSON file per split",
        "`pycocotools.coco.COCO('$file')`; every annotation has its `negatives` beside the `caption`.",
        "true captions with their negatives",
        COCO_COLUMNS,
        prepare=lambda rows: rows,
    ),
    "clip_benchmark": CLIP_BENCHMARK,
    "lmms-eval": LMMS_EVAL,
    "negbench": Format(
        negbench_rows,
        lambda file, _: TableFile(file, [column.name for column in NEGBENCH]),
        "NegBench's multiple choice, one CSV per split with four captions a row",
        "`--name-of-mcq-set $file`, with NegBench's `src/evaluation/eval_negation.py`, started in the folder that the "
        "paths are relative to.",
        "an image and four captions, one of them true",
        NEGBENCH,
        prepare=in_questions,
    ),
    "valse": Format(
        valse_rows,
        partial(JsonFile, head="{", foot="}"),
        "VALSE, one JSON file per operator, with votes",
        "`json.load(open('$file'))` has by id `image_file`, `caption`, `foil` and `mturk`. VALSE's readers take pairs "
        "with `mturk['caption'] >= 2`. A model passes where the image is nearer to the caption than to the foil.",
        "pairs of a true caption and its foil, with votes",
        (
            *_with_paths(
                "$.*",
                Column("dataset", "where image and caption are from"),
                Column("original_split", "the split of the caption"),
                Column("dataset_idx", "key of the image"),
                Column("linguistic_phenomena", "the operator that made the foil"),
                Column("image_file", IMAGE_FILE),
                Column("caption", "the true caption"),
                Column("classes", "what was replaced in the caption"),
                Column("classes_foil", "what replaces it in the foil"),
            ),
            *_with_paths("$.*.mturk", *(Column(name, f"votes for: {name}", INTEGER) for name in VOTES)),
            *_with_paths("$.*", Column("foil", "the negative caption")),
        ),
        per_operator=1,
        votes=True,
    ),
}


def format_named(name: str) -> Format:
    """The format called `name`. Raises ValueError with the valid names for an unknown one."""
    return FORMATS[word("format", name, FORMATS)]


class PublishConfig(PublishOptions):
    """What is published, and how."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse settings that the format cannot use, or lacks. Raises ValueError, which says what to give."""
        kind = format_named(self.format)
        if not self.license.strip():
            raise ValueError("license must be given: the terms under which captions and images may be passed on")
        if self.names != "negcap" and not self.format.startswith("sugarcrepe"):
            raise ValueError(f"names {self.names} are those of format sugarcrepe, format was: {self.format}")
        if bool(self.votes) != kind.votes:
            raise ValueError(f"format valse, and no other, needs --set votes=SHEETS, format was: {self.format}")
        try:
            date.fromisoformat(self.date or "2000-01-01")  # no date is right, too
        except ValueError:
            raise ValueError(f"date must be YYYY-MM-DD, was: {self.date}") from None
        if self.images is None and (kind.images == "files" or self.copy_images or self.skip_missing):
            what = f"format {self.format}" if kind.images == "files" else "copying or skipping images"
            raise ValueError(f"{what} needs the image files: --images FOLDER")
        if self.images is None and self.boxes is None and kind.images == "sizes":
            raise ValueError(f"format {self.format} needs the images' sizes: --images FOLDER, or --set boxes=FILE")
        return self
