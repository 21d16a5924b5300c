"""Batches of captions, negatives sampled for them, and the packed layout of their words; without loops over samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor


class PackedSentences(NamedTuple):
    """B sentences laid out for torch's PackedSequence: all first words, then all second words, …; longest first.

    positions: (total,) indices of their words in the flat array of tokens; sizes: (T,) how many sentences have a word
    at each step; inverse: (B,) the packed index of each sentence. All on the CPU.
    """

    positions: Tensor
    sizes: Tensor
    inverse: Tensor


def pack_sentences(offsets: Tensor, rows: Tensor) -> PackedSentences:
    """The packed layout of sentences `rows` (B,) of a flat array with offsets (n + 1,)."""
    starts = offsets[rows]
    lengths, order = (offsets[rows + 1] - starts).sort(descending=True, stable=True)
    steps = torch.arange(int(lengths[0]))[:, None]
    present = steps < lengths[None, :]
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    return PackedSentences((starts[order][None, :] + steps)[present], present.sum(1), inverse)


class NegativePool(NamedTuple):
    """Negatives to sample from: those of caption c are `rows[starts[c]:starts[c + 1]]`, with `weights` likewise.

    rows: (m,) indices among all M negatives; starts: (C + 1,); weights: (m,).
    """

    rows: Tensor
    starts: Tensor
    weights: Tensor


def build_pool(caption: Tensor, family: Tensor, wanted: Tensor, captions: int) -> NegativePool:
    """The pool of the wanted negatives; the families of a caption's negatives have equal weight in total.

    caption, family: (M,) of each negative; wanted: (M,) bool; captions: C.
    """
    rows = wanted.nonzero()[:, 0]
    rows = rows[caption[rows].argsort(stable=True)]
    owner = caption[rows]
    starts = torch.zeros(captions + 1, dtype=torch.long)
    starts[1:] = torch.bincount(owner, minlength=captions).cumsum(0)
    families = int(family.max()) + 1 if len(family) else 1
    kind = owner * families + family[rows]
    weights = 1.0 / torch.bincount(kind, minlength=1)[kind].float()
    return NegativePool(rows, starts, weights)


class SampledNegatives(NamedTuple):
    """P negatives for a batch: `rows` (P,) among all negatives, `owner` (P,) the batch index of their captions."""

    rows: Tensor
    owner: Tensor


def sample_negatives(pool: NegativePool, captions: Tensor, n: int, generator: Generator) -> SampledNegatives:
    """Sample n negatives of each caption (B,) by weight without replacement; all of a caption that has no more.

    The n smallest of independent exponential variables with the weights as rates are such a sample (Efraimidis and
    Spirakis 2006).
    """
    starts = pool.starts[captions]
    counts = pool.starts[captions + 1] - starts
    width = int(counts.max()) if len(counts) else 0
    if width == 0:
        return SampledNegatives(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long))
    slots = torch.arange(width)[None, :]
    present = slots < counts[:, None]
    at = (starts[:, None] + slots).clamp(max=len(pool.rows) - 1)
    arrival = torch.empty(at.shape).exponential_(generator=generator) / pool.weights[at]
    arrival = arrival.masked_fill(~present, float("inf"))
    chosen = arrival.topk(min(n, width), dim=1, largest=False).indices
    kept = present.gather(1, chosen)
    owner = torch.arange(len(captions))[:, None].expand_as(chosen)
    return SampledNegatives(pool.rows[at.gather(1, chosen)][kept], owner[kept])


def shuffled_batches(captions: Tensor, batch_size: int, generator: Generator) -> Iterator[Tensor]:
    """Captions (n,) in random order, `batch_size` at a time; a last batch of one, without negatives, is left out."""
    order = captions[torch.randperm(len(captions), generator=generator)]
    return (batch for batch in order.split(batch_size) if len(batch) > 1)
