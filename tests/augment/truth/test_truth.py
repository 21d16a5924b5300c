from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from negcap.augment.caption import Caption, by_image, from_parses
from negcap.augment.evidence import gather_evidence
from negcap.augment.generate import NegativesConfig, generate_tables
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.language.parse import parse
from negcap.augment.lexicon.lexicon import Lexicon, count_captions, select_entries
from negcap.augment.reproducible import sigmoid
from negcap.augment.rows import Row
from negcap.augment.truth import fit
from negcap.augment.truth.estimates import Associations, Transitions, Truth
from negcap.augment.truth.fit import (
    EntailedEntries,
    WordsOfCaption,
    count_pairs,
    count_transitions,
    estimate_truth,
    join_folds,
    sum_folds,
)
from negcap.schemas.captions import TRUTH
from negcap.schemas.fields import check as check_table
from negcap.schemas.negatives import NEGATIVES, REJECTIONS
from tests.augment.fixtures import (
    captions_of,
    in_turn,
    parse_texts,
    proposals,
    results,
    sample_lexicon,
    sample_parses,
    sentences,
)
from tests.cases import cases_of

CASES = cases_of(__file__)
SCENES = (
    ("A dog runs on a beach.", "A dog by the ocean.", "A dog plays near an umbrella on a beach."),
    ("A man sits on a beach.", "A man with an umbrella.", "A man looks at the ocean from a beach."),
    ("A cat sits on a stove.", "A cat in front of a kettle.", "A cat sleeps near a kettle on a stove."),
    ("A woman stands at a stove.", "A woman holds a kettle.", "A woman fills a kettle near a stove."),
)


@pytest.fixture(scope="module")
def scene_parses() -> pa.Table:
    """A corpus of beaches and kitchens: the scenes, thirty times."""
    images = [f"{number}" for number, scene in enumerate(SCENES) for _ in scene]
    parses = parse_texts([text for scene in SCENES for text in scene], images, images)
    corpus = []
    for turn in range(30):
        own = [f"i{turn}-{image}" for image in images]
        columns = {"caption_id": [f"{image}:{number}" for number, image in enumerate(own)], "image_id": own}
        given = {name: columns.get(name, parses[name]) for name in parses.column_names}
        corpus.append(pa.table(given, schema=parses.schema))
    return pa.concat_tables(corpus)


@pytest.fixture(scope="module")
def scenes(scene_parses: pa.Table) -> list[list[Caption]]:
    return by_image(from_parses(scene_parses))


@pytest.fixture(scope="module")
def lexicon(scenes: list[list[Caption]]) -> Lexicon:
    counted = count_captions(caption for one in scenes for caption in one)
    return Lexicon.from_table(select_entries(counted, 3, Concreteness.load(), 0.0))


@pytest.fixture(scope="module")
def sample_truth() -> pa.Table:
    return estimate_truth(sample_parses(), in_turn(sample_lexicon()))


def test_pairs_are_those_of_two_captions_of_an_image():
    said_and_true = [([0, 1], [0]), ([1], [0, 1]), ([2], [])]
    captions = [WordsOfCaption(np.array(said, int), np.array(true, int)) for said, true in said_and_true]
    counted = count_pairs([captions, captions], 3, 2)
    together, said, true = np.zeros((3, 2)), np.zeros(3), np.zeros(2)
    for (first, _), (_, second) in permutations(said_and_true, 2):
        for word in first:
            said[word] += 2
            for entry in second:
                together[word, entry] += 2
        for entry in second:
            true[entry] += 2
    assert (counted == np.block([[np.array([[12.0]]), true[None]], [said[:, None], together]])).all()


def test_a_fold_left_out_is_as_if_never_counted(scenes, lexicon):
    folds = [fit.count_entailments(scenes[part::3], EntailedEntries(lexicon)) for part in range(3)]
    counts = join_folds(folds)
    for number in range(3):
        others = [own for place, own in enumerate(folds) if place != number]
        assert sum_folds(counts, number).equals(sum_folds(join_folds(others)))
    together = [one for part in range(3) for one in scenes[part::3]]
    assert sum_folds(counts).equals(sum_folds(join_folds([fit.count_entailments(together, EntailedEntries(lexicon))])))


