"""The drawn world: kinds of things with colours, patterns, poses and sizes, and how they compose a scene: an anchor and
up to three groups of equal things around it, each in a slot (on, under, in, beside, behind, above).
"""

from __future__ import annotations

import tomllib
from random import Random
from typing import Any, NamedTuple

from ...augment.data import data_path

WORLD: dict[str, Any] = tomllib.loads(data_path("scenes.toml").read_text("utf-8"))
SIDE = 224  # of an image, in pixels; all lengths here are in pixels
COLOURS: dict[str, tuple[int, ...]] = {name: tuple(colour) for name, colour in WORLD["colours"].items()}
PATTERNS = ("striped", "spotted")
SIZES = {"small": 0.68, "": 0.84, "large": 1.0}
MOST: dict[str, int] = {slot: entry["most"] for slot, entry in WORLD["slots"].items()}
RELATIONS = tuple(relation for words in WORLD["relations"].values() for relation in words)
VERBS: dict[str, dict[str, list[str]]] = WORLD["verbs"]
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()


class Kind(NamedTuple):
    """A kind of thing: its names, its largest width and height in pixels, and its possible attributes and poses."""

    name: str
    plural: str
    width: int
    height: int
    colours: tuple[str, ...]
    patterned: bool
    poses: tuple[str, ...]


KINDS: dict[str, Kind] = {}
for _name, _entry in (item for kinds in WORLD["kinds"].values() for item in kinds.items()):
    _colours = tuple(colour for word in _entry["colours"] for colour in WORLD["palettes"].get(word, [word]))
    _width, _height = _entry["size"]
    _more = _entry.get("patterned", False), tuple(_entry.get("poses", ()))
    KINDS[_name] = Kind(_name, _entry["plural"], _width, _height, _colours, *_more)
ANCHORS = tuple(WORLD["kinds"]["anchors"])
SMALL = tuple(WORLD["kinds"]["small"])
LIVING = frozenset(kind.name for kind in KINDS.values() if kind.poses)
PEOPLE = ("boy", "girl")
HELD = ("balloon", "umbrella", "kite", "ball", "cup", "book")
CONTAINERS = ("box", "basket")
BIG = ("tree", "house")
EXCLUSIVE = ({"on", "in"}, {"on", "above"}, {"in", "above"}, {"under", "front"})  # slots not both in a scene

BASE = 186  # y of the anchor's bottom; things behind it are higher, things in front of it lower
GAP = 5  # between things
SMALLEST = 0.7  # least scale of a thing; if there is no room for that, the group gets fewer things
COUNTS = ((1, 2, 3, 4, 5), (55, 20, 13, 7, 5))  # sizes of a group, weights


