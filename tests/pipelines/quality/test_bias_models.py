"""The parts of the blind baselines: n-gram differences, the language model, word odds, clustered intervals."""

import re
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from negcap.pipelines.quality.accuracy import accuracy, by_image
from negcap.pipelines.quality.bias.baselines import (
    TextPair,
    blind,
    fold_weights,
    log_odds,
    most_telling,
    right,
    scores,
)
from negcap.pipelines.quality.bias.measure import Blindness, measure_each, of_random_images, to_text, with_all
from negcap.pipelines.quality.bias.ngrams import START, EncodedTexts, NgramVocabulary, Window, ngram_differences, train

TEXT = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "."]), max_size=7).map(" ".join)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5)


def grams(text: str) -> Counter[str]:
    tokens = ["<s>", *text.split(), "</s>"]
    return Counter(" ".join(tokens[i : i + n]) for n in (1, 2, 3) for i in range(len(tokens) - n + 1))


@given(PAIRS)
def test_differences_are_those_of_counts(pairs: list[tuple[str, str]]) -> None:
    vocabulary = NgramVocabulary()
    found = ngram_differences(
        vocabulary.encode([true for true, _ in pairs]), vocabulary.encode([other for _, other in pairs])
    )
    names = vocabulary.spell(found.keys)
    for row, (true, other) in enumerate(pairs):
        expected = grams(true)
        expected.subtract(grams(other))
        line = found.matrix[row].tocoo()
        assert {names[i]: v for i, v in zip(line.col, line.data, strict=True)} == {
            g: n for g, n in expected.items() if n
        }


CORPUS = ["a dog runs", "a dog sits", "a cat sits", "a cat sits", "the dog runs .", "a red dog"]


@pytest.mark.parametrize("context", ["a", "dog", "a dog", "the cat", "red", "unseen a"])
def test_the_probabilities_of_a_context_sum_to_one(context: str) -> None:
    vocabulary = NgramVocabulary()
    texts = vocabulary.encode([*CORPUS, context])
    entries = len(vocabulary.number)
    given_ = texts.flat[texts.offsets[-2] : -1].tolist()
    model = train(texts.take(np.arange(len(CORPUS))), np.arange(len(CORPUS)) % 2, 2, entries)
    flat = np.array([[*given_, word] for word in range(entries)]).astype(np.int32)
    asked = EncodedTexts(flat.ravel(), np.arange(entries + 1) * flat.shape[1])
    window = Window(asked.offsets[1:] - 1, asked.offsets[1:])
    for fold in (0, 1):
        logs = model.score(asked, window, np.full(entries, fold))
        assert np.exp(logs).sum() == pytest.approx(1)
        assert logs[START] == logs.min()


def test_a_fold_is_judged_by_what_others_say() -> None:
    vocabulary = NgramVocabulary()
    texts = vocabulary.encode(["a dog runs"] * 5 + ["a cat runs"])
    model = train(texts, np.array([0] * 5 + [1]), 2, len(vocabulary.number))
    pair = vocabulary.encode(["a dog runs"]), vocabulary.encode(["a cat runs"])
    assert model.gaps(*pair, np.array([0]))[0] < 0 < model.gaps(*pair, np.array([1]))[0]
    vocabulary = NgramVocabulary()
    true, negative = vocabulary.encode(["a dog", "a dog", "a cat"]), vocabulary.encode(["a cat", "a cat", "a dog"])
    differences = ngram_differences(true, negative)
    single = differences.take(differences.single_words())
    assert vocabulary.spell(single.keys) == ["dog", "cat"]
    assert log_odds(single.matrix) == pytest.approx([np.log(3 / 2), np.log(2 / 3)])
    folds = np.array([0, 0, 1])
    told = right(scores(single.matrix, fold_weights(single.matrix, folds, 2, log_odds), folds))
    assert told.tolist() == [0, 0, 0]


