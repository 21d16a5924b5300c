"""Parse a sentence about a scene into all its readings: entities and the conditions that it states of them.

The grammar covers the scenes' captions and negatives of them, independently of the parser, scene graphs and operators,
so that it can check them. "A dog is under a table next to a chair" has two readings: the dog is next to the chair, or
the table is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from ...augment.language.grammar import indefinite_article
from .world import COLOURS, KINDS, NUMBERS, PATTERNS, RELATIONS, VERBS, WORLD, progressive, third_person

COUNTS = {"a": 1, "an": 1, "the": 0, **{word: number for number, word in enumerate(NUMBERS, 1)}}
ATTRIBUTES = (*COLOURS, *PATTERNS, "small", "large", "big", "little", "tiny", "huge")
# The longest first, so that "to the left of" is not read as "to".
PREPOSITIONS = [name.split() for name in sorted((*RELATIONS, *WORLD["vague"]), key=lambda name: -len(name))]
NOUNS = {form: kind.name for kind in KINDS.values() for form in (kind.name, kind.plural)}
PLURALS = {kind.plural for kind in KINDS.values()}


class UnreadError(ValueError):
    """The sentence, or a word in it, is outside the grammar and vocabulary of scenes."""


class Entity(NamedTuple):
    """What a noun phrase refers to: `number` things of a kind with these attributes; 0 if it is not said how many."""

    kind: str
    number: int
    attributes: tuple[str, ...]


class Condition(NamedTuple):
    """A statement about an entity: it is red, sits, holds a cup, or is on a table.

    subject, object: indices of entities; the object of a relation or verb is -1 if there is none.
    """

    what: Literal["attribute", "verb", "relation"]
    word: str
    subject: int
    object: int = -1


class Reading(NamedTuple):
    """One way to understand a sentence: its entities and what it states of them."""

    entities: tuple[Entity, ...]
    conditions: tuple[Condition, ...]


class _Item(NamedTuple):
    """A word or phrase of a sentence.

    what: "np" is a noun phrase, with `entity`; "end" is no word of the grammar, or the end of the sentence.
    word: the base form; for a noun phrase "the" if it is definite.
    form: for verbs and pronouns, "is" if singular, "are" if plural, "" for participles.
    """

    what: Literal["np", "prep", "be", "there", "verb", "adjective", "and", "pronoun", "end"]
    word: str = ""
    form: str = ""
    entity: Entity = Entity("", 0, ())


END = _Item("end")


def _word_items() -> dict[str, _Item]:
    """The item of each word of the grammar, except for nouns, determiners and prepositions.

    A word of two kinds has the item that is set last. The form of an item tells what it agrees with: "is" a singular
    ("it", "sits"), "are" a plural ("they", "sit"), "" both (the participle "sitting").
    """
    items = {word: _Item("adjective", word) for word in ATTRIBUTES}
    items |= {word: _Item("pronoun", form="is") for word in ("it", "him", "her", "he", "she")}
    items |= {word: _Item("pronoun", form="are") for word in ("them", "they")}
    items |= {word: _Item("be", form=word) for word in ("is", "are")}
    items |= {word: _Item("and", word) for word in ("and", ",", "while")}
    items["there"] = _Item("there")
    # The pose or place of a thing shows whether it does one of VERBS. Negatives have more verbs: a scene also tells
    # what is held; whether something walks or runs in it is a matter of opinion (see `judge.is_doing`).
    for verb in (*VERBS, "hold", "carry", "walk", "run", "jump", "swim"):
        items[progressive(verb)] = _Item("verb", verb)
        items[third_person(verb)] = _Item("verb", verb, "is")
        items[verb] = _Item("verb", verb, "are")
    return items


WORDS = _word_items()


def _split_into_items(text: str) -> Iterator[_Item]:
    """The words and noun phrases of a sentence: "two cups" "are" "on" "a table". Raises UnreadError at an unknown word.

    At each place a preposition of several words comes before a noun phrase, and that before a single word.
    """
    # Runs of letters, runs of digits, and each punctuation mark.
    words = re.findall(r"[a-z]+|\d+|[^\sa-z\d]", text.lower().rstrip(" \t\n.!"))
    while words:
        preposition = next((name for name in PREPOSITIONS if words[: len(name)] == name), None)
        if preposition is not None:
            yield _Item("prep", " ".join(preposition))
            words = words[len(preposition) :]
            continue
        phrase = _leading_noun_phrase(words)
        if phrase is not None:
            yield phrase.item
            words = phrase.rest
        elif words[0] in WORDS:
            yield WORDS[words[0]]
            words = words[1:]
        else:
            raise UnreadError(f"unknown word: {words[0]}")


class _Phrase(NamedTuple):
    """A noun phrase, and the words that follow it."""

    item: _Item
    rest: list[str]


def _leading_noun_phrase(words: list[str]) -> _Phrase | None:
    """The noun phrase that words begin with, such as "the two small red balls"; None if they begin with something else.

    It is read from left to right: determiners and numbers, adjectives, then the noun. Raises UnreadError if what
    follows a determiner is no noun.
    """
    is_determined = words[0] in COUNTS
    position = 0
    number = -1  # the largest that is stated: 2 for "the two", since COUNTS has 0 for "the"
    while position < len(words) and (words[position] in COUNTS or words[position].isdigit()):
        stated = COUNTS[words[position]] if words[position] in COUNTS else int(words[position])
        number = max(number, stated)
        position += 1
    attributes = []
    while position < len(words):
        item = WORDS.get(words[position], END)
        is_participle = item.word in VERBS and not item.form
        if item.what != "adjective" and not (is_participle and is_determined):  # "a sleeping dog"
            break
        attributes.append(item.word)
        position += 1
    if position == len(words):
        return None
    noun = words[position]
    if noun not in NOUNS:
        if is_determined:
            raise UnreadError(f"unknown word: {noun}")
        return None
    # No number, or only "the".
    if number <= 0:
        number = 0 if noun in PLURALS else 1
    entity = Entity(NOUNS[noun], number, tuple(attributes))
    return _Phrase(_Item("np", "the" if words[0] == "the" else "", entity=entity), words[position + 1 :])


Entities = tuple[int, ...]  # numbers of entities, by the order in which the sentence names them


class _State(NamedTuple):
    """A partial reading, up to the item at `position`.

    subjects: the entities that are the subject of the current clause. last: those that were named last. agrees: whether
    all verbs and pronouns so far agree in number with what they refer to.
    """

    items: tuple[_Item, ...]
    position: int = 0
    entities: tuple[Entity, ...] = ()
    conditions: tuple[Condition, ...] = ()
    subjects: Entities = ()
    last: Entities = ()
    agrees: bool = True

    @property
    def next(self) -> _Item:
        """The item that is read next; END behind the last one."""
        return self.items[self.position] if self.position < len(self.items) else END

    def skip(self) -> _State:
        """The state after the next item, of which nothing is recorded."""
        return self._replace(position=self.position + 1)

    def agree(self, form: str, subjects: Sequence[int]) -> _State:
        """The state after a verb or pronoun of a form ("is", "are", "" for neither) that must agree with `subjects`."""
        is_plural = len(subjects) > 1 or any(self.entities[subject].number != 1 for subject in subjects)
        return self._replace(agrees=self.agrees and form in ("", "are" if is_plural else "is"))

    def with_condition(
        self,
        what: Literal["attribute", "verb", "relation"],
        word: str,
        subjects: Sequence[int],
        objects: Sequence[int] = (-1,),
    ) -> _State:
        """The state with one more condition for each pair of a subject and an object.

        Args:
            what: the kind of the condition.
            word: its word, such as red, sit or on.
            subjects: the indices of the entities that must meet it.
            objects: the indices of the entities that they must meet it with; -1: none.
        """
        added = [Condition(what, word, subject, target) for subject in subjects for target in objects]
        return self._replace(conditions=(*self.conditions, *added))


def read(text: str) -> list[Reading]:
    """All readings of a sentence; if there are some in which all verbs and pronouns agree, only these.

    Raises UnreadError when the grammar does not read the sentence.
    """
    states = list(_read_clause(_State(tuple(_split_into_items(text)))))
    if not states:
        raise UnreadError("not a sentence of the grammar")
    agreeing = [state for state in states if state.agrees]
    return list(dict.fromkeys(Reading(state.entities, state.conditions) for state in agreeing or states))


# A parser with backtracking: each of the following functions takes the state before one part of a sentence and yields a
# state for each way to read that part; nothing if it cannot be read so. Those that say "and all that follows it" go on
# to the end of the sentence, so that their states are whole readings.


def _read_noun_phrases(state: _State) -> Iterator[_State]:
    """Read one or more noun phrases that are joined by "and"; the entities they name become `last`.

    Yields a state after each of them, as "and" may also begin a clause: "a cup and a dog" or "a cup, and a dog is …".
    """
    named: Entities = ()
    while state.next.what == "np":
        entity = state.next.entity
        same_kind = [number for number, other in enumerate(state.entities) if other.kind == entity.kind]
        # A second mention ("a ball … the red ball"): its attributes are conditions on the first.
        if state.next.word == "the" and same_kind:
            named = (*named, same_kind[0])
            for attribute in entity.attributes:
                state = state.with_condition("attribute", attribute, same_kind[:1])
        else:
            named = (*named, len(state.entities))
            state = state._replace(entities=(*state.entities, entity))
        state = state.skip()
        yield state._replace(last=named)
        while state.next.what == "and" and state.next.word != "while":
            state = state.skip()


def _read_object(state: _State) -> Iterator[_State]:
    """Read the object of a preposition: noun phrases, or a pronoun for an entity that was named before.

    The entities that it means become `last`. A pronoun has a state for each entity that it may mean.
    """
    if state.next.what == "pronoun":
        only_subjects_are_named = len(state.subjects) == len(state.entities)
        for entity in range(len(state.entities)):
            # In "a cup is on a table with a box on it", "it" is not the subject, the cup.
            if entity not in state.subjects or only_subjects_are_named:
                yield state.agree(state.next.form, (entity,)).skip()._replace(last=(entity,))
    yield from _read_noun_phrases(state)


def _read_clause(state: _State) -> Iterator[_State]:
    """Read a clause and all that follows it: "there is a cup", "on the table is a cup", "it is red", "a cup is big"."""
    first = state.next
    after = state.skip()
    if first.what == "there" and after.next.what == "be":
        for named in _read_noun_phrases(after.skip()):
            yield from _read_rest(named.agree(after.next.form, named.last)._replace(subjects=named.last))
    elif first.what == "prep":
        yield from _read_inverted_clause(state)
    elif first.what == "pronoun":
        for entity in range(len(state.entities)):
            yield from _read_rest(after.agree(first.form, (entity,))._replace(subjects=(entity,), last=(entity,)))
    else:
        for named in _read_noun_phrases(state):
            yield from _read_rest(named._replace(subjects=named.last))


def _read_inverted_clause(state: _State) -> Iterator[_State]:
    """Read a clause that begins with a preposition, and all that follows it: "On the table (there) is a cup"."""
    preposition = state.next.word
    for placed in _read_place(state.skip()):
        while placed.next.what == "there" or placed.next.word == ",":
            placed = placed.skip()
        verb = placed.next
        if verb.what not in ("verb", "be"):
            continue
        for named in _read_noun_phrases(placed.skip()):
            stated = named.with_condition("relation", preposition, named.last, placed.last).agree(verb.form, named.last)
            if verb.what == "verb":
                stated = stated.with_condition("verb", verb.word, named.last)
            yield from _read_rest(stated._replace(subjects=named.last))


def _read_place(state: _State) -> Iterator[_State]:
    """Read the place of something, after the preposition: "the table", "the table next to a chair"."""
    for named in _read_object(state):
        yield named
        if named.next.what == "prep":
            preposition = named.next.word
            for other in _read_object(named.skip()):
                related = other.with_condition("relation", preposition, named.last, other.last)
                # What is placed is on the table, not next to the chair.
                yield related._replace(last=named.last)


def _read_rest(state: _State) -> Iterator[_State]:
    """Read what follows a subject, to the end of the sentence: predicates, prepositional phrases, further clauses."""
    match state.next.what:
        case "end":
            yield state
        case "be":
            yield from _read_after_be(state)
        case "verb":
            yield from _read_after_verb(state)
        case "prep":
            yield from _read_after_preposition(state)
        case "and":
            yield from _read_after_and(state)


def _possible_subjects(state: _State) -> list[Entities]:
    """The entities that a participle or preposition may be about: the clause's subjects, or those named last.

    Both are one entry if they are the same: [(0,), (1,)] in "a cup on a table | near …", [(0,)] in "a cup | near …".
    """
    return list(dict.fromkeys((state.subjects, state.last)))


def _read_after_be(state: _State) -> Iterator[_State]:
    """Read the predicate of "is", and all that follows it: "is red", "is sitting", "is on a table"."""
    after = state.skip()
    agreed = after.agree(state.next.form, state.subjects)
    if after.next.what == "adjective":
        yield from _read_rest(agreed.with_condition("attribute", after.next.word, state.subjects).skip())
    elif after.next.what in ("verb", "prep"):
        yield from _read_rest(agreed._replace(last=state.subjects))


def _read_after_verb(state: _State) -> Iterator[_State]:
    """Read a verb or participle, with or without an object, and all that follows it."""
    verb = state.next
    possible_subjects = _possible_subjects(state)
    if verb.form:
        # A finite verb ("sits") is the subject's; a participle ("sitting") may also be of the entities named last.
        possible_subjects = possible_subjects[:1]
    for subjects in possible_subjects:
        agreed = state.skip().agree(verb.form, subjects)
        yield from _read_rest(agreed.with_condition("verb", verb.word, subjects)._replace(last=subjects))
        for named in _read_noun_phrases(agreed):
            yield from _read_rest(named.with_condition("verb", verb.word, subjects, named.last))


def _read_after_preposition(state: _State) -> Iterator[_State]:
    """Read a prepositional phrase, about the subject or about what was named last, and all that follows it."""
    preposition = state.next.word
    after = state.skip()
    for named in _read_object(after):
        for subjects in _possible_subjects(state):
            if after.next.what == "pronoun" and not set(subjects).isdisjoint(named.last):
                # "it" cannot be its own subject.
                continue
            yield from _read_rest(named.with_condition("relation", preposition, subjects, named.last))
    if preposition == "with":
        for named in _read_noun_phrases(after):
            # "a table with a cup on it": the cup is the subject of "on it"; the "with" itself states nothing.
            if named.next.what in ("prep", "verb"):
                yield from _read_rest(named._replace(subjects=named.last))


def _read_after_and(state: _State) -> Iterator[_State]:
    """Read "and" with a second predicate, phrase or clause, and all that follows it."""
    after = state.skip()
    while after.next.what == "and":  # ", and"
        after = after.skip()
    if after.next.what in ("be", "verb"):  # the same subjects
        yield from _read_rest(after._replace(last=state.subjects))
    elif after.next.what == "prep":
        yield from _read_rest(after)
    else:
        yield from _read_clause(after)


_NP = r"((?:(?:a|an|the|one|two|three|four|five|six|seven|eight|nine|his|her|its|their) )?(?:[a-z]+ )*?[a-z]+)"
_NOUN = rf"((?:[a-z]+ )*?(?:{'|'.join(sorted(NOUNS, key=len, reverse=True))}))"
_END = r"(?=[ ,.]|$)"
_DENIALS = {  # pattern, whose group is what is denied -> kind of the denial; the first that fits counts
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
    """Split a sentence with a denial into claims, all of which must hold; None for a sentence that denies nothing.

    "a cat with no dog nearby" -> "a cat" is true, "there is a dog" is false.
    "a dog, not a cat, sits" -> "a dog sits" is true, "a cat sits" is false.
    """
    lower = text.lower().rstrip(". ")
    # "there is a dog in the picture" does not count the dogs.
    sentence = lower.removesuffix(" in the picture")
    exact = sentence == lower
    denial = next(filter(None, (re.search(pattern, sentence) for pattern in _DENIALS)), None)
    if denial is None:
        return None if exact else [Claim(sentence, true=True, exact=False)]
    before = sentence[: denial.start()]
    denied = denial[1]
    after = sentence[denial.end() :]
    rest = Claim(" ".join(f"{before} {after}".split()).replace(" ,", ","), true=True)
    match _DENIALS[denial.re.pattern]:
        case "corrected":  # "a dog, not a cat, sits"
            stated = [rest, Claim(_with_denied_noun(before, denied, after), true=False)]
        case "lacking":  # "a table without a cup"
            stated = [rest, Claim(f"{before}with {_with_indefinite_article(denied)}{after}", true=False)]
        case "there is none":  # "there is no dog under a table"
            stated = [Claim(f"{before}{_there_is_one(denied)}{after}", true=False)]
        case "nearby":  # "a cat with a dog but no cups nearby"
            present, _, absent = denied.partition(" but no ")
            be = "are" if present.split()[-1] in PLURALS else "is"
            stated = [rest, Claim(f"there {be} {_with_indefinite_article(present)}", true=True, exact=False)]
            if absent:
                stated.append(Claim(_there_is_one(absent), true=False))
        case _:  # "a cat but no dog"
            stated = [rest, Claim(_there_is_one(denied), true=False)]
    return [claim._replace(exact=claim.exact and exact) for claim in stated]


def _with_denied_noun(before: str, denied: str, after: str) -> str:
    """The sentence that "A, not B, …" denies: the same with B's noun instead of A's.

    before, denied and after are "a dog", "a cat" and " sits" for "a dog, not a cat, sits"; returns "a cat sits".
    """
    *words, _ = before.split()
    denied_noun = denied.split()[-1]
    if words and words[-1] in ("a", "an"):
        words[-1] = indefinite_article(denied_noun)
    return " ".join([*words, denied_noun, after.strip()]).strip()


def _with_indefinite_article(noun: str) -> str:
    """ "the dog" -> "a dog"; a plural has no article."""
    noun = re.sub(r"^(a|an|the) ", "", noun)
    return noun if noun.split()[-1] in PLURALS else f"{indefinite_article(noun)} {noun}"


def _there_is_one(noun: str) -> str:
    """ "red balls" or "red ball" -> "there is a red ball": if that is false, there are not several either."""
    *before, last = noun.split()
    return f"there is {_with_indefinite_article(' '.join([*before, NOUNS.get(last, last)]))}"
