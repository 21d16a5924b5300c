"""How likely words and whole negatives are by the cloze model."""

from __future__ import annotations

import numpy as np
import pytest

from negcap.augment.caption import Caption
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
from tests.augment.fixtures import sample_images, sample_lexicon
from tests.cases import cases_of

CASES = cases_of(__file__)["plausibility"]


def caption(text: str) -> Caption:
    return parse([text])[0]


def encoded(text: str) -> CaptionEncoding:
    """How the model reads the words of a text."""
    return cloze_model().read([list(caption(text).lowered)])[0]


def replaced(text: str, *exchanges: tuple[str, str], change: str = "noun") -> Row:
    """The row that replaces some words of a text, each the first time it is there."""
    edits = tuple(sorted(Edit(text.index(old), text.index(old) + len(old), new) for old, new in exchanges))
    old, new = exchanges[0]
    return Row(change, edits, (0,), old.lower(), new.lower())  # type: ignore[arg-type]


def compared(text: str, *rows: Row) -> list[Comparison]:
    own = [caption(text)]
    return compare(own * len(rows), encode_captions(own) * len(rows), rows)


@pytest.mark.parametrize(("text", "edits", "words", "starts"), CASES["words_after"])
def test_the_words_of_a_caption_after_edits(text, edits, words, starts):
    assert words_after(caption(text), [Edit(*edit) for edit in edits])[:2] == (words.split(), starts)


def test_text_that_only_moves_is_split_into_the_words_of_the_parser():
    for own in sum(sample_images(30), []):
        assert words_after(own, [Edit(0, len(own.text), own.text)])[0] == list(own.lowered)


@pytest.mark.parametrize(("text", "exchanges"), CASES["exchanges"])
def test_log_odds_are_the_difference_of_the_log_likelihoods(text, exchanges):
    row = replaced(text, *exchanges)
    (change,) = read_and_compare([caption(text)], encode_captions([caption(text)]), [row])
    after = " ".join(words_after(caption(text), row.edits)[0])
    assert change.log_odds == pytest.approx(sum(encoded(after).scores) - sum(encoded(text).scores), abs=1e-4)
    assert change.loss >= 0.0 > change.lowest
    assert after != " ".join(caption(text).lowered) or change.log_odds == change.loss == 0.0


def test_numbers_of_one_caption_differ_by_their_own_probabilities_alone():
    text = "A dog runs past two cats."
    numbers = [
        replaced(text, ("A", number), ("dog", "dogs"), ("runs", "run"), change="numeral")
        for number in ("Two", "Five", "Three")
    ]
    two, *changes = compared(text, *numbers)
    # The text with the lowest number is read, whichever numbers are asked for.
    assert [two, *changes] == [compared(text, row)[0] for row in numbers]
    reading = encoded("Two dogs run past two cats.")
    likely = {number: scores_at(reading, 0, number) for number in ("two", "five", "three")}
    for number, change in zip(("five", "three"), changes, strict=True):
        assert change.log_odds - two.log_odds == pytest.approx(likely[number] - likely["two"], abs=1e-4)
        assert change.loss == two.loss


def scores_at(encoding: CaptionEncoding, token: int, word: str) -> float:
    """log p of a word in place of a token."""
    unit = np.array([encoding.model.units.number_of(word)])
    return encoding.model.scores(encoding.vector(token, token + 1)[None], unit).item()


@pytest.mark.parametrize(("old", "new", "lowest"), CASES["lowest"])
def test_the_number_that_is_read_is_the_lowest_other_one_written_alike(old, new, lowest):
    assert lowest_number(old, new) == lowest


@pytest.mark.parametrize(("text", "exchanges", "stay"), CASES["loss"])
def test_loss_is_what_the_words_lose_that_stay(text, exchanges, stay):
    row = replaced(text, *exchanges)
    old = encoded(text).scores
    new = encoded(" ".join(words_after(caption(text), row.edits)[0])).scores
    lost = sum(max(old[before] - new[after], 0.0) for before, after in stay)
    assert compared(text, row)[0].loss == pytest.approx(lost, abs=1e-5) and lost > 0.1


def test_an_entry_that_the_model_does_not_know_has_its_share_of_the_counts():
    lexicon = sample_lexicon()
    nouns, units = lexicon.nouns, entry_units(lexicon, "noun", "nn").copy()
    dog, vectors = nouns.number["dog"], entry_vectors(lexicon, "noun", "nn")
    slots = [(encode_captions([caption("A dog on a couch.")])[0], (1, 2), ())]
    (known,) = log_probabilities(slots, nouns, units, vectors)
    units[dog] = -1
    known[dog] = np.log(nouns.counts[dog] / nouns.counts.sum())
    assert log_probabilities(slots, nouns, units, vectors)[0] == pytest.approx(known)


def test_the_probability_of_a_word_is_that_of_its_unit_in_its_place():
    text = "A dog is lying in front of a zebrafinch."
    encoding = encoded(text)
    log_p = [encoding.log_probability(token) for token in range(10)]
    units = ["a", "dog", "is", "lying", *["in front of"] * 3, "a"]
    expected = [scores_at(encoding, token, unit) for token, unit in enumerate(units)]
    assert log_p[:8] == pytest.approx(expected, abs=1e-4)
    assert log_p[8] == min(encoding.scores) < -8  # unknown
    assert log_p[9] == 0.0  # the full stop


@pytest.mark.parametrize(("text", "likely", "unlikely"), CASES["likelier"])
def test_some_are_clearly_more_plausible(text, likely, unlikely):
    more, less = compared(text, replaced(text, likely), replaced(text, unlikely))
    assert more.log_odds > less.log_odds + 1.0
