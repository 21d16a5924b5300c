"""Edits recovered from texts alone: of negatives whose edits are known, and by laws."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.context import contexts
from negcap.augment.edits import Edit, apply
from negcap.augment.language.parse import parse
from negcap.augment.recovery import FAMILIES_OF, Judging, align, faults, judge, recover
from negcap.augment.truth.estimates import Truth
from negcap.pipelines.cli.options import RECOVERED
from negcap.schemas.negatives import FAMILIES
from tests.augment.fixtures import sample_lexicon
from tests.tables import rows_of

PIECES = ["a", "an", "red", "dog", "dog.", "Dog", "man's", ",", "in", "front", "of", ""]
WORDS = st.lists(st.sampled_from(PIECES), max_size=9)


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS)
def test_edits_make_one_text_of_the_other(old: list[str], new: list[str]) -> None:
    caption, text = " ".join(old), " ".join(new)
    edits = align(caption, text)
    assert apply(caption, edits) == text
    assert (edits == ()) == (caption == text)
    assert all(edit.end <= following.start for edit, following in zip(edits, edits[1:], strict=False))


@pytest.mark.parametrize(
    ("caption", "text", "edits"),
    [
        ("A dog.", "A cat.", [(2, 5, "cat")]),
        ("A dog in an orange coat.", "A dog in a grey coat.", [(9, 11, "a"), (12, 18, "grey")]),
        ("A dog in front of a car.", "A dog next to a car.", [(6, 17, "next to")]),
        ("A dog.", "A red dog.", [(2, 2, "red ")]),
        ("A dog barks.", "A dog barks loudly.", [(11, 11, " loudly")]),
    ],
)
def test_edits_are_of_whole_words(caption: str, text: str, edits: list[tuple[int, int, str]]) -> None:
    assert list(align(caption, text)) == edits


def test_edits_and_words_of_own_negatives_are_recovered(sample_run: Path) -> None:
    every = rows_of(sample_run, "negatives")
    # A denial rewords a phrase or the sentence: the words that it keeps make several edits of one.
    whole = [row for row in every if len(row["edits"]) == 1 and row["operator"] != "negation"]
    right = 0
    for row in whole:
        edits = tuple(Edit(edit["start"], edit["end"], edit["new"]) for edit in row["edits"])
        right += len(edits) == len(align(row["caption"], row["text"])) == 1
    assert len(whole) > 300 and right / len(whole) >= 0.98
    kinds = ("noun", "verb", "preposition")
    rows = [row for row in every if row["operator"] in kinds and row["negative_id"].endswith(":0")][:150]
    captions, negatives = parse([row["caption"] for row in rows]), parse([row["text"] for row in rows])
    found = [recover(caption, negative) for caption, negative in zip(captions, negatives, strict=True)]
    same = [
        (one.operator, one.candidate.replaced, one.candidate.replacement)
        == (f"replace_{row['operator']}", row["replaced"], row["replacement"])
        for one, row in zip(found, rows, strict=True)
    ]
    assert len(rows) > 30 and sum(same) / len(same) >= 0.97


DOG, LONG = "A dog runs.", "A cat sits on a table. " * 50


def test_grammatical_faults() -> None:
    assert [faults(text) for text in ("A dog.", "An dog.", "The the dog", "a umbrella, the the cat")] == [0, 1, 1, 2]


@pytest.mark.parametrize("pair", [(DOG, LONG), (LONG, DOG)])
def test_what_is_too_long_to_be_parsed_is_not_kept(pair: tuple[str, str]) -> None:
    caption, negative = parse(pair)
    every = contexts([[caption]], sample_lexicon(), Truth({}, {}, {}))
    (((_, verdict, judged),),) = judge(every, [[negative]], Judging())
    assert (verdict, judged.reason, judged.plausibility) == (None, "too_long", None)


def test_labelled_pairs_are_judged_by_what_their_captions_say() -> None:
    lines = Path(__file__).with_name("judged_pairs.tsv").read_text().splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t"))
    # "A {dog|cat} sleeps." stands for a caption and its negative.
    versions = [[re.sub(r"{(.*?)\|(.*?)}", rf"\{side}", row["pair"]) for row in rows] for side in (1, 2)]
    captions, negatives = map(parse, versions)
    every = contexts([[caption] for caption in captions], sample_lexicon(), Truth({}, {}, {}))
    found = Counter[tuple[str, bool]]()
    for row, ((_, verdict, judged),) in zip(rows, judge(every, [[one] for one in negatives], Judging()), strict=True):
        found[row["label"], verdict == "true"] += 1
        assert (verdict == "true") == (judged.reason == "caption_says_so")
    assert found["false", True] <= 0.03 * found["false", False] and found["true", True] >= 4 * found["true", False]


def test_every_recovered_operator_has_a_family() -> None:
    assert tuple(FAMILIES_OF) == tuple(sorted(FAMILIES_OF, key=RECOVERED.index)) and set(FAMILIES_OF) == set(RECOVERED)
    assert set(FAMILIES_OF.values()) <= set(FAMILIES)
