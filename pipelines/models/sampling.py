"""Batches of captions, sampled negatives, and sentences packed for recurrent nets, without loops over samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor


class PackedSentences(NamedTuple):
    """B sentences in the layout of torch's PackedSequence: all first words, then all second words, …; longest first.

    positions: (total,) indices of the words in the flat array of word ids. sizes: (T,) how many sentences have a word
    at each step. inverse: (B,) the position of each sentence in the packed order. All on the CPU.
    """

    positions: Tensor
    sizes: Tensor
    inverse: Tensor


def pack_sentences(offsets: Tensor, rows: Tensor, longest: int | None = None) -> PackedSentences:
    """The packed layout of sentences `rows` (B,) of a flat array of word ids; offsets: (n + 1,), where each starts.

    longest: how many of a sentence's words are used, at most; None: all.
    """
    starts = offsets[rows]
    lengths = offsets[rows + 1] - starts
    lengths = lengths if longest is None else lengths.clamp(max=longest)
    lengths, order = lengths.sort(descending=True, stable=True)
    steps = torch.arange(int(lengths[0]))[:, None]
    present = steps < lengths[None, :]
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    return PackedSentences((starts[order][None, :] + steps)[present], present.sum(1), inverse)


class NegativePool(NamedTuple):
    """Negatives to sample from, grouped by caption: those of caption c are `rows[starts[c]:starts[c + 1]]`.

    rows: (m,) indices among all M negatives of the run. starts: (C + 1,). weights: (m,) sampling weights of `rows`.
    """

    rows: Tensor
    starts: Tensor
    weights: Tensor


def build_pool(caption: Tensor, family: Tensor, wanted: Tensor, captions: int) -> NegativePool:
    """A pool of the wanted negatives, weighted so that all families that a caption has are equally likely.

    caption, family: (M,) indices for each negative. wanted: (M,) bool. captions: C.
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
    """P negatives sampled for a batch.

    rows: (P,) indices among all negatives of the run. owner: (P,) the index in the batch of the caption each belongs
    to.
    """

    rows: Tensor
    owner: Tensor


def sample_negatives(pool: NegativePool, captions: Tensor, n: int, generator: Generator) -> SampledNegatives:
    """Sample n negatives per caption of a batch (B,), by weight and without replacement; all, if it has at most n.

    Draws an exponential variable per negative, with its weight as rate, and takes the n smallest (Efraimidis and
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
    """Batches of `batch_size` captions (n,), shuffled; a last batch of one, which has no negatives, is left out."""
    order = captions[torch.randperm(len(captions), generator=generator)]
    return (batch for batch in order.split(batch_size) if len(batch) > 1)
