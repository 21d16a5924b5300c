"""Convert captions from Python objects (lists, pandas, Arrow, Hugging Face datasets) to the table `captions`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from negcap.pipelines.readers.record import Record, Rejected, clean

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from negcap.pipelines.stages.ingest import IngestConfig


Captions: TypeAlias = "Iterable[str] | pd.DataFrame | pa.Table | Any"
NAME = "captions"  # the source's name in messages about captions that come from no file


def arrow_table(captions: Captions) -> pa.Table:
    """Captions in memory as an Arrow table; tables keep their columns, sentences get the columns `image` and `caption`.

    Each sentence of a list is the only caption of its own image, whose name is its position from 0. Raises TypeError if
    `captions` is neither a list of sentences (str or None) nor a table.
    """
    import pyarrow as pa

    if isinstance(captions, pa.Table):
        return captions
    given: Any = captions
    if hasattr(given, "with_format") and hasattr(given, "column_names"):  # datasets.Dataset
        return given.with_format("arrow")[:]
    if hasattr(given, "iloc") and hasattr(given, "columns"):  # pandas.DataFrame
        return pa.Table.from_pandas(given, preserve_index=False)
    if isinstance(captions, (str, bytes)) or not isinstance(captions, Iterable):
        raise TypeError(
            "captions must be a list of sentences, a pandas DataFrame, an Arrow table or a datasets.Dataset, "
            f"was: {type(captions).__name__}"
        )
    sentences = list(captions)
    wrong = next((value for value in sentences if value is not None and not isinstance(value, str)), None)
    if wrong is not None:
        raise TypeError(f"captions must be sentences (str), one was: {wrong!r:.80}")
    return pa.table({"image": range(len(sentences)), "caption": pa.array(sentences, pa.string())})


def captions_table(captions: Captions, config: IngestConfig) -> pa.Table:
    """Captions in memory as a table `captions` (negcap.schemas.captions), as `negcap ingest` makes it from a file.

    Captions with the same value in the image column are siblings. Warns of captions that cannot be used, with the
    reasons. Raises ValueError if none can be used, or, with `config.strict`, for the first that cannot.
    """
    from negcap.pipelines.stages.ingest import ingest_records

    table, refused = ingest_records(_records(arrow_table(captions), config), config)
    if refused:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in Counter(bad.reason for bad in refused).most_common())
        first = refused[0]
        message = f"captions left out: {reasons}; the first is number {first.line}: {first.detail}"
        if not table.num_rows:
            raise ValueError(message)
        warnings.warn(message, stacklevel=3)
    return table


def _records(table: pa.Table, config: IngestConfig) -> Iterator[Record | Rejected]:
    from negcap.pipelines.readers.table import captions_of, choose_columns, rows_of

    chosen = choose_columns(table.schema, config, NAME)
    for row in rows_of(table.to_batches(), chosen, NAME, config.language):
        if isinstance(row, Rejected):
            yield row
            continue
        for record in captions_of(row):
            yield clean(record)
