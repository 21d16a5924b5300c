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
MAX_QUOTED = 131_072  # characters of a record of several lines: how far the end of a quote is looked for
MAX_STRAY = 2_500  # characters of a field with stray quotes, or a long line would be searched anew for each field
BLANK = " " + DELIMITERS  # what an empty record may consist of
OPEN = "a quote is never closed"
STRAY = "a quote stands inside a quoted field"
_OPEN = re.compile(r'[ ]*"(?>(?:[^"]|"")*)\Z')
_IDENTIFIER = re.compile(r"\S*[\d._/]\S*")  # a file name or an id, which no line of a sentence consists of


class Fields(NamedTuple):
    """The fields of a record; whether each was written without quotes; OPEN or STRAY if it cannot be cut, else ""."""

    values: list[str]
    bare: list[bool]
    problem: str = ""


class Row(NamedTuple):
    """A record: the number of its first line, its fields or what is wrong, and its text."""

    line: int
    fields: list[str]
    problem: str
    text: str


@lru_cache(maxsize=8)
def _field(delimiter: str) -> re.Pattern[str]:
    """One field: quoted with doubled quotes inside, or with backslashes before them, or without quotes around it."""
    ends = rf"[ ]*(?={re.escape(delimiter)}|\Z)"
    return re.compile(
        rf"""[ ]*"(?P<quoted>(?>(?:[^"]|"")*))"{ends}|[ ]*"(?P<escaped>(?>(?:[^"\\]|\\.)*))"{ends}|"""
        rf"""(?P<bare>(?![ ]*")[^{re.escape(delimiter)}]*)""",
        re.DOTALL,
    )


@lru_cache(maxsize=8)
def _with_strays(delimiter: str) -> re.Pattern[str]:
    """A field of one line that begins with a quote, up to the first quote that ends it, and up to the delimiter."""
    mark = re.escape(delimiter)
    return re.compile(rf"""(?=[ ]*"(?P<inner>[^\n]{{0,{MAX_STRAY}}}?)"[ ]*(?P<end>{mark}|\Z))?(?P<all>[^{mark}]*)""")


def cut(record: str, delimiter: str) -> Fields:
    """The fields of one record. In TSV, quotes belong to a field unless they are around the whole of it, since most
    published caption files have stray ones.
    """
    if '"' not in record:
        values = record.split(delimiter)
        return Fields(values, [True] * len(values))
    fields = Fields([], [])
    at = 0
    while True:
        match = _field(delimiter).match(record, at)
        if match is not None:
            bare = match["bare"] is not None
            end = match.end()
            if bare:
                value = match["bare"]
            elif match["quoted"] is not None:
                value = match["quoted"].replace('""', '"')
            else:
                value = match["escaped"].replace('\\"', '"')
        else:
            stray = _with_strays(delimiter).match(record, at)
            assert stray is not None
            bare = True
            end = stray.end()
            value = stray["all"]
            is_open = _OPEN.match(record, at) is not None
            if delimiter == "\t":
                if is_open:
                    fields = fields._replace(problem=OPEN)
            elif stray["inner"] is not None and _pairs_up(stray["inner"]):
                bare = False
                end = stray.start("end")
                value = stray["inner"].replace('""', '"')
            elif is_open or not _pairs_up(value):
                return fields._replace(problem=OPEN if is_open else STRAY)
        fields.values.append(value)
        fields.bare.append(bare)
        if end == len(record):
            return fields
        at = end + 1


def _pairs_up(text: str) -> bool:
    """Whether the quotes of a text are pairs around words, or inch marks: `a 12" sign that says "stop"`."""
    is_open = False
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


