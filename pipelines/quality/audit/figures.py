"""The counts of an audit per operator: coverage, negatives, refusals, lengths, positions of edits, words.

All of them are counts of items by measure, which are added up shard by shard; the page and the table show the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from ....augment.settings import AtLeastOne, Photos, Refined, Seed, Settings, Splits, matching
from ....schemas.negatives import AUDIT, POSITIVE
from ...engine.progress import Progress, in_progress
from ...engine.tables import has_table, no_table, read_table
from ...tables.columns import check_splits, stored_splits
from ...tables.pairs import earlier
from ..bias import ALL, Blindness, BlindReport, CachedReports, Pair, measure_each, read_all, read_corpus, with_all
from ..bias.measure import Unmeasured

if TYPE_CHECKING:
    import pyarrow as pa


class AuditConfig(Settings):
    """What an audit shows."""

    n: AtLeastOne = Field(12, description="random negatives per operator; a third of each reason of rejection")
    seed: Seed = 0
    refined: Refined = False
    splits: Splits = ()
    blind: bool = Field(True, description="do not measure accuracy without the images")
    limit: AtLeastOne = Field(100_000, description="pairs per operator, at most, for that measurement")
    images: Photos = None
    title: Annotated[str, matching(r"(?s).*\S.*", "a text that is not blank")] = Field(
        "Negative captions, audited", description="title of the page"
    )


SWAPPED = " | "
ENTRIES = ("numeral", "attribute", "preposition", "verb", "noun")
BINS = 10
EXCHANGES = 100
COLUMNS = (
    *("caption_id", "split", "operator", "family", "caption", "text", "edits"),
    *("replaced", "replacement", "replaced_synset", "replacement_synset"),
)
P_TRUE = "p_true"
Word = tuple[str, str]  # the word and its kind of lexicon entry, "" if unknown


@dataclass
class Made:
    """The counts of one operator in one table, by measure and item; all but `rows` and `p_true` of first draws only.

    Measures: rows, covered (captions with a row), p_true ("sum" and "n" of the estimates), words_caption and
    words_negative (texts by their number of words), characters_added (by how many characters a text has more than its
    caption), edit_position (edits by the tenth of the caption they are in, 0 to 9), taken_out and put_in (by word and
    kind; not of two words that are swapped), exchange (by replaced and replacement, "" for nothing).
    """

    family: str
    counts: dict[str, Counter[Any]] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.counts["rows"][""]

    @property
    def captions(self) -> int:
        """The number of captions with at least one row."""
        return self.counts["covered"][""]

    @property
    def mean_p_true(self) -> float | None:
        """The mean estimated probability that one more caption would make its rows true; None without estimates."""
        total = self.counts[P_TRUE]
        return total["sum"] / total["n"] if total["n"] else None


class Use(NamedTuple):
    """A word, its count in the corpus (None: not in the lexicon), and how often it is taken out and put in."""

    word: str
    corpus: int | None
    out: int
    put: int

    @property
    def lean(self) -> float:
        """put - out, in standard deviations of put + out coin flips."""
        return (self.put - self.out) / max(self.put + self.out, 1) ** 0.5


def _kind(synset: str | None) -> str:
    """The kind of lexicon entry that a synset belongs to, "" if unknown: "noun" for `dog.n.01`."""
    if synset is None:
        return ""
    if synset.startswith("prepositions:"):
        return "preposition"
    return {"n": "noun", "v": "verb"}.get(synset.rpartition(".")[0].rpartition(".")[2], "")


def read_corpus_counts(run: Path) -> dict[Word, int]:
    """The counts of a run's lexicon by (entry, kind), over all contexts; empty if it has no lexicon."""
    import pyarrow.compute as pc

    counts: dict[Word, int] = {}
    if has_table(run, "lexicon"):
        for rows in read_table(run, "lexicon", ["kind", "entry", "place", "count"]):
            plain = rows.filter(pc.equal(rows["place"], "")).to_pydict()
            counts |= zip(zip(plain["entry"], plain["kind"], strict=True), map(round, plain["count"]), strict=True)
    return counts


def uses(made: Made, corpus: Mapping[Word, int]) -> list[Use]:
    """The words of an operator with their corpus counts, the most frequent (taken out or put in) first."""
    by_entry: dict[Word, list[int]] = {}
    for side, measure in enumerate(("taken_out", "put_in")):
        for (word, kind), n in made.counts[measure].items():
            known = kind or next((other for other in ENTRIES if (word, other) in corpus), "")
            by_entry.setdefault((word, known), [0, 0])[side] += n
    found = [Use(word, corpus.get((word, kind)), *counts) for (word, kind), counts in by_entry.items()]
    return sorted(found, key=lambda use: (-use.out - use.put, use.word, use.corpus or 0))


def exchanges(made: Made, top: int) -> list[tuple[str, str, int, int]]:
    """The `top` most frequent exchanges: (replaced, replacement, count, count of the reverse exchange)."""
    counts = made.counts["exchange"]
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(old, new, n, counts[new, old]) for (old, new), n in ordered[:top]]


