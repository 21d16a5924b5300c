"""Tokenise a sentence about a scene into words and noun phrases."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from .truth import RELATIONS, VERBS
from .world import COLOURS, KINDS, PATTERNS

NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
COUNTS = {"a": 1, "an": 1, "the": 0, **{word: at for at, word in enumerate(NUMBERS, 1)}}
SIZES = ("small", "large", "big", "little", "tiny", "huge")
VAGUE = (
    "with", "at", "against", "around", "from", "to", "toward", "towards", "across", "along", "among", "into", "onto",
    "off", "out of", "outside", "past", "through", "up", "down", "without", "away from", "between", "of",
)  # fmt: skip
PREPOSITIONS = sorted((*RELATIONS, *VAGUE), key=lambda name: -len(name))
HOLDING = ("hold", "carry")
NOUNS = {form: kind.name for kind in KINDS.values() for form in (kind.name, kind.plural)}
PLURALS = {kind.plural for kind in KINDS.values()}
_WORD = re.compile(r"[a-z]+|\d+|[^\sa-z\d]")


class UnreadError(ValueError):
    """The sentence, or a word in it, is outside the grammar and vocabulary of scenes."""


class Entity(NamedTuple):
    """What a noun phrase refers to: `number` things of a kind with these attributes; 0: several, number not stated."""

    kind: str
    number: int
    attributes: tuple[str, ...]


class Item(NamedTuple):
    """A word or phrase of a sentence.

    what: its type: np (with `entity`), prep, be, there, verb, adjective, and, pronoun; word: its base form; for np,
    "the" if it is definite.
    """

    what: str
    word: str = ""
    entity: Entity | None = None
    form: str = ""  # of verbs and pronouns: "is" if singular, "are" if plural, "" for participles


@cache
def _verbs() -> dict[str, tuple[str, str]]:
    """Inflected form -> (verb, the form of "be" it agrees like): sits -> is, sit -> are, sitting -> ""."""
    doubled = {"sit": "sitt"}
    forms: dict[str, tuple[str, str]] = {}
    for verb in (*VERBS, *HOLDING, "walk", "run", "jump", "swim"):
        stem = "ly" if verb == "lie" else doubled.get(verb, verb)
        third = {"carry": "carries", "fly": "flies"}.get(verb, verb + ("es" if verb.endswith("ch") else "s"))
        forms |= {f"{stem}ing": (verb, ""), third: (verb, "is"), verb: (verb, "are")}
    return forms


def singular(verb: str) -> str:
    """The third person singular of a verb of the vocabulary: sit -> sits; any other word unchanged."""
    return next((form for form, (base, agrees) in _verbs().items() if base == verb and agrees == "is"), verb)


def to_items(text: str) -> list[Item]:
    """The words and noun phrases of a sentence. Raises UnreadError at an unknown word."""
    words = _WORD.findall(text.lower())
    while words and words[-1] in ".!":
        words.pop()
    found: list[Item] = []
    at = 0
    while at < len(words):
        made, at = _next(words, at)
        found.append(made)
    return found


def _next(words: list[str], at: int) -> tuple[Item, int]:
    word = words[at]
    phrase = next((p for p in PREPOSITIONS if words[at : at + p.count(" ") + 1] == p.split()), None)
    if phrase is not None:
        return Item("prep", phrase), at + phrase.count(" ") + 1
    noun = _noun_phrase(words, at)
    if noun is not None:
        return noun
    if word in ("is", "are"):
        return Item("be", form=word), at + 1
    if word in ("it", "them", "they", "him", "her", "he", "she"):
        return Item("pronoun", form="are" if word.startswith("the") else "is"), at + 1
    if word == "there":
        return Item("there"), at + 1
    if word in ("and", ",", "while"):
        return Item("and", word), at + 1
    if word in (*COLOURS, *SIZES, *PATTERNS):
        return Item("adjective", word), at + 1
    if word in _verbs():
        verb, form = _verbs()[word]
        return Item("verb", verb, form=form), at + 1
    raise UnreadError(f"unknown word: {word}")


def _noun_phrase(words: list[str], at: int) -> tuple[Item, int] | None:
    """The noun phrase at `at` and the next position; None if there is none. Raises UnreadError for unknown words."""
    start = at
    count = -1
    while at < len(words) and (words[at] in COUNTS or words[at].isdigit()):
        count = max(count, int(words[at]) if words[at].isdigit() else COUNTS[words[at]])
        at += 1
    attributes = []
    while at < len(words):
        word = words[at]
        verb, form = _verbs().get(word, ("", ""))
        if word in (*COLOURS, *SIZES, *PATTERNS):
            attributes.append(word)
        elif verb in VERBS and not form and words[start] in COUNTS:
            attributes.append(verb)
        else:
            break
        at += 1
    if at < len(words) and words[at] not in NOUNS and words[start] in COUNTS:
        raise UnreadError(f"unknown word: {words[at]}")
    if at >= len(words) or words[at] not in NOUNS:
        return None
    noun = words[at]
    count = count if count > 0 else 0 if noun in PLURALS else 1
    return Item("np", "the" if words[start] == "the" else "", Entity(NOUNS[noun], count, tuple(attributes))), at + 1
