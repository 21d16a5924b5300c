"""parses + lexicon + truth + balance -> negatives, positives and rejections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from negcap.augment.generate import Settings as NegativesConfig
from negcap.augment.generate import generate_tables
from negcap.pipelines.engine.stage import Stage, StageResult
from negcap.pipelines.engine.tables import WholeTable
from negcap.pipelines.models.scorer import load_scorer
from negcap.pipelines.tables.cloze import load_cloze
from negcap.pipelines.tables.corpus import load_balanced, load_truth
from negcap.schemas.negatives import NEGATIVES, POSITIVES, REJECTIONS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STAGE", "NegativesConfig", "make"]


def make(
    parses: pa.Table, config: NegativesConfig, lexicon: WholeTable, truth: WholeTable, balance: WholeTable
) -> StageResult:
    """The negatives, positives and rejections of one shard, with the counters that `generate_tables` describes."""
    cloze = load_cloze(config.cloze)
    entries, known = load_balanced(lexicon, balance, cloze), load_truth(lexicon, truth, config.max_true, cloze)
    scorer = None if config.scorer is None else load_scorer(config.scorer)
    return StageResult(*generate_tables(parses, entries, config, known, scorer))


STAGE = Stage(
    name="negatives",
    input="parses",
    outputs={"rejections": REJECTIONS, "positives": POSITIVES, "negatives": NEGATIVES},
    apply=make,
    whole=("lexicon", "truth", "balance"),
)
