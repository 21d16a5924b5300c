"""Tell the cloze model which words the captions of a corpus have, where these are far from everyday photos.

In captions of aerial photos the shipped model expects people and streets, and hardly a storage tank: words of everyday
photos would replace theirs, and what raters would say is misjudged. Each unit has a bias in the model, so a factor of
its probability is all that is fitted, to the units of some captions:

    factor_u <- factor_u * (n_u + PRIOR) / (e_u + PRIOR)

n_u: how often they have unit u. e_u: how often the model expects it, the sum of p(u | rest) over all places. On 400
captions of aerial photos log p of a unit rises from -5.2 to -2.3 on average; with a network that is trained further it
rises more, which takes minutes (see `negcap.pipelines.resources.cloze`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..caption import Caption, read_only
from ..reproducible import exp, log
from .model import ClozeModel

TOKENS = 4_000  # about how many tokens are read
ROUNDS = 4  # times that the factors are corrected
PRIOR = 2.0  # added to both numbers, so that rare units keep about the probability that the model gives them
MAX_STEP = 6.0  # the largest change of a logarithm in a round, in nats
DIGITS = 2  # of the logarithms: what adds up in another order on another processor is rounded away
PLACES = 256  # places whose probabilities are in memory at once: 30 MB
EVERY_UNIT = ""  # stands for the factor that all units have in common


def fit_unit_factors(captions: Iterable[Caption], model: ClozeModel) -> dict[str, float]:
    """The factors of the units' probabilities by name, where they are not 1; EVERY_UNIT has one for all of them alike.

    captions: those that are fitted to; about the first TOKENS tokens are read.
    """
    texts: list[Sequence[str]] = []
    tokens = 0
    for caption in captions:
        if tokens >= TOKENS:
            break
        texts.append(caption.lowered)
        tokens += len(caption.tokens)
    encodings = model.read(texts)
    vectors = np.concatenate([encoding.vectors[: len(encoding.units) - 2] for encoding in encodings])
    units = np.concatenate([encoding.units[1:-1] for encoding in encodings]).astype(int)
    counts = np.bincount(units, minlength=len(model.bias)).astype(float)
    shift = np.zeros(len(model.bias))
    for _ in range(ROUNDS):
        expected = _expect(vectors, model, shift).units
        shift += np.clip(log((counts + PRIOR) / (expected + PRIOR)), -MAX_STEP, MAX_STEP)
    # The model's probabilities add up to about 1 without being divided by their sum, so that has to stay so.
    common = -_expect(vectors, model, shift).mean_log_sum
    rounded = shift.round(DIGITS)
    changed = np.flatnonzero(rounded)
    factors = {model.units.names[unit]: float(exp(rounded[unit : unit + 1])[0]) for unit in changed.tolist()}
    return {EVERY_UNIT: float(exp(np.array([round(common, DIGITS)]))[0]), **factors}


class Expectation(NamedTuple):
    """What a model expects at some places.

    units: how often each unit, (units,). mean_log_sum: the mean over the places of the logarithm of the sum of the
    probabilities of all units, before they are divided by it.
    """

    units: np.ndarray
    mean_log_sum: float


def _expect(vectors: np.ndarray, model: ClozeModel, shift: np.ndarray) -> Expectation:
    """What a model expects at some places if the probability of each unit is multiplied by a factor.

    vectors: of the places, (places, width). shift: the logarithms of the units' factors, (units,).
    """
    expected = np.zeros(len(shift))
    log_sums: list[float] = []
    for start in range(0, len(vectors), PLACES):
        scores = vectors[start : start + PLACES] @ model.embedding.T + model.bias
        weights = exp(scores.astype(float) + shift)  # (places, units)
        sums = weights.sum(axis=1)
        expected += (weights / sums[:, None]).sum(axis=0)
        log_sums += log(sums).tolist()
    return Expectation(expected, sum(log_sums) / len(log_sums))


def adapted(model: ClozeModel, factors: Mapping[str, float]) -> ClozeModel:
    """A model that multiplies the probability of each named unit by its factor; EVERY_UNIT names that of all units."""
    shift = np.zeros(len(model.bias))
    numbers = [model.units.number[name] for name in factors if name != EVERY_UNIT]
    shift[numbers] = log(np.array([factor for name, factor in factors.items() if name != EVERY_UNIT]))
    shift += log(np.array([factors.get(EVERY_UNIT, 1.0)]))
    return replace(model, shift=read_only(shift.astype(np.float32)))
