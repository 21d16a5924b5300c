"""The numeral operator of VSE-C: replace a quantity, adjusting nouns, verbs and pronouns."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..caption import Caption, cached, cached_on_caption, read_only
from ..context import Batch, computed_together
from ..edits import UNNATURAL, Candidate, Edit, cased_like, replace
from ..judgement import refusals
from ..language.grammar import agreement_edits, article, is_negated, plural, pronoun_edits
from ..language.semantic_classes import gender, overlaps
from ..lexicon.lexicon import Lexicon
from ..plausibility import Change
from ..slots.nouns import Slot, quantity_slots, quantity_value
from .replacement import Choice, Open

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
MIN_RATIO = 0.02  # quantities below this ratio to the likeliest one in a slot are not tried
# What readers would call odd even if it changed its caption as little as the best fifth of numerals do is not read.
LENIENT = Change(log_odds=0.0, loss=0.73, lowest=-3.9, whole=-1.9)


@computed_together
def numeral_choices(batch: Batch) -> list[list[Choice]]:
    """Replace a quantity (VSE-C, Section 3.1): "A dog is running" -> "Two dogs are running".

    "a"/"an"/"one", number words and digits are quantities; digits are replaced by digits. Mass nouns, set phrases ("a
    lot of") and predicates ("the man is a doctor") are not counted. Since other words have to agree with a quantity,
    negatives are read as a whole to know how plausible they are, unless they are odd in any case (LENIENT).
    """
    entries = batch.lexicon.numerals
    choices: list[list[Choice]] = [[] for _ in batch.captions]
    slots = [
        (number, slot)
        for number, caption in enumerate(batch.captions)
        for slot in quantity_slots(caption)
        if slot.entry in entries.number and _counts(caption, slot, batch.lexicon)
    ]
    names = [slot.entry for _, slot in slots]
    olds = [entries.number[name] for name in names]
    likely = entries.probabilities([slot.contexts for _, slot in slots], olds=olds)
    values, digits = _values(entries.names)
    likely[(values == values[olds][:, None]) | (digits != digits[olds][:, None])] = 0.0
    likely[likely < MIN_RATIO * np.maximum.reduce(likely, axis=1, initial=0.0, keepdims=True)] = 0.0
    single = np.array([_may_be_one(batch.captions[number], slot) for number, slot in slots], bool)
    likely[(values == 1) & ~single[:, None]] = 0.0
    weights = likely * (entries.balance[0] / entries.factors(names)[:, None])
    of, new = weights.nonzero()
    open = Open(of, new, weights[of, new])
    odd = batch.judged("numeral", slots, of, new, given=LENIENT)[1]
    refused = refusals(odd, np.zeros(len(of)), batch.preferred_unnatural, batch.max_compatible)
    batch.count_excluded("numeral", new[refused == UNNATURAL], UNNATURAL)
    for (number, slot), part in zip(slots, open.parts(len(slots)), strict=True):
        candidate = partial(_candidate, batch.captions[number], batch.lexicon, slot)
        words = [entries.names[entry] for entry in new[part].tolist()]
        known = open.score[part], None, candidate, refused[part]
        choices[number].append(Choice((slot.noun,), slot.entry, words, *known))
    return choices


@cached(8)
def _values(names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that quantities mean, and whether they are written in digits; both (entries,), read-only."""
    values, digits = [quantity_value(name) for name in names], [name.isdigit() for name in names]
    return read_only(np.array(values, int)), read_only(np.array(digits, bool))


def _may_be_one(caption: Caption, slot: Slot) -> bool:
    """Whether "a" or "one" can be in a slot: not in "the two dogs", "between two cars", "two dogs play together"."""
    if not MUTUAL.isdisjoint(caption.lowered):
        return False
    before = caption.tokens[slot.start - 1] if slot.start else None
    return before is None or (
        before.lower not in ("between", "among") and before.dep not in ("det", "predet", "poss", "case")
    )


def _counts(caption: Caption, slot: Slot, lexicon: Lexicon) -> bool:
    """Whether the noun is countable in the corpus, and the quantity in the slot is its number."""
    noun = caption.tokens[slot.noun]
    if noun.lemma not in lexicon.countable or noun.lemma in overlaps().vague - COLLECTIVE:
        return False
    if is_negated(caption, slot.noun) or not COUNTING.isdisjoint(caption.lowered[slot.start : slot.noun]):
        return False
    if caption.word(slot.noun + 1) == "of" and noun.lemma not in COLLECTIVE:
        return False
    conjuncts = [token.index for token in caption.dependents(slot.noun, "conj") if token.tag == "NN"]
    if not all(caption.has(index, "det", "poss") for index in conjuncts):
        return False  # "a man and woman": one article for both
    predicate = noun.dep == "attr" and caption.has(noun.head, "nsubj")
    return not predicate and noun.dep not in ("appos", "npadvmod", "compound", "oprd")


def _candidate(caption: Caption, lexicon: Lexicon, slot: Slot, name: str) -> Candidate:
    """The candidate that puts a quantity in a slot, adjusting noun, verbs and pronouns."""
    changes = (quantity_value(name) > 1) != (slot.value > 1)
    agreeing = _in_other_number(caption, slot, lexicon) if changes else []
    if agreeing is None:
        return Candidate("numeral", (), (slot.noun,), slot.entry, name, rejected="ungrammatical")
    word = name
    if name == "a":
        changed = agreeing and slot.start + 1 == slot.noun
        word = article(agreeing[0].new if changed else caption.tokens[slot.start + 1].text)
    edits = sorted([replace(caption, slot.start, slot.start + 1, word), *agreeing])
    return Candidate("numeral", tuple(edits), (slot.noun,), slot.entry, name)


@cached_on_caption
def _in_other_number(caption: Caption, slot: Slot, lexicon: Lexicon) -> list[Edit] | None:
    """The edits that change the number of the noun (first), verbs and pronouns; None if no edit is known to be safe."""
    noun, many = caption.tokens[slot.noun], slot.value == 1
    surface = lexicon.plural.get(noun.lemma) or plural(noun.lemma) if many else lexicon.singular.get(noun.lemma)
    if not surface or surface == noun.lower:
        return None
    verbs = agreement_edits(caption, slot.noun, plural=many)
    pronouns = pronoun_edits(caption, slot.noun, old=gender(noun.lemma) if many else None, new=noun.lemma, plural=many)
    if verbs is None or pronouns is None:
        return None
    if many and not pronouns and gender(noun.lemma) == "thing":
        later = (token for token in caption.pronouns if token.index > slot.noun)
        if any(token.lower == "it" and token.dep != "expl" for token in later):
            return None  # "a hydrant with a chain that is attached to it"
    return [Edit(noun.start, noun.end, cased_like(surface, noun.text, caption.casing)), *verbs, *pronouns]
