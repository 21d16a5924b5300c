"""Pairs of a true caption and its negative: with them begins whatever reads the negatives of a run. `pairs` is one
table, `pair_tables` a shard at a time: all of an image is in the shards of one number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...augment.rows import NO
from ...schemas.captions import LANGUAGE
from ...schemas.negatives import NEGATIVES, POSITIVE, POSITIVES
from ..engine.tables import Shard, has_table, read_table, shards_of
from .columns import TableRow, check_operators, check_splits, column_filter, kinds_of

MEASURES = ("p_true", "plausibility", "p_unnatural", "p_compatible", "concreteness")  # of a negative
COLUMNS = (
    *("caption_id", "image_id", "image", "split", "caption", "positive_id"),
    *("negative_id", "negative", "operator", "family", "draw", "replaced", "replacement", *MEASURES, "siblings"),
)
# These columns are always read: by them the pairs are chosen and joined.
KEYS = ("negative_id", "caption_id", "operator", "family", "caption", "image_id", "split", "draw")
OF_CAPTIONS = ("image", "siblings", "sibling_ids")  # columns that only the table captions knows
NEGATION = "negation"
TRUE_NEGATION = "true_negation"
# The share of negatives of negation that raters called unnatural for their form, which p_unnatural does not see.
DENIALS_UNNATURAL = 0.39


def p_good(rows: pa.Table) -> np.ndarray:
    """The probability that each negative is sensible and false, (rows,).

    It is (1 - p_unnatural)(1 - p_compatible)(1 - p_true), where an estimate that is null counts as 0, and p_unnatural
    of every denial is DENIALS_UNNATURAL.
    """
    unnatural = _probabilities(rows, "p_unnatural")
    unnatural = np.where(pc.equal(rows["operator"], NEGATION).to_numpy(), DENIALS_UNNATURAL, unnatural)
    return (1 - unnatural) * (1 - _probabilities(rows, "p_compatible")) * (1 - _probabilities(rows, "p_true"))


def _probabilities(rows: pa.Table, name: str) -> np.ndarray:
    """A column as float64, nulls as 0."""
    return pc.fill_null(rows[name], 0.0).to_numpy().astype(float)


def with_p_good(rows: pa.Table) -> pa.Table:
    """A table of negatives, with the column `p_good` (float64); any other table as it is."""
    if not {"negative_id", "operator", "p_unnatural", "p_compatible", "p_true"} <= {*rows.column_names}:
        return rows
    return rows.append_column("p_good", pa.array(p_good(rows)))


class PairOptions(TypedDict, total=False):
    """Which pairs of a run are read, besides the choice by operator and split.

    table: "negatives", "refined", or with `every_caption` "" for none.
    families: only negatives of these; all if empty.
    accepted: the only negative_ids; None for all.
    left_out: the caption_ids of captions that are not read.
    per_operator: how many negatives of each caption and operator are read, the first drawn; None for all.
    every_caption: whether captions without a negative have a row, too, with nulls.
    denials: pair a negative of the operator negation with the true sentence that it contradicts, if the run has such:
        `caption` is that sentence and `positive_id` its id, "" for the caption itself; the negative is left out if its
        true sentence is missing. Else a word such as "without" would tell a negative from its caption without an image;
        the true sentences have such words as often.
    distinct: keep a negative that several operators made of one caption only once, in the first of its rows.
    """

    table: str
    families: Sequence[str]
    accepted: Collection[str] | None
    left_out: Collection[str]
    per_operator: int | None
    every_caption: bool
    denials: bool
    distinct: bool


@dataclass(frozen=True)
class _Selection:
    """PairOptions with their defaults, and the operators and splits to read, () for all."""

    operators: Sequence[str]
    splits: Sequence[str]
    table: str = "negatives"
    families: Sequence[str] = ()
    accepted: Collection[str] | None = None
    left_out: Collection[str] = ()
    per_operator: int | None = None
    every_caption: bool = False
    denials: bool = True
    distinct: bool = False

    def filter(self) -> pc.Expression:
        """The wanted rows of the table, by their own columns alone: the limit `per_operator` needs other rows, too."""
        by_name = {"operator": self.operators, "split": self.splits, "family": self.families}
        wanted = column_filter(by_name) & (pc.field("family") != POSITIVE)
        if self.accepted is not None:
            wanted &= pc.field("negative_id").isin(pa.array(list(self.accepted), pa.string()))
        return wanted

    def pairs_denials(self, run: Path) -> bool:
        """Whether negatives of negation are paired with true denials."""
        may_have_negation = bool(self.table) and (not self.operators or NEGATION in self.operators)
        return self.denials and may_have_negation and has_denials(run)


def pairs(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    refined: bool = False,
    vetted: bool = False,
    per_operator: int | None = None,
    columns: Sequence[str] = COLUMNS,
) -> pa.Table:
    """The pairs of a run in the order of its captions, then of its negatives: each negative with the true sentence that
    it contradicts. That is its caption or, for the operator negation, a true denial, if the run has these.

    Args:
        run: the folder of a run.
        operators: only negatives of these; all if empty.
        splits: only captions of these, "unsplit" for those without a split; all if empty.
        refined: only negatives that `negcap refine` kept.
        vetted: only negatives that all readers accept.
        per_operator: of each caption and operator only so many negatives, the first drawn.
        columns: see `pair_tables`.

    Raises:
        FileNotFoundError: the run lacks a table.
        ValueError: it lacks an operator or a split, a shard lacks a column, or a negative's caption is missing.

    >>> pairs(Path("outputs/mine"), ["noun"], ["test"], per_operator=1).to_pandas()
    """
    table = "refined" if refined else "negatives"
    kinds = kinds_of(run, table)
    check_splits(splits, (kind.split for kind in kinds), run / table)
    check_operators(operators, (kind.operator for kind in kinds), run / table)
    options: PairOptions = {"table": table, "accepted": accepted(run) if vetted else None, "per_operator": per_operator}
    return pa.concat_tables(pair_tables(run, operators, splits, columns=columns, **options))


def pair_tables(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    columns: Sequence[str] = COLUMNS,
    shards: slice = slice(None),
    **options: Unpack[PairOptions],
) -> Iterator[pa.Table]:
    """The pairs of each shard; see `pairs`.

    Args:
        run: the folder of a run.
        operators: only negatives of these; all if empty.
        splits: only captions of these; all if empty.
        columns: of COLUMNS, `row` (in the table, from 0) and `text` (of the caption itself). `image`, `siblings` and
            `sibling_ids` (other captions of its image and split) need the table captions; `draw` numbers the negatives
            of a caption and operator in the order in which they were drawn.
        shards: only these of the table.
        options: see `PairOptions`.

    Raises:
        ValueError: a shard lacks a column, or the table captions lacks a caption.
        DamagedShardError: a shard is missing or unreadable.
    """
    wanted = _Selection(operators, splits, **options)
    needs_captions = wanted.every_caption or not {*OF_CAPTIONS}.isdisjoint(columns)
    captions = _shards_by_file(shards_of(run, "captions")) if needs_captions else {}
    negatives = shards_of(run, wanted.table) if wanted.table else []
    chosen = _shards_by_file(negatives[shards])
    row = sum(shard.rows for shard in negatives[: shards.start or 0])  # the number of the next row in the table
    pairs_denials = wanted.pairs_denials(run)
    positives = _shards_by_file(shards_of(run, "positives")) if pairs_denials else {}
    stored = _stored_columns(columns, pairs_denials)
    # The shards of one number have one file name in all tables. A file without negatives has captions alone.
    for file in {**(captions if wanted.every_caption else {}), **chosen}:
        if needs_captions and file not in captions:
            raise ValueError(f"{wanted.table}/{file} has no captions/{file} beside it: build the run again")
        rows = chosen[file].read(stored) if file in chosen else NEGATIVES.empty_table().select(stored)
        rows = rows.rename_columns(["negative" if name == "text" else name for name in stored])
        # Before any filter, so that the numbers are those in the table.
        rows = rows.append_column("row", pa.array(np.arange(row, row + len(rows))))
        row += len(rows)

        rows = rows.filter(wanted.filter())
        rows = rows.append_column("text", rows["caption"])
        if pairs_denials:
            rows = _pair_with_denials(rows, _true_denials(positives.get(file)))
        else:
            rows = rows.append_column("positive_id", pa.array([""] * len(rows), pa.string()))
        # Only now, so that a negative without its denial does not count among the first of its operator.
        if wanted.distinct:
            rows = rows.take(_first_rows_of_equal_pairs(rows))
        if wanted.per_operator is not None:
            rows = rows.take(np.flatnonzero(earlier_draws(rows) < wanted.per_operator))
        if needs_captions:
            rows = _join_captions(rows, captions[file], f"{wanted.table}/{file}", wanted, columns)
        yield pa.table({name: rows[name] for name in columns})


def _shards_by_file(shards: Sequence[Shard]) -> dict[str, Shard]:
    """The shards by the name of their file, which all tables of a run share."""
    return {shard.path.name: shard for shard in shards}


def _stored_columns(columns: Sequence[str], pairs_denials: bool) -> list[str]:
    """The columns of a table of negatives that are read for these columns of pairs."""
    # The table calls `text` what is `negative` in a pair; the `text` of a pair is the caption's, from another table.
    needed = {"text", *KEYS, *columns, *(["replaced"] if pairs_denials else [])}
    return [name for name in NEGATIVES.names if name in needed]


class CaptionsWithNegatives(NamedTuple):
    """The C English captions of a shard and their M negatives, in the order of the run; those of caption c are the rows
    `starts[c]:starts[c + 1]` of `negatives`. starts: (C + 1,) int64.
    """

    captions: pa.Table
    negatives: pa.Table
    starts: np.ndarray


def captions_with_negatives(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    of_captions: Sequence[str] = ("caption_id",),
    of_negatives: Sequence[str] = ("negative",),
    **options: Unpack[PairOptions],
) -> Iterator[CaptionsWithNegatives]:
    """The captions of each shard, also those without a negative, beside their negatives: what models are trained on.

    Args:
        run, operators, splits: see `pair_tables`.
        of_captions: columns of the captions: caption_id, image_id, image, split, text.
        of_negatives: columns of the negatives, see `pair_tables`.
        options: see `PairOptions`; denials are never paired.

    Raises:
        ValueError: a shard lacks a column, or the table captions lacks a caption.
    """
    columns = tuple(dict.fromkeys(("caption_id", "negative", *of_captions, *of_negatives)))
    options["every_caption"] = True
    options["denials"] = False
    for rows in pair_tables(run, operators, splits, columns=columns, **options):
        caption = rows["caption_id"].combine_chunks().dictionary_encode().indices.to_numpy()  # (rows,) 0, 0, 1, …
        first_of_caption = np.flatnonzero(np.diff(caption, prepend=-1))
        has_negative = rows["negative"].is_valid()
        sizes = np.bincount(caption[has_negative.to_numpy()], minlength=len(first_of_caption))
        yield CaptionsWithNegatives(
            captions=rows.select(of_captions).take(first_of_caption),
            negatives=rows.select(of_negatives).filter(has_negative),
            starts=_starts_of_groups(sizes),
        )


def join_shards(parts: Iterable[CaptionsWithNegatives]) -> CaptionsWithNegatives:
    """The captions and negatives of all shards together, with `starts` into all negatives."""
    shards = list(parts)
    return CaptionsWithNegatives(
        captions=pa.concat_tables(shard.captions for shard in shards).combine_chunks(),
        negatives=pa.concat_tables(shard.negatives for shard in shards).combine_chunks(),
        starts=_starts_of_groups(np.concatenate([np.diff(shard.starts) for shard in shards])),
    )


def _starts_of_groups(sizes: np.ndarray) -> np.ndarray:
    """Where each of n groups of these sizes starts, and the last one ends: (n + 1,) int64."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _first_rows_of_equal_pairs(rows: pa.Table) -> np.ndarray:
    """The numbers of the rows, ascending, whose caption_id, true sentence and negative no earlier row has together."""
    numbered = rows.append_column("number", pa.array(np.arange(len(rows))))
    groups = numbered.group_by(["caption_id", "caption", "negative"], use_threads=False)
    return np.sort(groups.aggregate([("number", "min")])["number_min"].to_numpy())


