"""Compose a scene: an anchor, and up to three groups of equal things on, under, in, beside, behind or above it.

Where a group is relative to the anchor is called its slot (see `Thing`).
"""

from __future__ import annotations

from random import Random

from .world import (
    ANCHORS,
    CONTAINERS,
    FLOATING,
    HELD,
    KINDS,
    MOST,
    PATTERNS,
    PEOPLE,
    ROOFS,
    SIDE,
    SIZES,
    SMALL,
    SUPPORTS,
    Kind,
    Scene,
    Thing,
)

BASE = 186  # y of the anchor's bottom; things behind it are higher, things in front of it lower
GAP = 5  # pixels between things
SMALLEST = 0.7  # least scale of a thing; if there is no room for that, the group gets fewer things
COUNTS = ((1, 55), (2, 20), (3, 13), (4, 7), (5, 5))  # size of a group, weight
BIG = ("tree", "house")
ANIMALS = ("dog", "cat", "bird")


def compose(rng: Random) -> Scene:
    """A random scene with one to three groups around an anchor."""
    anchor = _anchor(rng)
    things = [anchor]
    wanted = rng.choice((1, 2, 2, 3))
    slots = _slots(anchor)
    used: set[tuple[str, str]] = {(anchor.kind, anchor.colour)}
    for group in range(1, wanted + 1):
        if not slots:
            break
        slot = rng.choice(slots)
        slots = [other for other in slots if not _same_place(slot, other)]
        things += _group(rng, things, slot, group, used)
    if any(thing.slot == "in" for thing in things):
        things[0] = anchor._replace(open=True)
    outdoors = any(thing.kind in ("tree", "house", "car", "horse", "kite") for thing in things) or rng.random() < 0.4
    return Scene(tuple(things), "outdoors" if outdoors else "indoors")


def _anchor(rng: Random) -> Thing:
    kind = KINDS[rng.choice(ANCHORS)]
    size = rng.choice(("", "", "small", "large")) if kind.name not in BIG else rng.choice(("", "large"))
    width, height = (round(side * SIZES[size]) for side in (kind.width, kind.height))
    left = SIDE // 2 - width // 2 + rng.randint(-10, 10)
    colour, pattern = rng.choice(kind.colours), _pattern(rng, kind)
    return Thing(kind.name, colour, size, pattern, "", "", 0, left, BASE - height, left + width, BASE)


def _slots(anchor: Thing) -> list[str]:
    """The slots that this anchor offers; repeated ones are drawn more often."""
    slots = ["left", "right", "front", "above", "left", "right"]
    if anchor.kind in SUPPORTS and anchor.kind not in CONTAINERS:
        slots += ["on", "on"]
    if anchor.kind in CONTAINERS:
        slots += ["in", "in"] + ["on"] * (anchor.kind in SUPPORTS)
    if anchor.kind in ROOFS:
        slots += ["under", "under"]
    return [*slots, "behind left", "behind right"]


def _same_place(one: str, other: str) -> bool:
    """Whether two slots exclude each other: things behind the left side of a box would hide things to its left."""
    if one == other or {one, other} in ({"on", "in"}, {"on", "above"}, {"in", "above"}, {"under", "front"}):
        return True
    return one.rpartition(" ")[2] == other.rpartition(" ")[2]


def _kind(rng: Random, slot: str, anchor: Thing, count: int) -> str:
    if slot == "above":
        return rng.choice(FLOATING)
    if slot == "on":
        kinds = [*SMALL, "dog", "dog", "cat", "cat", "bird"] if count < 3 else list(SMALL)
        return rng.choice([kind for kind in kinds if anchor.kind != "chair" or count == 1])
    if slot in ("under", "in"):
        return rng.choice([*(kind for kind in SMALL if slot == "under" or kind != "lamp"), *ANIMALS[: 3 - count]])
    if slot == "front":
        return rng.choice([*SMALL, *ANIMALS, "dog", "cat"])
    if slot.startswith("behind"):
        return rng.choice([kind for kind in ("tree", "house", "horse", "chair", "boy", "girl") if kind != anchor.kind])
    if count > 1:
        return rng.choice([*SMALL, *ANIMALS, "dog", "cat", "umbrella", *sorted(PEOPLE)])
    tall = ("chair", "tree", "horse", "boy", "girl", "boy", "girl", "umbrella", "dog", "dog", "cat", "cat", "bird")
    return rng.choice([*SMALL, *(kind for kind in tall if kind != anchor.kind)])


