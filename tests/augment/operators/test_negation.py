import re
from dataclasses import replace

import pytest

from negcap.augment.language.parse import parse
from negcap.augment.operators.negation_sites import FRAMES, added_sites, noun_sites
from negcap.augment.rows import Row
from tests.augment.fixtures import accepted, sentences
from tests.cases import cases_of

CASES = cases_of(__file__)["negation"]

pytestmark = pytest.mark.usefixtures("without_floors")


@pytest.mark.parametrize(("text", "frame", "negations"), CASES["sites"])
def test_a_site_negates_in_words_that_people_use(text, frame, negations):
    (site,) = (site for site in noun_sites(parse([text])[0]) if site.frame == frame)
    assert site.negate(a="a dog", no="dog").new in negations


def test_existence_is_said_of_the_whole_picture():
    site, frame = added_sites(parse(["two dogs sleep ."])[0])["exists"], FRAMES["exists"]
    assert site.end == len("two dogs sleep")
    assert site.negate(no="cats", be_no="are").new == "there are no cats in the picture"
    both = site.edit(frame.both, {"a": "a dog", "be": "is", "no": "cats"})
    assert both.new == "there is a dog but no cats in the picture"
    assert site.edit(frame.asserted, {"a": "dogs", "be": "are"}).new == "there are dogs in the picture"


def test_what_is_bound_counted_or_taken_up_is_not_negated():
    texts = """A man with a big nose. A box filled with apples is here. A man with two dogs and their toys.
        A man looking at the ocean. A man with a hat takes it off. A room with no table."""
    assert [one.text for one in parse(sentences(texts)) if noun_sites(one)] == []


def test_what_a_caption_negates_is_asserted():
    assert "A man with a hat." in accepted("negation", "A man without a hat.")
    assert not accepted("true_negation", "A man without a hat.")


def test_false_and_true_sentences_are_about_the_same_nouns():
    false = accepted("negation", "A man with a dog sits.")
    true = accepted("true_negation", "A man with a dog sits.")
    denied = {text for text in false if "without a dog" in text or "with no dog s" in text}
    assert denied and not denied & true
    pairs = 0
    for text in true:
        words = text.removeprefix("A man ").split(" sits")[0].split()
        if words[:2] == ["with", "a"] and words[-2] == "no":  # with a dog and no cat
            there, missing = words[2], words[-1]
            assert there == "dog"
            article = "an" if missing[0] in "aeiou" else "a"
            assert text.replace("a dog", f"{article} _").replace(missing, there).replace("_", missing) in false
            pairs += 1
    assert pairs


def test_a_caption_without_such_a_site_is_corrected():
    text = "A man is sitting on the grass."
    true, false = accepted("true_negation", text), accepted("negation", text)
    swapped = {re.sub(r"(\w+), not (the )?(\w+)", r"\3, not \2\1", one) for one in true if ", not a" not in one}
    assert swapped and swapped <= false
    assert len(true) == len(false) and not true & false


def test_what_a_sibling_mentions_is_not_absent():
    def missing(*siblings: str) -> set[str]:
        made = accepted("true_negation", "A man sits on a bench with a ball.", *siblings)
        return {word for text in made if " no " in text for word in text.split(" no ")[1].rstrip(".").split()[:1]}

    alone = missing()
    one = sorted(alone - {"ball"})[0]
    assert one not in missing(f"A {one} near a man.")


def test_what_a_negation_takes_to_be_absent_is_checked_as_if_it_were_asserted():
    made = Row("negated_noun", (), (0,), "hat | not dog", "dog | not hat", absent="dog")
    asserted = made.assertion
    assert asserted is not None and (asserted.change, asserted.replaced, asserted.replacement) == ("noun", "hat", "dog")
    assert replace(made, absent=None).assertion is None
