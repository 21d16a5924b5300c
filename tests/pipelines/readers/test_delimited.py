"""CSV and TSV as people write them: every record is read in full, or rejected; none disappears into another."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.pipelines.readers.delimited import MAX_QUOTED, OPEN, STRAY, rows

UNCLOSED = f"a record must be CSV: {OPEN}"
INSIDE = f"a record must be CSV: {STRAY}"
CASES = {  # a CSV of two columns: by line the fields of each record, or what is wrong
    "quoted": ('1.jpg,"A dog, running"', {1: ["1.jpg", "A dog, running"]}),
    "doubled quotes": ('1.jpg,"A sign says ""stop"", twice"', {1: ["1.jpg", 'A sign says "stop", twice']}),
    "backslashes": (r'1.jpg,"A sign says \"stop\", twice"', {1: ["1.jpg", 'A sign says "stop", twice']}),
    "a space before the quote": ('1.jpg, "A dog, running"', {1: ["1.jpg", "A dog, running"]}),
    "several lines": (
        '1.jpg,"A dog\n\nsleeps, and a cat"\n2.jpg,B',
        {1: ["1.jpg", "A dog\n\nsleeps, and a cat"], 4: ["2.jpg", "B"]}),
    "several lines with as many commas as records have": (
        '1.jpg,"A dog\nruns, jumps\nand sleeps."', {1: ["1.jpg", "A dog\nruns, jumps\nand sleeps."]}),
    "never closed": (
        '1.jpg,A\n2.jpg,"Two boys.\n3.jpg,A woman.',
        {1: ["1.jpg", "A"], 2: UNCLOSED, 3: ["3.jpg", "A woman."]}),
    "never closed, last": ('1.jpg,A\n2.jpg,"Two boys.', {1: ["1.jpg", "A"], 2: UNCLOSED}),
    "never closed, before a quoted one": (
        '1.jpg,"Two boys.\n2.jpg,"A woman, a dog."\n3.jpg,C',
        {1: UNCLOSED, 2: ["2.jpg", "A woman, a dog."], 3: ["3.jpg", "C"]}),
    "never closed, before an inch mark, ids without a suffix": (
        'x_1,"Two boys.\nx_2,A pizza of 12"\nx_3,C', {1: UNCLOSED, 2: ["x_2", 'A pizza of 12"'], 3: ["x_3", "C"]}),
    "stray pair": ('1.jpg,"A sign says "stop" in a street."', {1: ["1.jpg", 'A sign says "stop" in a street.']}),
    "stray pair and a comma": ('1.jpg,"A sign says "stop", twice"', {1: INSIDE}),
    "stray single": ('1.jpg,"A sign says "stop here."\n2.jpg,B', {1: INSIDE, 2: ["2.jpg", "B"]}),
    "inch mark": ('1.jpg,A 12" pizza', {1: ["1.jpg", 'A 12" pizza']}),
    "quoted inch mark": ('1.jpg,"A 12" pizza"', {1: ["1.jpg", 'A 12" pizza']}),
    "begins and ends with a quote": ('1.jpg,"Stop" and "go"', {1: ["1.jpg", '"Stop" and "go"']}),
    "comma without quotes": ("1.jpg,A dog, running, wet", {1: ["1.jpg", "A dog, running, wet"]}),
    "comma without quotes in the first column": ("A dog, running,1.jpg", {1: ["A dog, running", "1.jpg"]}),
    "comma and quotes inside": ('1.jpg,A sign says "stop", twice', {1: ["1.jpg", 'A sign says "stop", twice']}),
    "comma without a space": ("1.jpg,A dog,running", {1: "a record must have 2 fields, has 3"}),
    "spaces after all commas": ("1.jpg, A dog, running", {1: "a record must have 2 fields, has 3"}),
    "empty columns at the end": ("1.jpg,A dog,,", {1: ["1.jpg", "A dog"]}),
    "empty lines, and too few": (
        "\n1.jpg,A\n\n , \n2.jpg", {2: ["1.jpg", "A"], 5: "a record must have 2 fields, has 1"}),
}  # fmt: skip
TSV = {
    "quoted": ('1.jpg\t"A sign ""stop"""', {1: ["1.jpg", 'A sign "stop"']}),
    "several lines": ('1.jpg\t"A dog\nsleeps."\n2.jpg\tB', {1: ["1.jpg", "A dog\nsleeps."], 3: ["2.jpg", "B"]}),
    "stray at the start": ('1.jpg\t"Stop sign\n2.jpg\tA "go"', {1: ["1.jpg", '"Stop sign'], 2: ["2.jpg", 'A "go"']}),
}


@pytest.mark.parametrize(
    ("text", "expected", "delimiter"),
    [*((*case, ",") for case in CASES.values()), *((*case, "\t") for case in TSV.values())],
    ids=[*CASES, *(f"TSV: {name}" for name in TSV)],
)
def test_every_record_is_read_in_full_or_rejected(text: str, expected: dict, delimiter: str) -> None:
    assert {row.line: row.problem or row.fields for row in rows(text.split("\n"), delimiter, 2)} == expected


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
