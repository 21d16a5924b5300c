"""How likely words and whole negatives are by the cloze model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from negcap.augment.caption import Caption, from_parses
from negcap.augment.cloze.model import CaptionEncoding, cloze_model
from negcap.augment.edits import Edit
from negcap.augment.language.parse import parse
from negcap.augment.plausibility import (
    Comparison,
    compare,
    encode_captions,
    entry_units,
    entry_vectors,
    log_probabilities,
    lowest_number,
    read_and_compare,
    words_after,
)
from negcap.augment.rows import Row
from tests.augment.fixtures import sample_lexicon, sample_parses
from tests.cases import cases_of

CASES = cases_of(__file__)["plausibility"]


def compared(text: str, row: Row) -> Comparison:
    return compare([caption(text)], encode_captions([caption(text)]), [row])[0]


def caption(text: str) -> Caption:
    return parse([text])[0]


def words_encoded(words: Sequence[str]) -> CaptionEncoding:
    (encoding,) = cloze_model().read([list(words)])
    return encoding


def log_likelihood(text: str) -> float:
    """The pseudo-log-likelihood of a caption."""
    return sum(words_encoded(caption(text).lowered).scores)


def replaced(text: str, *exchanges: tuple[str, str], change: str = "noun") -> Row:
    """The row that replaces some words of a text, each the first time it is there."""
    edits = tuple(sorted(Edit(text.index(old), text.index(old) + len(old), new) for old, new in exchanges))
    old, new = exchanges[0]
    return Row(change, edits, (0,), old.lower(), new.lower())  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "edits", "words", "starts"), [
    ("A dog on a couch.", [], "a dog on a couch .", []),
    ("A dog on a couch.", [Edit(0, 1, "Two"), Edit(2, 5, "dogs")], "two dogs on a couch .", [0, 1]),
    ("A dog on a couch", [Edit(11, 16, "red bench")], "a dog on a red bench", [4]),
    ("A dog on a couch.", [Edit(5, 5, " and a cat")], "a dog and a cat on a couch .", [2]),
    ("A dog.", [Edit(5, 5, " on a couch")], "a dog on a couch .", [2]),
    ("A dog", [Edit(5, 5, " on a couch")], "a dog on a couch", [2]),
    ("A dog on a couch.", [Edit(0, 5, "A man's cat"), Edit(9, 16, "a dog")], "a man 's cat on a dog .", [0, 5]),
    ("A dog in front of a car.", [Edit(6, 17, "on")], "a dog on a car .", [2]),
    ("A dog on a couch.", [Edit(2, 5, "T-shirt"), Edit(5, 5, "!")], "a t - shirt ! on a couch .", [1, 4]),
])  # fmt: skip
def test_the_words_of_a_caption_after_edits(text, edits, words, starts):
    assert words_after(caption(text), edits)[:2] == (words.split(), starts)


def test_text_that_only_moves_is_split_into_the_words_of_the_parser():
    for one in from_parses(sample_parses()):
        assert words_after(one, [Edit(0, len(one.text), one.text)])[0] == list(one.lowered)


@pytest.mark.parametrize(("text", "exchanges"), CASES["exchanges"])
def test_log_odds_are_the_difference_of_the_log_likelihoods(text, exchanges):
    row = replaced(text, *exchanges)
    (change,) = read_and_compare([caption(text)], encode_captions([caption(text)]), [row])
    after = " ".join(words_after(caption(text), row.edits)[0])
    assert change.log_odds == pytest.approx(log_likelihood(after) - log_likelihood(text), abs=1e-4)
    assert change.loss >= 0.0 > change.lowest
    assert after != " ".join(caption(text).lowered) or change.log_odds == change.loss == 0.0


def scores_at(encoding: CaptionEncoding, token: int, units: np.ndarray) -> np.ndarray:
    """log p of units in place of a token."""
    return encoding.model.scores(np.tile(encoding.vector(token, token + 1), (len(units), 1)), units)


def test_numbers_of_one_caption_differ_by_their_own_probabilities_alone():
    text = "A dog runs past two cats."
    several = [
        replaced(text, ("A", number), ("dog", "dogs"), ("runs", "run"), change="numeral")
        for number in ("Two", "Five", "Three")
    ]
    other = [replaced(text, ("two", number), change="numeral") for number in ("four", "three")]
    changes = compare([caption(text)] * 5, encode_captions([caption(text)]) * 5, [*several, *other])
    # The text with the lowest number is read, whichever numbers are asked for.
    assert changes == [compared(text, row) for row in (*several, *other)]
    (own,) = cloze_model().read([words_after(caption(text), several[0].edits)[0]])
    for number, change in zip(("five", "three"), changes[1:3], strict=True):
        units = np.array([cloze_model().units.number_of(number), cloze_model().units.number_of("two")])
        likely = scores_at(own, 0, units)
        assert change.log_odds - changes[0].log_odds == pytest.approx(likely[0] - likely[1], abs=1e-4)
        assert change.loss == changes[0].loss
    horse, bear, again = (replaced(text, ("dog", new)) for new in ("horse", "bear", "horse"))
    found = compare([caption(text)] * 3, encode_captions([caption(text)]) * 3, [horse, bear, again])
    assert found == [compared(text, horse), compared(text, bear), found[0]]


@pytest.mark.parametrize(("old", "new", "lowest"), CASES["lowest"])
def test_the_number_that_is_read_is_the_lowest_other_one_written_alike(old, new, lowest):
    assert lowest_number(old, new) == lowest


@pytest.mark.parametrize(("text", "exchanges", "stay"), [
    ("Two dogs are lying on a red couch.", [("dogs", "dog"), ("Two", "Five")], [(n, n) for n in range(2, 8)]),
    (
        "A dog watches a very tall man.",
        [("dog", "very tall man"), ("very tall man", "dog")],
        [(0, 0), (2, 4), (3, 5)],
    ),
])  # fmt: skip
def test_loss_is_what_the_words_lose_that_stay(text, exchanges, stay):
    row = replaced(text, *exchanges)
    old = words_encoded(caption(text).lowered).scores
    new = words_encoded(words_after(caption(text), row.edits)[0]).scores
    lost = sum(max(old[before] - new[after], 0.0) for before, after in stay)
    assert compared(text, row).loss == pytest.approx(lost, abs=1e-5) and lost > 0.1


def test_an_entry_that_the_model_does_not_know_has_its_share_of_the_counts():
    lexicon = sample_lexicon()
    one = caption("A dog on a couch.")
    nouns, units = lexicon.nouns, entry_units(lexicon, "noun", "nn").copy()
    dog = nouns.number["dog"]
    slots, vectors = [(encode_captions([one])[0], (1, 2), ())], entry_vectors(lexicon, "noun", "nn")
    (known,) = log_probabilities(slots, nouns, units, vectors)
    units[dog] = -1
    (found,) = log_probabilities(slots, nouns, units, vectors)
    assert found[dog] == pytest.approx(np.log(nouns.counts[dog] / nouns.counts.sum()))
    assert np.array_equal(np.delete(found, dog), np.delete(known, dog))


def test_the_probability_of_a_word_is_that_of_its_unit_in_its_place():
    encoding = words_encoded(caption("A dog is lying in front of a zebrafinch.").lowered)
    for token in (0, 1, 2, 3, 4, 5, 6, 7):
        own = np.array([encoding.units[encoding.unit_of_token[token]]])
        found = scores_at(encoding, token, own)
        assert found[0] == pytest.approx(encoding.log_probability(token), abs=1e-4)
    assert encoding.log_probability(4) == encoding.log_probability(5) == encoding.log_probability(6)
    assert encoding.log_probability(8) == min(encoding.scores) < -8  # unknown
    assert encoding.log_probability(9) == 0.0


def test_the_probabilities_of_all_units_add_up_to_about_one():
    captions = from_parses(sample_parses())[:40]
    every = np.arange(2, len(cloze_model().units.names))
    totals = [
        np.log(np.exp(scores_at(encoding, token, every)).sum())
        for encoding, one in zip(encode_captions(captions), captions, strict=True)
        for token in range(len(one.tokens) - 1)
    ]
    assert abs(np.mean(totals)) < 0.4


@pytest.mark.parametrize(("text", "likely", "unlikely"), CASES["likelier"])
def test_some_are_clearly_more_plausible(text, likely, unlikely):
    assert compared(text, replaced(text, likely)).log_odds > compared(text, replaced(text, unlikely)).log_odds + 1.0
