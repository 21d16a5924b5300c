from random import Random

import pytest

from pipelines.quality.bias import (
    Pair,
    accuracy,
    blind,
    format_faults,
    format_rule,
    grams,
    ngram_regression,
    one_per_caption,
    shorter,
    to_markdown,
)

WORDS = "red green blue tall short old young wet dry warm".split()
THINGS = "dog cat bus tree house boat horse bird chair lamp".split()


def symmetric(n: int = 400) -> list[Pair]:
    """Pairs whose texts are drawn alike."""
    rng = Random(0)
    made = []
    while len(made) < n:
        a, b, c = rng.choice(WORDS), rng.choice(THINGS), rng.choice(THINGS)
        if b != c:
            made.append(Pair(f"A {a} {b}.", f"A {a} {c}.", str(len(made) // 2)))
    return made


def planted() -> list[Pair]:
    """Negatives that say "zebra" every time."""
    return [pair._replace(negative=f"{pair.true[:-1]} zebra.") for pair in symmetric()]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("A dog runs.", 0),
        ("a dog runs.", 1),
        ("A dog runs", 1),
        ("A dog runs .", 1),
        ("A  dog runs.", 1),
        ("An dog runs.", 1),
        ("A hour ago.", 1),
        ("A dog dog runs.", 1),
        ("a <unk>  runs .", 4),
    ],
)
def test_format_faults(text: str, faults: int) -> None:
    assert format_faults(text) == faults


def test_format_rule_takes_the_cleaner_and_halves_ties() -> None:
    assert format_rule([Pair("A dog.", "a dog .", "1")]).percent == 100
    assert format_rule([Pair("A dog.", "A cat.", "1")]).percent == 50


def test_shorter() -> None:
    assert shorter([Pair("A dog.", "A horse.", "1"), Pair("A dog.", "A cat.", "2")]).percent == 75


def test_grams_have_bounds_and_split_punctuation() -> None:
    assert grams("A dog.")[:5] == ["<s>", "a", "dog", ".", "</s>"]
    assert "dog . </s>" in grams("A dog.")


def test_interval_contains_the_estimate() -> None:
    found = accuracy(70, 100)
    assert found.low < found.percent == 70 < found.high
    with pytest.raises(ValueError, match="pairs must be >= 1, was: 0"):
        accuracy(0, 0)


def test_a_planted_cue_is_found_and_named() -> None:
    report = blind("planted", planted())
    assert report.ngrams.percent > 99
    assert any("zebra" in gram for gram, _ in report.false_cues)


def test_symmetric_pairs_are_near_chance() -> None:
    assert 38 < blind("symmetric", symmetric()).ngrams.percent < 62


def test_same_pairs_same_report() -> None:
    assert blind("x", symmetric()) == blind("x", symmetric())


def test_one_image_cannot_be_learned_by_heart() -> None:
    """Each image has its own give-away word in all its pairs: no other fold knows it."""
    pairs = [Pair("A dog.", f"A word{i}x.", str(i)) for i in range(50) for _ in range(4)]
    held_out, _, _ = ngram_regression([pair._replace(true=f"A thing{pair.image_id}x.") for pair in pairs])
    assert held_out.percent < 80


def test_too_few_images_are_refused() -> None:
    with pytest.raises(ValueError, match="images must be >= 5 for 5 folds, were: 1"):
        ngram_regression([Pair("A dog.", "A cat.", "1")])


def test_first_draw_or_any() -> None:
    rows = [(f"c#noun:{k}", Pair("t", f"n{k}", "i")) for k in (2, 0, 1)]
    assert [pair.negative for pair in one_per_caption(rows)] == ["n0"]
    picked = {one_per_caption(rows, seed, "random")[0].negative for seed in range(20)}
    assert picked == {"n0", "n1", "n2"}


def test_markdown_has_a_row_a_report() -> None:
    assert to_markdown([blind("symmetric", symmetric())]).splitlines()[2].startswith("| symmetric | 400 |")
