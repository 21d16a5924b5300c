"""Captions of several sentences: each is proposed for, read and rated as a caption of its own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from negcap.augment.caption import MAX_SENTENCE, MAX_TOKENS, Caption
from negcap.augment.edits import Edit, apply_edits
from negcap.augment.generate import MOST_REJECTED, NegativesConfig, generate_tables
from negcap.augment.language.parse import parse
from negcap.augment.operators import PRESETS
from negcap.augment.rows import Row
from negcap.augment.sentences import pronouns_left_behind, repeated_elsewhere, sentences_of
from tests.augment.fixtures import UNLIMITED, parse_texts, sample_lexicon
from tests.cases import cases_of

CASES = cases_of(__file__)["sentences"]

PARAGRAPH = (
    "A brown dog sleeps on a red couch. Two boys are playing with a ball. A woman rides a horse on a beach. "
    "A yellow bus stands near a tree. Three birds sit on a roof."
)


def negatives_of(*texts: str, **settings: Any) -> tuple[list[dict], list[dict]]:
    """Negatives and rejections of captions of one image."""
    ids = [str(number) for number in range(len(texts))]
    config = NegativesConfig(**{"operators": PRESETS["all"], **settings})
    tables, _ = generate_tables(parse_texts(list(texts), ["image"] * len(texts), ids), sample_lexicon(), config)
    return tables["negatives"].to_pylist(), tables["rejections"].to_pylist()


@pytest.mark.parametrize(("sentences", "text"), CASES["split"], ids=[text for _, text in CASES["split"]])
def test_sentences_end_with_a_mark_that_no_dependency_spans(sentences, text):
    (caption,) = parse([text])
    parts = sentences_of(caption)
    assert [part.text for part in parts] == sentences
    assert (parts == (caption,)) == (len(sentences) == 1)
    for part in parts:
        for token in part.tokens:
            same = caption.tokens[part.first_token + token.index]
            assert (token.text, token.tag, part.text[token.start : token.end]) == (same.text, same.tag, same.text)
            assert 0 <= token.head < len(part.tokens)


def test_a_negative_changes_one_sentence_and_says_where_in_the_whole_caption():
    accepted, _ = negatives_of(PARAGRAPH)
    sentences, changed = PARAGRAPH.split(". "), set()
    for row in accepted:
        edits = [Edit(edit["start"], edit["end"], edit["new"]) for edit in row["edits"]]
        assert all(PARAGRAPH[edit["start"] : edit["end"]] == edit["old"] for edit in row["edits"])
        assert apply_edits(PARAGRAPH, edits) == row["text"] and row["caption"] == PARAGRAPH
        differing = [n for n, new in enumerate(row["text"].split(". ")) if new != sentences[n]]
        assert len(differing) == 1
        changed.update(differing)
    assert len(changed) == len(sentences)


def test_a_small_quota_is_spread_over_the_sentences():
    accepted, _ = negatives_of(PARAGRAPH, operators=("noun",), per_family=5)
    starts = [row["edits"][-1]["start"] for row in accepted]
    assert len({PARAGRAPH[:start].count(".") for start in starts}) >= 3
    assert [row["draw"] for row in accepted] == [0, 1, 2, 3, 4]


def test_the_first_negatives_are_more_often_of_a_sentence_that_has_a_good_one():
    shares = []
    for seed in range(12):
        accepted, _ = negatives_of(PARAGRAPH, operators=("numeral",), seed=seed, per_family=5)
        first, *others = [row["p_unnatural"] for row in accepted]
        shares.append(sum(first < rating for rating in others) / len(others))
    assert sum(shares) / len(shares) > 0.65  # by chance 0.5


def test_negatives_of_a_sentence_are_those_that_it_has_beside_the_others_as_captions():
    texts = ["Two boys are playing with a ball.", "A woman rides a horse on a beach."]
    alone, _ = negatives_of(*texts, per_family=10_000, operators=("noun", "preposition"))
    together, _ = negatives_of(" ".join(texts), per_family=10_000, operators=("noun", "preposition"))
    beside = {" ".join(row["text"] if text == row["caption"] else text for text in texts) for row in alone}
    assert {row["text"] for row in together} == beside != set()


def test_what_another_sentence_says_is_true_of_the_caption():
    _, rejected = negatives_of("A dog is on a mat. A cat is under a table.", excluded=True, operators=("noun",))
    reasons = {row["reason"] for row in rejected if row["replaced"] == "dog"}
    assert any(reason.endswith("_in_caption") for reason in reasons)
    assert not any("sibling" in reason for reason in reasons)
    assert {row["sibling_id"] for row in rejected} == {None}


def row_of(sentence: Caption, change: str, old: str, new: str) -> Row:
    at = next(token.index for token in sentence.tokens if token.lemma == old)
    return Row(change, (), (at,), "a" if change == "numeral" else old, new)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "change", "old", "new", "word"), CASES["again"])
def test_a_thing_that_another_sentence_takes_up_is_not_changed(text, change, old, new, word):
    sentence = sentences_of(*parse([text]))[0]
    assert (repeated_elsewhere(row_of(sentence, change, old, new), sentence) or "none") == word


@pytest.mark.parametrize(("text", "old", "new", "left"), CASES["pronouns"])
def test_a_pronoun_of_the_next_sentence_keeps_its_noun(text, old, new, left):
    sentence = sentences_of(*parse([text]))[0]
    assert pronouns_left_behind(row_of(sentence, "noun", old, new), sentence) == left


def test_a_pronoun_may_mean_what_an_earlier_sentence_names():
    text = "A girl stands on a beach. Next to her foot is a red basket."
    accepted, _ = negatives_of(text, operators=("numeral",), **UNLIMITED)
    baskets = [row["text"] for row in accepted if "baskets" in row["text"]]
    assert baskets and all("Next to her foot" in text for text in baskets)


def test_no_sentence_of_several_gives_way_to_one_about_the_whole_picture():
    accepted, _ = negatives_of(PARAGRAPH, operators=("negation",), per_family=100)
    assert not any("There" in edit["new"] for row in accepted for edit in row["edits"])


def test_a_long_caption_has_negatives_from_start_to_end():
    long = " ".join([PARAGRAPH] * 15)
    assert len(parse([long])[0].tokens) <= MAX_TOKENS
    accepted, rejected = negatives_of(long, operators=("attribute", "numeral"))
    starts = [row["edits"][0]["start"] / len(long) for row in accepted]
    assert min(starts) < 0.25 and max(starts) > 0.75
    assert max(Counter(row["operator"] for row in rejected).values()) == MOST_REJECTED


def test_a_sentence_that_is_too_long_is_left_out_and_the_others_are_not():
    endless = "A dog and " * (MAX_SENTENCE // 3 + 1) + "a cat sleep."
    _, rejected = negatives_of(endless, operators=("noun",))
    assert [row["detail"] for row in rejected] == [f"sentence must be <= {MAX_SENTENCE} tokens"]
    accepted, _ = negatives_of(endless + " Two boys are playing with a ball.", operators=("noun", "numeral"))
    assert accepted and all(row["edits"][0]["start"] > len(endless) for row in accepted)


def test_what_is_white_in_a_place_that_is_named_before_may_be_another_thing():
    accepted, _ = negatives_of("A dog lies on a bed. The table is white.", operators=("noun",), **UNLIMITED)
    assert accepted and all("The table is white." in row["text"] for row in accepted)
