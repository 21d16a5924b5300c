"""Formats, what their rows are made of, and the files that they are written to, row by row."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from ...augment.settings import AtLeastOne, Operators, Photos, Refined, Seed, Settings, Splits, Vetted
from ...schemas.fields import table_of
from ...schemas.images import image_fault
from ..tables.examples import Row, by_caption, by_image, example_tables
from ..tables.images import Box, Images

if TYPE_CHECKING:
    import pandas as pd

IMAGES = "images"
TEXT = "sc:Text"
INTEGER = "sc:Integer"
FLOAT = "sc:Float"
IMAGE = "sc:ImageObject"


class Column(NamedTuple):
    """A field of a record set, for Croissant readers.

    Attributes:
        name: of the field and, unless there is a path or property, of the table's column that holds it.
        description: what it holds.
        type: the schema.org type of its value.
        path: the JSON path of its value in the file.
        property: the property of the file that is its value: content, filename or fullpath.
        member: a JSON path inside what path, property or column give; the value is there.
        regex: the value is the first group of its match in what the fields before give.
        repeated: whether the value is a list.
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
    """Files that match a glob, also inside `archives`; listed: whether each is described with its digest, too."""

    pattern: str
    archives: tuple[str, ...] = ()
    listed: bool = True


class RecordSet(NamedTuple):
    """The records of one file, whose path is `name`; or of the file set `files`, and `name` is only a label."""

    name: str
    description: str
    columns: tuple[Column, ...]
    files: FileSet | None = None


class PublishOptions(Settings):
    """What is published, and how."""

    format: str = Field(
        description="format to write: for test sets sugarcrepe, sugarcrepe++, aro, valse, negbench, clip_benchmark or "
        "lmms-eval; for training negclip, vse-c, webdataset or snli; for both huggingface or coco"
    )
    license: str = Field(description="terms for captions and images: an SPDX id, a URL or a name")
    split: Splits = ()
    operators: Operators = ()
    refined: Refined = False
    vetted: Vetted = False
    per_operator: AtLeastOne | None = Field(
        None, description="negatives per caption and operator, at most; none: as usual in the format"
    )
    seed: Seed = 0
    images: Photos = None
    boxes: Path | None = Field(None, description="CSV of image_id,x,y,width,height instead of whole images")
    copy_images: bool = Field(False, description="also publish the image files, in images/")
    skip_missing: bool = Field(False, description="leave out captions whose image file is missing")
    skip_leaks: bool = Field(False, description="leave out captions that are also in the train split")
    max_blind: Annotated[float, Field(ge=50, le=100)] = Field(
        60.0,
        description="highest allowed accuracy, in %, of the text-only baselines: refused if the whole 95 % interval is "
        "above it",
    )
    allow_blind: bool = Field(
        False, description="publish even if negatives can be guessed from the text alone; the card says so"
    )
    allow_unchecked: bool = Field(
        False,
        description="publish negatives of presets vse-c-paper and univse-paper, which may be true; the card says so",
    )
    image_root: str = Field(
        "", description="prefix of image paths that readers open as they are, e.g. an absolute folder"
    )
    names: Literal["negcap", "sugarcrepe"] = Field(
        "negcap", description="names of the files of sugarcrepe: operators (negcap), or SugarCrepe's parts (sugarcrepe)"
    )
    votes: tuple[Path, ...] = Field((), description="annotation sheets, between commas, for valse")
    name: str = Field("", description="name of the data set; by default negcap-FORMAT")
    url: str = Field("", description="URL of the data set, for the Croissant metadata")
    creator: str = Field("", description="who publishes the data set, for the Croissant metadata")
    date: str = Field("", description="date of publication, YYYY-MM-DD, for the Croissant metadata")
    cite: str = Field("", description="how to cite the data set, for the Croissant metadata")


