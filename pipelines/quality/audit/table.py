"""The numbers of an audit as an Arrow table (see negcap.schemas.audit)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....schemas.audit import AUDIT
from ..bias import Blindness, BlindReport
from .figures import BINS, Figures, Made
from .words import Word, exchanges, uses

if TYPE_CHECKING:
    import pyarrow as pa

EXCHANGES = 100


class Entry(NamedTuple):
    """One row of the audit table; see negcap.schemas.audit for the columns."""

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
                yield from _made(table, name, made[name], corpus)
        if table in blindness:
            for report in blindness[table].reports.values():
                yield from _blind(table, report)
    for name, refused in figures.refused.items():
        yield from (Entry("rejections", name, "refused", reason, n) for reason, n in refused.items())


def _made(table: str, name: str, made: Made, corpus: Mapping[Word, int]) -> Iterator[Entry]:
    yield Entry(table, name, "covered", "", made.captions)
    yield Entry(table, name, "rows", "", made.rows)
    total, number = made.p_true
    if number:
        yield Entry(table, name, "p_true", "", total / number, n=number)
    counters: dict[str, Counter[int]] = {
        "words_caption": made.words_caption,
        "words_negative": made.words_negative,
        "characters_added": made.added,
    }
    for measure, counter in counters.items():
        yield from (Entry(table, name, measure, str(item), n) for item, n in sorted(counter.items()))
    for item in range(BINS):
        bounds = f"{100 * item // BINS}–{100 * (item + 1) // BINS} %"
        yield Entry(table, name, "edit_position", bounds, made.positions[item])
    for use in uses(made.words, corpus):
        if use.corpus is not None:
            yield Entry(table, name, "corpus_count", use.word, use.corpus)
        yield Entry(table, name, "taken_out", use.word, use.out)
        yield Entry(table, name, "put_in", use.word, use.put)
    for old, new, n, _ in exchanges(made.words, EXCHANGES):
        yield Entry(table, name, "exchange", f"{old} → {new}", n)


def _blind(table: str, report: BlindReport) -> Iterator[Entry]:
    for baseline, value in report.baselines.items():
        yield Entry(table, report.name, "blind", baseline, value.percent, value.low, value.high, value.pairs)
    for cue in report.words:
        yield Entry(table, report.name, "word_true", cue.word, cue.true)
        yield Entry(table, report.name, "word_negative", cue.word, cue.negative)
    for gram, weight in (*report.true_cues, *report.false_cues):
        yield Entry(table, report.name, "ngram_weight", gram, weight)
