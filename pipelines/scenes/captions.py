"""Captions of a scene from a grammar: each is true, its counts are exact, and its noun phrases fit only what they name.
A form makes a sentence about a group (see `world`), without capital and full stop, or "" if it does not fit that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from ...augment.language.grammar import article
from .judge import LEFT, holds
from .world import KINDS, LIVING, NUMBERS, WORLD, Scene, Thing

CAPTIONS_PER_IMAGE = 5
TRIES = 200
WHERE: dict[str, list[str]] = {slot: entry["where"] for slot, entry in WORLD["slots"].items()}
EXACT = WHERE | {"left": ["to the left of"], "right": ["to the right of"]}
STANDING = ("lamp", "vase", "clock", "chair", "tree", "house")
ING = {"sit": "sitting", "lie": "lying"}  # other verbs add "ing"
TEMPLATES: dict[str, list[str]] = WORLD["captions"]


class Phrase(NamedTuple):
    """A noun phrase, and whether it is plural."""

    text: str
    plural: bool

    def __str__(self) -> str:
        return self.text

    @property
    def be(self) -> str:
        """The form of "be" that agrees: is or are."""
        return "are" if self.plural else "is"


class Teller(NamedTuple):
    """What is said of a group of a scene; `rng` chooses the words."""

    scene: Scene
    group: int
    rng: Random

    @property
    def one(self) -> Thing:
        """One of the group's things, which are all equal but for their places."""
        return self.scene.things[self.scene.group(self.group)[0]]

    def about(self, group: int) -> Teller:
        """What is said of another group."""
        return self._replace(group=group)

    def where(self, words: dict[str, list[str]] = WHERE) -> str:
        """A preposition for the group's place, relative to the anchor."""
        return self.rng.choice(words[self.one.slot])

    def anchor(self, *, the: bool = False) -> Phrase:
        """A noun phrase for the anchor."""
        return self.about(0).phrase(the=the)

    def place(self) -> str:
        """Where the group is: "on a red table"."""
        return f"{self.where()} {self.anchor()}"

    def phrase(self, *, colour: bool = True, the: bool = False) -> Phrase:
        """A noun phrase for the group alone, "three small red balls"; colour: may be said; the: definite."""
        rng = self.rng
        one = self.one
        count = len(self.scene.group(self.group))
        said = {
            "size": one.size if rng.random() < 0.6 else "",
            "colour": one.colour if colour and rng.random() < 0.75 else "",
            "pattern": one.pattern if rng.random() < 0.7 else "",
        }
        others = [thing for thing in self.scene.things if thing.kind == one.kind and thing.group != self.group]
        for attribute in ("colour", "pattern", "size"):
            if colour and any(
                all(not word or getattr(other, name) in (word, "") for name, word in said.items()) for other in others
            ):
                said[attribute] = getattr(one, attribute)  # tells it from another group of that kind
        looks = rng.sample([said["colour"], said["pattern"]], 2)
        asleep = "sleeping" if one.pose == "sleep" and rng.random() < 0.3 else ""
        name = KINDS[one.kind].plural if count > 1 else one.kind
        noun = " ".join(filter(None, [said["size"], asleep, *looks, name]))
        if the:
            number = f"{NUMBERS[count - 1]} " if count > 1 and rng.random() < 0.5 else ""
            return Phrase(f"the {number}{noun}", count > 1)
        if count > 1:
            return Phrase(f"{NUMBERS[count - 1]} {noun}", True)
        return Phrase(f"{'one' if rng.random() < 0.04 else article(noun)} {noun}", False)

    def verb(self) -> str:
        """A verb (base form) for what the group does in its place; "" if there is none."""
        one = self.one
        if one.kind in LIVING:
            return "" if one.kind == "bird" and one.pose == "stand" else one.pose
        if one.slot == "above":
            return {"kite": "fly", "balloon": "float"}.get(one.kind, "")
        if one.kind in STANDING:
            return "stand"
        return self.rng.choice(("sit", "rest", "lie") if one.slot in ("on", "in") else ("lie", "sit"))


