"""What to read of a source, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from negcap.pipelines import readers
from negcap.pipelines.engine.bounds import above_zero, at_least
from negcap.pipelines.readers.record import ReadOptions

_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class IngestConfig:
    """What to read of a source, and how.

    format: a key of READERS; empty: detected. image_column, caption_column, split_column: of a plain table, a name, or
    a number from 1 if there is no header; empty: found by their usual names. language: ISO 639-1 code of the
    captions; for a Multi30K folder, the language to read, or `all`. language_column: the column with the code of each
    caption; empty: all are in `language`. id_column: the column that identifies images by
    names, URLs or whole numbers; empty: `uid` or `key` of a table whose image column is of URLs, else the file names of
    the images do. keep_columns: columns of a table, or fields of the JSON in WebDataset tars, that are kept in the
    table source_columns. source_name: the first part of every caption_id; empty: the format. limit: read only the first
    N images; of many files, none is begun after that. shard_size: captions per shard, at most; an image is not
    split. shard_mb: the same in millions of characters; None for both: see packing.captions_per_shard. strict: stop at
    the first bad record. Refused on demand, as rejected records: languages: captions in others than these, if any are
    given. boilerplate: captions that are none (see ingestion.web_text). duplicates: captions that differ from an
    earlier one, of any image, in case and punctuation only. near_duplicates: those, and captions that differ in a few
    letters (see ingestion.duplicates).
    """

    format: str = ""
    image_column: str = ""
    caption_column: str = ""
    split_column: str = ""
    language: str = "en"
    language_column: str = ""
    id_column: str = ""
    keep_columns: tuple[str, ...] = ()
    source_name: str = ""
    limit: int | None = None
    shard_size: int | None = None
    shard_mb: float | None = None
    strict: bool = False
    languages: tuple[str, ...] = ()
    boilerplate: bool = False
    duplicates: bool = False
    near_duplicates: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a value that is not valid."""
        if self.format and self.format not in readers.READERS:
            raise ValueError(f"format must be one of {', '.join(readers.READERS)}, was: {self.format}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be >= 1, was: {self.limit}")
        at_least(self, 1, ("shard_size",))
        if self.shard_mb is not None:
            above_zero(self, ("shard_mb",))
            if self.shard_size is not None:
                raise ValueError("shard_size and shard_mb exclude each other: give one of them")
        if not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise ValueError(f"language must be an ISO 639 code such as en, or all, was: {self.language}")
        if self.source_name and not _SOURCE_NAME.fullmatch(self.source_name):
            raise ValueError(f"source_name must be of letters, digits and . _ -, was: {self.source_name}")

    @property
    def reading(self) -> ReadOptions:
        """How the reader of the format reads the source."""
        return ReadOptions(**{item.name: getattr(self, item.name) for item in fields(ReadOptions)})
