"""A very small training run: seeded, loadable without our code, with its sources and figures in meta.json."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from negcap.pipelines.resources.parser.__main__ import save
from negcap.pipelines.resources.parser.caption_trees import caption_trees
from negcap.pipelines.resources.parser.evaluation import accuracy, component_shares, megabytes, words_per_second
from negcap.pipelines.resources.parser.train import TrainingConfig, train

pytest.importorskip("spacy_lookups_data", reason="the lemma tables are built from spacy-lookups-data")
SMALL = TrainingConfig(seed=7, width=32, depth=1, rows=500, hidden=16, epochs=5, batch_words=100, learning_rate=0.005)


def test_the_same_seed_gives_the_same_weights() -> None:
    brief = replace(SMALL, epochs=1)
    first, again, other = (
        train(config, [], caption_trees(60, Random(0)), print).get_pipe("parser").model.to_bytes()  # type: ignore[attr-defined]
        for config in (brief, brief, replace(brief, seed=8))
    )
    assert first == again != other


@pytest.mark.slow
def test_a_small_run(tmp_path: Path) -> None:
    import spacy

    lines: list[str] = []
    nlp = train(SMALL, [], caption_trees(300, Random(0)), lines.append)
    assert len(lines) == SMALL.epochs and lines[0].startswith("epoch 1/5")
    dev = caption_trees(60, Random(1))
    folder = tmp_path / "parser"
    for _ in range(2):  # the second replaces the first
        save(nlp, folder, dev, ["a dog runs on grass"] * 20, SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["parser"]
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    assert any("EWT" in source["name"] for source in meta["sources"])
    loaded = spacy.load(folder)
    scores = accuracy(loaded, dev)
    assert meta["performance"]["ewt_dev"] == scores
    assert scores["tag"] > 75 and scores["las"] > 50, scores
    assert 0 < megabytes(folder) < 8
    assert words_per_second(loaded, ["a dog runs on grass"] * 20, repeats=1) > 0
    shares = component_shares(loaded, ["a dog runs on grass"] * 20)
    assert set(shares) == {"tokenizer", "tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer"}
    assert sum(shares.values()) == pytest.approx(100, abs=0.5)
