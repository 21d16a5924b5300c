"""The numeral operator of VSE-C: replace a quantity, adjusting nouns, verbs and pronouns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import numpy as np

from ..caption import Caption, cached, cached_on_context, read_only
from ..context import Context
from ..edits import Candidate, Edit, cased, cased_like
from ..language.determiners import is_negated
from ..language.grammar import agreement_edits, article, plural, pronoun_edits
from ..language.semantic_classes import gender, overlaps
from ..lexicon.lexicon import Lexicon
from ..slots.nouns import QuantitySlot, quantity_slots, quantity_value
from .choices import Choice, draw

# Words next to a noun that also count it, so that the quantity is not replaced: "a single dog".
COUNTING = frozenset(
    "single lone solitary sole only same different whole entire half few little couple various several many identical "
    "dozen other another alone".split()
)
# Nouns that may be counted although "of" follows: "two groups of people". Not photos: "a photo of" is mostly this one.
COLLECTIVE = frozenset(
    "group line row pile stack piece slice set reflection shadow hand arm letter glass cup bowl plate body herd flock "
    "crowd box basket bottle vase jar tray bag game jump trick".split()
)
# Words that need several things: "three zebras standing together".
MUTUAL = frozenset("together each both another others".split())
# Quantities below this ratio to the likeliest one in a slot are not tried.
MIN_RATIO = 0.02
ENTRIES = 1024  # number of entries whose masks are cached


def numeral(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace a quantity (VSE-C, Section 3.1): "A dog is running" -> "Two dogs are running".

    "a"/"an"/"one", number words and digits are quantities; digits are replaced by digits. Mass nouns, set phrases ("a
    lot of") and predicates ("the man is a doctor") are not counted. Yields at most `draws` candidates.
    """
    yield from draw(numeral_choices(caption, context), rng, draws)


@cached_on_context
def numeral_choices(caption: Caption, context: Context) -> list[Choice]:
    """The quantities that may replace each quantity of a caption, by the lexicon's counts.

    Since other words have to agree with a quantity, negatives are read as a whole to know how plausible they are.
    """
    entries, choices = context.lexicon.numerals, []
    candidate = numeral_candidates(caption, context)
    for slot in quantity_slots(caption):
        if slot.entry not in entries.number or not _counts(caption, slot, context.lexicon):
            continue
        own = entries.number[slot.entry]
        likely = entries.probabilities(slot.contexts, own=own)
        likely[_not_exchanged(slot.entry, entries.names)] = 0.0
        likely[likely < MIN_RATIO * np.maximum.reduce(likely, initial=0.0)] = 0.0
        if not _may_be_one(caption, slot):
            likely[_single(entries.names)] = 0.0
        weights = read_only(entries.balanced(likely, own))
        choices.append(Choice((slot.noun,), slot.entry, False, entries.names, weights, None, partial(candidate, slot)))
    return choices


def _may_be_one(caption: Caption, slot: QuantitySlot) -> bool:
    """Whether "a" or "one" can be in a slot: not in "the two dogs", "between two cars", "two dogs play together"."""
    if not MUTUAL.isdisjoint(caption.lowered):
        return False
    before = caption.tokens[slot.index - 1] if slot.index else None
    return before is None or (
        before.lower not in ("between", "among") and before.dep not in ("det", "predet", "poss", "case")
    )


def numeral_candidates(caption: Caption, context: Context) -> Callable[[QuantitySlot, str], Candidate]:
    """A function that makes the candidate with a given quantity in a slot, adjusting noun, verbs and pronouns.

    The edits for agreement are the same for all quantities, so they are computed once per slot.
    """
    agreeing: dict[int, list[Edit] | None] = {}

    def candidate(slot: QuantitySlot, name: str) -> Candidate:
        changes = (quantity_value(name) > 1) != (slot.value > 1)
        if changes and slot.noun not in agreeing:
            agreeing[slot.noun] = _in_other_number(caption, slot, context.lexicon)
        edits = _edits(caption, slot, name, agreeing[slot.noun] if changes else [])
        return Candidate("quantity", edits, (slot.noun,), slot.entry, name, rejected=None if edits else "ungrammatical")

    return candidate


