"""The parts of a scene graph. All positions are token indices of the caption."""

from __future__ import annotations

from typing import NamedTuple


class Object(NamedTuple):
    """A thing: `token` is its head noun, `start` the first token of its name, e.g. "tennis racket"."""

    token: int
    start: int
    name: str


class Attribute(NamedTuple):
    """An attribute of the object with head `object`: tokens `start` to `end` (exclusive) around `token`."""

    object: int
    token: int
    start: int
    end: int
    value: str


class Relation(NamedTuple):
    """Two objects by their head tokens, and the words that relate them: "wear", "in front of", "sit on", "have".

    `tokens` is empty where no word stands for the relation ("the man's hat").
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
