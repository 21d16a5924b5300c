"""What is true of the things in a scene. A verdict is True, False, or None for a matter of opinion.

A thing's slot determines its relations to the anchor; two things around the anchor are compared by where they are
drawn, with wide margins. What one viewer of the image might say and another deny is a matter of opinion.
"""

from __future__ import annotations

from collections.abc import Mapping

from .world import LIVING, PEOPLE, Scene, Thing

TRUE, FALSE, UNSURE = True, False, None
Verdict = bool | None

ON, UNDER, IN = ("on", "on top of", "atop"), ("under", "below", "beneath", "underneath"), ("in", "inside")
ABOVE, BESIDE = ("above", "over"), ("next to", "beside", "near", "by", "close to", "alongside")
LEFT, RIGHT = ("to the left of", "on the left of"), ("to the right of", "on the right of")
FRONT, BEHIND = ("in front of",), ("behind",)
HOLD = "hold"
# Relations with a verdict; all other prepositions (with, at, against, around …) are a matter of opinion.
RELATIONS = (*ON, *UNDER, *IN, *ABOVE, *BESIDE, *LEFT, *RIGHT, *FRONT, *BEHIND)
SHIFT, FAR = 24, 100
NEARNESS = ("near", "by", "close to")


def _table(true: tuple[str, ...], unsure: tuple[str, ...]) -> Mapping[str, Verdict]:
    return {name: TRUE if name in true else UNSURE if name in unsure else FALSE for name in RELATIONS}


# Slot -> relation of a thing there to its anchor -> verdict; left and right are decided by where things are drawn.
TO_ANCHOR: dict[str, Mapping[str, Verdict]] = {
    "on": _table((*ON, *ABOVE), NEARNESS),
    "under": _table(UNDER, (*BEHIND, *BESIDE, *FRONT)),
    "in": _table(IN, (*ON, *NEARNESS, *ABOVE, *BEHIND)),
    "left": _table(BESIDE, ()),
    "right": _table(BESIDE, ()),
    "front": _table(FRONT, (*BESIDE, *UNDER)),
    "behind left": _table(BEHIND, BESIDE),
    "behind right": _table(BEHIND, BESIDE),
    "above": _table(ABOVE, (*NEARNESS, *BEHIND)),
}
FROM_ANCHOR: dict[str, Mapping[str, Verdict]] = {
    "on": _table(UNDER, NEARNESS),
    "under": _table(ABOVE, (*ON, *BESIDE, *BEHIND, *FRONT)),
    "in": _table((), (*UNDER, *NEARNESS, *FRONT)),
    "left": _table(BESIDE, ()),
    "right": _table(BESIDE, ()),
    "front": _table(BEHIND, (*BESIDE, *ABOVE)),
    "behind left": _table(FRONT, BESIDE),
    "behind right": _table(FRONT, BESIDE),
    "above": _table(UNDER, NEARNESS),
}


def holds(relation: str, scene: Scene, one: int, other: int) -> Verdict:
    """Whether a relation ("on") holds from thing `one` to thing `other`, given by index; None: a matter of opinion."""
    if one == other:
        return FALSE
    a, b = scene.things[one], scene.things[other]
    if relation not in RELATIONS:
        return (relation == "with" and other == a.holds) or UNSURE
    if relation in (*LEFT, *RIGHT):
        return _side(a, b) if relation in LEFT else _side(b, a)
    if a.held == other or b.held == one:
        return FALSE if relation in (*ON, *UNDER, *IN) else UNSURE
    if a.held >= 0:
        return _of_held(relation, scene, a, other)
    if b.held >= 0:
        return _beside_each_other(relation, a, b)
    if other == 0:
        return TO_ANCHOR[a.slot][relation]
    if one == 0:
        return FROM_ANCHOR[b.slot][relation]
    return _beside_each_other(relation, a, b)


def _of_held(relation: str, scene: Scene, held: Thing, other: int) -> Verdict:
    """The relation of a held thing to another: that of its holder, with more matters of opinion."""
    verdict = holds(relation, scene, held.held, other)
    if relation in (*ABOVE, *UNDER, *BESIDE, *BEHIND, *FRONT):
        return UNSURE
    return verdict


def _side(a: Thing, b: Thing) -> Verdict:
    """Whether `a` is to the left of `b`."""
    apart = b.middle - a.middle
    if a.right <= b.left and {a.slot, b.slot} & {"left", "right"} and {a.slot, b.slot} <= {"left", "right", ""}:
        return TRUE
    if apart <= -SHIFT / 2 or (abs(apart) < SHIFT / 2 and {a.slot, b.slot} <= {"", "on", "under", "in"}):
        return FALSE
    return UNSURE


def _beside_each_other(relation: str, a: Thing, b: Thing) -> Verdict:
    """The relation between two things around the anchor, by where they are drawn."""
    apart = max(a.left, b.left) - min(a.right, b.right)
    if relation in (*ON, *IN):
        return FALSE
    if relation in BESIDE:
        return FALSE if relation not in NEARNESS and apart > FAR else UNSURE
    if relation in (*ABOVE, *UNDER):
        upper, lower = (a, b) if relation in ABOVE else (b, a)
        return UNSURE if upper.bottom < lower.bottom - SHIFT / 3 else FALSE
    level = {"left", "right"}
    return FALSE if {a.slot, b.slot} <= level else UNSURE


# Verb -> the poses for which it is true, and those for which it is a matter of opinion.
VERBS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sit": (("sit",), ()),
    "stand": (("stand",), ()),
    "lie": (("lie", "sleep"), ()),
    "sleep": (("sleep",), ()),
    "rest": (("lie", "sleep"), ("sit", "stand")),
    "perch": ((), ("sit", "stand")),
    "fly": (("fly",), ()),
    "float": ((), ("fly",)),
}


def does(verb: str, thing: Thing) -> Verdict:
    """Whether a verb is true of a thing, by its pose; inanimate things sit, stand, lie and rest wherever they are."""
    if thing.kind not in LIVING:
        if verb in ("fly", "float"):
            return thing.slot == "above" and (thing.kind == {"fly": "kite", "float": "balloon"}[verb] or UNSURE)
        return TRUE if verb in ("sit", "stand", "lie", "rest") else FALSE if verb == "sleep" else UNSURE
    if verb not in VERBS:
        return UNSURE
    true, unsure = VERBS[verb]
    if thing.kind == "bird" and thing.pose == "stand" and verb in ("sit", "rest", "lie"):
        return UNSURE
    return TRUE if thing.pose in true else UNSURE if thing.pose in unsure else FALSE


def does_to(verb: str, scene: Scene, one: int, other: int) -> Verdict:
    """Whether a person does something to a thing; holding is the only action in scenes."""
    person = scene.things[one]
    if verb in ("hold", "carry"):
        return TRUE if person.holds == other else FALSE
    return UNSURE if person.kind in PEOPLE and person.holds == other else FALSE


def has(attribute: str, thing: Thing) -> Verdict:
    """Whether an attribute is true of a thing; sizes of things without a size are a matter of opinion."""
    size = {"big": "large", "little": "small", "tiny": "small", "huge": "large"}.get(attribute, attribute)
    if size in ("small", "large"):
        return size == thing.size if thing.size else UNSURE
    if attribute in VERBS:  # "a sleeping dog"
        return does(attribute, thing)
    if thing.kind in PEOPLE:
        return UNSURE
    if attribute == "white" and thing.pattern and thing.colour != "white":
        return UNSURE  # its stripes or spots are white
    return attribute in (thing.colour, thing.pattern)
