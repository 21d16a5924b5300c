"""VSE++ "precomp" captions: `{split}_caps.txt` with five lines per image, all of a folder or one such file.

Faghri et al. 2018, "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives". The names of the images are the
lines of `{split}_images.txt` in the same folder. Without that file an image is named `{split}_{index}`, where index is
its row in `{split}_ims.npy`, from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from .files import filesystem, folder_of, is_folder, join, lines, name_of, names
from .record import ReadOptions, Record, Rejected

EXPECTED = "VSE++ captions, five lines per image"
CAPTIONS_PER_IMAGE = 5
GROUPED = True
CAPTIONS = re.compile(r"(?P<split>.+)_caps\.txt(?:\.(?:gz|bz2|xz))?")
SPLIT_ORDER = {split: order for order, split in enumerate(("train", "val", "dev", "test"))}


def files(source: str, options: ReadOptions) -> list[str]:
    """The files of VSE++'s layout that are read: for each split, its captions, then its image list if there is one."""
    return [url for captions, images in _splits(source).values() for url in (captions, images) if url]


def records(source: str, options: ReadOptions) -> Iterator[Record | Rejected]:
    """The captions of VSE++'s layout, one record each, in file order, the train split first.

    Raises ValueError when a file does not have five lines for each image.
    """
    for split, (captions, images) in _splits(source).items():
        name = name_of(captions)
        listed = lines(images, "a list of image names") if images else (f"{split}_{index}" for index in count())
        image: str | None = None
        line = 0
        for line, text in enumerate(lines(captions, EXPECTED), 1):
            number = (line - 1) % CAPTIONS_PER_IMAGE
            if number == 0:
                image = next(listed, None)
                if image is None:
                    raise ValueError(f"{captions}: must have 5 lines for each line of {name_of(images)}, has more")
            yield Record(name, line, image, text, split, options.language, number)
        if line % CAPTIONS_PER_IMAGE or (images and next(listed, None) is not None):
            rule = f"5 lines for each line of {name_of(images)}" if images else "5 lines per image"
            raise ValueError(f"{captions}: must have {rule}, has only {line} lines")


def _splits(source: str) -> dict[str, tuple[str, str]]:
    """By split, in reading order: the file of captions, and the image list ("" where there is none)."""
    if is_folder(source):
        folder, wanted = source, names(source)
    else:
        folder, wanted = folder_of(source), [name_of(source)]
    found = {match["split"]: name for name in wanted if (match := CAPTIONS.fullmatch(name))}
    if not found:
        raise FileNotFoundError(f"{source}: has no VSE++ captions, expected files named <split>_caps.txt")
    splits = sorted(found, key=lambda split: (SPLIT_ORDER.get(split, len(SPLIT_ORDER)), split))
    return {split: (join(folder, found[split]), _if_there(join(folder, f"{split}_images.txt"))) for split in splits}


def _if_there(url: str) -> str:
    fs, path = filesystem(url)
    return url if fs.isfile(path) else ""
