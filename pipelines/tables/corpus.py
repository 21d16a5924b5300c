"""Load the lexicon, truth estimates and balance factors of a run, or a cloze model, each cached in the process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...augment.cloze.model import ClozeModel
from ...augment.lexicon.lexicon import Lexicon
from ...augment.truth.estimates import Truth
from ..engine.stage import TableInMemory
from ..engine.tables import WholeTable, has_table, read_table

Readable = WholeTable | TableInMemory


@lru_cache(maxsize=1)
def load_lexicon(lexicon: Readable, cloze: ClozeModel | None = None) -> Lexicon:
    """The lexicon of a run, from its table `lexicon`; replacements are drawn from it by `cloze` (None: the shipped
    cloze model).
    """
    return Lexicon.from_table(lexicon.read(), cloze)


@lru_cache(maxsize=1)
def load_truth(lexicon: Readable, truth: Readable, max_true: float, cloze: ClozeModel | None = None) -> Truth:
    """The estimates of a run that one more caption would make a negative true, from its tables `lexicon` and `truth`.

    max_true: the highest probability of being true that a negative may have. cloze: the cloze model of the lexicon;
    None: the shipped one.
    """
    table = truth.read(encoded=("kind", "said", "of", "entry"))
    return Truth.from_table(table, load_lexicon(lexicon, cloze), max_true)


@lru_cache(maxsize=1)
def load_balanced(lexicon: Readable, balance: Readable, cloze: ClozeModel | None = None) -> Lexicon:
    """The lexicon of a run (see `load_lexicon`) with the weights of its table `balance`, so that words enter captions
    as often as they leave them.
    """
    return load_lexicon(lexicon, cloze).balanced(balance.read())


def given_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a table from a Parquet file, or from a run's folder of its shards, cast to `schema`. Files are kept in
    memory, those that were read last.

    Raises FileNotFoundError if there is no file or table, ValueError if the columns differ from those of `schema` or
    the table is unfinished, DamagedShardError for a shard that is not as recorded.
    """
    if path.is_file():
        state = path.stat()
        return _given_file(path, state.st_mtime_ns, state.st_size, schema)
    if not has_table(path.parent, path.name):
        raise FileNotFoundError(f"{path} must be a Parquet file or a folder of shards")
    return _as_given(path, list(read_table(path.parent, path.name)), schema)


@lru_cache(maxsize=3)  # lexicon, truth and balance of the reference
def _given_file(path: Path, changed: int, size: int, schema: pa.Schema) -> pa.Table:
    """A table that the user gave as a file; changed, size: of the file, so that a cache tells another content."""
    texts = [field.name for field in schema if field.type == pa.string()]
    return _as_given(path, [pq.ParquetFile(path, read_dictionary=texts).read()], schema)  # faster than as texts


def _as_given(path: Path, tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Tables of one kind as one, with the types of the schema. Raises ValueError for other columns."""
    if any(table.column_names != schema.names for table in tables):
        raise ValueError(f"{path} must have the columns {', '.join(schema.names)}, has: {tables[0].column_names}")
    return pa.concat_tables([table.cast(schema) for table in tables]).combine_chunks()


def load_cloze(path: Path | None) -> ClozeModel | None:
    """The cloze model in a file, read again if the file has changed; None for None, which means the shipped model.

    Raises FileNotFoundError or ValueError, naming the file, if it is missing or damaged.
    """
    if path is None:
        return None
    if not path.is_file():
        raise FileNotFoundError(f"cloze must be the file of a cloze model, was: {path}")
    return _cloze(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _cloze(path: Path, modified: int) -> ClozeModel:  # modified: part of the key under which it is kept
    return ClozeModel.load(path)
