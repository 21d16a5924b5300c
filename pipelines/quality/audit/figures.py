"""The counts of an audit per operator: of items by measure, added up over the shards. Page and table show the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ....augment.operators import OPERATORS
from ....augment.settings import AtLeastOne, NotNegative, Photos, Refined, Seed, Settings, Splits
from ....schemas.fields import table_of
from ....schemas.negatives import AUDIT, POSITIVE
from ...engine.tables import has_table, read_table, shards_of
from ...tables.columns import check_splits, column_filter
from ...tables.pairs import earlier_draws
from ..bias.measure import Blindness

if TYPE_CHECKING:
    import pandas as pd


class AuditConfig(Settings):
    """What an audit shows."""

    n: AtLeastOne = Field(12, description="examples per operator; a third as many per reason of rejection")
    seed: Seed = 0
    refined: Refined = False
    splits: Splits = ()
    blind: bool = Field(True, description="do not measure the text-only baselines")
    max_pairs: AtLeastOne = Field(100_000, description="pairs measured per operator, at most, of random images")
    search: NotNegative = Field(
        1_000_000, description="rows that the page can search, at most, of random images; 0: no search"
    )
    images: Photos = None


SWAPPED = " | "
ENTRIES = ("numeral", "attribute", "preposition", "verb", "noun")  # kinds of lexicon entries
BINS = 10  # parts of a caption that edits are counted in
EXCHANGES = 100  # the most frequent ones are listed
TABLES = ("negatives", "refined", "positives")
CHANGE = ["replaced", "replacement", "replaced_synset", "replacement_synset"]
COLUMNS = ("caption_id", "operator", "family", "caption", "text", "edits", "split", *CHANGE)
Word = tuple[str, str]  # the word and its kind of lexicon entry, "" if unknown


class Made(NamedTuple):
    """What is counted of one operator in a table, of first draws but for `rows` and `p_true`, the mean of `estimates`
    rows. captions: those with a row. counts: by measure the number of each item: words_caption, words_negative (texts
    by words), characters_added, edit_position (edits by tenth of the caption). uses, exchanges: see `word_changes`,
    `exchanges`.
    """

    family: str
    rows: int = 0
    captions: int = 0
    p_true: float | None = None
    estimates: int = 0
    counts: Mapping[str, pd.Series] = {}
    uses: Any = None
    exchanges: Any = None


@dataclass(frozen=True)
class Figures:
    """A run's counts: English captions, images, captions `without` negatives; `made`, `refused` by operator."""

    captions: int
    images: int
    without: int
    made: Mapping[str, Mapping[str, Made]]
    refused: Mapping[str, Mapping[str, int]]

    @property
    def families(self) -> dict[str, str]:
        """The family of every operator that has rows or refused candidates, in display order: positives last."""
        order = {name: number for number, name in enumerate(OPERATORS)}
        found = dict.fromkeys(self.refused, "")
        found |= {name: made.family for table in self.made.values() for name, made in table.items()}
        return {
            name: found[name]
            for name in sorted(found, key=lambda name: (found[name] == POSITIVE, order.get(name, len(order)), name))
        }

    @property
    def reasons(self) -> list[str]:
        """All reasons of refusals that occur, the most frequent first."""
        total = sum(map(Counter, self.refused.values()), Counter[str]())
        return sorted(total, key=lambda reason: (-total[reason], reason))


def collect(run: Path, splits: Sequence[str] = ()) -> Figures:
    """Count a run's tables, shard by shard; splits: only these. Raises FileNotFoundError for tables that the run lacks,
    ValueError for splits, DamagedShardError.
    """
    captions = images = covered = 0  # all captions of an image are in one shard
    seen: set[str] = set()
    for rows in read_table(run, "captions", ["image_id", "split", "language"]):
        seen.update(rows["split"].unique().to_pylist())
        english = rows.filter(column_filter({"split": splits}) & (pc.field("language") == "en"))
        captions += english.num_rows
        images += len(english["image_id"].unique())
    check_splits(splits, seen, run)
    for rows in read_table(run, "negatives", ["caption_id", "split"]):
        covered += len(rows.filter(column_filter({"split": splits}))["caption_id"].unique())
    corpus: dict[Word, int] = {}  # the counts of the lexicon over all places
    for rows in read_table(run, "lexicon", ["kind", "entry", "place", "count"]) if has_table(run, "lexicon") else ():
        plain = rows.filter(pc.field("place") == "").to_pydict()
        corpus |= zip(zip(plain["entry"], plain["kind"], strict=True), map(round, plain["count"]), strict=True)
    made = {table: _made(run, table, splits, corpus) for table in TABLES if has_table(run, table)}
    return Figures(captions, images, captions - covered, made, _refused(run, splits))


