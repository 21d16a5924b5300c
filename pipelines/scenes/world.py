"""The drawn world: kinds of things with colours, patterns, poses and sizes, and how they compose a scene.

A scene is an anchor and up to three groups of equal things around it, each in a slot (on, under, in, beside, behind,
above). What there is, and where it may be, is in augment/data/scenes.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from ...augment.data import data_path

WORLD: dict[str, Any] = tomllib.loads(data_path("scenes.toml").read_text("utf-8"))
# The side of an image in pixels; all lengths here are in pixels.
SIDE = 224
COLOURS: dict[str, tuple[int, ...]] = {name: tuple(colour) for name, colour in WORLD["colours"].items()}
PATTERNS = ("striped", "spotted")
SIZES = {"small": 0.68, "": 0.84, "large": 1.0}  # factors of the width and height of a kind
MOST: dict[str, int] = {slot: entry["most"] for slot, entry in WORLD["slots"].items()}  # objects in a slot
RELATIONS = tuple(relation for words in WORLD["relations"].values() for relation in words)
VERBS: dict[str, dict[str, list[str]]] = WORLD["verbs"]
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()


def progressive(verb: str) -> str:
    """The participle of a verb of the scenes: sit -> sitting."""
    irregular = {"sit": "sitting", "lie": "lying", "run": "running", "swim": "swimming"}
    return irregular.get(verb, f"{verb}ing")


def third_person(verb: str) -> str:
    """The third person of a verb of the scenes: fly -> flies."""
    return {"carry": "carries", "fly": "flies", "perch": "perches"}.get(verb, f"{verb}s")


class ThingKind(NamedTuple):
    """A kind of thing: its names, its largest width and height in pixels, and its possible attributes and poses."""

    name: str
    plural: str
    width: int
    height: int
    colours: tuple[str, ...]
    patterned: bool
    poses: tuple[str, ...]


def _kinds() -> Iterator[ThingKind]:
    """All kinds of things, as the file describes them; a colour there may be the name of a palette."""
    for kinds in WORLD["kinds"].values():
        for name, entry in kinds.items():
            palettes = (WORLD["palettes"].get(word, [word]) for word in entry["colours"])
            width, height = entry["size"]
            yield ThingKind(
                name=name,
                plural=entry["plural"],
                width=width,
                height=height,
                colours=tuple(colour for palette in palettes for colour in palette),
                patterned=entry.get("patterned", False),
                poses=tuple(entry.get("poses", ())),
            )


KINDS = {kind.name: kind for kind in _kinds()}
ANCHORS = tuple(WORLD["kinds"]["anchors"])
SMALL = tuple(WORLD["kinds"]["small"])
LIVING = frozenset(kind.name for kind in KINDS.values() if kind.poses)
PEOPLE = ("boy", "girl")
HELD = ("balloon", "umbrella", "kite", "ball", "cup", "book")
CONTAINERS = ("box", "basket")
BIG = ("tree", "house")
# Slots that are not both in a scene: things on the anchor would hide those in it, or reach up to those above it.
EXCLUSIVE = ({"on", "in"}, {"on", "above"}, {"in", "above"}, {"under", "front"})

# The y of the anchor's bottom; things behind it are higher, things in front of it lower.
BASE = 186
GAP = 5  # between things
# A thing is not scaled below this; if there is no room for so many things, the group gets fewer.
SMALLEST = 0.7
# The scale of a thing in somebody's hand.
HELD_SCALE = 0.8
# What a person holds is a group of its own: the number of the person's group plus this.
HELD_GROUP = 100
GROUP_SIZES = (1, 2, 3, 4, 5)
GROUP_SIZE_WEIGHTS = (55, 20, 13, 7, 5)


class Thing(NamedTuple):
    """One thing in a scene and its box in pixels.

    slot: where it is, a key of MOST; "" for the anchor.
    group: 0 for the anchor, from 1 for things around it, HELD_GROUP + the person's for a held thing.
    open: whether it is a box or basket with something in it.
    holds, held: the index of the thing that a person holds, and of the person who holds the thing; -1 for none.
    """

    kind: str
    colour: str
    size: str
    pattern: str
    pose: str
    slot: str
    group: int
    left: int
    top: int
    right: int
    bottom: int
    open: bool = False
    holds: int = -1
    held: int = -1

    @property
    def middle(self) -> float:
        """The x coordinate of its centre, in pixels."""
        return (self.left + self.right) / 2


class Scene(NamedTuple):
    """The content of an image: the anchor first, then the things around it; setting: "indoors" or "outdoors"."""

    things: tuple[Thing, ...]
    setting: str

    def group(self, number: int) -> list[int]:
        """The indices of a group's things."""
        return [index for index, thing in enumerate(self.things) if thing.group == number]

    @property
    def groups(self) -> list[int]:
        """The numbers of the groups around the anchor; what is held belongs to its holder."""
        return sorted({thing.group for thing in self.things if 0 < thing.group < HELD_GROUP})


