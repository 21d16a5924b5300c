"""parses + lexicon + truth -> balance: a factor per entry, so that entries enter captions as often as they leave."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ...augment.balance import BALANCED, Exchanges, exchanges, fit_factors
from ...augment.caption import by_image, from_parses
from ...augment.cloze.adaptation import fit_unit_factors
from ...augment.cloze.model import cloze_model
from ...augment.lexicon.lexicon import UNIT
from ...augment.lexicon.nearness import count_nouns, nearness_of, reference_weight
from ...augment.reproducible import record_rng
from ...augment.sentences import sentences_of
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
PART_CAPTIONS = 250  # captions of the sample in one call of a worker


class BalanceConfig(Settings):
    """How the weights that balance words are fitted. lexicon: see LexiconConfig. kinds: default: all BALANCED."""

    balance_sample: AtLeastOne = Field(2_500, description="captions on which the weights of words are fitted")
    max_true: MaxTrue = MAX_P_TRUE
    lexicon: OwnOrGiven = "own"
    # A balance table to use if there are fewer captions than `balance_sample`: their factors would fit chance. It is
    # not used for captions that are far from everyday photos, which have other words.
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


def sample_images(parses: pa.Table, captions: int) -> pa.Table:
    """The captions of a shard that may be in a sample of all shards: those of its first images in a random order.

    They have two more columns by which `first_images` sorts, here and when the samples of shards are merged: `train`
    (0 in a train split, else 1) and `order`, a random number of the image.

    Args:
        parses: the parsed captions of the shard.
        captions: how many captions the sample is to have at least; whole images are taken.
    """
    images = parses["image_id"].unique().to_pylist()
    # A hash of the image's id: which images are sampled depends neither on their order nor on the size of shards.
    order = {image: record_rng(0, "balance", image).getrandbits(63) for image in images}
    train = pc.is_in(parses["split"], value_set=pa.array(TRAIN_SPLITS))
    table = parses.append_column(TRAIN, pc.invert(train).cast(pa.int8()))
    orders = pa.array([order[image] for image in parses["image_id"].to_pylist()], pa.int64())
    return first_images([table.append_column(ORDER, orders)], captions)


def combine(tables: list[pa.Table], config: BalanceConfig) -> pa.Table:
    """The sample to fit on, from those of several shards."""
    return first_images(tables, config.balance_sample)


def first_images(tables: list[pa.Table], captions: int) -> pa.Table:
    """All captions of the first images, sorted by the columns `train` and `order` of `sample_images`: as many images as
    are needed for at least `captions` captions.
    """
    table = pa.concat_tables(tables)
    table = table.sort_by([(TRAIN, "ascending"), (ORDER, "ascending"), ("caption_id", "ascending")])
    # of the first `captions` rows; the last image may have further captions, which are taken, too
    images = table["image_id"].slice(0, captions).unique()
    return table.filter(pc.is_in(table["image_id"], images)).combine_chunks()


def in_train_splits(table: pa.Table) -> pa.Table:
    """The rows that are in train splits (column `train` 0, see `sample_images`); all rows if none is."""
    # The rows are sorted by `train`: if any is of a train split, the first is.
    return table.filter(pc.equal(table[TRAIN], table[TRAIN][0])) if table.num_rows else table


def find_exchanges(
    table: pa.Table, units: pa.Table, config: BalanceConfig, lexicon: WholeTable, truth: WholeTable
) -> pa.Table:
    """The exchanges of words that negatives of these captions would make: the columns of Exchanges, and `kind`.

    A row is "the noun number 17 of the lexicon may be replaced by number 203, in caption 5, with this weight"; `kind`
    is an index in BALANCED.

    Args:
        table: the parsed captions.
        units: the factors of the units of the cloze model, a table of BALANCE.
        config: which kinds of words are balanced.
        lexicon, truth: tables of the run.
    """
    images = by_image(from_parses(in_train_splits(table)))
    cloze = load_cloze(config.cloze)
    entries = load_lexicon(lexicon, cloze).balanced(units)
    estimates = load_truth(lexicon, truth, config.max_true, cloze)
    tables = []
    for kind, exchanged in exchanges(images, entries, estimates, config.chosen).items():
        number_of_kind = pa.scalar(BALANCED.index(kind), pa.int8())
        columns = [pa.repeat(number_of_kind, len(exchanged.row)), *map(pa.array, exchanged)]
        tables.append(pa.table(columns, ["kind", *exchanged._fields]))
    return pa.concat_tables(tables).combine_chunks()


def fit(table: pa.Table, config: BalanceConfig, spread: Spread, lexicon: WholeTable, truth: WholeTable) -> StageResult:
    """Fit words' weights, so that they enter captions as often as they leave them, or take a given table of weights.

    Args:
        table: the captions of the sample; its train captions are used if it has any.
        config: which kinds of words are balanced, and which table is given.
        spread: calls a function on several parts of the captions in workers.
        lexicon, truth: tables of the run that the workers read.

    Returns:
        The table balance, and counters: `captions` used, `given` 1 if the table is a given one.
    """
    table = in_train_splits(table)
    given = _given_balance(table, config)
    if given is not None:
        return StageResult({"balance": given_table(given, BALANCE)}, {"captions": 0, "given": 1})
    kinds = sorted(config.chosen)
    # The factors of the cloze model come first, as they decide which exchanges are probable.
    of_units = _unit_factors(table, config)
    units = table_of(of_units, BALANCE)
    parts = [*batches(table, PART_CAPTIONS)] if kinds else []
    exchanges_of_parts = spread(find_exchanges, [[part, units] for part in parts])
    entries = lexicon.read(["kind", "entry", "place"])
    entries = entries.filter(pc.equal(entries["place"], "")).sort_by("entry")  # numbered as in Lexicon
    rows = of_units  # kind, entry, whether it is the plural, factor: ("noun", "dog", False, 0.8), as BALANCE has it
    for kind in kinds:
        names = entries.filter(pc.equal(entries["kind"], kind))["entry"].to_pylist()
        factors = fit_factors(kind, names, _exchanges_of_kind(kind, exchanges_of_parts, parts))
        rows += [(kind, name, plural, factor) for (name, plural), factor in sorted(factors.items())]
    return StageResult({"balance": table_of(rows, BALANCE)}, {"captions": len(table)})


def _unit_factors(table: pa.Table, config: BalanceConfig) -> list[tuple[str, str, bool, float]]:
    """The factors of the units of the shipped cloze model, as rows of BALANCE: they adapt it to captions that are far
    from the everyday photos it was trained on. None for captions near to these, or if the user gives another model.
    """
    if config.cloze is not None or reference_weight(nearness_of(count_nouns(table))) == 1:
        return []
    sentences = chain.from_iterable(map(sentences_of, from_parses(table)))
    factors = fit_unit_factors(sentences, cloze_model())
    return [(UNIT, name, False, factor) for name, factor in sorted(factors.items())]


def _given_balance(table: pa.Table, config: BalanceConfig) -> Path | None:
    """The balance table that is taken instead of fitting one on this sample; None: it is fitted."""
    if config.lexicon != "own":
        return config.lexicon
    # Words of captions that are far from everyday photos are not in the given table: their own factors are fitted, even
    # on few captions.
    is_near = reference_weight(nearness_of(count_nouns(table))) == 1
    is_too_small = len(table) < config.balance_sample
    return config.backoff if is_near and is_too_small else None


def _exchanges_of_kind(kind: str, exchanges_of_parts: Sequence[pa.Table], parts: Sequence[pa.Table]) -> Exchanges:
    """The exchanges of one kind of words in the whole sample.

    Args:
        kind: such as noun.
        exchanges_of_parts: by `find_exchanges`, of each part of the sample. Their `row` counts the captions of the
            part, that of the result those of the whole sample.
        parts: the captions of each part.
    """
    first_rows = np.cumsum([0, *map(len, parts)])[:-1]
    tables = [table.filter(pc.equal(table["kind"], BALANCED.index(kind))) for table in exchanges_of_parts]
    rows = [table["row"].to_numpy() + first for table, first in zip(tables, first_rows, strict=True)]
    old = np.concatenate([table["old"].to_numpy() for table in tables])
    new = np.concatenate([table["new"].to_numpy() for table in tables])
    weight = np.concatenate([table["weight"].to_numpy() for table in tables])
    return Exchanges(row=np.concatenate(rows), old=old.astype(int), new=new.astype(int), weight=weight)


STAGE = ReduceStage(
    "balance", "parses", {"balance": BALANCE}, sample_shard, combine, fit, whole=("lexicon", "truth"), spreads=True
)
