"""WebDataset: tar files `{split}-00000.tar`; one sample per caption: the image, `.txt` and `.neg.json`.

`sizes.json` has the number of samples in each file.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from .publication import IMAGE, Column, FileSet, Publication, RecordSet

SAMPLES = 5000
SIZES = "sizes.json"  # samples by tar file, by which OpenCLIP knows the length of an epoch
SUFFIXES = {".jpeg": ".jpg", "": ".jpg"}
KEY = Column("key", "number of the sample, the same for all its members", property="filename", regex=r"(\d+)\.")
PICTURE = Column("image", "the image", IMAGE, property="content")
MEMBERS = {  # by suffix; one Croissant record set each, since Croissant readers handle one kind of archive member each
    ".txt": ("captions", Column("caption", "the true caption", property="content")),
    ".neg.json": ("negatives", Column("negatives", "the negatives of the caption, as JSON", property="content")),
}


class Shards:
    """A split's tar files, each with up to 5,000 samples; their bytes depend only on the samples."""

    def __init__(self, folder: Path, split: str) -> None:
        """Files `{split}-00000.tar`, … are created in `folder`, the first with the first sample."""
        self.folder, self.split = folder, split
        self.names: list[str] = []
        self.suffixes: set[str] = set()
        self.samples = 0
        self.sizes: dict[str, int] = {}
        self.tar: tarfile.TarFile | None = None

    def add(self, parts: dict[str, bytes]) -> None:
        """Add a sample: the contents of its members by their suffix."""
        if self.tar is None or self.samples % SAMPLES == 0:
            self.close()
            self.names.append(self.named(self.samples // SAMPLES))
            (self.folder / self.names[-1]).parent.mkdir(exist_ok=True)
            self.tar = tarfile.open(self.folder / self.names[-1], "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115
        for suffix, data in parts.items():
            self.suffixes.add(suffix)
            entry = tarfile.TarInfo(f"{self.samples:09d}{suffix}")  # no time, no owner
            entry.size = len(data)
            self.tar.addfile(entry, io.BytesIO(data))
        self.samples += 1
        self.sizes[self.names[-1]] = self.sizes.get(self.names[-1], 0) + 1

    def named(self, number: int) -> str:
        """The path of a tar file by its number."""
        return f"{self.split}-{number:05d}.tar"

    def close(self) -> None:
        """Close the tar file that is being written, if any."""
        if self.tar is not None:
            self.tar.close()


def write(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the tar files of every split; per split, one RecordSet for each kind of archive member."""
    assert publication.images is not None
    splits: dict[str, Shards] = {}
    for example in publication.examples():
        suffix = PurePosixPath(example.image).suffix.lower()
        negatives = [negative._asdict() for negative in example.negatives]
        keys = {"caption_id": example.caption_id, "image_id": example.image_id, "image": example.image}
        if example.split not in splits:
            splits[example.split] = Shards(folder, example.split)
        splits[example.split].add(
            {
                SUFFIXES.get(suffix, suffix): publication.images.read(example.image),
                ".txt": example.text.encode(),
                ".neg.json": json.dumps({**keys, "negatives": negatives}, ensure_ascii=False).encode(),
            }
        )
    for shards in splits.values():
        shards.close()
    sizes = {name: size for shards in splits.values() for name, size in shards.sizes.items()}
    (folder / SIZES).write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")
    return [record for shards in splits.values() for record in _records(shards)]


def _records(shards: Shards) -> Iterator[RecordSet]:
    for suffix in sorted(shards.suffixes):
        name, column = MEMBERS.get(suffix, (f"images-{suffix[1:]}", PICTURE))
        files = FileSet(f"*{suffix}", tuple(shards.names))
        yield RecordSet(f"{shards.split}-{name}", f"{name} of the samples", (KEY, column), files)