def compose(rng: Random) -> Scene:
    """A random scene with one to three groups around an anchor."""
    kind = KINDS[rng.choice(ANCHORS)]
    size = rng.choice(("", "", "small", "large")) if kind.name not in BIG else rng.choice(("", "large"))
    width = round(kind.width * SIZES[size])
    height = round(kind.height * SIZES[size])
    left = SIDE // 2 - width // 2 + rng.randint(-10, 10)
    anchor = Thing(
        kind=kind.name,
        colour=rng.choice(kind.colours),
        size=size,
        pattern=_pattern(rng, kind),
        pose="",
        slot="",
        group=0,
        left=left,
        top=BASE - height,
        right=left + width,
        bottom=BASE,
    )
    things = [anchor]
    group_count = rng.choice((1, 2, 2, 3))
    slots_of_anchor = WORLD["kinds"]["anchors"][kind.name].get("slots", ())
    # The free slots; one that is listed twice is chosen more often.
    slots = ["left", "right", "front", "above", "left", "right", *slots_of_anchor, "behind left", "behind right"]
    used = {(anchor.kind, anchor.colour)}
    for group in range(1, group_count + 1):
        if not slots:
            break
        slot = rng.choice(slots)
        # A side is free no more: things behind the left side of a box would hide things to its left.
        side = _side(slot)
        slots = [other for other in slots if {other, slot} not in EXCLUSIVE and _side(other) != side]
        things += _group(rng, things, slot, group, used)
    if any(thing.slot == "in" for thing in things):
        things[0] = anchor._replace(open=True)
    outdoors = any(thing.kind in ("tree", "house", "car", "horse", "kite") for thing in things) or rng.random() < 0.4
    return Scene(tuple(things), "outdoors" if outdoors else "indoors")


def _side(slot: str) -> str:
    """ "behind left" -> "left"; another slot is its own side."""
    return slot.rpartition(" ")[2]


def _group(rng: Random, things: list[Thing], slot: str, group: int, used: set[tuple[str, str]]) -> list[Thing]:
    """A group of equal things beside, on or around the anchor: two red cups; or one person, maybe holding something.

    There is none if no colour is left for it, or if it would be a second person of one kind.

    things: of the scene so far, the anchor first. slot: where the group is, such as "left" or "on". group: its number,
    from 1. used: the pairs of kind and colour that other groups have; that of this group is added.
    """
    anchor = things[0]
    count = min(rng.choices(GROUP_SIZES, GROUP_SIZE_WEIGHTS)[0], MOST[slot])
    if anchor.kind == "chair" and slot in ("on", "under"):
        count = 1
    kind = _kind_of_group(rng, things, slot, group, count)
    free_colours = [colour for colour in kind.colours if (kind.name, colour) not in used]
    if not free_colours or (kind.name in PEOPLE and any(thing.kind == kind.name for thing in things)):
        return []
    colour = rng.choice(free_colours)
    pattern = _pattern(rng, kind)
    size = ""
    if count == 1 and kind.name not in (*PEOPLE, *BIG) and slot not in ("in", "under"):
        size = rng.choice(("", "", "small", "large"))
    used.add((kind.name, colour))
    pose = _pose(rng, kind, slot)
    without_box = Thing(kind.name, colour, size, pattern, pose, slot, group, left=0, top=0, right=0, bottom=0)
    placed = place_group(rng, anchor, without_box, count)
    if count == 1 and kind.name in PEOPLE and slot in ("left", "right") and rng.random() < 0.75:
        return _holding(rng, placed[0], len(things), used)
    return placed