def test_a_word_speaks_for_what_it_or_its_kind_comes_with_and_unknown_words_for_nothing():
    beach = WordsOfCaption(np.array([0]), np.array([0]))
    kitchen = WordsOfCaption(np.array([1]), np.array([1]))
    counted = count_pairs([[beach, beach]] * 40 + [[kitchen, kitchen]] * 40, 2, 2)
    known = Associations(counted, ["beach", "stove"], ["umbrella", "kettle"])
    assert known.score(["beach"])[0] > 0.3 > -0.3 > known.score(["beach"])[1]
    assert (known.score(["zeppelin"]) == 0).all()
    assert np.allclose(known.score({"beach", "stove"}), known.score(["stove", "beach"]))
    counted = count_pairs([[beach, beach]] * 60 + [[kitchen, kitchen]] * 60, 3, 2)
    known = Associations(counted, ["puppy", "stove", "dog"], ["umbrella", "kettle"])
    assert counted[3, 0] == 0
    assert known.score(["dog"])[0] > 0 > known.score(["dog"])[1]


def test_nouns_make_themselves_and_those_above_true():
    entailed = EntailedEntries(sample_lexicon())
    names = sample_lexicon().nouns.names
    made = {noun: {names[n] for n in entailed.of_noun(noun)} for noun in ("puppy", "dog", "animal", "zzyzx")}
    assert "dog" in made["puppy"] and "cat" not in made["puppy"]
    assert made["dog"] == {"dog"} and not {"dog", "cat"} & made["animal"]
    assert made["zzyzx"] == set() and not {"table", "man"} & (made["animal"] | made["dog"])


def test_an_assertion_is_paired_with_what_others_assert_of_the_same_thing():
    captions = [{("dog", "2")}, {("dog", "3"), ("ball", "1")}, {("puppy", "2")}]
    counts = count_transitions([captions])
    assert counts["2", "dog", ""] == counts["2", "puppy", ""] == 2
    assert counts["2", "dog", "3"] == counts["2", "dog", "2"] == 1
    assert counts["3", "dog", "2"] == 2
    assert ("2", "dog", "1") not in counts and ("1", "ball", "2") not in counts


def test_transitions_back_off_from_the_thing_to_its_class_to_any():
    known = Transitions({("2", "dog", ""): 100, ("2", "dog", "3"): 50, ("2", "car", ""): 100, ("2", "car", "4"): 50})
    for_dogs, for_cats = known.probability("2", "dog", "3"), known.probability("2", "cat", "3")
    assert for_dogs > for_cats > known.probability("2", "car", "3")
    assert for_cats > known.probability("2", "door", "3") > known.probability("2", "car", "3")
    assert 0 < known.probability("7", "dog", "9") < 0.01


def test_the_calibration_finds_the_coefficients_and_without_data_keeps_to_what_is_expected():
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))])
    truth = np.array([-1.0, 0.7, 2.0])
    labels = rng.random(20_000) < sigmoid(features @ truth)
    # With so much data the prior counts for little, also one so far away that whole steps of Newton's would diverge.
    for prior in ([0.0, 0.0, 0.0], [9.0, -9.0, 9.0]):
        assert np.abs(fit.fit_coefficients(features, labels, np.array(prior)) - truth).max() < 0.1
    expected = np.array([0.0, 1.0, -0.5])
    assert np.allclose(fit.fit_coefficients(features[:0], labels[:0], expected), expected)


@pytest.mark.usefixtures("without_floors")
def test_what_siblings_often_say_is_likelier_true_and_images_of_one_caption_tell_nothing(scene_parses, scenes, lexicon):
    table = estimate_truth(scene_parses, in_turn(lexicon))
    check_table(table, TRUTH)
    dog = scenes[0][:2]  # neither speaks of an umbrella, nor of a kettle
    image = Truth.from_table(table, lexicon).of_image(dog)
    p_true = {
        row.replacement: image.p_true(row, evidence.caption)
        for evidence in gather_evidence([dog])
        for row in results("noun", evidence, lexicon).accepted
    }
    assert p_true["umbrella"] > 3 * p_true["kettle"]
    table = estimate_truth(scene_parses.take([*range(0, len(scene_parses), 3)]), in_turn(lexicon))
    assert table.num_rows == 0
    truth = Truth.from_table(table, lexicon, 0.0)
    evidence, image = gather_evidence([scenes[0]], truth=truth)[0], truth.of_image(scenes[0])
    accepted, rejected = results("noun", evidence, lexicon, excluded=True)
    assert accepted and {image.p_true(row, scenes[0][0]) for row in (*accepted, *rejected)} == {None}
    assert "likely_true" not in {row.reason for row in rejected}


def test_the_estimate_hangs_on_no_order(sample_truth):
    parses = sample_parses()
    check_table(sample_truth, TRUTH)
    images = [parses.filter(pc.equal(parses["image_id"], image)) for image in parses["image_id"].unique()]
    turned = estimate_truth(pa.concat_tables(images[::-1]), in_turn(sample_lexicon()))
    assert turned.drop_columns("coefficients").equals(sample_truth.drop_columns("coefficients"))
    one, other = (t["coefficients"].drop_null().to_pylist() for t in (turned, sample_truth))
    assert np.allclose(sum(one, []), sum(other, []), atol=1e-5)


