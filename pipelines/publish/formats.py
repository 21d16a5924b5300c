"""The formats that `negcap publish` writes, by name; those whose files are rows are here themselves.

sugarcrepe: Hsieh et al. 2023; https://github.com/RAIVNLab/sugar-crepe and CLIP_benchmark read it, and expect keys that
count from "0". sugarcrepe++: Dumpala et al. 2024, two true captions against one negative; here the second true one is
another caption of the image. aro: Yuksekgonul et al. 2023; VG_Relation and VG_Attribution of
https://github.com/mertyg/vision-language-models-are-bows crop the image to the box, and group their rows by
`relation_name` or by the two `attributes`. negbench: multiple choice as NegBench reads it; if the run has denials, the
questions are about two nouns, see `negcap.pipelines.tables.examples`; other captions are asked beside three of their
negatives. valse: Parcalabescu et al. 2022; `mturk` has the votes of people or models, and VALSE's readers keep pairs of
which at least two of three voters said that the caption describes the image and the foil does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ...augment.reproducible import record_rng
from ..engine.tables import has_table, read_table
from ..quality.annotation.agree import find_key, read_key, read_sheets
from ..quality.annotation.sheet import NEGATIVE
from ..tables.examples import (
    OPTIONS,
    POSITIVE,
    Example,
    Negative,
    Question,
    all_captions,
    is_denial,
    other_wordings,
    questions,
    shuffled,
    source_of,
    with_negatives,
)
from ..tables.pairs import NEGATION
from . import archives, coco, hub, negclip, snli, vse_c
from .publication import INTEGER, Column, Format, Publication
from .writers import JsonRows, Rows, TableRows, write_rows


def _at(root: str, *columns: Column) -> tuple[Column, ...]:
    """The columns as values of JSON objects at this path."""
    return tuple(column._replace(path=f"{root}.{column.name}") for column in columns)


IMAGE_FILE = "the image, relative to the image folder"
PARTS = {  # of negcap's operators in SugarCrepe; those that only add to the caption are in `add_…` instead
    "noun": "replace_obj",
    "object": "replace_obj",
    "attribute": "replace_att",
    "relation": "replace_rel",
    "verb": "replace_rel",
    "preposition": "replace_rel",
    "shuffle": "swap_obj",
    "swap_attribute": "swap_att",
}


def file_name(negative: Negative, names: str) -> str:
    """The name of the file for a negative: its operator or, if `names` is "sugarcrepe", a part of SugarCrepe.

    Operators of which SugarCrepe has none keep their names: its readers do not ask for these files.
    """
    if names != "sugarcrepe":
        return negative.operator
    part = PARTS.get(negative.operator, negative.operator)
    return part if negative.replaced else part.replace("replace_obj", "add_obj").replace("replace_att", "add_att")


def sugarcrepe(publication: Publication) -> Rows:
    """`{operator}.json`: `{"0": {"filename", "caption", "negative_caption"}}`."""
    for example, negative in publication.pairs():
        file = publication.file(example.split, f"{file_name(negative, publication.names)}.json")
        yield file, {"filename": example.image, "caption": example.text, "negative_caption": negative.text}


def sugarcrepe_pp(publication: Publication) -> Rows:
    """`{operator}.json`: a list of `{"id", "filename", "caption", "caption2", "negative_caption"}`."""
    seed, rows = publication.selection.draws.seed, Counter[str]()
    for example, negative in publication.pairs():
        file = publication.file(example.split, f"{file_name(negative, publication.names)}.json")
        second = record_rng(seed, "caption2", example.caption_id).choice(other_wordings(example))
        row = {"id": rows[file], "filename": example.image, "caption": example.text, "caption2": second}
        yield file, {**row, "negative_caption": negative.text}
        rows[file] += 1


def with_another(examples: list[Example]) -> list[Example]:
    """Those captions of an image that have negatives and another caption with a different text."""
    return [example for example in with_negatives(examples) if other_wordings(example)]


def aro(publication: Publication) -> Rows:
    """`{operator}.json`: a list of rows with `image_path`, a box, `true_caption` and `false_caption`."""
    for example, negative in publication.pairs():
        box = dict(zip(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), publication.box(example), strict=True))
        row = {"image_path": example.image, **box, "true_caption": example.text, "false_caption": negative.text}
        row |= {"relation_name": negative.replaced, "attributes": [negative.replaced, negative.replacement]}
        yield publication.file(example.split, f"{negative.operator}.json"), row


def negbench(publication: Publication) -> Rows:
    """`{split}.csv`: a row per caption with three false options."""
    seed = publication.selection.draws.seed
    for examples in publication.by_image():
        for question in _questions(examples, seed):
            example = question.example
            texts, answer = shuffled(question, record_rng(seed, "options", example.caption_id))
            image = publication.prefix + example.image
            yield f"{example.split}.csv", [image, *texts, answer, question.template]


def _questions(examples: list[Example], seed: int) -> Iterator[Question]:
    """The questions about the captions of an image, at most one each; those about two nouns first."""
    asked = set[str]()
    for question in questions(examples):
        asked.add(source_of(question.example))
        yield question
    for example in examples:
        options = {n.text for n in example.negatives if n.operator != NEGATION} - {example.text}
        if example.caption_id not in asked and not is_denial(example) and len(options) >= OPTIONS - 1:
            rng = record_rng(seed, "false options", example.caption_id)
            yield Question(example, tuple(rng.sample(sorted(options), OPTIONS - 1)), POSITIVE)


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


def valse(publication: Publication) -> Rows:
    """`{operator}.json`: by negative_id the `image_file`, `caption`, `foil`, votes …"""
    for example, negative in publication.pairs():
        row = {"dataset": "negcap", "original_split": example.split, "dataset_idx": example.image_id}
        row |= {"linguistic_phenomena": negative.operator, "image_file": example.image, "caption": example.text}
        row |= {"classes": negative.replaced, "classes_foil": negative.replacement}
        voted = {**row, "mturk": publication.votes[negative.negative_id], "foil": negative.text}
        yield publication.file(example.split, f"{negative.operator}.json"), voted, negative.negative_id


def votes(run: Path, sheets: Sequence[Path]) -> dict[str, Mapping[str, int]]:
    """By negative_id, the numbers of votes `caption` (only the caption describes the image), `foil` (the negative does,
    or both) and `other` (neither, or undecided): of people on these filled annotation sheets or, without sheets, of the
    models that read the negatives of a run with the image.

    Raises ValueError if there are no votes, and as `read_key` and `read_sheets`.
    """
    found: dict[str, Counter[str]] = {}
    for negative_id, vote in _by_people(sheets) if sheets else _by_models(run):
        found.setdefault(negative_id, Counter())[vote] += 1
    if not found:
        raise ValueError(
            f"format valse holds votes on every negative, {run} has none: negcap vet {run} --reading image, or --votes"
        )
    return {negative_id: {name: counts[name] for name in VOTES} for negative_id, counts in found.items()}


def _by_people(sheets: Sequence[Path]) -> Iterator[tuple[str, str]]:
    items = read_key(find_key(sheets[0]))
    for answers in read_sheets(sheets, items).describes.values():
        for item, answer in answers.items():
            about = items[item]
            if about.kind == NEGATIVE:
                other = {"neither": "other", "unsure": "other", about.caption_is: "caption"}
                yield about.id, other.get(answer, "foil")


def _by_models(run: Path) -> Iterator[tuple[str, str]]:
    for table in read_table(run, "verdicts") if has_table(run, "verdicts") else ():
        for row in table.to_pylist():
            if row["reading"] == "image":
                yield row["negative_id"], "other" if row["problem"] else "caption" if row["false"] else "foil"


FORMATS: dict[str, Format] = {
    "sugarcrepe": Format(
        partial(
            write_rows,
            rows=sugarcrepe,
            open=partial(JsonRows, brackets="{}"),
            what="pairs of a true caption and its negative",
            columns=_at(
                "$.*",
                Column("filename", IMAGE_FILE),
                Column("caption", "the true caption"),
                Column("negative_caption", "the negative caption"),
            ),
        ),
        "SugarCrepe, one JSON file per operator",
        "`json.load(open('$file'))['0']` has `filename`, `caption` and `negative_caption`. A model passes where "
        "the image is nearer to the caption than to the negative.",
        per_caption=1,
    ),
    "sugarcrepe++": Format(
        partial(
            write_rows,
            rows=sugarcrepe_pp,
            open=JsonRows,
            what="two true captions and a negative of the first",
            columns=_at(
                "$[*]",
                Column("id", "number of the row, from 0", INTEGER),
                Column("filename", IMAGE_FILE),
                Column("caption", "a true caption"),
                Column("caption2", "another true caption of the image"),
                Column("negative_caption", "a negative of caption"),
            ),
        ),
        "SugarCrepe++, one JSON file per operator",
        "`json.load(open('$file'))[0]` has `filename`, two true captions `caption` and `caption2`, and the "
        "`negative_caption` of the first. A model passes where the image is nearer to both than to the negative.",
        per_caption=1,
        siblings=True,
        prepare=with_another,
    ),
    "aro": Format(
        partial(
            write_rows,
            rows=aro,
            open=JsonRows,
            what="a region of an image, its true caption and a negative",
            columns=_at(
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
        ),
        "ARO, one JSON file per operator",
        "`VG_Relation` reads the file of an operator as `visual_genome_relation.json`, `VG_Attribution` as "
        "`visual_genome_attribution.json`, with the images in `images/` beside it.",
        per_caption=1,
        images="sizes",
    ),
    "negclip": Format(
        negclip.write,
        "NegCLIP training data, one TSV per split",
        "`pd.read_csv('$file', sep='\\t', index_col=0, converters={'neg_caption': ast.literal_eval, 'neg_image': "
        "ast.literal_eval})`. Run the training in the folder that the paths are relative to.",
    ),
    "vse-c": Format(
        vse_c.write,
        "VSE-C, one folder per family in the layout of VSE++: five captions per image",
        "Line i of `$file` has its negatives in the file `i.txt` of the folder `${split}_ex` beside it, which is empty "
        "if there are none; lines 5j to 5j + 4 belong to line j of `${split}_images.txt`. All count from 0. With image "
        "features as `${split}_ims.npy`, the folder is VSE-C's `--data_path`/`--data_name`.",
        prepare=vse_c.first_five,
    ),
    "webdataset": Format(
        archives.write_webdataset,
        "WebDataset, tar shards of 5,000 captions",
        "`webdataset.WebDataset('$split-00000.tar', shardshuffle=False).decode('pil')` gives samples with `jpg`, `txt` "
        "and `neg.json`; `neg.json` has the negatives of the caption with what was replaced.",
        images="files",
        embeds=True,
    ),
    "huggingface": Format(
        hub.write_huggingface,
        "Parquet files for the Hugging Face hub, one row per negative",
        "`datasets.load_dataset('path/of/this/folder', '$operator', split='$split')` loads the negatives of one "
        "operator, `load_dataset('path/of/this/folder', split='$split')` those of all operators.",
        embeds=True,
        card_fields=hub.card_fields,
    ),
    "snli": Format(
        snli.write,
        "SNLI, one JSONL file per split: captions with what they entail and contradict",
        "`pd.read_json('$file', lines=True)`: a premise `sentence1`, a hypothesis `sentence2` and a `gold_label`, "
        "`entailment` or `contradiction`, as often the one as the other. `negcap entail` reads it.",
    ),
    "coco": Format(
        coco.write,
        "COCO captions, one JSON file per split",
        "`pycocotools.coco.COCO('$file')`; every annotation has its `negatives` beside the `caption`.",
        prepare=all_captions,
    ),
    "clip_benchmark": Format(
        archives.write_clip_benchmark,
        "WebDataset for CLIP_benchmark's retrieval, one sample per image, true captions only",
        "`clip_benchmark eval --dataset wds/this --dataset_root path/of/this/folder --split $split "
        "--task zeroshot_retrieval`.",
        negatives=False,
        images="files",
        prepare=all_captions,
        embeds=True,
    ),
    "lmms-eval": Format(
        hub.write_lmms_eval,
        "A task of lmms-eval, multiple choice with images",
        "In this folder: `python -m lmms_eval --include_path . --tasks negcap_$split --model NAME`.",
        per_caption=1,
        images="files",
        embeds=True,
    ),
    "negbench": Format(
        partial(
            write_rows,
            rows=negbench,
            open=partial(TableRows, header=[column.name for column in NEGBENCH]),
            what="an image and four captions, one of them true",
            columns=NEGBENCH,
        ),
        "NegBench's multiple choice, one CSV per split with four captions a row",
        "`--name-of-mcq-set $file`, with NegBench's `src/evaluation/eval_negation.py`, started in the folder that the "
        "paths are relative to.",
    ),
    "valse": Format(
        partial(
            write_rows,
            rows=valse,
            open=partial(JsonRows, brackets="{}"),
            what="pairs of a true caption and its foil, with votes",
            columns=(
                *_at(
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
                *_at("$.*.mturk", *(Column(name, f"votes for: {name}", INTEGER) for name in VOTES)),
                *_at("$.*", Column("foil", "the negative caption")),
            ),
        ),
        "VALSE, one JSON file per operator, with votes",
        "`json.load(open('$file'))` has by id `image_file`, `caption`, `foil` and `mturk`. VALSE's readers take pairs "
        "with `mturk['caption'] >= 2`. A model passes where the image is nearer to the caption than to the foil.",
        per_caption=1,
        votes=True,
    ),
}


def format_named(name: str) -> Format:
    """The format called `name`. Raises ValueError with the valid names for an unknown one."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, was: {name}")
    return FORMATS[name]
