"""What a format's writer is given, and how it describes the files that it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..tables.examples import Example, Negative, Prepare, Selection, with_negatives
from ..tables.images import Box, Images, safe_path

IMAGES = "images"
TEXT, INTEGER, FLOAT, IMAGE = "sc:Text", "sc:Integer", "sc:Float", "sc:ImageObject"


class Column(NamedTuple):
    """A field of a record set, and where in a file a Croissant reader finds it.

    By default it is the table column of this name. path: it is at this JSON path instead; property: it is a property
    of the file (`content`, `filename`, `fullpath`). member, regex: the field is only a part of the value found there,
    the one at the JSON path `member` in it, or the first group of `regex`. repeated: a record has a list of such
    values. type: a schema.org type.
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
    """Files that match a glob pattern, in the published folder or inside the `archives` in it.

    listed: whether the metadata also describe every file separately, with its digest; False if there are thousands.
    """

    pattern: str
    archives: tuple[str, ...] = ()
    listed: bool = True


class RecordSet(NamedTuple):
    """The records of one file, whose path is `name`; or of the file set `files`, and `name` is only a label."""

    name: str
    description: str
    columns: tuple[Column, ...]
    files: FileSet | None = None


@dataclass(frozen=True)
class Publication:
    """A selection of captions and negatives, with its images.

    images: the folder of the image files, or None; boxes: by image_id, the region of the image that its captions
    describe; with_images: whether the image files are published too, in the folder `image_folder`; license: its name,
    for formats that state it. root: what precedes an image's path in formats whose readers open it as it is written;
    empty: see `prefix`. names: whose names files of operators have, "negcap" or "sugarcrepe". votes: by negative_id,
    for formats with `votes`.
    """

    selection: Selection
    images: Images | None = None
    boxes: Mapping[str, Box] = field(default_factory=dict)
    with_images: bool = False
    license: str = ""
    root: str = ""
    names: str = "negcap"
    votes: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)

    @property
    def image_folder(self) -> str:
        """Where published image files are: in `images`, or where readers of SugarCrepe look, in `val2017`."""
        return "val2017" if self.names == "sugarcrepe" else IMAGES

    @property
    def prefix(self) -> str:
        """What precedes an image's path in formats whose readers open it as it is written: `root`, `images/` or ""."""
        if self.root:
            return self.root.rstrip("/") + "/"
        return f"{self.image_folder}/" if self.with_images else ""

    def by_image(self) -> Iterator[list[Example]]:
        """The examples of each image; image paths are as found in the image folder, if there is one."""
        for examples in self.selection.images():
            yield [example._replace(image=located(example.image, self.images)) for example in examples]

    def examples(self) -> Iterator[Example]:
        """All examples, one by one, in the order of the run."""
        for examples in self.by_image():
            yield from examples

    def pairs(self) -> Iterator[tuple[Example, Negative]]:
        """Each example with each of its negatives."""
        for example in self.examples():
            for negative in example.negatives:
                yield example, negative

    def file(self, split: str, name: str) -> str:
        """The path of a split's file of this name: in a folder of the split, if several are published."""
        return name if len(self.selection.splits) == 1 else f"{split}/{name}"

    def box(self, example: Example) -> Box:
        """The region of the image that an example describes: the box given for the image, else the whole image.

        Raises ValueError if there is neither a box nor an image folder.
        """
        given = self.boxes.get(example.image_id)
        if given is not None:
            return given
        if self.images is None:
            raise ValueError(f"no box for image {example.image_id}: give --images, or its box in --set boxes=FILE")
        return self.images.box(example.image)


def located(image: str, images: Images | None) -> str:
    """The path under which an image is published. Raises ValueError for one that leads out of the image folder."""
    return safe_path(image) if images is None else images.find(image) or image


Write = Callable[[Publication, Path], list[RecordSet]]


@dataclass(frozen=True)
class Format:
    """A file format that other programs read.

    write: writes the files into a folder and returns their record sets; what: the format in a phrase; use: how to
    read it, in Markdown, with the placeholders `$file` (the first file), `$split` and `$operator`. per_caption:
    default number of negatives per caption and operator, None for all. negatives: whether it contains negatives.
    images: what it needs to know of the images: only their names, their sizes, or their files. siblings: whether its
    rows contain other captions of the image too. votes: whether every negative has the votes of people or models on it,
    and others are left out. embeds: whether published image files are inside the format's own
    files. prepare: keeps those captions of an image that the format can hold. card_fields: further fields for the head
    of the data card, computed from the splits in which each operator has negatives.
    """

    write: Write
    what: str
    use: str
    per_caption: int | None = None
    negatives: bool = True
    images: Literal["names", "sizes", "files"] = "names"
    siblings: bool = False
    votes: bool = False
    embeds: bool = False
    prepare: Prepare = with_negatives
    card_fields: Callable[[Mapping[str, Sequence[str]]], dict[str, Any]] = lambda _: {}