def earlier_draws(rows: pa.Table) -> np.ndarray:
    """How many rows of the same caption and operator were drawn before each: (rows,), 0 for a first draw.

    Without the column `draw`, rows that stand before count as drawn before.
    """
    caption = np.asarray(rows["caption_id"].combine_chunks().dictionary_encode().indices, np.int64)
    operator = np.asarray(rows["operator"].combine_chunks().dictionary_encode().indices)
    group = caption * (len(rows) + 1) + operator  # one number for each pair: there are at most len(rows) operators
    draw = rows["draw"].to_numpy() if "draw" in rows.column_names else np.arange(len(rows))
    order = np.lexsort((draw, group))  # by group, then by draw
    counts = np.empty(len(rows), np.int64)
    counts[order] = equal_before(group[order])
    return counts


def equal_before(ordered: np.ndarray) -> np.ndarray:
    """For each of ordered values, how many equal ones precede it: [3, 3, 5] -> [0, 1, 0]."""
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]  # cut if there are no values
    starts = np.flatnonzero(is_first)
    return np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))


def _join_captions(rows: pa.Table, shard: Shard, where: str, wanted: _Selection, columns: Sequence[str]) -> pa.Table:
    """Join negatives with the columns of their captions from the table captions, in the order of the captions.

    Args:
        rows: the negatives of a shard; `caption` is the true sentence that each contradicts.
        shard: of the table captions, with their captions.
        where: the shard of the negatives, for messages.
        wanted: which captions are kept, and whether those without a negative are.
        columns: the columns of pairs that are asked for, maybe with siblings, the other captions of the image.
    """
    captions = shard.read(("caption_id", "image_id", "image", "split", "language", "text"))
    unknown = pc.invert(pc.is_in(rows["caption_id"], captions["caption_id"].combine_chunks()))
    if pc.any(unknown).as_py():
        raise ValueError(f"{where} has {min(rows['caption_id'].filter(unknown).to_pylist())}, which {shard.name} lacks")
    left_out = pa.array(list(wanted.left_out), pa.string())
    # Only English captions are ever changed, so others do not count as captions without a negative.
    kept = (pc.field("language") == LANGUAGE) & ~pc.field("caption_id").isin(left_out)
    captions = captions.filter(kept & column_filter({"split": wanted.splits}))

    # `caption_number` and `row_number` get an entry for each pair; the row is -1 for a caption without a negative.
    caption_of_row = pc.index_in(rows["caption_id"], captions["caption_id"].combine_chunks())
    caption_of_row = pc.fill_null(caption_of_row, -1).to_numpy()
    row_number = np.flatnonzero(caption_of_row >= 0)
    caption_number = caption_of_row[row_number]
    if wanted.every_caption:
        bare = np.setdiff1d(np.arange(len(captions)), caption_of_row)
        caption_number = np.concatenate([caption_number, bare])
        row_number = np.concatenate([row_number, np.full(len(bare), -1)])
    order = np.argsort(caption_number, kind="stable")
    caption_number = caption_number[order]
    row_number = row_number[order]

    for name, of_sibling in (("siblings", "text"), ("sibling_ids", "caption_id")):
        if name in columns:
            captions = captions.append_column(
                name, pa.array(_siblings_of_captions(captions, of_sibling), pa.list_(pa.string()))
            )
    captions = captions.take(caption_number)
    rows = rows.take(pa.array(row_number, mask=row_number < 0))
    # The true sentence: a negative's `caption`, which may be a denial (see `_pair_with_denials`), else the caption.
    true = pc.coalesce(rows["caption"], captions["text"])
    rows = rows.set_column(rows.schema.get_field_index("caption"), "caption", true)
    rows = rows.drop_columns([name for name in rows.column_names if name in captions.column_names])
    return pa.Table.from_arrays([*rows, *captions], names=[*rows.column_names, *captions.column_names])


