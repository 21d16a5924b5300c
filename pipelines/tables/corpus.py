"""Load the lexicon, truth estimates and balance factors of a run, or a cloze model, each cached in the process.

What is cached is found by the content that it was made of, never by a path alone, so that a file or table that has
changed on disk is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from weakref import ReferenceType, ref

import pyarrow as pa
import pyarrow.parquet as pq

from ...augment.cloze.model import ClozeModel
from ...augment.lexicon.lexicon import KINDS, Lexicon
from ...augment.truth.estimates import Truth
from ..engine.stage import TableInMemory
from ..engine.tables import WholeTable, has_table, hash_table

Readable = WholeTable | TableInMemory


@lru_cache(maxsize=1)
def load_lexicon(lexicon: Readable, cloze: ClozeModel | None = None) -> Lexicon:
    """The lexicon of a run, from which `cloze` (None: the shipped model) draws replacements."""
    return Lexicon.from_table(lexicon.read(), cloze)


def load_truth(lexicon: Readable, truth: Readable, max_true: float, cloze: ClozeModel | None = None) -> Truth:
    """The estimates of how probably a negative is true of its image.

    Args:
        lexicon: the table.
        truth: the table of estimates that was made for this lexicon.
        max_true: the largest probability that a negative may have.
        cloze: see `load_lexicon`.
    """
    loaded = load_lexicon(lexicon, cloze)
    names_by_kind = tuple(tuple(loaded.entries(kind).names) for kind in KINDS)
    return _truth_of_entries(truth, _EntriesOfLexicon(names_by_kind, ref(loaded)), max_true)


@dataclass(frozen=True)
class _EntriesOfLexicon:
    """The part of a lexicon that truth estimates depend on, as a cache key: the names of its entries, by kind.

    Each call of `negcap.negatives` adds the counts of its captions to those of the reference, which gives another
    lexicon; but a few captions bring no new entries, and so their truth estimates stay those of the reference. The
    lexicon itself is not compared, and referred to weakly: the cache is not to keep one that nobody uses any more.
    """

    names: tuple[tuple[str, ...], ...]
    lexicon_ref: ReferenceType[Lexicon] = field(compare=False)


@lru_cache(maxsize=1)
def _truth_of_entries(truth: Readable, entries: _EntriesOfLexicon, max_true: float) -> Truth:
    """The truth estimates of a lexicon, kept for the next lexicon that has the same entries."""
    lexicon = entries.lexicon_ref()
    assert lexicon is not None  # `load_truth` still holds the lexicon
    return Truth.from_table(truth.read(encoded=("kind", "said", "of", "entry")), lexicon, max_true)


@lru_cache(maxsize=1)
def load_balanced(lexicon: Readable, balance: Readable, cloze: ClozeModel | None = None) -> Lexicon:
    """The lexicon with the weights of `balance`, so that words enter captions as often as they leave them."""
    return load_lexicon(lexicon, cloze).balanced(balance.read())


def given_table(table: Path | WholeTable, schema: pa.Schema) -> pa.Table:
    """Read a Parquet file or a table of a run, cast to `schema`; both are kept in memory as long as they do not change.

    Args:
        table: the file, the folder of the table, or the table as it was when `table_of_run` found it.
        schema: the columns that the table must have.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ValueError: it has other columns, or the table is not finished.
        DamagedShardError: a shard cannot be read, or `table` is a WholeTable that was made anew since.
    """
    if isinstance(table, WholeTable):
        return _given_table_of_run(table, schema)
    if table.is_file():
        return _given_file(table, table.read_bytes(), schema)
    return _given_table_of_run(table_of_run(table), schema)


def table_of_run(folder: Path) -> WholeTable:
    """The table in a folder as it is now; no shard is read. Raises FileNotFoundError, or ValueError if unfinished."""
    if not has_table(folder.parent, folder.name):
        raise FileNotFoundError(f"{folder} must be a Parquet file or a folder of shards")
    return WholeTable(folder, hash_table(folder.parent, folder.name))


# Both caches have room for a lexicon, its truth estimates and its balance factors.
@lru_cache(maxsize=3)
def _given_table_of_run(table: WholeTable, schema: pa.Schema) -> pa.Table:
    """A table of a run, whose folder and content are the cache key."""
    return _concatenate_checked(table.folder, [shard.read() for shard in table.shards()], schema)


@lru_cache(maxsize=3)
def _given_file(path: Path, content: bytes, schema: pa.Schema) -> pa.Table:
    """The table in a Parquet file, whose bytes are the cache key: a size and a time of change need not tell."""
    texts = [field.name for field in schema if field.type == pa.string()]
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts)  # faster than as texts
    return _concatenate_checked(path, [file.read()], schema)


def _concatenate_checked(path: Path, tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Tables of one kind as one, with the types of the schema. Raises ValueError for other columns."""
    if any(table.column_names != schema.names for table in tables):
        raise ValueError(f"{path} must have the columns {', '.join(schema.names)}, has: {tables[0].column_names}")
    return pa.concat_tables([table.cast(schema) for table in tables]).combine_chunks()


def load_cloze(path: Path | None) -> ClozeModel | None:
    """The cloze model in a file, or None (the shipped one). Raises FileNotFoundError or ValueError for a bad file."""
    if path is None:
        return None
    if not path.is_file():
        raise FileNotFoundError(f"cloze must be the file of a cloze model, was: {path}")
    return _load_cloze_file(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _load_cloze_file(path: Path, modified: int) -> ClozeModel:
    """The cloze model in a file. modified: is only part of the cache key, so that a file that changes is read again."""
    return ClozeModel.load(path)
