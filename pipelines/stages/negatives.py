"""parses + lexicon + truth + balance -> negatives, positives and rejections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from negcap.augment.caption import Caption, by_image, from_parses
from negcap.augment.context import Context, contexts
from negcap.augment.edits import apply
from negcap.augment.operators import OPERATORS, PRESETS, operator
from negcap.augment.rng import record_rng
from negcap.augment.rows import Judged, Rows
from negcap.augment.truth.contradiction import judge
from negcap.augment.truth.most import MAX_TRUE, check_most
from negcap.pipelines.engine.shards import WholeTable
from negcap.pipelines.engine.stage import Stage, StageResult
from negcap.pipelines.tables.corpus import load_balanced, load_truth
from negcap.schemas.negatives import NEGATIVES, POSITIVE, POSITIVES, REJECTIONS

if TYPE_CHECKING:
    import pyarrow as pa

    from negcap.augment.lexicon.lexicon import Lexicon
    from negcap.augment.truth.estimates import Truth

DRAWS_PER_NEGATIVE = 4
SPARE_DRAWS = 16


@dataclass(frozen=True)
class NegativesConfig:
    """How negatives are made.

    max_true: the most that a negative's replacement may be true of the image, as the truth stage estimates it. Raises
    ValueError for an unknown operator, per_family below 1, or max_true not between 0 and 1.
    """

    seed: int = 0
    operators: tuple[str, ...] = PRESETS["vse-c"]
    per_family: int = 20
    max_true: float = MAX_TRUE

    def __post_init__(self) -> None:
        for name in self.operators:
            operator(name)
        if len(set(self.operators)) != len(self.operators):
            raise ValueError(f"operators must be distinct, were: {','.join(self.operators)}")
        if self.per_family < 1:
            raise ValueError(f"per_family must be >= 1, was: {self.per_family}")
        check_most(self.max_true)

    def quota(self, name: str) -> int:
        """The most negatives a caption gets from one operator: its share of the family, whatever else runs."""
        return ceil(self.per_family * OPERATORS[name].share)


def make(
    parses: pa.Table, config: NegativesConfig, lexicon: WholeTable, truth: WholeTable, balance: WholeTable
) -> StageResult:
    """The negatives, positives and rejections of one shard."""
    known = load_truth(lexicon, truth, config.max_true)
    tables, counts = negatives(parses, load_balanced(lexicon, balance), config, known)
    return StageResult(tables, counts)


def negatives(
    parses: pa.Table, lexicon: Lexicon, config: NegativesConfig, truth: Truth | None = None
) -> tuple[Mapping[str, pa.Table], Counter[str]]:
    """The negatives, positives and rejections of whole images, and counters of what was made.

    Counters: captions; per operator `<name>.captions` (with at least one), `<name>.rows`; per family
    `family.<name>.captions`, `.rows`; `rejected.<operator>.<reason>`; `captions.without` any negative.
    """
    false, true, refused = Rows(), Rows(), Rows()
    counts: Counter[str] = Counter()
    captions = from_parses(parses)
    counts["captions"] = len(captions)
    row = 0
    for siblings in by_image(captions):
        taken = {caption.text.lower() for caption in siblings}
        for caption, context in zip(siblings, contexts(siblings, lexicon, truth), strict=True):
            made: Counter[str] = Counter()
            for name in config.operators:
                kept, others = _judge(caption, context, name, config, taken)
                accepted = true if OPERATORS[name].family == POSITIVE else false
                accepted.add(row, name, kept)
                refused.add(row, name, others)
                made[name] = len(kept)
            for name, rows in made.items():
                family = OPERATORS[name].family
                counts[f"{name}.rows"] += rows
                counts[f"{name}.captions"] += rows > 0
                counts[f"family.{family}.rows"] += rows
            for family in {OPERATORS[name].family for name, rows in made.items() if rows}:
                counts[f"family.{family}.captions"] += 1
            counts["captions.without"] += not any(n for name, n in made.items() if OPERATORS[name].family != POSITIVE)
            row += 1
    tables = {
        "rejections": refused.table(parses, REJECTIONS),
        "positives": true.table(parses, POSITIVES),
        "negatives": false.table(parses, NEGATIVES),
    }
    reasons = tables["rejections"].group_by(["operator", "reason"]).aggregate([([], "count_all")])
    for name, reason, rows in zip(*reasons.to_pydict().values(), strict=True):
        counts[f"rejected.{name}.{reason}"] += rows
    return tables, counts


def _judge(
    caption: Caption, context: Context, name: str, config: NegativesConfig, taken: set[str]
) -> tuple[list[Judged], list[Judged]]:
    """Let one operator propose, judge every candidate, and keep up to its quota: the kept ones, and the refused."""
    quota = config.quota(name)
    kept: list[Judged] = []
    refused: list[Judged] = []
    rng = record_rng(config.seed, name, caption.caption_id)
    own: set[str] = set()
    operator = OPERATORS[name]
    for propose, most in ((operator.propose, quota), (operator.spare, min(quota, operator.spare_most or quota))):
        for candidate in propose(caption, context, rng, DRAWS_PER_NEGATIVE * quota + SPARE_DRAWS):
            reason, likely = judge(candidate, caption, context)
            if reason is None:
                text = apply(caption.text, candidate.edits)
                lower = text.lower()
                if lower in own:
                    continue
                if lower not in taken:
                    own.add(lower)
                    kept.append((candidate, text, likely))
                    if len(kept) == most:
                        break
                    continue
                reason, likely = "sibling_says_so", None
            refused.append((candidate, reason, likely))
        if kept:
            break
    return kept, refused


STAGE = Stage(
    name="negatives",
    input="parses",
    outputs={"rejections": REJECTIONS, "positives": POSITIVES, "negatives": NEGATIVES},
    apply=make,
    code=("negcap.augment", "negcap.pipelines.stages.negatives", "negcap.pipelines.tables.corpus"),
    whole=("lexicon", "truth", "balance"),
)