def test_negatives_carry_their_estimate_and_the_likely_are_refused(sample_truth):
    operators = ("noun", "numeral", "preposition", "shuffle", "verb", "attribute")
    truth = Truth.from_table(sample_truth, sample_lexicon(), 0.02)
    config = NegativesConfig(operators=operators, max_true=0.02)
    tables, _ = generate_tables(sample_parses().slice(0, 250), sample_lexicon(), config, truth)
    check_table(tables["negatives"], NEGATIVES)
    check_table(tables["rejections"], REJECTIONS)
    made, refused = tables["negatives"].to_pylist(), tables["rejections"].to_pylist()
    words = [row for row in made if row["operator"] in ("noun", "verb")]
    assert all(0 <= row["p_true"] <= 0.02 for row in words) and len({row["p_true"] for row in words}) > 20
    estimated = [row for row in made if row["operator"] != "numeral"]
    assert all(
        (row["p_true"] is None) == (row["operator"] in ("shuffle", "preposition") or not row["replaced"])
        for row in estimated
    )
    likely = [row for row in refused if row["reason"] == "likely_true"]
    assert all(row["p_true"] > 0.02 for row in likely if row["replacement"])
    assert sum(row["replacement"] is not None for row in likely) > 10
    rated_later = [row for row in refused if row["reason"] == "unnatural" and row["replacement"]]
    estimates = [row["p_true"] for row in rated_later if row["operator"] in ("noun", "verb")]
    assert estimates and all(0 <= p_true <= 0.02 for p_true in estimates)
    assert all(
        row["p_true"] is None for row in refused if row["reason"] not in ("likely_true", "unnatural", "compatible")
    )


def test_what_is_as_likely_as_the_limit_is_not_too_likely(sample_truth):
    truth = Truth.from_table(sample_truth, sample_lexicon())
    captions = captions_of("A dog on a couch.", "A dog lies on a couch.")
    likely = sorted(
        {truth.of_image(captions).p_true(noun(name), captions[0]) for name in truth.associations["noun"].entries}
    )
    at_limit = replace(truth, max_p_true=likely[-1]).of_image(captions)
    below = replace(truth, max_p_true=likely[-2]).of_image(captions)
    assert not at_limit.likely_nouns.any() and below.likely_nouns.any()


def noun(name: str) -> Row:
    """The row that puts a noun in place of "dog"."""
    return Row("noun", (), (1,), "dog", name)


def test_a_limit_of_one_refuses_nothing_and_changes_no_row(sample_truth):
    truth, parses = Truth.from_table(sample_truth, sample_lexicon(), 1.0), sample_parses().slice(0, 50)
    with_it = generate_tables(parses, sample_lexicon(), NegativesConfig(max_true=1.0), truth)[0]
    without = generate_tables(parses, sample_lexicon(), NegativesConfig())[0]
    for name, table in without.items():
        columns = [column for column in table.column_names if column != "p_true"]
        assert with_it[name].select(columns).equals(table.select(columns))


def test_a_numeral_is_estimated_of_what_stands_in_one_place_also_a_lower_one(sample_truth):
    truth = Truth.from_table(sample_truth, sample_lexicon(), 0.0)

    def numerals(*texts: str) -> list[tuple[str, str, str | None, float | None]]:
        """The noun and the new numeral of each row for the first text, why it is rejected, and its p(true)."""
        captions = list(parse(texts))
        first, evidence = captions[0], gather_evidence([captions], truth=truth)[0]
        rows = [row for made in results("numeral", evidence, excluded=True) for row in made if row.tokens]
        image = truth.of_image(captions)
        return [(first.lowered[row.tokens[0]], row.replacement, row.reason, image.p_true(row, first)) for row in rows]

    reasons = {new: reason for _, new, reason, _ in numerals("Two dogs run.", "Two dogs on a beach.")}
    assert reasons["a"] == reasons["three"] == "likely_true"
    for text, alone in (("A dog runs.", True), ("A dog and a cat.", True), ("A black dog and a brown dog.", False)):
        made = numerals(text, "An animal.")
        assert {p_true is not None for noun, _, _, p_true in made if noun == "dog"} == {alone}


@pytest.mark.usefixtures("without_floors")
@pytest.mark.parametrize(
    ("operator", "texts", "negative", "expected"), [(name, *case) for name, cases in CASES.items() for case in cases]
)
def test_what_is_true_of_the_image_is_rejected_and_what_is_false_is_accepted(operator, texts, negative, expected):
    reasons = {reason or "accepted" for text, reason in proposals(operator, *sentences(texts)) if text == negative}
    assert (reasons or {"never"}) == {expected}
