"""Stage import: a set of captions and negatives that others made -> captions and proposals, which are then judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pydantic import Field

from ...augment.reproducible import shuffle_key
from ...augment.settings import AtLeastOne, Settings
from ...schemas.captions import CAPTIONS, LANGUAGE, REJECTED_RECORDS
from ...schemas.negatives import PROPOSALS
from ..engine.run import Execution, Parts, run_source
from ..engine.stage import StageResult
from ..ingestion.grouping import ImageLimit, SourceName, Strict, shard_sizes
from ..readers.files import content, name_in, naming
from ..readers.pairs import CaptionWithNegatives, NoColumnError, pair_files, read_pairs
from ..readers.record import Rejected, image_id
from .proposals import judging

if TYPE_CHECKING:
    import pandas as pd

NAME = "import"
COLUMNS = ("image_id", "image", "split", "text", "source", "asked", "negative")
STAGE = judging(NAME)


class ImportConfig(Settings):
    """How a set is read. Columns are names, or numbers from 1 without a header; empty: by those that such sets use.
    Captions and negatives may be in several. `truth_column` says whether the caption of a row is true of its image.
    """

    image_column: str = ""
    caption_column: tuple[str, ...] = ()
    negative_column: tuple[str, ...] = ()
    label_column: str = ""
    split_column: str = ""
    truth_column: str = ""
    source_name: SourceName = "foreign"
    limit: ImageLimit = None
    shard_size: AtLeastOne = Field(1000, description="captions per Parquet file, at most, of whole images")
    strict: Strict = False


def read_foreign(source: str, run: Path, config: ImportConfig, execution: Execution) -> dict[str, int]:
    """Read a set that others made into the tables captions, proposals and rejected_records of a run.

    Records that name no image and have the same caption share an image of their own.

    Args:
        source: a file, or a folder of files.
        run: the run.
        config: how the set is read.
        execution: how the stage is run.

    Returns:
        Counters: captions, images, proposals, `rejected.<reason>`.

    Raises:
        FileNotFoundError, ValueError: the source cannot be read, lacks a column, has no usable record or, with
            `strict`, a bad one; names the file.
        OtherConfigError: the run has these tables from another source or config, and `execution` does not overwrite.
    """
    with naming(source):
        urls = pair_files(source)
        contents = [(name_in(source, url), content(url)) for url in urls]
        held = {name: f"{file['bytes']} bytes, sha256 {file['sha256']}" for name, file in contents}

    def parts() -> Parts:
        rows, rejected = read_set(source, urls, config)
        if rows.empty:
            first = f"; the first bad one: line {rejected[0].line}: {rejected[0].detail}" if rejected else ""
            raise ValueError(f"{source}: must have captions with negatives, has none{first}")
        execution.progress.advance(int(rows["negative"].notna().sum()), 0)
        yield from _shards(rows, rejected, config)

    outputs = {"rejected_records": REJECTED_RECORDS, "proposals": PROPOSALS, "captions": CAPTIONS}
    described = {name: value for name, value in config if name != "strict" and value not in ("", ())}
    return run_source(run, NAME, outputs, parts(), described, execution, inputs=held, unit="proposals")


class ForeignSet(NamedTuple):
    """A set that was read: its captions (with no negative) and their negatives as rows of COLUMNS, and the records that
    cannot be kept.
    """

    rows: pd.DataFrame
    rejected: list[Rejected]


class ImageOfSet(NamedTuple):
    """What the first record of an image says of it: its file, and its split."""

    path: str
    split: str


def read_set(source: str, urls: Sequence[str], config: ImportConfig) -> ForeignSet:
    """Read the captions and negatives of a set that others have published.

    With `config.strict` the first record that cannot be read raises ValueError; else such records are returned.

    Args:
        source: the set, a file or a folder.
        urls: its files.
        config: the columns that the user names, and how many images to read at most.
    """
    import pandas as pd

    images: dict[str, ImageOfSet] = {}  # by image_id
    rows: list[tuple[str | None, ...]] = []  # of COLUMNS
    rejected: list[Rejected] = []
    columns = {name.removesuffix("_column"): value for name, value in config if name.endswith("_column") and value}
    for record in _read_records(source, urls, columns):
        bad = record if isinstance(record, Rejected) else _add_rows(record, rows, images)
        if bad is None:
            continue
        if config.strict:
            raise ValueError(f"{bad.source}:{bad.line}: {bad.reason}: {bad.detail}")
        rejected.append(bad)
    kept = set(sorted(images, key=shuffle_key)[: config.limit])
    frame = pd.DataFrame([row for row in rows if row[0] in kept], columns=COLUMNS, dtype=object)
    return ForeignSet(frame, rejected)


def _add_rows(
    record: CaptionWithNegatives, rows: list[tuple[str | None, ...]], images: dict[str, ImageOfSet]
) -> Rejected | None:
    """Add the captions and negatives of a record to `rows`, and its image to `images`.

    Returns the record as a rejected one, and adds no rows, if another image has the same image_id.
    """
    first_caption = record.captions[0]
    path = record.image
    if path is None:
        # A record without an image is known by its caption, so that all negatives of it are of one image.
        path = blake2b(first_caption.encode(), digest_size=8).hexdigest()
    key = image_id(path)
    image = images.setdefault(key, ImageOfSet(path, record.split))
    if image.path != path:
        detail = f"image must differ from others in its file name, {path} is named as {image.path}"
        return Rejected(record.source, record.line, "ambiguous_image", detail, first_caption[:200])
    # as COLUMNS: image_id, image, split, text, source, asked, negative
    of_image = (key, image.path, image.split)
    for text in record.captions:
        rows.append((*of_image, text, record.source, None, None))
    for negative in record.negatives:
        rows.append((*of_image, first_caption, record.source, negative.label, negative.text))
    return None


def _read_records(
    source: str, urls: Sequence[str], columns: Mapping[str, str | Sequence[str]]
) -> Iterator[CaptionWithNegatives | Rejected]:
    """The records of all files of a set.

    A file that has no columns of captions and negatives is a rejected record; NoColumnError is raised if no file has
    them.

    Args:
        source: the set, a file or a folder.
        urls: its files.
        columns: the names of columns that the user has given, by what they hold: {"caption": "sentence"}.
    """
    without: list[NoColumnError] = []
    for url in urls:
        try:
            with naming(url):
                yield from read_pairs(url, source, columns)
        except NoColumnError as error:
            without.append(error)
            if len(without) == len(urls):
                raise without[0] from None
            yield Rejected(name_in(source, url), 1, "not_a_record", str(error).removeprefix(f"{url}: "), "")


def _shards(rows: pd.DataFrame, rejected: Sequence[Rejected], config: ImportConfig) -> Parts:
    """Yield for each shard a function that makes its tables; the first shard also has all rejected records.

    The tables are captions, each once, and proposals: the negatives that somebody wrote of them, not yet checked.

    Args:
        rows: a caption or a pair of a caption and a negative in each, the columns of `ForeignSet`.
        rejected: the records that cannot be kept.
        config: the size of shards, and the name of the source, with which caption_ids begin.
    """
    import pandas as pd

    rows["place"] = pd.factorize(rows["image_id"])[0]  # images in order of appearance
    captions = rows.drop_duplicates(["place", "text"]).sort_values("place", kind="stable")
    captions["number"] = captions.groupby("place").cumcount()
    captions["caption_id"] = config.source_name + ":" + captions["image_id"] + ":" + captions["number"].astype(str)
    captions = captions.assign(language=LANGUAGE, origin="human")
    proposals = _proposals_of(captions, rows[rows["negative"].notna()])
    tables = {"rejected_records": pa.Table.from_pylist([record._asdict() for record in rejected], REJECTED_RECORDS)}
    counts = Counter(f"rejected.{record.reason}" for record in rejected)
    first_place = 0  # of the shard's images
    for _, images in shard_sizes(captions["place"].value_counts(sort=False), config.shard_size):
        for name, frame, schema in (("proposals", proposals, PROPOSALS), ("captions", captions, CAPTIONS)):
            part = frame[frame["place"].between(first_place, first_place + images - 1)]
            tables[name] = pa.Table.from_pandas(part, schema, preserve_index=False).replace_schema_metadata()
            counts[name] = len(part)
        counts["images"] = images
        first_place += images
        yield partial(StageResult, tables, counts)
        counts = Counter()
        tables = {}


def _proposals_of(captions: pd.DataFrame, negatives: pd.DataFrame) -> pd.DataFrame:
    """The negatives as proposals, in the order of their captions, numbered in each caption.

    Args:
        captions: with their caption_id, and `place`, the number of the image.
        negatives: rows whose `text` is the caption and whose `negative` is the negative.
    """
    keys = captions[["place", "text", "number", "caption_id"]]
    # A caption is identified by its image and text; `number` is that of the caption among those of its image.
    proposals = negatives.merge(keys, on=["place", "text"])
    proposals = proposals.sort_values(["place", "number"], kind="stable").drop(columns="text")
    # From here on, `number` is that of the negative among those of its caption.
    proposals["number"] = proposals.groupby("caption_id").cumcount()
    proposals = proposals.rename(columns={"negative": "text"})
    return proposals.assign(prompt="", temperature=None, fingerprint="", problem="")
