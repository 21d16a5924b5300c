"""Find the scene of a negative: the least change of a scene after which the negative is true and the caption false."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

from .judge import OPINIONS, Answer, judge
from .world import ANCHORS, KINDS, MOST, PATTERNS, PEOPLE, Scene, Thing, placed


def counterpart(scene: Scene, caption: str, negative: str, rng: Random) -> Scene | None:
    """A scene that differs from `scene` in one group, in which the judge finds `negative` true and `caption` false or
    miscounted; `rng` chooses of several. None without, as for a negative with a word that no scene can show.
    """
    now = judge(negative, scene)
    if now.verdict is Answer.UNDECIDED and now.reason != OPINIONS:
        return None
    changed = list(variations(scene, rng))
    rng.shuffle(changed)
    for other in changed:
        if judge(negative, other).verdict is Answer.TRUE:
            if judge(caption, other).verdict in (Answer.FALSE, Answer.MISCOUNTED):
                return other
    return None


def variations(scene: Scene, rng: Random) -> Iterator[Scene]:
    """The scenes that differ in one group's colour, pattern, size, pose, kind, number or place, or in which two groups
    have exchanged kinds or colours. rng: for places inside a slot.
    """
    groups = [0, *scene.groups]
    for group in groups:
        first = _first(scene, group)
        if first.holds >= 0:
            continue
        kind = KINDS[first.kind]
        looks = {
            "colour": kind.colours,
            "pattern": ("", *PATTERNS) if kind.patterned else (),
            "pose": tuple(pose for pose in kind.poses if (pose == "fly") == (first.pose == "fly")),
        }
        for field, values in looks.items():
            for value in values:
                if value != getattr(first, field):
                    yield _replaced(scene, group, **{field: value})
        if group:
            yield from _with_group_changed(scene, group, rng)
        elif not first.open:
            for name in ANCHORS:
                colours = KINDS[name].colours
                colour = first.colour if first.colour in colours else colours[0]
                if name != first.kind:
                    yield _replaced(scene, 0, kind=name, colour=colour, pattern="")
    for one, other in combinations(groups, 2):
        first = _first(scene, one)
        second = _first(scene, other)
        if min(first.holds, second.holds) >= 0:
            continue
        if second.colour in KINDS[first.kind].colours and first.colour in KINDS[second.kind].colours:
            yield _replaced(_replaced(scene, one, colour=second.colour), other, colour=first.colour)
        if one:
            counts = len(scene.group(one)), len(scene.group(other))
            for made in _with_group(scene, one, second._replace(slot=first.slot), counts[0], rng):
                yield from _with_group(made, other, first._replace(slot=second.slot), counts[1], rng)


def _first(scene: Scene, group: int) -> Thing:
    return scene.things[scene.group(group)[0]]


def _replaced(scene: Scene, group: int, **looks: str) -> Scene:
    things = (thing._replace(**looks) if thing.group == group else thing for thing in scene.things)  # type: ignore[arg-type]
    return scene._replace(things=tuple(things))


def _with_group_changed(scene: Scene, group: int, rng: Random) -> Iterator[Scene]:
    """All scenes that differ from this one in one group of equal things: its number, its kind, or its place (slot)."""
    first = _first(scene, group)
    count = len(scene.group(group))
    for number in range(1, MOST[first.slot] + 1):
        if number != count:
            yield from _with_group(scene, group, first, number, rng)
    for kind in KINDS.values():
        belongs = (first.slot == "above") == ("fly" in kind.poses)  # what flies is above, and nothing else is
        if kind.name == first.kind or kind.name in ANCHORS or not belongs:
            continue
        colour = first.colour if first.colour in kind.colours else rng.choice(kind.colours)
        pose = rng.choice(kind.poses) if kind.poses else ""
        pattern = first.pattern if kind.patterned else ""
        if kind.name not in PEOPLE or all(thing.kind != kind.name for thing in scene.things):
            like = first._replace(kind=kind.name, colour=colour, pose=pose, pattern=pattern)
            yield from _with_group(scene, group, like, count, rng)
    taken = {thing.slot for thing in scene.things if thing.group != group}
    for slot, most in MOST.items():
        if slot not in taken and slot != first.slot and count <= most:
            yield from _with_group(scene, group, first._replace(slot=slot), count, rng)


def _with_group(scene: Scene, group: int, like: Thing, count: int, rng: Random) -> Iterator[Scene]:
    """The scene with `count` things like `like` instead of a group; none if its slot has no room for them."""
    if scene.group(100 + group):
        return
    things = placed(rng, scene.things[0], like._replace(group=group), count)
    at = scene.group(group)[0]
    kept = [thing for thing in scene.things if thing.group != group]
    made = [*kept[:at], *things, *kept[at:]]
    if len(things) != count or any(thing.holds >= 0 for thing in made):
        return  # where someone holds something, the indices of things would change
    made[0] = made[0]._replace(open=any(thing.slot == "in" for thing in made))
    yield scene._replace(things=tuple(made))
