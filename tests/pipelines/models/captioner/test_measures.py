import math

import pytest

from negcap.pipelines.models.captioner.evaluate import bleu, cider_d, distinct, self_bleu

DOG, CAT = "a dog runs on the grass".split(), "a cat sleeps in the sun".split()


def test_distinct_counts_ngrams_over_all_sentences() -> None:
    assert distinct([["a", "dog"], ["a", "cat"]], 1) == 3 / 4
    assert distinct([["a", "dog", "a", "dog"]], 2) == 2 / 3
    assert distinct([DOG, DOG], 2) == 0.5 and distinct([["a"]], 2) == 0


def test_corpus_bleu() -> None:
    assert bleu([DOG], [[CAT, DOG]]) == pytest.approx([100] * 4)
    half = bleu(["a dog runs on a hill".split()], [[DOG]])
    assert half[0] == pytest.approx(100 * 4 / 6) and half[1] == pytest.approx(100 * math.sqrt(4 / 6 * 3 / 5))
    assert bleu(["two boats".split()], [[DOG]])[0] == 0


def test_self_bleu_is_low_if_captions_differ() -> None:
    assert self_bleu([[DOG, DOG]]) == pytest.approx(100)
    assert self_bleu([[DOG, CAT]]) < 30 and self_bleu([[DOG]]) == 0
    assert self_bleu([[DOG, CAT], [DOG, DOG]]) == pytest.approx((self_bleu([[DOG, CAT]]) + 100) / 2)


def test_cider_d_equals_a_computation_by_hand() -> None:
    references = [[["red", "ball"]], [["blue", "box"], ["blue", "ball"]]]
    idf = {"red": math.log(2), "blue": math.log(2), "ball": 0.0, "box": math.log(2)}
    assert cider_d([["red", "ball"], ["blue", "ball"]], references) == pytest.approx(
        [10 / 4 * 2, 10 / 4 * ((idf["blue"] ** 2 / (idf["blue"] * math.hypot(idf["blue"], idf["box"])) + 1 + 1) / 2)]
    )  # n-grams of one and of two words; there are no longer ones
    longer = cider_d([["red", "ball", "ball"], ["box"]], references)[0]
    assert longer == pytest.approx(10 / 4 * math.exp(-1 / 72) * (1 + 1 / math.sqrt(1 + 1)))
    assert cider_d([["green"], ["green"]], references) == [0, 0]


def test_repeating_a_word_does_not_increase_cider_d() -> None:
    references = [[["red", "ball"]], [["blue", "box"]]]
    assert cider_d([["red"] * 2, []], references)[0] < cider_d([["red", "ball"], []], references)[0] / 2
