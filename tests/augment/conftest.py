"""Fixtures that several test modules of augment share."""

import math

import pytest

from negcap.augment import generate
from negcap.augment.candidates import RatingEstimates
from negcap.augment.kinds import KINDS
from negcap.augment.operators import noun, swap


@pytest.fixture
def without_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operators propose implausible replacements too, and rate nothing, so that a test does not depend on the
    cloze model.
    """
    for name, kind in KINDS.items():
        monkeypatch.setitem(KINDS, name, kind._replace(floor=-math.inf))
    monkeypatch.setattr(noun, "MIN_SCORE", -math.inf)
    monkeypatch.setattr(swap, "MIN_LOG_ODDS", -math.inf)
    for step in ("rate_at_best", "rate"):
        monkeypatch.setattr(RatingEstimates, step, lambda self, *candidates: None)
    monkeypatch.setattr(generate, "rate_whole", lambda rows, evidence, limits: None)
