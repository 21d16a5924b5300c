"""Trained cloze networks: their perplexity, the file that negcap reads, and a larger vocabulary."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ....augment.cloze.file import ABOUT, UNITS, read_model, stored
from ....augment.cloze.states import SPECIAL, UNKNOWN, Units
from ...engine.storage import write_atomically
from .network import UNKNOWN_UNIT, Cloze, Sizes, log_frequencies

BATCH = 256  # captions whose perplexity is measured at once


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


@torch.no_grad()
def save(
    path: Path,
    net: Cloze,
    units: Units,
    held_out: list[np.ndarray],
    facts: Mapping[str, object],
    trained_on: list[np.ndarray] | None = None,
) -> dict[str, Any]:
    """Write a model in the form that `negcap.augment.cloze.file` reads, and return what it records about itself.

    The biases of `net` are rounded as in the file, and its `fixed_point` is set, which rounds the rest, so that the
    perplexity recorded is that of what is written. held_out: encoded captions to measure the perplexity on, if there
    are any. The biases are shifted so that the log of the sum of all probabilities is 0 on average, on held_out or else
    on the captions trained_on, if there are any. facts: what else to record (what the model was trained on and how), as
    JSON has it. The same arguments give the same bytes. Raises ValueError if a parameter is not finite, or too large
    for sums to be exact (see `negcap.augment.cloze.fixed_point`).
    """
    net.fixed_point = True
    if centred_on := held_out or trained_on:
        net.bias.sub_(perplexity(net, centred_on)[1])
    arrays: dict[str, np.ndarray] = {}
    for name, value in net.state_dict().items():
        arrays |= stored(name, value.numpy())
        if value.ndim != 2:
            value.copy_(value.half())
    about: dict[str, Any] = {**facts, "negcap_version": version("negcap"), "units": len(units.names)}
    if held_out:
        measured, log_sum = perplexity(net, held_out)
        about |= {"perplexity": round(measured, 3), "mean_log_sum": round(log_sum, 4)}
    arrays[UNITS] = np.frombuffer("\n".join(units.names).encode(), np.uint8)
    arrays[ABOUT] = np.frombuffer(json.dumps(about, sort_keys=True, ensure_ascii=False).encode(), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    archive = io.BytesIO()
    np.savez_compressed(archive, allow_pickle=False, **arrays)  # without times: its members' date is always 1980
    write_atomically(path, archive.getbuffer())
    return about


def load(path: Path, dropout: float = 0.0) -> tuple[Units, Cloze]:
    """The units (vocabulary) and the network, in fixed point, of a model file that `save` has written.

    dropout: of the network, in training. Raises FileNotFoundError or ValueError, naming the file, if it is missing or
    damaged.
    """
    units, arrays = read_model(path)
    words, states = arrays["embedding.weight"].shape[1], len(arrays["query.bias"])
    sizes = Sizes(words, states, len(arrays["hidden.bias"]), heads=len(arrays["distance"]))
    net = Cloze(len(units.names), sizes, dropout)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    net.fixed_point = True
    return units, net


def enlarged(net: Cloze, old: Units, new: Units, counts: np.ndarray) -> Cloze:
    """A network of the units `new`, which begin with the units `old` that `net` has, and the parameters of `net`.

    The vector of a new word is that of UNKNOWN, and the vector of a new phrase is the mean of those of its words, so
    that the network reads new words as it did before. Their biases are the logs of their relative frequencies. counts:
    of each unit of `new`, (units,).
    """
    made, parameters = Cloze(len(new.names), net.sizes, net.dropout.p), dict(net.state_dict())
    if added := new.names[len(old.names) :]:
        vectors, unknown = parameters["embedding.weight"], old.number[UNKNOWN]
        rows = [vectors[[old.number.get(word, unknown) for word in name.split(" ")]].mean(0) for name in added]
        parameters["embedding.weight"] = torch.cat([vectors, torch.stack(rows)])
        parameters["bias"] = torch.cat([parameters["bias"], log_frequencies(counts)[len(old.names) :].float()])
    made.load_state_dict(parameters)
    made.fixed_point = net.fixed_point
    return made
