"""Read published test sets: the formats of negcap, which are those of their authors, and Winoground's."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from negcap.augment.operators import OPERATORS
from negcap.pipelines.score.config import ScoreConfig
from negcap.pipelines.score.test_set import Foil, Item, Quad, Question, only_adds

KINDS = "sugarcrepe, sugarcrepe++, aro, crepe, negclip, coco, huggingface, negbench, or Winoground's examples.jsonl"
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


def _negative(operator: str, caption: str, text: str, family: str = "") -> Foil:
    known = OPERATORS[operator].family if operator in OPERATORS else operator
    return Foil(operator, family or known, text, only_adds(caption, text))


def _item(image: str, caption: str, negatives: tuple[Foil, ...], second: str | None = None) -> Item:
    return Item(Path(image).stem, Path(image), caption, second, negatives)


def _json(file: Path) -> Items:
    data = json.loads(file.read_text(encoding="utf-8"))
    if isinstance(data, dict) and "annotations" in data:
        yield from _coco(data)
        return
    rows = list(data.values()) if isinstance(data, dict) else data
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return
    for row in rows:
        if "negative_caption" in row:
            negative = _negative(file.stem, row["caption"], row["negative_caption"])
            yield _item(row["filename"], row["caption"], (negative,), row.get("caption2"))
        elif "false_caption" in row:
            negative = _negative(file.stem, row["true_caption"], row["false_caption"])
            yield _item(row["image_path"], row["true_caption"], (negative,))


def _coco(data: dict[str, Any]) -> Items:
    names = {image["id"]: image["file_name"] for image in data["images"]}
    for row in data["annotations"]:
        some = [_negative(n["operator"], row["caption"], n["caption"]) for n in row.get("negatives", ())]
        if some:
            yield _item(names[row["image_id"]], row["caption"], tuple(some))


def _csv(file: Path) -> Items:
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if "correct_answer" in row:
                yield _question(row)
                continue
            if "hard_negs" not in row:
                return
            negatives = tuple(_negative(file.stem, row["caption"], text) for text in ast.literal_eval(row["hard_negs"]))
            yield _item(f"{row['image_id']}.jpg", row["caption"], negatives)


def _question(row: dict[str, str]) -> Question:
    """A row of NegBench's multiple choice."""
    options = [row[name] for name in row if name.startswith("caption_")]
    true = options.pop(int(row["correct_answer"]))
    image = Path(row["image_path"])
    return Question(image.stem, image, true, tuple(options), row.get("correct_answer_template") or "all")


def _tsv(file: Path) -> Items:
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            if "neg_caption" not in row:
                return
            negatives = tuple(_negative("all", row["title"], text) for text in ast.literal_eval(row["neg_caption"]))
            yield _item(row["filepath"].removeprefix("images/"), row["title"], negatives)


def _parquet(file: Path) -> Items:
    import pyarrow.parquet as pq

    wanted = ("caption_id", "image_id", "image", "caption", "negative_caption", "family", "operator")
    opened = pq.ParquetFile(file)
    if not set(wanted) <= set(opened.schema_arrow.names):
        return
    by_caption: dict[str, tuple[str, str, list[Foil]]] = {}
    for row in opened.read(columns=[*wanted]).to_pylist():
        image = row["image"]["path"] if isinstance(row["image"], dict) else row["image"]
        held = by_caption.setdefault(row["caption_id"], (image, row["caption"], []))
        held[2].append(_negative(row["operator"], row["caption"], row["negative_caption"], row["family"]))
    for image, caption, negatives in by_caption.values():
        yield _item(image, caption, tuple(negatives))


def _jsonl(file: Path) -> Items:
    """Winoground: `{"image_0", "image_1", "caption_0", "caption_1", "tag"}`, one pair of images a line."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "caption_1" not in row or "image_1" not in row:
                return
            names = row["image_0"], row["image_1"]
            first, second = ((Path(name).stem, Path(name)) for name in names)
            yield Quad(
                (first, second), (row["caption_0"], row["caption_1"]), row.get("operator") or row.get("tag") or "all"
            )


READERS: dict[str, Callable[[Path], Items]] = {
    ".json": _json,
    ".csv": _csv,
    ".tsv": _tsv,
    ".parquet": _parquet,
    ".jsonl": _jsonl,
}


def _read(file: Path) -> Items:
    try:
        yield from READERS[file.suffix](file)
    except (ValueError, SyntaxError, KeyError, TypeError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{file}: must be a published set ({KINDS}), cannot be read: {error!r:.120}") from error
