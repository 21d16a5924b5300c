"""Replace the head of a noun phrase (VSE-C, Section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..caption import Caption, Token, cached_on_caption
from ..edits import Edit, cased
from ..evidence import Evidence
from ..language.boundaries import begins_sentence
from ..language.grammar import pronoun_edits, with_article
from ..language.negation import is_unsettled
from ..language.reference import (
    has_further,
    has_part_of_its_own,
    is_taken_up,
    listed_nouns,
    other_mentions,
    speaks_of_one_of,
)
from ..language.semantic_classes import (
    ANIMAL,
    GROUPS,
    LIVING,
    gender,
    head_word,
    is_person,
    is_worn,
    may_support_both,
    preposition_table,
    semantic_class,
    sort_of,
)
from ..language.wordnet import first_sense
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon
from ..raters import OTHER_SORT, change_number
from ..rows import Row
from ..slots.nouns import Slot, noun_slots
from ..slots.verbs import preposition_uses
from ..truth.contradiction import Violation, noun_violation, possible_nouns
from .noun_fit import does_not_fit
from .replacement import PLURAL_NOUNS, ReplacingOperator, SlotOfCaption, Unfit, lift_scores

# The lowest score of a noun, which is log p + LIFT * the log lift given the governor of the slot (verb, preposition or
# noun), of which at most MAX_LIFT counts.
MIN_SCORE = -8.5
LIFT = 2.0
MAX_LIFT = 1.0
LISTED = 3  # things, of which a caption says only that they are there
# Of a thing they say, as "with" does, what is there among other things: "a desk holds a keyboard" may hold books, too.
HOLDING = frozenset("hold contain include feature display have".split())
ON_HEAD = frozenset("ponytail headband bandana bandanna braid wig glasses goggles sunglasses mask".split())
SURROUNDINGS = frozenset("shade shadow sun sunlight sunshine rain dark darkness light fog breeze wind".split())
PICTURES = frozenset(
    "picture photo photograph image view shot close-up closeup drawing painting scene snapshot".split()
)


class ReplaceNoun(ReplacingOperator):
    """Replace the head of a noun phrase (VSE-C, Section 3.1): "a dog on a couch" -> "a dog on a table".

    Heads and replacements are nouns of the lexicon; no relational nouns ("a group of").
    """

    def slots(self, evidence: Evidence, lexicon: Lexicon) -> Iterable[Slot]:
        """The nouns that another noun would contradict, except those that the caption names again in other words."""
        nouns = lexicon.nouns
        caption = evidence.caption
        return [
            slot
            for slot in known_slots(caption, nouns)
            if slot.form in nouns.priors
            and _excludes_others(caption, slot)
            and _other_slots_of_thing(caption, slot) is not None
            and slot.noun not in listed_nouns(caption)
            and not _has_gendered_predicate(caption, slot.noun)
            and not has_further(caption.whole, caption.first_token + slot.noun)
            and not _is_described_further(caption, slot)
        ]

    def required_form(self, slot: Slot, evidence: Evidence) -> str:
        """The Penn tag of the form that a replacement has to have: "nn" (singular) or "nns" (plural)."""
        return PLURAL_NOUNS if slot.plural else "nn"

    def never_replaces(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> Unfit:
        """The nouns that may name the same thing as the one in the slot, and those that do not go with its words."""
        same = lexicon.may_corefer(slot.entry)
        names = lexicon.nouns.names
        forms = lexicon.forms(many=slot.plural)
        itself = lexicon.nouns.number[slot.entry]
        compatible = [number for number in same.tolist() if number != itself and names[number] in forms]
        is_unfit = does_not_fit(evidence.caption, slot, lexicon)
        is_unfit[same] = True
        return Unfit(never=np.flatnonzero(is_unfit), compatible=np.array(compatible, int))

    def possible_entries(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> np.ndarray | None:
        """The nouns that may name what a caption mentions, or that the captions make likely."""
        return possible_nouns(evidence, lexicon, slot.entry)

    def without_form(self, slot: Slot, lexicon: Lexicon) -> np.ndarray:
        """The nouns that the corpus never has with this determiner, or without one."""
        return lexicon.nouns.without_form(slot.form)

    def old_log_p(
        self, log_p: np.ndarray, slots: Sequence[SlotOfCaption], evidence: Sequence[Evidence], lexicon: Lexicon
    ) -> np.ndarray:
        """log p of the noun in each slot, (slots,), from that of every noun of the lexicon, (slots, entries): it is
        looked up there, as a noun may have several words.
        """
        return log_p[np.arange(len(slots)), [lexicon.nouns.number[slot.entry] for _, slot in slots]]

    def scores(
        self, log_p: np.ndarray, slot_of: np.ndarray, entry: np.ndarray, slots: Sequence[SlotOfCaption],
        lexicon: Lexicon,
    ) -> np.ndarray:  # fmt: skip
        """The scores by log p and by the lift given the governor (`lift_scores`); -inf where they are too low."""
        scores = lift_scores(log_p, slot_of, entry, slots, lexicon.nouns, LIFT, MAX_LIFT)
        return np.where(scores >= MIN_SCORE, scores, -np.inf)

    def changes(
        self, slots: Sequence[SlotOfCaption], slot_of: np.ndarray, entry: np.ndarray, lexicon: Lexicon
    ) -> np.ndarray:
        """What kind of change raters see in each candidate: another noun, or one of another sort; (candidates,)."""
        new = np.minimum(lexicon.nouns.layout.classes, ANIMAL + 1)[entry]  # as `sort_of` does
        old = np.array([sort_of(slot.entry) for _, slot in slots], int)[slot_of]
        return np.where(new == old, change_number("noun"), change_number(OTHER_SORT))

    def edit(self, slot: Slot, new: str, evidence: Evidence, lexicon: Lexicon) -> Row:
        """The row that inserts a noun wherever the caption names this thing, with article and pronouns adjusted."""
        # A set, as the edit of a pronoun may belong to several mentions.
        row = replace_noun(evidence.caption, slot, new, lexicon)
        edits = set(row.edits)
        for other in _other_slots_of_thing(evidence.caption, slot) or ():
            again = replace_noun(evidence.caption, other, new, lexicon)
            edits.update(again.edits)
            row.reason = row.reason or again.reason
        row.edits = tuple(sorted(edits))
        # What the whole caption goes on to say of the thing has to fit the new noun.
        whole = evidence.caption.whole
        noun = evidence.caption.first_token + slot.noun
        sex = gender(slot.entry)
        is_other_sort = semantic_class(new) != semantic_class(slot.entry)
        are_of_other_sex = slot.plural and sex in ("male", "female") and gender(new) != sex
        if (is_other_sort and is_taken_up(whole, noun)) or (are_of_other_sex and speaks_of_one_of(whole, noun, sex)):
            row.reason = row.reason or "dangling_pronoun"
        return row

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the new noun may be true: a noun of this caption or a sibling may name the same thing, or it is a place
        or clothes.

        A place does not exclude a thing in it: who is "at a table" may be "at a restaurant", see `may_support_both`.
        Nor do clothes exclude what somebody is in: who is "in a wheelchair" may be "in a suit".
        """
        caption = evidence.caption
        by_noun = noun_violation(row.replaced, row.replacement, evidence, lexicon)
        if by_noun is not None and by_noun.sibling_id is None:
            return by_noun
        is_object = bool(row.tokens) and caption.tokens[row.tokens[0]].dep == "pobj"
        if is_object and may_support_both(row.replaced, row.replacement):
            return Violation("overlap_in_caption", row.replaced)
        becomes_clothes = not is_worn(row.replaced) and (is_worn(row.replacement) or row.replacement in ON_HEAD)
        if is_object and becomes_clothes and caption.word(caption.tokens[row.tokens[0]].head) == "in":
            return Violation("overlap_in_caption", row.replaced)
        return by_noun