class Thing(NamedTuple):
    """One thing in a scene and its box in pixels. slot: where it is, a key of MOST; "" for the anchor. group: 0 for the
    anchor, from 1 for things around it, 100 + the person's for a held thing. open: a box or basket has something in it.
    holds, held: the index of the thing that a person holds, and of the person; -1 for none.
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
        return [at for at, thing in enumerate(self.things) if thing.group == number]

    @property
    def groups(self) -> list[int]:
        """The numbers of the groups around the anchor; what is held belongs to its holder."""
        return sorted({thing.group for thing in self.things if 0 < thing.group < 100})


def compose(rng: Random) -> Scene:
    """A random scene with one to three groups around an anchor."""
    kind = KINDS[rng.choice(ANCHORS)]
    size = rng.choice(("", "", "small", "large")) if kind.name not in BIG else rng.choice(("", "large"))
    width, height = (round(side * SIZES[size]) for side in (kind.width, kind.height))
    left = SIDE // 2 - width // 2 + rng.randint(-10, 10)
    colour = rng.choice(kind.colours)
    pattern = _pattern(rng, kind)
    anchor = Thing(kind.name, colour, size, pattern, "", "", 0, left, BASE - height, left + width, BASE)
    things = [anchor]
    wanted = rng.choice((1, 2, 2, 3))
    offered = WORLD["kinds"]["anchors"][kind.name].get("slots", ())
    slots = ["left", "right", "front", "above", "left", "right", *offered, "behind left", "behind right"]
    used: set[tuple[str, str]] = {(anchor.kind, anchor.colour)}
    for group in range(1, wanted + 1):
        if not slots:
            break
        slot = rng.choice(slots)
        # Things behind the left side of a box would hide things to its left.
        side = slot.rpartition(" ")[2]
        slots = [one for one in slots if {one, slot} not in EXCLUSIVE and one.rpartition(" ")[2] != side]
        things += _group(rng, things, slot, group, used)
    if any(thing.slot == "in" for thing in things):
        things[0] = anchor._replace(open=True)
    outdoors = any(thing.kind in ("tree", "house", "car", "horse", "kite") for thing in things) or rng.random() < 0.4
    return Scene(tuple(things), "outdoors" if outdoors else "indoors")


def _group(rng: Random, things: list[Thing], slot: str, group: int, used: set[tuple[str, str]]) -> list[Thing]:
    """A group of equal things in a slot, or a person holding one; [] if none of `used` (kind, colour) is free."""
    anchor = things[0]
    count = min(rng.choices(*COUNTS)[0], MOST[slot])
    if anchor.kind == "chair" and slot in ("on", "under"):
        count = 1
    again = [thing for thing in things[1:] if thing.group == group - 1 and rng.random() < 0.3]
    offered = WORLD["slots"][slot]["kinds"]  # of single things, of two, …
    names = (SMALL if name == "small" else (name,) for name in offered[min(count, len(offered)) - 1])
    kind = KINDS[rng.choice([name for several in names for name in several if name != anchor.kind])]
    if again and slot in ("left", "right", "front", "on") and again[0].kind in SMALL:
        kind = KINDS[again[0].kind]  # the same kind in another colour: a colour may tell the two apart
    free = [colour for colour in kind.colours if (kind.name, colour) not in used]
    if not free or (kind.name in PEOPLE and any(thing.kind == kind.name for thing in things)):
        return []
    colour = rng.choice(free)
    pattern = _pattern(rng, kind)
    size = ""
    if count == 1 and kind.name not in (*PEOPLE, *BIG) and slot not in ("in", "under"):
        size = rng.choice(("", "", "small", "large"))
    used.add((kind.name, colour))
    poses = [pose for pose in kind.poses if (pose == "fly") == (slot == "above")]
    if slot in ("under", "in"):
        poses = [pose for pose in poses if pose != "stand"] or poses
    if slot.startswith("behind"):
        poses = [pose for pose in poses if pose == "stand"] or poses
    pose = rng.choice(poses) if poses else ""
    made = placed(rng, anchor, Thing(kind.name, colour, size, pattern, pose, slot, group, 0, 0, 0, 0), count)
    if count == 1 and kind.name in PEOPLE and slot in ("left", "right") and rng.random() < 0.75:
        return _holding(rng, made[0], len(things), used)
    return made


def _pattern(rng: Random, kind: Kind) -> str:
    return rng.choice(("", "", *PATTERNS)) if kind.patterned else ""


def _holding(rng: Random, person: Thing, number: int, used: set[tuple[str, str]]) -> list[Thing]:
    """A person and a thing held on the side away from the anchor; number: the person's index in the scene."""
    kind = KINDS[rng.choice(HELD)]
    colour = rng.choice([colour for colour in kind.colours if (kind.name, colour) not in used])
    used.add((kind.name, colour))
    width = round(kind.width * 0.8)
    height = round(kind.height * 0.8)
    reach = 0.08 * (person.right - person.left)
    hand = person.left + reach if person.slot == "left" else person.right - reach
    bottom = person.top + 0.5 * (person.bottom - person.top)
    bottom += 4 if kind.name in ("balloon", "umbrella", "kite") else height / 2
    box = _box(max(1.0, min(hand - width / 2, SIDE - 1.0 - width)), bottom, width, height)
    pattern = _pattern(rng, kind)
    held = Thing(kind.name, colour, "", pattern, "", person.slot, person.group + 100, *box, held=number)
    return [person._replace(holds=number + 1), held]


def placed(rng: Random, anchor: Thing, like: Thing, count: int) -> list[Thing]:
    """Up to `count` things like `like` from left to right in its slot; fewer if there is no room for more."""
    kind = KINDS[like.kind]
    slot = like.slot
    width = kind.width * SIZES[like.size]
    height = kind.height * SIZES[like.size] * (0.62 if like.pose in ("lie", "sleep") else 1)
    if slot.startswith("behind"):
        left = anchor.left - width * 0.55 if slot.endswith("left") else anchor.right - width * 0.45
        boxes = [_box(left, anchor.bottom - 10, width, height)]
    else:
        low, high, floor, tallest = _place(anchor, slot)

        def shrink() -> float:
            return min(1.0, (high - low - GAP * (count - 1)) / (width * count), tallest / height)

        while shrink() < SMALLEST and count > 1:
            count -= 1
        scale = shrink()
        width = width * scale
        height = height * scale
        spare = max(0.0, high - low - count * width - GAP * (count - 1))
        shift = {"left": 1.0, "right": 0.0}.get(slot)  # close to the anchor
        start = low + spare * (rng.random() if shift is None else shift)
        boxes = [_box(start + at * (width + GAP), floor, width, height) for at in range(count)]
    return [
        like._replace(left=left, top=top, right=right, bottom=bottom, holds=-1, held=-1)
        for left, top, right, bottom in boxes
    ]


def _place(anchor: Thing, slot: str) -> tuple[float, float, float, float]:
    """The left and right bound of a slot, the y where its things stand, and their greatest height."""
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
            shift = {"car": 0.25, "bed": 0.2, "chair": 0.18}.get(kind, 0.04) * wide
            return left + shift, right - shift, top + seat, 60
        case "under" if kind == "tree":
            return anchor.middle + 8, right, bottom, 0.4 * tall - 3
        case "under":
            return left + 0.1 * wide, right - 0.1 * wide, bottom, (0.5 if kind == "bench" else 0.7) * tall - 3
        case "in":
            return left + 6, right - 6, top + 0.4 * tall, 60
        case "left":
            return 3, left - GAP, bottom, 120
        case "right":
            return right + GAP, SIDE - 3, bottom, 120
        case "front":
            half = max(0.35 * wide, 34)
            return anchor.middle - half, anchor.middle + half, SIDE - 6, 34
    return left - 4, right + 4, max(48, min(top - 18, 76)), 40 if kind in BIG else 46


def _box(left: float, floor: float, width: float, height: float) -> tuple[int, int, int, int]:
    return round(left), round(floor - height), round(left + width), round(floor)
