"""The blind baselines against plain counts, and what they find in pairs with a planted cue."""

import re
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from negcap.pipelines.quality.accuracy import accuracy, by_image
from negcap.pipelines.quality.bias import baselines, measure, ngrams, topics
from negcap.pipelines.quality.bias.baselines import CorpusText, TextPair, blind
from negcap.pipelines.quality.bias.measure import BlindConfig, Blindness, measure_run
from negcap.pipelines.quality.bias.ngrams import NgramVocabulary, NumberedTexts, ngram_differences, train
from tests.pipelines.publish import fixtures

TEXT = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "."]), max_size=7).map(" ".join)
THINGS = "dog cat bus tree house boat horse bird chair lamp".split()


def pairs(cue: str = "", images: int = 60, to_an_image: int = 1) -> list[TextPair]:
    """Pairs whose texts are drawn alike, but for a cue in the negative."""
    rng = Random(0)
    made = []
    for number in range(images * to_an_image):
        true, false = rng.sample(THINGS, 2)
        made.append(TextPair(f"A {true} runs.", f"A {false}{cue} runs.", str(number // to_an_image)))
    return made


# n-grams, the language model and the folds, against counts


def grams(text: str) -> Counter[str]:
    tokens = ["<s>", *text.split(), "</s>"]
    return Counter(" ".join(tokens[i : i + n]) for n in (1, 2, 3) for i in range(len(tokens) - n + 1))


@settings(deadline=None, max_examples=40)
@example([("a a", "a a a"), ("a a a a", "a a a")])
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_differences_are_those_of_counts(pairs: list[tuple[str, str]]) -> None:
    vocabulary = NgramVocabulary()
    found = ngram_differences(*(vocabulary.encode([pair[side] for pair in pairs]) for side in (0, 1)))
    names = vocabulary.spell(found.keys)
    for row, (true, negative) in zip(found.matrix, pairs, strict=True):
        cells = row.tocoo()
        expected = grams(true)
        expected.subtract(grams(negative))
        read = {names[i]: n for i, n in zip(cells.col, cells.data, strict=True)}
        assert read == {gram: n for gram, n in expected.items() if n}


@pytest.mark.parametrize("context", ["dog", "the cat", "unseen a"])
def test_the_probabilities_of_a_context_sum_to_one(context: str) -> None:
    corpus = ["a dog runs", "a dog sits", "a cat sits", "a cat sits", "the dog runs .", "a red dog"]
    vocabulary = NgramVocabulary()
    texts = vocabulary.encode([*corpus, context])
    entries = len(vocabulary.number)
    words = texts.flat[texts.offsets[-2] : -1].tolist()
    model = train(texts.take(np.arange(len(corpus))), np.arange(len(corpus)) % 2, 2, entries)
    flat = np.array([[*words, word] for word in range(entries)]).astype(np.int32)
    asked = NumberedTexts(flat.ravel(), np.arange(entries + 1) * flat.shape[1])
    last_word = ngrams.Window(asked.offsets[1:] - 1, asked.offsets[1:])
    for fold in (0, 1):
        logs = model.score(asked, last_word, np.full(entries, fold))
        assert np.exp(logs).sum() == pytest.approx(1) and logs[ngrams.START] == logs.min()


def test_a_fold_is_judged_by_what_others_say() -> None:
    vocabulary = NgramVocabulary()
    model = train(vocabulary.encode(["a dog runs"] * 5 + ["a cat runs"]), np.array([0] * 5 + [1]), 2, 9)
    pair = vocabulary.encode(["a dog runs"]), vocabulary.encode(["a cat runs"])
    assert model.gaps(*pair, np.array([0]))[0] < 0 < model.gaps(*pair, np.array([1]))[0]


def test_the_log_odds_of_a_word_are_those_of_the_other_folds() -> None:
    vocabulary = NgramVocabulary()
    true, negative = vocabulary.encode(["a dog", "a dog", "a cat"]), vocabulary.encode(["a cat", "a cat", "a dog"])
    differences = ngram_differences(true, negative)
    single = differences.take(differences.single_words())
    assert vocabulary.spell(single.keys) == ["dog", "cat"]
    assert baselines.log_odds(single.matrix) == pytest.approx([np.log(3 / 2), np.log(2 / 3)])
    folds = np.array([0, 0, 1])
    weights = baselines.fold_weights(single.matrix, folds, 2, baselines.log_odds)
    assert baselines.right(baselines.scores(single.matrix, weights, folds)).tolist() == [0, 0, 0]


def test_a_vocabulary_has_a_largest_size() -> None:
    with pytest.raises(ValueError, match="texts must have at most 8 different words, have: 9"):
        NgramVocabulary(max_words=8).encode(["one two three four five six"])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 30).map(str), min_size=1, max_size=200), st.integers(0, 9))