def _siblings_of_captions(captions: pa.Table, column: str) -> list[list[str]]:
    """For each caption the values that its siblings, the others of its image and split, have in a column."""
    keys = list(zip(captions["image_id"].to_pylist(), captions["split"].to_pylist(), strict=True))
    values = captions[column].to_pylist()
    rows_of_key: dict[tuple[str, str], list[int]] = {}  # by image_id and split
    for row, key in enumerate(keys):
        rows_of_key.setdefault(key, []).append(row)
    siblings = []
    for row, key in enumerate(keys):
        siblings.append([values[other] for other in rows_of_key[key] if other != row])
    return siblings


def _true_denials(shard: Shard | None) -> pa.Table:
    """The true denials in a shard of the table positives, such as "there is no dog"; none if there is no such shard.

    Columns: positive_id, text, and `key`, by which a negative that contradicts the denial is joined to it.
    """
    columns = ("caption_id", "replacement", "positive_id", "text", "operator")
    rows = POSITIVES.empty_table().select(columns) if shard is None else shard.read(columns)
    rows = rows.filter(pc.field("operator") == TRUE_NEGATION)
    return rows.select(["positive_id", "text"]).append_column(
        "key", _contradiction_key(rows["caption_id"], rows["replacement"])
    )


def _contradiction_key(caption_id: pa.ChunkedArray, asserted: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text that a negative and the denial that it contradicts have in common, to join tables by.

    asserted: what the denial says, "not dog". It is the `replacement` of the denial, and `replaced` in the negative.
    """
    return pc.binary_join_element_wise(caption_id, asserted, "\n")


def has_denials(run: Path) -> bool:
    """Whether a run has true denials. Raises ValueError if the table positives is unfinished."""
    return has_table(run, "positives") and any(len(_true_denials(shard)) for shard in shards_of(run, "positives"))


def _pair_with_denials(rows: pa.Table, denials: pa.Table) -> pa.Table:
    """Negatives, each beside the true sentence that it contradicts.

    A row of `negation` may contradict a true denial of its caption: "there is a dog" contradicts "there is no dog".
    The denial is the one whose `replacement` is what the row has `replaced`, such as "not dog". Then the row's
    `caption` becomes the denial's text. Any other row contradicts its own caption, which stays as it is.

    Args:
        rows: negatives, with caption_id, operator, caption and replaced.
        denials: the true denials of the same captions, see `_true_denials`.

    Returns:
        The rows with the column `positive_id`, the denial's id, "" for a row that contradicts its own caption. Rows
        that contradict a denial which `denials` lacks are left out.
    """
    is_negation = pc.equal(rows["operator"], NEGATION)
    # (rows,): the number of the denial that each contradicts; null: none
    denial = pc.index_in(_contradiction_key(rows["caption_id"], rows["replaced"]), denials["key"].combine_chunks())
    denial = pc.if_else(is_negation, denial, pa.scalar(None, pa.int32()))
    contradicts_denial = pc.match_substring(rows["replaced"], NO)  # NO begins what is denied, as in "not dog"
    is_lacking = pc.and_(is_negation, pc.and_(pc.is_null(denial), contradicts_denial))
    texts = pc.coalesce(denials["text"].take(denial), rows["caption"])
    rows = rows.set_column(rows.schema.get_field_index("caption"), "caption", texts)
    rows = rows.append_column("positive_id", pc.fill_null(denials["positive_id"].take(denial), ""))
    return rows.filter(pc.invert(is_lacking))


def with_true(run: Path, rows: Sequence[TableRow]) -> list[TableRow]:
    """Rows of negatives, each with the true sentence that it contradicts as `caption`.

    A negation may contradict a denial, a row of the table positives: "there is a dog", "there is no dog". If the run
    lacks this denial, the row is left out. A run without denials gives the rows as they are.
    """
    if not any(row["operator"] == NEGATION for row in rows) or not has_denials(run):
        return list(rows)
    columns = {name: [row[name] for row in rows] for name in ("caption_id", "operator", "caption", "replaced")}
    denials = pa.concat_tables(map(_true_denials, shards_of(run, "positives")))
    paired = _pair_with_denials(pa.table({**columns, "number": range(len(rows))}), denials)
    numbers_and_captions = zip(paired["number"].to_pylist(), paired["caption"].to_pylist(), strict=True)
    return [{**rows[number], "caption": caption} for number, caption in numbers_and_captions]


def accepted(run: Path) -> frozenset[str]:
    """The negative_ids that some readers (models that `vet` asks) have read, and none of them has refused.

    A reader refuses a negative that it calls odd, true together with its caption, or true of the photo. Raises
    FileNotFoundError for a run without verdicts.
    """
    # A verdict with a `problem` is an answer that could not be used.
    verdicts = [row for table in read_table(run, "verdicts") for row in table.to_pylist() if not row["problem"]]
    # One reader who refuses a negative is enough. `false`: of the photo; None if the reader did not see it.
    read = {row["negative_id"] for row in verdicts}
    refused = {
        row["negative_id"]
        for row in verdicts
        if row["odd"] in ("negative", "both") or row["both_true"] or row["false"] is False
    }
    return frozenset(read - refused)


def p_true_by_readers(run: Path) -> dict[str, float]:
    """How probably negatives are true of their photos by models that saw the photos, by negative_id: see `likelihoods`.

    {} if an image has several captions, which already say what else is true of it.
    """
    if not has_table(run, "verdicts"):
        return {}
    images = [image for table in read_table(run, "captions", ["image_id"]) for image in table["image_id"].to_pylist()]
    if len(set(images)) < len(images):
        return {}
    return likelihoods(row for table in read_table(run, "verdicts") for row in table.to_pylist())


def likelihoods(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """How probably each negative is true of its photo, by negative_id.

    Each model that was shown the photo gives its confidence if it called the negative true, or 1 - confidence if false;
    these are averaged. A missing confidence counts as 1.
    """
    p_true_of_readers: dict[str, list[float]] = {}
    for row in verdicts:
        if row["reading"] == "image" and not row["problem"]:
            confidence = 1.0 if row["confidence"] is None else row["confidence"]
            p_true = 1 - confidence if row["false"] else confidence
            p_true_of_readers.setdefault(row["negative_id"], []).append(p_true)
    return {negative_id: fmean(values) for negative_id, values in p_true_of_readers.items()}
