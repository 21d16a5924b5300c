"""Syntactic contexts: the governor and the neighbours of a slot, as short strings that a lexicon counts.

`pobj:sit in` is the object of "in" under "sit", `left:on a` follows "on a", `right:wearing` precedes "wearing".
Counting and operators call the same functions, so replacements are weighted by exactly these counts.
"""

from __future__ import annotations

from functools import lru_cache

from ..caption import Caption, Token
from ..language.semantic_classes import semantic_class, verb_class


def before(caption: Caption, index: int) -> str:
    """The word before token `index`, or two words if that is an article ("on a"); "^" at the start."""
    lowered = caption.lowered
    if index == 0:
        return "^"
    if lowered[index - 1] in ("a", "an", "the"):
        article = "the" if lowered[index - 1] == "the" else "a"
        return f"{lowered[index - 2] if index > 1 else '^'} {article}"
    return lowered[index - 1]


def after(caption: Caption, index: int) -> str:
    """The word at token `index`; "$" after the last token."""
    return caption.lowered[index] if index < len(caption.tokens) else "$"


def governor(caption: Caption, token: Token) -> str:
    """The dependency label and governor of a noun: `dobj:hold`, `pobj:sit in`; conjuncts share that of the first."""
    token = first_conjunct(caption, token)
    head = caption.tokens[token.head]
    if token.dep == "pobj":
        return f"pobj:{caption.tokens[head.head].lemma} {head.lower}"
    if token.dep == "ROOT":
        for child in caption.dependents(token.index, "acl", "relcl"):
            return f"nsubj:{child.lemma}"
        return "ROOT:" + next((child.lower for child in caption.dependents(token.index, "prep")), "")
    return f"{token.dep}:{head.lemma}"


def first_conjunct(caption: Caption, token: Token) -> Token:
    """The first noun of the coordination that a token belongs to: "bed" for "chairs" in "a bed, a desk and chairs"."""
    while token.dep == "conj" and token.head != token.index:
        token = caption.tokens[token.head]
    return token


@lru_cache(maxsize=1 << 16)  # all contexts of the reference lexicon
def broader(context: str) -> str:
    """The context that a rare context backs off to, by semantic class or preposition; "" if there is none.

    "obj:poodle" -> "obj kind:1", "verb:stroll" -> "verb kind:verb.motion", "pobj:sit on" -> "pobj:on", "pobj:roof of"
    -> "of kind:18" (artifacts).
    """
    sort, _, word = context.partition(":")
    if sort == "pobj" and " " in word:
        above, _, preposition = word.rpartition(" ")
        return f"of kind:{semantic_class(above)}" if preposition == "of" else f"pobj:{preposition}"
    if sort in ("subj", "gov", "obj", "pobj"):
        return f"{sort.removeprefix('p')} kind:{semantic_class(word) if word else ''}"
    return f"{sort} kind:{verb_class(word)}" if sort in ("verb", "nsubj", "nsubjpass", "dobj") else ""
