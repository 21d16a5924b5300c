"""What is true of a scene: relations and looks of its things, sentences about it, and the table `scenes`.

Whether something holds is True, False, or None for a matter of opinion. A slot determines relations to the anchor;
other things are compared by where they are drawn, with wide margins. A sentence is judged over all its readings and all
assignments of things to its entities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

from .reader import Claim, Condition, Entity, Reading, UnreadError, claims, read
from .world import LIVING, PEOPLE, RELATIONS, VERBS, WORLD, Scene, Thing

UNSURE = None  # people may disagree
Truth = bool | None  # True, False or UNSURE
_GROUPS: dict[str, list[str]] = WORLD["relations"]
ON, UNDER, IN, ABOVE, BESIDE, LEFT, RIGHT, FRONT, BEHIND = _GROUPS.values()
NEAR = ("near", "by", "close to")
# Margins in pixels, within which people would disagree about what is left of, above or far from what.
SHIFT = 24
FAR = 100
# The reason if the words of a sentence are a matter of opinion.
OPINIONS = "opinions differ"
# For each entity of a reading, the indices of the things of the scene that it is taken to mean.
Assignment = tuple[tuple[int, ...], ...]


@cache
def _relation_to_anchor(relation: str, slot: str, *, reverse: bool = False) -> Truth:
    """Whether a relation such as "on top of" holds from a thing in a slot, such as "left", to the anchor.

    It is as scenes.toml says. reverse: from the anchor to the thing instead, "the table is under the cup".
    """
    groups = {name for name, words in {**_GROUPS, "near": NEAR}.items() if relation in words}
    # The lists of a slot are true, unsure, back_true and back_unsure; each has names of groups of relations.
    lists_of_slot = WORLD["slots"][slot]
    prefix = "back_" if reverse else ""
    if groups & set(lists_of_slot[f"{prefix}true"]):
        return True
    return UNSURE if groups & set(lists_of_slot[f"{prefix}unsure"]) else False


def relation_holds(relation: str, scene: Scene, subject: int, target: int) -> Truth:
    """Whether a relation such as "on" holds from one thing of a scene to another; UNSURE where people may disagree.

    subject, target: the indices of the things: subject is on target.
    """
    if subject == target:
        return False
    first = scene.things[subject]
    second = scene.things[target]
    # A vague preposition: "a girl with a balloon" is true if she holds it, any other use is a matter of opinion.
    if relation not in RELATIONS:
        return True if relation == "with" and target == first.holds else UNSURE
    if relation in LEFT:
        return _is_left_of(first, second)
    if relation in RIGHT:
        return _is_left_of(second, first)
    # One of the two things holds the other.
    if first.held == target or second.held == subject:
        return False if relation in (*ON, *UNDER, *IN) else UNSURE
    # A held thing is on or in what its holder is on or in; all else is a matter of opinion.
    if first.held >= 0:
        return relation_holds(relation, scene, first.held, target) if relation in (*ON, *IN) else UNSURE
    if target == 0:
        return _relation_to_anchor(relation, first.slot)
    if subject == 0 and second.held < 0:
        return _relation_to_anchor(relation, second.slot, reverse=True)
    return _relation_between_others(relation, first, second)


def _relation_between_others(relation: str, first: Thing, second: Thing) -> Truth:
    """Whether a relation other than left and right holds between two things around the anchor.

    It is surely false or a matter of opinion, never surely true: how such things stand to each other was not planned.
    """
    # Only the anchor has things on it or in it.
    if relation in (*ON, *IN):
        return False
    # Opinions differ within margins: FAR between things side by side, a third of SHIFT between their lower edges.
    if relation in BESIDE:
        gap = max(first.left, second.left) - min(first.right, second.right)  # in pixels, below 0 if they overlap
        return False if relation not in NEAR and gap > FAR else UNSURE
    if relation in (*ABOVE, *UNDER):
        upper, lower = (first, second) if relation in ABOVE else (second, first)
        # y grows downwards: what stands lower in the picture is surely not above the other.
        return UNSURE if upper.bottom < lower.bottom - SHIFT / 3 else False
    # In front of and behind: things to the left and to the right of the anchor stand at the same depth.
    return False if {first.slot, second.slot} <= {"left", "right"} else UNSURE


def _is_left_of(first: Thing, second: Thing) -> Truth:
    """Whether the first of two things is to the left of the second, by their slots and where they are drawn."""
    shift = second.middle - first.middle  # in pixels, above 0 if the first is further left
    slots = {first.slot, second.slot}
    stand_side_by_side = bool(slots & {"left", "right"}) and slots <= {"left", "right", ""}
    if first.right <= second.left and stand_side_by_side:
        return True
    # What is on, under or in the anchor is not beside it, even if it is drawn a little to the left of its middle.
    are_one_stack = slots <= {"", "on", "under", "in"}
    if shift <= -SHIFT / 2 or (shift < SHIFT / 2 and are_one_stack):
        return False
    return UNSURE


def is_doing(verb: str, thing: Thing) -> Truth:
    """Whether a verb is true of a thing, by its pose; inanimate things sit, stand, lie and rest wherever they are."""
    if thing.kind not in LIVING:
        if verb in ("fly", "float"):
            if thing.slot != "above":
                return False
            # Of a kite all people say that it flies, and of a balloon that it floats; of other things only some do.
            return True if thing.kind == {"fly": "kite", "float": "balloon"}[verb] else UNSURE
        if verb in ("sit", "stand", "lie", "rest"):
            return True
        return False if verb == "sleep" else UNSURE
    # People say that a standing bird sits.
    if verb not in VERBS or (thing.kind == "bird" and thing.pose == "stand" and verb in ("sit", "rest", "lie")):
        return UNSURE
    if thing.pose in VERBS[verb]["true"]:
        return True
    return UNSURE if thing.pose in VERBS[verb]["unsure"] else False


def has_attribute(attribute: str, thing: Thing) -> Truth:
    """Whether an attribute is true of a thing; sizes of things without a size are a matter of opinion."""
    size = {"big": "large", "little": "small", "tiny": "small", "huge": "large"}.get(attribute, attribute)
    if size in ("small", "large"):
        return size == thing.size if thing.size else UNSURE
    if attribute in VERBS:  # "a sleeping dog"
        return is_doing(attribute, thing)
    if thing.kind in PEOPLE:
        return UNSURE
    if attribute == "white" and thing.pattern and thing.colour != "white":
        # The stripes or spots are white.
        return UNSURE
    return attribute in (thing.colour, thing.pattern)


def scene_row(image_id: str, split: str, scene: Scene, sha256: str) -> dict[str, object]:
    """A scene as a row of the table scenes: its things, true relations, and relations that are a matter of opinion.

    Args:
        image_id: of the picture of the scene.
        split: of the picture, such as train.
        scene: the things that it shows.
        sha256: of the file of the picture.
    """
    # By truth, the relations between two things: {"subject": 1, "relation": "on", "object": 0}, the numbers of things.
    stated: dict[Truth, list[dict[str, object]]] = {True: [], UNSURE: [], False: []}
    for subject, thing in enumerate(scene.things):
        for target, other in enumerate(scene.things):
            # Equal things of one group: nobody would state how they stand to each other.
            if other.group == thing.group:
                continue
            for relation in RELATIONS:
                fact = {"subject": subject, "relation": relation, "object": target}
                stated[relation_holds(relation, scene, subject, target)].append(fact)
        if thing.holds >= 0:
            stated[True].append({"subject": subject, "relation": "hold", "object": thing.holds})
    counts = sorted(Counter(thing.kind for thing in scene.things).items())
    # The kind of a thing is its `object` in the table.
    columns = ("object", *Thing._fields[1:])
    return {
        "image_id": image_id,
        "split": split,
        "setting": scene.setting,
        "relations": stated[True],
        "opinions": stated[UNSURE],
        "objects": [dict(zip(columns, thing, strict=True)) for thing in scene.things],
        "counts": [{"object": kind, "count": count} for kind, count in counts],
        "sha256": sha256,
    }


def scene_of(row: Mapping[str, Any]) -> Scene:
    """The scene that a row of the table `scenes` describes."""
    things = []
    for stored in row["objects"]:
        looks = {name: value for name, value in stored.items() if name != "object"}
        things.append(Thing(kind=stored["object"], **looks))
    return Scene(tuple(things), row["setting"])


class SceneVerdict(Enum):
    """Whether a sentence is true of a scene; miscounted: true in logic but not in usage ("a dog" of three)."""

    TRUE = "true"
    FALSE = "false"
    MISCOUNTED = "miscounted"
    UNDECIDED = "undecided"


class Judgement(NamedTuple):
    """A verdict, and the reason if it is UNDECIDED, else ""."""

    verdict: SceneVerdict
    reason: str = ""


# If a sentence has several readings, the best verdict counts; if it makes several claims, the worst.
BEST_FIRST = (SceneVerdict.TRUE, SceneVerdict.UNDECIDED, SceneVerdict.MISCOUNTED, SceneVerdict.FALSE)
WORST_FIRST = (SceneVerdict.FALSE, SceneVerdict.UNDECIDED, SceneVerdict.MISCOUNTED, SceneVerdict.TRUE)


def judge(text: str, scene: Scene) -> Judgement:
    """Judge whether a sentence is true of a scene.

    FALSE: no reading is true under any assignment of entities to things, also with matters of opinion in its favour.
    MISCOUNTED: it is true only in logic, where "a dog" is true of three. UNDECIDED: it cannot be read, or depends on
    opinion. A sentence with a denial makes several claims: TRUE if all hold, FALSE if one surely does not.
    """
    stated = claims(text)
    if stated is None:
        return _judge_assertion(text, scene)
    judged = [_judge_claim(claim, scene) for claim in stated]
    return min(judged, key=lambda judgement: WORST_FIRST.index(judgement.verdict))


def _judge_claim(claim: Claim, scene: Scene) -> Judgement:
    """Judge whether a claim holds: that a sentence is true (`claim.true`), or that it is false."""
    judgement = _judge_assertion(claim.text, scene)
    verdict = judgement.verdict
    if verdict is SceneVerdict.UNDECIDED:
        return judgement
    if claim.true:
        if verdict is SceneVerdict.MISCOUNTED and not claim.exact:
            verdict = SceneVerdict.TRUE
    else:
        # What is claimed to be false must not be true in logic either, that is, not MISCOUNTED.
        verdict = SceneVerdict.TRUE if verdict is SceneVerdict.FALSE else SceneVerdict.FALSE
    return judgement._replace(verdict=verdict)


def _judge_assertion(text: str, scene: Scene) -> Judgement:
    """Whether a sentence without a negation is true of a scene, in the reading that is best for it.

    A sentence may have several readings: it is false only if it is so in all of them. One that cannot be read at all is
    undecided.
    """
    try:
        readings = read(text)
    except UnreadError as error:
        return Judgement(SceneVerdict.UNDECIDED, str(error))
    verdict = min((_judge_reading(reading, scene) for reading in readings), key=BEST_FIRST.index)
    return Judgement(verdict, OPINIONS if verdict is SceneVerdict.UNDECIDED else "")


def _judge_reading(reading: Reading, scene: Scene) -> SceneVerdict:
    """Judge one reading of a sentence by all assignments of things to its entities, the best of which counts.

    TRUE: one is surely true with exact counts. UNDECIDED: one with exact counts is a matter of opinion. MISCOUNTED: one
    is possible, none with exact counts. FALSE: none is possible.
    """
    best = SceneVerdict.FALSE
    for assignment in _possible_assignments(reading, scene):
        truth = _conjunction(_truths_of_reading(reading, scene, assignment))
        if truth is False:
            continue
        is_exact = all(_counts_exactly(reading, scene, assignment, entity) for entity in range(len(reading.entities)))
        if truth is True and is_exact:
            return SceneVerdict.TRUE
        if is_exact:
            best = SceneVerdict.UNDECIDED
        elif best is SceneVerdict.FALSE:
            best = SceneVerdict.MISCOUNTED
    return best


def _possible_assignments(reading: Reading, scene: Scene) -> Iterator[Assignment]:
    """Every assignment of things to the entities: as many things as each entity says, fitting it, none used twice.

    For "two cups on a table", ((1, 2), (0,)): the cups are the things 1 and 2 of the scene, the table is thing 0.
    """
    choices_of_entities: list[list[tuple[int, ...]]] = []
    for entity in reading.entities:
        fitting = [index for index in range(len(scene.things)) if _thing_fits(entity, scene, index) is not False]
        # A plural without a number, "cups", may mean any number of things from two.
        sizes = [entity.number] if entity.number else range(2, len(fitting) + 1)
        choices: list[tuple[int, ...]] = []
        for size in sizes:
            choices += combinations(fitting, size)
        choices_of_entities.append(choices)
    for assignment in product(*choices_of_entities):
        uses_a_thing_twice = len(set().union(*assignment)) < sum(map(len, assignment))
        if not uses_a_thing_twice:
            yield assignment


def _truths_of_reading(reading: Reading, scene: Scene, assignment: Assignment) -> Iterator[Truth]:
    """Whether each thing is what a sentence says of it: of "two red cups on a table", a red cup, and on the table.

    reading: the sentence, as entities (two cups; a table) and conditions (the cups are on the table). assignment: for
    each entity, the indices of the things that it is taken to mean.
    """
    for entity, things in zip(reading.entities, assignment, strict=True):
        for thing in things:
            yield _thing_fits(entity, scene, thing)
    for condition in reading.conditions:
        for thing in assignment[condition.subject]:
            yield _meets_condition(condition, scene, thing, assignment)


def _thing_fits(entity: Entity, scene: Scene, index: int) -> Truth:
    """Whether the thing with this index in the scene is of an entity's kind and has its attributes."""
    thing = scene.things[index]
    return thing.kind == entity.kind and _conjunction(
        has_attribute(attribute, thing) for attribute in entity.attributes
    )


