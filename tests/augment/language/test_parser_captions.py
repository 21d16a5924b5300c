"""The shipped parser on captions in our own words, with the constructions of the real captions it was judged on.

A fact is "word label head" ("boy nsubj riding"), "word TAG" ("leaps VBZ"), "word=lemma" or "[noun chunk]". A sentence
with any wrong fact counts as a serious error: wrong head of a noun phrase, a preposition or verb mis-tagged, a lost
subject or object.
"""

from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc

from negcap.augment.data import data_path
from negcap.pipelines.resources.parser.clear import read_clear
from negcap.pipelines.resources.parser.train import accuracy, treebank
from tests.conftest import DATA

MODEL = data_path("english_parser")
TREEBANKS = DATA / "treebank"
MOST_SERIOUS = 0.05


@pytest.fixture(scope="module")
def nlp() -> spacy.Language:
    return spacy.load(MODEL)


def holds(doc: Doc, fact: str) -> bool:
    if fact.startswith("["):
        return fact[1:-1] in {chunk.text for chunk in doc.noun_chunks}
    if "=" in fact:
        return tuple(fact.split("=")) in {(token.text, token.lemma_) for token in doc}
    word, label, *head = fact.split()
    if head:
        return (word, label, *head) in {(token.text, token.dep_, token.head.text) for token in doc}
    return any(token.text == word and label in (token.tag_, token.dep_) for token in doc)


def test_few_captions_have_a_serious_error(nlp):
    lines = Path(__file__).with_name("parser_captions.tsv").read_text("utf-8").splitlines()
    facts = dict(line.split("\t") for line in lines if line)
    assert len(facts) >= 120
    wrong = [doc.text for doc in nlp.pipe(facts) if not all(holds(doc, fact) for fact in facts[doc.text].split("; "))]
    assert len(wrong) / len(facts) <= MOST_SERIOUS, wrong


def test_what_is_shipped(nlp):
    assert nlp.pipe_names == ["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer"]
    assert nlp.meta["license"] == "CC BY-SA 4.0"
    assert sum(path.stat().st_size for path in MODEL.rglob("*") if path.is_file()) <= 8_000_000


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif(not TREEBANKS.exists(), reason=f"no treebanks at {TREEBANKS}")
def test_accuracy_on_ewt_dev(nlp):
    scores = accuracy(nlp, read_clear(treebank(TREEBANKS, "en_ewt", "dev")))
    assert scores["tag"] >= 93.0 and scores["las"] >= 82.0, scores
    assert scores == pytest.approx(nlp.meta["performance"]["ewt_dev"], abs=0.1)