@dataclass(frozen=True)
class Publication:
    """The captions and negatives of a run that are published in a format, with their images.

    Attributes:
        run, config, format: what is published, and how.
        splits, operators: those that are published.
        images: the image folder, if there is one.
        boxes: by image_id, the region that its captions describe.
        votes: by negative_id, the number of annotators with each answer.
        accepted: the negative_ids that may be published; None for all.
        left_out: the caption_ids that are not published.
        p_true: by negative_id, a probability that replaces the estimate in the table.
    """

    run: Path
    config: PublishOptions
    format: Format
    splits: tuple[str, ...]
    operators: tuple[str, ...]
    images: Images | None = None
    boxes: Mapping[str, Box] = field(default_factory=dict)
    votes: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    accepted: frozenset[str] | None = field(default=None, repr=False)
    left_out: frozenset[str] = field(default=frozenset(), repr=False)
    p_true: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def table(self) -> str:
        """The table of the negatives; "" if there are none."""
        return ("refined" if self.config.refined else "negatives") if self.operators else ""

    @cached_property
    def split_names(self) -> dict[str, str]:
        """By split of the run, its name in the format's files."""
        return self.format.name_splits(self.splits)

    @property
    def per_operator(self) -> int | None:
        """How many negatives of each caption and operator are published, at most; None: all."""
        return self.config.per_operator or self.format.per_operator

    @property
    def image_folder(self) -> str:
        """Where published image files are: in `images`, or where readers of SugarCrepe look, in `val2017`."""
        return "val2017" if self.config.names == "sugarcrepe" else IMAGES

    @property
    def prefix(self) -> str:
        """The prefix of paths that readers open as written: `image_root`, else `images/` if files are published."""
        if self.config.image_root:
            return self.config.image_root.rstrip("/") + "/"
        return f"{self.image_folder}/" if self.config.copy_images else ""

    def tables(self) -> Iterator[pd.DataFrame]:
        """The rows (see `example_tables`) that the format can hold, with image paths as found in the image folder.

        Images are shuffled unless the format keeps the run's order. A path that `image_fault` refuses stays as it is;
        its captions must be in `left_out` before anything is written.
        """
        tables = example_tables(
            self.run,
            self.operators,
            self.splits,
            shuffle=None if self.format.ordered else self.config.seed,
            table=self.table,
            accepted=self.accepted,
            left_out=self.left_out,
            p_true=self.p_true,
            per_operator=self.per_operator,
            distinct=True,
        )
        for rows in tables:
            kept = self.format.prepare(rows)
            path_of_image = {name: self._find_image(name) for name in kept["image"].unique()}
            yield kept.assign(image=kept["image"].map(path_of_image))

    def _find_image(self, name: str) -> str:
        """The path of an image in the image folder; the name itself if it is not there or must not be looked for."""
        if self.images is None or image_fault(name) is not None:
            return name
        return self.images.find(name) or name

    def rows(self) -> Iterator[Row]:
        """All rows, one by one."""
        for table in self.tables():
            yield from table.itertuples()

    def by_image(self) -> Iterator[list[Row]]:
        """The rows of each image."""
        return by_image(self.rows())

    def by_caption(self) -> Iterator[list[Row]]:
        """The rows of each caption."""
        return by_caption(self.rows())

    def file(self, split: str, name: str) -> str:
        """The path of a split's file of this name: in a folder of the split, if several are published."""
        return name if len(self.splits) == 1 else f"{split}/{name}"

    def box(self, row: Row) -> Box:
        """The region of the image that a caption describes: its given box, else the whole image (or ValueError)."""
        if row.image_id in self.boxes:
            return self.boxes[row.image_id]
        if self.images is None:
            raise ValueError(f"no box for image {row.image_id}: give --images, or its box in --set boxes=FILE")
        return self.images.box(row.image)

    def read(self, row: Row) -> bytes:
        """The bytes of the image file of a row, in formats with images."""
        assert self.images is not None
        return self.images.read(row.image)


