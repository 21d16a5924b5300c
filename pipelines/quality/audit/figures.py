"""The counts of an audit: per operator, how often each measure has each value. Page and table show the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ....augment.operators import OPERATORS
from ....augment.settings import AtLeastOne, NotNegative, Photos, Refined, Seed, Settings, Splits
from ....schemas.captions import LANGUAGE
from ....schemas.fields import table_of
from ....schemas.negatives import AUDIT, POSITIVE
from ...engine.tables import has_table, read_table, shards_of
from ...tables.columns import check_splits, column_filter
from ...tables.pairs import earlier_draws
from ..bias.baselines import BlindReport
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


SWAPPED = " | "  # between the words of a swap, "cat | dog"
ENTRIES = ("numeral", "attribute", "preposition", "verb", "noun")  # kinds of lexicon entries
# The number of parts of a caption in which edits are counted.
BINS = 10
# How many exchanges of words are listed for each operator, the most frequent ones.
EXCHANGES = 100
TABLES = ("negatives", "refined", "positives")
CHANGE = ["replaced", "replacement", "replaced_synset", "replacement_synset"]  # columns that say what is changed
COLUMNS = ("caption_id", "operator", "family", "caption", "text", "edits", "split", *CHANGE)


class Word(NamedTuple):
    """A word and its kind of lexicon entry, "" if unknown."""

    word: str
    kind: str


class WordUse(NamedTuple):
    """A word, its count in the corpus (None: it is not there), and how often it is removed (out) and inserted (put)."""

    word: str
    corpus: int | None
    out: int
    put: int


class Exchange(NamedTuple):
    """n: how often `old` is replaced by `new`; "" is nothing, so that a word is removed or inserted. reverse: how often
    `new` is replaced by `old`.
    """

    old: str
    new: str
    n: int
    reverse: int


class OperatorFigures(NamedTuple):
    """What is counted of one operator in a table. Only its first negative of each caption counts, except for `rows`,
    `p_true` and `estimates`.

    Attributes:
        family: of the operator.
        rows: the number of all rows.
        captions: the number of captions with a row.
        p_true: the mean of `estimates` rows; None if none has an estimate.
        estimates: the number of rows with an estimate.
        counts: by measure, how often it has each value: words_caption, words_negative (numbers of words),
            characters_added, edit_position (of an edit: which of BINS parts of the caption it is in).
        uses, exchanges: the most frequent words that it inserts or removes, and its most frequent exchanges.
    """

    family: str
    rows: int = 0
    captions: int = 0
    p_true: float | None = None
    estimates: int = 0
    counts: Mapping[str, pd.Series] = {}
    uses: Sequence[WordUse] = ()
    exchanges: Sequence[Exchange] = ()


@dataclass(frozen=True)
class Figures:
    """A run's counts.

    Attributes:
        captions, images: numbers of English captions and their images.
        without: the number of captions without a negative.
        tables: by table and operator, what is counted of its rows.
        refused: by operator and reason, the number of refused candidates.
    """

    captions: int
    images: int
    without: int
    tables: Mapping[str, Mapping[str, OperatorFigures]]
    refused: Mapping[str, Mapping[str, int]]

    @property
    def families(self) -> dict[str, str]:
        """The family of every operator that has rows or refused candidates, in display order: positives last."""
        families = dict.fromkeys(self.refused, "")
        for operators in self.tables.values():
            families |= {name: figures.family for name, figures in operators.items()}
        position = {name: number for number, name in enumerate(OPERATORS)}

        # Known operators in their usual order, then unknown ones by name; positives after all others.
        def sort_key(name: str) -> tuple[bool, int, str]:
            return families[name] == POSITIVE, position.get(name, len(position)), name

        return {name: families[name] for name in sorted(families, key=sort_key)}

    @property
    def reasons(self) -> list[str]:
        """All reasons of refusals that occur, the most frequent first."""
        total = sum(map(Counter, self.refused.values()), Counter[str]())
        return sorted(total, key=lambda reason: (-total[reason], reason))


def collect(run: Path, splits: Sequence[str] = ()) -> Figures:
    """Count a run's tables, shard by shard; splits: only these.

    Raises FileNotFoundError if the run lacks a table, ValueError if it lacks a split, DamagedShardError.
    """
    in_splits = column_filter({"split": splits})
    captions = 0
    images = 0
    captions_with_negative = 0
    stored_splits: set[str] = set()
    for rows in read_table(run, "captions", ["image_id", "split", "language"]):
        stored_splits.update(rows["split"].unique().to_pylist())
        english = rows.filter(in_splits & (pc.field("language") == LANGUAGE))
        captions += english.num_rows
        # All captions of an image are in one shard.
        images += len(english["image_id"].unique())
    check_splits(splits, stored_splits, run)
    # All rows of a caption are in one shard, so that numbers of captions can be added up over shards.
    for rows in read_table(run, "negatives", ["caption_id", "split"]):
        captions_with_negative += len(rows.filter(in_splits)["caption_id"].unique())
    corpus = _corpus_counts(run)
    tables = {table: _table_figures(run, table, splits, corpus) for table in TABLES if has_table(run, table)}
    return Figures(captions, images, captions - captions_with_negative, tables, _count_refused(run, splits))


def _corpus_counts(run: Path) -> dict[Word, int]:
    """How often each word of the lexicon was counted, over all places in a caption."""
    counts: dict[Word, int] = {}
    if not has_table(run, "lexicon"):
        return counts
    for rows in read_table(run, "lexicon", ["kind", "entry", "place", "count"]):
        of_all_places = rows.filter(pc.field("place") == "").to_pydict()
        words = map(Word, of_all_places["entry"], of_all_places["kind"])
        counts |= zip(words, map(round, of_all_places["count"]), strict=True)
    return counts


def _table_figures(
    run: Path, table: str, splits: Sequence[str], corpus: Mapping[Word, int]
) -> dict[str, OperatorFigures]:
    """The figures of each operator in a table of a run, added up over its shards.

    Args:
        run: the run.
        table: one of TABLES.
        splits: only captions of these; () for all.
        corpus: how often captions have each word, see `_corpus_counts`.
    """
    import pandas as pd

    counts_of_shards = []  # how long texts are, where they are edited, …: see `_count_values_of_shard`
    p_true_of_shards = []  # by operator, the sum and the number of estimates
    changes_of_shards = []  # how often each word is replaced by which other, with their synsets
    families: dict[str, str] = {}  # by operator
    has_estimates = table != "positives"
    for shard in shards_of(run, table):
        rows = shard.read([*COLUMNS, *(["p_true"] if has_estimates else [])]).filter(column_filter({"split": splits}))
        if not has_estimates:
            # A column of nulls, so that all tables are counted alike.
            rows = rows.append_column("p_true", pa.nulls(len(rows), pa.float64()))
        # Of several negatives of a caption and operator only the first counts, so that all captions weigh the same.
        first_negatives = rows.filter(pa.array(earlier_draws(rows) == 0))
        for kind in rows.group_by(["operator", "family"]).aggregate([]).to_pylist():
            families[kind["operator"]] = kind["family"]
        counts_of_shards.append(_count_values_of_shard(rows, first_negatives))
        p_true = rows.group_by("operator").aggregate([("p_true", "sum"), ("p_true", "count")])
        p_true_of_shards.append(p_true.to_pandas())
        changes = first_negatives.group_by(["operator", *CHANGE]).aggregate([([], "count_all")])
        changes_of_shards.append(changes.to_pandas().fillna(""))
    if not families:
        return {}
    counts = pd.concat(counts_of_shards).groupby(level=["operator", "measure", "value"]).sum()
    p_true = pd.concat(p_true_of_shards).groupby("operator").sum()
    changes = pd.concat(changes_of_shards).groupby(["operator", *CHANGE])["count_all"].sum().reset_index(name="n")
    figures = {}
    for name in sorted(families):
        # How often a measure has each value: {"words_caption": {9: 120, …}, …}; "rows" and "covered" have one value.
        by_measure = {measure: count.droplevel("measure") for measure, count in counts[name].groupby(level="measure")}
        rows_of_operator = int(by_measure.pop("rows").sum())
        captions = int(by_measure.pop("covered").sum())
        estimates = int(p_true.loc[name, "p_true_count"])
        changes_of_operator = changes[changes["operator"] == name]
        figures[name] = OperatorFigures(
            family=families[name],
            rows=rows_of_operator,
            captions=captions,
            p_true=p_true.loc[name, "p_true_sum"] / estimates if estimates else None,
            estimates=estimates,
            counts=by_measure,
            uses=word_changes(changes_of_operator, corpus),
            exchanges=exchanges(changes_of_operator),
        )
    return figures


def _count_values_of_shard(rows: pa.Table, first_negatives: pa.Table) -> pd.Series:
    """Count how often each measure of the audit has each value in a shard.

    Args:
        rows: of a table of negatives.
        first_negatives: those of them that are the first negative of their operator and caption.

    Returns:
        The counts, indexed by operator, measure and value: (noun, words_caption, 9) -> captions of nine words whose
        noun was changed. For "rows" and "covered" the only value is 0; for edit_position it is one of BINS parts of the
        caption.
    """
    import pandas as pd

    operator = first_negatives["operator"].to_numpy()
    length = pc.utf8_length(first_negatives["caption"]).to_numpy()  # in characters
    edits = first_negatives["edits"].combine_chunks()
    row_of_edit = pc.list_parent_indices(edits).to_numpy()  # (edits,)
    start = pc.struct_field(edits.flatten(), "start").to_numpy()
    end = pc.struct_field(edits.flatten(), "end").to_numpy()
    # The middle of each edit in its caption, from 0 to 1.
    middle = (start + end) / 2 / np.maximum(length[row_of_edit], 1)
    edit_bin = np.minimum((middle * BINS).astype(int), BINS - 1)

    def frame_of(measure: str, operators: np.ndarray, values: np.ndarray) -> pd.DataFrame:
        """A row for each value of a measure: the operator of the negative (or edit), and the value."""
        return pd.DataFrame({"operator": operators, "measure": measure, "value": values})

    all_values = [
        frame_of("rows", rows["operator"].to_numpy(), np.zeros(len(rows), int)),
        frame_of("covered", operator, np.zeros(len(first_negatives), int)),
        frame_of("words_caption", operator, _count_words(first_negatives["caption"])),
        frame_of("words_negative", operator, _count_words(first_negatives["text"])),
        frame_of("characters_added", operator, pc.utf8_length(first_negatives["text"]).to_numpy() - length),
        frame_of("edit_position", operator[row_of_edit], edit_bin),
    ]
    return pd.concat(all_values).value_counts(["operator", "measure", "value"], sort=False)


def _count_words(texts: pa.ChunkedArray) -> np.ndarray:
    """The number of words of each text, (texts,)."""
    return pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts))).to_numpy()


def word_changes(changes: pd.DataFrame, corpus: Mapping[Word, int]) -> list[WordUse]:
    """How often words are removed and inserted, the most frequent first; not where words are only reordered.

    Args:
        changes: the columns CHANGE, and `n` rows of each.
        corpus: how often words occur.
    """
    import pandas as pd

    # "cat | dog" -> "dog | cat" swaps the words and changes none.
    brings_new_words = [
        sorted(old.split(SWAPPED)) != sorted(new.split(SWAPPED))
        for old, new in zip(changes["replaced"], changes["replacement"], strict=True)
    ]
    changed = changes[np.array(brings_new_words, bool)]
    counts_by_side = []
    for side, column in (("out", "replaced"), ("put", "replacement")):
        rows = changed[changed[column] != ""]
        synsets = rows[f"{column}_synset"]
        kinds = [_kind_of_word(word, synset, corpus) for word, synset in zip(rows[column], synsets, strict=True)]
        counts_by_side.append(pd.DataFrame({"word": rows[column], "kind": kinds, side: rows["n"]}))
    # A word that is used as a noun and as a verb is listed twice, as the corpus has a count of each.
    counts = pd.concat(counts_by_side).groupby(["word", "kind"])[["out", "put"]].sum().astype(int)
    uses = []
    for (word, kind), number in zip(counts.index, counts.to_numpy().tolist(), strict=True):
        uses.append(WordUse(word, corpus.get(Word(word, kind)), *number))
    return sorted(uses, key=lambda use: (-use.out - use.put, use.word, use.corpus or 0))


def _kind_of_word(word: str, synset: str, corpus: Mapping[Word, int]) -> str:
    """The kind of lexicon entry that a word is.

    Its WordNet synset tells ("noun" for `dog.n.01`); without one, the kind under which the corpus counts the word, the
    first of ENTRIES; "" for a word that is in neither.
    """
    part_of_speech = synset.rpartition(".")[0].rpartition(".")[2]
    if part_of_speech in ("n", "v"):
        return {"n": "noun", "v": "verb"}[part_of_speech]
    return next((kind for kind in ENTRIES if Word(word, kind) in corpus), "")


def exchanges(changes: pd.DataFrame) -> list[Exchange]:
    """The most frequent exchanges of one word for another, such as cat -> dog 12 times, at most EXCHANGES.

    Args:
        changes: one change per row: its columns `replaced` and `replacement`, and `n`, how often it was made.
    """
    counts = changes.groupby(["replaced", "replacement"])["n"].sum().reset_index()
    rows = counts.to_numpy().tolist()
    count_of_pair = {(old, new): n for old, new, n in rows}
    exchanged = [Exchange(old, new, n, reverse=count_of_pair.get((new, old), 0)) for old, new, n in rows]
    return sorted(exchanged, key=lambda exchange: -exchange.n)[:EXCHANGES]


def _count_refused(run: Path, splits: Sequence[str]) -> dict[str, dict[str, int]]:
    """The number of refused candidates by operator and reason, the most frequent reason first."""
    refused: dict[str, Counter[str]] = {}
    if not has_table(run, "rejections"):
        return {}
    for rows in read_table(run, "rejections", ["operator", "reason", "split"]):
        groups = rows.filter(column_filter({"split": splits})).group_by(["operator", "reason"], use_threads=False)
        for group in groups.aggregate([([], "count_all")]).to_pylist():
            refused.setdefault(group["operator"], Counter())[group["reason"]] += group["count_all"]
    return {
        operator: dict(sorted(reasons.items(), key=lambda reason: (-reason[1], reason[0])))
        for operator, reasons in refused.items()
    }


class AuditRow(NamedTuple):
    """A number of an audit. item: the value of the measure that it counts, or a word or exchange.

    low, high: its confidence interval; pairs: the number of pairs behind it; all three None where unknown.
    """

    table: str
    operator: str
    measure: str
    item: str
    value: float
    low: float | None = None
    high: float | None = None
    pairs: int | None = None


def to_table(figures: Figures, blindness: Mapping[str, Blindness]) -> pa.Table:
    """All numbers of an audit, one per row, in the order of the page; blindness: by table."""
    return table_of(_rows(figures, blindness), AUDIT)


def _rows(figures: Figures, blindness: Mapping[str, Blindness]) -> Iterator[AuditRow]:
    """All numbers of an audit: of the captions, of each table's operators, of its blind reports, and the rejections."""
    yield AuditRow("captions", "", "captions", "", figures.captions)
    yield AuditRow("captions", "", "images", "", figures.images)
    yield AuditRow("negatives", "all", "covered", "", figures.captions - figures.without)
    for table, operators in figures.tables.items():
        for name in figures.families:
            if name in operators:
                yield from _rows_of_operator(table, name, operators[name])
        if table in blindness:
            for report in blindness[table].reports.values():
                yield from _rows_of_report(table, report)
    for operator, reasons in figures.refused.items():
        for reason, number in reasons.items():
            yield AuditRow("rejections", operator, "refused", reason, number)


