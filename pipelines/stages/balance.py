"""parses + lexicon + truth -> balance: a factor per entry, so that entries enter captions as often as they leave."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ...augment.balance import BALANCED, Exchanges, exchanges, fit_factors
from ...augment.caption import by_image, from_parses
from ...augment.lexicon.nearness import count_nouns, nearness_of, reference_weight
from ...augment.reproducible import record_rng
from ...augment.settings import AtLeastOne, Cloze, MaxTrue, Place, Settings
from ...augment.truth.estimates import MAX_P_TRUE
from ...schemas.captions import BALANCE, TRAIN_SPLITS
from ...schemas.fields import table_of
from ..engine.run import batches
from ..engine.stage import ReduceStage, Spread, StageResult
from ..engine.tables import WholeTable
from ..tables.corpus import given_table, load_cloze, load_lexicon, load_truth
from .lexicon import OwnOrGiven

TRAIN = "train"
ORDER = "order"
PART = 250  # number of captions of the sample in one call of a worker


class BalanceConfig(Settings):
    """How the weights that balance words are fitted. lexicon: see LexiconConfig. kinds: default: all BALANCED."""

    balance_sample: AtLeastOne = Field(2_500, description="captions on which the weights of words are fitted")
    max_true: MaxTrue = MAX_P_TRUE
    lexicon: OwnOrGiven = "own"
    # A balance table to use if there are fewer captions, whose factors would fit chance; not if the captions are far
    # from everyday photos: its factors are those of other words.
    backoff: Place | None = None
    cloze: Cloze = None
    kinds: tuple[str, ...] | None = None  # see negcap.pipelines.stages.build.configure

    @property
    def chosen(self) -> tuple[str, ...]:
        """The kinds, or all."""
        return BALANCED if self.kinds is None else self.kinds


def sample_shard(parses: pa.Table, config: BalanceConfig) -> pa.Table:
    """The captions of a shard that may be in the sample to fit on; none if the config gives a balance table."""
    return sample_images(parses if config.lexicon == "own" else parses.slice(0, 0), config.balance_sample)


def sample_images(parses: pa.Table, sample: int) -> pa.Table:
    """A shard's captions that may be in a sample, with `train` (0: train split) and `order` (a hash)."""
    images = parses["image_id"].unique().to_pylist()
    order = {image: record_rng(0, "balance", image).getrandbits(63) for image in images}
    train = pc.is_in(parses["split"], value_set=pa.array(TRAIN_SPLITS))
    table = parses.append_column(TRAIN, pc.invert(train).cast(pa.int8()))
    orders = pa.array([order[image] for image in parses["image_id"].to_pylist()], pa.int64())
    return first_images([table.append_column(ORDER, orders)], sample)


def combine(tables: list[pa.Table], config: BalanceConfig) -> pa.Table:
    """The sample to fit on, from those of several shards."""
    return first_images(tables, config.balance_sample)


def first_images(tables: list[pa.Table], sample: int) -> pa.Table:
    """The fewest images with at least `sample` captions, in the order of `train` and `order`."""
    table = pa.concat_tables(tables)
    table = table.sort_by([(TRAIN, "ascending"), (ORDER, "ascending"), ("caption_id", "ascending")])
    first = table["image_id"].slice(0, sample).unique()
    return table.filter(pc.is_in(table["image_id"], first)).combine_chunks()


def in_train_splits(table: pa.Table) -> pa.Table:
    """The rows that are in train splits (column `train` 0, see `sample_images`); all rows if none is."""
    return table.filter(pc.equal(table[TRAIN], table[TRAIN][0])) if table.num_rows else table


def find_exchanges(table: pa.Table, config: BalanceConfig, lexicon: WholeTable, truth: WholeTable) -> pa.Table:
    """The exchanges of words that negatives of these parses would make: columns of Exchanges, and `kind`."""
    images = by_image(from_parses(in_train_splits(table)))
    cloze = load_cloze(config.cloze)
    entries = load_lexicon(lexicon, cloze)
    known = load_truth(lexicon, truth, config.max_true, cloze)
    tables = []
    for kind, found in exchanges(images, entries, known, config.chosen).items():
        of = pa.repeat(pa.scalar(BALANCED.index(kind), pa.int8()), len(found.row))
        tables.append(pa.table([of, *map(pa.array, found)], ["kind", *found._fields]))
    return pa.concat_tables(tables).combine_chunks()


def fit(table: pa.Table, config: BalanceConfig, spread: Spread, lexicon: WholeTable, truth: WholeTable) -> StageResult:
    """Fit words' weights, so that they enter captions as often as they leave, on the sample's train captions if any."""
    table = in_train_splits(table)
    is_near = reference_weight(nearness_of(count_nouns(table))) == 1
    given = config.backoff if len(table) < config.balance_sample and is_near else None
    if config.lexicon != "own":
        given = config.lexicon
    if given is not None:
        return StageResult({"balance": given_table(given, BALANCE)}, {"captions": 0, "given": 1})
    kinds = sorted(config.chosen)
    parts = [*batches(table, PART)] if kinds else []
    found = spread(find_exchanges, [[part] for part in parts])
    first = np.cumsum([0, *map(len, parts)])
    entries = lexicon.read(["kind", "entry", "place"])
    entries = entries.filter(pc.equal(entries["place"], "")).sort_by("entry")  # numbered as in Lexicon
    rows = []
    for name in kinds:
        own = [part.filter(pc.equal(part["kind"], BALANCED.index(name))) for part in found]
        row = np.concatenate([part["row"].to_numpy() + start for part, start in zip(own, first, strict=False)])
        old, new, weight = (np.concatenate([part[c].to_numpy() for part in own]) for c in ("old", "new", "weight"))
        names = entries.filter(pc.equal(entries["kind"], name))["entry"].to_pylist()
        factors = fit_factors(name, names, Exchanges(row, old.astype(int), new.astype(int), weight))
        rows += [(name, *entry, factor) for entry, factor in sorted(factors.items())]
    return StageResult({"balance": table_of(rows, BALANCE)}, {"captions": len(table)})


STAGE = ReduceStage(
    "balance", "parses", {"balance": BALANCE}, sample_shard, combine, fit, whole=("lexicon", "truth"), spreads=True
)
