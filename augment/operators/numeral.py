"""The numeral operator of VSE-C: replace a numeral, adjusting nouns, verbs and pronouns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..candidates import Candidates
from ..caption import Caption, cached, cached_on_caption, read_only
from ..edits import Edit, cased_like, replace_tokens
from ..evidence import Evidence
from ..language.concreteness import is_abstract
from ..language.coreference import may_corefer, related_or_same_person
from ..language.grammar import (
    agreement_edits,
    indefinite_article,
    is_said_to_be_there,
    is_third_person,
    pronoun_edits,
)
from ..language.negation import bound_of, denials, leaves_count_open, number_of
from ..language.reference import ORDINALS, is_divided, is_single, other_mentions
from ..language.semantic_classes import GROUPS, gender, is_body_part, is_person, is_worn, noun_overlap_table
from ..language.wordnet import WordNet
from ..lexicon.lexicon import Lexicon
from ..plausibility import head_units
from ..reproducible import log
from ..rows import Row
from ..slots.nouns import Slot, numeral_slots, numeral_value
from ..truth.contradiction import Violation, said_by_caption, said_by_sibling
from .replacement import ReplacingOperator, SlotOfCaption, balance_ratios

# Words next to a noun that also count it, so that the numeral is not replaced: "a single dog".
COUNTING = frozenset(
    "single lone solitary sole only same different whole entire half few little couple various several many identical "
    "dozen other another alone".split()
).union(ORDINALS)
BEFORE_ARTICLE = ("half", "such", "quite", "what", "many")  # "half a melon", "many a dog": nothing else may count
# Nouns that may be counted although "of" follows: "two groups of people". Not photos: "a photo of" is mostly this one.
COLLECTIVE = frozenset(
    "group line row pile stack piece slice set reflection shadow hand arm letter glass cup bowl plate body herd flock "
    "crowd box basket bottle vase jar tray bag game jump trick".split()
)
# Nouns that measure, so that a number before them counts nothing that a photo shows: "two years old", "six feet tall".
MEASURES = frozenset(
    "year month week day hour minute second foot inch meter metre kilometer centimeter mile yard pound kilogram ounce "
    "ton gallon liter degree percent dollar cent euro mph time point score goal inning quarter lap grade gear".split()
)
OF_MEASURES = frozenset("old tall long wide high deep thick away apart ago later early late".split())  # "a foot tall"
# Nouns that are parts of one thing, whose number therefore stays: "half of a sandwich", "the top of a hill".
PARTS = frozenset(
    "half part piece end top bottom middle center side edge corner back front inside interior close-up rest tip head "
    "face remains remainder portion section surface".split()
)
# Words that need several things: "three zebras standing together".
MUTUAL = frozenset("together each both another others".split())
# Numerals are sampled by this power of their probability, since "two" is the likeliest nearly everywhere.
FREQUENCY_POWER = 0.5
MIN_RATIO = 0.02  # numerals whose probability is below this share of the likeliest one's in a slot are not tried


class ReplaceNumeral(ReplacingOperator):
    """Replace a numeral (VSE-C, Section 3.1): "A dog is running" -> "Two dogs are running".

    "a"/"an"/"one", number words and digits are numerals; digits are replaced by digits. Mass nouns, set phrases ("a
    lot of") and predicates ("the man is a doctor") are not counted. Since other words have to agree with a numeral,
    negatives are read as a whole to know how plausible they are, unless they are unnatural in any case.

    A bound is replaced by a number that it excludes: "at least four dogs" -> "two dogs". Things that the caption names
    again, divides or lists keep their number: "two dogs; one is brown, the other is black".
    """

    def slots(self, evidence: Evidence, lexicon: Lexicon) -> Iterable[Slot]:
        """The numerals that count something."""
        caption = evidence.caption
        return [
            slot
            for slot in numeral_slots(caption)
            if slot.entry in lexicon.entries("numeral").number and _is_replaceable(caption, slot, lexicon)
        ]

    def propose(self, slots: Sequence[SlotOfCaption], evidence: Sequence[Evidence], lexicon: Lexicon) -> Candidates:
        """List the numerals that are likely in some slots, by the lexicon.

        Its corpus tells how probable each numeral is in the contexts of a slot; the numeral that stands there is not
        counted. A numeral is left out if it means the number that stands there, is written otherwise (digits or words),
        may be true by a bound ("at least two"), or is much rarer than the likeliest one.

        Args:
            slots: each with the number of its caption.
            evidence: the captions of the batch, by number.
            lexicon: its numerals are the entries.
        """
        entries = lexicon.entries("numeral")
        old = [entries.number[slot.entry] for _, slot in slots]  # of each slot, the entry that stands there
        p = entries.probabilities([slot.contexts for _, slot in slots], olds=old)  # (slots, entries)
        written = _meaning_of_numerals(entries.names)
        is_same_number = written.value == written.value[old][:, None]
        is_written_otherwise = written.is_digits != written.is_digits[old][:, None]
        p[is_same_number | is_written_otherwise] = 0.0
        for row, (number, slot) in enumerate(slots):  # number: of the caption
            if bound := bound_of(evidence[number].caption, slot.start):
                p[row, (written.value >= bound.lowest) & (written.value <= bound.highest)] = 0.0
        likeliest = np.maximum.reduce(p, axis=1, initial=0.0, keepdims=True)
        p[p < MIN_RATIO * likeliest] = 0.0
        # After the ratio, so that a slot where "a" is likeliest but cannot stand does not admit unlikely numbers.
        can_be_one = np.array([may_be_one(evidence[number].caption, slot) for number, slot in slots], bool)
        p[(written.value == 1) & ~can_be_one[:, None]] = 0.0
        slot_of, entry = p.nonzero()  # of each candidate
        return Candidates(
            slots=[slot for _, slot in slots],
            caption=np.array([number for number, _ in slots], int),
            slot=slot_of,
            entry=entry,
            change=self.changes(slots, slot_of, entry, lexicon),
            unit=head_units(lexicon, self.kind)[entry],
            is_head=np.zeros(len(entry), bool),
            log_p=log(p[slot_of, entry]),
            log_odds=np.full(len(entry), np.nan),  # other words change as well: only the whole text tells
            weight=p[slot_of, entry] ** FREQUENCY_POWER * balance_ratios(entries, slots, slot_of, entry),
            reason=np.zeros(len(entry), np.int8),
        )

    def edit(self, slot: Slot, new: str, evidence: Evidence, lexicon: Lexicon) -> Row:
        """The row that inserts the numeral `new`, with the noun, verbs and pronouns in the number that it needs.

        It has the reason "ungrammatical", and no edits, if another word cannot surely be made to agree.
        """
        caption = evidence.caption
        changes_number = (numeral_value(new) > 1) != (slot.value > 1)
        agreeing = _edits_to_other_number(caption, slot, lexicon) if changes_number else []
        if agreeing is None:
            return Row(
                change="numeral",
                edits=(),
                tokens=(slot.noun,),
                replaced=slot.entry,
                replacement=new,
                reason="ungrammatical",
            )
        word = new
        if new == "a":
            follows_noun = agreeing and slot.start + 1 == slot.noun
            word = indefinite_article(agreeing[0].new if follows_noun else caption.tokens[slot.start + 1].text)
        bound = bound_of(caption, slot.start)
        start = slot.start if bound is None else bound.start  # "at least four dogs" -> "two dogs"
        edits = sorted([replace_tokens(caption, start, slot.start + 1, word), *agreeing])
        return Row(change="numeral", edits=tuple(edits), tokens=(slot.noun,), replaced=slot.entry, replacement=new)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the new number may be true of the noun, by this caption or a sibling; None if neither says so.

        A mention of a number is the lemma of a noun and its count, 0 for a bare plural ("dogs").
        """
        old = numeral_value(row.replaced)
        value = numeral_value(row.replacement)
        noun = evidence.caption.tokens[row.tokens[0]].lemma
        if value == old:
            return Violation("same_quantity", noun)

        def is_counted_so(mention: tuple[str, int]) -> bool:
            """Whether the caption itself says "dogs", or the new number of them."""
            return mention in ((noun, 0), (noun, value))

        def may_count(mention: tuple[str, int]) -> bool:
            """Whether a sibling that says this may mean the new number of the same things."""
            other, count = mention
            if count == value and may_corefer(noun, other):
                return True
            # Of "a dog", a sibling's "dogs" or "a crowd" may mean the new number; of "two dogs" they mean these two.
            is_bare_plural = count == 0 and value > 1 and related_or_same_person(noun, other)
            return old == 1 and (is_bare_plural or (other in GROUPS and is_person(noun)))

        by_caption = said_by_caption("same_quantity", evidence, self.kind, is_counted_so) if value > 1 else None
        return by_caption or said_by_sibling("sibling_quantity", evidence, self.kind, may_count)


class WrittenNumerals(NamedTuple):
    """The numbers that quantities mean, and whether they are written in digits; both (entries,), read-only."""

    value: np.ndarray
    is_digits: np.ndarray


@cached(8)
def _meaning_of_numerals(names: tuple[str, ...]) -> WrittenNumerals:
    """What the entries of a lexicon mean, and how they are written."""
    return WrittenNumerals(
        value=read_only(np.array([numeral_value(name) for name in names], int)),
        is_digits=read_only(np.array([name.isdigit() for name in names], bool)),
    )


def may_be_one(caption: Caption, slot: Slot) -> bool:
    """Whether "a" or "one" can be in a slot: not in "the two dogs", "between two cars", "two dogs play together"."""
    if not MUTUAL.isdisjoint(caption.lowered):
        return False
    if not slot.start:
        return True
    before = caption.tokens[slot.start - 1]
    return before.lower not in ("between", "among") and before.dep not in ("det", "predet", "poss", "case")


def _is_replaceable(caption: Caption, slot: Slot, lexicon: Lexicon) -> bool:
    """Whether another number can replace the one in the slot: it counts things, all of them, and nothing else does.

    Each of the tests below excludes one case in which it does not.
    """
    noun = caption.tokens[slot.noun]
    # "A water" is no thing that is counted; "about four dogs", "two or three dogs" leave open how many there are.
    if noun.lemma not in lexicon.countable or leaves_count_open(caption, slot.start):
        return False
    # "A thing", "an idea"; but "two groups" can be counted.
    is_no_thing = noun.lemma in noun_overlap_table().vague or is_abstract(noun.lemma)
    if is_no_thing and noun.lemma not in COLLECTIVE:
        return False
    # "There were eight slices, and now only three remain": the other number has to fit.
    limited = [
        index + 1
        for index, word in enumerate(caption.lowered)
        if word == "only" and number_of(caption.word(index + 1)) is not None
    ]
    # Nor does it go with "a table for four, but only two are there", whichever of the two numbers changes.
    if limited and (limited != [slot.start] or "but" in caption.lowered):
        return False
    # "At most five birds sit" denies that more do, which a higher number would assert.
    if any(slot.noun in denial.scope and denial.word != slot.start for denial in denials(caption)):
        return False
    # The other sentences of a paragraph count, too: "Two dogs run. One is brown."
    whole = caption.whole
    noun_of_whole = caption.first_token + slot.noun
    if other_mentions(whole, noun_of_whole) or is_divided(whole, noun_of_whole, slot.value):
        return False
    if is_single(caption, slot.noun):  # "a single flower in a vase"
        return False
    if _is_amount(caption, slot) or _is_in_name(caption, slot):  # "two feet tall", "One Tree Hill"
        return False
    if caption.word(slot.start - 1) in BEFORE_ARTICLE:  # "half a melon"
        return False
    if not COUNTING.isdisjoint(caption.lowered[slot.start : slot.noun]):  # "a single dog"
        return False
    if caption.word(slot.noun + 1) == "of" and noun.lemma not in COLLECTIVE:  # "a photo of a dog", which is this photo
        return False
    conjuncts = [token.index for token in caption.dependents(slot.noun, "conj") if token.tag == "NN"]
    if not all(caption.has_dependent(index, "det", "poss") for index in conjuncts):
        return False  # "a man and woman": one article for both
    # "The man is a doctor" says what he is, and "a doctor" in "a man, a doctor, …" too: neither counts more things.
    predicate = noun.dep == "attr" and not is_said_to_be_there(caption, noun)
    return not predicate and noun.dep not in ("appos", "npadvmod", "compound", "oprd")


def _has_one_of_its_own(caption: Caption, noun: int) -> bool:
    """Whether a noun has one thing that several would not share: "a man in a wetsuit", "a dog with a tail"."""
    for preposition in caption.dependents(noun, "prep"):
        for thing in caption.dependents(preposition.index, "pobj"):
            is_one = thing.tag == "NN" and caption.has_dependent(thing.index, "det", "poss")
            if preposition.lower in ("in", "with") and is_one and (is_worn(thing.lemma) or is_body_part(thing.lemma)):
                return True
            # "A toilet with the lid up".
            if preposition.lower == "with" and is_one and caption.word(caption.phrase_start(thing.index)) == "the":
                return True
    clauses = [*caption.dependents(noun, "acl", "relcl")]
    if caption.tokens[noun].dep == "nsubj":
        clauses.append(caption.tokens[caption.tokens[noun].head])
    return any(
        thing.tag == "NN" and caption.has_dependent(thing.index, "det") and is_worn(thing.lemma)
        for clause in clauses
        for thing in caption.dependents(clause.index, "dobj")
        if clause.lemma in ("wear", "have")
    )


def _is_amount(caption: Caption, slot: Slot) -> bool:
    """Whether a number measures something, "two feet tall", or belongs to a part of something, "half of a sandwich"."""
    noun = caption.tokens[slot.noun]
    if noun.lemma in MEASURES and (slot.entry != "a" or caption.word(slot.noun + 1) in OF_MEASURES):
        return True
    above = caption.tokens[noun.head]
    if noun.dep != "pobj" or above.lower != "of" or slot.value > 1:
        return False
    whole = caption.tokens[above.head]
    if whole.dep == "pobj" and not caption.has_dependent(whole.index, "det", "poss"):
        return False  # "in front of a house"
    return whole.tag == "NN" and (whole.lemma in PARTS or is_body_part(whole.lemma))


def _is_in_name(caption: Caption, slot: Slot) -> bool:
    """Whether a number is part of a name: "One Tree Hill", "the Three Wise Men"."""
    if slot.entry == "a" or caption.casing not in ("sentence", "lower"):  # in a title all words have capitals
        return False
    behind = [token.text for token in caption.tokens[slot.start + 1 : slot.noun + 1]]
    return any(text[:1].isupper() and text[1:].islower() for text in behind)


def _has_plural(noun: str, lexicon: Lexicon) -> bool:
    """Whether the corpus has a noun in the plural, or it may have a plural that the corpus lacks.

    False for a word that is no noun in WordNet ("a **softer** banging noise"), or a verb's ("a siren **wailing**").
    """
    if noun in lexicon.plural:
        return True
    wordnet = WordNet.load()
    is_of_verb = noun.endswith("ing") and bool(wordnet.senses(noun[:-3], "v") or wordnet.senses(f"{noun[:-3]}e", "v"))
    return bool(wordnet.senses(noun, "n")) and not is_of_verb


@cached_on_caption
def _edits_to_other_number(caption: Caption, slot: Slot, lexicon: Lexicon) -> list[Edit] | None:
    """The edits that give a noun, its verbs and pronouns the other number, the noun's first; None if none is safe."""
    noun = caption.tokens[slot.noun]
    is_to_plural = slot.value == 1
    if is_to_plural and (noun.lemma in lexicon.singular_only or not _has_plural(noun.lemma, lexicon)):
        return None
    surface = lexicon.in_number(noun.lemma, many=True) if is_to_plural else lexicon.singular.get(noun.lemma, "")
    if not surface or surface == noun.lower:
        return None
    if is_to_plural and "whose" in (caption.word(noun.index + 1), caption.word(noun.index + 2)):
        return None  # "a man whose face is hidden": each has one of his own
    if is_to_plural and is_third_person(noun.lower) and caption.has_dependent(noun.index, "compound"):
        return None  # "a bird chirps", parsed as a compound
    if noun.dep == "conj" and any(is_person(part.lemma) for part in caption.dependents(noun.index, "compound")):
        return None  # "a king and a queen wave", parsed as a wave
    old_gender = gender(noun.lemma) if is_to_plural else None
    verbs = agreement_edits(caption, slot.noun, plural=is_to_plural)
    pronouns = pronoun_edits(caption, slot.noun, old_gender=old_gender, new_noun=noun.lemma, plural=is_to_plural)
    if verbs is None or pronouns is None or (is_to_plural and _has_one_of_its_own(caption, noun.index)):
        return None
    # "Two dancers stretch their leg", "two soldiers kiss their wife": each has one of its own.
    changed = {edit.start for edit in pronouns}
    for owner in caption.pronouns:
        owned = caption.tokens[owner.head]
        is_own = owner.start in changed and owner.dep == "poss" and owned.tag == "NN"
        if is_to_plural and is_own and (is_worn(owned.lemma) or is_body_part(owned.lemma) or is_person(owned.lemma)):
            return None
    # "The tower is tall. **A flag** hangs from a pole on **its** roof", which is that of the tower.
    if pronouns and caption.first_token:
        return None
    # Without edits of pronouns, an "it" or "its" behind a thing that becomes several may still mean it.
    if not pronouns and old_gender == "thing":
        later = (token for token in caption.pronouns if token.index > slot.noun)
        if any(token.lower in ("it", "its") and token.dep != "expl" for token in later):
            return None  # "a hydrant with a chain that is attached to it", "a car with its doors open"
    return [Edit(noun.start, noun.end, cased_like(surface, noun.text, caption.casing)), *verbs, *pronouns]
