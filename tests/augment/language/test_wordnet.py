"""WordNet as arrays: senses, taxonomy, and its build."""

import tomllib
from pathlib import Path

import pytest

from negcap.augment.data import data_path
from negcap.augment.language.wordnet import WordNet, first_sense
from negcap.pipelines.resources.__main__ import main
from tests.cases import cases_of

CASES = cases_of(__file__)["wordnet"]
WORDNET = WordNet.load()
DEBIAN = Path("/usr/share/wordnet")


def test_senses_in_use_are_the_first_and_others_in_their_order():
    for lemma, kept, left_out in (line.split() for line in CASES["senses"].split(";")):
        senses, used = WORDNET.senses(lemma, "n"), WORDNET.senses_in_use(lemma, "n")
        names = [WORDNET.name(synset) for synset in used]
        assert kept in names and left_out not in names
        assert list(used[1:]) == sorted(used[1:], key=senses.index)


def test_the_first_sense_in_use_is_that_of_captions():
    labels = [line.split("\t") for line in Path(__file__).with_name("senses.tsv").read_text().splitlines()[1:]]
    by_neighbours = tomllib.loads(data_path("senses.toml").read_text())["by_neighbours"]
    found = {noun: by_neighbours.get(noun, WORDNET.name(WORDNET.senses(noun, "n")[0])) for noun, _, _ in labels}
    right = sum(found[noun] in senses.split() for noun, _, senses in labels)
    assert len(labels) == 152 and right >= 141  # WordNet's first sense: 129
    assert all(first_sense(noun) in senses.split() for noun, _, senses in labels)


@pytest.mark.parametrize(("pairs", "expected"), [(CASES["related"], True), (CASES["unrelated"], False)])
def test_related(pairs, expected):
    for one, other in (pair.split("/") for pair in pairs.split()):
        assert WORDNET.related(one, other) is WORDNET.related(other, one) is expected, (one, other)


def test_closure():
    for synset in WORDNET.senses("dog", "n") + WORDNET.senses("bank", "n") + WORDNET.senses("hot_dog", "n"):
        closure = WORDNET.closure(synset)
        assert {synset, WORDNET.synset("entity.n.01")} <= closure
        assert all(WORDNET.closure(above) <= closure for above in closure)
    assert WORDNET.synset("vehicle.n.01") in WORDNET.closure(WORDNET.senses_in_use("van", "n")[0])


def test_every_name_leads_back():
    named = map(WORDNET.synset, "dog.n.01 frump.n.01 ample.s.02 snore.v.01 quickly.r.01 hot_dog.n.02".split())
    assert all(WORDNET.synset(WORDNET.name(synset)) == synset for synset in (*named, *range(0, len(WORDNET), 97)))


def test_lexical_relations():
    assert "small" not in WORDNET.antonyms("huge", "a")
    assert WORDNET.antonyms("inside", "r") == {"outside"}
    assert "rider" in WORDNET.derived("ride", "v", "n")
    assert WORDNET.lexname(WORDNET.synset("table.n.02")) == "noun.artifact"
    assert WORDNET.synset("head.n.01") in WORDNET.relation("part_of", WORDNET.synset("face.n.01"))
    assert all(WORDNET.entails(verb, other) for verb, other in (("snore", "sleep"), ("sprint", "run"), ("kill", "die")))
    assert not WORDNET.entails("walk", "run")


def test_what_is_unknown_is_named_or_nothing():
    assert WORDNET.senses("xyzzy", "n") == WORDNET.senses_in_use("xyzzy", "n") == ()
    assert WORDNET.senses("hot_dog", "n") == WORDNET.senses("Hot dog", "n") != ()
    with pytest.raises(ValueError, match="pos must be one of n, v, a, r, was: noun"):
        WORDNET.senses("dog", "noun")
    for name in ("dog", "dog.n.99", "dog.n.00", "dog.x.01", "xyzzy.n.01"):
        with pytest.raises(ValueError, match="must be the name of a WordNet synset"):
            WORDNET.synset(name)


def test_build_names_what_is_missing(tmp_path, capsys):
    assert main(["wordnet", "--source", str(tmp_path), "--output", str(tmp_path / "wordnet.parquet")]) == 2
    assert "data.noun: no such file" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not DEBIAN.is_dir(), reason="no WordNet in /usr/share/wordnet")
def test_build_gives_the_shipped_bytes(tmp_path):
    pytest.importorskip("nltk")
    assert main(["wordnet", "--output", str(tmp_path / "wordnet.parquet")]) == 0
    for name in ("wordnet.parquet", "WORDNET_LICENSE.txt"):
        assert (tmp_path / name).read_bytes() == data_path(name).read_bytes()
