"""What is true of a scene: relations and looks of its things, sentences about it, and the table `scenes`. A verdict is
True, False, or None for a matter of opinion. A slot determines relations to the anchor; other things are compared by
where they are drawn, with wide margins. A sentence is judged over all its readings and all assignments of things to its
entities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import chain, combinations, product
from typing import Any, NamedTuple

from .reader import Condition, Entity, Reading, UnreadError, claims, read
from .world import LIVING, PEOPLE, RELATIONS, VERBS, WORLD, Scene, Thing

Verdict = bool | None
UNSURE = None
_GROUPS: dict[str, list[str]] = WORLD["relations"]
ON, UNDER, IN, ABOVE, BESIDE, LEFT, RIGHT, FRONT, BEHIND = _GROUPS.values()
NEAR = ("near", "by", "close to")
SHIFT = 24
FAR = 100  # pixels
OPINIONS = "opinions differ"  # the reason if the words of a sentence are a matter of opinion
Chosen = tuple[tuple[int, ...], ...]  # for each entity of a reading the indices of things


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
    a = scene.things[one]
    b = scene.things[other]
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
    apart = b.middle - a.middle
    slots = {a.slot, b.slot}
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
    """A scene as a row of `scenes`: its things, true relations, and matters of opinion; sha256: of the image file."""
    said: dict[Verdict, list[dict[str, Any]]] = {True: [], UNSURE: [], False: []}
    for one, thing in enumerate(scene.things):
        for other, second in enumerate(scene.things):
            for relation in RELATIONS if second.group != thing.group else ():
                verdict = holds(relation, scene, one, other)
                said[verdict].append({"subject": one, "relation": relation, "object": other})
        if thing.holds >= 0:
            said[True].append({"subject": one, "relation": "hold", "object": thing.holds})
    counts = sorted(Counter(thing.kind for thing in scene.things).items())
    told: dict[str, Any] = {"relations": said[True], "opinions": said[UNSURE]}
    told["objects"] = [dict(zip(("object", *Thing._fields[1:]), thing, strict=True)) for thing in scene.things]
    told["counts"] = [{"object": kind, "count": count} for kind, count in counts]
    return {"image_id": image_id, "split": split, "setting": scene.setting, **told, "sha256": sha256}


def scene_of(row: Mapping[str, Any]) -> Scene:
    """The scene that a row of the table `scenes` describes."""
    things = ({("kind" if name == "object" else name): value for name, value in one.items()} for one in row["objects"])
    return Scene(tuple(Thing(**thing) for thing in things), row["setting"])


class Answer(Enum):
    """A judge's answer: true, false, miscounted (true in logic but not in usage: "a dog" of three), or undecided."""

    TRUE = "true"
    FALSE = "false"
    MISCOUNTED = "miscounted"
    UNDECIDED = "undecided"


class Judgement(NamedTuple):
    """A verdict, and the reason if it is UNDECIDED, else ""."""

    verdict: Answer
    reason: str = ""


def judge(text: str, scene: Scene) -> Judgement:
    """Judge whether a sentence is true of a scene. FALSE: no reading is true under any assignment of entities to
    things, also with matters of opinion in its favour. MISCOUNTED: true in logic only ("a dog" of three). UNDECIDED: it
    cannot be read, or depends on opinion. With a denial it makes several claims: TRUE if all hold, FALSE if one surely
    does not.
    """
    stated = claims(text)
    if stated is None:
        return _judge_assertion(text, scene)
    judged = []
    for claim in stated:
        judged.append(_judge_assertion(claim.text, scene))
        verdict = judged[-1].verdict
        if not claim.true:  # then it must not be true in logic either
            opposite = {Answer.FALSE: Answer.TRUE, Answer.UNDECIDED: Answer.UNDECIDED}
            judged[-1] = judged[-1]._replace(verdict=opposite.get(verdict, Answer.FALSE))
        elif verdict is Answer.MISCOUNTED and not claim.exact:
            judged[-1] = judged[-1]._replace(verdict=Answer.TRUE)
    order = (Answer.FALSE, Answer.UNDECIDED, Answer.MISCOUNTED, Answer.TRUE)
    return min(judged, key=lambda one: order.index(one.verdict))


