"""Scenes as rows of the table `scenes`, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from .truth import HOLD, RELATIONS, holds
from .world import Scene, Thing


def row(image_id: str, split: str, scene: Scene, sha256: str) -> dict[str, Any]:
    """A scene as a row: its things, all true relations between two of them, and those that are matters of opinion.

    sha256: of the image file.
    """
    true: list[dict[str, Any]] = []
    opinions: list[dict[str, Any]] = []
    for one, thing in enumerate(scene.things):
        for other in range(len(scene.things)):
            if one == other or scene.things[other].group == thing.group:
                continue
            for relation in RELATIONS:
                verdict = holds(relation, scene, one, other)
                if verdict is not False:
                    said = {"subject": one, "relation": relation, "object": other}
                    (opinions if verdict is None else true).append(said)
        if thing.holds >= 0:
            true.append({"subject": one, "relation": HOLD, "object": thing.holds})
    counts = sorted(Counter(thing.kind for thing in scene.things).items())
    return {
        "image_id": image_id,
        "split": split,
        "setting": scene.setting,
        "objects": [
            {"object": thing.kind, **{name: getattr(thing, name) for name in _FIELDS}} for thing in scene.things
        ],
        "relations": true,
        "opinions": opinions,
        "counts": [{"object": kind, "count": count} for kind, count in counts],
        "sha256": sha256,
    }


def scene_of(row: Mapping[str, Any]) -> Scene:
    """The scene that a row of the table `scenes` describes."""
    things = tuple(Thing(kind=thing["object"], **{name: thing[name] for name in _FIELDS}) for thing in row["objects"])
    return Scene(things, row["setting"])


_FIELDS = Thing._fields[1:]
