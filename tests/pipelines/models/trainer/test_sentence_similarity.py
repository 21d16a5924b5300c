"""Sentence similarity: reading pairs, Pearson's r and its interval, and the command."""

import json
from pathlib import Path

import pytest
import torch

from negcap.pipelines.models.trainer.sentence_similarity import (
    SentencePair,
    SimilarityConfig,
    correlation,
    read_pairs,
    sentence_cosines,
    similarity,
)

STS = "main-captions\tbirds\t2031\t7\t4.5\tA hen sits.\tA hen rests.\textra\n"


def put(folder: Path, text: str) -> Path:
    path = folder / "pairs.tsv"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(("text", "pair"), [
    (STS, SentencePair("birds 2031", 4.5, "A hen sits.", "A hen rests.")),
    ("pair_ID\tsentence_A\tsentence_B\trelatedness_score\n1\tA.\tB.\t2.5\n", SentencePair("pairs", 2.5, "A.", "B.")),
    ('score\tsentence1\tsentence2\tdataset\n1\tA ".\tB.\tbarn\n', SentencePair("barn", 1.0, 'A ".', "B.")),
])  # fmt: skip
def test_pairs_of_the_sts_benchmark_and_of_files_with_a_header(tmp_path: Path, text: str, pair: SentencePair) -> None:
    assert read_pairs(put(tmp_path, text)) == [pair]


@pytest.mark.parametrize(("text", "message"), [
    ("a\tb\n", r"pairs\.tsv:1: a pair must have 7 columns, has 2"),
    (STS.replace("4.5", "nan"), r"pairs\.tsv:1: score must be a number, was: 'nan'"),
    (STS.replace("A hen sits.", " "), r"pairs\.tsv:1: a pair must have two sentences, one is empty"),
    ("", "has no pairs"),
    (STS, "must have 3 pairs with different scores, has 1"),
])  # fmt: skip
def test_bad_pairs_are_refused(tmp_path: Path, mhad: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        similarity(mhad, put(tmp_path, text), SimilarityConfig(threads=1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_correlation_is_pearsons() -> None:
    values, scores = torch.tensor([1.0, 2.0, 4.0, 8.0]), torch.tensor([2.0, 1.0, 5.0, 6.0])
    pearson = torch.corrcoef(torch.stack([values, scores]))[0, 1].item()
    assert correlation(values, scores, 0).value == pytest.approx(100 * pearson)
    noisy = torch.arange(300) + 300 * torch.rand(300, generator=torch.Generator().manual_seed(0))
    value, (low, high) = correlation(noisy, torch.arange(300.0), 0)
    assert low < value < high < low + 20


def test_r_is_told_by_part(mhad: Path, tmp_path: Path) -> None:
    same = [("one", 5, f"one {noun} on the hill", f"one {noun} on the hill") for noun in ("dog", "cat")]
    others = [("two", n, "one dog on the hill", f"three {noun}s") for n, noun in enumerate(("cat", "bird", "car"))]
    text = "".join(f"g\t{part}\t2031\t0\t{score}\t{a}\t{b}\n" for part, score, a, b in same + others)
    told = similarity(mhad, put(tmp_path, text), SimilarityConfig(threads=1), tmp_path / "out")
    assert "| one 2031 | 2 | scores or cosines are all equal |" in told and "| all | 5 |" in told
    written = json.loads((tmp_path / "out" / "similarity.json").read_text())
    assert set(written["parts"]) == {"two 2031", "all"} and written["model"] == "mha-d"


def test_sentences_are_encoded_in_their_language(mhad: Path) -> None:
    pairs = [SentencePair("", 1.0, "a red dog", "a red dog"), SentencePair("", 0.0, "one dog", "ein hund")]
    english = sentence_cosines(mhad, pairs, SimilarityConfig(threads=1)).cosines
    german = sentence_cosines(mhad, pairs, SimilarityConfig(language="de", threads=1)).cosines
    assert english[0].item() == pytest.approx(1) and english[1] != german[1]
    with pytest.raises(ValueError, match="language must be one of those of .*, en, de, was: fr"):
        sentence_cosines(mhad, pairs, SimilarityConfig(language="fr"))
