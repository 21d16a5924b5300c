"""A new kind of word is one row in KINDS, and its operator one class in OPERATORS: no other file knows them."""

from __future__ import annotations

import numpy as np
import pytest

from negcap.augment.caption import Caption, from_parses
from negcap.augment.edits import replace_tokens
from negcap.augment.evidence import Evidence, gather_evidence
from negcap.augment.generate import NegativesConfig, generate_tables
from negcap.augment.kinds import KINDS, Kind
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.lexicon.lexicon import Lexicon, count_captions, select_entries
from negcap.augment.operators import OPERATORS
from negcap.augment.operators.operator import Traits
from negcap.augment.operators.replacement import ReplacingOperator, Unfit
from negcap.augment.rows import Row
from negcap.augment.slots.nouns import Slot
from negcap.augment.truth.contradiction import Violation, said_by_sibling
from tests.augment.fixtures import UNLIMITED, captions_of, parse_texts

TEXTS = ["A dog runs quickly.", "A dog eats slowly.", "A man looks closely at a dog.", "A dog happily runs."]


def adverbs(caption: Caption) -> tuple[Slot, ...]:
    """The words in -ly of a caption."""
    return tuple(
        Slot("adverb", token.index, token.index + 1, token.lower, token.head)
        for token in caption.tokens
        if token.pos == "ADV" and token.lower.endswith("ly")
    )


def mentioned_adverbs(caption: Caption) -> frozenset[tuple[str, str]]:
    """The (verb, adverb) pairs of a caption."""
    return frozenset((caption.tokens[slot.noun].lemma, slot.entry) for slot in adverbs(caption))


class ReplaceAdverb(ReplacingOperator):
    """Replace an adverb: "a dog runs quickly" -> "a dog runs slowly"."""

    def slots(self, evidence: Evidence, lexicon: Lexicon) -> tuple[Slot, ...]:
        return adverbs(evidence.caption)

    def never_replaces(self, slot: Slot, evidence: Evidence, lexicon: Lexicon) -> Unfit:
        itself = [lexicon.entries("adverb").number[slot.entry]]
        return Unfit(never=np.array(itself), compatible=np.zeros(0, int))

    def edit(self, slot: Slot, new: str, evidence: Evidence, lexicon: Lexicon) -> Row:
        edit = replace_tokens(evidence.caption, slot.start, slot.end, new)
        return Row("none", (edit,), (slot.start, slot.noun), slot.entry, new)

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        return said_by_sibling("sibling_says_so", evidence, "adverb", lambda mention: mention[1] == row.replacement)


@pytest.fixture
def with_adverbs(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Kind("adverb", adverbs, mentioned_adverbs, "transition", -20.0, lambda old, new: False, least_count=1)
    monkeypatch.setitem(KINDS, "adverb", kind)
    monkeypatch.setitem(OPERATORS, "adverb", ReplaceAdverb("adverb", Traits("attribute", 1.0, ("adverb",))))


@pytest.mark.usefixtures("with_adverbs")
def test_a_new_kind_is_a_row_and_an_operator():
    parses = parse_texts(TEXTS, ["i0", "i0", "i1", "i2"], ["c0", "c1", "c2", "c3"])
    counted = count_captions([*from_parses(parses)] * 2)
    lexicon = Lexicon.from_table(select_entries(counted, 1, Concreteness.load(), 0.0))
    assert set(lexicon.entries("adverb").names) == {"quickly", "slowly", "closely", "happily"}
    assert gather_evidence([captions_of(*TEXTS[:2])])[0].sibling_mentions["adverb"] == {("eat", "slowly")}
    tables, counts = generate_tables(parses, lexicon, NegativesConfig(operators=("adverb",), **UNLIMITED))
    made = {(row["caption_id"], row["text"]) for row in tables["negatives"].to_pylist()}
    assert {text for caption, text in made if caption == "c0"} == {"A dog runs closely.", "A dog runs happily."}
    assert ("c3", "A dog slowly runs.") in made and counts["family.attribute.rows"] == len(made) == 10
    columns = ("caption_id", "reason", "detail", "sibling_id")
    assert [tuple(row[name] for name in columns) for row in tables["rejections"].to_pylist()] == [
        ("c0", "sibling_says_so", "slowly", "c1"),
        ("c1", "sibling_says_so", "quickly", "c0"),
    ]
