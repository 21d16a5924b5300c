"""Negatives that raters would call unnatural, or compatible with their captions, are rejected."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from negcap.augment.candidates import FREE, Batch, Limits
from negcap.augment.caption import by_image, from_parses
from negcap.augment.checks import limit_detail, rate_whole
from negcap.augment.cloze.file import PARTS
from negcap.augment.cloze.model import ClozeModel
from negcap.augment.cloze.network import Network
from negcap.augment.edits import Edit, apply_edits
from negcap.augment.evidence import Evidence, gather_evidence
from negcap.augment.generate import NegativesConfig, generate_tables, run_operator
from negcap.augment.language.parse import parse
from negcap.augment.operators import OPERATORS, replacing
from negcap.augment.operators.operator import ListingOperator, Traits
from negcap.augment.plausibility import compare
from negcap.augment.raters import PREFERRED_UNNATURAL, place_inputs, predict_ratings, rater_inputs, rater_model_of
from negcap.augment.rows import COMPATIBLE, UNNATURAL, OperatorResult, Row
from negcap.schemas.fields import check
from negcap.schemas.negatives import EXCLUDED
from tests.augment.fixtures import UNLIMITED, batch_of, sample_lexicon, sample_parses

TEXT = "A dog is lying on a couch."


def evidence() -> Evidence:
    return gather_evidence([parse([TEXT])])[0]


def proposed(new: str, plausibility: float | None = None) -> Row:
    """The row that puts other words in place of the dog."""
    edits = (Edit(2, 5, new),)
    return Row("noun", edits, (1,), "dog", new, text=apply_edits(TEXT, edits), p_true=0.01, plausibility=plausibility)


def test_the_raters_model_is_its_equation():
    own = evidence()
    rows = [proposed(new) for new in ("cat", "wet dog")]
    given = [own.caption] * 2, [own.encoding] * 2, rows
    comparisons = compare(*given)
    its = rater_inputs(*given, comparisons)
    model = own.encoding.model
    size, mean = len(own.encoding.scores), np.mean(own.encoding.scores)
    first = comparisons[0]
    features = np.log1p(first.loss), first.lowest / 5, first.whole / 5, np.log(size) - 2.25, mean / 2
    assert its.features[0] == pytest.approx((*features, own.encoding.scores[1] / 5), abs=1e-4)
    assert np.array_equal(its.units[0], model.embedding[model.units.number_of("cat")])
    assert np.array_equal(its.units[1], model.embedding[model.units.number_of("dog")])  # the last word of a phrase
    old = model.embedding[model.units.number_of("dog")]
    assert np.array_equal(its.places[0], [*own.encoding.vector(1, 2), *old])
    arrays = {name: model.network.arrays[f"judgement.{name}.weight"].astype(float) for name in PARTS}
    bias, last = (model.network.arrays[f"judgement.{name}.bias"] for name in ("hidden", "output"))
    places, units, size = its.places @ arrays["place"].T, its.units @ arrays["unit"].T, len(bias)
    change = arrays["kind"].T[its.changes]
    hidden = places[:, :size] + units[:, :size] + its.features @ arrays["terms"].T + change + bias
    hidden = np.concatenate([np.maximum(hidden, 0.0), places[:, size:] * units[:, size:]], axis=1)
    assert hidden[:, size:].any()
    expected = 1 / (1 + np.exp(-(hidden @ arrays["output"].T + last)))
    ratings = predict_ratings(comparisons, *given)
    assert np.stack(ratings, 1) == pytest.approx(expected, abs=2e-4)
    assert all(len(its) == 0 for its in predict_ratings([], [], [], []))


def test_a_model_without_raters_of_its_own_has_those_of_the_shipped_one_without_vectors():
    own = evidence()
    arrays = {name: its for name, its in own.encoding.model.network.arrays.items() if "judgement" not in name}
    other = rater_model_of(ClozeModel(own.encoding.model.units, Network(arrays)))
    places, _ = place_inputs([own.encoding] * 2, [(at, at + 2) for at in (0, 1)])
    units = own.encoding.model.embedding[10:12].astype(float)
    assert not other.project_places(places).any() and not other.project_units(units).any()
    assert rater_model_of(own.encoding.model).project_places(places).all(1).any()
    unnatural, compatible = other.predict(
        changes=np.zeros(2, int),
        features=np.zeros((2, 6)),
        places=other.project_places(places),
        units=other.project_units(units),
        place=np.arange(2),
        unit=np.arange(2),
    )
    assert 0 < unnatural[0] == unnatural[1] < 1 and 0 < compatible[0] == compatible[1] < 1


class Lists(ListingOperator):
    """Lists given rows."""

    def __init__(self, rows: list[Row], traits: Traits) -> None:
        super().__init__("noun", traits)
        self.listed = rows

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> list[Row]:
        return [replace(row) for row in self.listed]


def test_negatives_that_raters_would_refuse_are_rejected():
    own = evidence()
    rows = [proposed("cat", 1.0), proposed("boy", -2.0), proposed("car")]
    given = [own.caption] * 3, [own.encoding] * 3, rows
    comparisons = compare(*given)
    unnatural, compatible = predict_ratings(comparisons, *given)
    assert len(set(unnatural)) == 3 and len(set(compatible)) > 1
    rated = [
        replace(row, plausibility=comparison.log_odds, p_unnatural=float(p), p_compatible=float(q))
        for row, comparison, p, q in zip(rows, comparisons, unnatural, compatible, strict=True)
    ]
    traits = Traits("noun", 1.0, has_fallback=True)

    def made(operator: ListingOperator | None = None, **limits: float) -> OperatorResult:
        settings = NegativesConfig(**{**UNLIMITED, **limits})
        batch = batch_of([[own.caption]], limits=settings.limits)
        return run_operator(operator or Lists(rows, traits), batch, settings)[0]

    for name, reason, values in (("unnatural", UNNATURAL, unnatural), ("compatible", COMPATIBLE, compatible)):
        limit = sorted(values)[1]
        accepted, rejected = made(**{f"max_{name}": limit})
        kept = [row for row, p in zip(rated, values, strict=True) if p <= limit]
        assert accepted == kept
        assert rejected == [
            replace(row, reason=reason, detail=f"p_{name} must be <= {limit:g}") for row in rated if row not in kept
        ]
    assert made() == OperatorResult(rated, [])
    # Where all are less natural than preferred, the best one is taken: least probably unnatural or compatible.
    bad = 1 - (1 - unnatural) * (1 - compatible)
    best, *others = np.argsort(bad).tolist()
    refused = [replace(row, reason=UNNATURAL, detail="p_unnatural must be <= 0") for row in rated]
    for limits, taken in (
        ({}, best),
        (
            {"max_compatible": compatible[best] - 1e-4},
            next(other for other in others if compatible[other] < compatible[best]),
        ),
        ({"max_unnatural": bad[best] - 1e-4}, None),
    ):
        accepted, rejected = made(preferred_unnatural=0.0, **limits)
        assert accepted == [row for number, row in enumerate(rated) if number == taken]
        assert rejected == [row for number, row in enumerate(refused) if number != taken]
    without = Lists(rows, traits._replace(has_fallback=False))
    assert made(without, preferred_unnatural=0.0) == OperatorResult([], refused)
    unrated = Lists(rows, traits._replace(is_rated=False))
    assert made(unrated) == OperatorResult(rows, [])


def test_rows_that_are_rated_already_are_not_read_again():
    own = evidence()
    rows = [replace(proposed("cat"), p_unnatural=0.3, p_compatible=0.01), proposed("cat")]
    rate_whole(rows, [own] * 2, Limits())
    assert (rows[0].p_unnatural, rows[0].plausibility) == (0.3, None)
    assert (rows[0].reason, rows[0].detail) == (UNNATURAL, limit_detail(UNNATURAL, Limits()))
    assert rows[1].p_unnatural != 0.3 and rows[1].plausibility is not None


def test_recording_what_is_not_sampled_changes_no_negative():
    parses = sample_parses().slice(0, 150)
    config = NegativesConfig(operators=("noun", "attribute", "verb", "preposition"))
    without, _ = generate_tables(parses, sample_lexicon(), config)
    recorded, _ = generate_tables(parses, sample_lexicon(), config.changed(excluded=True))
    assert recorded["negatives"].equals(without["negatives"])
    fallbacks = [row for row in without["negatives"].to_pylist() if row["p_unnatural"] > config.preferred_unnatural]
    assert {row["operator"] for row in fallbacks} == {
        name for name in config.operators if OPERATORS[name].traits.has_fallback
    }
    assert all(row["p_unnatural"] <= config.max_unnatural and row["draw"] == 0 for row in fallbacks)
    rejected = recorded["rejections"].to_pylist()
    texts = [(row["caption_id"], row["operator"], row["text"]) for row in rejected if row["text"]]
    assert len(set(texts)) == len(texts) > without["rejections"].num_rows
    assert {(row["caption_id"], row["operator"], row["text"]) for row in fallbacks}.isdisjoint(texts)
    # What is not asked for is rated, and so counted, only if it is to be recorded.
    every, some = (
        {(row["kind"], row["entry"], row["reason"]): row["places"] for row in tables["excluded"].to_pylist()}
        for tables in (recorded, without)
    )
    assert all(every[word] >= places for word, places in some.items())
    idle = {(row["caption_id"], row["operator"]) for row in without["rejections"].to_pylist() if not row["replaced"]}
    assert idle and idle.isdisjoint((row["caption_id"], row["operator"]) for row in without["negatives"].to_pylist())


def test_words_that_are_not_sampled_are_counted():
    """With these settings each candidate that is refused for its ratings is a rejection as well."""
    parses, operators = sample_parses().slice(0, 100), ("noun", "attribute", "preposition")
    config = NegativesConfig(operators=operators, excluded=True, per_family=500, max_compatible=1.0)
    tables, _ = generate_tables(parses, sample_lexicon(), config)
    check(tables["excluded"], EXCLUDED)
    places = {(row["kind"], row["reason"], row["entry"]): row["places"] for row in tables["excluded"].to_pylist()}
    rejections = [row for row in tables["rejections"].to_pylist() if row["replaced"] and len(row["edits"]) <= 1]
    for reason in (UNNATURAL, COMPATIBLE):
        of_reason = [row for row in rejections if row["reason"] == reason]
        rejected = Counter((row["operator"], reason, row["replacement"]) for row in of_reason)
        assert len(rejected) > 20 and all(places[word] >= times for word, times in rejected.items())


def test_unnatural_candidates_are_counted_and_a_lower_limit_keeps_the_most_natural():
    parses = sample_parses().slice(0, 60)
    config = NegativesConfig(operators=("noun", "verb", "shuffle"), per_family=500, **UNLIMITED)
    texts = []
    for max_unnatural in (1.0, 0.35, 0.1):
        tables, counts = generate_tables(parses, sample_lexicon(), config.changed(max_unnatural=max_unnatural))
        texts.append(set(tables["negatives"]["text"].to_pylist()))
        assert all(row["p_unnatural"] <= max_unnatural + 1e-6 for row in tables["negatives"].to_pylist())
        refused = [row for row in tables["rejections"].to_pylist() if row["reason"] == UNNATURAL]
        assert sum(n for name, n in counts.items() if re.fullmatch(rf"rejected\..*\.{UNNATURAL}", name)) == len(refused)
        assert all(row["p_unnatural"] is None or row["p_unnatural"] > max_unnatural - 1e-6 for row in refused)
    assert texts[2] < texts[1] < texts[0]


def test_numbers_that_are_refused_unread_would_be_refused_when_read():
    batch = batch_of(by_image(from_parses(sample_parses()))[:40], "numeral", limits=Limits())
    numeral = replacing("numeral")
    refused, of, rows = [], [], []
    for candidate, reason in enumerate(batch.candidates.reason.tolist()):
        row = numeral["numeral"].row(candidate, batch)
        if row is not None and row.edits:
            rows.append(row)
            of.append(batch.evidence[batch.candidates.caption_of_candidate[candidate]])
            refused.append(reason != FREE)
    out, captions, encodings = np.array(refused), [own.caption for own in of], [own.encoding for own in of]
    ratings = predict_ratings(compare(captions, encodings, rows), captions, encodings, rows)
    unnatural = ratings.unnatural > PREFERRED_UNNATURAL
    assert out.sum() > 0.2 * len(out)
    assert (unnatural & out).sum() >= 0.98 * out.sum()
