"""Negatives that raters would call unnatural, or compatible with their captions, are rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from negcap.augment.candidates import Batch, Limits
from negcap.augment.checks import limit_detail, rate_whole
from negcap.augment.cloze.file import PARTS
from negcap.augment.cloze.model import ClozeModel
from negcap.augment.cloze.network import Network
from negcap.augment.edits import Edit, apply_edits
from negcap.augment.evidence import Evidence, gather_evidence
from negcap.augment.generate import NegativesConfig, generate_tables, run_operator
from negcap.augment.language.parse import parse
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.operators import OPERATORS
from negcap.augment.operators.operator import ListedRows, Operator, Source, Traits
from negcap.augment.plausibility import compare
from negcap.augment.raters import predict_ratings, rater_inputs
from negcap.augment.rows import COMPATIBLE, UNNATURAL, OperatorResult, Row
from negcap.augment.truth.contradiction import Violation
from tests.augment.fixtures import UNLIMITED, batch_of, sample_lexicon, sample_parses

TEXT = "A dog is lying on a couch."


@pytest.fixture
def own() -> Evidence:
    return gather_evidence([parse([TEXT])])[0]


def proposed(new: str, **values: Any) -> Row:
    """The row that puts other words in place of the dog."""
    edits = (Edit(2, 5, new),)
    return Row("noun", edits, (1,), "dog", new, text=apply_edits(TEXT, edits), **values)


def test_the_raters_model_is_its_equation(own):
    rows = [proposed(new) for new in ("cat", "wet dog")]
    given = [own.caption] * 2, [own.encoding] * 2, rows
    comparisons = compare(*given)
    inputs = rater_inputs(*given, comparisons)
    model, scores, first = own.encoding.model, own.encoding.scores, comparisons[0]
    features = np.log1p(first.loss), first.lowest / 5, first.whole / 5, np.log(len(scores)) - 2.25, np.mean(scores) / 2
    assert inputs.features[0] == pytest.approx((*features, scores[1] / 5), abs=1e-4)
    cat, dog = (model.embedding[model.units.number_of(word)] for word in ("cat", "dog"))
    assert np.array_equal(inputs.units, [cat, dog])  # the last word of a phrase
    assert np.array_equal(inputs.places[0], [*own.encoding.vector(1, 2), *dog])
    weights = {name: model.network.arrays[f"judgement.{name}.weight"].astype(float) for name in PARTS}
    bias, last = (model.network.arrays[f"judgement.{name}.bias"] for name in ("hidden", "output"))
    places, units, size = inputs.places @ weights["place"].T, inputs.units @ weights["unit"].T, len(bias)
    hidden = places[:, :size] + units[:, :size] + inputs.features @ weights["terms"].T
    hidden += weights["kind"].T[inputs.changes] + bias
    products = places[:, size:] * units[:, size:]
    assert products.any()
    logits = np.concatenate([np.maximum(hidden, 0.0), products], axis=1) @ weights["output"].T + last
    assert np.stack(predict_ratings(comparisons, *given), 1) == pytest.approx(1 / (1 + np.exp(-logits)), abs=2e-4)


def test_a_model_without_raters_of_its_own_has_those_of_the_shipped_one_without_vectors(own):
    shipped = own.encoding.model
    arrays = {name: array for name, array in shipped.network.arrays.items() if "judgement" not in name}
    for model, ignores_vectors in ((ClozeModel(shipped.units, Network(arrays)), True), (shipped, False)):
        encoding = gather_evidence([parse([TEXT])], model)[0].encoding
        given = [own.caption] * 2, [encoding] * 2, [proposed("cat"), proposed("horse")]
        same = [compare(*given)[0]] * 2
        unnatural, compatible = predict_ratings(same, *given)
        assert 0 < unnatural[0] < 1 and 0 < compatible[0] < 1
        assert bool(unnatural[0] == unnatural[1]) is ignores_vectors


class Lists(Operator):
    """Lists rows, and others that are tried where none of these passes the checks before the rating.

    A puppy is in the image.
    """

    def __init__(self, rows: Sequence[Row], fallback: Sequence[Row] = (), **traits: bool) -> None:
        super().__init__("noun", Traits("noun", 1.0, **traits))
        self.first, self.others = rows, fallback

    def rows(self, batch: Batch, seed: int) -> Source:
        return ListedRows([map(replace, self.first)])

    def fallback_rows(self, batch: Batch, captions: Sequence[int], seed: int) -> Source:
        return ListedRows([map(replace, self.others) if captions else ()])

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        return Violation("caption_says_so") if row.replacement == "puppy" else None

    def run(self, own: Evidence, **limits: float) -> OperatorResult:
        """What it makes of the caption within some limits."""
        settings = NegativesConfig(**{**UNLIMITED, **limits})
        return run_operator(self, batch_of([[own.caption]], limits=settings.limits), settings)[0]


def test_negatives_that_raters_would_refuse_are_rejected(own):
    rows = [proposed("cat"), proposed("boy"), proposed("car")]
    given = [own.caption] * 3, [own.encoding] * 3, rows
    comparisons = compare(*given)
    unnatural, compatible = predict_ratings(comparisons, *given)
    assert len(set(unnatural)) == 3 and len(set(compatible)) > 1
    rated = [
        replace(row, plausibility=comparison.log_odds, p_unnatural=float(p), p_compatible=float(q))
        for row, comparison, p, q in zip(rows, comparisons, unnatural, compatible, strict=True)
    ]
    operator = Lists(rows, has_fallback=True)
    for name, reason, ratings in (("unnatural", UNNATURAL, unnatural), ("compatible", COMPATIBLE, compatible)):
        limit = sorted(ratings)[1]
        accepted, rejected = operator.run(own, **{f"max_{name}": limit})
        assert accepted == [row for row, p in zip(rated, ratings, strict=True) if p <= limit]
        detail = f"p_{name} must be <= {limit:g}"
        assert rejected == [replace(row, reason=reason, detail=detail) for row in rated if row not in accepted]
    assert operator.run(own) == OperatorResult(rated, [])
    assert Lists(rows, is_rated=False).run(own) == OperatorResult(rows, [])
    # Where all are less natural than preferred, the best one is taken: least probably unnatural or compatible.
    bad = 1 - (1 - unnatural) * (1 - compatible)
    best, *others = np.argsort(bad).tolist()
    second = next(other for other in others if compatible[other] < compatible[best])
    refused = [replace(row, reason=UNNATURAL, detail="p_unnatural must be <= 0") for row in rated]
    for limits, taken in (
        ({}, best),
        ({"max_compatible": compatible[best] - 1e-4}, second),
        ({"max_unnatural": bad[best] - 1e-4}, None),
    ):
        accepted, rejected = operator.run(own, preferred_unnatural=0.0, **limits)
        assert accepted == [row for number, row in enumerate(rated) if number == taken]
        assert rejected == [row for number, row in enumerate(refused) if number != taken]
    assert Lists(rows).run(own, preferred_unnatural=0.0) == OperatorResult([], refused)


def test_the_fallback_is_used_only_where_nothing_else_passes_the_checks(own):
    cat, horse, puppy = (replace(proposed(new), text="") for new in ("cat", "horse", "puppy"))
    strict = {"preferred_unnatural": 0.0, "max_unnatural": 0.0}
    for rows, fallback, limits, accepted, rejected in (
        ([], [cat], {}, ["cat"], []),
        ([cat], [], {}, ["cat"], []),
        ([cat], [horse], {}, ["cat"], []),
        ([puppy], [horse], {}, ["horse"], ["puppy"]),  # what the captions make true does not count
        ([cat], [horse], strict, [], ["cat"]),  # what is rated does, also if it is refused
        ([puppy], [horse], strict, [], ["puppy", "horse"]),
    ):
        result = Lists(rows, fallback).run(own, **limits)
        assert [[row.replacement for row in part] for part in result] == [accepted, rejected]


def test_rows_that_are_rated_already_are_not_read_again(own):
    rows = [proposed("cat", p_unnatural=0.3, p_compatible=0.01), proposed("cat")]
    rate_whole(rows, [own] * 2, Limits())
    assert (rows[0].p_unnatural, rows[0].plausibility) == (0.3, None)
    assert (rows[0].reason, rows[0].detail) == (UNNATURAL, limit_detail(UNNATURAL, Limits()))
    assert rows[1].p_unnatural != 0.3 and rows[1].plausibility is not None


def test_recording_what_is_not_sampled_changes_no_negative():
    parses = sample_parses().slice(0, 150)
    config = NegativesConfig(operators=("noun", "attribute", "verb", "preposition"))
    without, recorded = (
        generate_tables(parses, sample_lexicon(), config.changed(excluded=excluded)).tables
        for excluded in (False, True)
    )
    assert recorded["negatives"].equals(without["negatives"])
    # Words that are refused for their ratings are counted, at least those that are rejections as well.
    places = {(row["kind"], row["reason"], row["entry"]): row["places"] for row in recorded["excluded"].to_pylist()}
    unlikely = [row for row in recorded["rejections"].to_pylist() if row["reason"] == UNNATURAL and row["replaced"]]
    rejected = Counter((row["operator"], UNNATURAL, row["replacement"]) for row in unlikely if len(row["edits"]) == 1)
    assert len(rejected) > 20 and all(places.get(word, 0) > 0 for word in rejected)
    fallbacks = [row for row in without["negatives"].to_pylist() if row["p_unnatural"] > config.preferred_unnatural]
    may_fall_back = {name for name in config.operators if OPERATORS[name].traits.has_fallback}
    assert {"noun", "preposition"} <= {row["operator"] for row in fallbacks} <= may_fall_back
    assert all(row["p_unnatural"] <= config.max_unnatural and row["draw"] == 0 for row in fallbacks)
    rejected = recorded["rejections"].to_pylist()
    texts = [(row["caption_id"], row["operator"], row["text"]) for row in rejected if row["text"]]
    assert len(set(texts)) == len(texts) > without["rejections"].num_rows
    assert {(row["caption_id"], row["operator"], row["text"]) for row in fallbacks}.isdisjoint(texts)