def test_no_image_straddles_folds(images: list[str], seed: int) -> None:
    if len(set(images)) < 5:
        with pytest.raises(ValueError, match="too few images: "):
            baselines.folds_of(images, seed=seed)
        return
    folds = baselines.folds_of(images, seed=seed).tolist()
    assert set(folds) == set(range(5)) and len(set(zip(images, folds, strict=True))) == len(set(images))


def test_the_interval_is_wilsons_and_pairs_of_one_image_count_for_fewer() -> None:
    plain = accuracy(75, 100)
    assert (accuracy(70, 100).low, accuracy(70, 100).high) == pytest.approx((60.42, 78.11), abs=0.01)
    told = [1.0, 1.0, 0.0, 1.0] * 25
    apart = by_image(told, map(str, range(100)))
    assert (apart.percent, apart.pairs) == (75, 100)
    assert (apart.low, apart.high) == pytest.approx((plain.low, plain.high), abs=0.2)
    copied = by_image([value for value in told for _ in range(4)], [str(i) for i in range(100) for _ in range(4)])
    assert copied.low == pytest.approx(apart.low, abs=0.1) and copied.pairs == 400
    certain = by_image([1.0] * 40, [str(i % 10) for i in range(40)])
    assert certain.low == pytest.approx(accuracy(10, 10).low)


FAULTS = {  # texts by the number of their faults
    0: ["A dog runs.", "A dog I'm walking.", "The i-beam, i.e. this.", "An hour on an 8 lane road, a one-way street."],
    1: [
        "a dog runs.", "A dog runs", "A dog runs .", "A  dog runs.", "An dog runs.", "A hour ago.", "A dog dog runs.",
        "A <UNK> runs.", "A dog , a cat.", "A dog runs !", "What i saw.", "A dog i'm walking.",
    ],
    2: ["A apple, an pear."],
    4: ["a <unk>  runs ."],
}  # fmt: skip


def test_format_faults() -> None:
    for faults, texts in FAULTS.items():
        assert {text: baselines.format_faults(text) for text in texts} == dict.fromkeys(texts, faults)


def test_a_planted_cue_is_found_and_named_and_symmetric_pairs_are_near_chance() -> None:
    even = blind("even", pairs("", 200, 2)).baselines
    assert 38 < even["n-gram regression"].percent < 62 and 38 < even["regression by topic"].percent < 62
    chance, told = (blind(name, pairs(cue)) for name, cue in (("chance", ""), ("told", " zebra")))
    assert told.ngrams.percent > 99 and any("zebra" in gram for gram, _ in told.false_cues)
    said = measure.to_text(Blindness({"told": told, "chance": chance}))
    assert "told: n-grams that speak for the false text: 'zebra" in said
    assert "chance: n-grams that speak for either text: none, the regression is not above chance" in said
    assert not re.search("chance: .*[+-][0-9]", said) and max(map(len, said.splitlines()[4:])) <= 100
    assert len(re.findall("'[^']+' [+-][0-9.]+(?:,|$)", said, re.M)) == len(told.true_cues + told.false_cues)