def test_pairs_of_one_image_count_for_fewer() -> None:
    told = [1.0, 1.0, 0.0, 1.0] * 25
    apart = by_image(told, map(str, range(100)))
    plain = accuracy(75, 100)
    assert (apart.percent, apart.pairs) == (75, 100)
    assert apart.low == pytest.approx(plain.low, abs=0.2) and apart.high == pytest.approx(plain.high, abs=0.2)
    copied = by_image([value for value in told for _ in range(4)], [str(i) for i in range(100) for _ in range(4)])
    assert copied.low == pytest.approx(apart.low, abs=0.1) and copied.pairs == 400
    certain = by_image([1.0] * 40, [str(i % 10) for i in range(40)])
    assert certain.low == pytest.approx(accuracy(10, 10).low)
    with pytest.raises(ValueError, match="pairs must be >= 1, was: 0"):
        by_image([], [])
    with pytest.raises(ValueError, match="effect must be >= 1, was: 0.5"):
        accuracy(1, 2, 0.5)


def pairs(cue: str, images: int = 60) -> list[TextPair]:
    rng = Random(0)
    things = "dog cat bus tree house".split()
    made = []
    for image in range(images):
        a, b = rng.sample(things, 2)
        made.append(TextPair(f"A {a} runs.", f"A {b}{cue} runs.", str(image)))
    return made


def test_operators_are_measured_apart_and_together() -> None:
    reports = dict(measure_each(with_all({"noun": pairs(""), "verb": pairs(" zebra")}), blind).reports)
    assert list(reports) == ["noun", "verb", "all"]
    assert reports["all"].ngrams.pairs == 120
    assert most_telling(reports["verb"].baselines)[1].percent == 100 and reports["noun"].ngrams.percent < 75
    assert [(cue.word, cue.true, cue.negative) for cue in reports["verb"].words][:1] == [("zebra", 0, 60)]
    assert (reports["verb"].shorter.percent, reports["verb"].format_rule.percent) == (100, 50)
    assert list(with_all({"noun": pairs("")})) == ["noun"]
    said = to_text(Blindness(reports))
    assert "zebra 0:60" in said and "language model" in said
    assert Blindness(reports).plain()["verb"]["odds"]["percent"] == 100


def test_too_few_images_of_an_operator_leave_the_others_measured() -> None:
    found = measure_each({"noun": pairs(" zebra"), "shuffle": pairs("")[:2]}, blind)
    assert list(found.reports) == ["noun"] and found.unmeasured == {"shuffle": ("too few images: 2, needs 5", 2)}
    lines = to_text(found).splitlines()
    assert lines[2].split() == ["shuffle", "2", *"–" * 6]
    assert "shuffle: not measured, too few images: 2, needs 5" in lines
    assert found.plain()["shuffle"] == {"not_measured": "too few images: 2, needs 5", "pairs": 2}


def test_ngrams_are_named_where_they_tell_above_chance_on_short_lines() -> None:
    told, chance = (blind(name, pairs(cue)) for name, cue in (("told", " zebra"), ("chance", "")))
    assert chance.ngrams.low < 50 < told.ngrams.low and chance.true_cues
    said = to_text(Blindness({"told": told, "chance": chance}))
    assert "told: n-grams that speak for the false text: 'zebra" in said
    assert "chance: n-grams that speak for either text: none, the regression is not above chance" in said
    assert not re.search("chance: .*[+-][0-9]", said) and max(map(len, said.splitlines()[4:])) <= 100
    assert len(re.findall("'[^']+' [+-][0-9.]+(?:,|$)", said, re.M)) == len(told.true_cues + told.false_cues)


def test_a_limit_takes_whole_images() -> None:
    some = [TextPair("t", f"n{k}", str(i)) for i in range(10) for k in range(3)]
    kept = of_random_images(some, 10)
    assert len(kept) == 9 and all(n == 3 for n in Counter(pair.image_id for pair in kept).values())
    assert of_random_images(some, 30) == some
    assert {pair.image_id for pair in of_random_images(some, 10, seed=1)} != {pair.image_id for pair in kept}
    with pytest.raises(ValueError, match="limit must be >= 1, was: 0"):
        of_random_images(some, 0)


def test_too_many_words_are_refused() -> None:
    with pytest.raises(ValueError, match="texts must have at most 8 different words, have: 9"):
        NgramVocabulary(max_words=8).encode(["one two three four five six"])
