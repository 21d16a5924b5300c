"""Edits recovered from texts alone: of negatives whose edits are known, and by laws."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.edits import Edit, apply_edits
from negcap.augment.evidence import gather_evidence
from negcap.augment.kinds import KINDS
from negcap.augment.language.parse import parse
from negcap.augment.raters import PREFERRED_UNNATURAL
from negcap.augment.recovery import FAMILIES_OF, Judging, align_words, count_faults, judge_negatives, recover
from negcap.augment.truth.estimates import Truth
from negcap.schemas.negatives import FAMILIES
from tests.augment.fixtures import sample_lexicon
from tests.tables import rows_of

NO_TRUTH = Truth({}, {}, {})  # estimates nothing
PIECES = ["a", "an", "red", "dog", "dog.", "Dog", "man's", ",", "in", "front", "of", ""]
WORDS = st.lists(st.sampled_from(PIECES), max_size=9)


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS)
def test_edits_make_one_text_of_the_other(old: list[str], new: list[str]) -> None:
    caption, text = " ".join(old), " ".join(new)
    edits = align_words(caption, text)
    assert apply_edits(caption, edits) == text
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
    assert list(align_words(caption, text)) == edits


def test_edits_and_words_of_own_negatives_are_recovered(sample_run: Path) -> None:
    every = rows_of(sample_run, "negatives")
    # A denial rewords a phrase or the sentence: the words that it keeps make several edits of one.
    whole = [row for row in every if len(row["edits"]) == 1 and row["operator"] != "negation"]
    right = 0
    for row in whole:
        edits = tuple(Edit(edit["start"], edit["end"], edit["new"]) for edit in row["edits"])
        right += len(edits) == len(align_words(row["caption"], row["text"])) == 1
    assert len(whole) > 300 and right / len(whole) >= 0.98
    kinds = ("noun", "verb", "preposition")
    rows = [row for row in every if row["operator"] in kinds and row["negative_id"].endswith(":0")][:150]
    captions, negatives = parse([row["caption"] for row in rows]), parse([row["text"] for row in rows])
    found = [recover(caption, negative) for caption, negative in zip(captions, negatives, strict=True)]
    same = [
        (one.operator, one.row.replaced, one.row.replacement)
        == (f"replace_{row['operator']}", row["replaced"], row["replacement"])
        for one, row in zip(found, rows, strict=True)
    ]
    assert len(rows) > 30 and sum(same) / len(same) >= 0.97


DOG, LONG = "A dog runs.", "A cat sits on a table. " * 200


def test_grammatical_faults() -> None:
    assert [count_faults(text) for text in ("A dog.", "An dog.", "The the dog", "a umbrella, the the cat")] == [
        0,
        1,
        1,
        2,
    ]


@pytest.mark.parametrize("pair", [(DOG, LONG), (LONG, DOG)])
def test_what_is_too_long_to_be_parsed_is_not_kept(pair: tuple[str, str]) -> None:
    caption, negative = parse(pair)
    evidence = gather_evidence([[caption]], truth=NO_TRUTH)
    (((_, verdict, row),),) = judge_negatives(evidence, [[negative]], sample_lexicon(), Judging())
    assert (verdict, row.reason, row.plausibility) == (None, "too_long", None)


def test_what_raters_would_call_unnatural_is_rejected_only_if_asked() -> None:
    caption, *negatives = parse(["A dog sleeps on a couch.", "A cat sleeps on a couch.", "A dog sleeps on a goal."])
    evidence = gather_evidence([[caption]], truth=NO_TRUTH)
    for config, reasons in ((Judging(), [None, None]), (Judging(plausible=True), [None, "unnatural"])):
        (found,) = judge_negatives(evidence, [negatives], sample_lexicon(), config)
        assert [one.row.reason for one in found] == reasons
        assert found[0].row.p_unnatural < PREFERRED_UNNATURAL < found[1].row.p_unnatural


def test_labelled_pairs_are_judged_by_what_their_captions_say() -> None:
    lines = Path(__file__).with_name("judged_pairs.tsv").read_text().splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t"))
    # "A {dog|cat} sleeps." stands for a caption and its negative.
    versions = [[re.sub(r"{(.*?)\|(.*?)}", rf"\{side}", row["pair"]) for row in rows] for side in (1, 2)]
    captions, negatives = map(parse, versions)
    evidence = gather_evidence([[caption] for caption in captions], truth=NO_TRUTH)
    found = Counter[tuple[str, str, str | None]]()
    verdicts = judge_negatives(evidence, [[one] for one in negatives], sample_lexicon(), Judging())
    for row, ((_, verdict, judged),) in zip(rows, verdicts, strict=True):
        found["adds" if row["kind"].startswith("add_") else "changes", row["label"], verdict] += 1
        assert (verdict == "true") == (judged.reason == "caption_says_so")
    assert not found["adds", "false", "true"] and found["changes", "false", "true"] <= 0.01 * len(rows)
    assert found["changes", "true", "true"] >= 4 * found["changes", "true", "false"]
    # What is added may be there; what takes the place of something else is false.
    assert found["changes", "false", "undecidable"] <= 0.05 * found["changes", "false", "false"]


VERDICTS = """
# nouns: a hypernym or synonym is true, a hyponym or a person's role open, all others false
A man stands in a kitchen. | A man stands in a room. | true
Men walk down a street. | People walk down a street. | true
A dog runs. | A puppy runs. | undecidable
A bowl of fruit. | A bowl of apples. | undecidable
A man rides a wave. | A surfer rides a wave. | undecidable
A zebra grazes in a field. | A giraffe grazes in a field. | false
A man brushes his teeth in the kitchen. | A man brushes his teeth in the bathroom. | false
A train arrives at the station. | A bus arrives at the station. | false
A living room with a couch. | A dining room with a couch. | false
A bat in his left hand. | A bat in his right hand. | false
A boy holds a tennis racket. | A boy holds a baseball bat. | false
# attributes: those of one dimension exclude each other
A red truck by a fence. | An old truck by a fence. | undecidable
A red truck by a fence. | A maroon truck by a fence. | false
A gray cat on a chair. | A black cat on a chair. | false
# verbs, prepositions, numbers
A woman slices bread. | A woman cuts bread. | true
A woman cuts bread. | A woman slices bread. | undecidable
A man eating a sandwich. | A man looking at a sandwich. | false
A man holding a cat. | A man with a cat. | undecidable
A dog behind a fence. | A dog near a fence. | undecidable
A red car parked next to a truck. | A truck parked next to a red car. | undecidable
A red car parked next to a truck. | A red truck parked next to a car. | false
A dog behind a fence. | A dog in front of a fence. | false
Two dogs run. | A dog runs. | undecidable
Two dogs run. | Three dogs run. | false
A person runs. | Two people run. | false
A dog runs. | Three animals run. | false
# swaps: false, unless what is said stays the same, or may
A dog next to a cat. | A cat next to a dog. | true
A dog sitting next to a cat. | A cat sitting next to a dog. | undecidable
A black dog sitting next to a white cat. | A black cat sitting next to a white dog. | false
A man with a dog. | A dog with a man. | false
A man in a suit stands next to a boy in shorts. | A boy in a suit stands next to a man in shorts. | false
A skateboarder is filmed by a photographer. | A photographer is filmed by a skateboarder. | false
A modern building stands behind an old church. | An old building stands behind a modern church. | false
# left out: what only describes follows, but not if a word changes with it
A man riding a horse jumps. | A man jumps. | true
A man riding a horse jumps. | A person jumps. | undecidable
# negations
A dog runs on grass. | There is no dog in the picture. | false
A man without a hat. | A man with a hat. | false
A dog runs on grass. | There is no cat in the picture. | undecidable
# additions, and other captions of the image
A dog runs. | A brown dog runs. | undecidable
A bus on a street. / A red bus drives by. | A red bus on a street. | true
A dog sleeps. / A cat sleeps on a bed. | A cat sleeps. | true
A dog sleeps. / A dog and a cat sleep on a bed. | A cat sleeps. | undecidable
"""


def test_the_criterion_of_each_verdict() -> None:
    cases = [line.split(" | ") for line in VERDICTS.strip().splitlines() if not line.startswith("#")]
    images = [parse(captions.split(" / ")) for captions, _, _ in cases]
    evidence = gather_evidence(images, truth=NO_TRUTH, only_first=True)
    negatives = parse([text for _, text, _ in cases])
    verdicts = judge_negatives(evidence, [[negative] for negative in negatives], sample_lexicon(), Judging())
    found = [(*case[:2], verdict) for case, ((_, verdict, _),) in zip(cases, verdicts, strict=True)]
    assert found == [tuple(case) for case in cases]
    assert {operator for ((operator, _, _),) in verdicts} <= set(FAMILIES_OF)


def test_every_recovered_operator_has_a_family() -> None:
    assert {f"replace_{kind}" for kind in KINDS} < set(FAMILIES_OF)
    assert set(FAMILIES_OF.values()) <= set(FAMILIES)
