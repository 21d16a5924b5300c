"""parses + lexicon + truth + balance -> negatives, positives, rejections and excluded words."""

from __future__ import annotations

import pyarrow as pa

from ...augment.generate import NegativesConfig, generate_tables
from ...schemas.negatives import EXCLUDED, NEGATIVES, POSITIVES, REJECTIONS
from ..engine.stage import Stage, StageResult
from ..engine.tables import WholeTable
from ..tables.corpus import load_balanced, load_cloze, load_truth

__all__ = ["STAGE", "NegativesConfig", "make_negatives"]


def make_negatives(
    parses: pa.Table, config: NegativesConfig, lexicon: WholeTable, truth: WholeTable, balance: WholeTable
) -> StageResult:
    """The negatives, positives, rejections and excluded words of a shard of parsed captions, see `generate_tables`.

    Args:
        parses: of the shard.
        config: the operators and limits.
        lexicon, truth, balance: tables of the run: the words that may be put in, what is known of their truth, and
            their weights.
    """
    cloze = load_cloze(config.cloze)
    entries = load_balanced(lexicon, balance, cloze)
    estimates = load_truth(lexicon, truth, config.max_true, cloze)
    return StageResult(*generate_tables(parses, entries, config, estimates))


OUTPUTS = {"excluded": EXCLUDED, "rejections": REJECTIONS, "positives": POSITIVES, "negatives": NEGATIVES}
STAGE = Stage("negatives", "parses", OUTPUTS, make_negatives, whole=("lexicon", "truth", "balance"))
