"""Captions of a scene from a grammar: each is true, its counts are exact, and its noun phrases fit only what they name.

A form makes a sentence about a group (equal things in one place, see `world`), without capital and full stop, or "" if
it does not fit the group. Words and simple templates are in augment/data/scenes.toml, where a repeated one is drawn
more often.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from ...augment.language.grammar import indefinite_article
from .judge import LEFT, relation_holds
from .world import HELD_GROUP, KINDS, LIVING, NUMBERS, WORLD, Scene, Thing, progressive, third_person

CAPTIONS_PER_IMAGE = 5
TRIES = 200
WHERE: dict[str, list[str]] = {slot: entry["where"] for slot, entry in WORLD["slots"].items()}
EXACT = WHERE | {"left": ["to the left of"], "right": ["to the right of"]}
STANDING = ("lamp", "vase", "clock", "chair", "tree", "house")
TEMPLATES: dict[str, list[str]] = WORLD["captions"]


class AgreeingPhrase(NamedTuple):
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
    def thing(self) -> Thing:
        """The first of the group's things, which are all equal but for their places."""
        return self.scene.things[self.scene.group(self.group)[0]]

    def about(self, group: int) -> Teller:
        """What is said of another group."""
        return self._replace(group=group)

    def where(self, words: dict[str, list[str]] = WHERE) -> str:
        """A preposition for the group's place, relative to the anchor."""
        return self.rng.choice(words[self.thing.slot])

    def anchor(self, *, the: bool = False) -> AgreeingPhrase:
        """A noun phrase for the anchor."""
        return self.about(0).phrase(the=the)

    def place(self) -> str:
        """Where the group is: "on a red table"."""
        return f"{self.where()} {self.anchor()}"

    def phrase(self, *, colour: bool = True, the: bool = False) -> AgreeingPhrase:
        """A noun phrase for the group alone, such as "three small red balls".

        Args:
            colour: whether it may say the colour.
            the: whether it is definite: "the three small red balls".
        """
        rng = self.rng
        thing = self.thing
        count = len(self.scene.group(self.group))
        attributes = self._distinguishing_attributes(colour=colour)
        looks = rng.sample([attributes["colour"], attributes["pattern"]], 2)  # both, in random order
        asleep = "sleeping" if thing.pose == "sleep" and rng.random() < 0.3 else ""
        name = KINDS[thing.kind].plural if count > 1 else thing.kind
        noun = " ".join(filter(None, [attributes["size"], asleep, *looks, name]))
        if the:
            number = f"{NUMBERS[count - 1]} " if count > 1 and rng.random() < 0.5 else ""
            return AgreeingPhrase(f"the {number}{noun}", count > 1)
        if count > 1:
            return AgreeingPhrase(f"{NUMBERS[count - 1]} {noun}", plural=True)
        return AgreeingPhrase(f"{'one' if rng.random() < 0.04 else indefinite_article(noun)} {noun}", plural=False)

    def _distinguishing_attributes(self, *, colour: bool) -> dict[str, str]:
        """The group's size, colour and pattern as far as they are said, "" for one that is not.

        Some are left out at random; then as many are put back as it takes for the phrase to fit no other group.

        colour: whether the colour may be said; if not, the phrase may fit other groups, too.
        """
        rng = self.rng
        thing = self.thing
        attributes = {
            "size": thing.size if rng.random() < 0.6 else "",
            "colour": thing.colour if colour and rng.random() < 0.75 else "",
            "pattern": thing.pattern if rng.random() < 0.7 else "",
        }
        others = [other for other in self.scene.things if other.kind == thing.kind and other.group != self.group]
        # An attribute is put back while the phrase may still mean another group: "the cup" of a red and a blue one.
        for name in ("colour", "pattern", "size"):
            if colour and any(_may_be_said_of(attributes, other) for other in others):
                attributes[name] = getattr(thing, name)
        return attributes

    def verb(self) -> str:
        """A verb (base form) for what the group does in its place; "" if there is none."""
        thing = self.thing
        if thing.kind in LIVING:
            # People say of a standing bird as well that it sits or perches: no verb is the usual one.
            return "" if thing.kind == "bird" and thing.pose == "stand" else thing.pose
        if thing.slot == "above":
            return {"kite": "fly", "balloon": "float"}.get(thing.kind, "")
        if thing.kind in STANDING:
            return "stand"
        return self.rng.choice(("sit", "rest", "lie") if thing.slot in ("on", "in") else ("lie", "sit"))


def _may_be_said_of(attributes: dict[str, str], thing: Thing) -> bool:
    """Whether all attributes ("" for one that is not said) may be said of a thing.

    A thing without a size, "", may be called small: nobody could say that it is not.
    """
    return all(not word or getattr(thing, name) in (word, "") for name, word in attributes.items())