def captions(scene: Scene, rng: Random) -> list[str]:
    """Up to five different captions in random order, with one about each group if the forms drawn fit the groups."""
    groups = scene.groups
    found: list[str] = []
    for turn in range(TRIES):
        if len(found) == CAPTIONS_PER_IMAGE:
            break
        group = groups[turn] if turn < len(groups) else rng.choice(groups)
        text = sentence(rng.choice(FORMS), scene, group, rng)
        if text and text not in found:
            found.append(text)
    rng.shuffle(found)
    return found


def sentence(form: Callable[[Teller], str], scene: Scene, group: int, rng: Random) -> str:
    """The sentence that a form makes about a group, capitalised, mostly with a full stop; "" if it does not fit."""
    text = form(Teller(scene, group, rng))
    return text and f"{text[0].upper()}{text[1:]}{rng.choice(('.', '.', '.', ''))}"


def _plain(template: str, it: Teller) -> str:  # "Two cups are on a red table"
    s = it.phrase()
    return template.format(s=s, place=it.place())


def _does(it: Teller) -> str:  # "A cat is sitting on a red table"
    verb = it.verb()
    if not verb:
        return ""
    s = it.phrase()
    place = it.place()
    does = verb if s.plural else {"fly": "flies"}.get(verb, f"{verb}s")
    return it.rng.choice(TEMPLATES["does"]).format(s=s, does=does, doing=ING.get(verb, f"{verb}ing"), place=place)


def _inverted(it: Teller) -> str:  # "On the red table are two cups"
    where = it.where()
    s = it.phrase()
    there = it.rng.choice(("", "", "there "))
    return f"{where} {it.anchor(the=it.rng.random() < 0.5)} {there}{s.be} {s}"


def _with_on_it(it: Teller) -> str:  # "A red table with two cups on it"
    where = it.where(EXACT)
    return f"{it.anchor()} with {it.phrase()} {where} it"


def _both(it: Teller) -> str:  # "A red table and two cups"
    phrases = [str(it.anchor()), str(it.phrase())]
    it.rng.shuffle(phrases)
    return " and ".join(phrases)


def _has_colour(it: Teller) -> str:  # "The two cups on the table are red"
    if not it.one.colour:
        return ""
    where = it.where(EXACT)
    s = it.phrase(colour=False, the=True)
    return f"{s} {where} {it.anchor(the=True)} {s.be} {it.one.colour}"


def _two_things(it: Teller) -> str:  # "Two cups are on a red table, and a dog is sleeping under the table"
    others = [group for group in it.scene.groups if group != it.group]
    if not others:
        return ""
    other = it.about(it.rng.choice(others))
    s = it.phrase()
    o = it.anchor()
    t = other.phrase()
    verb = other.verb()
    doing = f"{ING.get(verb, f'{verb}ing')} " if verb and it.rng.random() < 0.5 else ""
    first = f"{s} {s.be} {it.where()} {o}"
    where = other.where()
    joined = " and" if it.rng.random() < 0.4 else it.rng.choice((", and", ", while"))
    return f"{first}{joined} {t} {t.be} {doing}{where} the {it.scene.things[0].kind}"


def _side_by_side(it: Teller) -> str:  # "A dog is to the left of two cups", if all of it is clearly on one side
    for other in it.scene.groups:
        pairs = [(a, b) for a in it.scene.group(it.group) for b in it.scene.group(other)]
        left, right = (all(holds(LEFT[0], it.scene, *pair[::way]) for pair in pairs) for way in (1, -1))
        if left or right:
            s = it.phrase()
            t = it.about(other).phrase()
            return f"{s} {it.rng.choice((f'{s.be} ', ''))}to the {'left' if left else 'right'} of {t}"
    return ""


def _holding(it: Teller) -> str:  # "A girl is holding a red balloon", if the group is a person who holds something
    if it.one.holds < 0:
        return ""
    s = it.phrase()
    held = it.about(it.group + 100).phrase()
    place = it.place()
    return it.rng.choice(TEMPLATES["holding"]).format(s=s, held=held, place=place)


_PLAIN: list[Callable[[Teller], str]] = [partial(_plain, template) for template in TEMPLATES["plain"]]
FORMS: tuple[Callable[[Teller], str], ...] = (
    *[*_PLAIN, _with_on_it, _side_by_side] * 2,
    *(_inverted, _both, _has_colour),
    *(_two_things,) * 3,
    *(_does, _holding) * 4,
)
