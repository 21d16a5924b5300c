"""Which captions of the web are refused for their own text: another language, boilerplate. See also `duplicates`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..readers.record import Record, Rejected, reject

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# A caption of three words is often told wrongly, but seldom with such odds: with 5, 97 % of the first three words of
# English captions of COCO are kept and 1.5 % of those of German ones of Multi30K; of whole captions, 100 % and 0.4 %.
ODDS = 5
BOILERPLATE = {
    "file name": r"\S+\.(?:jpe?g|png|gif|webp|bmp|tiff?|svg|pdf)|"
    r"(?:img|dsc[nf]?|image|photo|pict?|screenshot)[-_ ]?\d+",
    "web address": r".*(?:https?://|www\.\w|\w@\w+\.\w).*",
    "markup": r".*(?:</?[a-z]+[ />]|&(?:nbsp|amp|quot|lt|gt|#\d+);|\{\{|\}\}|\[/?[a-z]+(?: [^]]*)?\]).*",
    "stock phrase": r".*\b(?:click (?:here|to|on|for|image)|read more|add to cart|buy (?:it )?now|free shipping|"
    r"all rights reserved|image (?:result|source|credit|not (?:available|found))|no image|photo (?:by|credit|courtesy)|"
    r"stock (?:photo|image|vector|illustration|footage)s?|royalty[- ]free|shutterstock|getty images|dreamstime|"
    r"thumbnail|placeholder|lorem ipsum|log ?in|sign (?:in|up)|subscribe|cookies|javascript|"
    r"(?:loading|untitled|default image|related posts?))\b.*|.*(?:©|\(c\) ?(?:19|20)\d\d).*",
}
_BOILERPLATE = {rule: re.compile(pattern, re.IGNORECASE) for rule, pattern in BOILERPLATE.items()}
_WORDS = re.compile(r"[^\W\d_]{2,}")
_REPEATED = 4
Check = Callable[[Record], Rejected | None]


def refusing(records: Iterable[Record | Rejected], checks: Sequence[Check]) -> Iterator[Record | Rejected]:
    """The same records, in which a caption that a check refuses has become a rejected record."""
    for record in records:
        if type(record) is Record:
            yield next((bad for check in checks if (bad := check(record)) is not None), record)
        else:
            yield record


def checks(languages: tuple[str, ...], boilerplate: bool) -> list[Check]:
    """The checks of a caption's own text that are asked for, which refuse it or keep it.

    languages: refuse those in other languages (see `in_languages`); none: do not check. Raises ValueError for a
    language that is not known, ImportError without py3langid.
    """
    return [*([_is_boilerplate] if boilerplate else []), *([in_languages(languages)] if languages else [])]


def in_languages(languages: tuple[str, ...]) -> Check:
    """A check that refuses a text (`other_language`) if some other language is ODDS times as likely as any of these.

    Languages are told by py3langid; a text that is too short to tell is kept. Raises ValueError for a language that it
    does not know, ImportError without it.
    """
    identifier = _identifier()
    if unknown := sorted(set(languages) - set(identifier.labels)):
        raise ValueError(f"languages must be among those of py3langid, was: {unknown[0]}")

    def check(record: Record) -> Rejected | None:
        ranked = identifier.rank(record.text)
        other, likely = next((one for one in ranked if one[0] not in languages), ("", 0.0))
        wanted = max((chance for language, chance in ranked if language in languages), default=0.0)
        if likely < ODDS * wanted:
            return None
        listed = " or ".join(languages)
        return reject(record, "other_language", f"language must be {listed}, is {other}, {likely:.0%} likely")

    return check


def versions() -> dict[str, Any]:
    """The version of the language identifier, on which rows depend."""
    from importlib.metadata import version

    return {"py3langid": version("py3langid")}


@cache
def _identifier() -> LanguageIdentifier:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise ImportError("languages needs py3langid: pip install 'negcap[web]'") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _is_boilerplate(record: Record) -> Rejected | None:
    """Refuse what is no caption, but was put in its place on web pages; the detail names the rule."""
    for rule, pattern in _BOILERPLATE.items():
        if pattern.fullmatch(record.text):
            return reject(record, "boilerplate", f"caption must not be boilerplate, has a {rule}")
    words = [word.lower() for word in _WORDS.findall(record.text)]
    if not words or 2 * sum(map(len, words)) < len(record.text.replace(" ", "")):
        return reject(record, "boilerplate", "caption must be of words, is mostly of other characters")
    if any(len(set(words[at : at + _REPEATED])) == 1 for at in range(len(words) - _REPEATED + 1)):
        return reject(record, "boilerplate", f"caption must not say a word {_REPEATED} times in a row")
    return None
