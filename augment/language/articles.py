"""The indefinite article, "a" or "an", chosen by the sound that the next word begins with."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from ..caption import Caption, Casing, Token
from ..edits import Edit, cased

VOWEL_NAMES = "aefhilmnorsx"  # letters whose names begin with a vowel: "an F", "an X-ray", but "a U-turn"
# Abbreviations that are read letter by letter though they could be words; `_LETTERS` matches the others.
SPELLED = set(
    """eu hiv hov led leds nypd nyu sos suv suvs uab uae ucl ucla ufc ufo ufos uhf uk unc url urls usa usaf usb usc usda
    usmc uss ussr utv utvs uv ymca ywca""".split()
)
SPELLED_IN_CAPITALS = {"FAQ", "LA", "MIT", "RAF", "SAT", "UC", "UN", "UPS", "US"}
READ_AS_WORDS = set("ft hm hmm hz lb lbs ltd mm mr mrs ms mt sgt shh sr st".split())
# No English word matches: no vowel (tv, lcd), or two initial consonants that English does not combine (fbi, mri).
_LETTERS = re.compile(
    r"[^aeiouy]+$|f[bcdfghkmnpqstvwxz]|h(?!mong)[b-df-hj-np-tv-xz]|l[bcdfgkmnpqrstvwxz]|m[bdfghjklmpqrstvxz]"
    r"|n[bcdfhjklmpqrstvwxz]|r[bcdfgjklmnpqrstvxz]|s[bdgjsx]|x[bcdfgjklmnpqrstvwz]"
)
# Vowel letters that sound as consonants: "a unicorn", "a one-way street", "a ewe", "a ouija board"; "an unimportant".
_A = re.compile(
    r"one(?:s|self|ness|time|sies?)?(?![a-z])|once|oui[jm]|eu(?!ler)|ewe(?:rs?|s)?(?![a-z])"
    r"|uni(?!d(?!ir)|ll|m(?!od|at)|n|ro(?!y)|ss|tal)|una(?:nim|bom)|unesc|us[aeiu]|ut[aeio]"
    r"|ur(?:[aeiu]|ol)|uk|ubi|ugan|ulys|uv[ue]"
)
_AN = re.compile(r"hour(?!i)|honest|honou?r|heir|herb(?!iv|ic|er)|hors[ -]d|y[^aeiou]")
_NUMBER = re.compile(r"8|1[18](?:\d\d)?(?!\d)|1[18](?:,?\d{3})+(?!\d)")  # eight, eleven, eighteen and their thousands


@cache
def article(word: str) -> str:
    """The indefinite article before a word or phrase, by its sound.

    "an" hour, "a" uniform, "an" 8, "a" one-way sign, "an" L-shaped couch, "an" MRI, "a" UFO, "an" éclair.
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    plain = re.sub(r"^[^A-Za-z0-9]+", "", plain)
    lower = plain.lower()
    if lower[:1].isdigit():
        return "an" if _NUMBER.match(lower) else "a"
    first = re.match(r"[A-Za-z]*", plain)
    assert first is not None
    if _is_spelled(first[0]):
        return "an" if lower[0] in VOWEL_NAMES else "a"
    if lower[:1] in "aeiou":
        return "a" if _A.match(lower) else "an"
    return "an" if _AN.match(lower) else "a"


def _is_spelled(word: str) -> bool:
    """Whether a word is read letter by letter: "L", "TV", "MRI", "suv"; not "NASA"."""
    lower = word.lower()
    if len(word) < 2:
        return len(word) == 1
    return lower not in READ_AS_WORDS and (
        lower in SPELLED or word in SPELLED_IN_CAPITALS or _LETTERS.match(lower) is not None
    )


def article_before(caption: Caption, index: int) -> Token | None:
    """The token "a" or "an" directly before token `index`; None if there is none."""
    if index == 0 or caption.lowered[index - 1] not in ("a", "an"):
        return None
    token = caption.tokens[index - 1]
    return token if token.tag == "DT" else None


def with_article(token: Token | None, edit: Edit, following: str) -> tuple[Edit, ...]:
    """`edit`, preceded by an edit of the article `token` if the text `following` it needs the other form (a/an).

    token: the article before the edit, None if there is none.
    """
    if token is None or article(following) == token.lower:
        return (edit,)
    casing: Casing = "upper" if len(edit.new) > 1 and edit.new.isupper() else "sentence"
    return Edit(token.start, token.end, cased(article(following), token.text, casing, first=True)), edit