def _rows_of_report(table: str, report: BlindReport) -> Iterator[AuditRow]:
    """The numbers of one blind report: accuracies, and the words and n-grams that tell a negative from its caption."""
    for baseline, value in report.baselines.items():
        yield AuditRow(table, report.name, "blind", baseline, value.percent, value.low, value.high, value.pairs)
    for cue in report.words:
        yield AuditRow(table, report.name, "word_true", cue.word, cue.true)
        yield AuditRow(table, report.name, "word_negative", cue.word, cue.negative)
    for ngram, weight in (*report.true_cues, *report.false_cues):
        yield AuditRow(table, report.name, "ngram_weight", ngram, weight)


def _rows_of_operator(table: str, operator: str, figures: OperatorFigures) -> Iterator[AuditRow]:
    """The numbers of one operator in a table of negatives, a row each. `item` is what a number is of: a word, an
    exchange of words, a part of the caption, or a number of words.
    """
    row = partial(AuditRow, table, operator)  # takes the measure, the item and the value
    yield row("covered", "", figures.captions)
    yield row("rows", "", figures.rows)
    if figures.p_true is not None:
        yield row("p_true", "", figures.p_true, pairs=figures.estimates)
    for measure in ("words_caption", "words_negative", "characters_added"):
        for item, number in figures.counts[measure].items():
            yield row(measure, str(item), number)
    for position, number in enumerate(figures.counts["edit_position"].reindex(range(BINS), fill_value=0)):
        yield row("edit_position", f"{100 * position // BINS}–{100 * (position + 1) // BINS} %", number)
    for use in figures.uses:
        if use.corpus is not None:
            yield row("corpus_count", use.word, use.corpus)
        yield row("taken_out", use.word, use.out)
        yield row("put_in", use.word, use.put)
    for exchange in figures.exchanges:
        yield row("exchange", f"{exchange.old} → {exchange.new}", exchange.n)
