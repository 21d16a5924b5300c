"""The coreference of a whole lexicon is that of its pairs; what captions mention is read once."""

import tomllib
from collections import Counter
from itertools import combinations, product
from math import nan
from pathlib import Path
from random import Random

import numpy as np
import pytest

from negcap.augment.data import data_path
from negcap.augment.evidence import gather_evidence
from negcap.augment.language.coreference import CoreferenceIndex, Coreferent, entry_numbers, related, says_less, union
from negcap.augment.language.parse import parse
from negcap.augment.language.semantic_classes import noun_overlap_table
from negcap.augment.mentions import mentioned_nouns
from tests.augment.fixtures import sample_lexicon, sample_parses
from tests.cases import cases_of

CASES = cases_of(__file__)["coreference"]


def coreference(noun: str, mentioned: str) -> str | None:
    """Why one noun may be true of an image that shows another."""
    return CoreferenceIndex((noun,)).with_noun(mentioned).reason(0)


def test_coreference_in_a_lexicon_is_that_of_its_pairs():
    names, lemmas = sample_lexicon().nouns.names, set()
    for tokens in sample_parses()["tokens"].to_pylist():
        lemmas.update(token["lemma"] for token in tokens if token["pos"] in ("NOUN", "VERB"))
    index = CoreferenceIndex(names)
    for mentioned in Random(0).sample(sorted(lemmas), 60):
        found, reasons = index.with_noun(mentioned), [coreference(name, mentioned) for name in names]
        assert [found.reason(entry) for entry in range(len(names))] == reasons
        assert entry_numbers(found.all).tolist() == [entry for entry, reason in enumerate(reasons) if reason]


@pytest.mark.parametrize(("noun", "mentioned", "reason"), CASES["reasons"])
def test_a_general_word_may_name_what_is_in_its_list(noun, mentioned, reason):
    assert (coreference(noun, mentioned) or "no") == reason


def test_related_goes_before_overlap():
    index = CoreferenceIndex(("puppy", "boy"))
    assert index.with_any(frozenset({"dog", "girl", "player"})) == union(map(index.with_noun, ("dog", "player")))
    both = union([Coreferent(0b01, 0b01), Coreferent(0b00, 0b11)])
    assert [both.reason(entry) for entry in (0, 1, 2)] == ["related", "overlap", None]


@pytest.mark.parametrize("entries", [[], [0], [7, 8], [0, 63, 64, 700]])
def test_the_bits_of_a_set_are_its_entries(entries):
    assert np.array_equal(entry_numbers(sum(1 << entry for entry in entries)), entries)


def test_captions_mention_words_of_each_kind():
    captions = parse(["A dog runs past two cats.", "A man surfs.", "The red car is parked."])
    own = gather_evidence([captions])[0]
    assert own.caption_mentions["noun"] == mentioned_nouns(captions[0]) == {"dog", "run", "cat"}
    assert own.sibling_mentions["noun"] == {"man", "surf", "car", "park"}
    assert own.caption_mentions["numeral"] == {("dog", 1), ("cat", 2)}
    assert own.caption_mentions["preposition"] == {("cat", "past")}
    assert own.sibling_mentions["attribute"] == {("car", "red")}
    assert own.sibling_mentions["verb"] >= {"surf"}


@pytest.mark.parametrize(("general", "noun", "less"), CASES["says_less"])
def test_a_more_general_word_of_a_sibling_says_nothing_of_another_thing(general, noun, less):
    assert says_less(general, noun) is less


def evidence() -> dict[frozenset[str], tuple[int, float, float]]:
    """What speaks for a pair of nouns: how often the operator would sample it if no table were there, the probability
    that both name one thing, by captions of the same image, and the share of raters who say so, nan if not asked.
    """
    lines = Path(__file__).with_name("noun_pairs.tsv").read_text("utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {frozenset((a, b)): (int(n), float(p or 0), float(said or "nan")) for a, b, n, p, said in rows}


def test_each_word_of_the_table_excludes_what_nothing_else_does_and_evidence_speaks_for_it():
    table, known = tomllib.loads(data_path("noun_overlaps.toml").read_text("utf-8")), evidence()
    general = [(names.split(", "), words) for names, words in table["general"].items()]
    entries = [[(noun, other) for other in group if other != noun] for group in table["groups"] for noun in group]
    entries += [[(name, word) for name in names] for names, words in general for word in words]
    entries += [[(name, word) for word in words] for names, words in general for name in names]
    once = Counter(frozenset(pair) for group in table["groups"] for pair in combinations(group, 2))
    once.update(frozenset(pair) for names, words in general for pair in product(names, words))
    for entry in entries:
        alone = [frozenset(pair) for pair in entry if once[frozenset(pair)] == 1 and not related(*pair)]
        sampled, same, raters = zip(*(known.get(pair, (0, 0.0, nan)) for pair in alone), strict=True)
        often = sum(sampled) >= 3 or any(n and p >= 0.5 for n, p in zip(sampled, same, strict=True))
        assert (often and max(same) >= 0.1) or any(said >= 0.5 for said in raters), entry


def test_the_table_is_right_of_pairs_that_raters_judged():
    groups = noun_overlap_table().groups
    said_of: dict[bool, list[float]] = {True: [], False: []}  # what raters said of pairs in the table, and of others
    for pair, (_, _, said) in evidence().items():
        if said == said:
            said_of[max(pair) in groups.get(min(pair), ())].append(said)
    assert len(said_of[True]) >= 110 and np.mean(said_of[True]) > 0.86
    assert len(said_of[False]) >= 180 and np.mean(said_of[False]) < 0.06
