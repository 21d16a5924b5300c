"""parses -> lexicon: the words that may replace others, and where the corpus uses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, SkipValidation

from ...augment.caption import from_parses
from ...augment.kinds import KINDS
from ...augment.language.concreteness import Concreteness
from ...augment.lexicon.entries import REFERENCE_CAPTIONS, blend_counts
from ...augment.lexicon.lexicon import count_captions, default_min_count, select_entries
from ...augment.lexicon.nearness import count_nouns, nearness_of, reference_weight
from ...augment.settings import AtLeastOne, Place, Settings
from ...schemas.captions import LEXICON, TRAIN_SPLITS
from ...schemas.fields import table_of
from ..engine.stage import ReduceStage, StageResult
from ..tables.corpus import given_table

CAPTIONS = "captions"
TRAIN = "train"
# The kind of the counts of all nouns; by these, the corpus is compared with everyday photos.
LEMMA = "lemma"


MinCount = Annotated[
    AtLeastOne | None,
    Field(description="occurrences that a replacement noun, attribute or verb needs; none: by corpus size"),
]
MinConcreteness = Annotated[
    float, Field(description="minimum concreteness of a replacement noun")
]  # on the scale of the norms
Norms = Annotated[
    Path | None, Field(description="norm list (word, tab, score) in place of the built-in concreteness scores")
]
OwnOrGiven = SkipValidation[Path | Literal["own"]]  # see negcap.pipelines.stages.build.LexiconSource


class LexiconConfig(Settings):
    """Which words enter the lexicon. lexicon: "own" to count, or the path of a lexicon table to use as it is. backoff:
    that of a reference lexicon to blend the own counts with; see negcap.augment.lexicon.entries.
    """

    min_count: MinCount = None  # by default VSE-C's "more than 200", scaled to the corpus
    min_concreteness: MinConcreteness = 0.6
    concreteness: Norms = None
    attributes: Path | None = Field(
        None, description="file of the attributes that may be inserted, one per line; none: the frequent ones"
    )
    lexicon: OwnOrGiven = "own"
    backoff: Place | None = None


def count_shard(parses: pa.Table, config: LexiconConfig) -> pa.Table:
    """Count how often a shard's captions use each word in each place: the columns of LEXICON, and `train`.

    Rows of kind LEMMA count all nouns, whatever their place. Nothing is counted if the config gives a lexicon.
    """
    if config.lexicon != "own":
        return pa.schema([*LEXICON, (TRAIN, pa.bool_())]).empty_table()
    return counted_by_split(parses, _count_words)


def _count_words(parses: pa.Table) -> pa.Table:
    """The uses of words in captions, and their nouns as rows of kind LEMMA: the columns of LEXICON."""
    lemmas = table_of(((LEMMA, noun, "", times) for noun, times in count_nouns(parses).items()), LEXICON)
    return pa.concat_tables([count_captions(from_parses(parses)), lemmas])


def counted_by_split(table: pa.Table, count: Callable[[pa.Table], pa.Table]) -> pa.Table:
    """Count the captions of train splits, and separately all others. The result has both counts as rows: a column
    `train` tells them apart. Each has a row of the kind CAPTIONS, whose count is the number of captions.

    count: makes a table of counts, such as {"kind": "noun", "entry": "dog", "count": 12}, from captions.
    """
    train = pc.is_in(table["split"], value_set=pa.array(TRAIN_SPLITS))
    parts = []
    for is_train, rows in ((True, table.filter(train)), (False, table.filter(pc.invert(train)))):
        counts = count(rows)
        total = {**dict.fromkeys(counts.column_names, ""), "kind": CAPTIONS, "count": rows.num_rows}
        counts = pa.concat_tables([counts, pa.Table.from_pylist([total], counts.schema)])
        parts.append(counts.append_column(TRAIN, pa.repeat(is_train, counts.num_rows)))
    return pa.concat_tables(parts)


class SplitCounts(NamedTuple):
    """Counts of the captions that count, without the column `train`; and, as counters of a stage, how many captions
    these are (`captions`), and whether they are of train splits alone (`train_only`, 0 or 1).
    """

    counts: pa.Table
    counters: dict[str, int]


def of_train_splits(counts: pa.Table) -> SplitCounts:
    """The counts of the train splits, from `counted_by_split`; those of all captions if there are no train splits."""
    totals = counts.filter(pc.equal(counts["kind"], CAPTIONS))
    train_captions = int(pc.sum(totals.filter(totals[TRAIN])["count"]).as_py() or 0)
    captions = train_captions or int(pc.sum(totals["count"]).as_py() or 0)
    is_train = train_captions > 0
    chosen = pc.and_(pc.equal(counts[TRAIN], is_train), pc.not_equal(counts["kind"], CAPTIONS))
    counters = {"captions": captions, "train_only": int(is_train)}
    return SplitCounts(counts.filter(chosen).drop_columns(TRAIN), counters)


def add(tables: list[pa.Table], config: LexiconConfig) -> pa.Table:
    """The counts of several shards added up, as one table; each of `tables` is a result of `count_shard`."""
    keys = [TRAIN, *LEXICON.names[:3]]  # kind, entry and place; the last column is the count
    # The schema allows nulls in a column of sums, and none in the counts of a shard: the promotion joins the two.
    counts = pa.concat_tables(tables, promote_options="default")
    summed = counts.group_by(keys, use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns({"count_sum": "count"}).select([*LEXICON.names, TRAIN]).combine_chunks()


def choose(counts: pa.Table, config: LexiconConfig) -> StageResult:
    """Choose the words of the lexicon: frequent and usable ones of train captions, or of all if there are none.

    Args:
        counts: of all shards, see `count_shard`.
        config: how frequent and concrete words must be, or the lexicon that is given.

    Returns:
        The table lexicon. Counters: `captions` counted, `train_only`, `min_count`, `given` (1 if the config gives the
        lexicon), and the number of entries of each kind. `nearness` to everyday photos, in thousandths (see
        negcap.augment.lexicon.nearness), if the captions suffice to measure it. If a reference is added: `blended` (1),
        and `reference_captions`, the number of own captions that its counts weigh as much as.
    """
    if config.lexicon != "own":
        table = given_table(config.lexicon, LEXICON)
        return StageResult({"lexicon": table}, {"captions": 0, "given": 1, **_count_entries(table)})
    of_splits = of_train_splits(counts)
    counters = of_splits.counters
    # Rows of the kind LEMMA count nouns, for the nearness alone; the others are uses of words.
    is_lemma = pc.equal(of_splits.counts["kind"], LEMMA)
    lemmas = of_splits.counts.filter(is_lemma)
    uses = of_splits.counts.filter(pc.invert(is_lemma)).cast(LEXICON)
    nearness = nearness_of(dict(zip(lemmas["entry"].to_pylist(), lemmas["count"].to_pylist(), strict=True)))
    if nearness is not None:
        # Rounded down: rounded up it might reach the limit that it is compared with.
        counters["nearness"] = int(1000 * nearness)
    min_count = config.min_count or default_min_count(counters["captions"])
    norms = Concreteness.load(config.concreteness)
    table = select_entries(uses, min_count, norms, config.min_concreteness, _read_words(config.attributes))
    counters["min_count"] = min_count
    # What is rare in this corpus may be common in photos: the reference adds its words and counts.
    if config.backoff is not None:
        # It is 1 for captions that are near to everyday photos, and less for others.
        relative_weight = reference_weight(nearness)
        # The reference is counted on many captions: its counts are scaled as if it were of REFERENCE_CAPTIONS.
        weight = relative_weight * (REFERENCE_CAPTIONS / captions_counted(config.backoff))
        table = blend_counts(uses, table, given_table(config.backoff, LEXICON), weight, is_far=relative_weight < 1)
        counters |= {"blended": 1, "reference_captions": round(relative_weight * REFERENCE_CAPTIONS)}
    return StageResult({"lexicon": table}, {**counters, **_count_entries(table)})


def captions_counted(reference: Path) -> int:
    """The captions that a reference lexicon was counted on, by its metadata. ValueError if they do not say."""
    metadata = pq.read_schema(reference).metadata or {}
    if CAPTIONS.encode() not in metadata:
        raise ValueError(f"{reference} must have {CAPTIONS}, the number that was counted, in its metadata")
    return int(metadata[CAPTIONS.encode()])


def _count_entries(table: pa.Table) -> dict[str, int]:
    """The number of entries of each kind: {"nouns": 512, "verbs": 80, …}."""
    # Each entry has one row for all places together, with the place "", beside one for each of its places.
    entries = table.filter(pc.equal(table["place"], ""))
    return {f"{kind}s": pc.sum(pc.equal(entries["kind"], kind)).as_py() or 0 for kind in KINDS}


def _read_words(path: Path | None) -> frozenset[str] | None:
    """The lower-cased words of a text file, or None. Raises ValueError if there are none or it is not UTF-8."""
    if path is None:
        return None
    try:
        words = frozenset(path.read_text("utf-8").lower().split())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text: {error}") from error
    if not words:
        raise ValueError(f"{path} must have one attribute per line, was empty")
    return words


STAGE = ReduceStage("lexicon", "parses", {"lexicon": LEXICON}, count_shard, add, choose)
