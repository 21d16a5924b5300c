"""What to read of a source, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import readers
from ..engine.bounds import above_zero, at_least
from ..readers.record import ReadOptions

_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class IngestConfig(ReadOptions):
    """What to read of a source, how to read its records (the fields of ReadOptions), and how to cut captions to shards.

    format: a key of READERS; empty: detected. source_name: the first part of every caption_id; empty: the format.
    limit: read only the first N images; of many files, none is begun after that. shard_size: captions per shard, at
    most; an image is not split. shard_mb: the same in millions of characters; None for both: see
    packing.captions_per_shard. strict: stop at the first bad record.

    Captions to refuse, as rejected records: languages: those in other languages than these, if any are given.
    boilerplate: those that are none (see ingestion.web_text). duplicates: those that differ from an earlier one, of any
    image, in case and punctuation only. near_duplicates: these, and those that differ in a few letters (see
    ingestion.duplicates). Raises ValueError for a value that is not valid.
    """

    format: str = ""
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
        if self.format and self.format not in readers.READERS:
            raise ValueError(f"format must be one of {', '.join(readers.READERS)}, was: {self.format}")
        at_least(self, 1, ("limit", "shard_size"))
        if self.shard_mb is not None:
            above_zero(self, ("shard_mb",))
            if self.shard_size is not None:
                raise ValueError("shard_size and shard_mb exclude each other: give one of them")
        if not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise ValueError(f"language must be an ISO 639 code such as en, or all, was: {self.language}")
        if self.source_name and not _SOURCE_NAME.fullmatch(self.source_name):
            raise ValueError(f"source_name must be of letters, digits and . _ -, was: {self.source_name}")
