"""Convert captions from Python objects (lists, pandas, Arrow, Hugging Face datasets) to the table `captions`."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from ..readers.record import OWN, Rejected, clean
from ..readers.table import captions_of, choose_columns, image_cells, rows_of
from ..readers.truth import only_true
from ..stages.ingest import IngestConfig, ingest_records

if TYPE_CHECKING:
    import datasets
    import pandas as pd


Captions: TypeAlias = "Iterable[str] | pd.DataFrame | pa.Table | datasets.Dataset"


NAME = "captions"  # the source's name in messages about captions that come from no file


def captions_as_arrow_table(captions: Captions, config: IngestConfig) -> pa.Table:
    """Bring captions in memory into one form: an Arrow table with a row per caption, {"image": 0, "caption": "A dog"}.

    Args:
        captions: a list of sentences, or a table of pandas, Arrow or Hugging Face. Each sentence of a list, and with a
            warning each row of a table that does not name its image, is the only caption of an image of its own, whose
            name is its position from 0.
        config: which columns of a table are read; of embedded images only their paths are.

    Raises:
        TypeError: `captions` is neither a list of sentences (str or None) nor a table.
        ValueError: a table has no column of captions; or it has other columns, but none of images.
    """
    if isinstance(captions, pa.Table):
        return _with_image_names(captions.schema, captions.to_batches(), config)
    # Recognised by their attributes, not by their class, so that neither library is imported for a list of sentences.
    given: object = captions
    if hasattr(given, "with_format") and hasattr(given, "column_names"):  # datasets.Dataset
        data = given.with_format("arrow")
        batches = (batch for table in data.iter(batch_size=1000) for batch in table.to_batches())
        return _with_image_names(data[:0].schema, batches, config)
    if hasattr(given, "iloc") and hasattr(given, "columns"):  # pandas.DataFrame
        table = pa.Table.from_pandas(given, preserve_index=False)
        return _with_image_names(table.schema, table.to_batches(), config)
    if isinstance(captions, (str, bytes)) or not isinstance(captions, Iterable):
        raise TypeError(
            "captions must be a list of sentences, a pandas DataFrame, an Arrow table or a datasets.Dataset, "
            f"was: {type(captions).__name__}"
        )
    sentences = list(captions)
    check_sentences("captions", (sentence for sentence in sentences if sentence is not None))
    return pa.table({"image": range(len(sentences)), "caption": pa.array(sentences, pa.string())})


def check_sentences(name: str, sentences: Iterable[object]) -> None:
    """Raise TypeError unless all of `sentences` are str. name: what they are called in the message."""
    wrong = next((value for value in sentences if not isinstance(value, str)), None)
    if wrong is not None:
        raise TypeError(f"{name} must be sentences (str), one was: {wrong!r:.80}")


def _replace_flags_by_arguments(message: str) -> str:
    """A message with arguments in place of flags: `image_column=` for `--columns image=NAME`."""

    def arguments(flag: re.Match[str]) -> str:
        """ "--columns image=photo,caption=NAME" -> "image_column='photo' and caption_column=" """
        names: dict[str, list[str]] = {}
        for part in flag[1].split(","):
            role, _, name = part.partition("=")
            names.setdefault(role, []).append(name)
        shown = []
        for role, given in names.items():
            if given == ["NAME"]:
                shown.append(f"{role}_column=")  # the user is to say it
            else:
                value = given[0] if len(given) == 1 else given
                shown.append(f"{role}_column={value!r}")
        return " and ".join(shown)

    return re.sub(r"--columns (\w+=[\w.]+(?:,\w+=[\w.]+)*)", arguments, message)


def _with_image_names(schema: pa.Schema, batches: Iterable[pa.RecordBatch], config: IngestConfig) -> pa.Table:
    """The columns of a table that are read, among them one with the names of the images.

    Args:
        schema: of the table.
        batches: its rows.
        config: which columns are read.
    """
    try:
        chosen = choose_columns(schema, config, NAME)
    except ValueError as error:
        raise ValueError(_replace_flags_by_arguments(str(error))) from None
    # The usual case: a column names the images, and the table is taken as it is, without copying it.
    if chosen.image is not None and not chosen.field:
        read = pa.schema([schema.field(name) for name in chosen.among(schema.names)])
        return pa.Table.from_batches([batch.select(read.names) for batch in batches], read)
    # Else a column of names takes the place of the pictures, or of nothing; it comes first.
    image = chosen.image or config.image_column or "image"
    read = pa.schema(
        [(image, pa.string()), *(schema.field(name) for name in chosen.among(schema.names) if name != image)]
    )
    with_names: list[pa.RecordBatch] = []
    rows_before = 0
    unnamed = 0
    for batch in batches:
        # OWN stands for an image without a name, which gets the position of its row.
        cells = image_cells(batch.column(image), chosen.field) if chosen.image else [OWN] * len(batch)
        names = [str(row) if cell is OWN else cell for row, cell in enumerate(cells, rows_before)]
        unnamed += cells.count(OWN)
        columns = [pa.array(names, pa.string()), *(batch.column(name) for name in read.names[1:])]
        with_names.append(pa.record_batch(columns, schema=read))
        rows_before += len(batch)
    if unnamed:
        warnings.warn(
            f"captions without the name of an image: {unnamed:,}; each is taken as the only one of an image of its own",
            stacklevel=4,
        )
    return pa.Table.from_batches(with_names, read)


class IngestedCaptions(NamedTuple):
    """The tables `captions` and `source_columns` (negcap.schemas.captions)."""

    captions: pa.Table
    source_columns: pa.Table


def captions_table(table: pa.Table, config: IngestConfig) -> IngestedCaptions:
    """Captions of `captions_as_arrow_table` as the tables that `negcap build` makes of a file.

    Captions with the same value in the image column are siblings. Warns of captions that cannot be used, with the
    reasons. Raises ValueError if none can be used, or, with `config.strict`, for the first that cannot.
    """
    chosen = choose_columns(table.schema, config, NAME)
    types = {name: table.schema.field(name).type for name in chosen.kept}
    kept = {name: type if pa.types.is_primitive(type) else pa.string() for name, type in types.items()}
    rows = rows_of(table.to_batches(), chosen, NAME, config.language)
    true = only_true(chain.from_iterable(map(captions_of, rows)), config, NAME)
    records = (record if isinstance(record, Rejected) else clean(record) for record in true)
    try:
        captions, columns, refused = ingest_records(records, config, kept)
    except ValueError as error:
        raise ValueError(_replace_flags_by_arguments(str(error))) from None
    if refused:
        counted = Counter(rejected.reason for rejected in refused).most_common()
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in counted)
        first = refused[0]
        message = f"captions left out: {reasons}; the first is that at position {first.line - 1}: {first.detail}"
        if not captions.num_rows:
            raise ValueError(message)
        warnings.warn(message, stacklevel=3)
    return IngestedCaptions(captions, columns)
