"""What the shipped network says of negatives of plain captions, beside what two raters said (ratings.tsv).

The raters saw each pair without knowing which text was the caption. unnatural, compatible: the share of the two that
called the negative unnatural, or both texts right for one photo. The network was fitted to these ratings among others.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from negcap.augment.language.parse import parse
from negcap.augment.plausibility import encode_captions
from negcap.augment.raters import MAX_COMPATIBLE, MAX_UNNATURAL, PREFERRED_UNNATURAL, rate_rows
from negcap.augment.recovery import recover


@pytest.fixture(scope="module")
def rated() -> pd.DataFrame:
    """The ratings beside what the network says: `p_unnatural`, and whether the limits let the negative through."""
    ratings = pd.read_csv(Path(__file__).with_name("ratings.tsv"), sep="\t")
    captions, negatives = (parse(ratings[name].tolist()) for name in ("caption", "negative"))
    rows = [recover(*pair).row for pair in zip(captions, negatives, strict=True)]
    rate_rows(captions, encode_captions(captions), rows)
    ratings["p_unnatural"] = [row.p_unnatural for row in rows]
    is_false = pd.Series([row.p_compatible for row in rows]) <= MAX_COMPATIBLE
    ratings["allowed"] = is_false & (ratings["p_unnatural"] <= MAX_UNNATURAL)
    ratings["preferred"] = is_false & (ratings["p_unnatural"] <= PREFERRED_UNNATURAL)
    return ratings


def test_most_of_what_the_limits_let_through_is_natural_and_false(rated):
    assert rated["unnatural"][rated["preferred"]].mean() <= 0.10
    assert rated["unnatural"][rated["allowed"]].mean() <= 0.15
    assert rated["compatible"][rated["allowed"]].mean() <= 0.04


def test_most_of_what_raters_called_natural_and_false_is_let_through(rated):
    assert rated["allowed"][(rated["unnatural"] == 0) & (rated["compatible"] == 0)].mean() >= 0.6


def test_what_both_raters_called_unnatural_is_told_from_what_none_did(rated):
    bad, good = (rated["p_unnatural"][rated["unnatural"] == share].to_numpy() for share in (1, 0))
    in_order = (bad[:, None] > good).mean() + (bad[:, None] == good).mean() / 2
    assert in_order >= 0.85
