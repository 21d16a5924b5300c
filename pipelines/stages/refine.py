"""Stage refine: negatives -> refined, few per caption, on which blind models are at chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from random import Random

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
LEAST_IMAGES = 10
GROUP_ROWS = 10_000_000  # negatives that are selected from together; memory grows up to these
COLUMNS = (
    *("row", "caption_id", "image_id", "operator", "text", "caption", "negative_id", "negative", "draw"),
    *("replaced", "replacement", "plausibility", "p_unnatural", "p_compatible", "p_true"),
)
AT_ONCE = 8  # groups whose operators are calls at the same time


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


def refine(run: Path, config: RefineConfig, execution: Execution) -> dict[str, int]:
    """Bring the table `refined` of a run up to date with its negatives; returns its counters.

    Each shard holds the rows that are kept of the same shard of `negatives`. More than GROUP_ROWS negatives are refined
    in groups of shards; each group is balanced by itself, with models trained on its own captions. With `per_caption`,
    all operators are balanced together. Operators with fewer than 10 images keep none; paraphrases are left out.

    Counters: `<operator>.captions` (captions with a negative), `<operator>.images` of these, and `<operator>.kept`;
    `<operator>.more` of those not refined (captions without a kept negative that have one of theirs); `left` (captions
    with a kept negative). Raises FileNotFoundError without negatives or captions, ValueError for operators or splits
    that the negatives lack, OtherConfigError as `run_stage`, StageError, which names the operator that failed.
    """
    operators = _operators(run, config)
    shards = shards_of(run, "negatives")
    rows = [shard.rows for shard in shards]
    first = list(accumulate(rows, initial=0))
    groups = groups_of(rows)

    @lru_cache(maxsize=1)
    def kept(batch: int) -> np.ndarray:
        some = groups[batch * AT_ONCE : (batch + 1) * AT_ONCE]
        return _choose(run, operators, some, len(groups) > 1, config, execution)

    def make(index: int, group: int) -> StageResult:
        return _part(shards[index].read(), first[index], kept(group // AT_ONCE), config)

    return run_source(
        run,
        NAME,
        {"refined": REFINED},
        [partial(make, index, group) for group, indices in enumerate(groups) for index in indices],
        {name: value for name, value in config if value or name not in ("vetted", "per_caption")},
        execution,
        inputs=(*INPUTS, "verdicts") if config.vetted else INPUTS,
        metadata=provenance(run, INPUTS, config),
        steps=len(calls_of(operators, config)) * len(groups),
        unit="pairs",
    )


def calls_of(operators: Sequence[str], config: RefineConfig) -> list[tuple[str, ...]]:
    """The operators that are balanced together: each by itself, or all of them if there is a number per caption."""
    return [(name,) for name in operators] if config.per_caption is None else [tuple(operators)]


def groups_of(rows: Sequence[int], most: int | None = None) -> list[range]:
    """Ranges of shards refined by themselves, of at most `most` rows: [5, 5, 5], 10: [range(0, 2), range(2, 3)]."""
    groups = []
    start = 0
    total = 0
    for index, size in enumerate(rows):
        if index > start and total + size > (most or GROUP_ROWS):
            groups.append(range(start, index))
            start = index
            total = 0
        total += size
    return [*groups, range(start, len(rows))]


def _choose(
    run: Path,
    operators: Sequence[str],
    groups: Sequence[range],
    several: bool,
    config: RefineConfig,
    execution: Execution,
) -> np.ndarray:
    """The kept rows of some groups, sorted; a call is what is balanced together. several: there are other groups."""
    kept: list[np.ndarray] = [np.zeros(0, np.int64)]
    together = calls_of(operators, config)
    calls = [(run.absolute(), names, config, group if several else None) for group in groups for names in together]
    try:
        for _, (captions, numbers) in execution.executor.map(choose, calls):
            kept.append(np.array(numbers, np.int64))
            execution.progress.advance(captions)
    except TaskError as failed:
        raise StageError(f"{NAME} stopped at {', '.join(calls[failed.position][1])}: {failed}") from failed
    return np.sort(np.concatenate(kept))


def choose(
    run: Path, operators: Sequence[str], config: RefineConfig, group: range | None = None
) -> tuple[int, list[int]]:
    """Select the negatives of one operator, or with `per_caption` of all together (of operators in
    `symmetric_operators` from what is selected of them alone), of a group of shards or all: captions with negatives,
    summed over operators, and rows kept.
    """
    from ..quality.bias.measure import read_corpus
    from ..quality.selection import pool, select

    shards = slice(None) if group is None else slice(group.start, group.stop)
    captions = 0
    parts = []
    for name in operators:
        number, rows = read_rows(run, name, config, shards)
        captions += number
        if config.per_caption is not None and name in config.symmetric_operators:
            alone = choose(run, (name,), config.changed(per_caption=None), group)[1]
            rows = rows.filter(pc.field("row").isin(alone))
        parts.append(rows)
    rows = pa.concat_tables(parts)
    if config.per_caption is not None:
        at = rows.column_names.index("plausibility")
        rows = best(rows.set_column(at, "plausibility", pc.fill_null(rows["plausibility"], 0.0)), config.pool_size)
    kept: list[int] = []
    corpus = read_corpus(run, shards)
    for _ in range(config.per_caption or 1):
        if len(rows["image_id"].unique()) < LEAST_IMAGES:
            break
        chosen = select(pool(rows, corpus, config.seed), config.seed, config.rounds)
        some = rows.take(chosen[chosen >= 0])
        if config.per_caption is None and operators[0] in config.symmetric_operators:
            flows = list(zip(some["replaced"].to_pylist(), some["replacement"].to_pylist(), strict=True))
            some = some.take(pa.array(both_ways(flows, config.seed), pa.int64()))
        kept += some["row"].to_pylist()
        rows = rows.take(np.setdiff1d(np.arange(len(rows)), chosen))
    return captions, kept


def best(rows: pa.Table, most: int) -> pa.Table:
    """The rows of each caption that are most probably sensible and false, at most `most`, the best first."""
    number = rows["caption_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((rows["row"].to_numpy(), -p_good(rows), number))
    number = number[order]
    rank = np.arange(len(order)) - np.searchsorted(number, number)
    return rows.take(order[rank < most])


def both_ways(flows: Sequence[tuple[str, str]], seed: int = 0) -> list[int]:
    """The positions in `flows` to keep, so that (a, b) and (b, a) are equally often but for chance, by coin flips: were
    they exactly equal, half of the pairs would tell of the other half.
    """
    positions: dict[tuple[str, str], list[int]] = {}
    for position, flow in enumerate(flows):
        positions.setdefault(flow, []).append(position)
    kept: list[int] = []
    rng = Random(seed)
    for (old, new), here in sorted(positions.items()):
        there = positions.get((new, old), [])
        if old < new and there:
            least = min(len(here), len(there))
            flips = sum(rng.getrandbits(1) for _ in range(2 * least))
            kept += rng.sample(here, min(len(here), flips)) + rng.sample(there, min(len(there), 2 * least - flips))
    return sorted(kept)


def read_rows(run: Path, operator: str, config: RefineConfig, shards: slice = slice(None)) -> tuple[int, pa.Table]:
    """The captions with a negative of an operator, and the `pool_size` `best` negatives of each in these splits and
    shards: COLUMNS; `plausibility` 0 if unknown, null if captions are other sentences than it is the log-odds to.
    """
    rows = pa.concat_tables(pair_tables(run, (operator,), config.splits, columns=COLUMNS, shards=shards))
    captions = pc.count_distinct(rows["caption_id"]).as_py()
    denied = operator == NEGATION and has_denials(run)
    if config.vetted:
        rows = rows.filter(pc.field("negative_id").isin(pa.array(sorted(accepted(run)), pa.string())))
    rows = best(rows, config.pool_size)
    known = pa.nulls(len(rows), rows["plausibility"].type) if denied else pc.fill_null(rows["plausibility"], 0.0)
    return captions, rows.set_column(rows.schema.get_field_index("plausibility"), "plausibility", known)


def _operators(run: Path, config: RefineConfig) -> list[str]:
    """The operators to refine, sorted. Raises ValueError for operators or splits that the negatives lack."""
    kinds = kinds_of(run)
    made = {kind.operator for kind in kinds if kind.family != POSITIVE}
    check_operators(config.operators, made, run / "negatives")
    check_splits(config.splits, (kind.split for kind in kinds), run / "negatives")
    if not made:
        raise ValueError(f"{run / 'negatives'} has no negatives to refine")
    return sorted(config.operators or made)


def _part(table: pa.Table, first: int, kept: np.ndarray, config: RefineConfig) -> StageResult:
    """The kept rows (sorted) of a shard, and counters. first: the row of the whole table where it starts."""
    check(table, NEGATIVES)
    start, end = kept.searchsorted([first, first + table.num_rows])
    some = table.take(pa.array(kept[start:end] - first, pa.int64()))
    left = some["caption_id"].unique()
    counts: Counter[str] = Counter({"left": len(left)})
    if config.splits:
        table = table.filter(pc.field("split").isin(stored_splits(config.splits)))
    negative = pc.field("family") != POSITIVE
    other = ~pc.field("operator").isin(config.operators) if config.operators else pc.scalar(False)
    found = {
        "captions": table,
        "kept": some,
        "more": table.filter(negative & other & ~pc.field("caption_id").isin(left)),
    }
    for name, rows in found.items():
        of_captions = rows.group_by(["operator", "caption_id"]).aggregate([]) if name != "kept" else rows
        for entry in pc.value_counts(of_captions["operator"]).to_pylist():
            counts[f"{entry['values']}.{name}"] = entry["counts"]
    images = table.filter(negative).group_by(["operator", "image_id"]).aggregate([])  # no image is in two shards
    for entry in pc.value_counts(images["operator"]).to_pylist():
        counts[f"{entry['values']}.images"] = entry["counts"]
    return StageResult({"refined": some}, counts)


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
            images = counts.get(f"{name}.images", 0)  # none of a paraphrase, which is left out
            if images and not kept and not (together and counts.get("left")):
                reasons.append(f"{name} keeps none: {_why_none(images)}")
    left = f"captions with a negative left: {counts.get('left', 0):,} of {captions:,}"
    hints = would_add(more, "at most")
    return "\n".join([*text_table(rows), *reasons, f"{left}; {hints} more" if hints else left])


def _why_none(images: int) -> str:
    """Why no negative of an operator was kept, by the number of images with one."""
    if images < LEAST_IMAGES:
        return f"it has negatives for {number_of(images, 'image')}, and {LEAST_IMAGES} are needed; build on more images"
    return (
        "in no selection of them are the text-only baselines at chance, or, with --vetted, none was rated and accepted"
    )
