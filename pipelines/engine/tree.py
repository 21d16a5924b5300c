"""Combine the results of calls in a tree, which does not depend on the order in which they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FAN_IN = 8
Combine = Callable[[list[Any]], Any]


def push(levels: list[list[Any]], level: int, result: Any, combine: Combine) -> None:
    """Add a result to a level of the tree; every FAN_IN results of a level are combined to one of the next."""
    while True:
        if level == len(levels):
            levels.append([])
        levels[level].append(result)
        if len(levels[level]) < FAN_IN:
            return
        result, levels[level] = combine(levels[level]), []
        level += 1


def collapse(levels: list[list[Any]], combine: Combine) -> Any:
    """Combine the results left on all levels of a tree, the lowest first. Raises ValueError when there are none."""
    rest: list[Any] = []
    for level in levels:
        nodes = level + rest
        rest = [combine(nodes)] if len(nodes) > 1 else nodes
    if not rest:
        raise ValueError("map_reduce needs calls, had none")
    return rest[0]
