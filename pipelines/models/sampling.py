"""Batches by index: which captions, which of their negatives, and where their words lie. No Python per sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor


def to(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; to a GPU without waiting for it."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


class Packed(NamedTuple):
    """B sentences laid out step by step for a recurrent net: all first words, all second words, …, longest first.

    positions: (total,) where the words lie in the flat array of tokens; sizes: (T,) sentences that reach each step;
    inverse: (B,) the packed place of each sentence. All on the CPU.
    """

    positions: Tensor
    sizes: Tensor
    inverse: Tensor


def pack(offsets: Tensor, rows: Tensor) -> Packed:
    """Lay out sentences `rows` (B,) of a flat array with `offsets` (n + 1,)."""
    starts = offsets[rows]
    lengths, order = (offsets[rows + 1] - starts).sort(descending=True, stable=True)
    steps = torch.arange(int(lengths[0]))[:, None]
    reached = steps < lengths[None, :]
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    return Packed((starts[order][None, :] + steps)[reached], reached.sum(1), inverse)


class Pool(NamedTuple):
    """Negatives to draw from: those of caption c are `rows[starts[c]:starts[c + 1]]`, each with its `weights`."""

    rows: Tensor
    starts: Tensor
    weights: Tensor


def make_pool(caption: Tensor, family: Tensor, wanted: Tensor, captions: int) -> Pool:
    """The pool of the negatives that are `wanted`; each family of a caption's negatives has the same weight in all.

    caption, family: (M,) of each negative; wanted: (M,) bool; captions: how many captions there are.
    """
    rows = wanted.nonzero()[:, 0]
    rows = rows[caption[rows].argsort(stable=True)]
    owner = caption[rows]
    starts = torch.zeros(captions + 1, dtype=torch.long)
    starts[1:] = torch.bincount(owner, minlength=captions).cumsum(0)
    families = int(family.max()) + 1 if len(family) else 1
    kind = owner * families + family[rows]
    weights = 1.0 / torch.bincount(kind, minlength=1)[kind].float()
    return Pool(rows, starts, weights)


class Drawn(NamedTuple):
    """Negatives drawn for a batch: `rows` (P,), and for each the place in the batch of the caption it is of."""

    rows: Tensor
    owner: Tensor


def draw(pool: Pool, captions: Tensor, n: int, generator: Generator) -> Drawn:
    """n different negatives of each caption by weight (all, where there are no more); captions: (B,).

    The first n of independent exponential arrivals with the weights as rates: a weighted draw without replacement.
    """
    starts = pool.starts[captions]
    counts = pool.starts[captions + 1] - starts
    width = int(counts.max()) if len(counts) else 0
    if width == 0:
        return Drawn(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))
    places = torch.arange(width)[None, :]
    there = places < counts[:, None]
    at = (starts[:, None] + places).clamp(max=len(pool.rows) - 1)
    arrival = torch.empty(at.shape).exponential_(generator=generator) / pool.weights[at]
    arrival = arrival.masked_fill(~there, float("inf"))
    chosen = arrival.topk(min(n, width), dim=1, largest=False).indices
    kept = there.gather(1, chosen)
    owner = torch.arange(len(captions))[:, None].expand_as(chosen)
    return Drawn(pool.rows[at.gather(1, chosen)][kept], owner[kept])


def shuffled(captions: Tensor, batch_size: int, generator: Generator) -> Iterator[Tensor]:
    """All captions in random order, `batch_size` at a time; a last batch of one, which has no negative, is left out."""
    order = captions[torch.randperm(len(captions), generator=generator)]
    return (batch for batch in order.split(batch_size) if len(batch) > 1)