@cached(ENTRIES)
def _not_exchanged(entry: str, names: tuple[str, ...]) -> np.ndarray:
    """A mask of the quantities that may not replace `entry`: of equal value, or digits for words or words for digits;
    read-only.
    """
    same = quantity_value(entry)
    return read_only(np.array([quantity_value(name) == same or name.isdigit() != entry.isdigit() for name in names]))


@cached(ENTRIES)
def _single(names: tuple[str, ...]) -> np.ndarray:
    """A mask of the quantities of value 1, which cannot follow a determiner; read-only."""
    return read_only(np.array([quantity_value(name) == 1 for name in names]))


def _counts(caption: Caption, slot: QuantitySlot, lexicon: Lexicon) -> bool:
    """Whether the noun is countable in the corpus, and the quantity in the slot is its number."""
    noun = caption.tokens[slot.noun]
    if noun.lemma not in lexicon.countable or noun.lemma in overlaps().vague - COLLECTIVE:
        return False
    if is_negated(caption, slot.noun):
        return False
    if not COUNTING.isdisjoint(caption.lowered[slot.index : slot.noun]):
        return False
    if caption.lowered[slot.noun + 1 : slot.noun + 2] == ("of",) and noun.lemma not in COLLECTIVE:
        return False
    conjuncts = [token for token in caption.dependents(slot.noun, "conj") if token.tag == "NN"]
    if any(not any(True for _ in caption.dependents(token.index, "det", "poss")) for token in conjuncts):
        return False  # "a man and woman": one article for both
    predicate = noun.dep == "attr" and any(True for _ in caption.dependents(noun.head, "nsubj"))
    return not predicate and noun.dep not in ("appos", "npadvmod", "compound", "oprd")


def _in_other_number(caption: Caption, slot: QuantitySlot, lexicon: Lexicon) -> list[Edit] | None:
    """The edits that change the number of the noun (first), verbs and pronouns; None if no edit is known to be safe."""
    noun, many = caption.tokens[slot.noun], slot.value == 1
    surface = lexicon.plural.get(noun.lemma) or plural(noun.lemma) if many else lexicon.singular.get(noun.lemma)
    if not surface or surface == noun.lower:
        return None
    verbs = agreement_edits(caption, slot.noun, plural=many)
    pronouns = pronoun_edits(caption, slot.noun, old=gender(noun.lemma) if many else None, new=noun.lemma, plural=many)
    if verbs is None or pronouns is None or (many and not pronouns and _may_be_it(caption, slot.noun)):
        return None
    return [Edit(noun.start, noun.end, cased_like(surface, noun.text, caption.casing)), *verbs, *pronouns]


def _may_be_it(caption: Caption, noun: int) -> bool:
    """Whether "it" after a noun may refer to that noun: "a hydrant with a chain that is attached to it"."""
    thing = gender(caption.tokens[noun].lemma) == "thing"
    return thing and any(
        token.lower == "it" and token.index > noun and token.dep != "expl" for token in caption.pronouns
    )


def _edits(caption: Caption, slot: QuantitySlot, name: str, agreeing: list[Edit] | None) -> tuple[Edit, ...]:
    """The edits of the quantity and of the words that agree with it, in text order; () if `agreeing` is None."""
    if agreeing is None:
        return ()
    token, word = caption.tokens[slot.index], name
    if name == "a":
        changed = agreeing and slot.index + 1 == slot.noun
        word = article(agreeing[0].new if changed else caption.tokens[slot.index + 1].text)
    edit = Edit(token.start, token.end, cased(word, token.text, caption.casing, first=slot.index == 0))
    return tuple(sorted([edit, *agreeing]))
