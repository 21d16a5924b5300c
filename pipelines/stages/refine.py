"""Stage refine: negatives -> refined, few per caption, on which blind models are at chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ...augment.settings import AtLeastOne, Operators, Seed, Settings, Splits, Vetted
from ...schemas.fields import check
from ...schemas.messages import number_of
from ...schemas.negatives import NEGATIVES, POSITIVE, REFINED
from ..engine.errors import StageError, TaskError
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..engine.tables import provenance, shards_of
from ..report.summary import would_add
from ..report.tables import text_table
from ..tables.columns import check_operators, check_splits, kinds_of, stored_splits
from ..tables.pairs import NEGATION, accepted, has_denials, p_good, pair_tables

NAME = "refine"
INPUTS = ("captions", "negatives")
LEAST_IMAGES = 10  # that negatives are selected from
# How many negatives are selected from together: memory grows with these, and no further.
MOST_GROUP_ROWS = 10_000_000
COLUMNS = (
    *("row", "caption_id", "image_id", "operator", "text", "caption", "negative_id", "negative", "draw"),
    *("replaced", "replacement", "plausibility", "p_unnatural", "p_compatible", "p_true"),
)
# How many groups are worked on at the same time, so that all workers have work.
GROUPS_AT_ONCE = 8


class RefineConfig(Settings):
    """How negatives are selected (see quality.selection)."""

    seed: Seed = 0
    operators: Operators = ()
    splits: Splits = ()
    per_caption: AtLeastOne | None = Field(
        None,
        description="negatives kept per caption over all operators, those with the highest p_good; none: one of each "
        "operator",
    )
    pool_size: AtLeastOne = Field(
        10,
        description="negatives to choose from, those with the highest p_good: per caption and operator, or with "
        "per_caption per caption",
    )
    rounds: AtLeastOne = Field(8, description="rounds in which the text-only baselines are fitted again, at most")
    symmetric_operators: tuple[str, ...] = Field(
        ("numeral",),
        description="operators that must replace A by B as often as B by A, between commas; none: no operator",
    )
    vetted: Vetted = False


def refine(run: Path, config: RefineConfig, execution: Execution, group_rows: int = MOST_GROUP_ROWS) -> dict[str, int]:
    """Bring the table `refined` of a run up to date with its negatives; returns its counters.

    Each shard holds the rows that are kept of the same shard of `negatives`. More than `group_rows` negatives are
    refined in groups of shards; each is balanced by itself, with models trained on its own captions. With
    `per_caption`, all operators are balanced together. Operators with fewer than 10 images keep none; paraphrases are
    left out.

    Counters: for each operator, `<operator>.captions` and `<operator>.images` that have a negative of it, and
    `<operator>.kept` negatives. For each operator that is not refined, `<operator>.more`: how many captions without a
    kept negative have one of it. `left`: the captions with a kept negative.

    group_rows: for tests alone, as another number may keep other rows, but does not make a finished table anew.

    Raises FileNotFoundError without negatives or captions, ValueError for operators or splits that the negatives lack,
    OtherConfigError for a table by other settings, StageError for an operator that failed, which it names.
    """
    operators = _operators_to_refine(run, config)
    shards = shards_of(run, "negatives")
    sizes = [shard.rows for shard in shards]
    first_rows = list(accumulate(sizes, initial=0))  # of each shard, counted over the whole table
    groups = groups_of(sizes, group_rows)

    # Only the last result is kept, as shards are made in order: those of one batch of groups follow each other.
    @lru_cache(maxsize=1)
    def kept_rows(batch: int) -> np.ndarray:
        """The rows of the negatives that a batch of groups keeps, counted over the whole table."""
        batch_groups = groups[batch * GROUPS_AT_ONCE : (batch + 1) * GROUPS_AT_ONCE]
        calls = [
            ChooseCall(run.absolute(), names, config, group if len(groups) > 1 else None)
            for group in batch_groups
            for names in operators_together(operators, config)
        ]
        return _choose_in_workers(calls, execution)

    def make(index: int, group: int) -> StageResult:
        return _refined_shard(shards[index].read(), first_rows[index], kept_rows(group // GROUPS_AT_ONCE), config)

    return run_source(
        run,
        NAME,
        {"refined": REFINED},
        [partial(make, index, group) for group, indices in enumerate(groups) for index in indices],
        # These two are no part of the table's config unless they are set.
        {name: value for name, value in config if value or name not in ("vetted", "per_caption")},
        execution,
        inputs=(*INPUTS, "verdicts") if config.vetted else INPUTS,
        metadata=provenance(run, INPUTS, config),
        steps=len(operators_together(operators, config)) * len(groups),
        unit="pairs",
    )


def operators_together(operators: Sequence[str], config: RefineConfig) -> list[tuple[str, ...]]:
    """The operators that are balanced together: each by itself, or all of them if there is a number per caption."""
    return [(name,) for name in operators] if config.per_caption is None else [tuple(operators)]


def groups_of(rows: Sequence[int], most: int) -> list[range]:
    """Ranges of shards refined by themselves, of at most `most` rows: [5, 5, 5], 10: [range(0, 2), range(2, 3)]."""
    groups = []
    start = 0
    total = 0
    for index, size in enumerate(rows):
        if index > start and total + size > most:
            groups.append(range(start, index))
            start = index
            total = 0
        total += size
    return [*groups, range(start, len(rows))]


class ChooseCall(NamedTuple):
    """The arguments of a call of `choose` in a worker."""

    run: Path
    operators: tuple[str, ...]
    config: RefineConfig
    group: range | None


class ChosenRows(NamedTuple):
    """What `choose` selects: captions that have negatives, summed over operators, and the rows of those kept."""

    captions: int
    rows: list[int]


def _choose_in_workers(calls: Sequence[ChooseCall], execution: Execution) -> np.ndarray:
    """The kept rows of several calls of `choose`, sorted. Raises StageError, which names the operator that failed."""
    rows: list[int] = []
    try:
        for _, chosen in execution.executor.map(choose, calls):
            rows += chosen.rows
            execution.progress.advance(chosen.captions)
    except TaskError as failed:
        operators = calls[failed.position].operators
        raise StageError(f"{NAME} stopped at {', '.join(operators)}: {failed}") from failed
    return np.sort(np.array(rows, np.int64))


def choose(run: Path, operators: Sequence[str], config: RefineConfig, group: range | None = None) -> ChosenRows:
    """Select the negatives of operators that are balanced together.

    Args:
        run: the folder of the run.
        operators: one operator; with `per_caption` all of them.
        config: how negatives are selected.
        group: the shards to select from; None: all.
    """
    from ..quality.bias.measure import read_corpus
    from ..quality.selection import pool, select

    shards = slice(None) if group is None else slice(group.start, group.stop)
    candidates = [_negatives_to_choose_from(run, name, config, group) for name in operators]
    rows = pa.concat_tables(of_operator.rows for of_operator in candidates)
    if config.per_caption is not None:
        # `read_rows` leaves the plausibility of denials null; beside other operators' it counts as unknown
        column = rows.column_names.index("plausibility")
        rows = rows.set_column(column, "plausibility", pc.fill_null(rows["plausibility"], 0.0))
        rows = best(rows, config.pool_size)
    # One negative of each caption is selected at a time, so that the text-only baselines are at chance on what each
    # round selects. With `per_caption`, there are so many rounds, each on what the earlier ones have left.
    kept: list[int] = []
    corpus = read_corpus(run, shards)
    for _ in range(config.per_caption or 1):
        if len(rows["image_id"].unique()) < LEAST_IMAGES:
            break
        # (captions,): the position in `rows` of the negative selected for each caption; -1: none
        chosen = select(pool(rows, corpus, config.seed), config.seed, config.rounds)
        selected = rows.take(chosen[chosen >= 0])
        if config.per_caption is None and operators[0] in config.symmetric_operators:
            replacements = list(zip(selected["replaced"].to_pylist(), selected["replacement"].to_pylist(), strict=True))
            selected = selected.take(pa.array(both_ways(replacements, config.seed), pa.int64()))
        kept += selected["row"].to_pylist()
        # In the next round each caption gets another one, or none.
        rows = rows.take(np.setdiff1d(np.arange(len(rows)), chosen))
    return ChosenRows(sum(of_operator.captions for of_operator in candidates), kept)


def _negatives_to_choose_from(run: Path, operator: str, config: RefineConfig, group: range | None) -> PooledNegatives:
    """The negatives of an operator that `choose` selects from; `group` are the shards they are in, None: all.

    With `per_caption`, for a symmetric operator these are the ones that `choose` selects if it is alone.
    """
    shards = slice(None) if group is None else slice(group.start, group.stop)
    candidates = read_rows(run, operator, config, shards)
    if config.per_caption is None or operator not in config.symmetric_operators:
        return candidates
    # A symmetric operator must replace A by B as often as B by A. That is enforced where it is selected from alone, and
    # so it comes first; the selection over all operators may then drop some of either.
    alone = choose(run, (operator,), config.changed(per_caption=None), group)
    return candidates._replace(rows=candidates.rows.filter(pc.field("row").isin(alone.rows)))


def best(rows: pa.Table, most: int) -> pa.Table:
    """The rows of each caption that are most probably sensible and false, at most `most`, the best first."""
    caption = rows["caption_id"].combine_chunks().dictionary_encode().indices.to_numpy()  # numbers from 0, of each row
    order = np.lexsort((rows["row"].to_numpy(), -p_good(rows), caption))  # captions together, the best first
    sorted_captions = caption[order]
    first_of_caption = np.searchsorted(sorted_captions, sorted_captions)  # position where the caption of a row begins
    rank = np.arange(len(order)) - first_of_caption
    return rows.take(order[rank < most])


def both_ways(replacements: Sequence[tuple[str, str]], seed: int = 0) -> list[int]:
    """Choose replacements so that A by B is as likely to be among them as B by A.

    Coins decide how many of each are kept: were they exactly equal, a model could count one half of the pairs and know
    the other.

    Args:
        replacements: the old and the new word of each.
        seed: of the choice.

    Returns:
        The positions in `replacements` of those that are kept, ascending. One whose reverse is missing is not kept.
    """
    positions: dict[tuple[str, str], list[int]] = {}  # by (old, new)
    for position, replacement in enumerate(replacements):
        positions.setdefault(replacement, []).append(position)
    kept: list[int] = []
    rng = Random(seed)
    for (old, new), forward in sorted(positions.items()):
        backward = positions.get((new, old), [])
        if old < new and backward:  # each pair of words once
            # Two of each reversible couple are to be kept; a coin for each says in which direction.
            total = 2 * min(len(forward), len(backward))
            forward_number = sum(rng.getrandbits(1) for _ in range(total))
            kept += rng.sample(forward, min(len(forward), forward_number))
            kept += rng.sample(backward, min(len(backward), total - forward_number))
    return sorted(kept)


class PooledNegatives(NamedTuple):
    """The negatives of an operator to select from.

    Attributes:
        captions: how many captions have a negative of it.
        rows: COLUMNS of the `pool_size` `best` negatives of each caption. `plausibility` is 0 if it is unknown, null if
            negatives are paired with other sentences than those it is the log-odds to.
    """

    captions: int
    rows: pa.Table


def read_rows(run: Path, operator: str, config: RefineConfig, shards: slice = slice(None)) -> PooledNegatives:
    """The negatives of one operator from which some are selected.

    Args:
        run: the run.
        operator: its name.
        config: with the splits.
        shards: only these of the table.
    """
    rows = pa.concat_tables(pair_tables(run, (operator,), config.splits, columns=COLUMNS, shards=shards))
    captions = pc.count_distinct(rows["caption_id"]).as_py()
    if config.vetted:
        rows = rows.filter(pc.field("negative_id").isin(pa.array(sorted(accepted(run)), pa.string())))
    rows = best(rows, config.pool_size)
    plausibility = pc.fill_null(rows["plausibility"], 0.0)
    if operator == NEGATION and has_denials(run):
        # The plausibility in the table compares a negative with its caption, but here it is paired with a true denial.
        plausibility = pa.nulls(len(rows), rows["plausibility"].type)
    column = rows.schema.get_field_index("plausibility")
    return PooledNegatives(captions, rows.set_column(column, "plausibility", plausibility))


def _operators_to_refine(run: Path, config: RefineConfig) -> list[str]:
    """The operators to refine, sorted. Raises ValueError for operators or splits that the negatives lack."""
    kinds = kinds_of(run)
    present = {kind.operator for kind in kinds if kind.family != POSITIVE}
    check_operators(config.operators, present, run / "negatives")
    check_splits(config.splits, (kind.split for kind in kinds), run / "negatives")
    if not present:
        raise ValueError(f"{run / 'negatives'} has no negatives to refine")
    return sorted(config.operators or present)


def _refined_shard(table: pa.Table, first_row: int, kept: np.ndarray, config: RefineConfig) -> StageResult:
    """The kept rows of a shard, and counters (see `refine`).

    Args:
        table: the shard of negatives.
        first_row: the row of the whole table where it starts.
        kept: the kept rows of the whole table, sorted.
        config: for the splits and operators that are counted.
    """
    check(table, NEGATIVES)
    start, end = kept.searchsorted([first_row, first_row + table.num_rows])
    refined = table.take(pa.array(kept[start:end] - first_row, pa.int64()))
    captions_with_kept = refined["caption_id"].unique()
    if config.splits:
        table = table.filter(pc.field("split").isin(stored_splits(config.splits)))
    is_negative = pc.field("family") != POSITIVE
    is_other_operator = ~pc.field("operator").isin(config.operators) if config.operators else pc.scalar(False)
    is_uncovered = ~pc.field("caption_id").isin(captions_with_kept)
    more = table.filter(is_negative & is_other_operator & is_uncovered)
    counts: Counter[str] = Counter({"left": len(captions_with_kept)})
    counts.update(dict(_by_operator("captions", table, "caption_id")))
    counts.update(dict(_by_operator("kept", refined)))
    counts.update(dict(_by_operator("more", more, "caption_id")))
    counts.update(dict(_by_operator("images", table.filter(is_negative), "image_id")))  # no image is in two shards
    return StageResult({"refined": refined}, counts)


def _by_operator(counter: str, rows: pa.Table, distinct: str = "") -> Iterator[tuple[str, int]]:
    """Count the rows of each operator, or the different values of them in the column `distinct`: ("noun.kept", 12)."""
    if distinct:
        rows = rows.group_by(["operator", distinct]).aggregate([])
    for entry in pc.value_counts(rows["operator"]).to_pylist():
        yield f"{entry['values']}.{counter}", entry["counts"]


def yields(counts: Mapping[str, int], captions: int, *, together: bool = False) -> str:
    """What `refine` kept, as text: a table by operator, why an operator has none, and what other operators would cover.

    Args:
        counts: the counters of `refine`.
        captions: how many captions there are.
        together: whether all operators were balanced together, so that one may have none as others have its captions.
    """
    names = sorted(name.removesuffix(".captions") for name in counts if name.endswith(".captions"))
    more = {name.removesuffix(".more"): number for name, number in counts.items() if name.endswith(".more")}
    rows = [("", "captions", "kept", "yield")]
    reasons = []
    for name in names:
        if name not in more or counts.get(f"{name}.kept"):
            eligible = counts[f"{name}.captions"]
            kept = counts.get(f"{name}.kept", 0)
            rows.append((name, f"{eligible:,}", f"{kept:,}", f"{100 * kept / eligible:.1f} %"))
            # No images are counted of a paraphrase, which is left out.
            images = counts.get(f"{name}.images", 0)
            others_have_its_captions = together and counts.get("left")
            if images and not kept and not others_have_its_captions:
                reasons.append(f"{name} keeps none: {_why_none(images)}")
    left = f"captions with a negative left: {counts.get('left', 0):,} of {captions:,}"
    hints = would_add(more, "at most")
    return "\n".join([*text_table(rows), *reasons, f"{left}; {hints} more" if hints else left])


def _why_none(images: int) -> str:
    """Why no negative of an operator was kept: there were too few images with one, else what else it can be."""
    if images < LEAST_IMAGES:
        return f"it has negatives for {number_of(images, 'image')}, and {LEAST_IMAGES} are needed; build on more images"
    return (
        "in no selection of them are the text-only baselines at chance, or, with --vetted, none was rated and accepted"
    )
