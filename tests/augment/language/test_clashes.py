"""Clashes of a whole lexicon are those of its pairs; what captions say is read once."""

from itertools import product
from random import Random

import numpy as np
import pytest

from negcap.augment.caption import remembered
from negcap.augment.context import contexts, nouns_said
from negcap.augment.language.clashes import Clashes, Clashing, clash, numbers, union
from negcap.augment.language.parse import parse
from tests.augment.fixtures import sample_lexicon, sample_parses

NAMES = ("boy", "girl", "woman", "player", "dog", "puppy", "pizza", "food", "tennis racket", "racket", "couch", "bike")
SAID = (*NAMES, "man", "animal", "sofa", "bicycle", "zzyzx", "hot dog", "surf", "soccer player")


@pytest.mark.parametrize(("name", "said"), list(product(NAMES, SAID)))
def test_a_set_of_entries_holds_what_clash_says_of_each(name: str, said: str) -> None:
    assert Clashes(NAMES).with_noun(said).of(NAMES.index(name)) == clash(name, said)


def test_clashes_of_a_lexicon_are_those_of_its_pairs() -> None:
    names, lemmas = sample_lexicon().nouns.names, set()
    for tokens in sample_parses()["tokens"].to_pylist():
        lemmas.update(token["lemma"] for token in tokens if token["pos"] in ("NOUN", "VERB"))
    clashes, rng = Clashes(names), Random(0)
    for said in rng.sample(sorted(lemmas), 100):
        found = clashes.with_noun(said)
        assert [found.of(entry) for entry in range(len(names))] == [clash(name, said) for name in names]
        assert [names[entry] for entry in numbers(found.all)] == [name for name in names if clash(name, said)]


def test_related_is_graver_than_overlapping() -> None:
    clashes = Clashes(("puppy", "boy"))
    assert clashes.with_any(frozenset({"dog", "girl", "player"})) == union(map(clashes.with_noun, ("dog", "player")))
    assert [union([Clashing(0b01, 0b01), Clashing(0b00, 0b11)]).of(entry) for entry in (0, 1, 2)] == [
        "related",
        "overlap",
        None,
    ]


@pytest.mark.parametrize("entries", [[], [0], [7, 8], [0, 63, 64, 700]])
def test_numbers_of_a_set(entries: list[int]) -> None:
    assert np.array_equal(numbers(sum(1 << entry for entry in entries)), entries)


def test_what_is_remembered_is_read_once_a_caption() -> None:
    asked = []
    read = remembered(lambda caption: asked.append(caption.text) or len(caption.tokens))
    one, other = parse(["A dog runs.", "A cat sits on a mat."])
    assert [read(one), read(other), read(one)] == [4, 7, 4]
    assert asked == [one.text, other.text]


def test_siblings_say_what_each_of_them_says() -> None:
    captions = parse(["A dog runs past two cats.", "A man surfs.", "The red car is parked."])
    context = contexts(captions, sample_lexicon())[0]
    assert context.own.nouns == nouns_said(captions[0]) == {"dog", "run", "cat"}
    assert context.siblings.nouns == {"man", "surf", "car", "park"}
    assert context.own.quantities == {("dog", 1), ("cat", 2)}
    assert context.siblings.attributes == {("red", "car")}
    assert context.siblings.verbs >= {"surf"}
    assert context.clash_siblings == union(map(sample_lexicon().clashes.with_noun, context.siblings.nouns))
