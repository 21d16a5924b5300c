"""Negatives that are implausible as whole captions are rejected."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from negcap.augment.caption import by_image, from_parses
from negcap.augment.cloze.file import PARTS
from negcap.augment.cloze.model import ClozeModel
from negcap.augment.cloze.network import Network
from negcap.augment.context import Said, contexts
from negcap.augment.edits import Candidate, Edit, Judged, apply
from negcap.augment.generate import (
    COMPATIBLE,
    UNNATURAL,
    Generated,
    NegativesConfig,
    generate_tables,
    reject_implausible,
)
from negcap.augment.judgement import PREFERRED_UNNATURAL, inputs, judge, judge_of, places_of
from negcap.augment.language.parse import parse
from negcap.augment.operators import OPERATORS
from negcap.augment.operators.numeral import numeral_choices
from negcap.augment.plausibility import compare
from negcap.schemas.fields import check
from negcap.schemas.negatives import EXCLUDED
from tests.augment.fixtures import sample_lexicon, sample_parses

TEXT = "A dog is lying on a couch."


def context() -> Said:
    return contexts([parse([TEXT])], sample_lexicon())[0].said


def accepted(start: int, end: int, new: str, plausibility: float | None) -> Judged:
    candidate = Candidate("noun", (Edit(start, end, new),), (1,), "dog", new, plausibility=plausibility)
    return Judged(candidate, apply(TEXT, candidate.edits), 0.01)


def test_the_judge_is_its_equation() -> None:
    own = context()
    given = [accepted(2, 5, new, None).candidate for new in ("cat", "wet dog")]
    changes = compare([own.caption] * 2, [own.reading] * 2, given)
    its = inputs([own.caption] * 2, [own.reading] * 2, given, changes)
    model = own.reading.model
    size, mean = len(own.reading.scores), np.mean(own.reading.scores)
    first = changes[0]
    terms = np.log1p(first.loss), first.lowest / 5, first.whole / 5, np.log(size) - 2.25, mean / 2
    assert its.terms[0] == pytest.approx((*terms, own.reading.scores[1] / 5), abs=1e-4)
    assert np.array_equal(its.units[0], model.embedding[model.units.of("cat")])
    assert np.array_equal(its.units[1], model.embedding[model.units.of("dog")])  # the last word of a phrase
    old = model.embedding[model.units.of("dog")]
    assert np.array_equal(its.places[0], [*own.reading.vector(1, 2), *old])
    arrays = {name: model.network.arrays[f"judgement.{name}.weight"].astype(float) for name in PARTS}
    bias, last = (model.network.arrays[f"judgement.{name}.bias"] for name in ("hidden", "output"))
    places, units, size = its.places @ arrays["place"].T, its.units @ arrays["unit"].T, len(bias)
    hidden = places[:, :size] + units[:, :size] + its.terms @ arrays["terms"].T + arrays["kind"].T[its.kinds] + bias
    hidden = np.concatenate([np.maximum(hidden, 0.0), places[:, size:] * units[:, size:]], axis=1)
    assert hidden[:, size:].any()
    expected = 1 / (1 + np.exp(-(hidden @ arrays["output"].T + last)))
    judged = judge(changes, [own.caption] * 2, [own.reading] * 2, given)
    assert np.stack(judged, 1) == pytest.approx(expected, abs=2e-4)
    assert all(len(its) == 0 for its in judge([], [], [], []))


def test_a_model_without_a_judge_of_its_own_has_that_of_the_shipped_one_without_vectors() -> None:
    own = context()
    arrays = {name: its for name, its in own.reading.model.network.arrays.items() if "judgement" not in name}
    other = judge_of(ClozeModel(own.reading.model.units, Network(arrays)))
    places, _ = places_of([own.reading] * 2, [(at, at + 2) for at in (0, 1)])
    units = own.reading.model.embedding[10:12].astype(float)
    assert not other.of_places(places).any() and not other.of_units(units).any()
    assert judge_of(own.reading.model).of_places(places).all(1).any()
    odd, both = other.judge(
        np.zeros(2, int), np.zeros((2, 6)), other.of_places(places), other.of_units(units), *[np.arange(2)] * 2
    )
    assert 0 < odd[0] == odd[1] < 1 and 0 < both[0] == both[1] < 1


def test_negatives_that_readers_would_refuse_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    own = context()
    given = [accepted(2, 5, new, value) for new, value in (("cat", 1.0), ("boy", -2.0), ("car", None))]
    pairs = [own.caption] * 3, [own.reading] * 3, [one.candidate for one in given]
    changes = compare(*pairs)
    odd, both = judge(changes, *pairs)
    assert len(set(odd)) == len(set(both)) == 3
    read = [
        one._replace(candidate=one.candidate._replace(plausibility=change.log_odds, p_unnatural=p, p_compatible=q))
        for one, change, p, q in zip(given, changes, odd, both, strict=True)
    ]

    def judged(**limits: float) -> Generated:
        settings = NegativesConfig(
            **{"preferred_unnatural": 1.0, "max_unnatural": 1.0, "max_compatible": 1.0, **limits}
        )
        return reject_implausible([own], [{"noun": Generated(list(given), [])}], settings)[0]["noun"]

    for name, reason, values in (("unnatural", UNNATURAL, odd), ("compatible", COMPATIBLE, both)):
        limit = sorted(values)[1]
        made = judged(**{f"max_{name}": limit})
        kept = [one for one, p in zip(read, values, strict=True) if p <= limit]
        assert made.accepted == kept
        assert made.rejected == [
            one._replace(reason=reason, detail=f"p_{name} must be <= {limit:g}") for one in read if one not in kept
        ]
    assert judged() == Generated(read, [])
    # Where all are odder than preferred, the best one is taken: it is least probably odd or true as well.
    wrong = 1 - (1 - odd) * (1 - both)
    best, *others = np.argsort(wrong).tolist()
    refused = [one._replace(reason=UNNATURAL, detail="p_unnatural must be <= 0") for one in read]
    for limits, taken in (
        ({}, best),
        ({"max_compatible": both[best] - 1e-4}, next(other for other in others if both[other] < both[best])),
        ({"max_unnatural": wrong[best] - 1e-4}, None),
    ):
        made = judged(preferred_unnatural=0.0, **limits)
        assert made.accepted == [one for number, one in enumerate(read) if number == taken]
        assert made.rejected == [one for number, one in enumerate(refused) if number != taken]
    monkeypatch.setitem(OPERATORS, "noun", OPERATORS["noun"]._replace(compared=False))
    assert judged() == Generated(given, [])


def test_recording_what_is_not_drawn_changes_no_negative() -> None:
    parses = sample_parses().slice(0, 150)
    config = NegativesConfig(operators=("noun", "attribute", "verb", "preposition"))
    without, _ = generate_tables(parses, sample_lexicon(), config)
    recorded, _ = generate_tables(parses, sample_lexicon(), config.changed(excluded=True))
    made = [row for row in without["negatives"].to_pylist() if row["p_unnatural"] > config.preferred_unnatural]
    assert {row["operator"] for row in made} == {"noun", "attribute"}
    assert all(row["p_unnatural"] <= config.max_unnatural and row["draw"] == 0 for row in made)
    assert {(row["caption_id"], row["operator"], row["text"]) for row in made}.isdisjoint(
        (row["caption_id"], row["operator"], row["text"]) for row in recorded["rejections"].to_pylist()
    )
    assert recorded["negatives"].equals(without["negatives"]) and recorded["excluded"].equals(without["excluded"])
    rejected = recorded["rejections"].to_pylist()
    texts = [(row["caption_id"], row["operator"], row["text"]) for row in rejected if row["text"]]
    assert len(set(texts)) == len(texts)
    idle = {(row["caption_id"], row["operator"]) for row in without["rejections"].to_pylist() if not row["replaced"]}
    assert idle and idle.isdisjoint((row["caption_id"], row["operator"]) for row in without["negatives"].to_pylist())
    assert recorded["rejections"].num_rows > without["rejections"].num_rows


def test_words_that_are_not_drawn_are_counted() -> None:
    parses, operators = sample_parses().slice(0, 150), ("noun", "attribute", "preposition")
    config = NegativesConfig(operators=operators, excluded=True, per_family=500, max_compatible=1.0)
    tables, _ = generate_tables(parses, sample_lexicon(), config)
    check(tables["excluded"], EXCLUDED)
    places = {(row["kind"], row["reason"], row["entry"]): row["places"] for row in tables["excluded"].to_pylist()}
    for reason in (UNNATURAL, COMPATIBLE):  # with these settings, each is a rejection as well
        of_reason = {word: times for word, times in places.items() if word[1] == reason}
        rejected = Counter(
            (row["operator"], reason, row["replacement"])
            for row in tables["rejections"].to_pylist()
            if row["reason"] == reason and row["replaced"] and (reason == COMPATIBLE or len(row["edits"]) == 1)
        )
        if reason == COMPATIBLE:
            assert of_reason == rejected and len(rejected) > 20
        else:  # also those that are drawn since there is no other
            assert len(rejected) > 100 and all(of_reason[word] >= times for word, times in rejected.items())


def test_odd_candidates_are_counted_and_a_lower_limit_keeps_the_least_odd() -> None:
    parses = sample_parses().slice(0, 60)
    config = NegativesConfig(
        operators=("noun", "verb", "shuffle"), preferred_unnatural=1.0, max_compatible=1.0, per_family=500
    )
    texts = []
    for max_unnatural in (1.0, 0.35, 0.1):
        tables, counts = generate_tables(parses, sample_lexicon(), config.changed(max_unnatural=max_unnatural))
        texts.append(set(tables["negatives"]["text"].to_pylist()))
        assert all(row["p_unnatural"] <= max_unnatural + 1e-6 for row in tables["negatives"].to_pylist())
        refused = [row for row in tables["rejections"].to_pylist() if row["reason"] == UNNATURAL]
        assert sum(n for name, n in counts.items() if re.fullmatch(rf"rejected\..*\.{UNNATURAL}", name)) == len(refused)
        assert all(row["p_unnatural"] is None or row["p_unnatural"] > max_unnatural - 1e-6 for row in refused)
    assert texts[2] < texts[1] < texts[0]
    with pytest.raises(ValueError, match="max_unnatural must be >= 0, was: -1"):
        config.changed(max_unnatural=-1.0)


def test_numbers_that_are_refused_unread_would_be_refused_when_read() -> None:
    lexicon, pairs = sample_lexicon(), []
    for context in contexts(by_image(from_parses(sample_parses())), lexicon):
        own = context.said
        for choice in numeral_choices(own.caption, context):
            made = ((choice.candidate(choice.names[number]), bool(why)) for number, why in enumerate(choice.refused))
            pairs += [(own, candidate, out) for candidate, out in made if candidate and candidate.edits]
    read, candidates, out = zip(*pairs, strict=True)
    captions, readings = [own.caption for own in read], [own.reading for own in read]
    odd = judge(compare(captions, readings, candidates), captions, readings, candidates).odd > PREFERRED_UNNATURAL
    assert sum(out) > 0.2 * len(out)
    assert (odd & out).sum() >= 0.98 * sum(out)
