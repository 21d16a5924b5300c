"""CLIP_benchmark's WebDataset for retrieval: `{split}/0.tar`, `{split}/nshards.txt`, `dataset_type.txt`.

A sample is an image, with all its captions as the lines of `.txt`; true captions only.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from .publication import IMAGE, Column, FileSet, Publication, RecordSet
from .webdataset import KEY, SUFFIXES, Shards

TYPE, NUMBER = "dataset_type.txt", "nshards.txt"
CAPTIONS = Column("captions", "the captions of the image, one a line", property="content")


class Numbered(Shards):
    """Tar files that are named as CLIP_benchmark expects them: `test/0.tar`, `test/1.tar`, …"""

    def named(self, number: int) -> str:
        """`test/0.tar`."""
        return f"{self.split}/{number}.tar"


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the tar files of every split and the two small files that describe them; sets of captions and of images."""
    assert publication.images is not None
    splits: dict[str, Shards] = {}
    for examples in publication.by_image():
        for split in dict.fromkeys(example.split for example in examples):
            texts = [" ".join(example.text.split()) for example in examples if example.split == split]
            image = examples[0].image
            suffix = PurePosixPath(image).suffix.lower()
            shards = splits.setdefault(split, Numbered(folder, split))
            parts = {".txt": "\n".join(texts).encode(), SUFFIXES.get(suffix, suffix): publication.images.read(image)}
            shards.add(parts)
    (folder / TYPE).write_text("retrieval\n", encoding="utf-8")
    for split, shards in splits.items():
        shards.close()
        (folder / split / NUMBER).write_text(f"{len(shards.names)}\n", encoding="utf-8")
    picture = Column("image", "the image", IMAGE, property="content")
    return [
        RecordSet(
            f"{split}-{what}", f"{what} of the samples", (KEY, column), FileSet(f"*{suffix}", tuple(shards.names))
        )
        for split, shards in splits.items()
        for suffix in sorted(shards.suffixes)
        for what, column in [("captions", CAPTIONS) if suffix == ".txt" else (f"images-{suffix[1:]}", picture)]
    ]