def _made(run: Path, table: str, splits: Sequence[str], corpus: Mapping[Word, int]) -> dict[str, Made]:
    import pandas as pd

    counted = []
    estimates = []
    changes = []
    families: dict[str, str] = {}
    for shard in shards_of(run, table):
        estimated = [] if table == "positives" else ["p_true"]
        rows = shard.read([*COLUMNS, *estimated]).filter(column_filter({"split": splits}))
        if not estimated:
            rows = rows.append_column("p_true", pa.nulls(len(rows), pa.float64()))
        first = rows.filter(pa.array(earlier_draws(rows) == 0))
        kinds = rows.group_by(["operator", "family"])
        families |= dict(kinds.aggregate([]).select(["operator", "family"]).to_pandas().to_numpy().tolist())
        counted.append(_counts(rows, first))
        estimates.append(rows.group_by("operator").aggregate([("p_true", "sum"), ("p_true", "count")]).to_pandas())
        changes.append(first.group_by(["operator", *CHANGE]).aggregate([([], "count_all")]).to_pandas().fillna(""))
    if not families:
        return {}
    counts = pd.concat(counted).groupby(level=[0, 1, 2]).sum()
    p_true = pd.concat(estimates).groupby("operator").sum()
    change = pd.concat(changes).groupby(["operator", *CHANGE])["count_all"].sum().reset_index(name="n")
    made = {}
    for name in sorted(families):
        mine = {measure: some.droplevel(0) for measure, some in counts[name].groupby(level=0)}
        total, estimated = p_true.loc[name]
        own = change[change["operator"] == name]
        size, covered = (int(mine.pop(measure).sum()) for measure in ("rows", "covered"))
        mean = total / estimated if estimated else None
        words = word_changes(own, corpus)
        changed = exchanges(own)
        made[name] = Made(families[name], size, covered, mean, int(estimated), mine, words, changed)
    return made


def _counts(rows: pa.Table, first: pa.Table) -> pd.Series:
    """By operator, measure and item the number of rows of a shard, or of first draws or edits of these."""
    import pandas as pd

    operator = first["operator"].to_numpy()
    length = pc.utf8_length(first["caption"]).to_numpy()
    edits = first["edits"].combine_chunks()
    of = pc.list_parent_indices(edits).to_numpy()
    start, end = (pc.struct_field(edits.flatten(), name).to_numpy() for name in ("start", "end"))
    place = (start + end) / 2 / np.maximum(length[of], 1)
    measured = {
        "rows": (rows["operator"].to_numpy(), np.zeros(len(rows), int)),
        "covered": (operator, np.zeros(len(first), int)),
        "words_caption": (operator, _words(first["caption"])),
        "words_negative": (operator, _words(first["text"])),
        "characters_added": (operator, pc.utf8_length(first["text"]).to_numpy() - length),
        "edit_position": (operator[of], np.minimum((place * BINS).astype(int), BINS - 1)),
    }
    items = [pd.DataFrame({"operator": of, "measure": name, "item": item}) for name, (of, item) in measured.items()]
    return pd.concat(items).value_counts(["operator", "measure", "item"], sort=False)


def _words(texts: pa.ChunkedArray) -> np.ndarray:
    return pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts))).to_numpy()


def word_changes(change: pd.DataFrame, corpus: Mapping[Word, int]) -> pd.DataFrame:
    """How often words are removed (`out`) and inserted (`put`), the most frequent first, and their count in the
    `corpus` of (word, kind), None if not there; not where words are only reordered. change: columns CHANGE, and `n`
    rows of each.
    """
    import pandas as pd

    texts = zip(change["replaced"], change["replacement"], strict=True)
    changed = change[[sorted(old.split(SWAPPED)) != sorted(new.split(SWAPPED)) for old, new in texts]]
    sides = []
    for side, column in (("out", "replaced"), ("put", "replacement")):
        some = changed[changed[column] != ""]
        words = zip(some[column], some[f"{column}_synset"], strict=True)
        kind = [_kind(word, synset, corpus) for word, synset in words]
        sides.append(pd.DataFrame({"word": some[column], "kind": kind, side: some["n"]}))
    counts = pd.concat(sides).groupby(["word", "kind"])[["out", "put"]].sum().astype(int)
    found = counts.assign(corpus=pd.Series([corpus.get(word) for word in counts.index], counts.index, object))
    order = found.assign(used=-found["out"] - found["put"], seen=found["corpus"].fillna(0).astype(int)).reset_index()
    return order.sort_values(["used", "word", "seen"])[["word", "corpus", "out", "put"]]


