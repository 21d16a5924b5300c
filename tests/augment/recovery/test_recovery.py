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
from tests.cases import cases_of
from tests.tables import rows_of

CASES = cases_of(__file__)["recovery"]

NO_TRUTH = Truth({}, {}, {})  # estimates nothing
PIECES = ["a", "an", "red", "dog", "dog.", "Dog", "man's", ",", "in", "front", "of", ""]
WORDS = st.lists(st.sampled_from(PIECES), max_size=9)


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS)
def test_edits_make_one_text_of_the_other(old, new):
    caption, text = " ".join(old), " ".join(new)
    edits = align_words(caption, text)
    assert apply_edits(caption, edits) == text
    assert (edits == ()) == (caption == text)
    assert all(edit.end <= following.start for edit, following in zip(edits, edits[1:], strict=False))


@pytest.mark.parametrize(("caption", "text", "edits"), CASES["whole_words"])
def test_edits_are_of_whole_words(caption, text, edits):
    assert [list(edit) for edit in align_words(caption, text)] == edits


def test_edits_and_words_of_own_negatives_are_recovered(sample_run):
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


def test_grammatical_faults():
    faults = {"A dog.": 0, "An dog.": 1, "The the dog": 1, "a umbrella, the the cat": 2}
    assert {text: count_faults(text) for text in faults} == faults


@pytest.mark.parametrize("pair", [(DOG, LONG), (LONG, DOG)])
def test_what_is_too_long_to_be_parsed_is_not_kept(pair):
    caption, negative = parse(pair)
    evidence = gather_evidence([[caption]], truth=NO_TRUTH)
    (((_, verdict, row),),) = judge_negatives(evidence, [[negative]], sample_lexicon(), Judging())
    assert (verdict, row.reason, row.plausibility) == (None, "too_long", None)


def test_what_raters_would_call_unnatural_is_rejected_only_if_asked():
    caption, *negatives = parse(["A dog sleeps on a couch.", "A cat sleeps on a couch.", "A dog sleeps on a goal."])
    evidence = gather_evidence([[caption]], truth=NO_TRUTH)
    for config, reasons in ((Judging(), [None, None]), (Judging(plausible=True), [None, "unnatural"])):
        (found,) = judge_negatives(evidence, [negatives], sample_lexicon(), config)
        assert [one.row.reason for one in found] == reasons
        assert found[0].row.p_unnatural < PREFERRED_UNNATURAL < found[1].row.p_unnatural


def test_labelled_pairs_are_judged_by_what_their_captions_say():
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


def test_the_criterion_of_each_verdict():
    cases = [line.split(" | ") for line in CASES["verdicts"].strip().splitlines() if not line.startswith("#")]
    images = [parse(captions.split(" / ")) for captions, _, _ in cases]
    evidence = gather_evidence(images, truth=NO_TRUTH, only_first=True)
    negatives = parse([text for _, text, _ in cases])
    verdicts = judge_negatives(evidence, [[negative] for negative in negatives], sample_lexicon(), Judging())
    found = [(*case[:2], verdict) for case, ((_, verdict, _),) in zip(cases, verdicts, strict=True)]
    assert found == [tuple(case) for case in cases]
    assert {operator for ((operator, _, _),) in verdicts} <= set(FAMILIES_OF)


def test_every_recovered_operator_has_a_family():
    assert {f"replace_{kind}" for kind in KINDS} < set(FAMILIES_OF)
    assert set(FAMILIES_OF.values()) <= set(FAMILIES)
