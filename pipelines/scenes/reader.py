"""Parse a sentence about a scene into all its readings: entities and the conditions that it states of them. The grammar
covers the scenes' captions and negatives of them, independently of the parser, scene graphs and operators, so that it
can check them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...augment.language.grammar import article
from .world import COLOURS, KINDS, NUMBERS, PATTERNS, RELATIONS, VERBS, WORLD

COUNTS = {"a": 1, "an": 1, "the": 0, **{word: at for at, word in enumerate(NUMBERS, 1)}}
ATTRIBUTES = (*COLOURS, *PATTERNS, "small", "large", "big", "little", "tiny", "huge")
PREPOSITIONS = sorted((*RELATIONS, *WORLD["vague"]), key=lambda name: -len(name))
NOUNS = {form: kind.name for kind in KINDS.values() for form in (kind.name, kind.plural)}
PLURALS = {kind.plural for kind in KINDS.values()}


class UnreadError(ValueError):
    """The sentence, or a word in it, is outside the grammar and vocabulary of scenes."""


class Entity(NamedTuple):
    """What a noun phrase refers to: `number` things of a kind with these attributes; 0: several, number not stated."""

    kind: str
    number: int
    attributes: tuple[str, ...]


class Condition(NamedTuple):
    """A statement ("attribute", "verb" or "relation") about entity `one`; other: of a relation or object, or -1."""

    what: str
    word: str
    one: int
    other: int = -1


class Reading(NamedTuple):
    """One way to understand a sentence: its entities and what it states of them."""

    entities: tuple[Entity, ...]
    conditions: tuple[Condition, ...]


class _Item(NamedTuple):
    """A word or phrase. what: np (with `entity`), prep, be, there, verb, adjective, and, pronoun, end; word: base form,
    of np "the" if it is definite. form: of verbs and pronouns, "is" if singular, "are" if plural, "" for participles.
    """

    what: str
    word: str = ""
    form: str = ""
    entity: Entity = Entity("", 0, ())


WORDS = {
    **{word: _Item("adjective", word) for word in ATTRIBUTES},
    **{word: _Item("pronoun", form="is") for word in ("it", "him", "her", "he", "she")},
    **{word: _Item("pronoun", form="are") for word in ("them", "they")},
    **{word: _Item("be", form=word) for word in ("is", "are")},
    **{word: _Item("and", word) for word in ("and", ",", "while")},
    "there": _Item("there"),
}
for _verb in (*VERBS, "hold", "carry", "walk", "run", "jump", "swim"):
    _stem = {"lie": "ly", "sit": "sitt"}.get(_verb, _verb)
    _third = {"carry": "carries", "fly": "flies", "perch": "perches"}.get(_verb, f"{_verb}s")
    for _inflected, _form in ((f"{_stem}ing", ""), (_third, "is"), (_verb, "are")):
        WORDS[_inflected] = _Item("verb", _verb, _form)


def _to_items(text: str) -> Iterator[_Item]:
    """The words and noun phrases of a sentence. Raises UnreadError at an unknown word."""
    words = re.findall(r"[a-z]+|\d+|[^\sa-z\d]", text.lower().rstrip(" \t\n.!"))
    while words:
        phrase = next((p.split() for p in PREPOSITIONS if words[: p.count(" ") + 1] == p.split()), None)
        if phrase is not None:
            yield _Item("prep", " ".join(phrase))
            words = words[len(phrase) :]
            continue
        noun_phrase, after = _noun_phrase(words)
        if noun_phrase is None and words[0] not in WORDS:
            raise UnreadError(f"unknown word: {words[0]}")
        yield noun_phrase or WORDS[words[0]]
        words = after


def _noun_phrase(words: list[str]) -> tuple[_Item | None, list[str]]:
    """The noun phrase, or None, that words begin with, and the words after it or after the first word."""
    at = 0
    count = -1
    attributes = []
    determined = words[0] in COUNTS
    while at < len(words) and (words[at] in COUNTS or words[at].isdigit()):
        count = max(count, COUNTS[words[at]] if words[at] in COUNTS else int(words[at]))
        at += 1
    while at < len(words):
        item = WORDS.get(words[at], _Item("end"))
        if item.what != "adjective" and not (item.word in VERBS and not item.form and determined):
            break
        attributes.append(item.word)
        at += 1
    if at == len(words) or words[at] not in NOUNS:
        if at < len(words) and determined:
            raise UnreadError(f"unknown word: {words[at]}")
        return None, words[1:]
    count = count if count > 0 else 0 if words[at] in PLURALS else 1
    entity = Entity(NOUNS[words[at]], count, tuple(attributes))
    return _Item("np", "the" if words[0] == "the" else "", entity=entity), words[at + 1 :]


class _State(NamedTuple):
    """A partial reading, up to item `at`; subjects (of the current clause) and last (named last): entity indices."""

    items: tuple[_Item, ...]
    at: int = 0
    entities: tuple[Entity, ...] = ()
    conditions: tuple[Condition, ...] = ()
    subjects: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    agrees: bool = True

    @property
    def next(self) -> _Item:
        return self.items[self.at] if self.at < len(self.items) else _Item("end")

    def skip(self, **changes: Any) -> _State:
        return self._replace(at=self.at + 1, **changes)

    def agree(self, form: str, subjects: Sequence[int]) -> _State:
        """The state after a verb or pronoun of a form ("is", "are", "" for neither) that must agree with `subjects`."""
        several = len(subjects) > 1 or any(self.entities[one].number != 1 for one in subjects)
        return self._replace(agrees=self.agrees and form in ("", "are" if several else "is"))

    def say(self, what: str, word: str, of: Sequence[int], others: Sequence[int] = (-1,)) -> _State:
        """The state with one more condition for each entity of `of` and each of `others`."""
        said = [Condition(what, word, one, other) for one in of for other in others]
        return self._replace(conditions=(*self.conditions, *said))


def read(text: str) -> list[Reading]:
    """All readings of a sentence (UnreadError: none); those in which verbs and pronouns agree, if there are any."""
    states = list(_clause(_State(tuple(_to_items(text)))))
    if not states:
        raise UnreadError("not a sentence of the grammar")
    agreeing = [state for state in states if state.agrees]
    return list(dict.fromkeys(Reading(state.entities, state.conditions) for state in agreeing or states))


# Each of the following yields the states after one part of a sentence, for each way to read it; _clause and _tail, for
# each way to read it with all that follows.


def _names(state: _State) -> Iterator[_State]:
    """One or more noun phrases, joined by "and"; they become `last`."""
    named: tuple[int, ...] = ()
    while state.next.what == "np":
        entity = state.next.entity
        known = [n for n, other in enumerate(state.entities) if other.kind == entity.kind]
        if state.next.word == "the" and known:  # a second mention
            named = (*named, known[0])
            for attribute in entity.attributes:
                state = state.say("attribute", attribute, known[:1])
        else:
            named = (*named, len(state.entities))
            state = state._replace(entities=(*state.entities, entity))
        state = state.skip()
        yield state._replace(last=named)
        while state.next.what == "and" and state.next.word != "while":
            state = state.skip()


def _objects(state: _State) -> Iterator[_State]:
    """Noun phrases, or a pronoun for something mentioned before."""
    if state.next.what == "pronoun":
        for one in range(len(state.entities)):
            if one not in state.subjects or len(state.subjects) == len(state.entities):
                yield state.agree(state.next.form, (one,)).skip(last=(one,))
    yield from _names(state)


def _clause(state: _State) -> Iterator[_State]:
    first = state.next
    after = state.skip()
    if first.what == "there" and after.next.what == "be":
        for named in _names(after.skip()):
            yield from _tail(named.agree(after.next.form, named.last)._replace(subjects=named.last))
    elif first.what == "prep":
        yield from _inverted(state)
    elif first.what == "pronoun":
        for one in range(len(state.entities)):
            yield from _tail(after.agree(first.form, (one,))._replace(subjects=(one,), last=(one,)))
    else:
        for named in _names(state):
            yield from _tail(named._replace(subjects=named.last))


def _inverted(state: _State) -> Iterator[_State]:
    """An inverted clause: "On the table (there) is a cup"."""
    for placed in _placed(state.skip()):
        while placed.next.what == "there" or placed.next.word == ",":
            placed = placed.skip()
        does = placed.next
        for named in _names(placed.skip()) if does.what in ("verb", "be") else ():
            said = named.say("relation", state.next.word, named.last, placed.last).agree(does.form, named.last)
            if does.what == "verb":
                said = said.say("verb", does.word, named.last)
            yield from _tail(said._replace(subjects=named.last))


def _placed(state: _State) -> Iterator[_State]:
    """The object of a preposition: "the table", "the table next to a chair"."""
    for named in _objects(state):
        yield named
        if named.next.what == "prep":
            for other in _objects(named.skip()):
                yield other.say("relation", named.next.word, named.last, other.last)._replace(last=named.last)


def _tail(state: _State) -> Iterator[_State]:
    """What follows a subject: predicates, prepositional phrases and further clauses."""
    item = state.next
    after = state.skip()
    of = tuple(dict.fromkeys((state.subjects, state.last)))
    if item.what == "end":
        yield state
    elif item.what == "be":
        agreed = after.agree(item.form, state.subjects)
        if after.next.what == "adjective":
            yield from _tail(agreed.say("attribute", after.next.word, state.subjects).skip())
        elif after.next.what in ("verb", "prep"):
            yield from _tail(agreed._replace(last=state.subjects))
    elif item.what == "verb":
        for ones in of if not item.form else of[:1]:
            agreed = after.agree(item.form, ones)
            yield from _tail(agreed.say("verb", item.word, ones)._replace(last=ones))
            for named in _names(agreed):
                yield from _tail(named.say("verb", item.word, ones, named.last))
    elif item.what == "prep":
        for named in _objects(after):
            for ones in of:
                if after.next.what == "pronoun" and not set(ones).isdisjoint(named.last):
                    continue  # "it" cannot be its own subject
                yield from _tail(named.say("relation", item.word, ones, named.last))
        for named in _names(after) if item.word == "with" else ():
            if named.next.what in ("prep", "verb"):  # "a table with a cup on it": the "with" itself states nothing
                yield from _tail(named._replace(subjects=named.last))
    elif item.what == "and":
        while after.next.what == "and":
            after = after.skip()
        if after.next.what in ("be", "verb"):
            yield from _tail(after._replace(last=state.subjects))
        else:
            yield from (_tail if after.next.what == "prep" else _clause)(after)


_NP = r"((?:(?:a|an|the|one|two|three|four|five|six|seven|eight|nine|his|her|its|their) )?(?:[a-z]+ )*?[a-z]+)"
_NOUN = rf"((?:[a-z]+ )*?(?:{'|'.join(sorted(NOUNS, key=len, reverse=True))}))"
_END = r"(?=[ ,.]|$)"
_DENIALS = {
    rf", not {_NP}(?:,|$)": "corrected",
    rf" ?\bwith no {_NOUN} (?:nearby|in sight)": "none",
    rf" ?\bwith {_NP} nearby": "nearby",
    rf" (?:but|and) no {_NOUN}{_END}": "none",
    rf"\b(?:without|with no) (?:an? )?{_NOUN}{_END}": "lacking",
    rf"\bthere (?:is|are) no {_NOUN}{_END}": "there is none",
}


class Claim(NamedTuple):
    """A sentence, and whether it is claimed to be true or false; exact: whether its counts are claimed to be exact."""

    text: str
    true: bool
    exact: bool = True


def claims(text: str) -> list[Claim] | None:
    """What a sentence with a denial claims, all of which must hold; None without one. "a cat with no dog nearby" -> "a
    cat" is true, "there is a dog" false; "a dog, not a cat, sits" -> "a dog sits" is true, "a cat sits" false.
    """
    lower = text.lower().rstrip(". ")
    said = lower.removesuffix(" in the picture")  # "there is a dog in the picture" does not count the dogs
    exact = said == lower
    found = next(filter(None, (re.search(pattern, said) for pattern in _DENIALS)), None)
    if found is None:
        return None if exact else [Claim(said, True, False)]
    denial = _DENIALS[found.re.pattern]
    before = said[: found.start()]
    noun = found[1]
    after = said[found.end() :]
    rest = " ".join(f"{before} {after}".split()).replace(" ,", ",")
    made = [Claim(rest, True)] if denial != "there is none" else []
    if denial == "corrected":
        *kept, _ = before.split()
        wrong = noun.split()[-1]
        if kept and kept[-1] in ("a", "an"):
            kept[-1] = article(wrong)
        made.append(Claim(" ".join([*kept, wrong, after.strip()]).strip(), False))
    elif denial == "lacking":
        made.append(Claim(f"{before}with {_indefinite(noun)}{after}", False))
    elif denial == "there is none":
        made.append(Claim(f"{before}{_there_is_one(noun)}{after}", False))
    else:
        present, _, absent = noun.partition(" but no ") if denial == "nearby" else ("", "", noun)
        if present:
            verb = "are" if present.split()[-1] in PLURALS else "is"
            made.append(Claim(f"there {verb} {_indefinite(present)}", True, False))
        if absent:
            made.append(Claim(_there_is_one(absent), False))
    return [claim._replace(exact=claim.exact and exact) for claim in made]


def _indefinite(noun: str) -> str:
    noun = re.sub(r"^(a|an|the) ", "", noun)
    return noun if noun.split()[-1] in PLURALS else f"{article(noun)} {noun}"


def _there_is_one(noun: str) -> str:
    """That there is such a thing: if this is false, there are not several either."""
    *before, last = noun.split()
    return f"there is {_indefinite(' '.join([*before, NOUNS.get(last, last)]))}"