@dataclass(frozen=True)
class Figures:
    """The counts of a run.

    captions, images: English captions and their images; without: captions without a negative of any operator; made:
    the counts by table (negatives, refined, positives) and operator; refused: number of refused candidates by operator
    and reason.
    """

    captions: int
    images: int
    without: int
    made: Mapping[str, Mapping[str, Made]]
    refused: Mapping[str, Mapping[str, int]]

    @property
    def families(self) -> dict[str, str]:
        """The family of every operator that has rows or refused candidates, in display order: positives last."""
        found = {name: made.family for table in self.made.values() for name, made in table.items()}
        found |= {name: "" for name in self.refused if name not in found}
        return dict(sorted(found.items(), key=lambda item: (item[1] == POSITIVE, _place(item[0]))))

    @property
    def reasons(self) -> list[str]:
        """All reasons of refusals that occur, the most frequent first."""
        counts: Counter[str] = Counter()
        for refused in self.refused.values():
            counts.update(refused)
        return sorted(counts, key=lambda reason: (-counts[reason], reason))


def _place(operator: str) -> tuple[int, str]:
    """A key to sort operators by: in the order of OPERATORS, unknown ones last by name."""
    from ....augment.operators import OPERATORS

    names = list(OPERATORS)
    return (names.index(operator) if operator in names else len(names), operator)


def collect(run: Path, splits: Sequence[str] = ()) -> Figures:
    """Count the tables of a run, shard by shard; splits: only rows of these, all if empty.

    Raises FileNotFoundError if the run lacks captions or negatives, ValueError for a missing column or unknown split,
    DamagedShardError for a shard that is not as recorded.
    """
    import pyarrow.compute as pc

    captions = images = covered = 0  # all captions of an image are in one shard
    seen: set[str] = set()
    for rows in read_table(run, "captions", ["image_id", "split", "language"]):
        seen.update(rows["split"].unique().to_pylist())
        english = of_splits(rows, splits).filter(pc.field("language") == "en")
        captions += english.num_rows
        images += len(english["image_id"].unique())
    check_splits(splits, seen, run)
    if not has_table(run, "negatives"):
        raise no_table(run, "negatives")
    for rows in read_table(run, "negatives", ["caption_id", "split"]):
        covered += len(of_splits(rows, splits)["caption_id"].unique())
    names = [name for name in ("negatives", "refined", "positives") if has_table(run, name)]
    tables = {name: _made(run, name, splits) for name in names}
    return Figures(captions, images, captions - covered, tables, _refused(run, splits))


