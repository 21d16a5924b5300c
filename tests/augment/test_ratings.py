"""What the shipped network says of negatives of plain captions, beside what two raters said (ratings.tsv).

The raters saw each pair without knowing which text was the caption. unnatural, compatible: the share of the two that
called the negative unnatural, or both texts right for one photo. The network was fitted to these ratings among others.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from negcap.augment.language.parse import parse
from negcap.augment.plausibility import encode_captions
from negcap.augment.raters import MAX_COMPATIBLE, MAX_UNNATURAL, PREFERRED_UNNATURAL, rate_rows
from negcap.augment.recovery import recover

RATINGS = Path(__file__).with_name("ratings.tsv")


class Rated(NamedTuple):
    """What raters said of negatives and what the network says, each (negatives,)."""

    unnatural: np.ndarray
    compatible: np.ndarray
    p_unnatural: np.ndarray
    p_compatible: np.ndarray


@pytest.fixture(scope="module")
def rated() -> Rated:
    ratings = pd.read_csv(RATINGS, sep="\t")
    texts = ratings["caption"].unique().tolist()
    captions = dict(zip(texts, parse(texts), strict=True))
    encodings = dict(zip(texts, encode_captions(list(captions.values())), strict=True))
    rows = [
        recover(captions[text], negative).row
        for text, negative in zip(ratings["caption"], parse(ratings["negative"].tolist()), strict=True)
    ]
    rate_rows([captions[text] for text in ratings["caption"]], [encodings[text] for text in ratings["caption"]], rows)
    return Rated(
        unnatural=ratings["unnatural"].to_numpy(float),
        compatible=ratings["compatible"].to_numpy(float),
        p_unnatural=np.array([row.p_unnatural for row in rows], float),
        p_compatible=np.array([row.p_compatible for row in rows], float),
    )


def test_most_of_what_the_limits_let_through_is_natural_and_false(rated):
    preferred = (rated.p_unnatural <= PREFERRED_UNNATURAL) & (rated.p_compatible <= MAX_COMPATIBLE)
    allowed = (rated.p_unnatural <= MAX_UNNATURAL) & (rated.p_compatible <= MAX_COMPATIBLE)
    assert rated.unnatural[preferred].mean() <= 0.10
    assert rated.unnatural[allowed].mean() <= 0.15
    assert rated.compatible[allowed].mean() <= 0.04


def test_most_of_what_raters_called_natural_and_false_is_let_through(rated):
    good = (rated.unnatural == 0) & (rated.compatible == 0)
    allowed = (rated.p_unnatural <= MAX_UNNATURAL) & (rated.p_compatible <= MAX_COMPATIBLE)
    assert allowed[good].mean() >= 0.6


def test_what_both_raters_called_unnatural_is_told_from_what_none_did(rated):
    bad = rated.p_unnatural[rated.unnatural == 1]
    good = rated.p_unnatural[rated.unnatural == 0]
    in_order = (bad[:, None] > good).mean() + (bad[:, None] == good).mean() / 2
    assert in_order >= 0.85
