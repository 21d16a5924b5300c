"""Split a sentence that denies something into claims, each true or false of a scene, for the judge of scenes.

It knows the words of denials, but not the places that the operators of negation find, so that it can check them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ...augment.language.grammar import article
from .words import NOUNS, PLURALS

_NP = r"((?:(?:a|an|the|one|two|three|four|five|six|seven|eight|nine|his|her|its|their) )?(?:[a-z]+ )*?[a-z]+)"
_NOUN = rf"((?:[a-z]+ )*?(?:{'|'.join(sorted(NOUNS, key=len, reverse=True))}))"
_END = r"(?=[ ,.]|$)"


class Claim(NamedTuple):
    """A sentence, and whether it is claimed to be true or false; exact: whether its counts are claimed to be exact."""

    text: str
    true: bool
    exact: bool = True


def claims(text: str) -> list[Claim] | None:
    """What a sentence with a denial claims, all of which must hold; None without a denial.

    "a cat with no dog nearby" -> "a cat" is true, "there is a dog" false; "a dog, not a cat, sits" -> "a dog sits" is
    true, "a cat sits" false; "a cat with a dog nearby" -> both "a cat" and "there is a dog" are true.
    """
    lower = text.lower().rstrip(". ")
    said = lower.removesuffix(" in the picture")  # "there is a dog in the picture" does not count the dogs
    exact = said == lower
    for pattern, split in _SPLITS:
        found = pattern.search(said)
        if found is not None:
            return [claim._replace(exact=claim.exact and exact) for claim in split(said, found)]
    return None if exact else [Claim(said, True, False)]


def _there(noun: str) -> str:
    noun = re.sub(r"^(a|an|the) ", "", noun)
    plural = noun.split()[-1] in PLURALS
    return f"there {'are' if plural else 'is'} {noun if plural else f'{article(noun)} {noun}'}"


def _any(noun: str) -> list[Claim]:
    """That there is no such thing: neither one nor several."""
    one = next((kind for form, kind in NOUNS.items() if form == noun.split()[-1]), noun.split()[-1])
    before = " ".join(noun.split()[:-1])
    return [Claim(_there(f"{before} {one}".strip()), False)]


def _without(lower: str, found: re.Match[str]) -> str:
    return " ".join((lower[: found.start()] + " " + lower[found.end() :]).split()).replace(" ,", ",")


def _corrected(lower: str, found: re.Match[str]) -> list[Claim]:
    *before, _ = lower[: found.start()].split()
    wrong = found[1].split()[-1]
    if before and before[-1] in ("a", "an"):
        before[-1] = article(wrong)
    return [
        Claim(_without(lower, found), True),
        Claim(" ".join([*before, wrong, lower[found.end() :].strip()]).strip(), False),
    ]


def _nearby(lower: str, found: re.Match[str]) -> list[Claim]:
    return [Claim(_without(lower, found), True), *_any(found[1])]


def _with_nearby(lower: str, found: re.Match[str]) -> list[Claim]:
    asserted, _, denied = found[1].partition(" but no ")
    made = [Claim(_without(lower, found), True), Claim(_there(asserted), True, False)]
    return made + (_any(denied) if denied else [])


def _lacking(lower: str, found: re.Match[str]) -> list[Claim]:
    noun = re.sub(r"^(a|an) ", "", found[1])
    phrase = noun if noun.split()[-1] in PLURALS else f"{article(noun)} {noun}"
    with_it = f"{lower[: found.start()]}with {phrase}{lower[found.end() :]}"
    return [Claim(_without(lower, found), True), Claim(with_it, False)]


def _there_is_no(lower: str, found: re.Match[str]) -> list[Claim]:
    return [Claim(lower[: found.start()] + one.text + lower[found.end() :], False) for one in _any(found[1])]


_SPLITS: list[tuple[re.Pattern[str], Callable[[str, re.Match[str]], list[Claim]]]] = [
    (re.compile(rf", not {_NP}(?:,|$)"), _corrected),
    (re.compile(rf" ?\bwith no {_NOUN} (?:nearby|in sight)"), _nearby),
    (re.compile(rf" ?\bwith ({_NP}) nearby"), _with_nearby),
    (re.compile(rf" (?:but|and) no {_NOUN}{_END}"), _nearby),
    (re.compile(rf"\b(?:without|with no) (?:an? )?{_NOUN}{_END}"), _lacking),
    (re.compile(rf"\bthere (?:is|are) no {_NOUN}{_END}"), _there_is_no),
]
