"""Find the records in a JSON file that is one object: a list of objects somewhere inside, or values by the names of
images. What stands beside them (`info`, `licenses` …) is passed over. Files may be larger than memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeAlias

import ijson

from . import files
from .cells import text_of
from .record import Cell, is_image_name
from .usual import IMAGE, guess

IsRow: TypeAlias = Callable[[Mapping[str, Cell]], bool]  # whether an object has the columns that are to be read
TEXT = "text"
TEXTS = "list of texts"
OBJECT = "object"
OBJECTS = "list of objects"
OTHER = "value"
DEPTH = 4  # how many objects inside each other are looked into
# An object with more objects inside is not looked into: each of them is a further reading of the file.
MOST_INSIDE = 8
# How many members of an object are compared; the rest is taken to be alike. An object by image may have millions.
LOOKED_AT = 200
_SPLITS = frozenset("train training val valid validation dev test testing restval".split())


class KeyedRecord(NamedTuple):
    """A record in a JSON object, with its key there; "" in a list."""

    key: str
    record: Cell


@dataclass
class JsonMember:
    """What a member of a JSON object looks like.

    Attributes:
        kind: TEXT, TEXTS, OBJECT, OBJECTS or OTHER.
        names: those of the members of the object, or of the first object in the list.
        text: the text, or the first of the list.
    """

    kind: str
    names: list[str] = field(default_factory=list)
    text: str = ""

    def outline(self) -> Cell:
        """A value of the same kind and names, with empty texts: [{"image": "", "caption": ""}] of a list of objects."""
        inside = dict.fromkeys(self.names, "")
        if self.kind == OBJECTS:
            return [inside]
        return inside if self.kind == OBJECT else self.text


def rows_in(url: str, expected: str, is_row: IsRow) -> Iterator[KeyedRecord] | None:
    """The records in a file that is one JSON object, in at most DEPTH objects inside each other; None if it has none.

    Args:
        url: of the file.
        expected: what it should be, for the message about a broken file.
        is_row: whether an object has the columns that are to be read.
    """
    return _JsonObject(url, prefix="", expected=expected, is_row=is_row).rows(depth=DEPTH)


def described(url: str, expected: str) -> str:
    """What is in a file that is one JSON object, for messages: `videos, a list of objects (video_id, url)`."""
    shown = []
    json_object = _JsonObject(url, prefix="", expected=expected, is_row=bool)
    for name, member in islice(json_object.members().items(), 6):
        names = f" ({', '.join(member.names[:8])})" if member.names else ""
        shown.append(f"{name}, {'an' if member.kind == OBJECT else 'a'} {member.kind}{names}")
    return "; ".join(shown) or "nothing"


@dataclass(frozen=True)
class _JsonObject:
    """An object in a JSON file, which is read anew for each question, as it may be larger than memory.

    Attributes:
        url: of the file.
        prefix: where the object is, as ijson writes it: "" is the whole file, `data.images` one inside.
        expected: what the file should be, for messages.
        is_row: whether an object has the columns that are to be read.
    """

    url: str
    prefix: str
    expected: str
    is_row: IsRow

    def rows(self, depth: int) -> Iterator[KeyedRecord] | None:
        """The records in the object, or in the one object inside it that has any; None if none are found."""
        members = self.members()
        rows = self.rows_of_members(members) if members else None
        if rows is not None:
            return rows
        inner_objects = [name for name, member in members.items() if member.kind == OBJECT]
        if depth == 1 or len(inner_objects) > MOST_INSIDE:
            return None
        rows_of_each = [replace(self, prefix=self.path_to(name)).rows(depth - 1) for name in inner_objects]
        with_rows = [rows for rows in rows_of_each if rows is not None]
        if with_rows:
            return with_rows[0] if len(with_rows) == 1 else None  # if there are several, none is known to be meant
        # A flat object of texts and numbers, {"image": …, "caption": …}, is a single record.
        kinds = {member.kind for member in members.values()}
        return self.whole() if not self.prefix and kinds <= {TEXT, OTHER} else None

    def rows_of_members(self, members: Mapping[str, JsonMember]) -> Iterator[KeyedRecord] | None:
        """The records that the members of the object are or hold; None if they are none."""
        # From the most certain form to the least: an object of lists by image would also be one of lists of rows, and
        # almost any object passes for a record if a member of it is called caption.
        names = list(members)
        kinds = {member.kind for member in members.values()}
        lists = [name for name in names if members[name].kind == OBJECTS]
        # Whether the objects in all lists have the same columns, and whether all lists are named as splits are.
        are_alike = len({tuple(sorted(members[name].names)) for name in lists}) == 1
        are_splits = _SPLITS.issuperset(lists)

        if kinds == {OBJECTS} and are_alike and not are_splits:  # {"1.jpg": [{"raw": "A dog."}]}
            inner = members[names[0]].names
            has_caption = guess(IMAGE, inner) is None and text_of(dict.fromkeys(inner, "")) is not None
            if has_caption and self.has_image_keys(names):
                return self.by_image()
        lists_of_rows = [name for name in lists if self.is_row(self.first_item(name))]
        are_all_rows = lists_of_rows == lists and (are_alike or are_splits)
        if len(lists_of_rows) == 1 or (lists_of_rows and are_all_rows):
            return self.listed(lists_of_rows)
        if kinds == {OBJECT}:
            return self.rows_of_objects(names)
        if self.is_row({name: member.outline() for name, member in members.items()}):  # the one record is the object
            return self.whole()
        if kinds in ({TEXTS}, {TEXT}) and self.has_image_keys(names):
            return self.by_image()
        return None

    def rows_of_objects(self, names: Sequence[str]) -> Iterator[KeyedRecord] | None:
        """The records of an object of objects: its members are the columns, or the records; None if neither.

        Columns: {"image": {"0": "1.jpg"}, "caption": {"0": "A dog."}}. Records: {"1.jpg": {"caption": "A dog."}}.
        """
        if self.is_row(dict.fromkeys(names, "")):
            return self.by_column()
        # As the first is, so are the others: reading all of them to decide would take as long as reading the records.
        name, value = next(self.keyed())
        if self.is_row(value):
            return self.keyed()
        if self.is_row({**value, "image": name}):
            return (KeyedRecord(name, {**value, "image": name}) for name, value in self.keyed())
        return None

    def has_image_keys(self, names: Sequence[str]) -> bool:
        """Whether these are names of images, and the caller reads captions of images.

        More than half of the names must have a digit or the suffix of an image. Otherwise a dictionary, of words and
        what they mean, would be taken for images and their captions.
        """
        like_images = sum(is_image_name(name) or re.search(r"\d", name) is not None for name in names)
        # The caller may look for other columns: it is asked whether it would take an object with these two.
        reads_captions = self.is_row({"image": "", "caption": ""})
        return 2 * like_images > len(names) and reads_captions

    def path_to(self, name: str) -> str:
        """Where a member is in the file."""
        return f"{self.prefix}.{name}" if self.prefix else name

    def first_item(self, name: str) -> Mapping[str, Cell]:
        """The first item of a member that is a list of objects."""
        item = next(iter(files.json_items(self.url, f"{self.path_to(name)}.item", self.expected)), None)
        return item if isinstance(item, Mapping) else {}

    def listed(self, names: Sequence[str]) -> Iterator[KeyedRecord]:
        """The items of members that are lists. If a list is named as a split is, its items get that split."""
        for name in names:
            for item in files.json_items(self.url, f"{self.path_to(name)}.item", self.expected):
                is_of_split = name in _SPLITS and isinstance(item, Mapping)
                yield KeyedRecord("", {"split": name, **item} if is_of_split else item)

    def keyed(self) -> Iterator[KeyedRecord]:
        """The members of the object, as records."""
        with files.open_json(self.url, self.expected) as file:
            for key, value in ijson.kvitems(file, self.prefix, use_float=True):
                yield KeyedRecord(key, value)

    def by_image(self) -> Iterator[KeyedRecord]:
        """A row for each member, whose name is that of an image and whose value has its captions."""
        for name, value in self.keyed():
            yield KeyedRecord(name, {"image": name, "caption": value})

    def whole(self) -> Iterator[KeyedRecord]:
        """The object itself as the one record."""
        yield KeyedRecord("", dict(self.keyed()))

    def by_column(self) -> Iterator[KeyedRecord]:
        """The rows of a table that is written by columns, each an object with a value for each row, as pandas does."""
        columns = dict(self.keyed())
        for row in next(iter(columns.values())):
            yield KeyedRecord("", {name: values.get(row) for name, values in columns.items()})

    def members(self) -> dict[str, JsonMember]:
        """The first members of the object, by name.

        ijson reports one event after the other, with where it is: `map_key` is a name in an object; `start_map` and
        `string` begin a value, which is a member (at `path`) or an item of a list (at `path.item`).
        """
        # Read up to the last of these members; what is inside them passes by, event for event, but is not kept.
        members: dict[str, JsonMember] = {}
        path = ""  # of the member that is being read
        in_first_item = True  # only this tells the kind of a list
        with files.open_json(self.url, self.expected) as file:
            for where, event, value in ijson.parse(file, use_float=True):
                if where == self.prefix and event == "map_key":
                    if len(members) == LOOKED_AT:
                        break
                    member = JsonMember(OTHER)
                    members[value] = member
                    path = self.path_to(value)
                    in_first_item = True
                elif not path:
                    continue  # before the object
                elif where == path:
                    if event == "start_map":
                        member.kind = OBJECT
                    elif event == "string":
                        member.kind = TEXT
                        member.text = value
                    elif event == "map_key" and member.kind == OBJECT:
                        member.names.append(value)
                elif where == f"{path}.item" and in_first_item:
                    if event == "map_key":
                        member.names.append(value)
                    elif event == "end_map":
                        in_first_item = False
                    elif event == "start_map" and member.kind == OTHER:
                        member.kind = OBJECTS
                    elif event == "string" and member.kind == OTHER:
                        member.kind = TEXTS
                        member.text = value
                        in_first_item = False
        return members