def captions(scene: Scene, rng: Random) -> list[str]:
    """Up to five different captions in random order, with one about each group if the forms drawn fit the groups."""
    groups = scene.groups
    texts: list[str] = []
    for turn in range(TRIES):
        if len(texts) == CAPTIONS_PER_IMAGE:
            break
        # Each group has its turn once; then any of them.
        group = groups[turn] if turn < len(groups) else rng.choice(groups)
        text = sentence(rng.choice(FORMS), scene, group, rng)
        if text and text not in texts:
            texts.append(text)
    rng.shuffle(texts)
    return texts


Form = Callable[[Teller], str]


def sentence(form: Form, scene: Scene, group: int, rng: Random) -> str:
    """The sentence that a form makes about a group, capitalised, mostly with a full stop; "" if it does not fit."""
    text = form(Teller(scene, group, rng))
    if not text:
        return ""
    full_stop = rng.choice((".", ".", ".", ""))
    return f"{text[0].upper()}{text[1:]}{full_stop}"


# The order in which a form draws its words is part of it: another order gives other captions of the same seed.


def _plain(template: str, teller: Teller) -> str:
    """Say "Two cups are on a red table"."""
    subject = teller.phrase()
    return template.format(s=subject, place=teller.place())


def _does(teller: Teller) -> str:
    """Say "A cat is sitting on a red table"."""
    verb = teller.verb()
    if not verb:
        return ""
    subject = teller.phrase()
    place = teller.place()
    does = verb if subject.plural else third_person(verb)
    template = teller.rng.choice(TEMPLATES["does"])
    return template.format(s=subject, does=does, doing=progressive(verb), place=place)


def _inverted(teller: Teller) -> str:
    """Say "On the red table are two cups"."""
    where = teller.where()
    subject = teller.phrase()
    there = teller.rng.choice(("", "", "there "))
    return f"{where} {teller.anchor(the=teller.rng.random() < 0.5)} {there}{subject.be} {subject}"


def _with_on_it(teller: Teller) -> str:
    """Say "A red table with two cups on it"."""
    where = teller.where(EXACT)
    return f"{teller.anchor()} with {teller.phrase()} {where} it"


def _both(teller: Teller) -> str:
    """Say "A red table and two cups"."""
    phrases = [str(teller.anchor()), str(teller.phrase())]
    teller.rng.shuffle(phrases)
    return " and ".join(phrases)


def _has_colour(teller: Teller) -> str:
    """Say "The two cups on the table are red"."""
    if not teller.thing.colour:
        return ""
    where = teller.where(EXACT)
    subject = teller.phrase(colour=False, the=True)
    return f"{subject} {where} {teller.anchor(the=True)} {subject.be} {teller.thing.colour}"


def _two_things(teller: Teller) -> str:
    """Say where two groups are, relative to the anchor; "" if there is no other group.

    "Two cups are on a red table, and a dog is sleeping under the table".
    """
    rng = teller.rng
    other_groups = [group for group in teller.scene.groups if group != teller.group]
    if not other_groups:
        return ""
    other = teller.about(rng.choice(other_groups))
    subject = teller.phrase()
    anchor = teller.anchor()
    second_subject = other.phrase()
    verb = other.verb()
    doing = f"{progressive(verb)} " if verb and rng.random() < 0.5 else ""
    first_clause = f"{subject} {subject.be} {teller.where()} {anchor}"
    where = other.where()
    conjunction = " and" if rng.random() < 0.4 else rng.choice((", and", ", while"))
    anchor_noun = teller.scene.things[0].kind  # the first thing of a scene is its anchor, here the table
    return f"{first_clause}{conjunction} {second_subject} {second_subject.be} {doing}{where} the {anchor_noun}"


def _side_by_side(teller: Teller) -> str:
    """Say "A dog is to the left of two cups", if all of it is clearly on one side."""
    scene = teller.scene
    for group in scene.groups:
        pairs = [(first, second) for first in scene.group(teller.group) for second in scene.group(group)]
        is_left = all(relation_holds(LEFT[0], scene, first, second) for first, second in pairs)
        is_right = all(relation_holds(LEFT[0], scene, second, first) for first, second in pairs)
        if is_left or is_right:
            subject = teller.phrase()
            other = teller.about(group).phrase()
            be = teller.rng.choice((f"{subject.be} ", ""))
            return f"{subject} {be}to the {'left' if is_left else 'right'} of {other}"
    return ""


def _holding(teller: Teller) -> str:
    """Say "A girl is holding a red balloon", if the group is a person who holds something."""
    if teller.thing.holds < 0:
        return ""
    subject = teller.phrase()
    held = teller.about(teller.group + HELD_GROUP).phrase()
    place = teller.place()
    return teller.rng.choice(TEMPLATES["holding"]).format(s=subject, held=held, place=place)


_PLAIN: list[Form] = [partial(_plain, template) for template in TEMPLATES["plain"]]
FORMS: tuple[Form, ...] = (  # a repeated one is drawn more often
    *[*_PLAIN, _with_on_it, _side_by_side] * 2,
    *(_inverted, _both, _has_colour),
    *(_two_things,) * 3,
    *(_does, _holding) * 4,
)
