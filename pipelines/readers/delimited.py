"""Cut CSV and TSV files into rows, as people write them: with quotes that nobody closes, inch marks, and commas in
sentences without quotes. What can be read in one way only is read; other rows are given with what is wrong.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

DELIMITERS = "\t,;|"
# Characters of a record of several lines: how far the end of a quote is looked for.
MAX_QUOTED = 131_072
# Characters of a field with stray quotes, or a long line would be searched anew for each field.
MAX_STRAY = 2_500
# What an empty record may consist of.
BLANK = " " + DELIMITERS
OPEN = "a quote is never closed"
STRAY = "a quote stands inside a quoted field"
# In all patterns (?>…) keeps what it has matched: without it, a long line of quotes would be tried in every way.
_OPEN = re.compile(r'[ ]*"(?>(?:[^"]|"")*)\Z')
_IDENTIFIER = re.compile(r"\S*[\d._/]\S*")  # a file name or an id, which no line of a sentence consists of


class Fields(NamedTuple):
    """The fields of a record; whether each was written without quotes; OPEN or STRAY if it cannot be cut, else ""."""

    values: list[str]
    bare: list[bool]
    problem: str = ""


class CutField(NamedTuple):
    """One field that was cut off a record: its value, whether it was written without quotes, where it ends, and OPEN or
    STRAY if its quotes cannot be read.
    """

    value: str
    bare: bool
    end: int
    problem: str = ""


class DelimitedRecord(NamedTuple):
    """A record: the number of its first line, its fields or what is wrong, and its text."""

    line: int
    fields: list[str]
    problem: str
    text: str


@lru_cache(maxsize=8)
def _field_pattern(delimiter: str) -> re.Pattern[str]:
    """The pattern of one field, which may be written in three ways; each has a group of that name.

    quoted: in quotes, with doubled quotes inside; escaped: in quotes, with backslashes before those inside; bare:
    without quotes around it.
    """
    ends = rf"[ ]*(?={re.escape(delimiter)}|\Z)"
    # A field that begins with a quote is never bare: if its quotes are not as CSV has them, the pattern does not match.
    return re.compile(
        rf"""[ ]*"(?P<quoted>(?>(?:[^"]|"")*))"{ends}|[ ]*"(?P<escaped>(?>(?:[^"\\]|\\.)*))"{ends}|"""
        rf"""(?P<bare>(?![ ]*")[^{re.escape(delimiter)}]*)""",
        re.DOTALL,
    )


@lru_cache(maxsize=8)
def _stray_quotes_pattern(delimiter: str) -> re.Pattern[str]:
    """The pattern of a field of one line that begins with a quote and has others inside, which nobody has doubled.

    Groups, for `"a sign, "stop", here",1.jpg`: `inner` stands between the first quote and the next one before a
    delimiter (`a sign, "stop`), which is at `end`; `all` stands before the next delimiter, as if there were no quotes
    (`"a sign`).
    """
    mark = re.escape(delimiter)
    return re.compile(rf"""(?=[ ]*"(?P<inner>[^\n]{{0,{MAX_STRAY}}}?)"[ ]*(?P<end>{mark}|\Z))?(?P<all>[^{mark}]*)""")


def cut(record: str, delimiter: str) -> Fields:
    """Cut one record into its fields.

    In TSV, quotes belong to a field unless they are around the whole of it, since most published caption files have
    stray ones.
    """
    if '"' not in record:
        values = record.split(delimiter)
        return Fields(values, [True] * len(values))
    values = []
    bare: list[bool] = []  # whether each field is written without quotes
    problem = ""
    start = 0
    while True:
        match = _field_pattern(delimiter).match(record, start)
        field = _read_well_written(match) if match is not None else _read_with_stray_quotes(record, start, delimiter)
        problem = field.problem or problem
        if field.problem and delimiter != "\t":  # in TSV the rest can be cut all the same: captions have no tabs
            return Fields(values, bare, problem)
        values.append(field.value)
        bare.append(field.bare)
        if field.end == len(record):
            return Fields(values, bare, problem)
        start = field.end + 1


def _read_well_written(match: re.Match[str]) -> CutField:
    """The field that `_field_pattern` has found, without its quotes and with those inside it as they are meant."""
    if match["bare"] is not None:
        return CutField(match["bare"], bare=True, end=match.end())
    if match["quoted"] is not None:
        return CutField(match["quoted"].replace('""', '"'), bare=False, end=match.end())
    return CutField(match["escaped"].replace('\\"', '"'), bare=False, end=match.end())


def _read_with_stray_quotes(record: str, start: int, delimiter: str) -> CutField:
    """A field that begins with a quote and has others where CSV allows none: `"a sign that says "stop" to cars",1.jpg`.

    Its outer quotes are taken off if those inside pair up; else the field has a `problem`, or is read as it stands.
    """
    stray = _stray_quotes_pattern(delimiter).match(record, start)
    assert stray is not None  # the pattern also matches nothing
    whole = CutField(stray["all"], bare=True, end=stray.end())
    is_open = _OPEN.match(record, start) is not None
    if delimiter == "\t":  # no caption has a tab, so the field ends there whatever its quotes are
        return whole._replace(problem=OPEN if is_open else "")
    if stray["inner"] is not None and _pairs_up(stray["inner"]):
        return CutField(stray["inner"].replace('""', '"'), bare=False, end=stray.start("end"))
    if is_open:
        return whole._replace(problem=OPEN)
    return whole if _pairs_up(stray["all"]) else whole._replace(problem=STRAY)


def _pairs_up(text: str) -> bool:
    """Whether the quotes of a text are pairs around words, or inch marks: `a 12" sign that says "stop"`."""
    is_open = False
    # A quote opens where a word may begin (after nothing, a space, a bracket …) and closes after a word. Any other one
    # must be an inch mark behind a number, or the text cannot be read in one way only.
    for quote in re.finditer('"', text):
        before = text[max(quote.start() - 1, 0) : quote.start()]
        after = text[quote.end() : quote.end() + 1]
        if not is_open and (not before or before in " ([-/") and after.strip():
            is_open = True
        elif is_open and before.strip():
            is_open = False
        elif not before.isdigit():
            return False
    return not is_open


class _Lines:
    """The lines of a file, of which some can be looked at before they are taken."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._source = iter(lines)
        self._ahead: deque[str] = deque()  # lines that were looked at

    def take(self) -> str | None:
        """The next line; None at the end."""
        return self._ahead.popleft() if self._ahead else next(self._source, None)

    def following(self) -> Iterator[str]:
        """The next lines, which are not taken."""
        yield from self._ahead.copy()
        for line in self._source:
            self._ahead.append(line)
            yield line


def rows(lines: Iterable[str], delimiter: str, width: int) -> Iterator[DelimitedRecord]:
    """Join and cut lines into records.

    A field that is quoted may have several lines; where its quote is never closed, the first line alone is a bad
    record, and the next ones are read.

    Args:
        lines: all lines of the file.
        delimiter: one of DELIMITERS.
        width: how many fields a record has.
    """
    source = _Lines(lines)
    number = 1  # of the line that the next record begins with
    example: Sequence[str] = ()  # the fields of the last good record
    while (record := source.take()) is not None:
        values = [] if '"' in record else record.split(delimiter)
        if len(values) == width:  # as nearly every record
            if record.strip(BLANK):
                example = values
                yield DelimitedRecord(number, values, "", record)
            number += 1
            continue
        # From here on a record with quotes, or with another number of fields than the header.
        fields = cut(record, delimiter)
        further_lines = 0
        if fields.problem == OPEN:
            further = _lines_until_closed(record, source.following(), delimiter, width, example)
            further_lines = len(further)
            for _ in further:
                source.take()
            if further:
                record = "\n".join([record, *further])
                fields = cut(record, delimiter)
            elif delimiter == "\t":  # the quote is the first character of a text
                fields = fields._replace(problem="")
        if fields.problem:
            yield DelimitedRecord(number, [], f"a record must be CSV: {fields.problem}", record)
        elif any(value.strip() for value in fields.values):
            values = _fit_to_width(fields, delimiter, width)
            wrong = "" if len(values) == width else f"a record must have {width} fields, has {len(values)}"
            example = example if wrong else values
            yield DelimitedRecord(number, values, wrong, record)
        number += 1 + further_lines


def _lines_until_closed(
    record: str, following: Iterator[str], delimiter: str, width: int, example: Sequence[str]
) -> list[str]:
    """The further lines of a record whose first line ends inside a quoted field.

    None if its quote is not closed before a line that is a record of its own, or within MAX_QUOTED characters, or if
    what it closes is no good record.

    Args:
        record: its first line.
        following: the lines after that, read as far as needed.
        delimiter: of the file.
        width: how many fields a record has.
        example: the fields of a record that is good.
    """
    further: list[str] = []
    for line in following:
        if len(record) + len(line) > MAX_QUOTED or _is_record(line, delimiter, width, example):
            break
        further.append(line)
        record = f"{record}\n{line}"
        fields = cut(record, delimiter) if '"' in line else None
        if fields is not None and fields.problem != OPEN:
            is_one_record = not fields.problem and len(fields.values) <= width  # the last fields may be left out
            return further if is_one_record else []
    return []


def _is_record(line: str, delimiter: str, width: int, example: Sequence[str]) -> bool:
    """Whether a line is a record of its own, and not the second line of a broken sentence.

    Args:
        line: to look at.
        delimiter: between fields.
        width: how many fields a record has.
        example: the fields of the last record; a record has an id or a file name where this one has.
    """
    fields = cut(line, delimiter)
    least = width - 1 if fields.problem == OPEN else width  # `cut` stops before an open one
    if fields.problem == STRAY or width < 2 or len(fields.values) < least:
        return False
    if delimiter == "\t":  # no sentence has tabs
        return True
    if not any(map(_IDENTIFIER.fullmatch, example)):  # the last record is the header
        example = fields.values
    # A sentence that was broken into lines may have as many commas, but has no id where records have one.
    for value, value_before in zip(fields.values, example, strict=False):
        if _IDENTIFIER.fullmatch(value.strip()) and _IDENTIFIER.fullmatch(value_before.strip()):
            return True
    return False


def _fit_to_width(fields: Fields, delimiter: str, width: int) -> list[str]:
    """Repair the fields of a record that has more than `width` of them, as far as that can be done in one way only.

    Empty ones at the end are left out. Where a sentence without quotes was cut at its commas (`A dog, running`), which
    the space behind shows, its parts are joined again. Returns the fields as they are if neither gives `width` fields.
    """
    values = fields.values
    if len(values) <= width:
        return values
    if not any(value.strip() for value in values[width:]):
        return values[:width]
    if delimiter not in ",;":
        return values
    joined: list[str] = []
    was_bare = False
    for value, bare in zip(values, fields.bare, strict=True):
        if was_bare and bare and value.startswith(" "):  # programs write no space there
            joined[-1] += delimiter + value
        else:
            joined.append(value)
        was_bare = bare
    return joined if len(joined) == width else values


def names_in(header: str, delimiter: str) -> list[str]:
    """The names of columns in the first line of a file."""
    fields = cut(header, delimiter)
    names = header.split(delimiter) if fields.problem else fields.values
    return [name.strip() for name in names]


def delimiter_of(header: str, is_header: Callable[[Sequence[str]], bool]) -> str:
    """The delimiter of a header line: the first of DELIMITERS that gives the columns, or else the most frequent one."""
    # By the names that it gives, not by how often it stands there: a name may have another delimiter in it.
    for delimiter in DELIMITERS:
        if delimiter in header and is_header(names_in(header, delimiter)):
            return delimiter
    return max(DELIMITERS, key=header.count)


def numbered_columns(given: Sequence[str], names: Sequence[str]) -> list[int]:
    """The numbers of columns that a user gives for a table without a header; [] if `given` are names."""
    are_numbers = all(re.fullmatch(r"[1-9][0-9]*", name) for name in given)
    are_names = set(given) <= set(names)  # a header may have numbers as names
    return [int(name) for name in given] if given and are_numbers and not are_names else []
