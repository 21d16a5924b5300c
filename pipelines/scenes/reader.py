"""Read a sentence about the drawn world: every way to understand it as things and what is said of them.

Written for the world's own captions and what may become of them, and apart from the parser and the scene graphs that
negatives are made with, so that the one checks the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from negcap.pipelines.scenes.words import Entity, Item, UnreadError, to_items


class Condition(NamedTuple):
    """Something said of entity `one`: an attribute, a verb, or a relation to entity `other`."""

    what: str
    word: str
    one: int
    other: int = -1


class Reading(NamedTuple):
    """One way to understand a sentence."""

    entities: tuple[Entity, ...]
    conditions: tuple[Condition, ...]


class Understood(NamedTuple):
    """All readings of a sentence; those in which verbs and pronouns agree, where there are any."""

    readings: list[Reading]
    agrees: bool


class _State(NamedTuple):
    """What is understood so far; `subjects` of the clause, `last` the things just named, in numbers of entities."""

    entities: tuple[Entity, ...] = ()
    conditions: tuple[Condition, ...] = ()
    subjects: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    agrees: bool = True

    def agree(self, form: str, subjects: Sequence[int]) -> _State:
        """With a verb in the form of one thing or of several."""
        several = len(subjects) > 1 or any(self.entities[one].number != 1 for one in subjects)
        return self._replace(agrees=self.agrees and form in ("", "are" if several else "is"))

    def say(self, what: str, word: str, of: Sequence[int], others: Sequence[int] = (-1,)) -> _State:
        """With something said of each of `of`, to each of `others`."""
        said = [Condition(what, word, one, other) for one in of for other in others]
        return self._replace(conditions=(*self.conditions, *said))


def read(text: str) -> Understood:
    """All readings of a sentence. Raises UnreadError when there is none."""
    items = to_items(text)
    states = list(_clause(items, 0, _State()))
    if not states:
        raise UnreadError("not a sentence of the world")
    agreeing = [state for state in states if state.agrees]
    readings = dict.fromkeys(Reading(state.entities, state.conditions) for state in agreeing or states)
    return Understood(list(readings), bool(agreeing))


def _name(items: list[Item], at: int, state: _State) -> Iterator[tuple[int, _State]]:
    """The noun phrases, joined by "and", that stand at a place; as `last`."""
    if at >= len(items) or items[at].what != "np":
        return
    named: tuple[int, ...] = ()
    while at < len(items) and items[at].what == "np":
        entity = items[at].entity
        assert entity is not None
        known = [n for n, other in enumerate(state.entities) if other.kind == entity.kind]
        if items[at].word == "the" and known:  # named before
            named = (*named, known[0])
            for attribute in entity.attributes:
                state = state.say("attribute", attribute, known[:1])
        else:
            named = (*named, len(state.entities))
            state = state._replace(entities=(*state.entities, entity))
        at += 1
        yield at, state._replace(last=named)
        while at < len(items) and items[at].what == "and" and items[at].word != "while":
            at += 1


def _point(items: list[Item], at: int, state: _State) -> Iterator[tuple[int, _State]]:
    """Noun phrases, or a pronoun for something named before."""
    if at < len(items) and items[at].what == "pronoun":
        for one in range(len(state.entities)):
            if one not in state.subjects or len(state.subjects) == len(state.entities):
                yield at + 1, state.agree(items[at].form, (one,))._replace(last=(one,))
    yield from _name(items, at, state)


def _clause(items: list[Item], at: int, state: _State) -> Iterator[_State]:
    """A clause and all that follows."""
    if at >= len(items):
        return
    first = items[at].what
    if first == "there" and at + 1 < len(items) and items[at + 1].what == "be":
        for then, named in _name(items, at + 2, state):
            agreed = named.agree(items[at + 1].form, named.last)
            yield from _tail(items, then, agreed._replace(subjects=named.last))
    elif first == "prep":
        yield from _inverted(items, at, state)
    elif first == "pronoun":
        for one in range(len(state.entities)):
            agreed = state.agree(items[at].form, (one,))
            yield from _tail(items, at + 1, agreed._replace(subjects=(one,), last=(one,)))
    else:
        for then, named in _name(items, at, state):
            yield from _tail(items, then, named._replace(subjects=named.last))


def _inverted(items: list[Item], at: int, state: _State) -> Iterator[_State]:
    """ "On the table (there) is a cup." """
    for then, placed in _placed(items, at + 1, state):
        while then < len(items) and items[then].what in ("and", "there") and items[then].word in (",", ""):
            then += 1
        if then >= len(items) or items[then].what not in ("verb", "be"):
            continue
        does = items[then]
        for end, named in _name(items, then + 1, placed):
            said = named.say("relation", items[at].word, named.last, placed.last).agree(does.form, named.last)
            if does.what == "verb":
                said = said.say("verb", does.word, named.last)
            yield from _tail(items, end, said._replace(subjects=named.last))


def _placed(items: list[Item], at: int, state: _State) -> Iterator[tuple[int, _State]]:
    """A place, and where that is: "the table", "the table next to a chair"."""
    for then, named in _point(items, at, state):
        yield then, named
        if then < len(items) and items[then].what == "prep":
            for end, other in _point(items, then + 1, named):
                said = other.say("relation", items[then].word, named.last, other.last)
                yield end, said._replace(last=named.last)


def _tail(items: list[Item], at: int, state: _State) -> Iterator[_State]:
    """What is said of the subjects or of the things just named, and further clauses."""
    if at >= len(items):
        yield state
        return
    item = items[at]
    of = tuple(dict.fromkeys((state.subjects, state.last)))
    if item.what == "be" and at + 1 < len(items):
        said_of, state = items[at + 1], state.agree(item.form, state.subjects)
        if said_of.what == "adjective":
            yield from _tail(items, at + 2, state.say("attribute", said_of.word, state.subjects))
        elif said_of.what in ("verb", "prep"):
            yield from _tail(items, at + 1, state._replace(last=state.subjects))
    elif item.what == "verb":
        for ones in of if not item.form else of[:1]:
            agreed = state.agree(item.form, ones)
            yield from _tail(items, at + 1, agreed.say("verb", item.word, ones)._replace(last=ones))
            for then, named in _name(items, at + 1, agreed):
                said = named.say("verb", item.word, ones, named.last)
                yield from _tail(items, then, said)
    elif item.what == "prep":
        for then, named in _point(items, at + 1, state):
            for ones in of:
                if items[then - 1].what == "pronoun" and not set(ones).isdisjoint(named.last):
                    continue  # "it" is something else
                yield from _tail(items, then, named.say("relation", item.word, ones, named.last))
        if item.word == "with":
            yield from _with(items, at, state)
    elif item.what == "and":
        while at < len(items) and items[at].what == "and":
            at += 1
        if at < len(items) and items[at].what in ("be", "verb"):
            yield from _tail(items, at, state._replace(last=state.subjects))
        elif at < len(items) and items[at].what == "prep":
            yield from _tail(items, at, state)
        else:
            yield from _clause(items, at, state)


def _with(items: list[Item], at: int, state: _State) -> Iterator[_State]:
    """ "A table with a cup on it": the cup is no more than there, on the table."""
    for then, named in _name(items, at + 1, state):
        if then < len(items) and items[then].what in ("prep", "verb"):
            yield from _tail(items, then, named._replace(subjects=named.last))
