"""An evaluation, compared with all scores of the model one by one."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from negcap.pipelines.cli import main
from negcap.pipelines.models.config import EvaluateConfig
from negcap.pipelines.models.data import encode_run, read_captions
from negcap.pipelines.models.evaluation.protocols import Evaluation
from negcap.pipelines.models.evaluation.retrieval import embed_images, embed_sentences
from negcap.pipelines.models.features import read_features
from negcap.pipelines.models.trainer import load_model
from negcap.pipelines.models.trainer.evaluate import measure, to_markdown
from negcap.pipelines.models.vocabulary import tokenize
from negcap.schemas.features import RANKS

CPU = torch.device("cpu")
CONFIG = EvaluateConfig(threads=1, per_family=3, per_operator=2)
Scored = tuple[dict[str, Any], dict[str, float]]  # a negative, and its score with each image


@pytest.fixture(scope="module")
def evaluation(vse: Path, english: Path) -> Evaluation:
    return measure(vse, english, CONFIG)


class Naive:
    """All scores of a model on the test split, in dicts by the ids of sentence and image."""

    def __init__(self, folder: Path, run: Path) -> None:
        model, vocabularies, _ = load_model(folder, CPU)
        captions = read_captions(run)
        corpus = encode_run(run, captions, vocabularies)
        rows = captions.of_split("test")
        image_rows = captions.image[rows].unique()
        self.images = [captions.image_ids[n] for n in image_rows]
        self.image_of = {captions.ids[n]: captions.image_ids[captions.image[n]] for n in rows}
        vectors = embed_images(model.image, read_features(run, captions.image_ids).values, image_rows, CPU)

        def scores(texts: Tensor) -> list[dict[str, float]]:
            sentences = embed_sentences(model.sentences, corpus.texts, texts)
            return [dict(zip(self.images, row, strict=True)) for row in (sentences @ vectors.T).tolist()]

        self.captions = dict(zip(self.image_of, scores(rows), strict=True))
        words = set(vocabularies["en"].words)
        negatives = pq.read_table(run / "negatives").to_pylist()
        for row in negatives:
            row["known"] = set(tokenize(row["text"])) - set(tokenize(row["caption"])) <= words
        of_test = torch.tensor([n for n, row in enumerate(negatives) if row["split"] == "test"])
        self.negatives = [
            (negatives[n], own) for n, own in zip(of_test, scores(corpus.texts.captions + of_test), strict=True)
        ]

    def first_negatives(self, operators: list[str], limit: int, *, known: bool = True) -> list[Scored]:
        """Up to `limit` negatives per caption: the first of each operator, then the second ones, and so on; known: of
        those that insert only words that the model knows.
        """
        kept: dict[str, list[Scored]] = {}
        for row, scores in sorted(self.negatives, key=lambda item: item[0]["draw"]):
            of_caption = kept.setdefault(row["caption_id"], [])
            if row["operator"] in operators and row["known"] >= known and len(of_caption) < limit:
                of_caption.append((row, scores))
        return [item for items in kept.values() for item in items]

    def rank(self, image: str) -> tuple[int, float]:
        """The rank of the best caption of an image among those of others, and its score."""
        best = max(scores[image] for caption, scores in self.captions.items() if self.image_of[caption] == image)
        others = [scores for caption, scores in self.captions.items() if self.image_of[caption] != image]
        return 1 + sum(scores[image] > best - 1e-6 for scores in others), best


@pytest.fixture(scope="module")
def naive(vse: Path, english: Path) -> Naive:
    return Naive(vse, english)


@pytest.mark.parametrize(("attack", "operators", "limit"), [
    ("plain", [], 0),
    ("vse-c:noun", [["noun"]], CONFIG.per_family),
    ("vse-c:relation", [["shuffle", "preposition"]], CONFIG.per_family),
    ("vse-c:total", [["noun"], ["numeral"], ["preposition"]], CONFIG.per_family),
    ("univse:object", [["object"]], CONFIG.per_operator),
])  # fmt: skip
def test_ranks_without_and_under_attack(naive, evaluation, attack, operators, limit):
    table = evaluation.ranks[evaluation.ranks["direction"] == "i2t"]
    plain, ranks = (table[table["candidates"] == name].set_index("query")["rank"] for name in ("plain", attack))
    negatives = [item for family in operators for item in naive.first_negatives(family, limit)]
    own = attack.startswith("vse-c")  # an image's own negatives, not those of all images
    for image in naive.images:
        rank, best = naive.rank(image)
        beaten = sum(scores[image] > best - 1e-6 for row, scores in negatives if row["image_id"] == image or not own)
        assert ranks[image] == rank + beaten
    assert not negatives or (plain < ranks).any()


def test_pairwise_accuracy(naive: Naive, evaluation: Evaluation) -> None:
    by_operator = evaluation.metrics["pairwise"]
    assert by_operator.keys() == {"noun", "numeral", "preposition", "object"}
    for name, entry in by_operator.items():
        firsts = naive.first_negatives([name], 1, known=False)
        for shown, known in ((entry, False), (entry["known"], True)):
            pairs = [(row, scores) for row, scores in firsts if row["known"] >= known]
            right = [naive.captions[row["caption_id"]][row["image_id"]] > own[row["image_id"]] for row, own in pairs]
            assert shown["pairs"] == len(right)
            assert shown["accuracy"] == pytest.approx(100 * sum(right) / len(right))
    assert by_operator["numeral"]["known"]["pairs"] < 40 == by_operator["preposition"]["known"]["pairs"]
    few = {"noun": {**by_operator["noun"], "pairs": 9}, "object": {**by_operator["object"], "pairs": 10}}
    told = to_markdown({**evaluation.metrics, "pairwise": few})
    shares = re.findall(r"^\| \S+ \| (\S+)[^|]* \| (?:9|10) \| \d", told, re.M)
    assert [share == "–" for share in shares] == [True, False]  # no share of fewer than ten pairs


def test_evaluate_writes_tables_metrics_and_ranks(naive, vse, english, evaluation, tmp_path, capsys):
    options = ["--output", str(tmp_path / "e"), "--per-family", "3", "--per-operator", "2", "--threads", "1"]
    assert main(["evaluate", str(vse), str(english), *options]) == 0
    text = capsys.readouterr().out
    assert text == (tmp_path / "e" / "evaluation.md").read_text() == to_markdown(evaluation.metrics) + "\n"
    assert "**vse++** on test: 20 images, 40 captions" in text and "| total |" in text
    metrics = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    assert metrics == json.loads(json.dumps(evaluation.metrics))
    known = [row["known"] for row, _ in naive.negatives if row["operator"] == "numeral"]
    assert metrics["inserting"]["numeral"] == {"negatives": len(known), "unknown": known.count(False)}
    assert metrics["vse-c"]["numeral"]["negatives"] == sum(known) < 80
    assert pq.read_table(tmp_path / "e" / "ranks.parquet").schema.equals(RANKS)
    with pytest.raises(ValueError, match="split must be one of 'test', 'train' in captions, was: 'tset'"):
        measure(vse, english, CONFIG.changed(split="tset"))
