"""What is true of the things in a scene, and the rows of the table `scenes` that record it.

A verdict is True, False, or None for a matter of opinion: what one viewer of the image might say and another deny. A
thing's slot determines its relations to the anchor; two things around the anchor are compared by where they are drawn,
with wide margins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from .world import LIVING, PEOPLE, WORLD, Scene, Thing

Verdict = bool | None
UNSURE = None

_GROUPS: dict[str, list[str]] = WORLD["relations"]
ON, UNDER, IN, ABOVE, BESIDE, LEFT, RIGHT, FRONT, BEHIND = _GROUPS.values()
RELATIONS = tuple(relation for group in _GROUPS.values() for relation in group)
NEAR = ("near", "by", "close to")
SHIFT, FAR = 24, 100  # pixels
VERBS: dict[str, dict[str, list[str]]] = WORLD["verbs"]


@cache
def _by_slot(relation: str, slot: str, back: str = "") -> Verdict:
    """Whether a thing in a slot has a relation to the anchor, or, if back is "back_", the anchor to the thing."""
    groups = {name for name, words in {**_GROUPS, "near": NEAR}.items() if relation in words}
    entry = WORLD["slots"][slot]
    return bool(groups & set(entry[f"{back}true"])) or (UNSURE if groups & set(entry[f"{back}unsure"]) else False)


def holds(relation: str, scene: Scene, one: int, other: int) -> Verdict:
    """Whether a relation ("on") holds from thing `one` to thing `other`, given by index."""
    if one == other:
        return False
    a, b = scene.things[one], scene.things[other]
    if relation not in RELATIONS:
        return (relation == "with" and other == a.holds) or UNSURE
    if relation in (*LEFT, *RIGHT):
        return _left_of(a, b) if relation in LEFT else _left_of(b, a)
    if a.held == other or b.held == one:
        return False if relation in (*ON, *UNDER, *IN) else UNSURE
    if a.held >= 0:  # as its holder, with more matters of opinion
        return holds(relation, scene, a.held, other) if relation in (*ON, *IN) else UNSURE
    if other == 0:
        return _by_slot(relation, a.slot)
    if one == 0 and b.held < 0:
        return _by_slot(relation, b.slot, "back_")
    # two things around the anchor
    if relation in (*ON, *IN):
        return False
    if relation in BESIDE:
        apart = max(a.left, b.left) - min(a.right, b.right)
        return False if relation not in NEAR and apart > FAR else UNSURE
    if relation in (*ABOVE, *UNDER):
        upper, lower = (a, b) if relation in ABOVE else (b, a)
        return UNSURE if upper.bottom < lower.bottom - SHIFT / 3 else False
    return False if {a.slot, b.slot} <= {"left", "right"} else UNSURE


def _left_of(a: Thing, b: Thing) -> Verdict:
    apart, slots = b.middle - a.middle, {a.slot, b.slot}
    if a.right <= b.left and slots & {"left", "right"} and slots <= {"left", "right", ""}:
        return True
    if apart <= -SHIFT / 2 or (apart < SHIFT / 2 and slots <= {"", "on", "under", "in"}):
        return False
    return UNSURE


def is_doing(verb: str, thing: Thing) -> Verdict:
    """Whether a verb is true of a thing, by its pose; inanimate things sit, stand, lie and rest wherever they are."""
    if thing.kind not in LIVING:
        if verb in ("fly", "float"):
            return thing.slot == "above" and (thing.kind == {"fly": "kite", "float": "balloon"}[verb] or UNSURE)
        return True if verb in ("sit", "stand", "lie", "rest") else False if verb == "sleep" else UNSURE
    if verb not in VERBS or (thing.kind == "bird" and thing.pose == "stand" and verb in ("sit", "rest", "lie")):
        return UNSURE
    return True if thing.pose in VERBS[verb]["true"] else UNSURE if thing.pose in VERBS[verb]["unsure"] else False


def is_doing_to(verb: str, scene: Scene, one: int, other: int) -> Verdict:
    """Whether a person does something to a thing; holding is the only action in scenes."""
    if scene.things[one].holds != other:
        return False
    return True if verb in ("hold", "carry") else UNSURE


def has(attribute: str, thing: Thing) -> Verdict:
    """Whether an attribute is true of a thing; sizes of things without a size are a matter of opinion."""
    size = {"big": "large", "little": "small", "tiny": "small", "huge": "large"}.get(attribute, attribute)
    if size in ("small", "large"):
        return size == thing.size if thing.size else UNSURE
    if attribute in VERBS:  # "a sleeping dog"
        return is_doing(attribute, thing)
    if thing.kind in PEOPLE:
        return UNSURE
    if attribute == "white" and thing.pattern and thing.colour != "white":
        return UNSURE  # its stripes or spots are white
    return attribute in (thing.colour, thing.pattern)


def row(image_id: str, split: str, scene: Scene, sha256: str) -> dict[str, Any]:
    """A scene as a row of the table `scenes`; sha256: of the image file.

    It lists the things, all true relations between two of them, and those that are matters of opinion.
    """
    said: dict[Verdict, list[dict[str, Any]]] = {True: [], UNSURE: [], False: []}
    for one, thing in enumerate(scene.things):
        for other, second in enumerate(scene.things):
            for relation in RELATIONS if second.group != thing.group else ():
                verdict = holds(relation, scene, one, other)
                said[verdict].append({"subject": one, "relation": relation, "object": other})
        if thing.holds >= 0:
            said[True].append({"subject": one, "relation": "hold", "object": thing.holds})
    counts = sorted(Counter(thing.kind for thing in scene.things).items())
    return {
        "image_id": image_id,
        "split": split,
        "setting": scene.setting,
        "objects": [dict(zip(("object", *Thing._fields[1:]), thing, strict=True)) for thing in scene.things],
        "relations": said[True],
        "opinions": said[UNSURE],
        "counts": [{"object": kind, "count": count} for kind, count in counts],
        "sha256": sha256,
    }


def scene_of(row: Mapping[str, Any]) -> Scene:
    """The scene that a row of the table `scenes` describes."""
    things = ({("kind" if name == "object" else name): value for name, value in one.items()} for one in row["objects"])
    return Scene(tuple(Thing(**thing) for thing in things), row["setting"])
