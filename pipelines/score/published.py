"""Read published test sets: those of `negcap import`, COCO captions with negatives, and Winoground's."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from ...augment.operators import OPERATORS
from ..readers.files import raw_lines
from ..readers.pairs import Foreign, NoColumnError, read_pairs
from ..readers.record import Rejected
from .config import ScoreConfig
from .test_set import Foil, Item, Quad, Question, only_adds

KINDS = "SugarCrepe, ARO, CREPE, NegCLIP, VALSE, COCO, NegBench, Parquet …, or Winoground's examples.jsonl"
METADATA = ("croissant.json", "SHA256SUMS", "README.md", "sizes.json", "dataset_infos.json")
Items = Iterator[Item | Quad | Question]


def read_published(source: Path, config: ScoreConfig) -> Items:
    """The items of a published folder, or of one file of it; splits are folders or files, operators files or columns.

    Raises ValueError if no file is in a known format, if a file is damaged, or if there is no such split or operator.
    """
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if _is_data(path, source))
    found = False
    seen: set[str] = set()
    for file in files:
        if config.splits and not set(config.splits) & _split_names(file, source):
            continue
        for item in _read(file):
            found = True
            if isinstance(item, Quad):
                seen.add(item.operator)
                if not config.operators or item.operator in config.operators:
                    yield item
                continue
            if isinstance(item, Question):
                yield item
                continue
            seen |= {negative.operator for negative in item.negatives}
            chosen = _chosen(item.negatives, config)
            if chosen:
                yield item._replace(negatives=chosen)
    if not found:
        of = f" of split {', '.join(config.splits)}" if config.splits else ""
        raise ValueError(f"{source} must be a run or a published set{of} ({KINDS}), has no such file")
    for name in config.operators:
        if name not in seen:
            raise ValueError(f"operator must be one of {', '.join(sorted(seen))} in {source}, was: {name}")


def _is_data(path: Path, source: Path) -> bool:
    inside = path.relative_to(source).parts
    hidden = any(part.startswith((".", "_")) for part in inside) or inside[0] == "images"
    return path.is_file() and not hidden and path.name not in METADATA and path.suffix in READERS


def _split_names(file: Path, source: Path) -> set[str]:
    """The names that may be the split of a file: of its folders, its own, and the parts of its own."""
    parts = set(file.relative_to(source).parts[:-1]) if file != source else set()
    return parts | {file.stem} | set(file.stem.split("-")[:1]) | {file.stem.removeprefix("captions_")}


def _chosen(negatives: tuple[Foil, ...], config: ScoreConfig) -> tuple[Foil, ...]:
    counts: dict[str, int] = {}
    kept = []
    for negative in negatives:
        number = counts[negative.operator] = counts.get(negative.operator, 0) + 1
        wanted = not config.operators or negative.operator in config.operators
        if wanted and (config.per_caption is None or number <= config.per_caption):
            kept.append(negative)
    return tuple(kept)


def _negative(operator: str, caption: str, text: str) -> Foil:
    family = OPERATORS[operator].family if operator in OPERATORS else operator
    return Foil(operator, family, text, only_adds(caption, text))


def _pairs(file: Path) -> Items:
    """The records of one file, those of one caption that follow each other as one item."""
    for (image, text), records in groupby(_records(file), lambda record: (record.image, record.captions[0])):
        if image is None:
            raise ValueError("a record must name its image")
        path = Path(image.removeprefix("images/") if Path(image).suffix else f"{image}.jpg")  # a number in CREPE
        second: str | None = None
        negatives: list[Foil] = []
        for record in records:
            second = record.captions[1] if len(record.captions) > 1 else None
            for false, label in record.negatives:
                operator = label if label != file.stem or not record.split else "all"  # as in NegCLIP's files of splits
                negatives.append(_negative(operator, text, false))
        yield Item(path.stem, path, text, second, tuple(negatives))


def _records(file: Path) -> Iterator[Foreign]:
    for record in read_pairs(str(file)):
        if isinstance(record, Rejected):
            raise ValueError(f"record {record.line}: {record.detail}")
        yield record


def _json(file: Path) -> Items:
    try:
        yield from _pairs(file)
    except NoColumnError:
        data = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or "annotations" not in data:
            raise
        names = {image["id"]: image["file_name"] for image in data["images"]}
        for row in data["annotations"]:
            some = [_negative(n["operator"], row["caption"], n["caption"]) for n in row.get("negatives", ())]
            if some:
                path = Path(names[row["image_id"]])
                yield Item(path.stem, path, row["caption"], None, tuple(some))


def _csv(file: Path) -> Items:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if "correct_answer" in (rows.fieldnames or ()):
            yield from map(_question, rows)
            return
    yield from _pairs(file)


def _question(row: dict[str, str]) -> Question:
    """A row of NegBench's multiple choice."""
    options = [row[name] for name in row if name.startswith("caption_")]
    true = options.pop(int(row["correct_answer"]))
    image = Path(row["image_path"])
    return Question(image.stem, image, true, tuple(options), row.get("correct_answer_template") or "all")


def _jsonl(file: Path) -> Items:
    """Winoground, `{"image_0", "image_1", "caption_0", "caption_1", "tag"}` a line; other lines as `_pairs`."""
    with file.open(encoding="utf-8") as lines:
        for line in raw_lines(lines):
            row = json.loads(line)
            if "caption_1" not in row or "image_1" not in row:
                yield from _pairs(file)
                return
            names = row["image_0"], row["image_1"]
            first, second = ((Path(name).stem, Path(name)) for name in names)
            yield Quad(
                (first, second), (row["caption_0"], row["caption_1"]), row.get("operator") or row.get("tag") or "all"
            )


READERS: dict[str, Callable[[Path], Items]] = {
    ".json": _json,
    ".csv": _csv,
    ".tsv": _pairs,
    ".parquet": _pairs,
    ".jsonl": _jsonl,
}


def _read(file: Path) -> Items:
    try:
        yield from READERS[file.suffix](file)
    except NoColumnError:  # another file of a folder, without captions and negatives
        return
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{file}: must be a published set ({KINDS}), cannot be read: {error!r:.120}") from error
