"""Pairs of a true caption and its negative: with them begins whatever reads the negatives of a run.

`pairs` is one table, `pair_tables` the same a shard at a time, so that memory does not grow with the run: all captions
of an image, and what was made of them, are in the shards of one number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from ...augment.reproducible import record_rng
from ..engine.tables import Shard, has_table, read_table, shards_of
from .columns import check_operators, check_splits, kinds_of, read_columns, stored_splits

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Pick = Literal["first", "random"]  # of the negatives of a caption and operator: the first drawn, or random ones
MEASURES = ("p_true", "plausibility", "context_loss", "concreteness")  # of a negative
COLUMNS = (
    *("caption_id", "image_id", "image", "split", "caption", "positive_id"),
    *("negative_id", "negative", "operator", "family", "draw", "replaced", "replacement", *MEASURES, "siblings"),
)
NEGATION, TRUE_NEGATION = "negation", "true_negation"
# In `replaced` and `replacement`: before what is denied, and between what is asserted and what is denied.
DENIED, BOTH = "not ", " | "
Row = dict[str, Any]


def pairs(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    refined: bool = False,
    vetted: bool = False,
    per_caption: int | None = None,
    pick: Pick = "first",
    seed: int = 0,
    columns: Sequence[str] = COLUMNS,
) -> pa.Table:
    """The pairs of a run, a row each, in the order of its captions, then of its negatives.

    operators, splits: only of these, all if empty; "unsplit" stands for captions without a split. refined: those that
    `negcap refine` kept; vetted: those that all readers accept. per_caption, pick, seed, columns: see `pair_tables`.
    Paraphrases, which are true, are no negatives. Raises FileNotFoundError if the run lacks a table, ValueError for an
    operator or split that the table lacks, and as `pair_tables`.

        >>> pairs(Path("outputs/mine"), ["noun"], ["test"], per_caption=1).to_pandas()
    """
    import pyarrow as pa

    table = "refined" if refined else "negatives"
    kinds = kinds_of(run, table)
    check_splits(splits, (kind.split for kind in kinds), run / table)
    check_operators(operators, (kind.operator for kind in kinds), run / table)
    parts = pair_tables(
        run,
        operators,
        splits,
        table=table,
        columns=columns,
        accepted=accepted(run) if vetted else None,
        per_caption=per_caption,
        pick=pick,
        seed=seed,
    )
    return pa.concat_tables(parts)


def pair_tables(
    run: Path,
    operators: Sequence[str] = (),
    splits: Sequence[str] = (),
    *,
    table: str = "negatives",
    columns: Sequence[str] = COLUMNS,
    accepted: Collection[str] | None = None,
    left_out: Collection[str] = (),
    per_caption: int | None = None,
    pick: Pick = "first",
    seed: int = 0,
    purpose: str = "publish",
    shards: slice = slice(None),
    every_caption: bool = False,
    denials: bool = True,
) -> Iterator[pa.Table]:
    """The pairs of each shard; see `pairs`.

    table: "negatives", "refined", or with `every_caption` "" for none. columns: of COLUMNS, or `row`, the row in the
    table, from 0, or `text`, of the caption itself; `image` and `siblings` (the texts of the other captions of its
    image and split) need the table captions. `draw` counts the negatives of a caption and operator in the order in
    which they were drawn, from 0. accepted: the only negative_ids, None for all; left_out: no captions of these ids.
    per_caption: at most so many of each caption and operator: the first drawn ("first"), or a random choice ("random")
    by seed, `purpose` and the ids. shards: only these shards of the table. every_caption: captions without a negative
    have a row, too, in which what is of the negative is null.

    If the run has true denials, and unless `denials` is False, a negative of the operator negation is paired with the
    true sentence that it contradicts: `caption` is its text and `positive_id` its id, "" for the caption itself; it is
    left out if there is none. Nobody needs an image to tell a sentence with "without" from its caption; beside a true
    sentence about the same two things it has such a word as often as that one.

    Raises ValueError for a column that a shard lacks, a negative whose caption is missing, or an unknown pick,
    DamagedShardError for a shard that is not as recorded.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from ...schemas.negatives import NEGATIVES, POSITIVE

    if pick not in get_args(Pick):
        raise ValueError(f"pick must be one of {', '.join(get_args(Pick))}, was: {pick}")
    joined = every_caption or bool({"image", "siblings"} & {*columns})
    owners = {shard.path.name: shard for shard in shards_of(run, "captions")} if joined else {}
    every = shards_of(run, table) if table else []
    made = {shard.path.name: shard for shard in every[shards]}
    row = sum(shard.rows for shard in every[: shards.start or 0])
    denied = true_denials(run) if denials and table and (not operators or NEGATION in operators) else None
    stored = [{"negative": "text"}.get(name, name) for name in columns if name in {*NEGATIVES.names, "negative"}]
    keys = ("negative_id", "caption_id", "operator", "family", "caption", "image_id", "split")
    stored = list(dict.fromkeys([*keys, *stored, *(["replaced"] if denied else [])]))
    wanted = pc.field("family") != POSITIVE
    for name, values in {"operator": operators, "split": stored_splits(splits), "negative_id": accepted}.items():
        if values or name == "negative_id" and values is not None:
            wanted &= pc.field(name).isin(pa.array(list(values), pa.string()))
    for name in {**(owners if every_caption else {}), **made}:
        if joined and name not in owners:
            raise ValueError(f"{table}/{name} has no captions/{name} beside it: build the run again")
        rows = read_columns(made[name], stored) if name in made else NEGATIVES.empty_table().select(stored)
        rows = rows.rename_columns([{"text": "negative"}.get(column, column) for column in stored])
        rows = rows.append_column("row", pa.array(np.arange(row, row + len(rows))))
        row += len(rows)
        rows = rows.filter(wanted)
        rows = rows.append_column("draw", pa.array(draws(rows["negative_id"]), pa.int32()))
        rows = _with_contradicted_sentences(rows, denied(made[name]) if denied and name in made else None)
        if per_caption is not None:
            rows = rows.take(_chosen(rows, per_caption, None if pick == "first" else seed, purpose))
        if joined:
            rows = _joined(rows, owners[name], f"{table}/{name}", splits, left_out, columns, every_caption)
        yield rows.select(list(columns)).replace_schema_metadata()


