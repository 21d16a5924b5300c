"""What a caption denies, and which of its numbers are bounds: nothing there is replaced, since the result may be true.

"No one is sitting on the bench" and "no one is sitting on the couch" may both be true of a photo, as may "at least four
dogs" and "at least two dogs".
"""

from __future__ import annotations

from collections.abc import Iterator

from ..caption import Caption, Token, cached_on_caption

# Words that deny what they belong to. "Hardly anyone" is as good as no one; "few" denies without "a" before it.
NEGATIONS = frozenset(
    "no not n't never without neither nor none nobody nothing nowhere cannot".split()
    + "hardly barely scarcely rarely seldom".split()
)
FEW = "few"
# Grammatical roles of a noun by which a denial of it denies the whole clause: "no one sits on the bench".
OF_CLAUSE = ("nsubj", "nsubjpass", "dobj", "attr", "dative", "expl", "csubj")
NUMBER_WORDS = ("one", *"two three four five six seven eight nine ten".split())
# Before a number: it is a bound, or not exact. Of two words the second is the key.
BOUNDS = frozenset("over under about around nearly almost roughly approximately".split())
BOUNDS_OF_TWO = {
    "least": ("at",),
    "most": ("at",),
    "than": ("more", "less", "fewer", "greater", "rather"),
    "to": ("up", *NUMBER_WORDS),
    "or": NUMBER_WORDS,
}
# After a number: "four or more dogs", "two or three dogs", "three to four dogs".
OPEN_ENDED = ("or", "to", "-")


@cached_on_caption
def negated_tokens(caption: Caption) -> frozenset[int]:
    """The indices of the tokens in the scope of a negation.

    A denied verb denies its clause, as does a denied subject or object: all of "nobody wears a red hat", "there are no
    cars on the street". A noun denied in a prepositional phrase denies this phrase: "with no hat" of "a man with no hat
    sits on a bench", "without a table and chairs".
    """
    negated: set[int] = set()
    for token in caption.tokens:
        is_few = token.lower == FEW and caption.word(token.index - 1) not in ("a", "quite")
        if token.lower in NEGATIONS or token.dep == "neg" or (is_few and token.dep in ("amod", "det", "nummod")):
            negated.update(_subtree(caption, _denied(caption, token)))
    return frozenset(negated)


def is_negated(caption: Caption, token: int) -> bool:
    """Whether the token with this index is in the scope of a negation."""
    return token in negated_tokens(caption)


def is_bound(caption: Caption, number: int) -> bool:
    """Whether the number at this token is a bound or one of several: "at least four", "two or three", "over 20"."""
    before = caption.word(number - 1)
    if before in BOUNDS or caption.word(number - 2) in BOUNDS_OF_TWO.get(before, ()):
        return True
    return caption.word(number + 1) in OPEN_ENDED


def _denied(caption: Caption, word: Token) -> Token:
    """The token whose subtree a negating word denies."""
    tokens = caption.tokens
    if word.lower == "without" or word.head == word.index:
        return word
    if word.pos in ("NOUN", "PRON", "PROPN"):  # "nobody", "none of the men"
        denied = word
    else:
        denied = tokens[word.head]
        if word.dep == "advmod" and denied.pos == "ADJ":  # "hardly visible"
            return denied
    if denied.pos in ("VERB", "AUX"):
        return denied
    denied = caption.first_conjunct(denied)
    above = tokens[denied.head]
    if denied.dep in OF_CLAUSE and above.pos in ("VERB", "AUX"):
        return above
    return above if denied.dep == "pobj" else denied


def _subtree(caption: Caption, top: Token) -> Iterator[int]:
    """The indices of a token and of all that depends on it."""
    yield top.index
    for child in caption.children[top.index]:
        yield from _subtree(caption, caption.tokens[child])
