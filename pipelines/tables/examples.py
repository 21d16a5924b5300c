"""The captions of a run with the negatives that are to be published or scored, and NegBench's questions about a noun
that the image shows and one that it does not. The false options are of all three templates ("with a helmet", "without a
hat", "with a helmet but no hat"), the true one of one at random ("with a hat", "without a helmet", "with a hat but no
helmet"), so that neither words of denial nor nouns tell which is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa

from ...augment.reproducible import record_rng, shuffle_key
from ...augment.rows import BOTH, NO
from ..engine.tables import shards_of
from .columns import UNSPLIT, check_file_name, check_operators, check_splits, kinds_of, splits_of
from .pairs import MEASURES, NEGATION, PairOptions, pair_tables

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 4  # decimals of the measures of a negative
OF_NEGATIVE = ("negative_id", "negative", "operator", "family", "draw", "replaced", "replacement", *MEASURES)
COLUMNS = (
    *("caption_id", "image_id", "image", "split", "text", "caption", "positive_id", *OF_NEGATIVE),
    *("siblings", "sibling_ids"),
)
MOST_ROWS = 100_000  # that are in memory together
# A row of `example_tables`: a named tuple, as pandas makes it, of the columns that it describes.
Row = Any


def example_tables(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    p_true: Mapping[str, float] = MappingProxyType({}),
    shuffle: int | None = None,
    **options: Unpack[PairOptions],
) -> Iterator[pd.DataFrame]:
    """The rows of each shard that are published: one per negative; a caption without any has a row with None for them.

    A negative of the operator negation stands in a row of the true sentence that it contradicts, "there is no dog"
    beside "there is a dog"; these rows follow those of the caption. Columns: those of COLUMNS, of which `text` and
    `text_id` are of the caption or this sentence, `siblings` and `sibling_ids` of the other captions of its image and
    split; measures are rounded to DIGITS decimals.

    Args:
        run: the folder of a run.
        operators: only negatives of these, in this order; all if empty.
        splits: only captions of these; all if empty.
        p_true: by negative_id, instead of the table's.
        shuffle: seed of an order of all images (`shuffled`).
        options: see `PairOptions`.

    Raises:
        ValueError: a shard lacks a column, or the table captions lacks a caption.
        DamagedShardError: a shard is missing or unreadable.
    """
    options["every_caption"] = True
    tables = pair_tables(run, operators, splits, columns=COLUMNS, **options)
    if shuffle is not None:
        shards = shards_of(run, options.get("table", "negatives") or "captions")
        tables = shuffled(tables, shuffle, sum(shard.rows for shard in shards))
    position = {name: number for number, name in enumerate(operators)}
    for table in tables:
        yield _rows_to_publish(table, position, p_true)


def _rows_to_publish(table: pa.Table, position: Mapping[str, int], p_true: Mapping[str, float]) -> pd.DataFrame:
    """The pairs of a shard as rows to publish, sorted by sentence: a caption, then the denials that were made of it.

    position: of each operator, in whose order the negatives of a sentence stand. p_true: by negative_id, the estimates
    of readers that saw the photos; other negatives keep the estimate of the table.
    """
    import pandas as pd

    measures = {name: table[name].to_pylist() for name in MEASURES}
    if p_true:
        estimates = zip(table["negative_id"].to_pylist(), measures["p_true"], strict=True)
        measures["p_true"] = [p_true.get(name, estimate) for name, estimate in estimates]
    # Measures are taken past pandas, in which a null of float32 is NaN and rounding gives other decimals.
    rows = table.drop_columns([*MEASURES]).to_pandas().astype(object)
    rows["number"] = pd.factorize(rows["caption_id"])[0]  # of the caption
    for name, values in measures.items():
        rounded = [None if value is None else round(value, DIGITS) for value in values]
        rows[name] = pd.Series(rounded, rows.index, object)

    # A caption whose every negative contradicts a denial still has a row of its own, without a negative.
    rows["denial"] = rows["positive_id"].fillna("") != ""
    has_own_row = rows["number"].isin(rows["number"][~rows["denial"]])
    bare = rows[~has_own_row].drop_duplicates("number").assign(denial=False, **dict.fromkeys(OF_NEGATIVE))
    rows = pd.concat([rows, bare])

    rows["position"] = rows["operator"].map(position)
    rows = rows.sort_values(["number", "position", "draw"], kind="stable")
    rows["text_id"] = rows["positive_id"].where(rows["denial"], rows["caption_id"])
    rows["text"] = rows["caption"].where(rows["denial"], rows["text"])
    rows["split"] = rows["split"].replace("", UNSPLIT)
    # The caption comes first, then its denials, each with all of its negatives; the sort is stable within these.
    rows["sentence"] = pd.factorize(rows["text_id"])[0]
    rows = rows.sort_values(["number", "denial", "sentence"], kind="stable").astype(object)
    return rows.where(rows.notna(), None).drop(columns=["number", "denial", "position", "sentence"])


def shuffled(tables: Iterable[pa.Table], seed: int, rows: int, most: int = MOST_ROWS) -> Iterator[pa.Table]:
    """The rows of tables, images in random order, through temporary files.

    A row has a random key, the same for all of its image. Keys are divided into as many ranges as there are parts; a
    part is written row by row as the tables are read, and sorted when all of it is there.

    Args:
        tables: with the column image_id.
        seed: of the order.
        rows: of all tables.
        most: rows of a part, about, which are in memory together.
    """
    parts = 1 + rows // most
    with TemporaryDirectory(prefix="negcap-") as folder, ExitStack() as writing:
        files: dict[int, pa.ipc.RecordBatchFileWriter] = {}
        for table in tables:
            images = table["image_id"].combine_chunks().dictionary_encode()
            key_of_image = np.array([shuffle_key(image, seed) for image in images.dictionary.to_pylist()], np.uint64)
            key = key_of_image[images.indices.to_numpy()]
            # The upper half of the key, times `parts`, divided by 2^32: a part from 0 to parts - 1, in order of keys.
            part = (key >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
            keyed = table.append_column("key", pa.array(key))
            for number in np.unique(part).tolist():
                if number not in files:
                    files[number] = writing.enter_context(pa.ipc.new_file(f"{folder}/{number}", keyed.schema))
                files[number].write_table(keyed.take(np.flatnonzero(part == number)))
        writing.close()
        for number in sorted(files):
            with pa.ipc.open_file(f"{folder}/{number}") as reader:
                unsorted = reader.read_all()
            order = np.argsort(unsorted["key"].to_numpy(), kind="stable")
            yield unsorted.take(order).drop_columns("key")


def by_caption(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows of each caption or other true sentence, which stand together in `rows`."""
    return (list(of_caption) for _, of_caption in groupby(rows, key=lambda row: row.text_id))


