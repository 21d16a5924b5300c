"""VSE-C: one folder per family with `{split}_caps.txt`, and in `{split}_ex/{i}.txt` the negatives of line i.

Shi et al. 2018, in the "precomp" layout of VSE++: five lines per image, in the order of the image features;
`{split}_images.txt` names the images. https://github.com/ExplorerFreda/VSE-C opens `{split}_ex/{i}.txt` for every line
i, both in training (data.py, PrecompTrainCaptionExtendedDataset) and in evaluation (evaluation.py,
eval_with_single_extended): so there is one file per caption, which is empty if it has no negatives of the family.
"""

from __future__ import annotations

from pathlib import Path

from ..tables.examples import Example
from .publication import INTEGER, Column, FileSet, Publication, RecordSet

CAPTIONS_PER_IMAGE = 5
LINES = (Column("captions", "all captions, one per line, five lines per image", property="content"),)
NEGATIVES = (
    Column("line", "line of the caption in the captions' file, from 0", INTEGER, property="filename", regex=r"(\d+)"),
    Column("negatives", "its negatives, one per line; empty if it has none", property="content"),
)


def first_five(examples: list[Example]) -> list[Example]:
    """The first five captions of an image, all of one split; none if it has fewer, since all images need five."""
    one = [example for example in examples if example.split == examples[0].split]
    return one[:CAPTIONS_PER_IMAGE] if len(one) >= CAPTIONS_PER_IMAGE else []


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the captions, image names and negatives of every family that has negatives; two record sets per split."""
    families = {negative.family for example in publication.examples() for negative in example.negatives}
    return [record for family in sorted(families) for record in _write(publication, family, folder / family)]


def _write(publication: Publication, family: str, folder: Path) -> list[RecordSet]:
    captions: dict[str, list[str]] = {}
    images: dict[str, list[str]] = {}
    for examples in publication.by_image():
        split = examples[0].split
        images.setdefault(split, []).append(examples[0].image)
        lines = captions.setdefault(split, [])
        for example in examples:
            file = folder / f"{split}_ex" / f"{len(lines)}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            _lines(file, [negative.text for negative in example.negatives if negative.family == family])
            lines.append(example.text)
    records = []
    for split, lines in captions.items():
        _lines(folder / f"{split}_caps.txt", lines)
        _lines(folder / f"{split}_images.txt", images[split])
        files = FileSet(f"{family}/{split}_ex/*.txt", listed=False)
        records.append(RecordSet(f"{family}/{split}_caps.txt", "captions", LINES))
        records.append(RecordSet(f"{family}/{split}_ex", f"negatives of the family {family}", NEGATIVES, files))
    return records


def _lines(file: Path, lines: list[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