def of_splits(rows: pa.Table, splits: Sequence[str]) -> pa.Table:
    """The rows of a table whose `split` is one of these; all rows if `splits` is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows["split"], pa.array(stored_splits(splits), pa.string()))) if splits else rows


def _made(run: Path, table: str, splits: Sequence[str]) -> dict[str, Made]:
    import pyarrow.compute as pc

    made: dict[str, Made] = {}
    for rows in read_table(run, table, [*COLUMNS, P_TRUE]):
        missing = [name for name in COLUMNS if name not in rows.column_names]
        if missing:
            raise ValueError(f"{run / table} must have the columns {', '.join(COLUMNS)}, lacks: {', '.join(missing)}")
        rows = of_splits(rows, splits)
        for name in sorted(rows["operator"].unique().to_pylist()):
            mine = rows.filter(pc.field("operator") == name)
            _add(made.setdefault(name, Made(mine["family"][0].as_py())).counts, mine)
    return made


def _add(counts: dict[str, Counter[Any]], rows: pa.Table) -> None:
    import pyarrow.compute as pc

    counts["rows"][""] += rows.num_rows
    if P_TRUE in rows.column_names:
        counts[P_TRUE]["sum"] += pc.sum(rows[P_TRUE]).as_py() or 0.0  # type: ignore[assignment]  # the only sum
        counts[P_TRUE]["n"] += pc.count(rows[P_TRUE]).as_py()
    first = rows.filter(earlier(rows) == 0)
    counts["covered"][""] += first.num_rows
    for measure, column in (("words_caption", "caption"), ("words_negative", "text")):
        words = pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(first[column])))
        counts[measure].update(words.to_pylist())
    long = pc.utf8_length(first["caption"])
    counts["characters_added"].update(pc.subtract(pc.utf8_length(first["text"]), long).to_pylist())
    edits = first["edits"].combine_chunks()
    parents = pc.list_parent_indices(edits).to_numpy()
    start, end = (pc.struct_field(edits.flatten(), name).to_numpy() for name in ("start", "end"))
    share = (start + end) / 2 / np.maximum(long.to_numpy()[parents], 1)
    counts["edit_position"].update(np.minimum((share * BINS).astype(int), BINS - 1).tolist())
    change = ["replaced", "replaced_synset", "replacement", "replacement_synset"]
    groups = first.group_by(change).aggregate([([], "count_all")]).to_pydict()
    for old, old_set, new, new_set, n in zip(*groups.values(), strict=True):
        counts["exchange"][old, new] += n
        if sorted(old.split(SWAPPED)) != sorted(new.split(SWAPPED)):
            for measure, word, synset in (("taken_out", old, old_set), ("put_in", new, new_set)):
                if word:
                    counts[measure][word, _kind(synset)] += n


def _refused(run: Path, splits: Sequence[str]) -> dict[str, dict[str, int]]:
    refused: dict[str, Counter[str]] = {}
    if not has_table(run, "rejections"):
        return {}
    for rows in read_table(run, "rejections", ["operator", "reason", "split"]):
        rows = of_splits(rows, splits)
        counts = rows.group_by(["operator", "reason"]).aggregate([([], "count_all")])
        for operator, reason, n in zip(*counts.to_pydict().values(), strict=True):
            refused.setdefault(operator, Counter())[reason] += n
    return {
        name: dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))) for name, counts in refused.items()
    }


class Entry(NamedTuple):
    """One row of the audit table; see negcap.schemas.negatives for the columns."""

    table: str
    operator: str
    measure: str
    item: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


def to_table(figures: Figures, blindness: Mapping[str, Blindness], corpus: Mapping[Word, int]) -> pa.Table:
    """All numbers of an audit, one per row, in the order of the page.

    blindness: by table; corpus: counts of the lexicon's words.
    """
    import pyarrow as pa

    rows = list(_entries(figures, blindness, corpus))
    columns = list(zip(*rows, strict=True))
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, AUDIT, strict=True)], schema=AUDIT)


def _entries(figures: Figures, blindness: Mapping[str, Blindness], corpus: Mapping[Word, int]) -> Iterator[Entry]:
    yield Entry("captions", "", "captions", "", figures.captions)
    yield Entry("captions", "", "images", "", figures.images)
    yield Entry("negatives", "all", "covered", "", figures.captions - figures.without)
    for table, made in figures.made.items():
        for name in figures.families:
            if name in made:
                yield from _made_of_table(table, name, made[name], corpus)
        if table in blindness:
            for report in blindness[table].reports.values():
                yield from _blind(table, report)
    for name, refused in figures.refused.items():
        yield from (Entry("rejections", name, "refused", reason, n) for reason, n in refused.items())


def _made_of_table(table: str, name: str, made: Made, corpus: Mapping[Word, int]) -> Iterator[Entry]:
    yield Entry(table, name, "covered", "", made.captions)
    yield Entry(table, name, "rows", "", made.rows)
    if made.mean_p_true is not None:
        yield Entry(table, name, P_TRUE, "", made.mean_p_true, n=made.counts[P_TRUE]["n"])
    for measure in ("words_caption", "words_negative", "characters_added"):
        yield from (Entry(table, name, measure, str(item), n) for item, n in sorted(made.counts[measure].items()))
    for item in range(BINS):
        bounds = f"{100 * item // BINS}–{100 * (item + 1) // BINS} %"
        yield Entry(table, name, "edit_position", bounds, made.counts["edit_position"][item])
    for use in uses(made, corpus):
        if use.corpus is not None:
            yield Entry(table, name, "corpus_count", use.word, use.corpus)
        yield Entry(table, name, "taken_out", use.word, use.out)
        yield Entry(table, name, "put_in", use.word, use.put)
    for old, new, n, _ in exchanges(made, EXCHANGES):
        yield Entry(table, name, "exchange", f"{old} → {new}", n)


def _blind(table: str, report: BlindReport) -> Iterator[Entry]:
    for baseline, value in report.baselines.items():
        yield Entry(table, report.name, "blind", baseline, value.percent, value.low, value.high, value.pairs)
    for cue in report.words:
        yield Entry(table, report.name, "word_true", cue.word, cue.true)
        yield Entry(table, report.name, "word_negative", cue.word, cue.negative)
    for gram, weight in (*report.true_cues, *report.false_cues):
        yield Entry(table, report.name, "ngram_weight", gram, weight)


def measure_table(
    run: Path, table: str, config: AuditConfig, progress: Progress, order: Sequence[str] = ()
) -> Blindness:
    """Measure the blind baselines on every operator of a table, then on all together.

    order: operators to begin with; the others follow. Operators with too few images are `unmeasured`; without
    scikit-learn, all are.
    """
    found = read_all(run, table, config.splits, config.seed, limit=config.limit)
    names = [*(n for n in order if n in found), *(n for n in found if n not in order)]
    pairs = with_all({name: found[name] for name in names})
    blind = CachedReports(run, config.seed, read_corpus(run), config.limit)

    def one(name: str, some: Sequence[Pair]) -> BlindReport:
        try:
            return blind(name, some)
        finally:
            progress.advance(0 if name == ALL else len(some))

    with in_progress(progress, f"blind {table}", len(pairs), unit="pairs"):
        try:
            return measure_each(pairs, one)
        except ImportError as error:
            return Blindness({name: Unmeasured(str(error), len(some)) for name, some in pairs.items()})
