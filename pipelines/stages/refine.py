"""Stage refine: negatives -> refined, at most one per caption and operator, so that blind models are at chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ...schemas.fields import check
from ...schemas.negatives import NEGATIVES, POSITIVE, REFINED
from ..engine.bounds import at_least
from ..engine.cluster import Executor
from ..engine.errors import StageError, TaskError
from ..engine.manifest import describe
from ..engine.progress import Progress
from ..engine.run import Parts, SourceStage, cause, hash_inputs, run_source
from ..engine.stage import StageResult
from ..engine.tables import shards_of
from ..quality.aligned import aligned
from ..tables.columns import check_splits, columns_of, read_columns, stored_splits
from ..tables.denials import NEGATION, beside, true_denials
from ..tables.verdicts import accepted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NAME = "refine"
INPUTS = ("captions", "negatives")
LEAST_IMAGES = 10
GROUP_ROWS = 10_000_000  # negatives that are selected from together; memory grows up to these
MAX_LOSS = 2.2  # see `RefineConfig`: raw nouns may lose 4 nats, and readers call far more of those above 2 odd
AT_ONCE = 8  # groups whose operators are calls at the same time


@dataclass(frozen=True)
class RefineConfig:
    """How negatives are selected (see quality.selection).

    operators, splits: refine only these; empty: all. candidates: how many negatives per caption and operator to select
    from, the first drawn. rounds: how often the models are fitted again, at most. flows: operators for which the
    replacements A by B and B by A are kept equally often. min_plausibility: the lowest log-odds of a negative to its
    caption, in nats; None: no limit. most_plausible: the share of each operator's negatives, those of the highest
    log-odds, that are selected from. max_loss: the highest context_loss, in nats; None: no limit. It holds neither for
    negatives that were not read as a whole, nor for the operator negation, which stand beside other true sentences than
    the caption. vetted: select only from negatives that all readers accept (see
    negcap.pipelines.tables.verdicts). Raises ValueError for candidates or rounds below 1, a seed below 0, or a share
    that is not above 0 and at most 1, or max_loss below 0.
    """

    seed: int = 0
    operators: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    candidates: int = 10
    rounds: int = 8
    flows: tuple[str, ...] = ("numeral",)
    min_plausibility: float | None = None
    most_plausible: float = 1.0
    max_loss: float | None = MAX_LOSS
    vetted: bool = False

    def __post_init__(self) -> None:
        at_least(self, 0, ["seed"])
        at_least(self, 1, ("candidates", "rounds"))
        if not 0 < self.most_plausible <= 1:
            raise ValueError(f"most_plausible must be above 0 and at most 1, was: {self.most_plausible}")
        at_least(self, 0, ["max_loss"])


class Rows(NamedTuple):
    """The negatives of an operator to select from, grouped by caption.

    with_negatives: the number of captions with a negative, also of those without one to select from. The other fields
    have one entry per caption to select for. numbers: the rows of its negatives in the table negatives, from 0.
    captions: its text. images: its image_id. texts: its negatives. true: for each negative, the true sentence that it
    contradicts; empty if it is always the caption. flows: for each negative, (replaced, replacement). plausibility: of
    each negative, 0 if it is not known; empty with `true`, since it is the log-odds to the caption.
    """

    with_negatives: int
    numbers: list[list[int]]
    captions: list[str]
    images: list[str]
    texts: list[list[str]]
    true: list[list[str]]
    flows: list[list[tuple[str, str]]]
    plausibility: list[list[float]]


def refine(
    run: Path,
    config: RefineConfig,
    executor: Executor,
    *,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool = False,
) -> dict[str, int]:
    """Bring the table refined of the run in folder `run` up to date with the negatives; returns its counters.

    A shard of refined has the rows kept from the same shard of negatives. A table of more than GROUP_ROWS negatives is
    refined in groups of consecutive shards, each balanced by itself, with models trained on its own captions. Counters:
    `<operator>.captions` (captions with a negative) and `<operator>.kept`. Operators with fewer than 10 images cannot
    be balanced and keep none; paraphrases are true and are left out. metadata: provenance for the Parquet files. Raises
    FileNotFoundError without negatives or captions, ValueError for operators or splits that the negatives lack,
    OtherConfigError as `run_stage`, StageError naming the operator that failed.
    """
    inputs = hash_inputs(NAME, run, (*INPUTS, "verdicts") if config.vetted else INPUTS)
    operators = _operators(run, config)
    shards = shards_of(run, "negatives")

    rows = [shard.rows for shard in shards]
    first = list(accumulate(rows, initial=0))
    groups = groups_of(rows)

    def parts() -> Parts:
        @lru_cache(maxsize=1)
        def kept(batch: int) -> np.ndarray:
            some = groups[batch * AT_ONCE : (batch + 1) * AT_ONCE]
            return _choose(run, operators, some, len(groups) > 1, config, executor, progress)

        def make(index: int, group: int, first: int) -> StageResult:
            return _part(shards[index].read(), first, kept(group // AT_ONCE), config)

        for group, of_group in enumerate(groups):
            for index in of_group:
                yield partial(make, index, group, first[index])

    stage = SourceStage(
        name=NAME,
        module=__name__,
        outputs={"refined": REFINED},
        config={name: value for name, value in describe(config).items() if value or name != "vetted"},
        inputs=inputs,
        metadata=metadata,
        parts=parts,
        shards=len(shards),
        steps=len(operators) * len(groups),
        unit="pairs",
    )
    return run_source(stage, run, progress=progress, overwrite=overwrite)


def groups_of(rows: Sequence[int], most: int | None = None) -> list[range]:
    """Ranges of consecutive shards, given the rows of each, that are refined by themselves.

    A group ends before the shard with which it would have more than `most` rows (None: GROUP_ROWS):
    groups_of([5, 5, 5], 10) -> [range(0, 2), range(2, 3)].
    """
    groups, start, total = [], 0, 0
    for index, size in enumerate(rows):
        if index > start and total + size > (most or GROUP_ROWS):
            groups.append(range(start, index))
            start, total = index, 0
        total += size
    return [*groups, range(start, len(rows))]


def _choose(
    run: Path,
    operators: Sequence[str],
    groups: Sequence[range],
    several: bool,
    config: RefineConfig,
    executor: Executor,
    progress: Progress,
) -> np.ndarray:
    """The rows of the table negatives that are kept of some groups, sorted. Each operator of a group is one call.

    several: whether there are other groups, too.
    """
    import numpy as np

    kept: list[np.ndarray] = [np.zeros(0, np.int64)]
    calls = [(run.absolute(), name, config, group if several else None) for group in groups for name in operators]
    try:
        for _, (captions, numbers) in executor.map(choose, calls):
            kept.append(np.array(numbers, np.int64))
            progress.advance(captions)
    except TaskError as failed:
        raise StageError(f"{NAME} stopped at {calls[failed.position][1]}: {cause(failed.__cause__)}") from failed
    return np.sort(np.concatenate(kept))


def choose(run: Path, operator: str, config: RefineConfig, group: range | None = None) -> tuple[int, list[int]]:
    """Select the negatives of one operator: its number of captions, and the rows of the table negatives to keep.

    group: only of these shards; None: of all.
    """
    from ..quality.bias import read_corpus
    from ..quality.selection import pool, select

    shards = slice(None) if group is None else slice(group.start, group.stop)
    rows = read_rows(run, operator, config, shards)
    if len(set(rows.images)) < LEAST_IMAGES:
        return rows.with_negatives, []
    corpus = read_corpus(run, shards)
    candidates = pool(rows.captions, rows.images, rows.texts, corpus, config.seed, rows.plausibility, rows.true)
    chosen = select(candidates, config.seed, config.rounds)
    kept = [(i, draw) for i, draw in enumerate((chosen - candidates.start[:-1]).tolist()) if draw >= 0]
    if operator in config.flows:
        matched = both_ways([rows.flows[i][draw] for i, draw in kept], config.seed)
        kept = [kept[position] for position in matched]
    return rows.with_negatives, [rows.numbers[i][draw] for i, draw in kept]


def both_ways(flows: Sequence[tuple[str, str]], seed: int = 0) -> list[int]:
    """The positions in `flows` to keep, so that (a, b) and (b, a) are kept equally often; chosen at random.

    If (a, b) occurs three times and (b, a) once, one of each is kept.
    """
    positions: dict[tuple[str, str], list[int]] = {}
    for position, flow in enumerate(flows):
        positions.setdefault(flow, []).append(position)
    kept: list[int] = []
    rng = Random(seed)
    for (old, new), here in sorted(positions.items()):
        kept += rng.sample(here, min(len(here), len(positions.get((new, old), ()))))
    return sorted(kept)


def read_rows(run: Path, operator: str, config: RefineConfig, shards: slice = slice(None)) -> Rows:
    """The negatives of an operator, by caption: of each caption in the configured splits the first `candidates`, in the
    order drawn.

    shards: which shards of the table negatives to read.

    Negatives of the operator negation are selected beside the true sentences that they contradict, as in
    `negcap.pipelines.quality.bias.read_all`.
    """
    import pyarrow.compute as pc

    found: list[tuple[str, str, str, _Row]] = []
    every = shards_of(run, "negatives")
    first = sum(shard.rows for shard in every[: shards.start or 0])
    names = ("negative_id", "caption_id", "image_id", "caption", "text", "replaced", "replacement", "plausibility")
    denials = true_denials(run) if operator == NEGATION else None
    for shard in every[shards]:
        table = read_columns(shard, (*names, "split", "operator", "context_loss"))
        denied = None if denials is None else denials(shard)
        mine = pc.and_(pc.equal(table["operator"], operator), _in_splits(table, config))
        numbers = pc.indices_nonzero(mine).to_pylist()
        rows = table.filter(mine).to_pydict()
        for number, loss, *row in zip(numbers, rows["context_loss"], *(rows[name] for name in names), strict=True):
            negative_id, caption_id, image, caption, text, old, new, odds = row
            denial = None if denied is None else beside(denied, caption_id, old, caption)
            if denied is not None and denial is None:
                continue
            draw = int(negative_id.rpartition(":")[2])
            true = caption if denial is None else denial.text
            found.append((caption_id, caption, image, _Row(draw, first + number, text, true, (old, new), odds, loss)))
        first += table.num_rows
    count = len({caption_id for caption_id, *_ in found})
    lowest = _lowest([row.odds for *_, row in found if row.odds is not None], config)
    if config.vetted:
        allowed = accepted(run)
        found = [one for one in found if f"{one[0]}#{operator}:{one[-1].draw}" in allowed]
    by_caption: dict[str, list[_Row]] = {}
    sources: dict[str, tuple[str, str]] = {}
    highest = math.inf if config.max_loss is None or denials is not None else config.max_loss
    for caption_id, caption, image, one in found:
        if (one.odds is None or one.odds >= lowest) and (one.loss is None or one.loss <= highest):
            by_caption.setdefault(caption_id, []).append(one)
            sources[caption_id] = caption, image
    drawn = [sorted(some)[: config.candidates] for some in by_caption.values()]
    captions, images = zip(*sources.values(), strict=True) if sources else ((), ())
    return Rows(
        count,
        [[one.number for one in some] for some in drawn],
        list(captions),
        list(images),
        [[one.text for one in some] for some in drawn],
        [] if denials is None else [[one.true for one in some] for some in drawn],
        [[one.flow for one in some] for some in drawn],
        [] if denials is not None else [[one.odds or 0.0 for one in some] for some in drawn],
    )


class _Row(NamedTuple):
    """A negative: its draw, row in the table, text, what it contradicts, flow, plausibility and context_loss."""

    draw: int
    number: int
    text: str
    true: str
    flow: tuple[str, str]
    odds: float | None
    loss: float | None


def _lowest(plausibility: Sequence[float], config: RefineConfig) -> float:
    """The lowest plausibility of negatives to select from, given the plausibility of all of an operator."""
    import numpy as np

    lowest = -math.inf if config.min_plausibility is None else config.min_plausibility
    if plausibility and config.most_plausible < 1:
        kept = max(1, round(config.most_plausible * len(plausibility)))
        lowest = max(lowest, float(np.sort(plausibility)[-kept]))
    return lowest


def _in_splits(table: pa.Table, config: RefineConfig) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not config.splits:
        return pa.chunked_array([pa.repeat(pa.scalar(True), table.num_rows)])
    return pc.is_in(table["split"], pa.array(stored_splits(config.splits)))


def _operators(run: Path, config: RefineConfig) -> list[str]:
    """The operators to refine, sorted. Raises ValueError for operators or splits that the negatives lack."""
    made: set[str] = set()
    splits: set[str] = set()
    for table in columns_of(run, "negatives", ("operator", "family", "split")):
        pairs = table.group_by(["operator", "family"]).aggregate([]).to_pydict()
        made |= {name for name, family in zip(pairs["operator"], pairs["family"], strict=True) if family != POSITIVE}
        splits.update(table["split"].unique().to_pylist())
    for name in config.operators:
        if name not in made:
            raise ValueError(f"operator must be one of {', '.join(map(repr, sorted(made)))}, was: {name!r}")
    check_splits(config.splits, splits, run / "negatives")
    if not made:
        raise ValueError(f"{run / 'negatives'} has no negatives to refine")
    return sorted(config.operators or made)


def _part(table: pa.Table, first: int, kept: np.ndarray, config: RefineConfig) -> StageResult:
    """The kept rows of a shard of negatives, and their counters. first: the row in the whole table where it starts.

    kept: sorted.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    check(table, NEGATIVES)
    start, end = kept.searchsorted([first, first + table.num_rows])
    some = table.take(pa.array(kept[start:end] - first, pa.int64()))
    counts: Counter[str] = Counter()
    eligible = table.filter(_in_splits(table, config)).group_by(["operator", "caption_id"]).aggregate([])
    for name, rows in (("captions", eligible), ("kept", some)):
        for entry in pc.value_counts(rows["operator"]).to_pylist():
            counts[f"{entry['values']}.{name}"] = entry["counts"]
    return StageResult({"refined": some}, counts)


def yields(counts: Mapping[str, int]) -> str:
    """A plain-text table of the counters: per operator, captions, captions that keep a negative, and their share."""
    names = sorted(name.removesuffix(".captions") for name in counts if name.endswith(".captions"))
    rows = [("", "captions", "kept", "yield")]
    for name in names:
        captions, kept = counts[f"{name}.captions"], counts.get(f"{name}.kept", 0)
        rows.append((name, f"{captions:,}", f"{kept:,}", f"{100 * kept / captions:.1f} %"))
    return "\n".join(aligned(rows))
