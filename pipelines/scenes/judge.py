"""Judge whether a sentence is true of a scene, over all its readings and all assignments of things to its entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import combinations, product
from typing import NamedTuple

from .pairs import Claim, claims
from .reader import Condition, Reading, read
from .truth import Verdict, does, does_to, has, holds
from .words import Entity, UnreadError
from .world import Scene

OPINIONS = "opinions differ"  # the reason if the words of a sentence are a matter of opinion


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
    found = [_judge_claim(one, scene) for one in made]
    agrees = all(one.agrees for one in found)
    for verdict in (Answer.FALSE, Answer.UNDECIDED, Answer.MISCOUNTED):
        reason = next((one.reason for one in found if one.verdict is verdict), None)
        if reason is not None:
            return Judgement(verdict, reason, agrees)
    return Judgement(Answer.TRUE, "", agrees)


def _judge_claim(claim: Claim, scene: Scene) -> Judgement:
    """Judge whether a claim holds; a sentence that is claimed to be false must not be true in logic either."""
    judged = _judge_assertion(claim.text, scene)
    if claim.true:
        logical = judged.verdict is Answer.MISCOUNTED and not claim.exact
        return judged._replace(verdict=Answer.TRUE) if logical else judged
    opposite = {Answer.FALSE: Answer.TRUE, Answer.UNDECIDED: Answer.UNDECIDED}.get(judged.verdict, Answer.FALSE)
    return judged._replace(verdict=opposite)


def _judge_assertion(text: str, scene: Scene) -> Judgement:
    try:
        readings, agrees = read(text)
    except UnreadError as error:
        return Judgement(Answer.UNDECIDED, str(error))
    verdicts = [_of_reading(reading, scene) for reading in readings]
    if Answer.TRUE in verdicts:
        return Judgement(Answer.TRUE, "", agrees)
    for verdict in (Answer.UNDECIDED, Answer.MISCOUNTED):
        if verdict in verdicts:
            return Judgement(verdict, OPINIONS if verdict is Answer.UNDECIDED else "", agrees)
    return Judgement(Answer.FALSE, "", agrees)


def _of_reading(reading: Reading, scene: Scene) -> Answer:
    """Judge one reading: TRUE if an assignment is surely true with exact counts, FALSE if none can be true."""
    found = Answer.FALSE
    for chosen in _assignments(reading, scene):
        verdict = _all(_verdicts(reading, scene, chosen))
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


def _assignments(reading: Reading, scene: Scene) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every assignment of things to the entities: as many things as each entity says, fitting it, none used twice.

    An assignment is a tuple with the indices of things for each entity.
    """
    options = []
    for entity in reading.entities:
        fitting = [at for at in range(len(scene.things)) if _fits(entity, scene, at) is not False]
        sizes = [entity.number] if entity.number else range(2, len(fitting) + 1)
        options.append([chosen for size in sizes for chosen in combinations(fitting, size)])
    for chosen in product(*options):
        everything = [at for one in chosen for at in one]
        if len(set(everything)) == len(everything):
            yield chosen


def _fits(entity: Entity, scene: Scene, at: int) -> Verdict:
    thing = scene.things[at]
    if thing.kind != entity.kind:
        return False
    return _all(has(attribute, thing) for attribute in entity.attributes)


def _verdicts(reading: Reading, scene: Scene, chosen: tuple[tuple[int, ...], ...]) -> Iterator[Verdict]:
    """Whether every assigned thing fits its entity, and every condition is met by each of its things, one by one."""
    for entity, things in zip(reading.entities, chosen, strict=True):
        for at in things:
            yield _fits(entity, scene, at)
    for condition in reading.conditions:
        for at in chosen[condition.one]:
            yield _meets(condition, scene, at, chosen)


def _meets(condition: Condition, scene: Scene, at: int, chosen: tuple[tuple[int, ...], ...]) -> Verdict:
    """Whether one thing meets a condition; a relation to several things must hold to each, a verb to any of them."""
    if condition.what == "attribute":
        return has(condition.word, scene.things[at])
    if condition.what == "verb" and condition.other < 0:
        return does(condition.word, scene.things[at])
    others = chosen[condition.other]
    if condition.what == "verb":
        verdicts = [does_to(condition.word, scene, at, other) for other in others]
        return True if True in verdicts else None if None in verdicts else False
    return _all(holds(condition.word, scene, at, other) for other in others)


def _counts(reading: Reading, scene: Scene, chosen: tuple[tuple[int, ...], ...], at: int) -> bool:
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
