"""A corpus' counts with those of a reference."""

import pyarrow as pa
import pytest

from negcap.augment.language.concreteness import Concreteness
from negcap.augment.lexicon.entries import blend
from negcap.augment.lexicon.lexicon import Lexicon, select
from negcap.schemas.captions import LEXICON

Row = tuple[str, str, str, float]

COUNTS: list[Row] = [
    ("noun", "dog", "", 6), ("noun", "dog", "obj:walk", 1), ("noun", "dog", "obj:see", 1), ("noun", "dog", "form:a", 6),
    ("noun", "zebra", "", 5), ("noun", "zebra", "obj:see", 2), ("noun", "zebra", "obj:walk", 1),
    ("noun", "cat", "", 1), ("noun", "cat", "obj:walk", 1), ("noun", "idea", "", 9), ("noun", "okapi", "", 4),
    ("surface", "zebra", "nns:zebras", 1),
]  # fmt: skip
REFERENCE: list[Row] = [
    ("noun", "cat", "", 100), ("noun", "cat", "obj:walk", 10), ("noun", "dog", "", 200), ("noun", "dog", "obj:walk", 8),
]  # fmt: skip


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(LEXICON.names, row, strict=True)) for row in rows], schema=LEXICON)


def blended(counts: list[Row]) -> pa.Table:
    return blend(table(counts), select(table(counts), 5, Concreteness.load(), 0.6), table(REFERENCE), 0.1)


def test_counts_are_added_and_frequent_words_of_the_corpus_enter() -> None:
    made = blended(COUNTS)
    assert made.schema.equals(LEXICON) and made.equals(blended(COUNTS[::-1]))
    assert list(zip(*made.to_pydict().values(), strict=True)) == [
        ("noun", "cat", "", pytest.approx(1 + 10)),
        ("noun", "cat", "obj:walk", pytest.approx(1 + 1)),
        ("noun", "dog", "", pytest.approx(6 + 20)),
        ("noun", "dog", "form:a", 6),
        ("noun", "dog", "obj:walk", pytest.approx(1 + 0.8)),  # 1 counts: the reference has the context
        ("noun", "zebra", "", 5),
        ("noun", "zebra", "obj:see", 2),
        ("surface", "zebra", "nns:zebras", 1),
    ]


def test_a_large_corpus_has_its_own_probabilities_and_a_small_one_those_of_the_reference() -> None:
    def p_cat(rows: pa.Table) -> float:
        nouns = Lexicon.from_table(rows).nouns
        return nouns.probabilities(("obj:walk",))[nouns.number["cat"]]

    found = []
    for times in (1, 10, 100, 1000):
        own = table([("noun", "dog", "", 6 * times), ("noun", "dog", "obj:walk", 2 * times)])
        found.append(p_cat(blend(own, own, table(REFERENCE), 0.1)))
    limit = p_cat(blend(table(COUNTS[:0]), table(COUNTS[:0]), table(REFERENCE), 0.1))
    assert limit > found[0] > found[1] > found[2] > found[3]
    assert limit - found[0] < 0.15 and found[3] < 0.01


def test_a_fraction_of_a_count_cannot_be_left_out_twice() -> None:
    """Leaving out the occurrence in a slot takes at most what was counted there."""
    nouns = Lexicon.from_table(table([("noun", "dog", "", 3), ("noun", "dog", "obj:walk", 0.2)])).nouns
    assert nouns.gains(("obj:walk",), 0)[0] < nouns.gains(("obj:walk",))[0]
