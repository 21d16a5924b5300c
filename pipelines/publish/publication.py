"""What a format is given to write, and how it describes the files that it wrote."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, NamedTuple

from negcap.pipelines.publish.selection import Example, Prepare, Selection, with_negatives
from negcap.pipelines.tables.images import Box, Images, safe_path

IMAGES = "images"
TEXT, INTEGER, FLOAT, IMAGE = "sc:Text", "sc:Integer", "sc:Float", "sc:ImageObject"


class Column(NamedTuple):
    """A field of a record set, and where in a file a Croissant reader finds it.

    By default in the table column of its name. path: at this JSON path; property: in a property of the file
    (`content`, `filename`, `fullpath`). From the value found there, member takes what stands at a JSON path in it, and
    regex its first group. repeated: a record has a list of such values.
    """

    name: str
    description: str
    type: str = TEXT
    path: str = ""
    property: str = ""
    member: str = ""
    regex: str = ""
    repeated: bool = False


class FileSet(NamedTuple):
    """Files that a glob pattern names, in the published folder or inside of archives in it.

    listed: the metadata describe every file by itself too, with its digest; False where there are thousands.
    """

    pattern: str
    archives: tuple[str, ...] = ()
    listed: bool = True


class RecordSet(NamedTuple):
    """Records of one file, or of the file set `files`: then `name` is only a name."""

    name: str
    description: str
    columns: tuple[Column, ...]
    files: FileSet | None = None


@dataclass(frozen=True)
class Publication:
    """A selection with its images.

    images: the folder of the image files, if one is given; boxes: the part of an image that its captions are of, by
    image_id; with_images: the image files are published too; license: the terms, for formats that state them.
    """

    selection: Selection
    images: Images | None = None
    boxes: Mapping[str, Box] = field(default_factory=dict)
    with_images: bool = False
    license: str = ""

    @property
    def prefix(self) -> str:
        """The folder before an image's path, in formats whose readers open the path as it is written."""
        return f"{IMAGES}/" if self.with_images else ""

    def by_image(self) -> Iterator[list[Example]]:
        """The examples of each image; their paths are those found in the image folder, where one is given."""
        for examples in self.selection.images():
            yield [example._replace(image=located(example.image, self.images)) for example in examples]

    def examples(self) -> Iterator[Example]:
        """All examples, one after the other."""
        for examples in self.by_image():
            yield from examples

    def place(self, split: str) -> str:
        """The folder of a split's files, with its slash: `test/`; empty where one split alone is published."""
        return "" if len(self.selection.splits) == 1 else f"{split}/"

    def box(self, example: Example) -> Box:
        """The part of the image that an example is of: the box given for it, else the whole image.

        Raises ValueError with neither a box nor an image folder.
        """
        given = self.boxes.get(example.image_id)
        if given is not None:
            return given
        if self.images is None:
            raise ValueError(f"no box for image {example.image_id}: give --images, or its box in --boxes")
        return self.images.box(example.image)


def located(image: str, images: Images | None) -> str:
    """An image's path as it is published. Raises ValueError for one that leads out of its folder."""
    return safe_path(image) if images is None else images.find(image) or image


Write = Callable[[Publication, Path], list[RecordSet]]


@dataclass(frozen=True)
class Format:
    """A file format that other programs read.

    write: writes the files into a folder and returns their record sets; what: the format in a phrase; use: how to
    read it, in Markdown, where `$file` stands for the first file, `$split` for a split and `$operator` for an operator
    that are there. per_caption: negatives a caption and operator by default, None: all. negatives: it holds some.
    images: what is needed of the images: nothing but their names, their sizes, or their files. siblings: other
    captions of an image stand in it too. embeds: published image files stand inside of the format's own files.
    prepare: which captions of an image it can hold. front: further fields for the head of the data card, from the
    splits that each operator has negatives in.
    """

    write: Write
    what: str
    use: str
    per_caption: int | None = None
    negatives: bool = True
    images: Literal["names", "sizes", "files"] = "names"
    siblings: bool = False
    embeds: bool = False
    prepare: Prepare = with_negatives
    front: Callable[[Mapping[str, Sequence[str]]], dict[str, Any]] = lambda _: {}


class JsonRows:
    """A JSON file of one list or one object, written row by row, a row a line.

    ASCII, as some who read it open it in whatever encoding their system has.
    """

    def __init__(self, file: Path, brackets: str = "[]") -> None:
        """Open the file, and the folders that it is in."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.brackets = brackets
        self.rows = 0
        self.file: IO[str] = file.open("w", encoding="utf-8", newline="\n")
        self.file.write(self.start())

    def start(self) -> str:
        """What stands before the rows."""
        return self.brackets[0]

    def end(self) -> str:
        """What stands behind the rows."""
        return self.brackets[1]

    def add(self, value: Any) -> None:
        """Write a row; in an object its key is its number."""
        key = f'"{self.rows}": ' if self.brackets == "{}" else ""
        start = ",\n" if self.rows else "\n"
        self.file.write(start + key + json.dumps(value))
        self.rows += 1

    def close(self) -> None:
        """Write the closing bracket."""
        self.file.write(f"\n{self.end()}\n")
        self.file.close()


class TableRows:
    """A table as text with a header, written row by row as pandas writes it: fields with quotes are quoted."""

    def __init__(self, file: Path, header: Sequence[str], delimiter: str = ",") -> None:
        """Open the file, and the folders that it is in."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file: IO[str] = file.open("w", encoding="utf-8", newline="")
        self.rows = csv.writer(self.file, delimiter=delimiter, lineterminator="\n")
        self.add(header)

    def add(self, values: Sequence[object]) -> None:
        """Write a row."""
        self.rows.writerow(values)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class Files(dict[str, Any]):
    """Open files by their path in the published folder, all closed at the end of a `with`."""

    def __init__(self, folder: Path, open: Callable[[Path], Any]) -> None:
        """Files of `folder`, each opened by `open` when it is first asked for."""
        super().__init__()
        self.folder, self.open = folder, open

    def __missing__(self, name: str) -> Any:
        self[name] = self.open(self.folder / name)
        return self[name]

    def __enter__(self) -> Files:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self.values():
            file.close()
