"""How MHA-D is trained: its batches of images with a caption in each language, and the terms of its loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType

import torch
from torch import Generator, Tensor

from ....schemas.captions import LANGUAGE
from ..config import TrainConfig
from ..device import to_device
from ..losses import intra_pair_hinges, max_of_hinges, sum_of_hinges
from ..objective import Batch, Objective, RunTables, autocast
from ..sampling import NegativePool, SampledNegatives, sample_negatives
from ..vse import vse_c_pool
from .losses import diversity_loss
from .model import MultiHeadAttention


@dataclass(frozen=True, eq=False)
class CaptionPool:
    """The train captions by image and language, from which the captions of a batch in further languages are drawn.

    image, position: (C,) of each caption of the first language, its image and its number among that image's, from 0.
    rows, starts: by further language, its train captions sorted by image (n,), and where each image's begin (I + 1,).
    negatives: of English captions; None: the model is trained without.
    """

    image: Tensor
    position: Tensor
    rows: Mapping[str, Tensor]
    starts: Mapping[str, Tensor]
    negatives: NegativePool | None


@dataclass(frozen=True)
class Sample:
    """What joins the B captions of the first language in a batch.

    captions: (B,) by further language, of the same images. negatives: of the batch's English captions, or None.
    """

    captions: Mapping[str, Tensor]
    negatives: SampledNegatives | None


def caption_pool(config: TrainConfig, tables: RunTables) -> CaptionPool:
    """The pool of a run's train captions. Raises ValueError if negatives are wanted and there are none."""
    captions, train = tables.captions, tables.train
    images, size = captions.image, len(captions.image_ids)
    rows, starts = {}, {}
    for number, language in enumerate(captions.languages):
        its = train[captions.language[train] == number]
        rows[language] = its[images[its].argsort(stable=True)]
        starts[language] = torch.zeros(size + 1, dtype=torch.long)
        starts[language][1:] = torch.bincount(images[its], minlength=size).cumsum(0)
    first = captions.languages[0]
    position = torch.zeros(len(images), dtype=torch.long)
    position[rows[first]] = torch.arange(len(rows[first])) - starts[first][images[rows[first]]]
    negatives = vse_c_pool(config, tables) if config.negative_families else None
    others = captions.languages[1:]
    return CaptionPool(
        images,
        position,
        MappingProxyType({name: rows[name] for name in others}),
        MappingProxyType({name: starts[name] for name in others}),
        negatives,
    )


@lru_cache(maxsize=1)
def epoch_order(pool: CaptionPool, seed: int) -> Mapping[str, Tensor]:
    """For each further language, the rows of the pool in the order of an epoch: those of an image are shuffled."""
    generator = Generator().manual_seed(seed)
    order = {}
    for language, rows in pool.rows.items():
        shuffled = rows[torch.randperm(len(rows), generator=generator)]
        order[language] = shuffled[pool.image[shuffled].argsort(stable=True)]
    return order


def sample(pool: CaptionPool, captions: Tensor, config: TrainConfig, generator: Generator) -> Sample:
    """The further captions of a batch, given those of the first language (B,), and negatives of the English ones.

    In an epoch, the captions of an image in one language are paired with a random permutation of those in another one
    (repeated if there are fewer). generator: of the epoch; the permutations depend on the seed it began with.
    """
    order = epoch_order(pool, generator.initial_seed())
    image = pool.image[captions]
    drawn = {}
    for language, rows in order.items():
        starts, ends = pool.starts[language][image], pool.starts[language][image + 1]
        drawn[language] = rows[starts + pool.position[captions] % (ends - starts)]
    negatives = None
    if pool.negatives is not None:
        english = captions if config.languages[0] == LANGUAGE else drawn[LANGUAGE]
        negatives = sample_negatives(pool.negatives, english, config.negatives, generator)
    return Sample(drawn, negatives)


def mhad_losses(
    model: MultiHeadAttention, batch: Batch, sampled: Sample, config: TrainConfig, epoch: int
) -> dict[str, Tensor]:
    """The terms of the loss on a batch by name, each a weighted scalar summed over the batch.

    `en`, `de`, …: images with the captions of a language. `en-de`, …: captions of two languages, times gamma.
    `diversity`: of the heads, see `diversity_loss`. `negatives`: of images with the negatives of their English
    captions, as in VSE-C. epoch: from 1; the first config.warm_up epochs sum the hinges.
    """
    size, device = len(batch.captions), batch.features.device
    negatives = sampled.negatives if epoch > config.negatives_after else None
    rows = {config.languages[0]: batch.captions, **sampled.captions}
    with autocast(config, device):
        images = model.image(batch.features)
        texts = {}
        for language, captions in rows.items():
            if negatives is not None and language == LANGUAGE:
                captions = torch.cat([captions, batch.texts.captions + negatives.rows])
            texts[language] = model.encoder(language)(batch.texts.tokens, batch.texts.offsets, captions)
    pair_loss = sum_of_hinges if epoch <= config.warm_up else max_of_hinges
    terms = {}
    if negatives is not None:
        owner = to_device(negatives.owner, device)
        false = (images[owner] * texts[LANGUAGE][size:]).sum(1)
        texts[LANGUAGE] = texts[LANGUAGE][:size]
        terms["negatives"] = intra_pair_hinges((images * texts[LANGUAGE]).sum(1), false, owner, config.margin)
    for language, vectors in texts.items():
        terms[language] = pair_loss(images @ vectors.T, config.margin, batch.same_image)
    if config.gamma:
        for (one, its), (other, others) in combinations(texts.items(), 2):
            terms[f"{one}-{other}"] = config.gamma * pair_loss(its @ others.T, config.margin, batch.same_image)
    if config.diversity != "none":
        views = [model.heads(vectors) for vectors in (images, *texts.values())]
        terms["diversity"] = config.diversity_weight * diversity_loss(views, config.diversity_margin, config.diversity)
    return terms


MHA_D = Objective(
    MultiHeadAttention,
    mhad_losses,
    sampler=caption_pool,
    sample=sample,
    describe=lambda pool: f"{len(pool.negatives.rows):,} negatives" if pool.negatives is not None else "",
)
