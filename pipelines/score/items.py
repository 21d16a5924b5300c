"""What a model is scored on, of a run or of a published set: `negcap publish`'s, COCO's, NegBench's, Winoground's …"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from ...augment.operators import OPERATORS
from ...augment.rng import record_rng
from ..engine.tables import has_table
from ..readers.files import raw_lines
from ..readers.pairs import Foreign, NoColumnError, read_pairs
from ..readers.record import Rejected
from ..tables.examples import Draws, Example, other_wordings, questions, select
from ..tables.images import Images, abbreviate
from .test_set import ALL, Foil, Image, Item, Quad, Question, ScoreConfig, TestSet, build

KINDS = "SugarCrepe, ARO, CREPE, NegCLIP, VALSE, COCO, NegBench, Parquet …, or Winoground's examples.jsonl"
METADATA = ("croissant.json", "SHA256SUMS", "README.md", "sizes.json", "dataset_infos.json")
Items = Iterator[Item | Quad | Question]


def read_test_set(source: Path, config: ScoreConfig) -> TestSet:
    """What a model is scored on: of a run if `source` has tables, else of a published set.

    Raises FileNotFoundError for a source without negatives and for missing image files (unless `skip_missing`),
    ValueError for a split or operator that there is none of, for a published set without a file in a known format or
    with a damaged one, and what `select` raises.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such run or published set")
    images = None if config.images is None else Images(config.images)
    missing: dict[str, str] = {}  # the names of missing files, by image_id

    def located(image: Image) -> Image:
        if images is None or image.file is None:
            return image._replace(file=None)
        found = images.find(str(image.file))
        if found is None:
            missing[image.image_id] = str(image.file)
        return image._replace(file=None if found is None else images.folder / found)

    kept = []
    for item in _of_run(source, config) if is_run(source) else _of_published(source, config):
        item = item._replace(images=tuple(map(located, item.images)))
        if not any(image.image_id in missing for image in item.images):
            kept.append(item)
    if missing and not config.skip_missing:
        names = abbreviate(missing.values())
        raise FileNotFoundError(
            f"{len(missing):,} images are not in {config.images}: {names}; --set skip_missing=true leaves their "
            "captions out"
        )
    return build(kept, len(missing))


def is_run(source: Path) -> bool:
    """Whether a source is a run, as opposed to a published set."""
    return source.is_dir() and has_table(source, "captions")


def _of_run(run: Path, config: ScoreConfig) -> Items:
    draws = Draws(config.per_caption, "first", config.seed)
    table = "refined" if config.refined else "negatives"

    def image(example: Example) -> tuple[Image, ...]:
        return (Image(example.image_id, Path(example.image)),)

    for examples in select(run, config.splits, config.operators, draws, table=table).images():
        for example in examples:
            others = other_wordings(example)  # of which one is chosen as format sugarcrepe++ does
            second = record_rng(config.seed, "caption2", example.caption_id).choice(others) if others else None
            foils = tuple(Foil(one.operator, one.family, one.text, not one.replaced) for one in example.negatives)
            yield Item(image(example), example.text, second, foils)
        for of, false, template in questions(examples):
            yield Question(image(of), of.text, false, template)


def _of_published(source: Path, config: ScoreConfig) -> Items:
    """The items of a published folder, or of one file of it; splits are folders or files, operators too, or columns."""
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
                wanted = not config.operators or item.operator in config.operators
            elif isinstance(item, Item):
                seen |= {negative.operator for negative in item.negatives}
                item = item._replace(negatives=_chosen(item.negatives, config))
                wanted = bool(item.negatives)
            if isinstance(item, Question) or wanted:
                yield item
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
    """Those of the wanted operators, the first `per_caption` of each."""
    counts = Counter[str]()
    kept = []
    for negative in negatives:
        counts[negative.operator] += 1
        wanted = not config.operators or negative.operator in config.operators
        if wanted and (config.per_caption is None or counts[negative.operator] <= config.per_caption):
            kept.append(negative)
    return tuple(kept)


def _read(file: Path) -> Items:
    try:
        yield from READERS[file.suffix](file)
    except NoColumnError:  # another file of a folder, without captions and negatives
        return
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{file}: must be a published set ({KINDS}), cannot be read: {error!r:.120}") from error


def _image(path: Path) -> Image:
    return Image(path.stem, path)


def _foil(operator: str, caption: str, text: str) -> Foil:
    family = OPERATORS[operator].family if operator in OPERATORS else operator
    return Foil(operator, family, text, only_adds(caption, text))


def only_adds(caption: str, negative: str) -> bool:
    """Whether a negative has all words of its caption in their order, and more: "a dog" -> "a black dog on a couch".

    Upper case and punctuation at the ends of words do not count.
    """
    said, longer = ([word.strip(".,;:!?\"'").lower() for word in text.split()] for text in (caption, negative))
    words = iter(longer)
    return len(said) < len(longer) and all(word in words for word in said)


def _pairs(file: Path) -> Items:
    """The records of one file, those of one caption that follow each other as one item."""
    for (image, text), records in groupby(_records(file), lambda record: (record.image, record.captions[0])):
        if image is None:
            raise ValueError("a record must name its image")
        path = Path(image.removeprefix("images/") if Path(image).suffix else f"{image}.jpg")  # a number in CREPE
        foils: list[Foil] = []
        for record in records:
            second = next(iter(record.captions[1:]), None)
            for false, label in record.negatives:
                operator = label if label != file.stem or not record.split else ALL  # as in NegCLIP's files of splits
                foils.append(_foil(operator, text, false))
        yield Item((_image(path),), text, second, tuple(foils))


def _records(file: Path) -> Iterator[Foreign]:
    for record in read_pairs(str(file)):
        if isinstance(record, Rejected):
            raise ValueError(f"record {record.line}: {record.detail}")
        yield record


def _json(file: Path) -> Items:
    """COCO's captions with `negatives` in each annotation; other files as `_pairs`."""
    try:
        yield from _pairs(file)
    except NoColumnError:
        data = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or "annotations" not in data:
            raise
        names = {image["id"]: image["file_name"] for image in data["images"]}
        for row in data["annotations"]:
            foils = tuple(_foil(one["operator"], row["caption"], one["caption"]) for one in row.get("negatives", ()))
            if foils:
                yield Item((_image(Path(names[row["image_id"]])),), row["caption"], None, foils)


def _csv(file: Path) -> Items:
    """NegBench's multiple choice; other files as `_pairs`."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if "correct_answer" not in (rows.fieldnames or ()):
            yield from _pairs(file)
            return
        for row in rows:
            options = [row[name] for name in row if name.startswith("caption_")]
            true = options.pop(int(row["correct_answer"]))
            template = row.get("correct_answer_template") or ALL
            yield Question((_image(Path(row["image_path"])),), true, tuple(options), template)


def _jsonl(file: Path) -> Items:
    """Winoground, `{"image_0", "image_1", "caption_0", "caption_1", "tag"}` a line; other files as `_pairs`."""
    with file.open(encoding="utf-8") as lines:
        for line in raw_lines(lines):
            row = json.loads(line)
            if "caption_1" not in row or "image_1" not in row:
                yield from _pairs(file)
                return
            first, second = (_image(Path(row[name])) for name in ("image_0", "image_1"))
            operator = row.get("operator") or row.get("tag") or ALL
            yield Quad((first, second), (row["caption_0"], row["caption_1"]), operator)


READERS: dict[str, Callable[[Path], Items]] = {
    ".json": _json,
    ".csv": _csv,
    ".tsv": _pairs,
    ".parquet": _pairs,
    ".jsonl": _jsonl,
}
