"""VSE-C: a folder a family with `{split}_caps.txt` and `{split}_ex/{i}.txt`, the negatives of line i, one a line.

Shi et al. 2018, in the precomp layout of VSE++: five lines an image, in the order of its features; `{split}_images.txt`
names the images. https://github.com/ExplorerFreda/VSE-C opens `{split}_ex/{i}.txt` for every line i, in its training
(data.py, PrecompTrainCaptionExtendedDataset) as in its evaluation (evaluation.py, eval_with_single_extended): so there
is a file a caption, an empty one where it has no negatives of the family.
"""

from __future__ import annotations

from pathlib import Path

from negcap.pipelines.publish.publication import INTEGER, Column, FileSet, Publication, RecordSet
from negcap.pipelines.publish.selection import Example

CAPTIONS_PER_IMAGE = 5
LINES = (Column("captions", "all captions, one a line, five lines an image", property="content"),)
NEGATIVES = (
    Column("line", "line of the caption in the captions' file, from 0", INTEGER, property="filename", regex=r"(\d+)"),
    Column("negatives", "its negatives, one a line; empty where it has none", property="content"),
)


def five(examples: list[Example]) -> list[Example]:
    """The first five captions of an image in one split; nothing where it has fewer, as all need the same number."""
    one = [example for example in examples if example.split == examples[0].split]
    return one[:CAPTIONS_PER_IMAGE] if len(one) >= CAPTIONS_PER_IMAGE else []


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the captions, image names and negatives of every family that has any."""
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