def _kind(word: str, synset: str, corpus: Mapping[Word, int]) -> str:
    """The kind of lexicon entry that a word of a synset is: "noun" for `dog.n.01`; "" if neither tells."""
    of_synset = {"n": "noun", "v": "verb"}.get(synset.rpartition(".")[0].rpartition(".")[2], "")
    return of_synset or next((kind for kind in ENTRIES if (word, kind) in corpus), "")


def exchanges(change: pd.DataFrame) -> pd.DataFrame:
    """The most frequent exchanges of changes, at most EXCHANGES: old, new ("": nothing), n, and reverse: new by old."""
    counts = change.groupby(["replaced", "replacement"])["n"].sum()
    found = counts.rename_axis(["old", "new"]).reset_index()
    found["reverse"] = counts.reindex(list(zip(found["new"], found["old"], strict=True)), fill_value=0).to_numpy()
    return found.sort_values("n", ascending=False, kind="stable")[:EXCHANGES]


def _refused(run: Path, splits: Sequence[str]) -> dict[str, dict[str, int]]:
    """The number of refused candidates by operator and reason, the most frequent reason first."""
    found: dict[str, Counter[str]] = {}
    for rows in read_table(run, "rejections", ["operator", "reason", "split"]) if has_table(run, "rejections") else ():
        some = rows.filter(column_filter({"split": splits})).group_by(["operator", "reason"], use_threads=False)
        for one in some.aggregate([([], "count_all")]).to_pylist():
            found.setdefault(one["operator"], Counter())[one["reason"]] += one["count_all"]
    return {name: dict(sorted(of.items(), key=lambda one: (-one[1], one[0]))) for name, of in found.items()}


def to_table(figures: Figures, blindness: Mapping[str, Blindness]) -> pa.Table:
    """All numbers of an audit, one per row, in the order of the page; blindness: by table."""
    return table_of(((*row, *(None,) * (len(AUDIT) - len(row))) for row in _rows(figures, blindness)), AUDIT)


def _rows(figures: Figures, blindness: Mapping[str, Blindness]) -> Iterator[tuple[Any, ...]]:
    """All figures as rows (table, operator, measure, item, value, low, high, pairs), the last three where known."""
    yield "captions", "", "captions", "", figures.captions
    yield "captions", "", "images", "", figures.images
    yield "negatives", "all", "covered", "", figures.captions - figures.without
    for table, operators in figures.made.items():
        for name in figures.families:
            if name in operators:
                yield from ((table, name, *row) for row in _rows_of_operator(operators[name]))
        for report in blindness[table].reports.values() if table in blindness else ():
            for baseline, value in report.baselines.items():
                yield table, report.name, "blind", baseline, value.percent, value.low, value.high, value.pairs
            for cue in report.words:
                yield table, report.name, "word_true", cue.word, cue.true
                yield table, report.name, "word_negative", cue.word, cue.negative
            for gram, weight in (*report.true_cues, *report.false_cues):
                yield table, report.name, "ngram_weight", gram, weight
    for name, refused in figures.refused.items():
        yield from (("rejections", name, "refused", reason, n) for reason, n in refused.items())


def _rows_of_operator(made: Made) -> Iterator[tuple[Any, ...]]:
    yield "covered", "", made.captions
    yield "rows", "", made.rows
    if made.p_true is not None:
        yield "p_true", "", made.p_true, None, None, made.estimates
    for measure in ("words_caption", "words_negative", "characters_added"):
        yield from ((measure, str(item), n) for item, n in made.counts[measure].items())
    for tenth, n in enumerate(made.counts["edit_position"].reindex(range(BINS), fill_value=0)):
        yield "edit_position", f"{100 * tenth // BINS}–{100 * (tenth + 1) // BINS} %", n
    for use in made.uses.itertuples():
        if use.corpus is not None:
            yield "corpus_count", use.word, use.corpus
        yield "taken_out", use.word, use.out
        yield "put_in", use.word, use.put
    yield from (("exchange", f"{one.old} → {one.new}", one.n) for one in made.exchanges.itertuples())
