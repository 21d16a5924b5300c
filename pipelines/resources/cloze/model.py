"""Write a trained cloze network to the file that negcap reads, read it back, and enlarge its vocabulary."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....augment.cloze.file import ABOUT, UNITS, read_model, stored
from ....augment.cloze.states import UNKNOWN, Units
from .evaluation import perplexity
from .network import Cloze, Sizes
from .train import log_frequencies


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
    on the captions trained_on, if there are any.
    facts: what else to record (what the model was trained on and how), as JSON has it. The same arguments give the same
    bytes. Raises ValueError if a parameter is not finite, or too large for sums to be exact (see
    `negcap.augment.cloze.fixed_point`).
    """
    net.fixed_point = True
    with torch.no_grad():
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
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        # An archive without times: its members' date is always 1980.
        np.savez_compressed(file, allow_pickle=False, **arrays)
    os.replace(temporary, path)
    return about


def load(path: Path, dropout: float = 0.0) -> tuple[Units, Cloze]:
    """The units (vocabulary) and the network, in fixed point, of a model file that `save` has written. dropout: of the
    network, in training.

    Raises FileNotFoundError or ValueError, naming the file, if it is missing or damaged.
    """
    units, arrays = read_model(path)
    sizes = Sizes(
        words=arrays["embedding.weight"].shape[1],
        states=len(arrays["query.bias"]),
        hidden=len(arrays["hidden.bias"]),
        heads=len(arrays["distance"]),
    )
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
    made = Cloze(len(new.names), net.sizes, net.dropout.p)
    parameters = dict(net.state_dict())
    added = new.names[len(old.names) :]
    if added:
        vectors, unknown = parameters["embedding.weight"], old.number[UNKNOWN]
        rows = [vectors[[old.number.get(word, unknown) for word in name.split(" ")]].mean(0) for name in added]
        biases: Tensor = log_frequencies(counts)[len(old.names) :].float()
        parameters["embedding.weight"] = torch.cat([vectors, torch.stack(rows)])
        parameters["bias"] = torch.cat([parameters["bias"], biases])
    made.load_state_dict(parameters)
    made.fixed_point = net.fixed_point
    return made
