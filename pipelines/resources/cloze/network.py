"""The cloze network in PyTorch; `negcap.augment.cloze.network` computes the same in NumPy.

One GRU reads a caption forward, another backward. The context of a place is the forward state before it and the
backward state after it, and what attention, from these two, finds among all earlier forward and all later backward
states. No state has seen the word at the place itself, so one pass gives the contexts of all places of a caption.
The same network answers for a place of several words, or for an empty one between two words.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ....augment.cloze.file import ABOUT, UNITS, arrays_to_store, read_model
from ....augment.cloze.fixed_point import (
    EXP,
    FOUND,
    GELU,
    LARGEST,
    MEMORY,
    ROW,
    SHARE,
    SIGMOID,
    STATE,
    TANH,
    VECTOR,
    Quantised,
    Table,
)
from ....augment.cloze.states import SPECIAL, UNKNOWN, Units
from ...engine.storage import write_atomically
from .config import Sizes

UNKNOWN_UNIT = SPECIAL.index(UNKNOWN)
# In attention, each distance has a bias; distances of this many units or more share one.
FARTHEST = 7


def log_frequencies(counts: np.ndarray) -> Tensor:
    """The log of each unit's share of the occurrences of all units but the special ones: (units,)."""
    return torch.from_numpy(counts / counts[len(SPECIAL) :].sum()).clamp_min(1e-9).log()


