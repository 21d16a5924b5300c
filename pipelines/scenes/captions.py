"""Captions of a scene from a grammar: each is true, its counts are exact, and its noun phrases fit only what they name.

A scene has an anchor (group 0, such as a table) and up to three groups of equal things around it, numbered from 1. A
form makes a sentence about one group, without capital and full stop, or "" if it does not fit that group.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ...augment.language.grammar import article
from .truth import LEFT, holds
from .words import NUMBERS
from .world import KINDS, LIVING, PEOPLE, Scene, Thing

CAPTIONS_PER_IMAGE = 5
TRIES = 200
WHERE: dict[str, tuple[str, ...]] = {
    "on": ("on", "on", "on", "on top of"),
    "under": ("under", "under", "beneath"),
    "in": ("in", "in", "inside"),
    "left": ("next to", "beside", "to the left of", "to the left of"),
    "right": ("next to", "beside", "to the right of", "to the right of"),
    "front": ("in front of",),
    "behind left": ("behind",),
    "behind right": ("behind",),
    "above": ("above", "above", "over"),
}
EXACT = {"left": ("to the left of",), "right": ("to the right of",)}
STANDING = ("lamp", "vase", "clock", "chair", "tree", "house")
ING = {"sit": "sitting", "lie": "lying", "stand": "standing", "sleep": "sleeping", "fly": "flying", "rest": "resting",
       "float": "floating"}  # fmt: skip


class Phrase(NamedTuple):
    """A noun phrase, and whether it is plural."""

    text: str
    plural: bool

    @property
    def be(self) -> str:
        """The form of "be" that agrees: is or are."""
        return "are" if self.plural else "is"

    @property
    def pronoun(self) -> str:
        """The object pronoun that agrees: it or them."""
        return "them" if self.plural else "it"

    def does(self, verb: str) -> str:
        """The present form of a verb that agrees: sits or sit."""
        return verb if self.plural else {"fly": "flies"}.get(verb, f"{verb}s")


def captions(scene: Scene, rng: Random) -> list[str]:
    """Up to five different captions in random order, with one about each group if the forms drawn fit the groups."""
    groups = sorted({thing.group for thing in scene.things if 0 < thing.group < 100})
    forms = list(FORMS)
    found: list[str] = []
    for turn in range(TRIES):
        if len(found) == CAPTIONS_PER_IMAGE:
            break
        group = groups[turn % len(groups)] if turn < len(groups) else rng.choice(groups)
        text = sentence(rng.choice(forms), scene, group, rng)
        if text and text not in found:
            found.append(text)
    rng.shuffle(found)
    return found


def sentence(form: Callable[[Scene, int, Random], str], scene: Scene, group: int, rng: Random) -> str:
    """The sentence that a form makes about a group, capitalised, mostly with a full stop; "" if it does not fit."""
    text = form(scene, group, rng)
    return text and f"{text[0].upper()}{text[1:]}{rng.choice(('.', '.', '.', ''))}"


def describe(scene: Scene, group: int, rng: Random, *, colour: bool = True, the: bool = False) -> Phrase:
    """A noun phrase for a group that fits nothing else in the scene: "three small red balls".

    colour: whether the colour may be mentioned; the: with the definite article.
    """
    things = [scene.things[at] for at in scene.group(group)]
    one = things[0]
    said = {
        "size": one.size if rng.random() < 0.6 else "",
        "colour": one.colour if colour and rng.random() < 0.75 else "",
        "pattern": one.pattern if rng.random() < 0.7 else "",
    }
    for attribute in ("colour", "pattern", "size"):
        if not colour or not _fits_others(scene, group, one.kind, said):
            break
        said[attribute] = getattr(one, attribute)
    adjectives = [said["size"], *rng.sample([said["colour"], said["pattern"]], 2)]
    if not one.pattern or not said["pattern"]:
        adjectives = [said["size"], said["colour"]]
    asleep = "sleeping" if one.pose == "sleep" and rng.random() < 0.3 else ""
    kind = KINDS[one.kind]
    noun = " ".join(
        filter(None, [adjectives[0], asleep, *adjectives[1:], kind.plural if len(things) > 1 else kind.name])
    )
    if the:
        number = f"{NUMBERS[len(things) - 1]} " if len(things) > 1 and rng.random() < 0.5 else ""
        return Phrase(f"the {number}{noun}", len(things) > 1)
    if len(things) > 1:
        return Phrase(f"{NUMBERS[len(things) - 1]} {noun}", True)
    return Phrase(f"{'one' if rng.random() < 0.04 else article(noun)} {noun}", False)


def _fits_others(scene: Scene, group: int, kind: str, said: dict[str, str]) -> bool:
    """Whether a kind and attributes (size, colour, pattern; "" if not mentioned) also fit a thing of another group."""
    return any(
        thing.kind == kind
        and thing.group != group
        and all(not word or getattr(thing, name) in (word, "") for name, word in said.items())
        for thing in scene.things
    )


def _thing(scene: Scene, group: int) -> Thing:
    return scene.things[scene.group(group)[0]]


def _where(scene: Scene, group: int, rng: Random) -> str:
    return rng.choice(WHERE[_thing(scene, group).slot])


def _verb(scene: Scene, group: int, rng: Random) -> str:
    """A verb (base form) for what a group does in its place; "" if there is none."""
    one = _thing(scene, group)
    if one.kind in LIVING:
        if one.kind == "bird" and one.pose == "stand":
            return ""
        return one.pose
    if one.slot == "above":
        return {"kite": "fly", "balloon": "float"}.get(one.kind, "")
    if one.kind in STANDING:
        return "stand"
    return rng.choice(("sit", "rest", "lie")) if one.slot in ("on", "in") else rng.choice(("lie", "sit"))


def is_there(scene: Scene, group: int, rng: Random) -> str:
    """A sentence like "Two cups are on a red table"."""
    s = describe(scene, group, rng)
    return f"{s.text} {s.be} {_where(scene, group, rng)} {describe(scene, 0, rng).text}"


def fragment(scene: Scene, group: int, rng: Random) -> str:
    """A phrase like "Two cups on a red table"."""
    return f"{describe(scene, group, rng).text} {_where(scene, group, rng)} {describe(scene, 0, rng).text}"


def there_is(scene: Scene, group: int, rng: Random) -> str:
    """A sentence like "There are two cups on a red table"."""
    s = describe(scene, group, rng)
    return f"there {s.be} {s.text} {_where(scene, group, rng)} {describe(scene, 0, rng).text}"


def does(scene: Scene, group: int, rng: Random) -> str:
    """A sentence like "A cat sits on a red table", "a cat is sitting …", "a cat sitting …" or "there is a cat …"."""
    verb = _verb(scene, group, rng)
    if not verb:
        return ""
    s, place = describe(scene, group, rng), f"{_where(scene, group, rng)} {describe(scene, 0, rng).text}"
    form = rng.choice(("finite", "is", "is", "participle", "there"))
    if form == "finite":
        return f"{s.text} {s.does(verb)} {place}"
    if form == "is":
        return f"{s.text} {s.be} {ING[verb]} {place}"
    return f"{'' if form == 'participle' else f'there {s.be} '}{s.text} {ING[verb]} {place}"


def inverted(scene: Scene, group: int, rng: Random) -> str:
    """A sentence with the place first: "On the red table are two cups"."""
    where = _where(scene, group, rng)
    s = describe(scene, group, rng)
    there = rng.choice(("", "", "there "))
    return f"{where} {describe(scene, 0, rng, the=rng.random() < 0.5).text} {there}{s.be} {s.text}"


def with_on_it(scene: Scene, group: int, rng: Random) -> str:
    """A phrase like "A red table with two cups on it"."""
    where = rng.choice(EXACT.get(_thing(scene, group).slot, WHERE[_thing(scene, group).slot]))
    return f"{describe(scene, 0, rng).text} with {describe(scene, group, rng).text} {where} it"


def both(scene: Scene, group: int, rng: Random) -> str:
    """A phrase with the anchor and the group: "A red table and two cups"."""
    phrases = [describe(scene, 0, rng).text, describe(scene, group, rng).text]
    rng.shuffle(phrases)
    return " and ".join(phrases)


def has_colour(scene: Scene, group: int, rng: Random) -> str:
    """A sentence about the group's colour: "The two cups on the table are red"."""
    one = _thing(scene, group)
    if not one.colour or one.kind in PEOPLE:
        return ""
    where = rng.choice(EXACT.get(one.slot, WHERE[one.slot]))
    s = describe(scene, group, rng, colour=False, the=True)
    return f"{s.text} {where} {describe(scene, 0, rng, the=True).text} {s.be} {one.colour}"


