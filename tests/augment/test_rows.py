"""Candidates become rows with their caption's keys, a number each, and their edits."""

import pytest

from negcap.augment.edits import Accepted, Candidate, Edit, Rejected
from negcap.augment.generate import Rows, concreteness
from negcap.augment.language.concreteness import Concreteness
from negcap.schemas.fields import check
from negcap.schemas.negatives import NEGATIVES, REJECTIONS
from tests.augment.fixtures import sample_parses


def test_rows_of_several_captions_and_operators() -> None:
    parses = sample_parses().slice(0, 3)
    texts = parses["text"].to_pylist()
    noun = Candidate("noun", (Edit(0, 1, "The"), Edit(2, 4, "Zoë's")), (1,), "dog", "cat", "dog.n.01", None)
    swap = Candidate("swap", (), (1, 2), "dog | beach", "beach | dog")
    rows = Rows()
    rows.add(0, "noun", [Accepted(noun, "one", 0.5, -1.5), Accepted(noun, "two", None, None)])
    rows.add(0, "shuffle", [])
    rows.add(2, "noun", [Accepted(noun, "three", 0.25, 2.0)])
    rows.add(2, "shuffle", [Accepted(swap, "four", None, -3.0)])
    table = rows.table(parses, NEGATIVES)
    check(table, NEGATIVES)
    first, last = (parses["caption_id"][i].as_py() for i in (0, 2))
    expected = {
        "negative_id": [f"{first}#noun:0", f"{first}#noun:1", f"{last}#noun:0", f"{last}#shuffle:0"],
        "text": ["one", "two", "three", "four"],
        "caption": [texts[0], texts[0], texts[2], texts[2]],
        "family": ["noun", "noun", "noun", "relation"],
        "p_true": [0.5, None, 0.25, None],
        "plausibility": [-1.5, None, 2.0, -3.0],
        "replaced_synset": ["dog.n.01"] * 3 + [None],
    }
    assert table.select(list(expected)).to_pydict() == expected
    cat, dog, beach = map(Concreteness.load().score, ("cat", "dog", "beach"))
    assert table["concreteness"].to_pylist() == pytest.approx([cat, cat, cat, min(dog, beach)])
    the = {"start": 0, "end": 1, "old": texts[2][0:1], "new": "The"}
    assert table["edits"].to_pylist()[2:] == [[the, {"start": 2, "end": 4, "old": texts[2][2:4], "new": "Zoë's"}], []]


@pytest.mark.parametrize(
    ("change", "replacement", "noun"),
    [
        ("noun", "cat", "cat"), ("noun", "tennis racket", "tennis racket"), ("noun", "tennis zzz", None),
        ("swap", "peace | dog", "peace"), ("swap", "dog | peace", "peace"), ("swap", "dog | zzz", None),
        ("quantity", "two", None), ("preposition", "in front of", None), ("attribute", "orange", None),
        ("attribute_swap", "orange | rose", None), ("verb", "park", None),
    ],
)  # fmt: skip
def test_concreteness_is_that_of_the_noun_put_in(change: str, replacement: str, noun: str | None) -> None:
    assert concreteness(change, replacement) == (Concreteness.load().score(noun) if noun else None)


def test_no_rows() -> None:
    check(Rows().table(sample_parses(), REJECTIONS), REJECTIONS)
    only_empty = Rows()
    only_empty.add(0, "shuffle", [Rejected(Candidate("swap", (), (1, 2), "a", "b"), "interchangeable", None)])
    table = only_empty.table(sample_parses(), REJECTIONS)
    check(table, REJECTIONS)
    assert table["edits"].to_pylist() == [[]]
