"""The shipped parser on captions in our own words, with the constructions of the real captions it was judged on.

A fact is "word label head" ("boy nsubj riding"), "word TAG" ("leaps VBZ"), "word=lemma" or "[noun chunk]". A sentence
with any wrong fact counts as a serious error: wrong head of a noun phrase, a preposition or verb mis-tagged, a lost
subject or object.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from negcap.pipelines.resources.__main__ import main
from negcap.pipelines.resources.parser.clear import read_clear
from negcap.pipelines.resources.parser.train import accuracy, treebank
from tests.conftest import DATA, ROOT

if TYPE_CHECKING:
    from spacy.tokens import Doc

MODEL = ROOT / "augment" / "data" / "english_parser"
SENTENCES = Path(__file__).parent / "parser_captions.tsv"
MOST_SERIOUS = 0.05


@pytest.fixture(scope="module")
def nlp() -> Any:
    import spacy

    return spacy.load(MODEL)


def holds(doc: "Doc", fact: str) -> bool:
    if fact.startswith("["):
        return fact[1:-1] in {chunk.text for chunk in doc.noun_chunks}
    if "=" in fact:
        word, lemma = fact.split("=")
        return any(token.text == word and token.lemma_ == lemma for token in doc)
    word, label, *head = fact.split()
    if not head and label != "ROOT":
        return any(token.text == word and token.tag_ == label for token in doc)
    return any(token.text == word and token.dep_ == label and (not head or token.head.text == head[0]) for token in doc)


def test_few_captions_have_a_serious_error(nlp):
    rows = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines() if line]
    assert len(rows) >= 120
    wrong = {}
    for text, facts in rows:
        doc = nlp(text)
        if failed := [fact for fact in facts.split("; ") if not holds(doc, fact)]:
            wrong[text] = failed
    assert len(wrong) / len(rows) <= MOST_SERIOUS, wrong


def test_what_is_shipped(nlp):
    assert nlp.pipe_names == ["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer"]
    assert nlp.meta["license"] == "CC BY-SA 4.0"
    assert {"tag", "uas", "las"} <= set(nlp.meta["performance"]["ewt_dev"])
    assert sum(path.stat().st_size for path in MODEL.rglob("*") if path.is_file()) <= 8_000_000
    for name in ("meta.json", "config.cfg"):
        text = (MODEL / name).read_text(encoding="utf-8")
        assert not any(place in text for place in ("/home", "/work", "/tmp", "/root")), name


TREEBANKS = DATA / "treebank"


needs_treebanks = pytest.mark.skipif(not TREEBANKS.exists(), reason=f"no treebanks at {TREEBANKS}")


@needs_treebanks
@pytest.mark.data
@pytest.mark.slow
def test_accuracy_on_ewt_dev(nlp):
    scores = accuracy(nlp, read_clear(treebank(TREEBANKS, "en_ewt", "dev")))
    assert scores["tag"] >= 93.0 and scores["las"] >= 82.0, scores
    assert scores == pytest.approx(nlp.meta["performance"]["ewt_dev"], abs=0.1)


@needs_treebanks
@pytest.mark.data
def test_conversion_keeps_nearly_all_sentences():
    trees = list(read_clear(treebank(TREEBANKS, "en_ewt", "dev")))
    assert len(trees) >= 0.97 * 2001
    labels = {dep for tree in trees for dep in tree.deps}
    assert not any(":" in label for label in labels), labels
    assert not {"obl", "obj", "cop", "iobj", "root", "fixed", "flat"} & labels


def test_missing_treebanks_are_reported(tmp_path, capsys):
    assert main(["parser", str(tmp_path)]) == 2
    assert "expected en_ewt-dev.conllu" in capsys.readouterr().err