def _kind_of_group(rng: Random, things: list[Thing], slot: str, group: int, count: int) -> ThingKind:
    """The kind of thing that a group consists of: one of its slot's, or that of the group before in another colour.

    things: of the scene so far: the anchor, whose kind no group has, then those of earlier groups. group: the number of
    the group, from 1. count: how many things it has.
    """
    # Each thing of the group before is chosen with a chance of 30 %; if one is, its kind may be used again.
    again = [thing for thing in things[1:] if thing.group == group - 1 and rng.random() < 0.3]
    # The kinds for groups of one thing, of two, …; the last entry is for all larger groups.
    by_count = WORLD["slots"][slot]["kinds"]
    names: list[str] = []
    for name in by_count[min(count, len(by_count)) - 1]:
        names += SMALL if name == "small" else (name,)
    anchor = things[0]
    # Drawn in any case, so that later random numbers do not depend on whether the kind comes again.
    kind = KINDS[rng.choice([name for name in names if name != anchor.kind])]
    # The same kind in another colour, so that a caption may tell the two groups apart by it.
    if again and slot in ("left", "right", "front", "on") and again[0].kind in SMALL:
        return KINDS[again[0].kind]
    return kind


def _pose(rng: Random, kind: ThingKind, slot: str) -> str:
    """A pose that suits a slot; "" for a kind without poses."""
    poses = [pose for pose in kind.poses if (pose == "fly") == (slot == "above")]
    if slot in ("under", "in"):
        poses = [pose for pose in poses if pose != "stand"] or poses
    if slot.startswith("behind"):
        poses = [pose for pose in poses if pose == "stand"] or poses
    return rng.choice(poses) if poses else ""


def _pattern(rng: Random, kind: ThingKind) -> str:
    """A pattern, or "" for none, which is as likely as all patterns together; "" for a kind that has none."""
    return rng.choice(("", "", *PATTERNS)) if kind.patterned else ""


def _holding(rng: Random, person: Thing, number: int, used: set[tuple[str, str]]) -> list[Thing]:
    """Give a person a random thing to hold, on the side away from the anchor; returns the person and the thing.

    number: the person's index in the scene; the thing takes the next. used: the kinds and colours already in the scene;
    that of the thing is added.
    """
    kind = KINDS[rng.choice(HELD)]
    colour = rng.choice([colour for colour in kind.colours if (kind.name, colour) not in used])
    used.add((kind.name, colour))
    width = round(kind.width * HELD_SCALE)
    height = round(kind.height * HELD_SCALE)
    reach = 0.08 * (person.right - person.left)
    hand = person.left + reach if person.slot == "left" else person.right - reach
    middle_of_person = person.top + 0.5 * (person.bottom - person.top)
    # Balloons, umbrellas and kites are held by a string or handle below them, other things by their middle.
    bottom = middle_of_person + (4 if kind.name in ("balloon", "umbrella", "kite") else height / 2)
    left = max(1.0, min(hand - width / 2, SIDE - 1.0 - width))  # inside the picture
    box = _box(left, bottom, width, height)
    pattern = _pattern(rng, kind)
    group = person.group + HELD_GROUP
    held = Thing(kind.name, colour, "", pattern, "", person.slot, group, *box, held=number)
    return [person._replace(holds=number + 1), held]


