"""The probability that a reader calls a negative odd: ungrammatical, or of what is hardly ever seen or said.

A logistic regression on how the cloze model compares the negative with its caption (see
`negcap.augment.plausibility.Change`), fitted to what readers said of negatives that were drawn without this limit:

    log-odds = bias_o + a log(1 + loss) + b lowest + c_o whole

with a bias and a coefficient c of each operator o, which are shrunk towards those of all operators. Prepositions have
a bias of their own each, which is shrunk towards that of the operator: nearly everything may be in front of a thing,
but little is under it. So has an exchange of two things that are alike, such as a man and a girl.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import numpy as np

from .data import data_path
from .edits import BOTH, Candidate
from .language.semantic_classes import semantic_class
from .plausibility import Change
from .reproducible import log, sigmoid

MAX_P_ODD = 0.3
ANY = "any"  # an operator that readers have not judged
SCALE = 5.0  # nats: lowest and whole are measured in these, so that all coefficients are of about the same size
WHOLE = (-15.0, 5.0)  # nats: whole is cut to these


def features(changes: Sequence[Change] | np.ndarray) -> np.ndarray:
    """log(1 + loss), lowest and whole of each change, as the regression takes them: (changes, 3)."""
    _, loss, lowest, whole = np.array(changes, float).reshape(-1, 4).T
    return np.stack([log(1.0 + loss), np.maximum(lowest, -12.0) / SCALE, np.clip(whole, *WHOLE) / SCALE], axis=1)


def p_odd(made: Sequence[tuple[str, Candidate]], changes: Sequence[Change]) -> list[float]:
    """The probability that a reader calls each negative odd, to 4 digits; made: its operator and what that changed."""
    model = coefficients()
    known = [next(model[name] for name in (*kind_of(*one), ANY) if name in model) for one in made]
    return probabilities(np.array(known).reshape(-1, 4), changes).tolist()


def probabilities(weights: np.ndarray, changes: Sequence[Change] | np.ndarray) -> np.ndarray:
    """p_odd of each change, (changes,), to 4 digits; weights: bias and coefficients of each, or of all, (4,)."""
    terms = features(changes)
    return sigmoid(weights[..., 0] + np.add.reduce(weights[..., 1:] * terms, axis=1)).round(4)


def kind_of(operator: str, candidate: Candidate) -> tuple[str, str]:
    """The name of a negative's bias, and that of the more general bias that it is shrunk towards: "preposition under"
    and "preposition", "shuffle alike" (of two nouns of one semantic class) and "shuffle". For most operators both are
    the name of the operator.
    """
    if candidate.change == "preposition":
        return f"preposition {candidate.replacement}", "preposition"
    if candidate.change == "swap":
        one, other = map(semantic_class, candidate.replaced.split(BOTH))
        return f"{operator} alike" if one == other else operator, operator
    return operator, operator


@cache
def coefficients() -> dict[str, tuple[float, float, float, float]]:
    """For each operator and preposition (see `kind_of`), its bias and the coefficients of the `features`."""
    model = json.loads(data_path("oddness.json").read_text("utf-8"))
    return {name: (bias, model["loss"], model["lowest"], whole) for name, (bias, whole) in model["operators"].items()}