def rows(lines: Iterable[str], delimiter: str, width: int) -> Iterator[Row]:
    """The records in lines without line ends. A field that is quoted may have several lines; where its quote is never
    closed, the first line alone is a bad record, and the next ones are read.

    Args:
        lines: all lines of the file.
        delimiter: one of DELIMITERS.
        width: how many fields a record has.
    """
    ahead: deque[str] = deque()  # lines that were read to look for a quote
    source = iter(lines)
    number = 1
    example: Sequence[str] = ()  # the fields of the last good record

    def following() -> Iterator[str]:
        yield from ahead.copy()
        for line in source:
            ahead.append(line)
            yield line

    while (record := ahead.popleft() if ahead else next(source, None)) is not None:
        if '"' not in record and len(values := record.split(delimiter)) == width:  # as nearly every record
            if record.strip(BLANK):
                example = values
                yield Row(number, values, "", record)
            number += 1
            continue
        fields = cut(record, delimiter)
        taken = 0
        if fields.problem == OPEN:
            longer, taken = _until_closed(record, following(), delimiter, width, example)
            if taken:
                record = longer
                fields = cut(longer, delimiter)
                for _ in range(taken):
                    ahead.popleft()
            elif delimiter == "\t":  # the quote is the first character of a text
                fields = fields._replace(problem="")
        if fields.problem:
            yield Row(number, [], f"a record must be CSV: {fields.problem}", record)
        elif any(value.strip() for value in fields.values):
            values = _fitted(fields, delimiter, width)
            wrong = "" if len(values) == width else f"a record must have {width} fields, has {len(values)}"
            example = example if wrong else values
            yield Row(number, values, wrong, record)
        number += taken + 1


def _until_closed(
    record: str, following: Iterator[str], delimiter: str, width: int, example: Sequence[str]
) -> tuple[str, int]:
    """A record whose last field goes on in the following lines, and how many of them it takes; 0: it never ends."""
    for taken, line in enumerate(following, 1):
        if len(record) + len(line) > MAX_QUOTED or _is_record(line, delimiter, width, example):
            break
        record = f"{record}\n{line}"
        if '"' in line and (problem := cut(record, delimiter).problem) != OPEN:
            return ("", 0) if problem or len(cut(record, delimiter).values) > width else (record, taken)
    return "", 0


def _is_record(line: str, delimiter: str, width: int, example: Sequence[str]) -> bool:
    """Whether a line is a record of its own: as many fields, with an id or file name where the last record has one."""
    fields = cut(line, delimiter)
    if fields.problem == STRAY or width < 2 or len(fields.values) < width - (fields.problem == OPEN):
        return False
    if delimiter == "\t":
        return True
    if not any(map(_IDENTIFIER.fullmatch, example)):  # the last record is the header
        example = fields.values
    compared = zip(fields.values, example, strict=False)
    return any(_IDENTIFIER.fullmatch(value.strip()) and _IDENTIFIER.fullmatch(same.strip()) for value, same in compared)


def _fitted(fields: Fields, delimiter: str, width: int) -> list[str]:
    """The fields, without empty ones at the end, or joined again where a sentence was cut (`A dog, running`): a field
    after a comma and a space. As they are if that does not give `width` fields.
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
        if was_bare and bare and value.startswith(" "):
            joined[-1] += delimiter + value
        else:
            joined.append(value)
        was_bare = bare
    return joined if len(joined) == width else values


def names_in(header: str, delimiter: str) -> list[str]:
    """The names of columns in the first line of a file."""
    fields = cut(header, delimiter)
    return [name.strip() for name in (header.split(delimiter) if fields.problem else fields.values)]


def delimiter_of(header: str, is_header: Callable[[Sequence[str]], bool]) -> str:
    """The delimiter of a header line: the first of DELIMITERS that gives the columns, or else the most frequent one."""
    for delimiter in DELIMITERS:
        if delimiter in header and is_header(names_in(header, delimiter)):
            return delimiter
    return max(DELIMITERS, key=header.count)


def numbered_columns(given: Sequence[str], names: Sequence[str]) -> list[int]:
    """The numbers of columns that a user gives for a table without a header; [] if `given` are names."""
    are_numbers = all(re.fullmatch(r"[1-9][0-9]*", name) for name in given)
    return [*map(int, given)] if given and are_numbers and not set(given) <= set(names) else []
