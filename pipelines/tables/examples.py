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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...augment.reproducible import record_rng, shuffle_key
from ...augment.rows import BOTH, NO
from ..engine.tables import shards_of
from .columns import UNSPLIT, check_file_name, check_operators, check_splits, kinds_of, splits_of
from .pairs import MEASURES, NEGATION, pair_tables

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 4  # decimals of the measures of a negative
OF_NEGATIVE = ("negative_id", "negative", "operator", "family", "draw", "replaced", "replacement", *MEASURES)
COLUMNS = (
    *("caption_id", "image_id", "image", "split", "text", "caption", "positive_id", *OF_NEGATIVE),
    *("siblings", "sibling_ids"),
)
MOST_ROWS = 100_000  # that are in memory together
Row = Any  # of `example_tables`, a named tuple of its columns


def example_tables(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    p_true: Mapping[str, float] = MappingProxyType({}),
    shuffle: int | None = None,
    **chosen: Any,
) -> Iterator[pd.DataFrame]:
    """The captions of each shard in order, a row per negative, or one with None in OF_NEGATIVE. Negatives of negation
    are those of the true sentence that they contradict, after the caption if it is another. Columns: `text` and
    `text_id` of the caption or this sentence; `siblings`, `sibling_ids` of its image and split; measures to DIGITS
    decimals; others of COLUMNS. p_true: by negative_id, instead of the table's. shuffle: seed of an order of all images
    (`shuffled`). chosen, errors: see `pair_tables`.
    """
    import pandas as pd

    place = {name: number for number, name in enumerate(operators)}
    parts = pair_tables(run, operators, splits, columns=COLUMNS, every_caption=True, **chosen)
    if shuffle is not None:
        parts = shuffled(parts, shuffle, sum(shard.rows for shard in shards_of(run, chosen["table"] or "captions")))
    for part in parts:
        measured = {name: part[name].to_pylist() for name in MEASURES}
        if p_true:
            known = zip(part["negative_id"].to_pylist(), measured["p_true"], strict=True)
            measured["p_true"] = [p_true.get(name, estimate) for name, estimate in known]
        rows = part.drop_columns([*MEASURES]).to_pandas().astype(object)
        rows = rows.assign(number=pd.factorize(rows["caption_id"])[0])
        for name, numbers in measured.items():
            rounded = [None if number is None else round(number, DIGITS) for number in numbers]
            rows[name] = pd.Series(rounded, rows.index, object)
        rows["denial"] = rows["positive_id"].fillna("") != ""
        bare = rows[~rows["number"].isin(rows["number"][~rows["denial"]])].drop_duplicates("number")
        rows = pd.concat([rows, bare.assign(denial=False, **dict.fromkeys(OF_NEGATIVE))])
        rows = rows.assign(place=rows["operator"].map(place)).sort_values(["number", "place", "draw"], kind="stable")
        rows["text_id"] = rows["positive_id"].where(rows["denial"], rows["caption_id"])
        rows["text"] = rows["caption"].where(rows["denial"], rows["text"])
        rows["split"] = rows["split"].replace("", UNSPLIT)
        rows["sentence"] = pd.factorize(rows["text_id"])[0]
        rows = rows.sort_values(["number", "denial", "sentence"], kind="stable").astype(object)
        yield rows.where(rows.notna(), None).drop(columns=["number", "denial", "place", "sentence"])


def shuffled(tables: Iterable[pa.Table], seed: int, rows: int, most: int = MOST_ROWS) -> Iterator[pa.Table]:
    """The rows of tables, images in random order, through temporary files, in tables of about `most`. rows: in all."""
    parts = 1 + rows // most
    with TemporaryDirectory(prefix="negcap-") as folder, ExitStack() as writing:
        files: dict[int, Any] = {}
        for table in tables:
            images = table["image_id"].combine_chunks().dictionary_encode()
            keys = np.array([shuffle_key(image, seed) for image in images.dictionary.to_pylist()], np.uint64)
            key = keys[images.indices.to_numpy()]
            part = (key >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
            keyed = table.append_column("key", pa.array(key))
            for number in np.unique(part).tolist():
                if number not in files:
                    files[number] = writing.enter_context(pa.ipc.new_file(f"{folder}/{number}", keyed.schema))
                files[number].write_table(keyed.take(np.flatnonzero(part == number)))
        writing.close()
        for number in sorted(files):
            with pa.ipc.open_file(f"{folder}/{number}") as reader:
                found = reader.read_all()
            order = np.argsort(found["key"].to_numpy(), kind="stable")
            yield found.take(order).drop_columns("key")


def by_caption(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows of each caption or other true sentence."""
    return (list(some) for _, some in groupby(rows, key=lambda row: row.text_id))


def by_image(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows of each image."""
    return (list(some) for _, some in groupby(rows, key=lambda row: row.image_id))


def negatives_of(rows: Iterable[Row]) -> list[Row]:
    """Those rows that have a negative."""
    return [row for row in rows if row.negative_id is not None]


def other_wordings(row: Row) -> list[str]:
    """The other captions of the image whose text differs from that of the row (ignoring case)."""
    return [text for text in row.siblings if text.casefold() != row.text.casefold()]


def chosen_names(
    run: Path, splits: Sequence[str], operators: Sequence[str], table: str = "negatives"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """These splits and operators; all of a run and its table ("": no operators) if empty. Raises ValueError for a split
    the run lacks, an operator without negatives in the splits, or a name that cannot name a file.
    """
    from ...schemas.negatives import POSITIVE

    there = splits_of(run)
    check_splits(splits, there, run)
    wanted = tuple(dict.fromkeys(splits)) or there
    made: list[str] = []
    if table:
        kinds = [kind for kind in kinds_of(run, table) if (kind.split or UNSPLIT) in wanted]
        for name in {name for kind in kinds for name in (kind.operator, kind.family)}:
            check_file_name("operator or family", name)
        made = sorted({kind.operator for kind in kinds if kind.family != POSITIVE})
        check_operators(operators, made, f"{run / table} ({', '.join(wanted)})")
    for name in wanted:
        check_file_name("split", name)
    return wanted, tuple(dict.fromkeys(operators)) or tuple(made)


OPTIONS = 4
POSITIVE = "positive"
NEGATIVE = "negative"
HYBRID = "hybrid"


class Question(NamedTuple):
    """A row whose text is the true option, three false ones, and NegBench's template of the true one: positive,
    negative (denies something) or hybrid (asserts one thing and denies another).
    """

    true: Row
    false: tuple[str, ...]
    template: str


def template(said: str) -> str:
    """NegBench's template of a sentence, from the column `replaced` or `replacement` that says what is in it."""
    return HYBRID if BOTH in said else NEGATIVE if NO in said else POSITIVE


def questions(rows: Iterable[Row]) -> Iterator[Question]:
    """The question of each caption about two nouns with all three false sentences, and what they contradict."""
    for caption_id, some in groupby(rows, key=lambda row: row.caption_id):
        said: dict[str, Row] = {}
        for row in some:
            if row.operator == NEGATION:
                said.setdefault(row.replacement, row)
        about_two: list[list[Question]] = []  # for each two nouns, a question for each template of the true option
        for key in said:
            if template(key) == HYBRID:
                missing, _, there = key.partition(BOTH)
                parts = [said[name] for name in (missing, there, key) if name in said]
                if len(parts) == OPTIONS - 1:
                    false = tuple(part.negative for part in parts)
                    about_two.append([Question(part, false, template(part.replaced)) for part in parts])
        if about_two:
            rng = record_rng(0, "question", caption_id)
            yield rng.choice(rng.choice(about_two))
