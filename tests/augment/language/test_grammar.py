"""Inflections, articles, agreement and pronouns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from negcap.augment.caption import Caption
from negcap.augment.data import data_path
from negcap.augment.edits import apply_edits
from negcap.augment.language.grammar import agreement_edits, indefinite_article, plural_of, pronoun_edits, third_person
from negcap.augment.language.parse import parse
from tests.augment.fixtures import sentences
from tests.cases import cases_of

CASES = cases_of(__file__)["grammar"]


def caption_and_place(text: str, noun: str) -> tuple[Caption, int]:
    """A caption and the place of a word of it."""
    (caption,) = parse([text])
    return caption, next(token.index for token in caption.tokens if token.text == noun)


@pytest.mark.parametrize(("inflect", "pairs"), [(third_person, CASES["third_person"]), (plural_of, CASES["plurals"])])
def test_inflections(inflect, pairs):
    expected = dict(pair.split() for pair in pairs.split(","))
    assert {word: inflect(word) for word in expected} == expected


def test_plurals_of_the_commonest_nouns():
    columns = ["entry", "place", "count"]
    table = pq.read_table(data_path("reference_lexicon/lexicon.parquet"), columns=columns).to_pandas()
    counts = table[table["place"].str.startswith("nn:")].groupby("entry")["count"].sum()
    commonest = counts.sort_values(ascending=False, kind="stable").index[:3000]
    lines = Path(__file__).with_name("plurals.tsv").read_text("utf-8").splitlines()
    irregular = dict(line.split("\t") for line in lines)  # of all 3,000, those that do not only take an ending
    assert len(irregular) > 60
    assert {noun: plural_of(noun) for noun in commonest if plural_of(noun) != with_ending(noun)} == irregular


def with_ending(noun: str) -> str:
    """The noun with "s", "es" or "ies"."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


@pytest.mark.parametrize("clear", [False, True])
def test_verbs_agree_only_where_it_is_clear_which_one_is_of_the_noun(clear):
    for text in sentences(CASES["clear" if clear else "unclear"]):
        noun = next(word for word in text.split() if word.isupper() and len(word) > 1).strip(",.")
        caption, place = caption_and_place(text.replace(noun, noun.lower()), noun.lower())
        assert (agreement_edits(caption, place, plural=True) is not None) == clear, text


@pytest.mark.parametrize(("text", "noun", "to_plural", "expected"), CASES["agreement"])
def test_agreement(text, noun, to_plural, expected):
    edits = agreement_edits(*caption_and_place(text, noun), plural=to_plural)
    assert edits is not None and apply_edits(text, sorted(edits)) == expected


@pytest.mark.parametrize(("text", "gender", "new", "to_plural", "expected"), CASES["pronouns"])
def test_pronouns(text, gender, new, to_plural, expected):
    edits = pronoun_edits(parse([text])[0], 1, old_gender=gender, new_noun=new, plural=to_plural)
    assert ("none" if edits is None else apply_edits(text, sorted(edits))) == expected


@pytest.mark.parametrize(("text", "expected"), CASES["antecedents"].items())
def test_the_antecedent_of_a_pronoun(text, expected):
    for noun, pronoun in expected.items():
        caption, place = caption_and_place(text, noun)
        edits = pronoun_edits(caption, place, old_gender="thing", new_noun=noun, plural=True) or ()
        before = [token.lower for token in caption.pronouns if token.dep != "expl"]
        assert ([edit.new for edit in edits] or before) == [pronoun], noun


def test_importing_inflect_leaves_the_checks_of_others_as_they_are(tmp_path):
    (tmp_path / "more_itertools.py").write_text(  # inflect imports it
        "from typeguard import typechecked\n\n@typechecked\ndef windowed_complete(n: int) -> int:\n    return n\n"
    )
    code = """
import sys, typeguard
before = typeguard.typechecked
from negcap.augment.language.grammar import plural_of
assert plural_of("box") == "boxes" and typeguard.typechecked is before
try:
    sys.modules["more_itertools"].windowed_complete("no number")
except typeguard.TypeCheckError:
    sys.exit(3)
"""
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", code], env=path).returncode == 3


@pytest.mark.parametrize("expected", ["a", "an"])
def test_article(expected):
    assert [word for word in CASES[expected].split() if indefinite_article(word) != expected] == []