def _meets_condition(condition: Condition, scene: Scene, index: int, assignment: Assignment) -> Truth:
    """Whether the thing with this index meets a condition, such as "on the table".

    A relation to several things must hold to each of them; a verb needs only one of them. assignment: the things that
    each entity of the sentence stands for.
    """
    thing = scene.things[index]
    if condition.what == "attribute":
        return has_attribute(condition.word, thing)
    if condition.what == "verb" and condition.object < 0:
        return is_doing(condition.word, thing)
    others = assignment[condition.object]
    if condition.what == "verb":
        # Holding is the only action in scenes.
        if thing.holds not in others:
            return False
        return True if condition.word in ("hold", "carry") else UNSURE
    return _conjunction(relation_holds(condition.word, scene, index, other) for other in others)


def _counts_exactly(reading: Reading, scene: Scene, assignment: Assignment, entity: int) -> bool:
    """Whether a sentence's number is exact for one of its entities: whether no other thing surely fits what it says.

    "Two cups on a table" is not exact if a third cup surely stands there; one of which opinions differ does not count.
    A sentence that states no number of the entity is always exact. assignment: the things that each entity stands for.
    entity: the index of the one that is asked about.
    """
    if not reading.entities[entity].number:
        return True
    conditions = [condition for condition in reading.conditions if entity in (condition.subject, condition.object)]
    for thing in range(len(scene.things)):
        if thing in assignment[entity] or _thing_fits(reading.entities[entity], scene, thing) is not True:
            continue
        # If all conditions are surely met with this thing in the place of the assigned ones, the number is too small.
        # For each subject, `_meets_condition` looks at all things that are the object.
        instead = (*assignment[:entity], (thing,), *assignment[entity + 1 :])
        truths: list[Truth] = [
            _meets_condition(condition, scene, subject, instead)
            for condition in conditions
            for subject in instead[condition.subject]
        ]
        if all(truth is True for truth in truths):
            return False
    return True


def _conjunction(truths: Iterable[Truth]) -> Truth:
    """The conjunction of three-valued truths: False if any is, else UNSURE if any is, else True."""
    is_unsure = False
    for truth in truths:
        if truth is False:
            return False
        is_unsure = is_unsure or truth is UNSURE
    return UNSURE if is_unsure else True