def two_things(scene: Scene, group: int, rng: Random) -> str:
    """A sentence about this and another group: "Two cups are on a red table, and a dog is sleeping under the table"."""
    others = sorted({thing.group for thing in scene.things if 0 < thing.group < 100} - {group})
    if not others:
        return ""
    other = rng.choice(others)
    s, o, t = describe(scene, group, rng), describe(scene, 0, rng), describe(scene, other, rng)
    verb = _verb(scene, other, rng)
    doing = f"{ING[verb]} " if verb and rng.random() < 0.5 else ""
    first = f"{s.text} {s.be} {_where(scene, group, rng)} {o.text}"
    where = _where(scene, other, rng)
    if rng.random() < 0.4:
        return f"{first} and {t.text} {t.be} {doing}{where} {describe_again(scene)}"
    return f"{first}, {rng.choice(('and', 'while'))} {t.text} {t.be} {doing}{where} {describe_again(scene)}"


def describe_again(scene: Scene) -> str:
    """A second mention of the anchor: "the table"."""
    return f"the {scene.things[0].kind}"


def side_by_side(scene: Scene, group: int, rng: Random) -> str:
    """A sentence like "A dog is to the left of two cups", if another group is clearly on one side of this one."""
    for other in sorted({thing.group for thing in scene.things if 0 < thing.group < 100} - {group}):
        pairs = [(a, b) for a in scene.group(group) for b in scene.group(other)]
        sides = {holds(LEFT[0], scene, a, b) for a, b in pairs}, {holds(LEFT[0], scene, b, a) for a, b in pairs}
        if {True} in sides:
            s, t = describe(scene, group, rng), describe(scene, other, rng)
            side = "left" if sides[0] == {True} else "right"
            return f"{s.text} {rng.choice((f'{s.be} ', ''))}to the {side} of {t.text}"
    return ""


def holding(scene: Scene, group: int, rng: Random) -> str:
    """A sentence like "A girl is holding a red balloon", if the group is a person who holds something."""
    person = _thing(scene, group)
    if person.holds < 0:
        return ""
    s, h = describe(scene, group, rng), describe(scene, person.group + 100, rng)
    place = f" {_where(scene, group, rng)} {describe(scene, 0, rng).text}"
    return rng.choice(
        (
            f"{s.text} is holding {h.text}",
            f"{s.text} holding {h.text}",
            f"{s.text} holds {h.text}{place}",
            f"{s.text} with {h.text} is standing{place}",
            f"{s.text} holding {h.text} stands{place}",
            f"there is {s.text} holding {h.text}{place}",
        )
    )


FORMS: tuple[Callable[[Scene, int, Random], str], ...] = (
    *(is_there, fragment, there_is, with_on_it, side_by_side) * 2,
    *(inverted, both, has_colour),
    *(two_things,) * 3,
    *(does, holding) * 4,
)