class Cloze(nn.Module):
    """A cloze model, which tells how probable each word is in a gap of a caption: GRUs from both sides, and attention.

    Its parameters' names are those of the arrays in the shipped file.

    fixed_point: whether weights and activations are rounded as in the file and by its reader (see
    `negcap.augment.cloze.fixed_point`); gradients are those without rounding.
    """

    def __init__(self, units: int, sizes: Sizes, dropout: float = 0.0) -> None:
        """Draw random weights of the GRUs, of the attention (query, memory, distance) and of the layers above them.

        Args:
            units: the number of words in the vocabulary.
            sizes: of the layers.
            dropout: the probability that a number between layers is set to 0 while training.
        """
        super().__init__()
        self.sizes = sizes
        self.fixed_point = False
        self.embedding = nn.Embedding(units, sizes.words)
        nn.init.normal_(self.embedding.weight, std=sizes.words**-0.5)
        self.bias = nn.Parameter(torch.zeros(units))
        self.forward_gru = nn.GRU(sizes.words, sizes.states, batch_first=True)
        self.backward_gru = nn.GRU(sizes.words, sizes.states, batch_first=True)
        self.query = nn.Linear(2 * sizes.states, sizes.states)
        self.memory = nn.ModuleList(nn.Linear(sizes.states, 2 * sizes.states) for _ in range(2))
        self.distance = nn.Parameter(torch.zeros(sizes.heads, 2, FARTHEST + 1))
        self.hidden = nn.Linear(3 * sizes.states, sizes.hidden)
        self.output = nn.Linear(sizes.hidden, sizes.words)
        self.dropout = nn.Dropout(dropout)

    def contexts(self, units: Tensor) -> Tensor:
        """A vector for each place, made of the words around it, by which units are scored there: (captions, length - 2,
        words).

        units: (captions, length) numbers of units, from START to END; these two are no places.
        """
        places = units.shape[1] - 2
        vectors = self.dropout(self.vectors[units])
        # Both are (captions, length - 2, states). Row i is of place i + 1: in `before` the state after reading START to
        # place i, in `after` the state after reading END back to place i + 2. So neither has read the place itself.
        before = self._read_states(self.forward_gru, vectors[:, :-2])
        after = self._read_states(self.backward_gru, vectors.flip(1)[:, :-2]).flip(1)
        before = self.dropout(before)
        after = self.dropout(after)
        both = torch.cat([before, after], -1)
        attended = self._attend(both, (before, after)).transpose(1, 2).reshape(-1, places, self.sizes.states)
        hidden = self._apply_linear(self.hidden, torch.cat([both, self.dropout(attended)], -1))
        hidden = self._look_up(GELU, hidden, nn.functional.gelu(hidden, approximate="tanh"))
        return self._round(self._apply_linear(self.output, self.dropout(hidden)), VECTOR)

    def _attend(self, both: Tensor, sides: tuple[Tensor, Tensor]) -> Tensor:
        """Attention: the weighted mean that each place takes of all earlier and later states, by head.

        Args:
            both: the states before and after each place, (captions, places, 2 * states).
            sides: the same two, each (captions, places, states). Each state is also something to attend to.

        Returns:
            (captions, heads, places, states / heads).
        """
        places = both.shape[1]
        heads = self.sizes.heads
        width = self.sizes.states // heads
        query = self._apply_linear(self.query, both).view(-1, places, heads, width).transpose(1, 2) * width**-0.5
        query = self._round(query, int(math.log2(ROW // width)), ROW // width)
        # One after the other along the places: first all forward states, then all backward states.
        memory = torch.cat(
            [self._apply_linear(layer, states) for layer, states in zip(self.memory, sides, strict=True)], 1
        )
        memory = self._round(memory, MEMORY)
        key, value = memory.view(-1, 2 * places, heads, 2 * width).transpose(1, 2).chunk(2, -1)
        shares = self._softmax(query @ key.transpose(2, 3) + self._distance_biases(places))
        return self._round(shares @ value, FOUND)

    @property
    def vectors(self) -> Tensor:
        """The word vectors: (units, words)."""
        return self._quantise(self.embedding.weight, LARGEST)

    def _read_states(self, gru: nn.GRU, vectors: Tensor) -> Tensor:
        """The states of a GRU after each vector, (captions, length, states); vectors: (captions, length, width)."""
        if not self.fixed_point:
            states: Tensor = gru(vectors)[0]
            return states
        # PyTorch's GRU cannot round between its steps, so its equations stand here. The rows of its matrices are those
        # of the reset gate, the update gate and the candidate, one below the other.
        each_state: list[Tensor] = []
        from_vector, from_state, bias, state_bias = gru.all_weights[0]
        gates = vectors @ self._quantise(from_vector).T + bias  # (captions, length, 3 * states)
        weight = self._quantise(from_state).T
        state = vectors.new_zeros(len(vectors), gru.hidden_size)
        for gate in gates.unbind(1):
            reset, update, candidate = gate.chunk(3, -1)
            from_reset, from_update, from_candidate = (state @ weight + state_bias).chunk(3, -1)
            reset = reset + from_reset
            update = update + from_update
            # The values are those of the tables; the exact functions beside them give the gradients.
            reset = self._look_up(SIGMOID, reset, torch.sigmoid(reset))
            update = self._look_up(SIGMOID, update, torch.sigmoid(update))
            candidate = candidate + reset * from_candidate
            candidate = self._look_up(TANH, candidate, torch.tanh(candidate))
            state = self._round(candidate + update * (state - candidate), STATE)
            each_state.append(state)
        return torch.stack(each_state, 1)

    def _softmax(self, weights: Tensor) -> Tensor:
        """The softmax of the weights; in fixed point its values are rounded, its gradient is that without rounding."""
        shares = weights.softmax(-1)
        if not self.fixed_point:
            return shares
        # As the reader of the model's file computes it: exp is looked up in a table, and shares are rounded. Only the
        # values are used here, so the exact ones, which would give the gradient, may be any.
        likely = self._look_up(EXP, weights - weights.amax(-1, keepdim=True), torch.ones(())).detach()
        rounded = self._round(likely / likely.sum(-1, keepdim=True), SHARE, ROW)
        # The value is `rounded`; the difference is a constant for autograd, so the gradient is that of `shares`.
        return shares + (rounded - shares).detach()

    def _look_up(self, table: Table, numbers: Tensor, exact: Tensor) -> Tensor:
        """A function's values as the reader of the model's file computes them, by a table, for numbers of any shape.

        A table has no gradient, so the result has the value of the table and the gradient of `exact`: the difference of
        the two is a constant for autograd. While the net is not yet in fixed point, the result is `exact`.
        """
        if not self.fixed_point:
            return exact
        # The table has the values at equal distances, in whole units of 2^-unit.
        points = (numbers * table.scale + table.offset).clamp(0, len(table.values) - 1).long()
        looked_up = torch.from_numpy(table.values).to(numbers)[points] * 2.0**-table.unit
        return exact + (looked_up - exact).detach()

    def _apply_linear(self, layer: nn.Module, values: Tensor) -> Tensor:
        """A linear layer, with its weight as it is stored."""
        assert isinstance(layer, nn.Linear)
        return nn.functional.linear(values, self._quantise(layer.weight), layer.bias)

    def _quantise(self, weights: Tensor, largest: int = ROW) -> Tensor:
        """A matrix as it is stored, with the gradient of the matrix itself."""
        if not self.fixed_point:
            return weights
        stored = Quantised.from_weights(weights.detach().cpu().numpy(), largest).values
        return weights + (torch.from_numpy(stored).to(weights) - weights).detach()

    def _round(self, values: Tensor, bits: int, largest: int = LARGEST) -> Tensor:
        """Activations in whole units of 2^-bits, at most `largest`, with the gradient without rounding."""
        if not self.fixed_point:
            return values
        values = values.clamp(-largest / 2**bits, largest / 2**bits)
        return values + (torch.round(values * 2**bits) / 2**bits - values).detach()

    def _distance_biases(self, places: int) -> Tensor:
        """What is added to the attention of each place to each state, by their distance: (heads, places, 2 * places).

        The states are the forward ones of all places, then the backward ones. It is -inf for a state that has read the
        word at the place, which is to be predicted.
        """
        position = torch.arange(places)
        # From a state to a place: positive for what lies before it.
        distance = position[:, None] - position[None]
        biases = []
        for side, back in ((0, distance), (1, -distance)):
            bias = self.distance[:, side, back.clamp(0, FARTHEST)]
            biases.append(bias.masked_fill(back < 0, -torch.inf))
        return torch.cat(biases, -1)


MEASURED_AT_ONCE = 256  # captions


class Perplexity(NamedTuple):
    """How well a network tells words from each other.

    perplexity: exp of the mean of -log p(word | the rest of its caption), over the words that are units and with p
        normalised over the whole vocabulary.
    mean_log_sum: the mean log of the sum of all probabilities, 0 if they need no normalising.
    """

    perplexity: float
    mean_log_sum: float


@torch.no_grad()
def perplexity(net: Cloze, captions: list[np.ndarray]) -> Perplexity:
    """Measure a network. Switches dropout off. Raises ValueError if the model knows no word of the captions.

    Args:
        net: the network.
        captions: the numbers of the units of each, between those of START and END.
    """
    net.eval()
    loss = 0.0
    log_sum = 0.0
    words = 0
    for _, group in groupby(sorted(captions, key=len), key=len):
        rows = list(group)
        for start in range(0, len(rows), MEASURED_AT_ONCE):
            units = torch.from_numpy(np.stack(rows[start : start + MEASURED_AT_ONCE])).long()
            targets = units[:, 1:-1].flatten()  # START and END are not predicted
            is_known = targets != UNKNOWN_UNIT
            contexts = net.contexts(units).flatten(0, 1)[is_known]
            targets = targets[is_known]
            scores = contexts @ net.vectors.T + net.bias
            scores[:, : len(SPECIAL)] = -torch.inf
            total = torch.logsumexp(scores, -1)
            loss += float((total - scores.gather(1, targets[:, None])[:, 0]).sum())
            log_sum += float(total.sum())
            words += len(targets)
    if not words:
        raise ValueError("the captions to measure perplexity on must have words that the model knows, have none")
    return Perplexity(math.exp(loss / words), log_sum / words)


@torch.no_grad()
def save(
    path: Path,
    net: Cloze,
    units: Units,
    held_out: list[np.ndarray],
    facts: Mapping[str, object],
    trained_on: list[np.ndarray] | None = None,
) -> dict[str, object]:
    """Write a model in the form that `negcap.augment.cloze.file` reads, and return what it records about itself.

    The biases of `net` are rounded as in the file, and its `fixed_point` is set, which rounds the rest, so that the
    perplexity recorded is that of what is written. The biases are shifted so that the log of the sum of all
    probabilities is 0 on average. The same arguments give the same bytes.

    Args:
        path: the file to write.
        net: the network, which is changed.
        units: its vocabulary.
        held_out: encoded captions to measure the perplexity on, if there are any; the biases are shifted for them.
        facts: what else to record, as JSON has it: what the model was trained on and how.
        trained_on: encoded captions to shift the biases for if none are held out; None: they are not shifted.

    Raises:
        ValueError: a parameter is not finite, or too large for sums to be exact (see
            `negcap.augment.cloze.fixed_point`).
    """
    net.fixed_point = True
    if centred_on := held_out or trained_on:
        net.bias.sub_(perplexity(net, centred_on).mean_log_sum)
    arrays: dict[str, np.ndarray] = {}
    for name, value in net.state_dict().items():
        arrays |= arrays_to_store(name, value.numpy())
        # Matrices are rounded whenever they are used.
        if value.ndim != 2:
            value.copy_(value.half())
    about = {**facts, "negcap_version": version("negcap"), "units": len(units.names)}
    if held_out:
        measured = perplexity(net, held_out)
        about["perplexity"] = round(measured.perplexity, 3)
        about["mean_log_sum"] = round(measured.mean_log_sum, 4)
    arrays[UNITS] = np.frombuffer("\n".join(units.names).encode(), np.uint8)
    write_arrays(path, {**arrays, ABOUT: _as_json(about)})
    return about


def _as_json(about: Mapping[str, object]) -> np.ndarray:
    """Facts as the bytes of their JSON, so that an archive of arrays can hold them."""
    return np.frombuffer(json.dumps(about, sort_keys=True, ensure_ascii=False).encode(), np.uint8)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays of a model's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    archive = io.BytesIO()
    # Without times: its members' date is always 1980.
    np.savez_compressed(archive, allow_pickle=False, **arrays)
    write_atomically(path, archive.getbuffer())


def write_part(
    model: Path, output: Path, prefix: str, part: Mapping[str, np.ndarray], facts: Mapping[str, object]
) -> None:
    """Write a model's file anew with another part, such as another surrogate.

    Args:
        model: the file to read.
        output: the file to write; it may be the same.
        prefix: with which the names of the part's arrays begin; those that the model has are left out.
        part: the arrays of the new part, by name.
        facts: what the file records about it; they replace facts of the same names.
    """
    with np.load(model) as archive:
        arrays = {name: archive[name] for name in archive.files if not name.startswith(prefix)}
    about = json.loads(arrays[ABOUT].tobytes()) | facts
    write_arrays(output, {**arrays, **part, ABOUT: _as_json(about)})


class LoadedCloze(NamedTuple):
    """The vocabulary and the network of a model's file."""

    units: Units
    net: Cloze


def load(path: Path, dropout: float = 0.0) -> LoadedCloze:
    """Load a model file to train it on: its vocabulary, and its network in fixed point.

    The parts that are fitted after the network, its surrogate and the model of raters, are left out. dropout: of the
    network, in training. Raises FileNotFoundError or ValueError, naming the file, if it is missing or
    damaged.
    """
    units, arrays = read_model(path)
    width = arrays["embedding.weight"].shape[1]  # of a word's vector
    states = len(arrays["query.bias"])
    sizes = Sizes(words=width, states=states, hidden=len(arrays["hidden.bias"]), heads=len(arrays["distance"]))
    net = Cloze(len(units.names), sizes, dropout)
    parameters = {name: torch.from_numpy(arrays[name]) for name in net.state_dict() if name in arrays}
    net.load_state_dict(parameters)
    net.fixed_point = True
    return LoadedCloze(units, net)


def enlarged(net: Cloze, old: Units, new: Units, counts: np.ndarray) -> Cloze:
    """A network for a larger vocabulary, which reads old words as before.

    A new word has the vector of UNKNOWN, a new phrase the mean of the vectors of its words. Their biases are the logs
    of their relative frequencies.

    Args:
        net: the network for the old vocabulary; its parameters are taken over.
        old: the units of that.
        new: the units of the result, which begin with the old ones.
        counts: (units,) how often each new unit occurs.
    """
    larger = Cloze(len(new.names), net.sizes, net.dropout.p)
    parameters = dict(net.state_dict())
    if added := new.names[len(old.names) :]:
        vectors = parameters["embedding.weight"]
        unknown = old.number[UNKNOWN]
        new_rows = []
        for name in added:
            numbers = [old.number.get(word, unknown) for word in name.split(" ")]
            new_rows.append(vectors[numbers].mean(0))
        parameters["embedding.weight"] = torch.cat([vectors, torch.stack(new_rows)])
        parameters["bias"] = torch.cat([parameters["bias"], log_frequencies(counts)[len(old.names) :].float()])
    larger.load_state_dict(parameters)
    larger.fixed_point = net.fixed_point
    return larger
