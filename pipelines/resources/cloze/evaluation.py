"""Measure a cloze model: its perplexity."""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np
import torch

from ....augment.cloze.states import SPECIAL
from .network import Cloze
from .train import UNKNOWN_UNIT

BATCH = 256


@torch.no_grad()
def perplexity(net: Cloze, captions: list[np.ndarray]) -> tuple[float, float]:
    """The perplexity of encoded captions, and the mean log of the sum of all probabilities, which is 0 at best.

    The perplexity is exp of the mean of -log p(word | the rest of its caption), over the words that are units and with
    p normalised over the whole vocabulary. Switches dropout off. Raises ValueError if no word is a unit.
    """
    net.eval()
    loss, log_sum, words = 0.0, 0.0, 0
    for _, group in groupby(sorted(captions, key=len), key=len):
        rows = list(group)
        for at in range(0, len(rows), BATCH):
            units = torch.from_numpy(np.stack(rows[at : at + BATCH])).long()
            targets = units[:, 1:-1].flatten()
            known = targets != UNKNOWN_UNIT
            contexts, targets = net.contexts(units).flatten(0, 1)[known], targets[known]
            scores = contexts @ net.vectors.T + net.bias
            scores[:, : len(SPECIAL)] = -torch.inf
            total = torch.logsumexp(scores, -1)
            loss += float((total - scores.gather(1, targets[:, None])[:, 0]).sum())
            log_sum += float(total.sum())
            words += len(targets)
    if not words:
        raise ValueError("the captions to measure perplexity on must have words that the model knows, have none")
    return math.exp(loss / words), log_sum / words
