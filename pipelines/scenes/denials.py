"""Turn a sentence that denies something into the one that asserts it, for the judge of scenes.

It knows the words of denials, but not the slots that the operators of negation find, so that it can check them.
"""

from __future__ import annotations

import re

from negcap.augment.language.articles import article
from negcap.pipelines.scenes.words import NOUNS, PLURALS, singular

_DO = re.compile(r"\b(does|do) not (\w+)")
_NO = re.compile(rf"\bno ((?:\w+ )*?({'|'.join(sorted(NOUNS, key=len, reverse=True))}))\b")


def assertion(text: str) -> str | None:
    """What a sentence denies, asserted: "a dog is not sitting" -> "a dog is sitting"; None without a denial.

    "does not sit" -> "sits", "without a hat" -> "with a hat", "but no cup" -> "and a cup", "no dogs" -> "dogs".
    """
    lower = text.lower()
    words = set(re.findall(r"[a-z]+", lower))
    if words.isdisjoint(("not", "no", "without")):
        return None
    lower = _DO.sub(lambda found: singular(found[2]) if found[1] == "does" else found[2], lower)
    lower = re.sub(r"\bnot ", "", lower).replace("without", "with").replace(" but no ", " and no ")
    return _NO.sub(_some, lower)


def _some(found: re.Match[str]) -> str:
    return found[1] if found[2] in PLURALS else f"{article(found[1])} {found[1]}"
