"""Draw the scene of a negative: the least change of a scene after which the negative is true and the caption false."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from .judge import OPINIONS, Answer, judge
from .layout import regrouped
from .world import ANCHORS, KINDS, MOST, PATTERNS, PEOPLE, SIZES, Scene, Thing

MOST_THINGS = 5
FALSE = (Answer.FALSE, Answer.MISCOUNTED)  # "two cups" of three is as false as it is of a negative


def counterpart(scene: Scene, caption: str, negative: str, rng: Random) -> Scene | None:
    """A scene that differs from `scene` in one group of things, in which `negative` is true and `caption` is false.

    The judge decides both. Of several such scenes, `rng` chooses one; None if there is none, as for a negative with a
    word that no scene can show.
    """
    now = judge(negative, scene)
    if now.verdict is Answer.UNDECIDED and now.reason != OPINIONS:
        return None
    changed = list(variations(scene, rng))
    rng.shuffle(changed)
    for other in changed:
        if judge(negative, other).verdict is Answer.TRUE and judge(caption, other).verdict in FALSE:
            return other
    return None


def variations(scene: Scene, rng: Random) -> Iterator[Scene]:
    """The scenes that differ in one group: its colour, pattern, size, pose, kind, number or place; and those in which
    two groups have exchanged their kinds or colours. rng: for places inside a slot.
    """
    groups = sorted({thing.group for thing in scene.things if thing.group < 100})
    for group in groups:
        things = [scene.things[at] for at in scene.group(group)]
        first = things[0]
        if any(thing.holds >= 0 for thing in things):
            continue
        for field, values in _looks(first).items():
            for value in values:
                if value != getattr(first, field):
                    yield _replaced(scene, group, **{field: value})
        if group:
            yield from _regrouped(scene, group, first, len(things), rng)
        else:
            yield from (
                _replaced(scene, 0, kind=kind, colour=colour, pattern="")
                for kind in ANCHORS
                if kind != first.kind and not first.open
                for colour in ([first.colour] if first.colour in KINDS[kind].colours else KINDS[kind].colours[:1])
            )
    for one in groups:
        for other in groups:
            if one < other:
                yield from _exchanged(scene, one, other, rng)


def _looks(thing: Thing) -> dict[str, tuple[str, ...]]:
    kind = KINDS[thing.kind]
    poses = tuple(pose for pose in kind.poses if (pose == "fly") == (thing.pose == "fly"))
    return {"colour": kind.colours, "pattern": ("", *PATTERNS) if kind.patterned else (), "pose": poses}


def _replaced(scene: Scene, group: int, **looks: str) -> Scene:
    return scene._replace(
        things=tuple(thing._replace(**looks) if thing.group == group else thing for thing in scene.things)  # type: ignore[arg-type]
    )


def _regrouped(scene: Scene, group: int, first: Thing, count: int, rng: Random) -> Iterator[Scene]:
    """The scenes in which a group has another number, another kind or another slot."""
    for number in range(1, min(MOST[first.slot], MOST_THINGS) + 1):
        if number != count:
            yield from _with_group(scene, group, first, number, rng)
    for kind in KINDS.values():
        if kind.name != first.kind and kind.name not in ANCHORS and (first.slot == "above") == ("fly" in kind.poses):
            colour = first.colour if first.colour in kind.colours else rng.choice(kind.colours)
            pose = rng.choice(kind.poses) if kind.poses else ""
            pattern = first.pattern if kind.patterned else ""
            if kind.name in PEOPLE and any(thing.kind == kind.name for thing in scene.things):
                continue
            made = first._replace(kind=kind.name, colour=colour, pose=pose, pattern=pattern)
            yield from _with_group(scene, group, made, count, rng)
    taken = {thing.slot for thing in scene.things if thing.group != group}
    for slot in MOST:
        if slot not in taken and slot != first.slot and count <= MOST[slot]:
            yield from _with_group(scene, group, first._replace(slot=slot), count, rng)


def _exchanged(scene: Scene, one: int, other: int, rng: Random) -> Iterator[Scene]:
    """The scenes in which two groups have exchanged their colours, or all but their places and numbers."""
    pairs = [(scene.things[scene.group(group)[0]], len(scene.group(group))) for group in (one, other)]
    (first, many), (second, several) = pairs
    if min(first.holds, second.holds) >= 0:
        return
    if second.colour in KINDS[first.kind].colours and first.colour in KINDS[second.kind].colours:
        yield _replaced(_replaced(scene, one, colour=second.colour), other, colour=first.colour)
    if not one:
        return
    for made in _with_group(scene, one, second._replace(slot=first.slot, group=one), many, rng):
        yield from _with_group(made, other, first._replace(slot=second.slot, group=other), several, rng)


def _with_group(scene: Scene, group: int, like: Thing, count: int, rng: Random) -> Iterator[Scene]:
    """The scene with `count` things like `like` instead of a group; none if its slot has no room for them."""
    if any(thing.group == 100 + group for thing in scene.things):
        return
    things = regrouped(scene.things[0], like._replace(group=group), count, SIZES[like.size], rng)
    if len(things) != count:
        return
    at = scene.group(group)
    kept = [thing for thing in scene.things if thing.group != group]
    made = [*kept[: at[0]], *things, *kept[at[0] :]]
    if any(thing.holds >= 0 or thing.held >= 0 for thing in made):
        return  # indices of things would change
    inside = any(thing.slot == "in" for thing in made)
    made[0] = made[0]._replace(open=inside)
    yield scene._replace(things=tuple(made))