def _is_in_list(caption: Caption, first: Token) -> bool:
    """Whether a noun begins a list of at least LISTED things, without a verb that they do something by."""
    members = 1
    following = caption.first_dependent(first.index, "conj")
    while following is not None and members < LISTED:
        members += 1
        following = caption.first_dependent(following.index, "conj")
    return first.dep == "ROOT" and members >= LISTED


def replace_noun(caption: Caption, slot: Slot, new: str, lexicon: Lexicon) -> Row:
    """The row that inserts a noun of the lexicon in a slot, adjusting article and pronouns."""
    first = caption.tokens[slot.start]
    surface = lexicon.forms(many=slot.plural)[new]
    is_first = not first.text.islower() and begins_sentence(caption, slot.start)
    written = cased(surface, first.text, caption.casing, first=is_first)
    edit = Edit(first.start, caption.tokens[slot.noun].end, written)
    edits = with_article(caption, slot.start, edit, surface)
    old_gender = None if slot.plural else gender(slot.entry)
    pronouns = pronoun_edits(caption, slot.noun, old_gender=old_gender, new_noun=new, plural=slot.plural)
    if pronouns:
        edits = tuple(sorted([*edits, *pronouns]))
    return Row(
        change="noun",
        edits=edits,
        tokens=(slot.noun,),
        replaced=slot.entry,
        replacement=new,
        replaced_synset=first_sense(slot.entry),
        replacement_synset=first_sense(new),
        reason="dangling_pronoun" if pronouns is None else None,
    )