def _group(rng: Random, things: list[Thing], slot: str, group: int, used: set[tuple[str, str]]) -> list[Thing]:
    """A group of equal things in one slot, or a person with a thing in the hand; empty if no colour is free.

    used: (kind, colour) of all groups so far, which is extended.
    """
    anchor = things[0]
    count = min(rng.choices(*zip(*COUNTS, strict=True))[0], MOST[slot])
    if anchor.kind == "chair" and slot in ("on", "under"):
        count = 1
    again = [thing for thing in things[1:] if thing.group == group - 1 and rng.random() < 0.3]
    kind = KINDS[_kind(rng, slot, anchor, count)]
    if again and slot in ("left", "right", "front", "on") and again[0].kind in SMALL:
        kind = KINDS[again[0].kind]  # the same kind in another colour: a colour may tell the two apart
    free = [colour for colour in kind.colours if (kind.name, colour) not in used]
    if not free or (kind.name in PEOPLE and any(thing.kind == kind.name for thing in things)):
        return []
    colour, pattern, size = rng.choice(free), _pattern(rng, kind), _size(rng, kind, slot, count)
    used.add((kind.name, colour))
    pose = _pose(rng, kind, slot)
    width, height = kind.width * SIZES[size], kind.height * SIZES[size] * (0.62 if pose in ("lie", "sleep") else 1)
    boxes = _boxes(rng, anchor, slot, count, width, height)
    made = [Thing(kind.name, colour, size, pattern, pose, slot, group, *box) for box in boxes]
    if count == 1 and kind.name in PEOPLE and slot in ("left", "right") and rng.random() < 0.75:
        return _holding(rng, made[0], len(things), used)
    return made


def regrouped(anchor: Thing, like: Thing, count: int, size: float, rng: Random) -> list[Thing]:
    """Up to `count` things like `like`, in its slot beside an anchor; fewer if the slot has no room for them.

    size: their scale.
    """
    kind = KINDS[like.kind]
    width, height = kind.width * size, kind.height * size * (0.62 if like.pose in ("lie", "sleep") else 1)
    boxes = _boxes(rng, anchor, like.slot, count, width, height)
    return [
        like._replace(left=left, top=top, right=right, bottom=bottom, holds=-1, held=-1)
        for left, top, right, bottom in boxes
    ]


def _pattern(rng: Random, kind: Kind) -> str:
    return rng.choice(("", "", *PATTERNS)) if kind.patterned else ""


def _size(rng: Random, kind: Kind, slot: str, count: int) -> str:
    if count > 1 or kind.name in PEOPLE or kind.name in BIG or slot in ("in", "under"):
        return ""
    return rng.choice(("", "", "small", "large"))


def _pose(rng: Random, kind: Kind, slot: str) -> str:
    poses = [pose for pose in kind.poses if (pose == "fly") == (slot == "above")]
    if slot in ("under", "in"):
        poses = [pose for pose in poses if pose != "stand"] or poses
    if slot.startswith("behind"):
        poses = [pose for pose in poses if pose == "stand"] or poses
    return rng.choice(poses) if poses else ""