def test_what_is_even_over_all_images_and_not_within_a_topic_is_found() -> None:
    pairs = list[TextPair]()
    captions = list[CorpusText]()
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
    true, negative = vocabulary.encode(captions[:2]), vocabulary.encode(["A red boat.", "A red boat by a sink."])
    found = topics.documents(
        vocabulary.encode(captions), ["a", "b", "b", "c"], true, ngrams.windows(true, negative).true, ["a", "b"]
    )
    kite = found.images.toarray().T.tolist().index([1, 2, 0])
    assert found.pairs.toarray()[:, kite].tolist() == [0, 1]  # a sibling says it, too
    assert topics.topics_of(found, 1).shape == (2,)


def test_operators_are_measured_apart_and_together_and_too_few_images_leave_the_others() -> None:
    found = measure.measure_each(
        measure.with_all({"noun": pairs(), "verb": pairs(" zebra"), "shuffle": pairs()[:2]}), blind
    )
    reports = found.reports
    assert list(reports) == ["noun", "verb", "all"] and reports["all"].pairs == 122
    assert baselines.most_telling(reports["verb"].baselines).cue.percent == 100 and reports["noun"].ngrams.percent < 75
    assert [(cue.word, cue.true, cue.negative) for cue in reports["verb"].words][:1] == [("zebra", 0, 60)]
    assert (reports["verb"].shorter.percent, reports["verb"].format_rule.percent) == (100, 50)
    assert list(measure.with_all({"noun": pairs()})) == ["noun"]
    assert found.unmeasured == {"shuffle": ("too few images: 2, needs 5", 2)}
    lines = measure.to_text(found).splitlines()
    assert any(line.split() == ["shuffle", "2", *"–" * 6] for line in lines)
    assert "shuffle: not measured, too few images: 2, needs 5" in lines and "zebra 0:60" in "\n".join(lines)
    assert found.plain()["shuffle"] == {"not_measured": "too few images: 2, needs 5", "pairs": 2}
    assert baselines.shorter([TextPair("A dog.", "A horse.", "1"), TextPair("A dog.", "A cat.", "2")]).percent == 75


def test_a_limit_takes_whole_images() -> None:
    some = pairs(images=10, to_an_image=3)
    kept = measure.of_random_images(some, 10)
    assert len(kept) == 9 and all(n == 3 for n in Counter(pair.image_id for pair in kept).values())
    assert measure.of_random_images(some, 30) == some
    assert {pair.image_id for pair in measure.of_random_images(some, 10, seed=1)} != {pair.image_id for pair in kept}


def test_a_run_has_a_report_an_operator_that_does_not_depend_on_shards(toy: Path, tmp_path: Path) -> None:
    reports = list(measure_run(toy).reports.values())
    assert [(report.name, report.pairs) for report in reports] == [("noun", 24 * 5), ("numeral", 24 * 4)]
    assert list(measure_run(toy, BlindConfig(operators=("numeral",))).reports.values()) == reports[1:]
    other = fixtures.write_run(tmp_path / "other", *fixtures.rows(24, 9), images=5)
    ours, theirs = (measure.read_all(run, seed=3) for run in (toy, other))
    assert ours.keys() == theirs.keys() and all(sorted(ours[name]) == sorted(theirs[name]) for name in ours)


def test_a_run_that_cannot_be_measured_is_named(toy: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="operator must be one of noun, numeral in .*, was: verb"):
        measure_run(toy, BlindConfig(operators=("verb",)))
    with pytest.raises(FileNotFoundError, match="must be the folder of a run, "):
        measure_run(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="cannot be measured: noun: too few images: 3, needs 5; numeral: "):
        measure_run(fixtures.write_run(tmp_path / "few", *fixtures.rows(3, 1)))