def by_image(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows of each image, which stand together in `rows`."""
    return (list(of_image) for _, of_image in groupby(rows, key=lambda row: row.image_id))


def negatives_of(rows: Iterable[Row]) -> list[Row]:
    """Those rows that have a negative."""
    return [row for row in rows if row.negative_id is not None]


def other_wordings(row: Row) -> list[str]:
    """The other captions of the image whose text differs from that of the row (ignoring case)."""
    return [text for text in row.siblings if text.casefold() != row.text.casefold()]


class ChosenNames(NamedTuple):
    """The splits and operators that are read."""

    splits: tuple[str, ...]
    operators: tuple[str, ...]


def chosen_names(run: Path, splits: Sequence[str], operators: Sequence[str], table: str = "negatives") -> ChosenNames:
    """The splits and operators that are asked for, or all that the run has where none are asked for.

    Args:
        run: the run.
        splits: those asked for.
        operators: those asked for.
        table: of negatives; "": there are no operators.

    Raises:
        ValueError: the run lacks a split, an operator has no negatives in the splits, or a name cannot name a file.
    """
    from ...schemas.negatives import POSITIVE

    present = splits_of(run)
    check_splits(splits, present, run)
    wanted = tuple(dict.fromkeys(splits)) or present
    with_negatives: list[str] = []
    if table:
        kinds = [kind for kind in kinds_of(run, table) if (kind.split or UNSPLIT) in wanted]
        for name in {name for kind in kinds for name in (kind.operator, kind.family)}:
            check_file_name("operator or family", name)
        with_negatives = sorted({kind.operator for kind in kinds if kind.family != POSITIVE})
        check_operators(operators, with_negatives, f"{run / table} ({', '.join(wanted)})")
    # Splits, operators and families become files and folders of what is published.
    for name in wanted:
        check_file_name("split", name)
    return ChosenNames(wanted, tuple(dict.fromkeys(operators)) or tuple(with_negatives))


OPTIONS = 4  # captions to choose from in a question
POSITIVE = "positive"
NEGATIVE = "negative"
HYBRID = "hybrid"


class NegBenchQuestion(NamedTuple):
    """A row whose text is the true option, three false ones, and NegBench's template of the true one: positive,
    negative (denies something) or hybrid (asserts one thing and denies another).
    """

    true: Row
    false: tuple[str, ...]
    template: str


def template(content: str) -> str:
    """NegBench's template of a sentence: positive, negative (it denies something) or hybrid (it does both).

    content: what is in the sentence, as the columns `replaced` and `replacement` say it: "hat", "not dog", or
    "hat | not dog".
    """
    if BOTH in content:
        return HYBRID
    return NEGATIVE if NO in content else POSITIVE


def two_noun_questions(rows: Iterable[Row]) -> Iterator[NegBenchQuestion]:
    """NegBench questions about two nouns, one there and one not, at most one for each caption.

    For an image with a dog and without a hat the false options are "there is a hat", "there is no dog" and "there is a
    hat but no dog". The true option is a sentence that one of them contradicts, such as "there is no hat". A caption
    has a question if the operator negation has made all three false sentences about the two nouns.

    rows: negatives, those of a caption together.
    """
    for caption_id, rows_of_caption in groupby(rows, key=lambda row: row.caption_id):
        # What a false sentence says, "hat", "not dog" or "hat | not dog" -> the first drawn row that says it.
        row_of_content: dict[str, Row] = {}
        for row in rows_of_caption:
            if row.operator == NEGATION:
                row_of_content.setdefault(row.replacement, row)

        # For each couple of nouns, three questions: the true option contradicts one of the three false ones.
        questions_of_nouns: list[list[NegBenchQuestion]] = []
        for content in row_of_content:
            if template(content) != HYBRID:
                continue
            missing, _, present = content.partition(BOTH)
            false_rows = [row_of_content[part] for part in (missing, present, content) if part in row_of_content]
            if len(false_rows) == OPTIONS - 1:
                false = tuple(row.negative for row in false_rows)
                questions = [NegBenchQuestion(row, false, template(row.replaced)) for row in false_rows]
                questions_of_nouns.append(questions)

        # Nouns and template are drawn, so that neither tells the true option.
        if questions_of_nouns:
            rng = record_rng(0, "question", caption_id)
            yield rng.choice(rng.choice(questions_of_nouns))