def with_negatives(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a negative."""
    return rows[rows["negative_id"].notna()]


class OutputFile(Protocol):
    """A file that is written part by part."""

    def add(self, content: Any) -> None:
        """Write the next part, of the type that the kind of file takes."""

    def close(self) -> None:
        """Write what comes at the end."""


class Addition(NamedTuple):
    """A part of a published file. file: its path in the output folder; content: what its `OutputFile` takes."""

    file: str
    content: object


Rows = Iterator[Addition]
# By path, the files of a format, all of one kind of `OutputFile`.
Files = Mapping[str, Any]
Json = dict[str, Any]
Finish = Callable[[Publication, Path, Files], list[RecordSet]]


@dataclass(frozen=True)
class Format:
    """A file format that other programs read.

    Attributes:
        rows: the parts of files that a publication is made of, in order.
        open: opens a file of the format.
        what: the format in a phrase.
        use: how to read it, in Markdown with `$file` (the first), `$split` and `$operator`.
        holds, columns: what a row is, and its fields, if each file is a record set; see `finish`.
        finish: called after the rows, with the folder and the files: writes further files, and returns the record sets.
            None: each file is a record set.
        per_operator: the most negatives per caption and operator, if the config sets none; None: all.
        negatives: whether it holds negatives.
        images: what it needs of the images: their names, sizes or files.
        siblings: whether its rows hold other captions of the image.
        votes: whether only negatives with votes are published.
        embeds: whether image files are inside its own.
        training: whether it is for training, so that negatives may be guessable.
        ordered: whether images stay in the run's order, as features made of them do. Else they are shuffled, since many
            sources are in order of topics, whose first rows alone can be guessed.
        prepare: selects the rows of a shard that it can hold.
        card_fields: fields of the data card's head, given the splits of each operator.
        name_splits: given the run's names of splits, returns the name of each in the files.
    """

    rows: Callable[[Publication], Rows]
    open: Callable[[Path, Publication], OutputFile]
    what: str
    use: str
    holds: str = ""
    columns: tuple[Column, ...] = ()
    finish: Finish | None = None
    per_operator: int | None = None
    negatives: bool = True
    images: Literal["names", "sizes", "files"] = "names"
    siblings: bool = False
    votes: bool = False
    embeds: bool = False
    training: bool = False
    ordered: bool = False
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = with_negatives
    card_fields: Callable[[Mapping[str, Sequence[str]]], Json] = lambda _: {}
    name_splits: Callable[[Sequence[str]], dict[str, str]] = lambda splits: {split: split for split in splits}

    def write(self, publication: Publication, folder: Path) -> list[RecordSet]:
        """Write the files of a publication into a folder; returns their record sets."""
        files: dict[str, OutputFile] = {}
        with ExitStack() as closed_at_end:
            for name, content in self.rows(publication):
                if name not in files:
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    files[name] = closed_at_end.enter_context(closing(self.open(folder / name, publication)))
                files[name].add(content)
        if self.finish is not None:
            return self.finish(publication, folder, files)
        return [RecordSet(name, self.holds, self.columns) for name in files]


class Keyed(NamedTuple):
    """A value of a JSON object, and its key."""

    key: str
    value: object


class JsonFile:
    """A JSON file of one list or object, a row per line, in ASCII: some readers open it in their system's encoding."""

    def __init__(self, file: Path, _: Publication, head: str = "[", foot: str = "]", between: str = ",") -> None:
        """Create the file. `head` and `foot` are lines around the rows, `between` follows each row but the last."""
        self.file = file.open("w", encoding="utf-8", newline="\n")
        self.foot = foot
        self.between = between
        self.before = head  # what is written before the next row: the head, later `between`

    def add(self, content: object) -> None:
        """Write a row: a value of a list, or a `Keyed` one of an object."""
        key = ""
        if isinstance(content, Keyed):
            key = f"{json.dumps(content.key)}: "
            content = content.value
        starts_file = not self.before and not self.file.tell()  # without a head, the first row is the first line
        start = "" if starts_file else f"{self.before}\n"
        self.file.write(start + key + json.dumps(content))
        self.before = self.between

    def close(self) -> None:
        """Write the last line."""
        self.file.write(f"\n{self.foot}\n" if self.foot else "\n")
        self.file.close()


class TableFile:
    """A text table with a header, written row by row with the quoting that pandas uses."""

    def __init__(self, file: Path, header: Sequence[str], delimiter: str = ",") -> None:
        self.file = file.open("w", encoding="utf-8", newline="")
        self.writer = csv.writer(self.file, delimiter=delimiter, lineterminator="\n")
        self.add(header)

    def add(self, content: Sequence[object]) -> None:
        """Write a row of cells."""
        self.writer.writerow(content)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class LinesFile(NamedTuple):
    """A text file that is closed after each addition, as there may be too many to keep them open."""

    file: Path

    def add(self, content: Sequence[str]) -> None:
        """Write lines, maybe none."""
        # Opened for each addition: VSE-C has a file for each caption, more than a process may have open.
        with self.file.open("a", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in content)

    def close(self) -> None:
        """Do nothing, since no file is open."""


class FileSizes(NamedTuple):
    """The most rows of a Parquet file, and those of each of its row groups, which are collected in memory."""

    file: int
    group: int


WITH_PATHS = FileSizes(100_000, 10_000)
WITH_IMAGES = FileSizes(2_000, 100)
EMBEDDED = Column("image", "the image", IMAGE, member="bytes")


class ParquetFiles:
    """The rows of one operator and split, as Parquet files of at most 100,000 rows, or 2,000 if they hold images."""

    def __init__(self, stem: Path, columns: Sequence[Column], sizes: FileSizes | None = None) -> None:
        """Write files `{stem}-00000-of-000NN.parquet`.

        Args:
            stem: what the paths of the files begin with.
            columns: of the table; with EMBEDDED it holds the images themselves.
            sizes: of files and row groups; None: WITH_IMAGES for a table with images, else WITH_PATHS.
        """
        self.stem = stem
        self.schema = schema(columns)
        self.sizes = sizes or (WITH_IMAGES if EMBEDDED in columns else WITH_PATHS)
        self.waiting: list[Sequence[object]] = []
        self.writers: list[pq.ParquetWriter] = []
        # How many rows still fit into the last file; at 0 the next row begins a new one.
        self.room = 0

    def add(self, content: Sequence[object]) -> None:
        """Add a row, its values in the order of the columns."""
        self.waiting.append(content)
        # Enough rows for a row group, or to fill the file; with no room left they go to a new file.
        if len(self.waiting) == min(self.sizes.group, self.room or self.sizes.file):
            self._flush()

    def _flush(self) -> None:
        """Write the waiting rows as a row group of the last file; of a new one if that is full."""
        if not self.room:
            self.room = self.sizes.file
            if self.writers:
                self.writers[-1].close()
            file = self.stem.with_name(f"{self.stem.name}-{len(self.writers):05d}")
            self.writers.append(pq.ParquetWriter(file, self.schema, compression="zstd"))
        self.writers[-1].write_table(table_of(self.waiting, self.schema))
        self.room -= len(self.waiting)
        self.waiting = []

    def close(self) -> None:
        """Write the remaining rows, and rename the files now that their number is known."""
        # The hub wants the number of files in the name of each, which is known only at the end.
        if self.waiting:
            self._flush()
        for number, writer in enumerate(self.writers):
            writer.close()
            file = self.stem.with_name(f"{self.stem.name}-{number:05d}")
            file.rename(file.with_name(f"{file.name}-of-{len(self.writers):05d}.parquet"))


def schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of columns, with the metadata from which `datasets` knows which column holds images."""
    image = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    types = {FLOAT: pa.float32(), TEXT: pa.string(), INTEGER: pa.int64(), IMAGE: image}
    features = {}
    for column in columns:
        value = {"dtype": str(types[column.type]), "_type": "Value"}
        features[column.name] = {"_type": "Image"} if column.type == IMAGE else value
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([pa.field(column.name, types[column.type]) for column in columns], metadata=metadata)


SAMPLES = 5000  # in a tar file, at most


class Tars:
    """Tar files with up to 5,000 samples each; their bytes depend only on the samples."""

    def __init__(self, name: Path, most: int = SAMPLES) -> None:
        """Write to files named `name`, whose {} stands for the file's number (`train-{}.tar`): `most` samples each."""
        self.name = name
        self.most = most
        self.suffixes: set[str] = set()
        self.samples = 0
        self.sizes: dict[str, int] = {}  # by the name of a tar file, the number of samples in it
        self.tar: tarfile.TarFile | None = None

    def add(self, content: Mapping[str, bytes]) -> None:
        """Add a sample: the contents of its members by their suffix."""
        file = self.name.with_name(self.name.name.format(self.samples // self.most))
        if file.name not in self.sizes:
            self.close()
            self.tar = tarfile.open(file, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115
        assert self.tar is not None
        for suffix, data in content.items():
            self.suffixes.add(suffix)
            entry = tarfile.TarInfo(f"{self.samples:09d}{suffix}")  # no time, no owner
            entry.size = len(data)
            self.tar.addfile(entry, io.BytesIO(data))
        self.samples += 1
        self.sizes[file.name] = self.sizes.get(file.name, 0) + 1

    def close(self) -> None:
        """Close the tar file that is being written, if any."""
        if self.tar is not None:
            self.tar.close()
