"""The shipped parser on the converted EWT development sentences, and its speed on captions."""

from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.resources.parser.__main__ import main, treebank
from negcap.pipelines.resources.parser.clear import read_clear
from negcap.pipelines.resources.parser.train import accuracy
from tests.conftest import DATA, ROOT

MODEL = ROOT / "augment" / "data" / "english_parser"
TREEBANKS = DATA / "treebank"


needs_treebanks = pytest.mark.skipif(not TREEBANKS.exists(), reason=f"no treebanks at {TREEBANKS}")


@needs_treebanks
@pytest.mark.data
@pytest.mark.slow
def test_accuracy_on_ewt_dev() -> None:
    import spacy

    nlp: Any = spacy.load(MODEL)
    scores = accuracy(nlp, read_clear(treebank(TREEBANKS, "en_ewt", "dev")))
    assert scores["tag"] >= 93.0 and scores["las"] >= 82.0, scores
    assert scores == pytest.approx(nlp.meta["performance"]["ewt_dev"], abs=0.1)


@needs_treebanks
@pytest.mark.data
def test_conversion_keeps_nearly_all_sentences() -> None:
    trees = list(read_clear(treebank(TREEBANKS, "en_ewt", "dev")))
    assert len(trees) >= 0.97 * 2001
    labels = {dep for tree in trees for dep in tree.deps}
    assert not any(":" in label for label in labels), labels
    assert not {"obl", "obj", "cop", "iobj", "root", "fixed", "flat"} & labels


def test_missing_treebanks_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "expected en_ewt-dev.conllu" in capsys.readouterr().err
