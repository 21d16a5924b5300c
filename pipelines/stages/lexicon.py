"""parses -> lexicon: what the corpus' own counts allow as replacements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from negcap.pipelines.engine.stage import ReduceStage, StageResult
from negcap.pipelines.tables.corpus import given_table
from negcap.schemas.lexicon import LEXICON

if TYPE_CHECKING:
    import pyarrow as pa

TRAIN_SPLITS = ("train", "restval")
CAPTIONS = "captions"


@dataclass(frozen=True)
class LexiconConfig:
    """What makes an entry usable.

    min_count: occurrences that make a head frequent; None scales VSE-C's 200 to the corpus (see
    augment.lexicon.lexicon.default_min_count). theta: least concreteness, on the scale of the list in use (0.6 is
    VSE-C's, on the published list's scale, which the shipped score predicts). concreteness: a norm list that replaces
    the shipped score. attributes: a file of the attributes to use, one a line, instead of the frequent ones. lexicon:
    own, or a lexicon table (a Parquet file, or a run's folder `lexicon`) to be used as it is instead of counting.
    Raises ValueError when min_count is below 1.
    """

    min_count: int | None = None
    theta: float = 0.6
    concreteness: Path | None = None
    attributes: Path | None = None
    lexicon: Path | Literal["own"] = "own"

    def __post_init__(self) -> None:
        if self.min_count is not None and self.min_count < 1:
            raise ValueError(f"min_count must be >= 1, was: {self.min_count}")


def count_shard(parses: pa.Table, config: LexiconConfig) -> pa.Table:
    """The counts of a shard, those of train splits apart: negcap.schemas.lexicon's columns and `train` (bool)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if config.lexicon != "own":
        return pa.schema([*LEXICON, ("train", pa.bool_())]).empty_table()
    from negcap.augment.caption import from_parses
    from negcap.augment.lexicon.lexicon import count

    train = pc.is_in(parses["split"], value_set=pa.array(TRAIN_SPLITS))
    parts = []
    for flag, rows in ((True, parses.filter(train)), (False, parses.filter(pc.invert(train)))):
        counted = count(from_parses(rows))
        total = pa.Table.from_arrays([pa.array([v]) for v in (CAPTIONS, "", "", rows.num_rows)], schema=LEXICON)
        table = pa.concat_tables([counted, total])
        parts.append(table.append_column("train", pa.array([flag] * table.num_rows, pa.bool_())))
    return pa.concat_tables(parts)


def add(tables: list[pa.Table], config: LexiconConfig) -> pa.Table:
    """The sum of several shards' counts."""
    import pyarrow as pa

    keys = ["train", *LEXICON.names[:3]]
    summed = pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate([("count", "sum")])
    return summed.rename_columns({"count_sum": "count"}).select([*LEXICON.names, "train"]).combine_chunks()


def choose(counts: pa.Table, config: LexiconConfig) -> StageResult:
    """The lexicon: usable entries of the train captions, or of all captions where no split is a train split.

    Counters: captions (counted), train_only, min_count, given (1 where the lexicon is a given one), and the number of
    usable nouns, prepositions, numerals, attributes, verbs.
    """
    import pyarrow.compute as pc

    if config.lexicon != "own":
        table = given_table(config.lexicon, LEXICON)
        return StageResult({"lexicon": table}, {"captions": 0, "given": 1, **_entries(table)})
    from negcap.augment.language.concreteness import Concreteness
    from negcap.augment.lexicon.lexicon import default_min_count, select

    total = counts.filter(pc.equal(counts["kind"], CAPTIONS))
    trained = pc.sum(total.filter(total["train"])["count"]).as_py() or 0
    counts = counts.filter(pc.and_(pc.equal(counts["train"], trained > 0), pc.not_equal(counts["kind"], CAPTIONS)))
    counts = counts.drop_columns("train")
    captions = trained or pc.sum(total["count"]).as_py() or 0
    min_count = config.min_count or default_min_count(captions)
    norms = Concreteness.load(config.concreteness)
    table = select(counts.cast(LEXICON), min_count, norms, config.theta, _words(config.attributes))
    return StageResult(
        {"lexicon": table},
        {"captions": captions, "train_only": int(trained > 0), "min_count": min_count, **_entries(table)},
    )


def _entries(table: pa.Table) -> dict[str, int]:
    """The number of usable entries of each kind."""
    import pyarrow.compute as pc

    plain = table.filter(pc.equal(table["place"], ""))
    return {
        f"{kind}s": pc.sum(pc.equal(plain["kind"], kind)).as_py() or 0
        for kind in ("noun", "preposition", "numeral", "attribute", "verb")
    }


def _words(path: Path | None) -> frozenset[str] | None:
    """The words of a file, one a line, lower case. Raises ValueError when there are none, or it is not UTF-8."""
    if path is None:
        return None
    try:
        words = frozenset(path.read_text("utf-8").lower().split())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text: {error}") from error
    if not words:
        raise ValueError(f"{path} must hold one attribute a line, was empty")
    return words


STAGE = ReduceStage(
    name="lexicon",
    input="parses",
    outputs={"lexicon": LEXICON},
    partial=count_shard,
    combine=add,
    finish=choose,
)
