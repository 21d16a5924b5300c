"""The parts of a scene graph. All positions are token indices of the caption."""

from __future__ import annotations

from typing import NamedTuple


class Object(NamedTuple):
    """An object: `token` is its head noun, `start` the first token of its name, `name` e.g. "tennis racket"."""

    token: int
    start: int
    name: str


class Attribute(NamedTuple):
    """An attribute of the object with head token `object`: tokens `start` to `end` (exclusive), with head word `token`.

    value: the text in lower case, a few words normalised ("wood" -> "wooden").
    """

    object: int
    token: int
    start: int
    end: int
    value: str


class Relation(NamedTuple):
    """A relation between two objects, given by head tokens; `name` is e.g. "wear", "in front of", "sit on", "have".

    tokens: the words of the relation; empty if there are none ("the man's hat").
    """

    subject: int
    object: int
    tokens: tuple[int, ...]
    name: str


class SceneGraph(NamedTuple):
    """Objects in text order; attributes by object, in text order; relations in text order of their words."""

    objects: tuple[Object, ...]
    attributes: tuple[Attribute, ...]
    relations: tuple[Relation, ...]
