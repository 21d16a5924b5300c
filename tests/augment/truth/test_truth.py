"""What may be true of an image: by what its captions say, and by how often captions say it together."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from negcap.augment.evidence import gather_evidence
from negcap.augment.generate import NegativesConfig, generate_tables
from negcap.augment.reproducible import sigmoid
from negcap.augment.rows import Row
from negcap.augment.truth import fit
from negcap.augment.truth.contradiction import likely_violation
from negcap.augment.truth.entailment import leaves_open
from negcap.augment.truth.estimates import Associations, Transition, Transitions, Truth
from negcap.augment.truth.fit import EntailedEntries, WordsOfCaption, count_pairs, count_transitions, estimate_truth
from negcap.schemas.captions import TRUTH
from negcap.schemas.fields import check as check_table
from tests.augment.fixtures import (
    captions_of,
    in_turn,
    proposals,
    results,
    sample_images,
    sample_lexicon,
    sample_parses,
    sentences,
)
from tests.cases import cases_of

CASES = cases_of(__file__)


@pytest.fixture(scope="module")
def sample_table() -> pa.Table:
    return estimate_truth(sample_parses(), in_turn(sample_lexicon()))


@pytest.fixture(scope="module")
def truth(sample_table: pa.Table) -> Truth:
    """The estimates from the sample, of which any is too likely."""
    return Truth.from_table(sample_table, sample_lexicon(), 0.0)


def noun(new: str) -> Row:
    """The row that puts a noun in place of "dog"."""
    return Row("noun", (), (1,), "dog", new)


def test_pairs_are_those_of_two_captions_of_an_image():
    said_and_true = [([0, 1], [0]), ([1], [0, 1]), ([2], [])]
    captions = [WordsOfCaption(np.array(said, int), np.array(true, int)) for said, true in said_and_true]
    expected = np.zeros((4, 3))
    for (first, _), (_, second) in permutations(said_and_true, 2):
        for word in (-1, *first):
            for entry in (-1, *second):
                expected[1 + word, 1 + entry] += 2
    assert np.array_equal(count_pairs([captions, captions], 3, 2), expected)


def test_a_fold_left_out_is_as_if_never_counted():
    images = sample_images(4) * 9  # so often that no word is too rare, also without a fold
    entailed = EntailedEntries(sample_lexicon())
    folds = [fit.count_entailments(images[part::3], entailed) for part in range(3)]
    counts = fit.join_folds(folds)
    for number in range(3):
        others = [fold for place, fold in enumerate(folds) if place != number]
        assert fit.sum_folds(counts, number).equals(fit.sum_folds(fit.join_folds(others)))
    together = fit.join_folds([fit.count_entailments(images, entailed)])
    assert fit.sum_folds(counts).equals(fit.sum_folds(together))


def test_a_word_speaks_for_what_it_or_its_kind_comes_with_and_unknown_words_for_nothing():
    beach, kitchen = (WordsOfCaption(np.array([number]), np.array([number])) for number in (0, 1))
    counted = count_pairs([[beach, beach]] * 60 + [[kitchen, kitchen]] * 60, 3, 2)
    known = Associations(counted, ["puppy", "stove", "dog"], ["umbrella", "kettle"])
    assert known.score(["puppy"])[0] > 0.3 > -0.3 > known.score(["puppy"])[1]
    assert known.score(["dog"])[0] > 0 > known.score(["dog"])[1]  # which is counted with neither
    assert (known.score(["zeppelin"]) == 0).all()
    lifts = np.exp([known.score(["puppy"]), known.score(["stove"])])
    assert np.exp(known.score({"puppy", "stove"})) == pytest.approx(lifts.mean(axis=0))


def test_nouns_make_themselves_and_those_above_true():
    entailed, names = EntailedEntries(sample_lexicon()), sample_lexicon().nouns.names
    made = {word: {names[n] for n in entailed.of_noun(word)} for word in ("puppy", "dog", "animal", "zzyzx")}
    assert {"dog", "puppy"} <= made["puppy"] and "cat" not in made["puppy"]
    assert made["dog"] == {"dog"} and not {"dog", "cat"} & made["animal"] and made["zzyzx"] == set()


def test_an_assertion_is_paired_with_what_others_assert_of_the_same_thing():
    counts = count_transitions([[{("dog", "2")}, {("dog", "3"), ("ball", "1")}, {("puppy", "2")}]])
    assert counts["2", "dog", ""] == counts["2", "puppy", ""] == counts["3", "dog", "2"] == 2
    assert counts["2", "dog", "3"] == counts["2", "dog", "2"] == 1
    assert ("2", "dog", "1") not in counts and ("1", "ball", "2") not in counts


def test_transitions_back_off_from_the_thing_to_its_class_to_any():
    known = Transitions({("2", "dog", ""): 100, ("2", "dog", "3"): 50, ("2", "car", ""): 100, ("2", "car", "4"): 50})
    of_dogs, of_cats, of_doors, of_cars = (
        known.probability("2", thing, "3") for thing in ("dog", "cat", "door", "car")
    )
    assert of_dogs > of_cats > of_doors > of_cars
    assert 0 < known.probability("7", "dog", "9") < 0.01


@pytest.mark.parametrize("prior", [[0.0, 0.0, 0.0], [9.0, -9.0, 9.0]])
def test_the_calibration_finds_the_coefficients_and_without_data_keeps_to_what_is_expected(prior):
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))])
    coefficients = np.array([-1.0, 0.7, 2.0])
    labels = rng.random(20_000) < sigmoid(features @ coefficients)
    # With so much data the prior counts for little, also one so far away that whole steps of Newton's would diverge.
    assert np.abs(fit.fit_coefficients(features, labels, np.array(prior)) - coefficients).max() < 0.1
    assert np.allclose(fit.fit_coefficients(features[:0], labels[:0], np.array(prior)), prior)


def test_what_siblings_often_say_is_likelier_true_and_the_word_that_makes_it_so_is_named(truth):
    beach = captions_of("A dog on a beach.", "A dog near the ocean.")
    kitchen = captions_of("A dog on a couch.", "A stove in a kitchen.")
    evidence = gather_evidence([kitchen], truth=truth)[0]
    p_true = {
        (place, new): truth.of_image(captions).p_true(noun(new), captions[0])
        for place, captions in (("beach", beach), ("kitchen", kitchen))
        for new in ("sand", "sink")
    }
    assert p_true["beach", "sand"] > 2 * p_true["beach", "sink"]
    assert p_true["kitchen", "sink"] > 2 * p_true["kitchen", "sand"]
    evidence.image.p_true(noun("sink"), kitchen[0])
    reason, word, sibling = likely_violation(noun("sink"), evidence)
    assert (reason, sibling) == ("likely_true", kitchen[1].caption_id) and word in ("stove", "kitchen")


@pytest.mark.parametrize(("agreeing", "captions"), [(0, 2), (1, 2), (3, 5)])
def test_a_transition_s_probability_is_logistic_in_its_odds_and_in_who_agrees(truth, agreeing, captions):
    calibration = {**truth.calibration, "numeral": (0.3, 0.7, -1.1, 0.4)}
    transition = Transition("one", "dog", "two")
    logit = 0.3 + 0.7 * truth.log_odds("numeral", transition) - 1.1 * np.log1p(agreeing) + 0.4 * np.log(captions)
    p_true = replace(truth, calibration=calibration).p_transition("numeral", transition, agreeing, captions)
    assert p_true == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-4)


@pytest.mark.parametrize(("kind", "old", "new", "is_open"), [
    ("noun", "surfer", "man", True), ("noun", "man", "couple", False), ("noun", "man", "woman", False),
    ("attribute", "red", "old", True), ("attribute", "red", "blue", False),
    ("preposition", "on", "at", True), ("preposition", "on", "under", False), ("numeral", "two", "one", True),
])  # fmt: skip
def test_what_a_word_leaves_open(kind, old, new, is_open):
    assert leaves_open(kind, old, new) is is_open


def test_images_of_one_caption_tell_nothing():
    parses = pa.concat_tables([sample_parses().slice(start, 1) for start in range(0, 100, 5)])
    table = estimate_truth(parses, in_turn(sample_lexicon()))
    captions = captions_of("A dog on a couch.", "A sofa.")
    assert table.num_rows == 0
    assert Truth.from_table(table, sample_lexicon()).of_image(captions).p_true(noun("cat"), captions[0]) is None


def test_the_estimate_hangs_on_no_order(sample_table):
    parses = sample_parses()
    check_table(sample_table, TRUTH)
    images = [parses.filter(pc.equal(parses["image_id"], image)) for image in parses["image_id"].unique()]
    turned = estimate_truth(pa.concat_tables(images[::-1]), in_turn(sample_lexicon()))
    assert turned.drop_columns("coefficients").equals(sample_table.drop_columns("coefficients"))
    one, other = (table["coefficients"].drop_null().to_pylist() for table in (turned, sample_table))
    assert np.allclose(sum(one, []), sum(other, []), atol=1e-5)


def test_negatives_carry_their_estimate_and_the_likely_are_refused(truth):
    operators = ("noun", "numeral", "preposition", "shuffle", "verb", "attribute")
    config = NegativesConfig(operators=operators, max_true=0.02)
    parses = sample_parses().slice(0, 250)
    tables, _ = generate_tables(parses, sample_lexicon(), config, replace(truth, max_p_true=0.02))
    estimates: dict[str, list[float | None]] = {}  # of negatives by operator, of rejections by reason
    for row in tables["negatives"].to_pylist():
        if row["replaced"]:
            estimates.setdefault(row["operator"], []).append(row["p_true"])
    for row in tables["rejections"].to_pylist():
        if row["replacement"]:
            estimates.setdefault(row["reason"], []).append(row["p_true"])
    likely = estimates.pop("likely_true")
    assert len(likely) > 5 and min(likely) > 0.02
    estimates.pop("numeral", None)
    for name in ("noun", "verb", "attribute", "unnatural"):  # what raters refuse has been estimated
        known = [p_true for p_true in estimates.pop(name) if p_true is not None]
        assert 0 < max(known) <= 0.02
    estimates.pop("compatible", None)
    assert all(p_true is None for others in estimates.values() for p_true in others)


def test_what_is_as_likely_as_the_limit_is_not_too_likely(truth):
    captions = captions_of("A dog on a couch.", "A dog lies on a couch.")
    rows = [noun(name) for name in truth.associations["noun"].entries]
    *_, second, highest = sorted({truth.of_image(captions).p_true(row, captions[0]) for row in rows})
    assert not replace(truth, max_p_true=highest).of_image(captions).likely_nouns.any()
    assert replace(truth, max_p_true=second).of_image(captions).likely_nouns.any()


def test_a_numeral_is_estimated_of_what_stands_in_one_place_also_a_lower_one(truth):
    def numerals_of_dogs(*texts: str) -> dict[str, tuple[str | None, float | None]]:
        """For each new number of the dogs of the first text, why it is rejected, and its p(true)."""
        captions = captions_of(*texts)
        evidence = gather_evidence([captions], truth=truth)[0]
        return {
            row.replacement: (row.reason, truth.of_image(captions).p_true(row, captions[0]))
            for rows in results("numeral", evidence, excluded=True)
            for row in rows
            if row.tokens and captions[0].tokens[row.tokens[0]].lemma == "dog"
        }

    two = numerals_of_dogs("Two dogs run.", "Two dogs on a beach.")
    assert two["a"][0] == two["three"][0] == "likely_true"
    for text, alone in (("A dog runs.", True), ("A dog and a cat.", True), ("A black dog and a brown dog.", False)):
        estimates = numerals_of_dogs(text, "An animal.").values()
        assert {p_true is not None for _, p_true in estimates} == {alone}


@pytest.mark.usefixtures("without_floors")
@pytest.mark.parametrize(
    ("operator", "texts", "negative", "expected"), [(name, *case) for name, cases in CASES.items() for case in cases]
)
def test_what_is_true_of_the_image_is_rejected_and_what_is_false_is_accepted(operator, texts, negative, expected):
    reasons = {reason or "accepted" for text, reason in proposals(operator, *sentences(texts)) if text == negative}
    assert (reasons or {"never"}) == {expected}
