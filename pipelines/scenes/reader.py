"""Parse a sentence about a scene into all its readings: entities and the conditions that it states of them.

The grammar covers the scenes' own captions and the negatives made of them. It is independent of the parser and the
scene graphs that negatives are made with, so that it can check them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .words import Entity, Item, UnreadError, to_items


class Condition(NamedTuple):
    """A statement about entity `one` (an index): an attribute, a verb, or a relation.

    what: "attribute", "verb" or "relation"; word: which one; other: the entity of a relation or of the verb's object,
    -1 for none.
    """

    what: str
    word: str
    one: int
    other: int = -1


class Reading(NamedTuple):
    """One way to understand a sentence: its entities and what it states of them."""

    entities: tuple[Entity, ...]
    conditions: tuple[Condition, ...]


class Understood(NamedTuple):
    """The readings of a sentence.

    agrees: there are readings in which verbs and pronouns agree in number, and only these are listed.
    """

    readings: list[Reading]
    agrees: bool


class _State(NamedTuple):
    """A partial reading; `subjects` of the current clause and `last`, the entities named last, are entity indices."""

    entities: tuple[Entity, ...] = ()
    conditions: tuple[Condition, ...] = ()
    subjects: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    agrees: bool = True

    def agree(self, form: str, subjects: Sequence[int]) -> _State:
        """The state after a verb or pronoun of a form ("is", "are", "" for neither) that must agree with `subjects`."""
        several = len(subjects) > 1 or any(self.entities[one].number != 1 for one in subjects)
        return self._replace(agrees=self.agrees and form in ("", "are" if several else "is"))

    def say(self, what: str, word: str, of: Sequence[int], others: Sequence[int] = (-1,)) -> _State:
        """The state with one more condition for each entity of `of` and each of `others`."""
        said = [Condition(what, word, one, other) for one in of for other in others]
        return self._replace(conditions=(*self.conditions, *said))


def read(text: str) -> Understood:
    """All readings of a sentence. Raises UnreadError if it has none or has an unknown word."""
    items = to_items(text)
    states = list(_clause(items, 0, _State()))
    if not states:
        raise UnreadError("not a sentence of the grammar")
    agreeing = [state for state in states if state.agrees]
    readings = dict.fromkeys(Reading(state.entities, state.conditions) for state in agreeing or states)
    return Understood(list(readings), bool(agreeing))


def _name(items: list[Item], at: int, state: _State) -> Iterator[tuple[int, _State]]:
    """Yield (next position, state) after one or more noun phrases at `at`, joined by "and"; they become `last`."""
    if at >= len(items) or items[at].what != "np":
        return
    named: tuple[int, ...] = ()
    while at < len(items) and items[at].what == "np":
        entity = items[at].entity
        assert entity is not None
        known = [n for n, other in enumerate(state.entities) if other.kind == entity.kind]
        if items[at].word == "the" and known:  # a second mention
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
    """Yield (next position, state) after noun phrases, or after a pronoun for something mentioned before."""
    if at < len(items) and items[at].what == "pronoun":
        for one in range(len(state.entities)):
            if one not in state.subjects or len(state.subjects) == len(state.entities):
                yield at + 1, state.agree(items[at].form, (one,))._replace(last=(one,))
    yield from _name(items, at, state)


def _clause(items: list[Item], at: int, state: _State) -> Iterator[_State]:
    """Yield the final states of a clause that begins at `at`, with all that follows it."""
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
    """Yield the final states of an inverted clause: "On the table (there) is a cup"."""
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
    """Yield (next position, state) after the object of a preposition: "the table", "the table next to a chair"."""
    for then, named in _point(items, at, state):
        yield then, named
        if then < len(items) and items[then].what == "prep":
            for end, other in _point(items, then + 1, named):
                said = other.say("relation", items[then].word, named.last, other.last)
                yield end, said._replace(last=named.last)


def _tail(items: list[Item], at: int, state: _State) -> Iterator[_State]:
    """Yield the final states of what follows a subject: predicates, prepositional phrases and further clauses."""
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
                    continue  # "it" cannot be its own subject
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
    """Yield the final states of "with" + noun phrase + place or verb ("a table with a cup on it").

    The "with" itself states nothing.
    """
    for then, named in _name(items, at + 1, state):
        if then < len(items) and items[then].what in ("prep", "verb"):
            yield from _tail(items, then, named._replace(subjects=named.last))
