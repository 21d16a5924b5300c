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
    """The lexicon of a run, from which `cloze` (None: the shipped model) draws replacements."""
    return Lexicon.from_table(lexicon.read(), cloze)


@lru_cache(maxsize=1)
def load_truth(lexicon: Readable, truth: Readable, max_true: float, cloze: ClozeModel | None = None) -> Truth:
    """Estimates that one more caption would make a negative true; max_true: the most allowed. See `load_lexicon`."""
    table = truth.read(encoded=("kind", "said", "of", "entry"))
    return Truth.from_table(table, load_lexicon(lexicon, cloze), max_true)


@lru_cache(maxsize=1)
def load_balanced(lexicon: Readable, balance: Readable, cloze: ClozeModel | None = None) -> Lexicon:
    """The lexicon with the weights of `balance`, so that words enter captions as often as they leave them."""
    return load_lexicon(lexicon, cloze).balanced(balance.read())


def given_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a Parquet file, kept in memory, or a table of a run, cast to `schema`. Raises FileNotFoundError without,
    ValueError for other columns or an unfinished table, DamagedShardError.
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
    """The cloze model in a file, or None (the shipped one). Raises FileNotFoundError or ValueError for a bad file."""
    if path is None:
        return None
    if not path.is_file():
        raise FileNotFoundError(f"cloze must be the file of a cloze model, was: {path}")
    return _cloze(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _cloze(path: Path, modified: int) -> ClozeModel:  # modified: part of the key under which it is kept
    return ClozeModel.load(path)
