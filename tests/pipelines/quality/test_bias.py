import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from negcap.pipelines.quality.accuracy import accuracy
from negcap.pipelines.quality.bias.baselines import CorpusText, TextPair, blind, folds_of, format_faults, shorter
from negcap.pipelines.quality.bias.measure import BlindConfig, measure_run, read_all
from negcap.pipelines.quality.bias.ngrams import NgramVocabulary, windows
from negcap.pipelines.quality.bias.topics import documents, topics_of
from negcap.pipelines.stages.refine import RefineConfig, read_rows
from negcap.pipelines.tables.pairs import with_true
from negcap.schemas.negatives import NEGATIVES, POSITIVES
from tests.tables import write_table

WORDS = "red green blue tall short old young wet dry warm".split()
THINGS = "dog cat bus tree house boat horse bird chair lamp".split()


def symmetric(n: int = 400) -> list[TextPair]:
    """Pairs whose texts are drawn alike."""
    rng = Random(0)
    made = []
    while len(made) < n:
        a, b, c = rng.choice(WORDS), rng.choice(THINGS), rng.choice(THINGS)
        if b != c:
            made.append(TextPair(f"A {a} {b}.", f"A {a} {c}.", str(len(made) // 2)))
    return made


def planted() -> list[TextPair]:
    """Negatives that say "zebra" every time."""
    return [pair._replace(negative=f"{pair.true[:-1]} zebra.") for pair in symmetric()]


FAULTS = {  # texts by the number of their faults
    0: [
        "A dog runs.", "A dog I'm walking.", "The i-beam, i.e. this one.",
        "An hour on an 8 lane road, a one-way street.",
    ],
    1: [
        "a dog runs.", "A dog runs", "A dog runs .", "A  dog runs.", "An dog runs.", "A hour ago.", "A dog dog runs.",
        "A <UNK> runs.", "A dog , a cat.", "A dog runs !", "What i saw.", "A dog i'm walking.",
    ],
    2: ["A apple, an pear."],
    4: ["a <unk>  runs ."],
}  # fmt: skip


@pytest.mark.parametrize(("faults", "text"), [(n, text) for n, texts in FAULTS.items() for text in texts])
def test_format_faults(faults: int, text: str) -> None:
    assert format_faults(text) == faults


def test_shorter() -> None:
    assert shorter([TextPair("A dog.", "A horse.", "1"), TextPair("A dog.", "A cat.", "2")]).percent == 75


def test_interval_is_wilsons() -> None:
    found = accuracy(70, 100)
    assert (found.low, found.high) == pytest.approx((60.42, 78.11), abs=0.01)
    with pytest.raises(ValueError, match="pairs must be >= 1, was: 0"):
        accuracy(0, 0)


def test_a_planted_cue_is_found_and_named_and_symmetric_pairs_are_near_chance() -> None:
    report = blind("planted", planted())
    assert report.ngrams.percent > 99
    assert any("zebra" in gram for gram, _ in report.false_cues)
    even = blind("symmetric", symmetric()).baselines
    assert 38 < even["n-gram regression"].percent < 62 and 38 < even["regression by topic"].percent < 62


def test_what_is_even_over_all_images_and_not_within_a_topic_is_found() -> None:
    pairs, captions = list[TextPair](), list[CorpusText]()
    for n in range(480):
        topic, texts = n % 12, ["A cat sleeps.", "A dog sleeps."]
        true, negative = texts[:: -1 if topic % 2 else 1]
        pairs.append(TextPair(true, negative, str(n)))
        captions += [CorpusText(true, str(n)), CorpusText(f"There is a place{topic}.", str(n))]
    report = blind("in topics", pairs, corpus=captions).baselines
    assert 38 < report["n-gram regression"].percent < 62 and report["regression by topic"].percent > 85


def test_a_topic_is_not_told_by_the_word_that_differs() -> None:
    vocabulary = NgramVocabulary()
    captions = ["A red kite.", "A red kite by a sink.", "A kite.", "A lamp."]
    false = ["A red boat.", "A red boat by a sink."]
    true, negative = vocabulary.encode(captions[:2]), vocabulary.encode(false)
    found = documents(vocabulary.encode(captions), ["a", "b", "b", "c"], true, windows(true, negative).true, ["a", "b"])
    kite = found.images.toarray().T.tolist().index([1, 2, 0])
    assert found.pairs.toarray()[:, kite].tolist() == [0, 1]  # a sibling says it, too
    assert topics_of(found, 1).shape == (2,)


@given(st.lists(st.integers(0, 30).map(str), min_size=1, max_size=200), st.integers(0, 9))
def test_no_image_straddles_folds(images: list[str], seed: int) -> None:
    if len(set(images)) < 5:
        with pytest.raises(ValueError, match="too few images: "):
            folds_of(images, seed=seed)
        return
    folds = folds_of(images, seed=seed).tolist()
    assert set(folds) == set(range(5))
    assert len(set(zip(images, folds, strict=True))) == len(set(images))


def negatives(run: Path, cuts: list[int], images: int = 8) -> Path:
    """A negatives table of 2 captions an image and 4 draws each, cut into shards at these images."""
    rows = [
        {
            "negative_id": f"s:{image}:{n}#{operator}:{draw}",
            "draw": draw,
            "caption_id": f"s:{image}:{n}",
            "operator": operator,
            "family": operator,
            "split": "train" if image < images // 2 else "test",
            "image_id": f"s:{image}",
            "caption": f"A {THINGS[(image + n) % 10]} {image}.",
            "text": f"A {THINGS[(image + n + draw + 1) % 10]} {image}.",
            "replaced": "a" if draw else "b",
            "replacement": "b" if draw else "a",
        }
        for image in range(images)
        for n in range(2)
        for operator in ("noun", "numeral")
        for draw in range(4)
    ]
    for i, (low, high) in enumerate(zip([0, *cuts], [*cuts, images], strict=True)):
        shard = [row for row in rows if low <= int(row["image_id"][2:]) < high]
        write_table(run, "negatives", pa.Table.from_pylist(shard), i)
    return run


def test_pairs_do_not_depend_on_shards(tmp_path: Path) -> None:
    one = read_all(negatives(tmp_path / "one", []), seed=3)["noun"]
    many = read_all(negatives(tmp_path / "many", [1, 5]), seed=3)["noun"]
    assert len(one) == 16
    assert sorted(one) == sorted(many)


def test_a_run_has_a_report_an_operator(tmp_path: Path) -> None:
    run = negatives(tmp_path, [4])
    reports = list(measure_run(run).reports.values())
    assert [(report.name, report.ngrams.pairs) for report in reports] == [("noun", 16), ("numeral", 16)]
    assert list(measure_run(run, BlindConfig(operators=("numeral",))).reports.values()) == reports[1:]
    with pytest.raises(ValueError, match="operator must be one of noun, numeral in .*, was: verb"):
        measure_run(run, BlindConfig(operators=("verb",)))
    with pytest.raises(FileNotFoundError, match="must be the folder of a run, "):
        measure_run(tmp_path / "nowhere")


def test_too_few_images_name_the_operator(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be measured: noun: too few images: 3, needs 5; numeral: "):
        measure_run(negatives(tmp_path, [], images=3))


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(ImportError, match=r'pip install "negcap\[quality\]"'):
        blind("symmetric", symmetric())


def test_a_false_sentence_is_paired_with_the_true_one_that_it_contradicts(tmp_path: Path) -> None:
    def row(key: str, number: str, operator: str, family: str, text: str, replaced: str, replacement: str) -> dict:
        caption_id = f"s:{number}:0"
        return {
            key: f"{caption_id}#{operator}:0", "caption_id": caption_id, "image_id": number, "split": "test",
            "origin": "human", "family": family, "operator": operator, "caption": f"A dog with a hat {number}.",
            "draw": 0, "text": text, "edits": [], "replaced": replaced, "replacement": replacement,
            "replaced_synset": None, "replacement_synset": None, "p_true": None, "plausibility": None,
            "p_unnatural": 9.0, "concreteness": None,
        }  # fmt: skip

    negatives = [
        row("negative_id", "1", "negation", "negation", "A dog with a cat.", "not cat", "cat"),
        row("negative_id", "2", "negation", "negation", "A dog without a hat.", "hat", "not hat"),
        row("negative_id", "3", "negation", "negation", "A dog with a cow.", "not cow", "cow"),
    ]
    positives = [
        row("positive_id", "1", "true_negation", "positive", "A dog without a cat.", "hat", "not cat"),
        row("positive_id", "3", "true_negation", "positive", "A dog without a cat.", "hat", "not cat"),
    ]
    write_table(tmp_path, "negatives", pa.Table.from_pylist(negatives, schema=NEGATIVES))
    captions = [f"A dog with a hat {number}." for number in "123"]
    assert [pair.true for pair in read_all(tmp_path)["negation"]] == captions
    write_table(tmp_path, "positives", pa.Table.from_pylist(positives, schema=POSITIVES))
    cat, hat = (
        TextPair("A dog without a cat.", "A dog with a cat.", "1"),
        TextPair(captions[1], "A dog without a hat.", "2"),
    )
    assert read_all(tmp_path) == {"negation": [cat, hat]}
    assert [row["caption"] for row in with_true(tmp_path, negatives)] == [cat.true, hat.true]
    _, refined = read_rows(tmp_path, "negation", RefineConfig())
    columns = refined.select(["row", "caption", "negative", "plausibility"])
    assert [*zip(*columns.to_pydict().values(), strict=True)] == [(0, *cat[:2], None), (1, *hat[:2], None)]
