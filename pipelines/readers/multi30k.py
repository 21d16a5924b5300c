"""Multi30K folders: `{split}.{1..5}.{language}.gz` (task 2) or `{split}.{language}.gz` (task 1).

Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions". Line i of each file, gzipped or not, is
a caption of the image in line i of the split's image list. The list is `{split}_images.txt` or `{split}.txt`, in the
folder or in a folder `image_splits` beside it; its lines are `name.jpg` or `name.jpg#k`. Captions in the language of
ReadOptions are read, or in all languages for `all`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from .files import folder_of, is_folder, join, lines, name_of, names
from .record import ReadOptions, Record, Rejected

EXPECTED = "Multi30K captions, one per line"
GROUPED = True
CAPTIONS = re.compile(r"(?P<split>.+?)(?:\.(?P<number>\d))?\.(?P<language>(?!gz|xz)[a-z]{2})(?:\.(?:gz|bz2|xz))?")
_NUMBERED = re.compile(r"#\d+$")
_ORDER = {split: order for order, split in enumerate(("train", "val", "dev", "test"))}


def files(source: str, options: ReadOptions) -> list[str]:
    """The files of a Multi30K folder that are read: for each split, its image list, then its caption files."""
    return [url for images, captions in _splits(source, options).values() for url in (images, *captions)]


def records(source: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of a Multi30K folder, one record each: image by image, the train split first; those of an image
    sorted by language, then by file.

    Raises ValueError when a file has more or fewer lines than the split's image list, FileNotFoundError when the folder
    lacks the language or an image list.
    """
    for split, (image_list, captions) in _splits(source, options).items():
        sources = [name_of(url) for url in captions]
        languages = [_parsed(name)["language"] for name in sources]
        rows = zip_longest(lines(image_list, "a list of image names"), *(lines(url, EXPECTED) for url in captions))
        for line, (image, *texts) in enumerate(rows, 1):
            if image is None or None in texts:
                _raise_uneven(line, image_list, image, captions, texts)
            image = _NUMBERED.sub("", image)
            for number, text in enumerate(texts):
                yield Record(sources[number], line, image, text, split, languages[number], number)


def is_multi30k(folder: str) -> bool:
    """Whether a folder holds Multi30K captions."""
    return bool(_captions(folder, names(folder)))


def _parsed(name: str) -> dict[str, str]:
    found = CAPTIONS.fullmatch(name)
    return {} if found is None else {key: value or "" for key, value in found.groupdict().items()}


def _captions(folder: str, present: list[str]) -> list[str]:
    """The caption files: those with a number (`train.1.en`), and those without (`train.en`) that have an image list."""
    found = {name: _parsed(name) for name in present if CAPTIONS.fullmatch(name)}
    listed = {part["split"]: _image_list(folder, present, part["split"]) for part in found.values()}
    return [name for name, part in found.items() if part["number"] or listed[part["split"]]]


def _splits(source: str, options: ReadOptions) -> dict[str, tuple[str, list[str]]]:
    """By split, in reading order: the image list, and the caption files in the chosen languages."""
    if not is_folder(source):
        raise ValueError(f"{source}: a Multi30K source must be the folder of its files, was a file")
    present = names(source)
    parts = {name: _parsed(name) for name in _captions(source, present)}
    chosen = [name for name, part in parts.items() if options.language in (part["language"], "all")]
    if not chosen:
        languages = ", ".join(sorted({part["language"] for part in parts.values()})) or "none"
        raise FileNotFoundError(
            f"{source}: has no Multi30K files <split>.<1..5>.{options.language}.gz, or <split>.{options.language}.gz "
            f"with <split>_images.txt; languages there: {languages}"
        )
    chosen.sort(key=lambda name: (parts[name]["language"], parts[name]["number"], name))
    splits: dict[str, tuple[str, list[str]]] = {}
    for split in sorted({parts[name]["split"] for name in chosen}, key=lambda split: (_ORDER.get(split, 9), split)):
        images = _image_list(source, present, split)
        if not images:
            raise FileNotFoundError(
                f"{source}: has no {split}_images.txt, the list of the images of {split}, one per line"
            )
        splits[split] = images, [join(source, name) for name in chosen if parts[name]["split"] == split]
    return splits


def _image_list(source: str, present: list[str], split: str) -> str:
    """The file that lists a split's images; empty where there is none."""
    wanted = [f"{split}_images.txt", f"{split}.txt"]
    for name in wanted:
        if name in present:
            return join(source, name)
    beside = join(folder_of(source), "image_splits")
    try:
        there = names(beside) if is_folder(beside) else []
    except FileNotFoundError:
        there = []
    return next((join(beside, name) for name in wanted if name in there), "")


def _raise_uneven(line: int, images: str, image: str | None, captions: list[str], texts: list[str | None]) -> None:
    if image is None:
        longer = next(url for url, text in zip(captions, texts, strict=True) if text is not None)
        raise ValueError(f"{longer}: must have as many lines as {name_of(images)}, {line - 1}, has more")
    shorter = captions[texts.index(None)]
    raise ValueError(f"{shorter}: must have as many lines as {name_of(images)}, has only {line - 1}")
