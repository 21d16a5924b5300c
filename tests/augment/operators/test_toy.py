"""A new operator is one class in OPERATORS, and a new kind of word is one row in KINDS: no other file knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from negcap.augment.candidates import Batch
from negcap.augment.caption import Caption, from_parses
from negcap.augment.edits import replace_tokens
from negcap.augment.evidence import Evidence, gather_evidence
from negcap.augment.generate import NegativesConfig, generate_tables
from negcap.augment.kinds import KINDS, Kind
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.lexicon.lexicon import Lexicon, count_captions, select_entries
from negcap.augment.operators import OPERATORS
from negcap.augment.operators.operator import ListingOperator, Traits
from negcap.augment.operators.replacement import ReplacingOperator, Unfit
from negcap.augment.rows import Row
from negcap.augment.slots.nouns import Slot
from negcap.augment.truth.contradiction import Violation, said_by_sibling
from negcap.schemas.fields import check
from negcap.schemas.negatives import NEGATIVES, REJECTIONS
from tests.augment.fixtures import UNLIMITED, captions_of, parse_texts, sample_lexicon

SIDES = {"left": "right", "right": "left"}
TEXTS = ["A dog on the left of a cat.", "A cat is right behind a dog.", "A cat near a dog."]


class Mirror(ListingOperator):
    """Exchange left and right: "on the left" -> "on the right"."""

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> Iterator[Row]:
        caption = evidence.caption
        for number, word in enumerate(caption.lowered):
            if word in SIDES:
                edit = replace_tokens(caption, number, number + 1, SIDES[word])
                yield Row("none", (edit,), (number,), word, SIDES[word])

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        for sibling in evidence.siblings:
            if row.replacement in sibling.lowered:
                return Violation("sibling_says_so", row.replacement, sibling.caption_id)
        return None


class Made(NamedTuple):
    negatives: list[dict]
    rejections: list[dict]
    counts: dict[str, int]


def made(monkeypatch: pytest.MonkeyPatch, images: list[str]) -> Made:
    """What the new operator makes of the texts, each of the image beside it."""
    monkeypatch.setitem(OPERATORS, "mirror", Mirror("mirror", Traits("relation", 0.5)))
    config = NegativesConfig(operators=("mirror", "noun"), **UNLIMITED)
    parses = parse_texts(TEXTS, images, [f"c{number}" for number in range(len(TEXTS))])
    tables, counts = generate_tables(parses, sample_lexicon(), config)
    check(tables["negatives"], NEGATIVES)
    check(tables["rejections"], REJECTIONS)
    negatives, rejections = (
        [row for row in tables[name].to_pylist() if row["operator"] == "mirror"] for name in ("negatives", "rejections")
    )
    return Made(negatives, rejections, counts)


def test_a_new_operator_needs_no_other_file_and_says_itself_what_may_be_true(monkeypatch):
    apart = made(monkeypatch, ["i0", "i1", "i2"])
    assert [(row["text"], row["family"], row["replaced"], row["replacement"]) for row in apart.negatives] == [
        ("A dog on the right of a cat.", "relation", "left", "right"),
        ("A cat is left behind a dog.", "relation", "right", "left"),
    ]
    assert all(0 < row["p_unnatural"] < 1 and row["plausibility"] is not None for row in apart.negatives)
    assert [(row["caption"], row["reason"]) for row in apart.rejections] == [(TEXTS[2], "no_candidate")]
    assert apart.counts["mirror.rows"] == apart.counts["mirror.captions"] == 2 and apart.counts["noun.rows"] > 0
    together = made(monkeypatch, ["i0", "i0", "i0"])
    assert not together.negatives
    assert {(row["caption_id"], row["reason"], row["detail"], row["sibling_id"]) for row in together.rejections} == {
        ("c0", "sibling_says_so", "right", "c1"), ("c1", "sibling_says_so", "left", "c0"),
        ("c2", "no_candidate", None, None),
    }  # fmt: skip


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
    row = Kind(
        name="adverb",
        slots=adverbs,
        mentions=mentioned_adverbs,
        estimate="transition",
        floor=-20.0,
        others_agree=False,
        least_count=1,
        preference=2.0,
        is_more_general=lambda old, new: False,
    )
    monkeypatch.setitem(KINDS, "adverb", row)
    monkeypatch.setitem(OPERATORS, "adverb", ReplaceAdverb("adverb", Traits("attribute", 1.0, ("adverb",))))


@pytest.mark.usefixtures("with_adverbs")
def test_a_new_kind_is_a_row_and_an_operator():
    texts = ["A dog runs quickly.", "A dog eats slowly.", "A man looks closely at a dog.", "A dog happily runs."]
    parses = parse_texts(texts, ["i0", "i0", "i1", "i2"], [f"c{number}" for number in range(4)])
    counted = count_captions([*from_parses(parses)] * 2)
    lexicon = Lexicon.from_table(select_entries(counted, 1, Concreteness.load(), 0.0))
    assert gather_evidence([captions_of(*texts[:2])])[0].sibling_mentions["adverb"] == {("eat", "slowly")}
    words = {"quickly", "slowly", "closely", "happily"}
    assert set(lexicon.entries("adverb").names) == words
    config = NegativesConfig(operators=("adverb",), **UNLIMITED)
    tables, counts = generate_tables(parses, lexicon, config)
    made = {(row["caption_id"], row["text"]) for row in tables["negatives"].to_pylist()}
    assert {text for caption, text in made if caption == "c0"} == {"A dog runs closely.", "A dog runs happily."}
    assert ("c3", "A dog slowly runs.") in made and counts["family.attribute.rows"] == len(made) == 10
    rejected = tables["rejections"].to_pylist()
    assert [(row["caption_id"], row["reason"], row["detail"], row["sibling_id"]) for row in rejected] == [
        ("c0", "sibling_says_so", "slowly", "c1"), ("c1", "sibling_says_so", "quickly", "c0"),
    ]  # fmt: skip
