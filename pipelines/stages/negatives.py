"""parses + lexicon + truth + balance -> negatives, positives, rejections and excluded words."""

from __future__ import annotations

import pyarrow as pa

from ...augment.generate import NegativesConfig, generate_tables
from ...schemas.negatives import EXCLUDED, NEGATIVES, POSITIVES, REJECTIONS
from ..engine.stage import Stage, StageResult
from ..engine.tables import WholeTable
from ..tables.corpus import load_balanced, load_cloze, load_truth

__all__ = ["STAGE", "NegativesConfig", "make"]


def make(
    parses: pa.Table, config: NegativesConfig, lexicon: WholeTable, truth: WholeTable, balance: WholeTable
) -> StageResult:
    """The tables and counters of `generate_tables` for one shard."""
    cloze = load_cloze(config.cloze)
    entries = load_balanced(lexicon, balance, cloze)
    known = load_truth(lexicon, truth, config.max_true, cloze)
    return StageResult(*generate_tables(parses, entries, config, known))


OUTPUTS = {"excluded": EXCLUDED, "rejections": REJECTIONS, "positives": POSITIVES, "negatives": NEGATIVES}
STAGE = Stage("negatives", "parses", OUTPUTS, make, whole=("lexicon", "truth", "balance"))