def _judge_assertion(text: str, scene: Scene) -> Judgement:
    try:
        readings = read(text)
    except UnreadError as error:
        return Judgement(Answer.UNDECIDED, str(error))
    verdicts = {_of_reading(reading, scene) for reading in readings}
    order = (Answer.TRUE, Answer.UNDECIDED, Answer.MISCOUNTED, Answer.FALSE)
    verdict = min(verdicts, key=order.index)
    return Judgement(verdict, OPINIONS if verdict is Answer.UNDECIDED else "")


def _of_reading(reading: Reading, scene: Scene) -> Answer:
    """Judge one reading: TRUE if an assignment is surely true with exact counts, FALSE if none can be true."""
    found = Answer.FALSE
    for chosen in _assignments(reading, scene):
        fit = (
            _fits(entity, scene, at) for entity, things in zip(reading.entities, chosen, strict=True) for at in things
        )
        met = (_meets(one, scene, at, chosen) for one in reading.conditions for at in chosen[one.one])
        verdict = _all(chain(fit, met))
        if verdict is False:
            continue
        counted = all(_counts(reading, scene, chosen, at) for at in range(len(reading.entities)))
        if verdict is True and counted:
            return Answer.TRUE
        if counted:
            found = Answer.UNDECIDED
        elif found is Answer.FALSE:
            found = Answer.MISCOUNTED
    return found


def _assignments(reading: Reading, scene: Scene) -> Iterator[Chosen]:
    """Every assignment of things to the entities: as many things as each entity says, fitting it, none used twice."""
    options = []
    for entity in reading.entities:
        fitting = [at for at in range(len(scene.things)) if _fits(entity, scene, at) is not False]
        sizes = [entity.number] if entity.number else range(2, len(fitting) + 1)
        options.append([chosen for size in sizes for chosen in combinations(fitting, size)])
    for chosen in product(*options):
        if len(set().union(*chosen)) == sum(map(len, chosen)):
            yield chosen


def _fits(entity: Entity, scene: Scene, at: int) -> Verdict:
    thing = scene.things[at]
    return thing.kind == entity.kind and _all(has(attribute, thing) for attribute in entity.attributes)


def _meets(condition: Condition, scene: Scene, at: int, chosen: Chosen) -> Verdict:
    """Whether one thing meets a condition; a relation to several things must hold to each, a verb to any of them."""
    if condition.what == "attribute":
        return has(condition.word, scene.things[at])
    if condition.what == "verb" and condition.other < 0:
        return is_doing(condition.word, scene.things[at])
    others = chosen[condition.other]
    if condition.what == "verb":
        if scene.things[at].holds not in others:  # holding is the only action in scenes
            return False
        return True if condition.word in ("hold", "carry") else UNSURE
    return _all(holds(condition.word, scene, at, other) for other in others)


def _counts(reading: Reading, scene: Scene, chosen: Chosen, at: int) -> bool:
    """Whether entity `at` counts exactly: no other thing of the scene surely meets all that is said of the entity."""
    if not reading.entities[at].number:
        return True
    about = [condition for condition in reading.conditions if at in (condition.one, condition.other)]
    for thing in range(len(scene.things)):
        if thing in chosen[at] or _fits(reading.entities[at], scene, thing) is not True:
            continue
        pointed = (*chosen[:at], (thing,), *chosen[at + 1 :])
        if all(_meets(one, scene, it, pointed) is True for one in about for it in pointed[one.one]):
            return False
    return True


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    """The conjunction of three-valued verdicts: False if any is, else None (unsure) if any is, else True."""
    unsure = False
    for verdict in verdicts:
        if verdict is False:
            return False
        unsure |= verdict is None
    return None if unsure else True
