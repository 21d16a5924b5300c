"""Pairs of a true caption and its negative: with them begins whatever reads the negatives of a run. `pairs` is one
table, `pair_tables` a shard at a time: all of an image is in the shards of one number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...augment.rows import NO
from ...schemas.captions import LANGUAGE
from ...schemas.negatives import NEGATIVES, POSITIVE, POSITIVES
from ..engine.tables import Shard, has_table, read_table, shards_of
from .columns import check_operators, check_splits, having, kinds_of

MEASURES = ("p_true", "plausibility", "p_unnatural", "p_compatible", "concreteness")  # of a negative
COLUMNS = (
    *("caption_id", "image_id", "image", "split", "caption", "positive_id"),
    *("negative_id", "negative", "operator", "family", "draw", "replaced", "replacement", *MEASURES, "siblings"),
)
NEGATION = "negation"
TRUE_NEGATION = "true_negation"
DENIALS_ODD = 0.39  # the share of negation that readers called odd, for its form, which p_unnatural does not know
Row = dict[str, Any]


def p_good(rows: pa.Table) -> np.ndarray:
    """(rows,): the probability that each is sensible and false: (1 - p_unnatural)(1 - p_compatible)(1 - p_true), nulls
    as 0.
    """
    odd, *true = (
        pc.fill_null(rows[name], 0.0).to_numpy().astype(float) for name in ("p_unnatural", "p_compatible", "p_true")
    )
    odd = np.where(pc.equal(rows["operator"], NEGATION).to_numpy(), DENIALS_ODD, odd)
    return np.prod([1 - odd, *(1 - probability for probability in true)], 0)


def with_p_good(rows: pa.Table) -> pa.Table:
    """A table of negatives, with the column `p_good` (float64); any other table as it is."""
    if not {"negative_id", "operator", "p_unnatural", "p_compatible", "p_true"} <= {*rows.column_names}:
        return rows
    return rows.append_column("p_good", pa.array(p_good(rows)))


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
    """The pairs of a run in the order of its captions, then of its negatives: each with the true sentence that it
    contradicts, its caption or, of the operator negation, a true denial, if the run has these. operators, splits
    ("unsplit": without one): only of these, if any; refined: kept by `negcap refine`; vetted: accepted by all readers;
    per_operator: of each caption and operator, the first drawn; columns: see `pair_tables`. Raises FileNotFoundError
    without a table, ValueError for an operator or split that it lacks, and as `pair_tables`.

    >>> pairs(Path("outputs/mine"), ["noun"], ["test"], per_operator=1).to_pandas()
    """
    table = "refined" if refined else "negatives"
    kinds = kinds_of(run, table)
    check_splits(splits, (kind.split for kind in kinds), run / table)
    check_operators(operators, (kind.operator for kind in kinds), run / table)
    how: dict[str, Any] = {"accepted": accepted(run) if vetted else None, "per_operator": per_operator}
    return pa.concat_tables(pair_tables(run, operators, splits, table=table, columns=columns, **how))


def pair_tables(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    table: str = "negatives",
    families: Sequence[str] = (),
    columns: Sequence[str] = COLUMNS,
    accepted: Collection[str] | None = None,
    left_out: Collection[str] = (),
    per_operator: int | None = None,
    shards: slice = slice(None),
    every_caption: bool = False,
    denials: bool = True,
    distinct: bool = False,
) -> Iterator[pa.Table]:
    """The pairs of each shard; see `pairs`. table: "negatives", "refined", or with `every_caption` "" for none.
    families: only negatives of these, if any. columns: of COLUMNS, `row` (in the table, from 0), `text` of the caption
    itself; `image`, `siblings` and `sibling_ids` (other captions of its image and split) need the table captions;
    `draw` counts a caption's and operator's negatives as drawn. accepted: the only negative_ids, None for all;
    left_out: no captions of these ids. shards: only these of the table. every_caption: captions without a negative have
    a row, too, with nulls. distinct: keep a negative that several operators made from one caption only once, in the
    first of its rows.

    If the run has true denials, and `denials`, a negative of negation is paired with the true sentence that it
    contradicts: `caption` is its text and `positive_id` its id, "" for the caption itself; it is left out without one.
    Nobody needs an image to tell a sentence with "without" from its caption; a true sentence about the same two things
    has such a word as often. Raises ValueError for a column that a shard lacks or a missing caption, and as
    `Shard.read`.
    """
    joined = every_caption or bool({"image", "siblings", "sibling_ids"} & {*columns})
    owners = {shard.path.name: shard for shard in shards_of(run, "captions")} if joined else {}
    every = shards_of(run, table) if table else []
    made = {shard.path.name: shard for shard in every[shards]}
    row = sum(shard.rows for shard in every[: shards.start or 0])
    denied = denials and bool(table) and (not operators or NEGATION in operators) and has_denials(run)
    positives = {shard.path.name: shard for shard in shards_of(run, "positives")} if denied else {}
    stored = [{"negative": "text"}.get(name, name) for name in columns if name in {*NEGATIVES.names, "negative"}]
    keys = ("negative_id", "caption_id", "operator", "family", "caption", "image_id", "split", "draw")
    stored = list(dict.fromkeys([*keys, *stored, *(["replaced"] if denied else [])]))
    wanted = having({"operator": operators, "split": splits, "family": families}) & (pc.field("family") != POSITIVE)
    if accepted is not None:
        wanted &= pc.field("negative_id").isin(pa.array(list(accepted), pa.string()))
    for name in {**(owners if every_caption else {}), **made}:
        if joined and name not in owners:
            raise ValueError(f"{table}/{name} has no captions/{name} beside it: build the run again")
        rows = made[name].read(stored) if name in made else NEGATIVES.empty_table().select(stored)
        rows = rows.rename_columns([{"text": "negative"}.get(column, column) for column in stored])
        rows = rows.append_column("row", pa.array(np.arange(row, row + len(rows))))
        row += len(rows)
        rows = rows.filter(wanted)
        rows = rows.append_column("text", rows["caption"])
        if denied:
            rows = _contradicting(rows, _denials(positives.get(name)))
        else:
            rows = rows.append_column("positive_id", pa.array([""] * len(rows), pa.string()))
        if distinct:
            rows = rows.take(_first_made(rows))
        if per_operator is not None:
            rows = rows.take(np.flatnonzero(earlier(rows) < per_operator))
        if joined:
            rows = _joined(rows, owners[name], f"{table}/{name}", splits, left_out, columns, every_caption)
        yield pa.table({name: rows[name] for name in columns})


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
    table: str = "negatives",
    families: Sequence[str] = (),
    of_captions: Sequence[str] = ("caption_id",),
    of_negatives: Sequence[str] = ("negative",),
    distinct: bool = False,
) -> Iterator[CaptionsWithNegatives]:
    """The captions of each shard, also those without a negative, beside their negatives: what models are trained on.

    Args:
        run: the folder of a run.
        operators: only negatives of these; all if empty.
        splits: only captions of these splits; all if empty.
        table: "negatives", "refined", or "" for none.
        families: only negatives of these; all if empty.
        of_captions: columns of the captions: caption_id, image_id, image, split, text.
        of_negatives: columns of the negatives, see `pair_tables`.
        distinct: keep a negative that several operators made of one caption only once.

    Raises:
        As `pair_tables`.
    """
    columns = tuple(dict.fromkeys(("caption_id", "negative", *of_captions, *of_negatives)))
    chosen: dict[str, Any] = {"table": table, "families": families, "columns": columns, "distinct": distinct}
    for rows in pair_tables(run, operators, splits, every_caption=True, denials=False, **chosen):
        caption = rows["caption_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        first = np.flatnonzero(np.diff(caption, prepend=-1))
        made = rows["negative"].is_valid()
        sizes = np.bincount(caption[made.to_numpy()], minlength=len(first))
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        yield CaptionsWithNegatives(
            rows.select(of_captions).take(first), rows.select(of_negatives).filter(made), starts
        )


def joined(parts: Iterable[CaptionsWithNegatives]) -> CaptionsWithNegatives:
    """Those of all shards together."""
    captions, negatives, starts = zip(*parts, strict=True)
    sizes = np.concatenate([np.diff(each) for each in starts])
    return CaptionsWithNegatives(
        pa.concat_tables(captions).combine_chunks(),
        pa.concat_tables(negatives).combine_chunks(),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def _first_made(rows: pa.Table) -> np.ndarray:
    """The numbers of the rows, in order, of which no earlier one has the caption, its true text and the negative."""
    numbered = rows.append_column("at", pa.array(np.arange(len(rows))))
    first = numbered.group_by(["caption_id", "caption", "negative"], use_threads=False).aggregate([("at", "min")])
    return np.sort(first["at_min"].to_numpy())


def earlier(rows: pa.Table) -> np.ndarray:
    """(rows,): how many rows of the same caption_id and operator were drawn (without `draw`: stand) before."""
    caption, operator = (rows[name].combine_chunks().dictionary_encode().indices for name in ("caption_id", "operator"))
    group = np.asarray(caption, np.int64) * (len(rows) + 1) + np.asarray(operator)
    draw = rows["draw"].to_numpy() if "draw" in rows.column_names else np.arange(len(rows))
    order = np.lexsort((draw, group))
    found = np.empty(len(rows), np.int64)
    found[order] = running(group[order])
    return found


def running(ordered: np.ndarray) -> np.ndarray:
    """For each of ordered values, how many equal ones precede it: [3, 3, 5] -> [0, 1, 0]."""
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    return np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))


def _joined(
    rows: pa.Table,
    shard: Shard,
    where: str,
    splits: Sequence[str],
    left_out: Collection[str],
    columns: Sequence[str],
    every: bool,
) -> pa.Table:
    """The rows with what the table captions knows of theirs, in the order of the captions; see `pair_tables`."""
    captions = shard.read(("caption_id", "image_id", "image", "split", "language", "text"))
    unknown = pc.invert(pc.is_in(rows["caption_id"], captions["caption_id"].combine_chunks()))
    if pc.any(unknown).as_py():
        raise ValueError(f"{where} has {min(rows['caption_id'].filter(unknown).to_pylist())}, which {shard.name} lacks")
    kept = (pc.field("language") == LANGUAGE) & ~pc.field("caption_id").isin(pa.array(list(left_out), pa.string()))
    captions = captions.filter(kept & having({"split": splits}))
    owner = pc.fill_null(pc.index_in(rows["caption_id"], captions["caption_id"].combine_chunks()), -1).to_numpy()
    at = np.flatnonzero(owner >= 0)
    bare = np.setdiff1d(np.arange(len(captions)), owner) if every else np.empty(0, np.int64)
    owner = np.concatenate([owner[at], bare])
    at = np.concatenate([at, np.full(len(bare), -1)])
    order = np.argsort(owner, kind="stable")
    owner = owner[order]
    at = at[order]
    for name, of in (("siblings", "text"), ("sibling_ids", "caption_id")):
        if name in columns:
            captions = captions.append_column(name, pa.array(_siblings(captions, of), pa.list_(pa.string())))
    captions = captions.take(owner)
    rows = rows.take(pa.array(at, mask=at < 0))
    true = pc.coalesce(rows["caption"], captions["text"])
    rows = rows.set_column(rows.schema.get_field_index("caption"), "caption", true)
    rows = rows.drop_columns([name for name in rows.column_names if name in captions.column_names])
    return pa.Table.from_arrays([*rows, *captions], names=[*rows.column_names, *captions.column_names])


def _siblings(captions: pa.Table, column: str) -> list[list[str]]:
    """For each caption the values that the others of its image and split have in a column."""
    together: dict[tuple[str, str], list[tuple[int, str]]] = {}
    keys = list(zip(captions["image_id"].to_pylist(), captions["split"].to_pylist(), strict=True))
    for number, (key, value) in enumerate(zip(keys, captions[column].to_pylist(), strict=True)):
        together.setdefault(key, []).append((number, value))
    return [[value for other, value in together[key] if other != number] for number, key in enumerate(keys)]


def _denials(shard: Shard | None) -> pa.Table:
    """The true denials in a shard of positives (None: none): `key`, the caption and what is said; positive_id; text."""
    columns = ("caption_id", "replacement", "positive_id", "text", "operator")
    rows = POSITIVES.empty_table().select(columns) if shard is None else shard.read(columns)
    rows = rows.filter(pc.field("operator") == TRUE_NEGATION)
    return rows.select(["positive_id", "text"]).append_column("key", _key(rows["caption_id"], rows["replacement"]))


def _key(caption_id: pa.ChunkedArray, said: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(caption_id, said, "\n")


def has_denials(run: Path) -> bool:
    """Whether a run has true denials. Raises ValueError if the table positives is unfinished."""
    return has_table(run, "positives") and any(len(_denials(shard)) for shard in shards_of(run, "positives"))


def _contradicting(rows: pa.Table, denials: pa.Table) -> pa.Table:
    """The rows with `positive_id`, those of `negation` beside the true sentence that they contradict, as `caption`:
    that whose `replacement` is the row's `replaced` ("not dog"), or the caption itself if nothing is denied there. A
    row whose sentence the run lacks is left out.
    """
    at = pc.index_in(_key(rows["caption_id"], rows["replaced"]), denials["key"].combine_chunks())
    negation = pc.equal(rows["operator"], NEGATION)
    at = pc.if_else(negation, at, pa.scalar(None, pa.int32()))
    lacking = pc.and_(negation, pc.and_(pc.is_null(at), pc.match_substring(rows["replaced"], NO)))
    texts = pc.coalesce(denials["text"].take(at), rows["caption"])
    rows = rows.set_column(rows.schema.get_field_index("caption"), "caption", texts)
    rows = rows.append_column("positive_id", pc.fill_null(denials["positive_id"].take(at), ""))
    return rows.filter(pc.invert(lacking))


def with_true(run: Path, rows: Sequence[Row]) -> list[Row]:
    """Rows with the true sentence that each contradicts as `caption`; those without one are left out."""
    if not any(row["operator"] == NEGATION for row in rows) or not has_denials(run):
        return list(rows)
    columns = {name: [row[name] for row in rows] for name in ("caption_id", "operator", "caption", "replaced")}
    denials = pa.concat_tables(map(_denials, shards_of(run, "positives")))
    paired = _contradicting(pa.table({**columns, "number": range(len(rows))}), denials)
    numbered = zip(paired["number"].to_pylist(), paired["caption"].to_pylist(), strict=True)
    return [{**rows[number], "caption": caption} for number, caption in numbered]


def accepted(run: Path) -> frozenset[str]:
    """The ids of negatives that were read, and no reader calls odd, or true with the caption or of the photo.

    Raises FileNotFoundError without verdicts.
    """
    rows = [row for table in read_table(run, "verdicts") for row in table.to_pylist() if not row["problem"]]
    odd = (row for row in rows if row["odd"] in ("negative", "both") or row["both_true"] or row["false"] is False)
    return frozenset({row["negative_id"] for row in rows} - {row["negative_id"] for row in odd})


def p_true_by_readers(run: Path) -> dict[str, float]:
    """By negative_id p_true by who saw the photo (`likelihoods`); {} if captions tell: an image has two."""
    if not has_table(run, "verdicts"):
        return {}
    images = [image for table in read_table(run, "captions", ["image_id"]) for image in table["image_id"].to_pylist()]
    if len(set(images)) < len(images):
        return {}
    return likelihoods(row for table in read_table(run, "verdicts") for row in table.to_pylist())


def likelihoods(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """How probably each negative is true of its photo, by negative_id: the mean over the models that were shown the
    photo of their confidence if they called it true, and of 1 - confidence if false. A missing confidence counts as 1.
    """
    found: dict[str, list[float]] = {}
    for row in verdicts:
        if row["reading"] == "image" and not row["problem"]:
            confidence = 1.0 if row["confidence"] is None else row["confidence"]
            found.setdefault(row["negative_id"], []).append(1 - confidence if row["false"] else confidence)
    return {negative_id: fmean(values) for negative_id, values in found.items()}