def draws(ids: pa.ChunkedArray) -> np.ndarray:
    """(n,): the numbers at the end of ids: how many negatives of the caption were drawn before by the same operator.

    Raises ValueError for an id that ends otherwise.
    """
    import pyarrow.compute as pc

    number = pc.struct_field(pc.extract_regex(ids, r":(?P<draw>[0-9]+)$"), "draw")
    if number.null_count:
        raise ValueError(f"negative_id must end with :<k>, was: {ids.filter(pc.is_null(number))[0].as_py()}")
    return number.cast("int32").to_numpy()


def earlier(rows: pa.Table) -> np.ndarray:
    """(rows,): how many rows of the same caption_id and operator were drawn before, or stand before if the table has no
    column `draw`.
    """
    import numpy as np

    caption, operator = (rows[name].combine_chunks().dictionary_encode().indices for name in ("caption_id", "operator"))
    group = np.asarray(caption, np.int64) * (len(rows) + 1) + np.asarray(operator)
    draw = rows["draw"].to_numpy() if "draw" in rows.column_names else np.arange(len(rows))
    order = np.lexsort((draw, group))
    found = np.empty(len(rows), np.int64)
    found[order] = running(group[order])
    return found


def running(ordered: np.ndarray) -> np.ndarray:
    """For each of ordered values, how many equal ones precede it: [3, 3, 5] -> [0, 1, 0]."""
    import numpy as np

    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    return np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))


