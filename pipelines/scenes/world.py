"""The contents of synthetic scenes: kinds of things with their colours, patterns, poses and sizes in pixels."""

from __future__ import annotations

from typing import NamedTuple

SIDE = 224

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "blue": (41, 98, 214),
    "green": (46, 150, 60),
    "yellow": (246, 209, 45),
    "purple": (130, 60, 170),
    "pink": (246, 140, 190),
    "black": (40, 40, 44),
    "white": (248, 248, 246),
    "brown": (134, 84, 42),
}
BRIGHT = ("red", "blue", "green", "yellow", "purple", "pink", "black", "white")
FURS = ("brown", "black", "white")
WOODS = ("brown", "white", "black", "red", "green", "blue")
PATTERNS = ("striped", "spotted")
SIZES = {"small": 0.68, "": 0.84, "large": 1.0}


class Kind(NamedTuple):
    """A kind of thing: its names, its largest width and height in pixels, and its possible attributes and poses."""

    name: str
    plural: str
    width: int
    height: int
    colours: tuple[str, ...] = BRIGHT
    patterned: bool = False
    poses: tuple[str, ...] = ()


def _kinds(*kinds: Kind) -> dict[str, Kind]:
    return {kind.name: kind for kind in kinds}


KINDS = _kinds(
    # anchors: other things are on, under, in or beside them
    Kind("table", "tables", 92, 54, WOODS),
    Kind("bench", "benches", 92, 44, WOODS),
    Kind("bed", "beds", 104, 50, BRIGHT),
    Kind("chair", "chairs", 44, 66, WOODS),
    Kind("box", "boxes", 66, 44, (*BRIGHT, "brown"), patterned=True),
    Kind("basket", "baskets", 70, 42, ("brown", "yellow", "red", "white")),
    Kind("car", "cars", 92, 44),
    Kind("house", "houses", 84, 92, ("red", "blue", "yellow", "white", "pink", "brown")),
    Kind("tree", "trees", 74, 108, ("green", "yellow", "red", "pink")),
    # things
    Kind("ball", "balls", 26, 26, BRIGHT, patterned=True),
    Kind("cup", "cups", 22, 20, BRIGHT, patterned=True),
    Kind("book", "books", 24, 18, (*BRIGHT, "brown")),
    Kind("hat", "hats", 28, 20, (*BRIGHT, "brown"), patterned=True),
    Kind("vase", "vases", 18, 32, BRIGHT, patterned=True),
    Kind("lamp", "lamps", 22, 36, BRIGHT),
    Kind("clock", "clocks", 24, 26, BRIGHT),
    Kind("apple", "apples", 22, 24, ("red", "green", "yellow")),
    Kind("umbrella", "umbrellas", 40, 42, BRIGHT, patterned=True),
    Kind("balloon", "balloons", 22, 42, ("red", "blue", "green", "yellow", "purple", "pink"), patterned=True),
    Kind("kite", "kites", 34, 46, ("red", "blue", "green", "yellow", "purple", "pink"), patterned=True),
    # animals and people
    Kind("dog", "dogs", 46, 40, FURS, poses=("sit", "stand", "lie", "sleep")),
    Kind("cat", "cats", 38, 36, (*FURS, "yellow"), poses=("sit", "stand", "lie", "sleep")),
    Kind("horse", "horses", 60, 56, FURS, poses=("stand", "lie")),
    Kind("bird", "birds", 28, 24, ("red", "blue", "yellow", "black", "white", "brown"), poses=("stand", "fly")),
    Kind("boy", "boys", 30, 66, ("",), poses=("stand",)),
    Kind("girl", "girls", 30, 66, ("",), poses=("stand",)),
)
LIVING = frozenset(kind.name for kind in KINDS.values() if kind.poses)
PEOPLE = frozenset(["boy", "girl"])
FLOATING = ("balloon", "kite", "bird")
HELD = ("balloon", "umbrella", "kite", "ball", "cup", "book")
SMALL = ("ball", "cup", "book", "hat", "vase", "lamp", "clock", "apple")
SUPPORTS = ("table", "bench", "bed", "chair", "box", "car")
ROOFS = ("table", "bench", "tree")  # other things may be under them
CONTAINERS = ("box", "basket")
ANCHORS = ("table", "bench", "bed", "chair", "box", "basket", "car", "house", "tree")
MOST = {
    "on": 5,
    "under": 3,
    "in": 3,
    "left": 3,
    "right": 3,
    "front": 3,
    "behind left": 1,
    "behind right": 1,
    "above": 4,
}


class Thing(NamedTuple):
    """One thing in a scene: what it is, its box in pixels, and where it is relative to the scene's anchor.

    slot: on, under, in, left, right, front, behind left, behind right, above; "" for the anchor itself. group: 0 for
    the anchor, from 1 for the things around it, 100 + the person's group for a held thing. open: a box or basket has
    something in it. holds: index in the scene of the thing that a person holds, held: that of the person who holds
    this thing; -1 for none.
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

    @property
    def attributes(self) -> tuple[str, ...]:
        """Size, colour and pattern of the thing, as far as it has them."""
        return tuple(word for word in (self.size, self.colour, self.pattern) if word)


class Scene(NamedTuple):
    """The content of an image: the anchor first, then the things around it; setting: "indoors" or "outdoors"."""

    things: tuple[Thing, ...]
    setting: str

    def group(self, number: int) -> list[int]:
        """The indices of a group's things."""
        return [at for at, thing in enumerate(self.things) if thing.group == number]
