"""Batches of a training: captions in random order, negatives sampled for them, and what a model makes of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from .config import NegativesConfig
from .data import Corpus, Texts

Terms = dict[str, Tensor]  # of a loss, by name: scalars


class Batch(NamedTuple):
    """B pairs of an image and a caption: captions (B,), indices into `texts`, all texts of the run, on the CPU; on the
    device features (B, …) of the images, and same_image (B, B) bool, True where caption j describes image i.
    """

    captions: Tensor
    features: Tensor
    same_image: Tensor
    texts: Texts


@dataclass(frozen=True)
class Objective:
    """How a model is built and trained.

    build(config, features, words, vectors): a new model, given the size of an image's features and of the vocabulary,
    and initial word vectors (words, word_dim) or None; words and vectors once more, as a pair, for each further
    language. losses(model, batch, sampled, config, epoch): the terms of the loss by name, each a scalar summed over the
    batch. sampler(config, corpus, train): what samples for the captions train (n,), such as negatives: its
    sample(captions, generator) is called for each batch (B,), as a text it tells its size; None: nothing is.
    needs_components: whether the model reads scene graphs.
    """

    build: Callable[..., Any]
    losses: Callable[[Any, Batch, Any, Any, int], Terms]
    sampler: Callable[[Any, Corpus, Tensor], Any] = lambda config, corpus, train: None
    needs_components: bool = False


def autocast(config: Any, device: torch.device) -> AbstractContextManager:
    """A context in which a GPU computes in bf16 if the config has `amp`; on a CPU it does nothing."""
    return torch.autocast("cuda", torch.bfloat16) if config.amp and device.type == "cuda" else nullcontext()


def shuffled_batches(captions: Tensor, batch_size: int, generator: Generator) -> Iterator[Tensor]:
    """Batches of `batch_size` captions (n,), shuffled; a last batch of one, which has no negatives, is left out."""
    order = captions[torch.randperm(len(captions), generator=generator)]
    return (batch for batch in order.split(batch_size) if len(batch) > 1)


class Drawn(NamedTuple):
    """P negatives drawn for a batch: rows (P,), indices among all negatives; owner (P,), the index in the batch of the
    caption of each; family (P,), a position in the config's `negative_families`; concreteness (P,), how concrete the
    noun is that it puts in, from 0 to 1, 0 if it puts in none.
    """

    rows: Tensor
    owner: Tensor
    family: Tensor
    concreteness: Tensor


_EMPTY = torch.empty(0, dtype=torch.long)
NONE = Drawn(_EMPTY, _EMPTY, _EMPTY, torch.empty(0))


class NegativePool:
    """Negatives to sample from, grouped by caption: those of caption c are `rows[starts[c]:starts[c + 1]]`. owner,
    family, concrete: (M,) the caption of each, and as in `Drawn`. wanted: (M,) bool, those to sample from. captions: C.
    n: how many are sampled per caption. even: whether families, not negatives, are equally likely.
    """

    def __init__(
        self, owner: Tensor, family: Tensor, concrete: Tensor, wanted: Tensor, captions: int, n: int, even: bool = True
    ) -> None:
        rows = wanted.nonzero()[:, 0]
        self.rows = rows = rows[owner[rows].argsort(stable=True)]
        self.starts = torch.searchsorted(owner[rows], torch.arange(captions + 1))
        kind = owner[rows] * (int(family.max()) + 1 if len(family) else 1) + family[rows]
        self.weights = 1.0 / torch.bincount(kind, minlength=1)[kind].float() if even else torch.ones(len(rows))
        self.family, self.concreteness, self.n = family, concrete, n

    def __str__(self) -> str:
        return f"{len(self.rows):,} negatives"

    def sample(self, captions: Tensor, generator: Generator) -> Drawn:
        """Sample n negatives per caption of a batch (B,), by weight and without replacement; all, if it has at most n.
        They are the n smallest of exponential variables with the weights as rates (Efraimidis and Spirakis 2006).
        """
        starts = self.starts[captions]
        counts = self.starts[captions + 1] - starts
        width = int(counts.max()) if len(counts) else 0
        if width == 0:
            return NONE
        slots = torch.arange(width)[None, :]
        present = slots < counts[:, None]
        at = (starts[:, None] + slots).clamp(max=len(self.rows) - 1)
        arrival = torch.empty(at.shape).exponential_(generator=generator) / self.weights[at]
        chosen = arrival.masked_fill(~present, float("inf")).topk(min(self.n, width), dim=1, largest=False).indices
        kept = present.gather(1, chosen)
        rows, owner = self.rows[at.gather(1, chosen)][kept], kept.nonzero()[:, 0]
        return Drawn(rows, owner, self.family[rows], self.concreteness[rows])


def negative_pool(config: NegativesConfig, corpus: Corpus, train: Tensor) -> NegativePool:
    """The negatives of the captions train (n,) from which a model samples. Raises ValueError if there are none."""
    wanted = corpus.of_families(config.negative_families) & corpus.made_by(config.negative_operators)
    wanted &= torch.isin(corpus.negative_caption, train)
    positions = {name: position for position, name in enumerate(config.negative_families)}
    family = torch.tensor([positions.get(name, 0) for name in corpus.families], dtype=torch.long)[corpus.family]
    given = corpus.negative_caption, family, corpus.concreteness, wanted, corpus.texts.captions, config.negatives
    pool = NegativePool(*given, config.balance_families)
    if not len(pool.rows):
        known = ", ".join(corpus.families) or "none: run negcap build first"
        wanted_of = f"{', '.join(config.negative_families)} by {', '.join(config.negative_operators)}"
        rule = "negative_families must have negatives of train captions"
        raise ValueError(f"{rule}, have none: {wanted_of} (families in {config.run}: {known})")
    return pool