def _chosen(rows: pa.Table, most: int, seed: int | None, purpose: str) -> np.ndarray:
    """The rows that are chosen of each caption and operator; seed: None for the first drawn."""
    import numpy as np

    turn = earlier(rows)
    if seed is None:
        return np.flatnonzero(turn < most)
    groups: dict[str, list[int]] = {}
    ids = rows["negative_id"].to_pylist()
    for at in np.argsort(turn, kind="stable").tolist():
        groups.setdefault(ids[at].rpartition(":")[0], []).append(at)
    chosen = (record_rng(seed, purpose, key).sample(some, min(most, len(some))) for key, some in groups.items())
    return np.array(sorted(at for some in chosen for at in some), np.int64)


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
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from ...schemas.captions import LANGUAGE

    captions = read_columns(shard, ("caption_id", "image_id", "image", "split", "language", "text"))
    unknown = pc.invert(pc.is_in(rows["caption_id"], captions["caption_id"].combine_chunks()))
    if pc.any(unknown).as_py():
        raise ValueError(f"{where} has {min(rows['caption_id'].filter(unknown).to_pylist())}, which {shard.name} lacks")
    kept = (pc.field("language") == LANGUAGE) & ~pc.field("caption_id").isin(pa.array(list(left_out), pa.string()))
    if splits:
        kept &= pc.field("split").isin(stored_splits(splits))
    captions = captions.filter(kept)
    owner = pc.fill_null(pc.index_in(rows["caption_id"], captions["caption_id"].combine_chunks()), -1).to_numpy()
    at = np.flatnonzero(owner >= 0)
    bare = np.setdiff1d(np.arange(len(captions)), owner) if every else np.empty(0, np.int64)
    owner, at = np.concatenate([owner[at], bare]), np.concatenate([at, np.full(len(bare), -1)])
    order = np.argsort(owner, kind="stable")
    owner, at = owner[order], at[order]
    if "siblings" in columns:
        captions = captions.append_column("siblings", pa.array(_siblings(captions), pa.list_(pa.string())))
    captions, rows = captions.take(owner), rows.take(pa.array(at, mask=at < 0))
    true = pc.coalesce(rows["caption"], captions["text"])
    rows = rows.set_column(rows.schema.get_field_index("caption"), "caption", true)
    rows = rows.drop_columns([name for name in rows.column_names if name in captions.column_names])
    return pa.Table.from_arrays([*rows, *captions], names=[*rows.column_names, *captions.column_names])


def _siblings(captions: pa.Table) -> list[list[str]]:
    """For each caption the texts of the others of its image and split."""
    together: dict[tuple[str, str], list[tuple[int, str]]] = {}
    keys = list(zip(captions["image_id"].to_pylist(), captions["split"].to_pylist(), strict=True))
    for number, (key, text) in enumerate(zip(keys, captions["text"].to_pylist(), strict=True)):
        together.setdefault(key, []).append((number, text))
    return [[text for other, text in together[key] if other != number] for number, key in enumerate(keys)]


# denials


class TrueSentence(NamedTuple):
    """A true sentence about a caption's image, as in the table positives; its id is "" if it is the caption itself."""

    positive_id: str
    text: str


# By caption_id and `replacement`, which is what the sentence says.
TrueSentences = Mapping[tuple[str, str], TrueSentence]


def _contradicted(denials: TrueSentences, caption_id: str, replaced: str, caption: str) -> TrueSentence | None:
    """The true sentence that a row of `negation` contradicts: the one whose `replacement` is the row's `replaced` ("not
    dog"); the caption itself if nothing is denied there ("hat", contradicted by "not hat"); None if the run lacks it.
    """
    found = denials.get((caption_id, replaced))
    return TrueSentence("", caption) if found is None and DENIED not in replaced else found


def true_denials(run: Path) -> Callable[[Shard], TrueSentences] | None:
    """A function from a shard of negatives to the true sentences about its captions; None if the run has none.

    Raises ValueError if the table positives is unfinished.
    """
    if not has_table(run, "positives"):
        return None
    shards = {shard.path.name: shard for shard in shards_of(run, "positives")}

    def of_shard(negatives: Shard) -> TrueSentences:
        return _denials(shards[negatives.path.name]) if negatives.path.name in shards else {}

    return of_shard if any(map(_denials, shards.values())) else None


