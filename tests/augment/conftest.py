"""Fixtures that several test modules of augment share."""

import math

import numpy as np
import pytest

from negcap.augment.context import Batch
from negcap.augment.operators import replacement


@pytest.fixture
def without_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operators propose implausible replacements too, so that a test does not depend on the cloze model."""
    monkeypatch.setattr(replacement, "MIN_SCORE", -math.inf)
    for name in replacement.FLOORS:
        monkeypatch.setitem(replacement.FLOORS, name, -math.inf)
    monkeypatch.setattr(
        Batch, "judged", lambda self, kind, slots, of, new, form="", given=None: np.full((3, len(of)), np.nan)
    )
