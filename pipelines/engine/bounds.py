"""Checks of config fields, shared by several configs. Each raises ValueError naming the field, rule and value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


def word(name: str, value: str, valid: Iterable[str]) -> str:
    """`value`, if it is a valid word; raises ValueError, which lists these and the most similar one, otherwise."""
    words = list(valid)
    if value in words:
        return value
    similar = get_close_matches(value, words, 1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    raise ValueError(f"{name} must be one of {', '.join(words)}, was: {value}{hint}")


def one_of(config: Any, choices: Mapping[str, Iterable[str]]) -> None:
    """Raise ValueError for a field whose value is not one of its choices (field name -> valid values)."""
    for name, valid in choices.items():
        word(name, str(getattr(config, name)), valid)


def at_least(config: Any, least: int, names: Iterable[str]) -> None:
    """Raise ValueError for a field in `names` whose value is below `least`; None is accepted."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < least:
            raise ValueError(f"{name} must be >= {least}, was: {value}")


def above_zero(config: Any, names: Iterable[str]) -> None:
    """Raise ValueError for a field in `names` whose value is not above 0."""
    for name in names:
        if not getattr(config, name) > 0:
            raise ValueError(f"{name} must be > 0, was: {getattr(config, name)}")


def below_one(config: Any, names: Iterable[str]) -> None:
    """Raise ValueError for a field in `names` whose value is not in [0, 1)."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{name} must be in [0, 1), was: {getattr(config, name)}")
