"""Formats of tar files. webdataset: `{split}-00000.tar`, a sample per caption: the image, `.txt` and `.neg.json`, and
`sizes.json` with the number of samples of each file. clip_benchmark: `{split}/0.tar`, a sample per image with all its
captions as the lines of `.txt`, `{split}/nshards.txt` and `dataset_type.txt`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from .publication import IMAGE, Column, FileSet, Publication, RecordSet
from .writers import Tars

SIZES = "sizes.json"  # samples by tar file, by which OpenCLIP knows the length of an epoch
TYPE, NUMBER = "dataset_type.txt", "nshards.txt"
KEY = Column("key", "number of the sample, the same for all its members", property="filename", regex=r"(\d+)\.")
PICTURE = Column("image", "the image", IMAGE, property="content")
CAPTION = Column("caption", "the true caption", property="content")
CAPTIONS = Column("captions", "the captions of the image, one a line", property="content")
NEGATIVES = Column("negatives", "the negatives of the caption, as JSON", property="content")


def write_webdataset(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the tar files of every split; per split, one RecordSet for each kind of archive member."""
    splits: dict[str, Tars] = {}
    for example in publication.examples():
        keys = {"caption_id": example.caption_id, "image_id": example.image_id, "image": example.image}
        negatives = {**keys, "negatives": [negative._asdict() for negative in example.negatives]}
        false = json.dumps(negatives, ensure_ascii=False).encode()
        tars = splits.setdefault(example.split, Tars(folder, f"{example.split}-{{:05d}}.tar"))
        tars.add({**_picture(publication, example.image), ".txt": example.text.encode(), ".neg.json": false})
    for tars in splits.values():
        tars.close()
    sizes = {name: size for tars in splits.values() for name, size in tars.sizes.items()}
    (folder / SIZES).write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")
    kinds = {".txt": ("captions", CAPTION), ".neg.json": ("negatives", NEGATIVES)}
    return [record for split, tars in splits.items() for record in _records(split, tars, kinds)]


def write_clip_benchmark(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the tar files of every split and the two small files that describe them; sets of captions and of images."""
    splits: dict[str, Tars] = {}
    for examples in publication.by_image():
        for split in dict.fromkeys(example.split for example in examples):
            texts = [" ".join(example.text.split()) for example in examples if example.split == split]
            tars = splits.setdefault(split, Tars(folder, f"{split}/{{}}.tar"))
            tars.add({".txt": "\n".join(texts).encode(), **_picture(publication, examples[0].image)})
    (folder / TYPE).write_text("retrieval\n", encoding="utf-8")
    for split, tars in splits.items():
        tars.close()
        (folder / split / NUMBER).write_text(f"{len(tars.sizes)}\n", encoding="utf-8")
    kinds = {".txt": ("captions", CAPTIONS)}
    return [record for split, tars in splits.items() for record in _records(split, tars, kinds)]


def _picture(publication: Publication, image: str) -> dict[str, bytes]:
    """An image by the suffix of its archive member."""
    assert publication.images is not None
    suffix = PurePosixPath(image).suffix.lower()
    return {{".jpeg": ".jpg", "": ".jpg"}.get(suffix, suffix): publication.images.read(image)}


def _records(split: str, tars: Tars, kinds: Mapping[str, tuple[str, Column]]) -> Iterator[RecordSet]:
    """One record set per kind of archive member, since Croissant readers handle one kind each."""
    for suffix in sorted(tars.suffixes):
        name, column = kinds.get(suffix, (f"images-{suffix[1:]}", PICTURE))
        files = FileSet(f"*{suffix}", tuple(tars.sizes))
        yield RecordSet(f"{split}-{name}", f"{name} of the samples", (KEY, column), files)
