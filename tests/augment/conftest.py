"""Fixtures that several test modules of augment share."""

import math
from importlib import import_module

import pytest


@pytest.fixture
def without_floors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operators propose implausible replacements too, so that a test does not depend on the cloze model."""
    monkeypatch.setattr(import_module("negcap.augment.operators.preposition"), "MIN_LIFT", 0.0)
    monkeypatch.setattr(import_module("negcap.augment.operators.noun"), "MIN_SCORE", -math.inf)
    for name in ("attribute", "noun", "preposition", "shuffle", "verb"):
        monkeypatch.setattr(import_module(f"negcap.augment.operators.{name}"), "FLOOR", -math.inf)
