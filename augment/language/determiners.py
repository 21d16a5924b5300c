"""Determiners: whether the words before a noun count it, mark it as plural or mass, or negate it."""

from __future__ import annotations

from collections.abc import Sequence

from ..caption import Caption, Token, cached_on_caption

ARTICLES = {"a", "an"}
NUMBERS = {
    word: value
    for value, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
SINGULAR_DETERMINERS = {"a", "an", "another", "one", "each", "every"}
# Words before plurals only ("several sheep"), and before plurals or mass nouns ("some bread").
PLURAL_DETERMINERS = {"several", "many", "few", "these", "those", "both", "various", *NUMBERS} - {"one"}
MASS_DETERMINERS = {"some", "any", "enough", "more", "much", "most", "all"}
NEGATIONS = {"no", "not", "never", "without", "neither", "nor"}


def singular_form(own: Sequence[Token], possessed: bool) -> str:
    """The form of a singular noun: "a", "some", "the" or "bare" (no determiner).

    own: the dependents before it. possessed: whether a possessive precedes it.
    """
    words = [token.lower for token in own]
    if not SINGULAR_DETERMINERS.isdisjoint(words):
        return "a"
    if not MASS_DETERMINERS.isdisjoint(words):
        return "some"
    return "the" if possessed or any(token.dep in ("det", "nummod", "poss") for token in own) else "bare"


@cached_on_caption
def _negates(caption: Caption) -> bool:
    """Whether a caption has any word that may negate another."""
    return not NEGATIONS.isdisjoint(caption.lowered) or any(token.dep == "neg" for token in caption.tokens)


def is_negated(caption: Caption, noun: int) -> bool:
    """Whether the noun at token index `noun` is negated: "no cat", "without a hat"."""
    if not _negates(caption):
        return False
    token = caption.first_conjunct(caption.tokens[noun])
    above = caption.tokens[token.head]
    if token.dep == "pobj" and above.lower in NEGATIONS:
        return True
    for index in {noun, token.index}:
        if any(child.lower in NEGATIONS for child in caption.dependents(index, "det", "neg", "advmod", "preconj")):
            return True
    return caption.has(above.index, "neg") and above.pos in ("VERB", "AUX")
