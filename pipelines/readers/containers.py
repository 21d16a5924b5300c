"""Find the records in a JSON file that is one object: a list of objects somewhere inside, or values by the names of
images. What stands beside them (`info`, `licenses` …) is passed over. Files may be larger than memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import ijson

from . import files
from .cells import text_of
from .record import is_image_name
from .usual import IMAGE, guess

Row = Mapping[str, Any]
TEXT = "text"
TEXTS = "list of texts"
OBJECT = "object"
OBJECTS = "list of objects"
OTHER = "value"
DEPTH = 4  # how deep records are looked for
MOST_INSIDE = 8  # objects in an object that are looked into, so that no file is read too often
LOOKED_AT = 200  # members of an object whose kinds are compared; the rest is taken to be alike
_SPLITS = frozenset("train training val valid validation dev test testing restval".split())


@dataclass
class Member:
    """A member of an object: what its value is; the names in it, if it is an object, or in the first of its list; its
    first text.
    """

    kind: str
    names: list[str] = field(default_factory=list)
    text: str = ""

    def outline(self) -> Any:
        """A value with the same names inside."""
        inside = dict.fromkeys(self.names, "")
        return [inside] if self.kind == OBJECTS else inside if self.kind == OBJECT else self.text


def rows_in(url: str, expected: str, is_row: Callable[[Row], bool]) -> Iterator[tuple[str, Any]] | None:
    """The records in a file that is one JSON object, each with its key ("" in a list); None if none are found.

    Args:
        url: of the file.
        expected: what it should be, for the message about a broken file.
        is_row: whether an object has the columns that are to be read.
    """
    return _rows_below(url, "", expected, is_row, DEPTH)


def _rows_below(
    url: str, prefix: str, expected: str, is_row: Callable[[Row], bool], depth: int
) -> Iterator[tuple[str, Any]] | None:
    """The records in the object at `prefix`, or in the one object inside it that has any."""
    members = _members(url, prefix, expected)
    if members and (found := _rows_of(url, prefix, members, expected, is_row)):
        return found
    inner = [name for name, member in members.items() if member.kind == OBJECT]
    if depth == 1 or len(inner) > MOST_INSIDE:
        return None
    below = (_rows_below(url, _below(prefix, name), expected, is_row, depth - 1) for name in inner)
    several = list(filter(None, below))
    if several:
        return several[0] if len(several) == 1 else None
    kinds = {member.kind for member in members.values()}
    return _whole(url, prefix, expected) if not prefix and kinds <= {TEXT, OTHER} else None


def described(url: str, expected: str) -> str:
    """What is in a file that is one JSON object, for messages: `videos, a list of objects (video_id, url)`."""
    shown = []
    for name, member in islice(_members(url, "", expected).items(), 6):
        names = f" ({', '.join(member.names[:8])})" if member.names else ""
        shown.append(f"{name}, {'an' if member.kind == OBJECT else 'a'} {member.kind}{names}")
    return "; ".join(shown) or "nothing"


def _rows_of(
    url: str, prefix: str, members: Mapping[str, Member], expected: str, is_row: Callable[[Row], bool]
) -> Iterator[tuple[str, Any]] | None:
    """The records in the object at `prefix`, or None if its members are none."""
    names = list(members)
    kinds = {member.kind for member in members.values()}
    lists = [name for name in names if members[name].kind == OBJECTS]
    alike = len({tuple(sorted(members[name].names)) for name in lists}) == 1
    are_splits = _SPLITS.issuperset(lists)
    if kinds == {OBJECTS} and alike and not are_splits:  # {"1.jpg": [{"raw": "A dog."}]}
        inner = members[names[0]].names
        has_caption = guess(IMAGE, inner) is None and text_of(dict.fromkeys(inner, "")) is not None
        if _are_images(names) and has_caption and is_row({"image": "", "caption": ""}):
            return _by_image(url, prefix, expected)
    good = [name for name in lists if is_row(_first(url, f"{_below(prefix, name)}.item", expected))]
    if len(good) == 1 or (good and good == lists and (alike or are_splits)):
        return _listed(url, prefix, good, expected)
    if kinds == {OBJECT} and is_row(dict.fromkeys(names, "")):
        return _by_column(url, prefix, expected)
    if kinds == {OBJECT}:
        name, value = next(_keyed(url, prefix, expected))
        if is_row(value):
            return _keyed(url, prefix, expected)
        if is_row({**value, "image": name}):
            return ((name, {**value, "image": name}) for name, value in _keyed(url, prefix, expected))
        return None
    if is_row({name: member.outline() for name, member in members.items()}):  # the object itself is the one record
        return _whole(url, prefix, expected)
    if kinds in ({TEXTS}, {TEXT}) and _are_images(names) and is_row({"image": "", "caption": ""}):
        return _by_image(url, prefix, expected)
    return None


def _are_images(names: list[str]) -> bool:
    """Whether most names are such as images have, with a digit or the suffix of an image."""
    return 2 * sum(is_image_name(name) or re.search(r"\d", name) is not None for name in names) > len(names)


def _listed(url: str, prefix: str, names: list[str], expected: str) -> Iterator[tuple[str, Any]]:
    """The items of lists in the object at `prefix`; of several, the names are splits, unless an item has one."""
    for name in names:
        for item in files.json_items(url, f"{_below(prefix, name)}.item", expected):
            is_split = name in _SPLITS and isinstance(item, Mapping)
            yield "", {"split": name, **item} if is_split else item


def _keyed(url: str, prefix: str, expected: str) -> Iterator[tuple[str, Any]]:
    with files.open_json(url, expected) as file:
        yield from ijson.kvitems(file, prefix, use_float=True)


def _by_image(url: str, prefix: str, expected: str) -> Iterator[tuple[str, Any]]:
    """A row for each member, whose name is that of an image and whose value has its captions."""
    for name, value in _keyed(url, prefix, expected):
        yield name, {"image": name, "caption": value}


def _whole(url: str, prefix: str, expected: str) -> Iterator[tuple[str, Any]]:
    yield "", dict(_keyed(url, prefix, expected))


def _by_column(url: str, prefix: str, expected: str) -> Iterator[tuple[str, Any]]:
    """The rows of a table that is written by columns, each an object with a value for each row, as pandas does it."""
    columns = dict(_keyed(url, prefix, expected))
    for key in next(iter(columns.values())):
        yield "", {name: values.get(key) for name, values in columns.items()}


def _first(url: str, prefix: str, expected: str) -> Row:
    found: Any = next(iter(files.json_items(url, prefix, expected)), None)
    return found if isinstance(found, Mapping) else {}


def _below(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _members(url: str, prefix: str, expected: str) -> dict[str, Member]:
    """The first members of the object at `prefix`, by name."""
    members: dict[str, Member] = {}
    at = ""  # the prefix of the member that is being read
    with files.open_json(url, expected) as file:
        for where, event, value in ijson.parse(file, use_float=True):
            if where == prefix and event == "map_key":
                if len(members) == LOOKED_AT:
                    break
                members[value] = member = Member(OTHER)
                at = _below(prefix, value)
                is_first = True
            elif not at:
                continue
            elif where == at and event in ("start_map", "string"):
                member.kind, member.text = (OBJECT, "") if event == "start_map" else (TEXT, value)
            elif where == at and event == "map_key" and member.kind == OBJECT:
                member.names.append(value)
            elif is_first and where == f"{at}.item" and member.kind == OTHER and event in ("start_map", "string"):
                member.kind, member.text = (OBJECTS, "") if event == "start_map" else (TEXTS, value)
            elif is_first and where == f"{at}.item" and event == "map_key":
                member.names.append(value)
            elif where == f"{at}.item" and event == "end_map":
                is_first = False
    return members