def _denials(positives: Shard) -> dict[tuple[str, str], TrueSentence]:
    import pyarrow.compute as pc

    rows = read_columns(positives, ("positive_id", "caption_id", "operator", "text", "replacement"))
    found: dict[tuple[str, str], TrueSentence] = {}
    for row in rows.filter(pc.field("operator") == TRUE_NEGATION).to_pylist():
        found.setdefault((row["caption_id"], row["replacement"]), TrueSentence(row["positive_id"], row["text"]))
    return found


def _with_contradicted_sentences(rows: pa.Table, denials: TrueSentences | None) -> pa.Table:
    """The rows with `positive_id`, and those of `negation` beside the sentence that they contradict; without those that
    contradict none. denials: None if the run has none.
    """
    import pyarrow as pa

    rows = rows.append_column("text", rows["caption"])
    if denials is None:
        return rows.append_column("positive_id", pa.array([""] * len(rows), pa.string()))
    made = [
        _contradicted(denials, row["caption_id"], row["replaced"], row["caption"])
        if row["operator"] == NEGATION
        else TrueSentence("", row["caption"])
        for row in rows.select(["caption_id", "operator", "replaced", "caption"]).to_pylist()
    ]
    kept = [denial for denial in made if denial is not None]
    rows = rows.filter(pa.array([denial is not None for denial in made], pa.bool_()))
    rows = rows.append_column("positive_id", pa.array([denial.positive_id for denial in kept], pa.string()))
    texts = pa.array([denial.text for denial in kept], pa.string())
    return rows.set_column(rows.schema.get_field_index("caption"), "caption", texts)


def with_true(run: Path, rows: Sequence[Row]) -> list[Row]:
    """Rows of negatives, each with the true sentence that it contradicts as `caption`, as `pair_tables` pairs them.

    rows: with caption_id, operator, caption and replaced. Those without such a sentence are left out. Raises as
    `shards_of`.
    """
    mine = {row["caption_id"] for row in rows if row["operator"] == NEGATION}
    found: dict[tuple[str, str], TrueSentence] = {}
    for shard in shards_of(run, "positives") if mine and has_table(run, "positives") else ():
        found |= {key: denial for key, denial in _denials(shard).items() if key[0] in mine}
    if not found:
        return list(rows)
    made = []
    for row in rows:
        denial = _contradicted(found, row["caption_id"], row["replaced"], row["caption"])
        if row["operator"] != NEGATION:
            made.append(row)
        elif denial is not None:
            made.append({**row, "caption": denial.text})
    return made


# readers' verdicts


def accepted(run: Path) -> frozenset[str]:
    """The ids of negatives that were read, and that no reader refuses in any order: calls odd, true together with its
    caption, or true of the photo.

    Raises FileNotFoundError if the run has no verdicts.
    """
    read: set[str] = set()
    refused: set[str] = set()
    for row in (row for table in read_table(run, "verdicts") for row in table.to_pylist() if not row["problem"]):
        bad = row["odd"] in ("negative", "both") or bool(row["both_true"]) or row["false"] is False
        (refused if bad else read).add(row["negative_id"])
    return frozenset(read - refused)


def p_true_by_readers(run: Path) -> dict[str, float]:
    """The probability that a negative is true of its photo, by those who saw it, by negative_id; see `likelihoods`.

    Empty if the run has no such verdicts, or an image with two captions: then the captions tell (column p_true).
    """
    if not has_table(run, "verdicts"):
        return {}
    seen: set[str] = set()
    for table in read_table(run, "captions", ["image_id"]):
        images = table["image_id"].to_pylist()
        if len(seen) + len(images) > len(seen := seen.union(images)):
            return {}
    return likelihoods(row for table in read_table(run, "verdicts") for row in table.to_pylist())


def likelihoods(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """By negative_id, the mean over readers of the photo: 1 - confidence if they call it false, else confidence.

    A reader who gives no confidence counts as certain; one who has not seen the photo does not count.
    """
    found: dict[str, list[float]] = {}
    for row in verdicts:
        if row["reading"] == "image" and not row["problem"]:
            confidence = 1.0 if row["confidence"] is None else row["confidence"]
            found.setdefault(row["negative_id"], []).append(1 - confidence if row["false"] else confidence)
    return {negative_id: fmean(values) for negative_id, values in found.items()}
