"""Edits recovered from texts alone: of negatives whose edits are known, and by laws."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.edits import apply_edits
from negcap.augment.evidence import gather_evidence
from negcap.augment.kinds import KINDS
from negcap.augment.language.parse import parse
from negcap.augment.raters import PREFERRED_UNNATURAL
from negcap.augment.recovery import FAMILIES_OF, Judging, Verdict, align_words, count_faults, judge_negatives, recover
from negcap.augment.truth.estimates import Truth
from negcap.schemas.negatives import FAMILIES
from tests.augment.fixtures import sample_lexicon
from tests.cases import cases_of
from tests.tables import rows_of

CASES = cases_of(__file__)["recovery"]

PIECES = ["a", "an", "red", "dog", "dog.", "Dog", "man's", ",", "in", "front", "of", ""]
WORDS = st.lists(st.sampled_from(PIECES), max_size=9)


def judged(images: list[list[str]], negatives: list[str], config: Judging | None = None) -> list[Verdict]:
    """The verdict on a negative of the first caption of each image, without any estimate of what is true."""
    captions = [parse(texts) for texts in images]
    evidence = gather_evidence(captions, truth=Truth({}, {}, {}), only_first=True)
    verdicts = judge_negatives(evidence, [[text] for text in parse(negatives)], sample_lexicon(), config or Judging())
    return [verdict for (verdict,) in verdicts]


@settings(max_examples=100, deadline=None)
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
    right = [len(align_words(row["caption"], row["text"])) == 1 for row in whole]
    assert len(whole) > 300 and sum(right) / len(whole) >= 0.98
    rows = [row for row in every if row["operator"] in ("noun", "verb", "preposition") and row["draw"] == 0][:150]
    captions, negatives = parse([row["caption"] for row in rows]), parse([row["text"] for row in rows])
    same = []
    for row, *pair in zip(rows, captions, negatives, strict=True):
        operator, found = recover(*pair)
        expected = (f"replace_{row['operator']}", row["replaced"], row["replacement"])
        same.append((operator, found.replaced, found.replacement) == expected)
    assert len(rows) > 30 and sum(same) / len(same) >= 0.97


def test_grammatical_faults():
    faults = {"A dog.": 0, "An dog.": 1, "The the dog": 1, "a umbrella, the the cat": 2}
    assert {text: count_faults(text) for text in faults} == faults


def test_what_is_too_long_to_be_parsed_is_not_kept():
    short, long = "A dog runs.", "A cat sits on a table. " * 200
    for _, verdict, row in judged([[short], [long]], [long, short]):
        assert (verdict, row.reason, row.plausibility) == (None, "too_long", None)


@pytest.mark.parametrize(("config", "reason"), [(Judging(), None), (Judging(plausible=True), "unnatural")])
def test_what_raters_would_call_unnatural_is_rejected_only_if_asked(config, reason):
    negatives = ["A cat sleeps on a couch.", "A dog sleeps on a goal."]
    good, bad = (row for _, _, row in judged([["A dog sleeps on a couch."]] * 2, negatives, config))
    assert good.p_unnatural < PREFERRED_UNNATURAL < bad.p_unnatural
    assert (good.reason, bad.reason) == (None, reason)


def test_labelled_pairs_are_judged_by_what_their_captions_say():
    lines = Path(__file__).with_name("judged_pairs.tsv").read_text().splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t"))
    # "A {dog|cat} sleeps." stands for a caption and its negative.
    captions, negatives = ([re.sub(r"{(.*?)\|(.*?)}", rf"\{side}", row["pair"]) for row in rows] for side in (1, 2))
    found = Counter[tuple[str, str, str | None]]()
    for row, (_, verdict, made) in zip(rows, judged([[text] for text in captions], negatives), strict=True):
        found["adds" if row["kind"].startswith("add_") else "changes", row["label"], verdict] += 1
        assert (verdict == "true") == (made.reason == "caption_says_so")
    assert not found["adds", "false", "true"] and found["changes", "false", "true"] <= 0.01 * len(rows)
    assert found["changes", "true", "true"] >= 4 * found["changes", "true", "false"]
    # What is added may be there; what takes the place of something else is false.
    assert found["changes", "false", "undecidable"] <= 0.05 * found["changes", "false", "false"]


def test_the_criterion_of_each_verdict():
    cases = [line.split(" | ") for line in CASES["verdicts"].strip().splitlines() if not line.startswith("#")]
    verdicts = judged([captions.split(" / ") for captions, _, _ in cases], [text for _, text, _ in cases])
    assert [[*case[:2], verdict] for case, (_, verdict, _) in zip(cases, verdicts, strict=True)] == cases
    assert {operator for operator, _, _ in verdicts} <= set(FAMILIES_OF)


def test_every_recovered_operator_has_a_family():
    assert {f"replace_{kind}" for kind in KINDS} < set(FAMILIES_OF)
    assert set(FAMILIES_OF.values()) <= set(FAMILIES)
