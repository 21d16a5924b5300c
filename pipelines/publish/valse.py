"""VALSE: one JSON file per operator, `{id: {"image_file", "caption", "foil", "mturk", …}}` (Parcalabescu et al. 2022).

`mturk` has the votes of people on annotation sheets, or of models that saw the image. VALSE's readers keep pairs of
which at least two of three voters said that the caption describes the image and the foil does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..engine.tables import has_table, read_table
from ..quality.annotation.agree import find_key, read_key, read_sheets
from ..quality.annotation.sheet import NEGATIVE
from .publication import INTEGER, Column, Files, JsonRows, Publication, RecordSet

VOTES = ("foil", "caption", "other")
COLUMNS = (
    Column("dataset", "where image and caption are from", path="$.*.dataset"),
    Column("original_split", "the split of the caption", path="$.*.original_split"),
    Column("dataset_idx", "key of the image", path="$.*.dataset_idx"),
    Column("linguistic_phenomena", "the operator that made the foil", path="$.*.linguistic_phenomena"),
    Column("image_file", "the image, relative to the image folder", path="$.*.image_file"),
    Column("caption", "the true caption", path="$.*.caption"),
    Column("classes", "what was replaced in the caption", path="$.*.classes"),
    Column("classes_foil", "what replaces it in the foil", path="$.*.classes_foil"),
    *(Column(name, f"votes for: {name}", INTEGER, path=f"$.*.mturk.{name}") for name in VOTES),
    Column("foil", "the negative caption", path="$.*.foil"),
)


def votes(run: Path, sheets: Sequence[Path]) -> dict[str, Mapping[str, int]]:
    """By negative_id, the numbers of votes `caption` (only the caption describes the image), `foil` (the negative does,
    or both) and `other` (neither, or undecided): of people on these filled annotation sheets or, without sheets, of the
    models that read the negatives of a run with the image.

    Raises ValueError if there are no votes, and as `read_key` and `read_sheets`.
    """
    found = _by_people(sheets) if sheets else _by_models(run)
    if not found:
        raise ValueError(
            f"format valse holds votes on every negative, {run} has none: negcap vet {run} --reading image, or --votes"
        )
    return found


def _by_people(sheets: Sequence[Path]) -> dict[str, Mapping[str, int]]:
    items = read_key(find_key(sheets[0]))
    found: dict[str, Counter[str]] = {}
    for answers in read_sheets(sheets, items).describes.values():
        for item, answer in answers.items():
            about = items[item]
            if about.kind == NEGATIVE:
                other = {"neither": "other", "unsure": "other", about.caption_is: "caption"}
                found.setdefault(about.id, Counter())[other.get(answer, "foil")] += 1
    return {negative: {name: counts[name] for name in VOTES} for negative, counts in found.items()}


def _by_models(run: Path) -> dict[str, Mapping[str, int]]:
    found: dict[str, Counter[str]] = {}
    for table in read_table(run, "verdicts") if has_table(run, "verdicts") else ():
        for row in table.to_pylist():
            if row["reading"] == "image":
                vote = "other" if row["problem"] else "caption" if row["false"] else "foil"
                found.setdefault(row["negative_id"], Counter())[vote] += 1
    return {negative: {name: counts[name] for name in VOTES} for negative, counts in found.items()}


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `{operator}.json`, in one folder per split if there are several; one record set per file."""
    with Files(folder, lambda file: JsonRows(file, "{}")) as files:
        for example in publication.examples():
            for negative in example.negatives:
                row = {"dataset": "negcap", "original_split": example.split, "dataset_idx": example.image_id}
                row |= {"linguistic_phenomena": negative.operator, "image_file": example.image}
                row |= {"caption": example.text, "classes": negative.replaced, "classes_foil": negative.replacement}
                row |= {"mturk": publication.votes[negative.negative_id], "foil": negative.text}  # type: ignore[dict-item]
                files[f"{publication.place(example.split)}{negative.operator}.json"].add(row, negative.negative_id)
    return [RecordSet(name, "pairs of a true caption and its foil, with votes", COLUMNS) for name in files]