def known_slots(caption: Caption, nouns: Entries) -> list[Slot]:
    """The nouns of a caption that a lexicon has; if it has none of them, the nouns whose last word it has.

    "tennis racket" is then replaced as "racket". A noun before "of" has no slot: "a bowl of soup" may be called a plate
    of soup as well. Raters called 9 % of 50 such negatives compatible with their captions, although the raters' model
    accepts them, and 5 % of those that replace other nouns.
    """
    slots = [
        slot for slot in noun_slots(caption) if caption.word(slot.end) != "of" and not is_unsettled(caption, slot.noun)
    ]
    known = [slot for slot in slots if slot.entry in nouns.number]
    if known:
        return known
    by_head = [slot._replace(entry=head_word(slot.entry)) for slot in slots]
    return [slot for slot in by_head if slot.entry in nouns.number]


@cached_on_caption
def _other_slots_of_thing(caption: Caption, slot: Slot) -> tuple[Slot, ...] | None:
    """The slots in which the caption names the thing of a slot again: "a cat … **the cat**".

    None: it does so in other words, or in another number, so that the noun cannot change.
    """
    slot_of_noun = {slot.noun: slot for slot in noun_slots(caption)}
    words_before = caption.lowered[slot.start : slot.noun]  # "tennis" of "tennis racket"
    others = []
    for noun in other_mentions(caption, slot.noun):
        other = slot_of_noun.get(noun)
        if other is None or other.plural != slot.plural or caption.word(other.end) == "of":
            return None
        if caption.lowered[other.start : other.noun] != words_before:
            return None
        if caption.tokens[noun].lemma != caption.tokens[slot.noun].lemma:
            return None
        others.append(other)
    return tuple(others)


def _is_described_further(caption: Caption, slot: Slot) -> bool:
    """Whether the caption goes on with parts that only this sort of thing has.

    It does after "its" ("a motorcycle … its handlebars"); and a paragraph that begins "a picture of a storefront" goes
    on with what a storefront has ("The door is open"). Persons have their parts in common.
    """
    if is_person(slot.entry):
        return False
    if has_part_of_its_own(caption.whole, caption.first_token + slot.noun):
        return True
    preposition = caption.tokens[caption.tokens[slot.noun].head]
    is_topic = preposition.lower == "of" and caption.tokens[preposition.head].lemma in PICTURES
    return is_topic and caption.part_of is not None and semantic_class(slot.entry) not in LIVING


def _has_gendered_predicate(caption: Caption, noun: int) -> bool:
    """Whether a caption says by a noun of one sex what a thing is: "two **men** who are brothers"."""
    verbs = [clause.index for clause in caption.dependents(noun, "relcl")]
    if caption.tokens[noun].dep == "nsubj":
        verbs.append(caption.tokens[noun].head)
    predicates = [predicate for verb in verbs for predicate in caption.dependents(verb, "attr")]
    return any(gender(predicate.lemma) in ("male", "female") for predicate in predicates)


def _excludes_others(caption: Caption, slot: Slot) -> bool:
    """Whether another noun in a slot would make the caption false of the photo.

    It would not for clothes ("a man in a shirt" may have a hat as well), nor for things that something is beside ("by a
    tree" may be by a river). Of such negatives that the raters' model accepts, raters called 78 % of 30 and 72 % of 90
    compatible with their captions.
    """
    noun = caption.tokens[slot.noun]
    if noun.dep == "pobj" and slot.entry in SURROUNDINGS:  # who is "in the shade" may be "in the sand"
        return False
    object = caption.first_conjunct(noun)  # "in a shirt and a hat": the preposition stands before the first
    preposition = next((use.entry for use in preposition_uses(caption) if use.noun == object.index), "")
    if object.dep == "pobj" and caption.lowered[object.head] == "by" and semantic_class(slot.entry) not in LIVING:
        preposition = "by"  # "is parked by a house", which is no agent, whatever the parse
    is_in_clothes = is_worn(slot.entry) and (preposition == "in" or noun.dep == "conj")
    is_member = preposition in ("in", "on") and slot.entry in GROUPS  # "a girl on a team" may be on a beach
    is_clothes = is_in_clothes or "dobj:wear" in slot.contexts
    # "A kitchen with an oven. The cupboards are white": the doors may be white as well.
    above = caption.tokens[noun.head]
    is_of_earlier = caption.first_token > 0 and caption.word(caption.phrase_start(noun.index)) == "the"
    says_what_it_is = noun.dep == "nsubj" and above.lemma == "be" and caption.has_dependent(above.index, "acomp")
    if is_of_earlier and says_what_it_is and semantic_class(slot.entry) not in LIVING:
        return False
    # "A laptop, a notebook and two pens on a desk": there may be a lamp as well.
    if semantic_class(slot.entry) not in LIVING and _is_in_list(caption, object):
        return False
    verb = caption.tokens[object.head]
    if object.dep == "pobj" and verb.lower == "including":  # "elephants, including a baby", and others
        return False
    if object.dep == "dobj" and verb.lemma in HOLDING:
        subject = caption.first_dependent(verb.index, "nsubj")
        if subject is not None and semantic_class(subject.lemma) not in LIVING and subject.pos == "NOUN":
            return False
    return not is_clothes and not is_member and preposition not in preposition_table().beside
