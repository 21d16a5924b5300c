"""Negatives and positives with a negation: what they deny, and what they take to be there."""

import re
from dataclasses import replace

import pytest

from negcap.augment.language.parse import parse
from negcap.augment.operators.negation_sites import FRAMES, added_sites, noun_sites
from negcap.augment.rows import Row
from tests.augment.fixtures import accepted
from tests.cases import cases_of

CASES = cases_of(__file__)["negation"]

pytestmark = pytest.mark.usefixtures("without_floors")


@pytest.mark.parametrize(("text", "frame", "negations"), CASES["sites"])
def test_a_site_negates_in_words_that_people_use(text, frame, negations):
    (site,) = (site for site in noun_sites(parse([text])[0]) if site.frame == frame)
    assert site.negate(a="a dog", no="dog").new in negations


@pytest.mark.parametrize("text", CASES["no_site"])
def test_what_is_bound_counted_or_taken_up_is_not_negated(text):
    assert noun_sites(parse([text])[0]) == ()


def test_existence_is_said_of_the_whole_picture():
    site, frame = added_sites(parse(["two dogs sleep ."])[0])["exists"], FRAMES["exists"]
    assert site.end == len("two dogs sleep")
    assert site.negate(no="cats", be_no="are").new == "there are no cats in the picture"
    both = site.edit(frame.both, {"a": "a dog", "be": "is", "no": "cats"})
    assert both.new == "there is a dog but no cats in the picture"


def test_what_a_caption_negates_is_asserted():
    assert "A man with a hat." in accepted("negation", "A man without a hat.")
    assert not accepted("true_negation", "A man without a hat.")


def test_false_and_true_sentences_are_about_the_same_nouns():
    false = accepted("negation", "A man with a dog sits.")
    true = accepted("true_negation", "A man with a dog sits.")
    denied = {text for text in false if "without a dog" in text or "with no dog s" in text}
    assert denied and not denied & true
    there_and_missing = [match for text in true if (match := re.search(r"with a (\w+) (and|but) no (\w+)", text))]
    assert there_and_missing
    for match in there_and_missing:
        there, joined, missing = match.groups()
        article = "an" if missing[0] in "aeiou" else "a"
        assert there == "dog" and f"A man with {article} {missing} {joined} no {there} sits." in false


def test_a_caption_without_such_a_site_is_corrected():
    text = "A man is sitting on the grass."
    true, false = accepted("true_negation", text), accepted("negation", text)
    swapped = {re.sub(r"(\w+), not (the )?(\w+)", r"\3, not \2\1", one) for one in true if ", not a" not in one}
    assert swapped and swapped <= false
    assert len(true) == len(false) and not true & false


def test_what_a_sibling_mentions_is_not_absent():
    def missing(*siblings: str) -> set[str]:
        made = accepted("true_negation", "A man sits on a bench with a ball.", *siblings)
        return {match[1] for text in made if (match := re.search(r" no (\w+)", text))}

    thing = min(missing() - {"ball"})
    assert thing not in missing(f"A {thing} near a man.")


def test_what_a_negation_takes_to_be_absent_is_checked_as_if_it_were_asserted():
    row = Row("negated_noun", (), (0,), "hat | not dog", "dog | not hat", absent="dog")
    assert (row.assertion.change, row.assertion.replaced, row.assertion.replacement) == ("noun", "hat", "dog")
    assert replace(row, absent=None).assertion is None
