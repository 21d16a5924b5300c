"""Find the scene of a negative: the least change of a scene after which the negative is true and the caption false."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from .judge import OPINIONS, SceneVerdict, judge
from .world import ANCHORS, HELD_GROUP, KINDS, MOST, PATTERNS, PEOPLE, Scene, Thing, place_group


def counterpart(scene: Scene, caption: str, negative: str, rng: Random) -> Scene | None:
    """Change one group of a scene so that a negative becomes true of it, and its caption false (or miscounted).

    `rng` chooses if several changes do that. Returns None if none does, for example if the negative has a word that no
    scene can show.
    """
    now = judge(negative, scene)
    # Undecided for another reason than opinions: the sentence cannot be read, of this scene or of any other.
    if now.verdict is SceneVerdict.UNDECIDED and now.reason != OPINIONS:
        return None
    candidates = list(variations(scene, rng))
    rng.shuffle(candidates)
    for candidate in candidates:
        if judge(negative, candidate).verdict is SceneVerdict.TRUE:
            if judge(caption, candidate).verdict in (SceneVerdict.FALSE, SceneVerdict.MISCOUNTED):
                return candidate
    return None


def variations(scene: Scene, rng: Random) -> Iterator[Scene]:
    """Vary a scene in one respect: the colour, pattern, size, pose, kind, number or place of one group of things.

    Further scenes are those in which two groups have exchanged kinds or colours. `rng` draws places inside a slot.
    """
    groups = [0, *scene.groups]  # 0 is that of the anchor, the thing in the middle
    for group in groups:
        first = _first_thing(scene, group)
        # A person with something in the hand stays as drawn: what is held was placed by the hand.
        if first.holds >= 0:
            continue
        yield from _with_other_looks(scene, group)
        if group:
            yield from _with_group_changed(scene, group, rng)
        elif not first.open:  # an anchor with something in it cannot become a thing that holds nothing
            yield from _with_other_anchors(scene)
    for group, other in combinations(groups, 2):
        # Two people who both hold something do not exchange anything.
        both_hold = all(_first_thing(scene, number).holds >= 0 for number in (group, other))
        if not both_hold:
            yield from _with_exchanged(scene, group, other, rng)


def _with_other_looks(scene: Scene, group: int) -> Iterator[Scene]:
    """All scenes that differ from this one in the colour, the pattern or the pose of one group of equal things."""
    first = _first_thing(scene, group)
    kind = KINDS[first.kind]
    looks = {
        "colour": kind.colours,
        "pattern": ("", *PATTERNS) if kind.patterned else (),
        # "fly" is the pose of what is above the anchor, and of nothing else.
        "pose": tuple(pose for pose in kind.poses if (pose == "fly") == (first.pose == "fly")),
    }
    for field, values in looks.items():
        for value in values:
            if value != getattr(first, field):
                yield _with_looks(scene, group, **{field: value})


def _with_other_anchors(scene: Scene) -> Iterator[Scene]:
    """All scenes with another kind of thing in the middle, where possible in the same colour."""
    anchor = scene.things[0]
    for name in ANCHORS:
        if name != anchor.kind:
            colours = KINDS[name].colours
            colour = anchor.colour if anchor.colour in colours else colours[0]
            yield _with_looks(scene, 0, kind=name, colour=colour, pattern="")


def _with_exchanged(scene: Scene, group: int, other: int, rng: Random) -> Iterator[Scene]:
    """Up to two kinds of scenes: one with the colours of two groups exchanged, and those with the groups in each
    other's place. A kind that is impossible is left out.

    group, other: the numbers of the two; group may be 0, that of the anchor, which stays in its place. rng: chooses
    where things stand.
    """
    first = _first_thing(scene, group)
    second = _first_thing(scene, other)
    if second.colour in KINDS[first.kind].colours and first.colour in KINDS[second.kind].colours:
        yield _with_looks(_with_looks(scene, group, colour=second.colour), other, colour=first.colour)
    # The anchor stays in the middle.
    if group:
        # Each slot keeps its number of things; only what stands there is exchanged.
        number = len(scene.group(group))
        number_of_other = len(scene.group(other))
        for changed in _with_group_replaced(scene, group, second._replace(slot=first.slot), number, rng):
            yield from _with_group_replaced(changed, other, first._replace(slot=second.slot), number_of_other, rng)


def _first_thing(scene: Scene, group: int) -> Thing:
    """The first thing of a group, given by number; all things of a group are equal but for their places."""
    return scene.things[scene.group(group)[0]]


def _with_looks(scene: Scene, group: int, **looks: str) -> Scene:
    """The scene with fields of all things of a group replaced: `_with_looks(scene, 2, colour="red")`."""
    things = []
    for thing in scene.things:
        things.append(Thing(**{**thing._asdict(), **looks}) if thing.group == group else thing)
    return scene._replace(things=tuple(things))


def _with_group_changed(scene: Scene, group: int, rng: Random) -> Iterator[Scene]:
    """All scenes that differ from this one in one group of equal things: its number, its kind, or its place (slot)."""
    first = _first_thing(scene, group)
    count = len(scene.group(group))
    # Another number of the same things.
    for number in range(1, MOST[first.slot] + 1):
        if number != count:
            yield from _with_group_replaced(scene, group, first, number, rng)
    # The same number of another kind; only one boy and one girl may be in a scene.
    for kind in KINDS.values():
        # What flies is above, and nothing else is.
        belongs = (first.slot == "above") == ("fly" in kind.poses)
        if kind.name == first.kind or kind.name in ANCHORS or not belongs:
            continue
        colour = first.colour if first.colour in kind.colours else rng.choice(kind.colours)
        pose = rng.choice(kind.poses) if kind.poses else ""
        pattern = first.pattern if kind.patterned else ""
        if kind.name not in PEOPLE or all(thing.kind != kind.name for thing in scene.things):
            like = first._replace(kind=kind.name, colour=colour, pose=pose, pattern=pattern)
            yield from _with_group_replaced(scene, group, like, count, rng)
    # The same things in another slot, if that is free and has room for so many.
    taken_slots = {thing.slot for thing in scene.things if thing.group != group}
    for slot, most in MOST.items():
        if slot not in taken_slots and slot != first.slot and count <= most:
            yield from _with_group_replaced(scene, group, first._replace(slot=slot), count, rng)


def _with_group_replaced(scene: Scene, group: int, like: Thing, count: int, rng: Random) -> Iterator[Scene]:
    """The scene with another group in the place of group number `group`; none if the slot has no room for it.

    The new group has `count` things like `like`, which has their slot. rng: chooses where they stand.
    """
    # Somebody of the group holds something, which has its own place.
    if scene.group(HELD_GROUP + group):
        return
    things = place_group(rng, scene.things[0], like._replace(group=group), count)
    position = scene.group(group)[0]
    others = [thing for thing in scene.things if thing.group != group]
    changed = [*others[:position], *things, *others[position:]]
    # `holds` and `held` are indices of things, which would be wrong after an insertion or deletion.
    if len(things) != count or any(thing.holds >= 0 for thing in changed):
        return
    # A box is drawn open if there is something in it.
    changed[0] = changed[0]._replace(open=any(thing.slot == "in" for thing in changed))
    yield scene._replace(things=tuple(changed))
