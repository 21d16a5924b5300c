"""CSV and TSV as people write them: every record is read in full, or rejected; none disappears into another."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.pipelines.readers.delimited import MAX_QUOTED, OPEN, STRAY, rows
from tests.pipelines.readers.sources import CASES

UNCLOSED, INSIDE = f"a record must be CSV: {OPEN}", f"a record must be CSV: {STRAY}"
WRONG = {UNCLOSED: "OPEN", INSIDE: "STRAY"}  # as cases.toml says it
RECORDS = [(kind, name) for kind, cases in CASES["delimited"].items() for name in cases]


@pytest.mark.parametrize(("kind", "name"), RECORDS)
def test_every_record_is_read_in_full_or_rejected(kind: str, name: str) -> None:
    text, *expected = CASES["delimited"][kind][name]
    records = rows(text.split("\n"), "," if kind == "csv" else "\t", 2)
    shown = []
    for row in records:
        said = [WRONG.get(row.problem, row.problem)] if row.problem else row.fields
        shown.append([row.line, *said])
    assert shown == expected


LINES = ["1.jpg,A dog.", '2.jpg,"A dog, wet."', '3.jpg,"A dog', '4.jpg,A 12" dog', '"y', 'z"', "x"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES)))
def test_no_line_is_lost(lines: list[str]) -> None:
    assert [line for row in rows(lines, ",", 2) for line in row.text.split("\n")] == lines


def test_a_quote_is_looked_for_only_so_far() -> None:
    lines = ['1.jpg,"A dog', *["word " * 20] * (MAX_QUOTED // 50), 'end"', "2.jpg,B"]
    records = list(rows(lines, ",", 2))
    assert records[0].problem == UNCLOSED and records[-1].fields == ["2.jpg", "B"] and len(records) == len(lines)


@pytest.mark.parametrize("part", ['"a" b,', '"a,', '"a" ', '12" ', '"a"b'])
def test_a_long_line_of_quotes_costs_no_time(part: str) -> None:
    started = time.process_time()
    assert sum(row.text.count("\n") + 1 for row in rows(["x", part * 5_000, "y", "z"], ",", 2)) == 4
    assert time.process_time() - started < 10