def _boxes(
    rng: Random, anchor: Thing, slot: str, count: int, width: float, height: float
) -> list[tuple[int, int, int, int]]:
    """The boxes (left, top, right, bottom; pixels) of a group's things, from left to right."""
    low, high, floor, tallest = _place(anchor, slot)
    if slot.startswith("behind"):
        left = anchor.left - width * 0.55 if slot.endswith("left") else anchor.right - width * 0.45
        return [_box(left, floor, width, height)]
    shrink = _shrink(low, high, width, count, tallest / height)
    while shrink < SMALLEST and count > 1:
        count -= 1
        shrink = _shrink(low, high, width, count, tallest / height)
    width, height = width * shrink, height * shrink
    spare = max(0.0, high - low - count * width - GAP * (count - 1))
    near = {"left": spare, "right": 0.0}.get(slot)
    start = low + (rng.random() * spare if near is None else near)
    return [_box(start + at * (width + GAP), floor, width, height) for at in range(count)]


def _shrink(low: float, high: float, width: float, count: int, tall: float) -> float:
    return min(1.0, (high - low - GAP * (count - 1)) / (width * count), tall)


def _place(anchor: Thing, slot: str) -> tuple[float, float, float, float]:
    """The left and right bound of a slot, the y where its things stand, and their greatest height (pixels)."""
    wide, tall = anchor.right - anchor.left, anchor.bottom - anchor.top
    if slot == "on":
        seat = {"chair": anchor.top + 0.55 * tall, "bench": anchor.top + 0.42 * tall, "bed": anchor.top + 0.5 * tall}
        shift = {"car": 0.25, "bed": 0.2, "chair": 0.18}.get(anchor.kind, 0.04) * wide
        return anchor.left + shift, anchor.right - shift, seat.get(anchor.kind, anchor.top), 60
    if slot == "under":
        crown = 0.6 if anchor.kind == "tree" else 0.3
        room = (anchor.bottom - anchor.top) * (1 - crown) if anchor.kind != "bench" else 0.5 * tall
        side = 0.1 if anchor.kind != "tree" else 0.0
        low = anchor.left + side * wide if anchor.kind != "tree" else anchor.middle + 8
        return low, anchor.right - side * wide, anchor.bottom, room - 3
    if slot == "in":
        return anchor.left + 6, anchor.right - 6, anchor.top + 0.4 * tall, 60
    if slot == "left":
        return 3, anchor.left - GAP, anchor.bottom, 120
    if slot == "right":
        return anchor.right + GAP, SIDE - 3, anchor.bottom, 120
    if slot == "front":
        half = max(0.35 * wide, 34)
        return anchor.middle - half, anchor.middle + half, SIDE - 6, 34
    if slot == "above":
        return (
            anchor.left - 4,
            anchor.right + 4,
            max(48, min(anchor.top - 18, 76)),
            46 if anchor.kind not in BIG else 40,
        )
    return anchor.left, anchor.right, anchor.bottom - 10, 120


def _box(left: float, floor: float, width: float, height: float) -> tuple[int, int, int, int]:
    return round(left), round(floor - height), round(left + width), round(floor)


def _holding(rng: Random, person: Thing, number: int, used: set[tuple[str, str]]) -> list[Thing]:
    """A person and a thing held on the side away from the anchor; number: the person's index in the scene."""
    kind = KINDS[rng.choice(HELD)]
    colours = [colour for colour in kind.colours if (kind.name, colour) not in used]
    colour = rng.choice(colours)
    used.add((kind.name, colour))
    width, height = round(kind.width * 0.8), round(kind.height * 0.8)
    wide, tall = person.right - person.left, person.bottom - person.top
    outward = person.left + 0.08 * wide if person.slot == "left" else person.right - 0.08 * wide
    hand = person.top + 0.5 * tall
    bottom = hand + (4 if kind.name in ("balloon", "umbrella", "kite") else height / 2)
    left = max(1.0, min(outward - width / 2, SIDE - 1.0 - width))
    held = Thing(kind.name, colour, "", _pattern(rng, kind), "", person.slot, person.group + 100,
                 *_box(left, bottom, width, height), held=number)  # fmt: skip
    return [person._replace(holds=number + 1), held]
