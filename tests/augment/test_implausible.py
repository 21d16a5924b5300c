"""Negatives that are implausible as whole captions are rejected."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import pytest

from negcap.augment.context import Context, contexts
from negcap.augment.edits import NOTHING, Candidate, Edit, Judged, apply
from negcap.augment.generate import IMPLAUSIBLE, Generated, NegativesConfig, generate_tables, reject_implausible
from negcap.augment.language.parse import parse
from negcap.augment.oddness import features, p_odd
from negcap.augment.operators import OPERATORS, PRESETS
from negcap.augment.plausibility import Change, compare
from tests.augment.fixtures import sample_lexicon, sample_parses

TEXT = "A dog is lying on a couch."


class Lengths:
    """A scorer that prefers short texts: -1 for each word."""

    def log_likelihoods(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([-float(len(text.split())) for text in texts])


def context() -> Context:
    return contexts([parse([TEXT])], sample_lexicon())[0]


def accepted(start: int, end: int, new: str, plausibility: float | None) -> Judged:
    candidate = Candidate("noun", (Edit(start, end, new),), (1,), "dog", new, plausibility=plausibility)
    return Judged(candidate, apply(TEXT, candidate.edits), 0.01, plausibility)


def test_a_negative_is_odder_the_more_its_caption_loses_and_the_less_likely_it_is() -> None:
    change = Change(-2.0, 1.0, -4.0, -3.0)
    terms = features([change, change._replace(whole=-99.0, lowest=-99.0)])
    assert terms.tolist() == [pytest.approx((math.log(2.0), -0.8, -0.6)), pytest.approx((math.log(2.0), -2.4, -3.0))]
    others = [change, change._replace(loss=2.0), change._replace(lowest=-6.0)]
    for name in OPERATORS:
        odd = p_odd([(name, NOTHING)] * 3, others)
        assert odd[0] < min(odd[1:]) and all(0 < p < 1 for p in odd)
    assert p_odd([], []) == []


def test_odd_negatives_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    own = context()
    given = [accepted(2, 5, new, value) for new, value in (("cat", 1.0), ("boy", -2.0), ("car", None))]
    changes = compare([own.caption] * 3, [own.reading] * 3, [one.candidate for one in given])
    odd = p_odd([("noun", one.candidate) for one in given], changes)
    assert len(set(odd)) == 3
    read = [
        one._replace(plausibility=change.log_odds, p_odd=p) for one, change, p in zip(given, changes, odd, strict=True)
    ]

    def judged(*limits: object) -> Generated:
        return reject_implausible([own], [{"noun": Generated(list(given), [])}], *limits)[0]["noun"]

    limit = sorted(odd)[1]
    made = judged(None, None, limit)
    assert made.accepted == [one for one in read if one.p_odd <= limit]
    assert made.rejected == [
        one._replace(reason=IMPLAUSIBLE, detail=f"p_odd must be <= {limit:g}") for one in read if one.p_odd > limit
    ]
    assert judged(None, None, 1.0) == Generated(read, [])
    made = judged(None, 0.0, 1.0)  # the lowest plausibility asked for, where there is no scorer
    assert {one.candidate.replacement for one in made.accepted} == {
        one.candidate.replacement for one in read if one.plausibility >= 0.0
    }
    monkeypatch.setitem(OPERATORS, "noun", OPERATORS["noun"]._replace(compared=False))
    assert judged() == Generated(given, [])


def test_a_scorer_changes_nothing_but_the_plausibility() -> None:
    parses = sample_parses().slice(0, 15)
    config = NegativesConfig(operators=PRESETS["all"], per_family=4)
    without, _ = generate_tables(parses, sample_lexicon(), config)
    tables, _ = generate_tables(parses, sample_lexicon(), config, scorer=Lengths())
    assert tables["negatives"].num_rows and not tables["negatives"].equals(without["negatives"])
    for name, table in tables.items():
        columns = [column for column in table.column_names if column != "plausibility"]
        assert table.select(columns).equals(without[name].select(columns))
    for row in tables["negatives"].to_pylist():
        assert row["plausibility"] == len(row["caption"].split()) - len(row["text"].split())
    config = config.changed(min_plausibility=0.0)
    strict, _ = generate_tables(parses, sample_lexicon(), config, scorer=Lengths())
    plausible = [row for row in tables["negatives"].to_pylist() if row["plausibility"] >= 0]
    assert len(plausible) <= strict["negatives"].num_rows  # others move up
    assert all(row["plausibility"] >= 0 for row in strict["negatives"].to_pylist())


def test_odd_candidates_are_counted_and_a_lower_limit_keeps_the_least_odd() -> None:
    parses = sample_parses().slice(0, 60)
    config = NegativesConfig(operators=("noun", "verb", "shuffle"))
    texts = []
    for max_odd in (1.0, 0.35, 0.1):
        tables, counts = generate_tables(parses, sample_lexicon(), config.changed(max_odd=max_odd))
        texts.append(set(tables["negatives"]["text"].to_pylist()))
        assert all(row["p_odd"] <= max_odd + 1e-6 for row in tables["negatives"].to_pylist())
        refused = [row for row in tables["rejections"].to_pylist() if row["reason"] == IMPLAUSIBLE]
        assert sum(n for name, n in counts.items() if re.fullmatch(rf"rejected\..*\.{IMPLAUSIBLE}", name)) == len(
            refused
        )
        assert all(row["p_odd"] > max_odd - 1e-6 for row in refused)
    assert texts[2] < texts[1] < texts[0]
    with pytest.raises(ValueError, match="max_odd must be >= 0, was: -1"):
        config.changed(max_odd=-1.0)
