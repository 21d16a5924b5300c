"""How concrete nouns are, by the shipped score or by a list of norms."""

import json

import pytest

from negcap.augment.data import data_path
from negcap.augment.language.concreteness import Concreteness, read_norms
from negcap.pipelines.resources.concreteness import auc
from tests.conftest import DATA

NORMS = DATA / "concreteness" / "turney.txt.gz"


def test_things_lie_above_the_threshold_and_thoughts_below():
    score = Concreteness.load().score
    things, thoughts = ("dog", "table", "umbrella", "car"), ("idea", "freedom", "truth", "way")
    assert min(map(score, things)) > 0.6 > max(map(score, thoughts))
    assert score("wooden racket") == score("racket")  # a compound goes by its head
    assert score("qwertzuiop") is None


def test_a_norm_list_takes_the_place_of_the_score(tmp_path):
    (tmp_path / "norms.txt").write_text("dog\t0.1\nidea\t0.9\n")
    norms = Concreteness.load(tmp_path / "norms.txt")
    assert (norms.score("dog"), norms.score("hot dog"), norms.score("cat")) == (0.1, 0.1, None)


@pytest.mark.parametrize(("data", "message"), [
    (b"dog\t0.1\nidea high\n", "norms.txt:2: a line must be word<TAB>score, was: idea high"),
    (b"", "must hold at least one line"),
    (b"dog\tnan\n", "norms.txt:1: "),
    (b"d\xffg\t0.5\n", "norms.txt:1: must be UTF-8 text, plain or gzipped"),
])  # fmt: skip
def test_a_bad_norm_list_names_file_and_line(tmp_path, data, message):
    (tmp_path / "norms.txt").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        Concreteness.load(tmp_path / "norms.txt")


@pytest.mark.data
@pytest.mark.skipif(not NORMS.exists(), reason="the published list is not in NEGCAP_DATA")
def test_caption_heads_held_out_of_the_fit_are_told_apart():
    """AUC of the shipped coefficients on caption heads that their fit never saw, for a published score above 0.6."""
    held_out = json.loads(data_path("concreteness.json").read_text("utf-8"))["held_out"]
    scores = {lemma: Concreteness.load().score(lemma) for lemma in held_out}
    assert len(held_out) > 900
    assert auc({lemma: score for lemma, score in scores.items() if score is not None}, read_norms(NORMS)) >= 0.88
