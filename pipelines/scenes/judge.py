"""Judge whether a sentence is true of a scene, over all its readings and all assignments of things to its entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain, combinations, product
from typing import NamedTuple

from .reader import Condition, Entity, Reading, UnreadError, claims, read
from .truth import Verdict, has, holds, is_doing, is_doing_to
from .world import Scene

OPINIONS = "opinions differ"  # the reason if the words of a sentence are a matter of opinion
Chosen = tuple[tuple[int, ...], ...]  # for each entity of a reading the indices of things


class Answer(Enum):
    """A judge's answer: true, false, miscounted (true in logic but not in usage: "a dog" of three), or undecided."""

    TRUE = "true"
    FALSE = "false"
    MISCOUNTED = "miscounted"
    UNDECIDED = "undecided"


class Judgement(NamedTuple):
    """A verdict; the reason if it is UNDECIDED, else ""; and whether verbs and pronouns agree in number."""

    verdict: Answer
    reason: str = ""
    agrees: bool = True


def judge(text: str, scene: Scene) -> Judgement:
    """Judge whether a sentence is true of a scene.

    FALSE: no reading is true under any assignment of its entities to things, even if matters of opinion are decided in
    its favour. MISCOUNTED: true in logic only ("a dog" if there are three). UNDECIDED: the sentence cannot be read, or
    it depends on opinion. A sentence with a denial makes several claims: TRUE if all hold, FALSE if one surely does
    not.
    """
    made = claims(text)
    if made is None:
        return _judge_assertion(text, scene)
    found = []
    for claim in made:
        judged = _judge_assertion(claim.text, scene)
        if not claim.true:  # then it must not be true in logic either
            opposite = {Answer.FALSE: Answer.TRUE, Answer.UNDECIDED: Answer.UNDECIDED}
            judged = judged._replace(verdict=opposite.get(judged.verdict, Answer.FALSE))
        elif judged.verdict is Answer.MISCOUNTED and not claim.exact:
            judged = judged._replace(verdict=Answer.TRUE)
        found.append(judged)
    order = (Answer.FALSE, Answer.UNDECIDED, Answer.MISCOUNTED, Answer.TRUE)
    first = min(found, key=lambda one: order.index(one.verdict))
    return first._replace(agrees=all(one.agrees for one in found))


def _judge_assertion(text: str, scene: Scene) -> Judgement:
    try:
        readings, agrees = read(text)
    except UnreadError as error:
        return Judgement(Answer.UNDECIDED, str(error))
    verdicts = {_of_reading(reading, scene) for reading in readings}
    order = (Answer.TRUE, Answer.UNDECIDED, Answer.MISCOUNTED, Answer.FALSE)
    verdict = min(verdicts, key=order.index)
    return Judgement(verdict, OPINIONS if verdict is Answer.UNDECIDED else "", agrees)


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
        verdicts = [is_doing_to(condition.word, scene, at, other) for other in others]
        return True if True in verdicts else None if None in verdicts else False
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