def place_group(rng: Random, anchor: Thing, like: Thing, count: int) -> list[Thing]:
    """Up to `count` things like `like` from left to right in its slot; fewer if there is no room for more."""
    kind = KINDS[like.kind]
    slot = like.slot
    width = kind.width * SIZES[like.size]
    height = kind.height * SIZES[like.size] * (0.62 if like.pose in ("lie", "sleep") else 1)  # what lies is lower
    # Behind the anchor there is one thing, about half of which the anchor hides.
    if slot.startswith("behind"):
        left = anchor.left - width * 0.55 if slot.endswith("left") else anchor.right - width * 0.45
        return [_moved(like, _box(left, anchor.bottom - 10, width, height))]

    room = _room(anchor, slot)

    def scale(number: int) -> float:
        """The factor by which so many things must shrink to fit into the room."""
        share_of_width = (room.right - room.left - GAP * (number - 1)) / (width * number)
        return min(1.0, share_of_width, room.height / height)

    while scale(count) < SMALLEST and count > 1:
        count -= 1
    shrink = scale(count)
    width = width * shrink
    height = height * shrink
    spare = max(0.0, room.right - room.left - count * width - GAP * (count - 1))
    # The group stands close to the anchor.
    if slot in ("left", "right"):
        start = room.left + spare * (1.0 if slot == "left" else 0.0)
    else:
        start = room.left + spare * rng.random()
    boxes = [_box(start + number * (width + GAP), room.floor, width, height) for number in range(count)]
    return [_moved(like, box) for box in boxes]


class Room(NamedTuple):
    """The room of a slot in pixels: from left to right, the y where its things stand, and their greatest height."""

    left: float
    right: float
    floor: float
    height: float


def _room(anchor: Thing, slot: str) -> Room:
    """The room of a slot around an anchor.

    Numbers below 1 are shares of the anchor's width or height; all others are pixels.
    """
    kind = anchor.kind
    left = anchor.left
    top = anchor.top
    right = anchor.right
    bottom = anchor.bottom
    wide = right - left
    tall = bottom - top
    match slot:
        case "on":
            seat = {"chair": 0.55, "bench": 0.42, "bed": 0.5}.get(kind, 0) * tall
            margin = {"car": 0.25, "bed": 0.2, "chair": 0.18}.get(kind, 0.04) * wide
            return Room(left + margin, right - margin, top + seat, 60)
        case "under" if kind == "tree":
            return Room(anchor.middle + 8, right, bottom, 0.4 * tall - 3)
        case "under":
            return Room(left + 0.1 * wide, right - 0.1 * wide, bottom, (0.5 if kind == "bench" else 0.7) * tall - 3)
        case "in":
            return Room(left + 6, right - 6, top + 0.4 * tall, 60)
        case "left":
            return Room(3, left - GAP, bottom, 120)
        case "right":
            return Room(right + GAP, SIDE - 3, bottom, 120)
        case "front":
            half = max(0.35 * wide, 34)
            return Room(anchor.middle - half, anchor.middle + half, SIDE - 6, 34)
    return Room(left - 4, right + 4, max(48, min(top - 18, 76)), 40 if kind in BIG else 46)  # above


class PixelBox(NamedTuple):
    """Where a thing is drawn, in whole pixels."""

    left: int
    top: int
    right: int
    bottom: int


def _box(left: float, floor: float, width: float, height: float) -> PixelBox:
    """The box of a thing that stands on `floor`, a y coordinate; all four numbers in pixels."""
    return PixelBox(round(left), round(floor - height), round(left + width), round(floor))


def _moved(thing: Thing, box: PixelBox) -> Thing:
    """A thing like another one in a box of its own; it neither holds anything nor is held."""
    return thing._replace(**box._asdict(), holds=-1, held=-1)
