"""Replace a preposition (VSE-C, Table 8), or the side that a prepositional phrase names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from ..candidates import Batch
from ..caption import Caption, cached, read_only
from ..edits import replace_tokens
from ..evidence import Evidence
from ..language.coreference import may_corefer
from ..language.negation import is_unsettled
from ..language.semantic_classes import preposition_table
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon
from ..reproducible import log
from ..rows import BOTH, SAID_AGAIN, Row, exchange_row
from ..slots.nouns import Slot
from ..slots.sides import OPPOSITE, Side, is_bounded, sides_of
from ..slots.verbs import preposition_slots, preposition_uses
from ..truth.contradiction import Violation, said_by_caption, said_by_sibling
from .operator import ChainedRows, ListedRows, Source, in_random_order
from .replacement import ReplacingOperator, SlotOfCaption, Unfit

# Relations that say where something goes, and where it comes from. Nothing goes to two places: not "climbs **into** a
# boat onto the beach" in place of "out of a boat onto the beach".
GOALS = frozenset({"into", "onto", "toward", "to"})
SOURCES = frozenset({"out", "off", "from", "away"})
LIKELIHOOD_POWER = 0.5  # the power of p(new | rest) in the weight of a preposition


class ReplacePreposition(ReplacingOperator):
    """Replace a preposition (VSE-C, Table 8): "a cat on the table" -> "a cat under the table".

    Prepositions of several words ("in front of") are one unit; particles, agents and set phrases are not replaced. Of
    what is on a side, the side is replaced: "a barn on the left" -> "a barn on the right".
    """

    def rows(self, batch: Batch, seed: int) -> Source:
        """The rows of the prepositions, sampled by their weights, and behind these those of the sides."""
        of_sides = ListedRows(self._rows_of_sides(evidence, seed) for evidence in batch.evidence)
        return ChainedRows(super().rows(batch, seed), of_sides)

    def _rows_of_sides(self, evidence: Evidence, seed: int) -> list[Row]:
        """The rows that replace one side of a caption, or exchange two, in random order."""
        caption = evidence.caption
        return in_random_order(replace_sides(caption), seed, f"{self.name} of sides", caption)

    def slots(self, evidence: Evidence, lexicon: Lexicon) -> Iterable[Slot]:
        """The prepositions of the lexicon that say where something is, before a common noun that is not denied."""
        caption = evidence.caption
        relations = preposition_table().relations
        return [
            slot
            for slot in preposition_slots(caption)
            if slot.entry in lexicon.entries("preposition").number
            and slot.entry in relations
            and caption.tokens[slot.noun].pos == "NOUN"
            and not is_unsettled(caption, slot.noun)
        ]

    def never_replaces(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> Unfit:
        """The prepositions that do not exclude the one in the slot, and those that nobody says of such a place."""
        object = evidence.caption.tokens[slot.noun].lemma
        place = object if object in preposition_table().places else ""
        names = lexicon.entries("preposition").names
        return _never_replaces(slot.entry, names, place, _relations_taken(evidence.caption, slot))

    def old_log_p(
        self, log_p: np.ndarray, slots: Sequence[SlotOfCaption], evidence: Sequence[Evidence], lexicon: Lexicon
    ) -> np.ndarray:
        """NaN for each slot: what another preposition does to its caption is told by the whole text alone, (slots,)."""
        return np.full(len(slots), np.nan)

    def scores(
        self, log_p: np.ndarray, slot_of: np.ndarray, entry: np.ndarray, slots: Sequence[SlotOfCaption],
        lexicon: Lexicon,
    ) -> np.ndarray:  # fmt: skip
        """The scores: a part of log p(new | rest), and what evens out the relations in space.

        So "next to", "beside", "near" and "by" have together about the chance of "behind".
        """
        log_balance = _log_balance_of_relations(lexicon.entries("preposition"))
        return (LIKELIHOOD_POWER * log_p[slot_of, entry] + log_balance[entry]).astype(log_p.dtype)

    def edit(self, slot: Slot, new: str, evidence: Evidence, lexicon: Lexicon) -> Row:
        """The row that inserts the preposition `new` in a slot."""
        return replace_preposition(evidence.caption, slot, new)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        """Why the new preposition may be true: it does not exclude the old one before the same object ("on" and "above"
        a table), or a caption has another one before this object that makes it likely.
        """
        object = evidence.caption.tokens[row.tokens[1]].lemma
        if row.moves_side:
            return side_violation(row, evidence)
        table = preposition_table()
        if not table.are_exclusive(row.replaced, row.replacement, object):
            return Violation("preposition_overlap")

        def suggests_new(mention: tuple[str, str]) -> bool:
            """Whether a mention of the same object, such as (couch, near), makes the new "next to" likely."""
            thing, preposition = mention
            is_other_of_object = thing == object and preposition != row.replaced
            return is_other_of_object and table.suggests(preposition, row.replacement, object)

        by_sibling = said_by_sibling("sibling_says_so", evidence, self.kind, suggests_new)
        return by_sibling or said_by_caption("sibling_says_so", evidence, self.kind, suggests_new)


def _relations_taken(caption: Caption, slot: Slot) -> frozenset[str]:
    """GOALS, SOURCES or both, if another preposition of the sentence says where something goes, or comes from."""
    relations = preposition_table().relations
    others = {relations.get(use.entry, "") for use in preposition_uses(caption) if use.start != slot.start}
    taken = frozenset[str]()
    for group in (GOALS, SOURCES):
        if not group.isdisjoint(others):
            taken |= group
    return taken


@cached(8)
def _log_balance_of_relations(entries: Entries) -> np.ndarray:
    """What is added to the score of each preposition to even out relations in space: (entries,), read-only.

    A relation has several prepositions: "next to", "beside", "near", "by". Let n be their number, s the sum of their
    shares among all prepositions, and p the share of one: the result is -log(n) - log(s) / 2 - log(p) / 2. So neither a
    relation with many prepositions nor a frequent one, such as that of "on", is drawn most of the time.
    """
    shares = (entries.counts + 1.0) / (np.add.reduce(entries.counts) + len(entries.counts))
    relations = [preposition_table().relations.get(name, name) for name in entries.names]
    _, relation = np.unique(relations, return_inverse=True)  # the number of each preposition's relation
    # n and s of the relation that each preposition expresses, both (entries,).
    size_of_relation = np.bincount(relation)[relation]
    share_of_relation = np.bincount(relation, shares)[relation]
    return read_only(-log(size_of_relation) - 0.5 * log(share_of_relation) - 0.5 * log(shares))


@cached(1 << 11)
def _never_replaces(entry: str, names: tuple[str, ...], place: str, taken: frozenset[str]) -> Unfit:
    """The numbers of the prepositions that never replace `entry`: those that may be true as well, and those unfit.

    A preposition that is not exclusive (`Prepositions.are_exclusive`) may be true as well; it counts as compatible only
    if it tells where something is. Unfit ones are never inserted, or nobody says them of such a place.

    Args:
        entry: the preposition that is replaced.
        names: the entries of the lexicon, whose positions are the numbers.
        place: the object, if the table of places has it, else "".
        taken: relations that would say a second time where something goes, or comes from.
    """
    table = preposition_table()
    may_be_true = [number for number, name in enumerate(names) if not table.are_exclusive(entry, name, place)]
    unfit_names = table.never_inserted | table.unfit.get(place, frozenset())
    unfit = [number for number, name in enumerate(names) if name in unfit_names or table.relations.get(name) in taken]
    compatible = [number for number in may_be_true if names[number] in table.relations and names[number] != entry]
    return Unfit(
        never=read_only(np.array(sorted({*may_be_true, *unfit}), int)), compatible=read_only(np.array(compatible, int))
    )


def replace_preposition(caption: Caption, slot: Slot, new: str) -> Row:
    """The row that inserts the preposition `new` in a slot."""
    edit = replace_tokens(caption, slot.start, slot.end, new)
    return Row(
        change="preposition", edits=(edit,), tokens=(slot.start, slot.noun), replaced=slot.entry, replacement=new
    )


def replace_sides(caption: Caption) -> list[Row]:
    """The rows that put a thing on the opposite side, or two things on the side of the other.

    A side that the caption names twice is not replaced, and if it names the opposite side as well both change places;
    not in "from left to right". A thing must not be one that may be on both sides, as trees are.
    """
    rows = []
    for side in sides_of(caption):
        opposite = OPPOSITE[side.word]
        both = [other for other in sides_of(caption) if other.word in (side.word, opposite)]
        is_named_once = caption.lowered.count(side.word) == 1 and caption.lowered.count(opposite) == len(both) - 1
        if not is_named_once or both[0] is not side or not all(_is_on_one_side(caption, other) for other in both):
            continue
        if len(both) > 1 and may_corefer(both[0].thing.lemma, both[1].thing.lemma):
            continue  # "a dog on the left and a dog on the right"
        edits = [replace_tokens(caption, other.token, other.token + 1, OPPOSITE[other.word]) for other in both]
        tokens = (side.token, side.thing.index)
        if len(both) > 1:
            rows.append(exchange_row("preposition", tuple(edits), tokens, side.word, opposite))
            continue
        row = Row(change="preposition", edits=tuple(edits), tokens=tokens, replaced=side.word, replacement=opposite)
        rows.append(row)
    return rows


def _is_on_one_side(caption: Caption, side: Side) -> bool:
    """Whether what is on a side is said to be there, and cannot be on the other side as well."""
    return is_bounded(caption, side.thing) and not is_unsettled(caption, side.thing.index)


def side_violation(row: Row, evidence: Evidence) -> Violation | None:
    """Why a thing may be on the side where a row puts it: a caption or another sentence says that such a thing is.

    Also where another sentence says again on which side it is, which the negative would contradict.
    """
    caption = evidence.caption
    moved = [side for side in sides_of(caption) if side.word in row.replaced.split(BOTH)]
    for sibling in evidence.siblings:
        is_sentence = sibling.whole is caption.whole
        for side, said in product(moved, sides_of(sibling)):
            if side.thing.lemma != said.thing.lemma and not may_corefer(side.thing.lemma, said.thing.lemma):
                continue
            if said.word == OPPOSITE[side.word]:
                return Violation("sibling_says_so", f"{said.word} {said.thing.lemma}", sibling.caption_id)
            if said.word == side.word and is_sentence:
                return Violation(SAID_AGAIN, said.thing.lower)
    return None
