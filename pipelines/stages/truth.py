"""parses + lexicon -> truth: counts and coefficients for estimating whether a replacement is true of an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pydantic import Field

from ...augment.lexicon.nearness import count_nouns, nearness_of, reference_weight
from ...augment.settings import AtLeastOne, Cloze, Place, Settings
from ...augment.truth import fit
from ...schemas.captions import TRUTH
from ..engine.stage import ReduceStage, Spread, StageResult
from ..engine.tables import WholeTable
from ..tables.corpus import given_table, load_cloze, load_lexicon
from .balance import first_images, in_train_splits, sample_images
from .lexicon import OwnOrGiven

# The number of a run's captions whose counts are added to those of the shipped reference. How many matters little: with
# 1,500, 5,000 and 15,000 of COCO, 0.70, 0.70 and 0.68 % of the noun negatives are true by captions of the same image
# that were held out; of the other operators' negatives the share is the same with each.
ADDED = 5_000


class TruthConfig(Settings):
    """What is counted: a random sample of images with siblings. lexicon: path of a truth table, see LexiconConfig."""

    truth_sample: AtLeastOne = Field(
        15_000, description="captions on which p_true is fitted: what is true of an image although no caption says so"
    )
    lexicon: OwnOrGiven = "own"
    # A truth table to which the counts are added, and whose calibration is kept.
    backoff: Place | None = None
    cloze: Cloze = None

    @property
    def sample(self) -> int:
        """How many captions are sampled and counted: ADDED if the counts are added to those of a reference (`backoff`),
        else `truth_sample`.
        """
        return self.truth_sample if self.backoff is None else ADDED


def sample_shard(parses: pa.Table, config: TruthConfig) -> pa.Table:
    """A shard's captions, with siblings, that may be in the sample; none if the config gives a table."""
    own = config.lexicon == "own"
    return sample_images(fit.with_siblings(parses) if own else parses.slice(0, 0), config.sample)


def combine(tables: list[pa.Table], config: TruthConfig) -> pa.Table:
    """The sample to count on, from the captions that several shards offer for it (see `sample_shard`)."""
    return first_images(tables, config.sample)


def estimate(table: pa.Table, config: TruthConfig, spread: Spread, lexicon: WholeTable) -> StageResult:
    """The table truth: how often captions of one image state both of two things, and the calibration.

    They are counted on the sample's train captions, or taken from a given lexicon. For captions like the reference's,
    the counts are added to those of the reference.

    Args:
        table: the captions of the sample.
        config: which lexicon is given, if any, and which reference (`backoff`) is added to.
        spread: calls a function on several parts of the captions in workers.
        lexicon: the sample's lexicon, which these calls need.

    Returns:
        The table; counters: `captions` counted, `given` 1 if the table is a given one, `blended` 1 if a reference was
        added.
    """
    if config.lexicon != "own":
        return StageResult({"truth": given_table(config.lexicon, TRUTH)}, {"captions": 0, "given": 1})
    table = fit.with_siblings(in_train_splits(table))

    def with_lexicon(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        """The results of calls of a function in workers, which gets the tables of a call and then the lexicon."""
        return spread(partial(call_with_lexicon, function), calls)

    # The reference's word pairs and calibration serve only where these captions tell of the same things as its own.
    if config.backoff is not None and reference_weight(nearness_of(count_nouns(table))) == 1:
        truth = fit.extend_truth(given_table(config.backoff, TRUTH), table, with_lexicon)
        return StageResult({"truth": truth}, {"captions": len(table), "blended": 1})
    return StageResult({"truth": fit.estimate_truth(table, with_lexicon)}, {"captions": len(table)})


def origin(counts: Mapping[str, int]) -> str:
    """Where estimates come from, by the counters of the stage that made their table (see `estimate`): "own",
    "reference", "reference and own", "given" or "none".
    """
    if counts.get("given"):
        return "given"
    if counts.get("captions"):
        return "reference and own" if counts.get("blended") else "own"
    return "reference" if counts.get("blended") else "none"


def call_with_lexicon(
    function: Callable[..., pa.Table], *arguments: pa.Table | TruthConfig, lexicon: WholeTable
) -> pa.Table:
    """In a worker, call a function with tables and the lexicon, which is read there, as it is too large to be sent.

    arguments: the tables, then the config, in the order in which a Spread gives them.
    """
    *tables, config = arguments
    return function(*tables, load_lexicon(lexicon, load_cloze(config.cloze)))


STAGE = ReduceStage(
    "truth", "parses", {"truth": TRUTH}, sample_shard, combine, estimate, whole=("lexicon",), spreads=True
)
