"""Negatives that are implausible as whole captions are rejected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from negcap.augment.context import Context, contexts
from negcap.augment.edits import Candidate, Edit, Judged, apply
from negcap.augment.generate import IMPLAUSIBLE, Generated, NegativesConfig, generate_tables, reject_implausible
from negcap.augment.language.parse import parse
from negcap.augment.operators import OPERATORS, PRESETS, Limits
from negcap.augment.plausibility import compare
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


def set_limits(monkeypatch: pytest.MonkeyPatch, name: str, limits: Limits | None) -> None:
    monkeypatch.setitem(OPERATORS, name, OPERATORS[name]._replace(limits=limits))


def test_negatives_below_the_limit_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, at_limit, bad = (accepted(2, 5, new, value) for new, value in (("cat", 1.0), ("boy", -2.0), ("car", -2.5)))

    def judged(limits: Limits | None, *given: object) -> Generated:
        set_limits(monkeypatch, "noun", limits)
        return reject_implausible([context()], [{"noun": Generated([kept, bad, at_limit], [])}], *given)[0]["noun"]

    made = judged(Limits(-2.0))
    assert made == Generated([kept, at_limit], [bad._replace(reason=IMPLAUSIBLE)])
    assert judged(None) == Generated([kept, bad, at_limit], [])
    made = judged(Limits(-2.0), None, 1.0)  # the lowest plausibility asked for, where there is no scorer
    assert made.accepted == [kept] and {one.plausibility for one in made.rejected} == {-2.0, -2.5}


def test_negatives_of_unknown_plausibility_are_compared_with_their_caption(monkeypatch: pytest.MonkeyPatch) -> None:
    own = context()
    known, unknown = accepted(2, 5, "cat", 1.0), accepted(5, 5, " and a cat", None)
    (change,) = compare([own.caption], [own.reading], [unknown.candidate])
    for limits, passes in (
        (Limits(change.log_odds - 0.01), True),
        (Limits(change.log_odds + 0.01), False),
        (Limits(change.log_odds - 0.01, change.loss + 0.01), True),
        (Limits(change.log_odds - 0.01, change.loss - 0.01), False),
    ):
        set_limits(monkeypatch, "object", limits)
        (made,) = reject_implausible([own], [{"object": Generated([known, unknown], [])}])
        read = unknown._replace(plausibility=change.log_odds, loss=change.loss)
        assert (read in made["object"].accepted) == passes
        rejected = [one for one in made["object"].rejected if one.candidate == unknown.candidate]
        assert [(one.plausibility, one.loss) for one in rejected] == ([] if passes else [change[:2]])


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
    assert strict["negatives"].num_rows == len(plausible) < tables["negatives"].num_rows


def test_implausible_candidates_are_counted_and_keep_to_the_limits() -> None:
    tables, counts = generate_tables(sample_parses().slice(0, 60), sample_lexicon(), NegativesConfig())
    limits = {name: OPERATORS[name].limits for name in NegativesConfig().operators}
    assert tables["negatives"].num_rows
    for row in tables["negatives"].to_pylist():
        own = limits[row["operator"]]
        assert own is None or row["plausibility"] >= own.min_log_odds - 1e-5
        assert (row["context_loss"] is None) == (own is None or not own.read_whole)
        assert row["context_loss"] is None or row["context_loss"] <= own.max_loss
    refused = [row for row in tables["rejections"].to_pylist() if row["reason"] == IMPLAUSIBLE]
    assert sum(n for name, n in counts.items() if name.endswith(f".{IMPLAUSIBLE}")) == len(refused) > 0
    for row in refused:
        own = limits[row["operator"]]
        assert own.read_whole or row["plausibility"] < own.min_log_odds + 1e-5


def test_a_lower_limit_of_the_loss_keeps_the_rows_that_lose_less() -> None:
    parses = sample_parses().slice(0, 40)
    config = NegativesConfig(operators=("noun", "verb", "shuffle"))
    texts = []
    for max_loss in (None, 1.0, 0.0):
        tables, counts = generate_tables(parses, sample_lexicon(), config.changed(max_loss=max_loss))
        texts.append(set(tables["negatives"]["text"].to_pylist()))
        assert max_loss is None or counts["rejected.verb.implausible"] and counts["rejected.noun.implausible"]
    assert texts[2] < texts[1] < texts[0]
    with pytest.raises(ValueError, match="max_loss must be >= 0, was: -1"):
        config.changed(max_loss=-1.0)
