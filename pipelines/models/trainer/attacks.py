"""Adversarial candidates: which negatives join the captions, and how an image's best caption ranks among them.

VSE-C (Shi et al. 2018, Tables 2 to 4): the candidates of an image are all captions and the negatives of its own.
UniVSE (Wu et al. 2019, Table 2): one set of candidates for all images, the captions and 5 negatives of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from negcap.augment.operators import OPERATORS, PRESETS
from negcap.pipelines.models.data import Corpus
from negcap.pipelines.models.embed import embedded
from negcap.pipelines.models.retrieval import TIE, Ranks, outranking
from negcap.pipelines.models.texts import Texts
from negcap.pipelines.models.trainer.objective import Model

VSE_C = PRESETS["vse-c"]
FAMILIES: Mapping[str, tuple[str, ...]] = {
    family: tuple(name for name in VSE_C if OPERATORS[name].family == family)
    for family in dict.fromkeys(OPERATORS[name].family for name in VSE_C)
}


def choose(corpus: Corpus, captions: Tensor, operators: Sequence[str], most: int) -> Tensor:
    """Negatives (P,): the first `most` draws of these operators, in turn, of each of the captions (n,)."""
    asked = torch.zeros(corpus.captions, dtype=torch.bool)
    asked[captions] = True
    rows = (corpus.made_by(operators) & asked[corpus.negative_caption]).nonzero()[:, 0]
    key = (corpus.draw[rows].long() * (len(corpus.operators) + 1)) + corpus.operator[rows]
    rows = rows[key.argsort(stable=True)]
    rows = rows[corpus.negative_caption[rows].argsort(stable=True)]
    owner = corpus.negative_caption[rows]
    counts = torch.bincount(owner, minlength=corpus.captions)
    place = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[owner]
    return rows[place < most]


@dataclass(frozen=True)
class Scores:
    """A model's scores of the negatives: with the image each is false of, (M,), NaN where none was asked for.

    crowded: of each attack with one set of candidates, (I,): how many of all its negatives outrank the best caption.
    """

    own: Tensor
    crowded: Mapping[str, Tensor]


def score(
    model: Model,
    corpus: Corpus,
    texts: Texts,
    images: Tensor,
    image: Tensor,
    best: Tensor,
    alone: Sequence[Tensor],
    together: Mapping[str, Tensor],
) -> Scores:
    """Embed every negative that some attack has, once, and keep of it nothing but scores.

    images: (I, d); image: (C,) the row of each caption's image in them; best: (I,) the score of each image's best
    caption; alone: negatives scored with their own image only; together: with every image.
    """
    kinds = torch.zeros(len(corpus.operator), dtype=torch.int64)
    for bit, rows in enumerate(together.values()):
        kinds[rows] |= 1 << bit
    asked = kinds > 0
    for rows in alone:
        asked[rows] = True
    rows = asked.nonzero()[:, 0]
    own = torch.full((len(corpus.operator),), torch.nan)
    crowded = {name: torch.zeros(len(images), dtype=torch.long, device=images.device) for name in together}
    for places, vectors in embedded(model.sentences, texts, corpus.captions + rows):
        some = rows[places]
        mine = images[image[corpus.negative_caption[some]].to(images.device)]
        own[some] = (mine * vectors).sum(1).cpu()
        for bit, name in enumerate(together):
            inside = (kinds[some] >> bit & 1).bool().to(vectors.device)
            crowded[name] += outranking(images, best, vectors[inside])
    return Scores(own, crowded)


def attacked(ranks: Ranks, own: Tensor, rows: Tensor, owner: Tensor) -> Tensor:
    """Ranks of the images' best captions when negatives `rows` of its own captions join each image's candidates: (I,).

    own: (M,) scores of negatives with their image; owner: (P,) the image of each of the rows.
    """
    beaten = (own[rows] > ranks.best.cpu()[owner] - TIE).long()
    return ranks.images.cpu() + torch.zeros(len(ranks.images), dtype=torch.long).index_add(0, owner, beaten)


def preset_operators(corpus: Corpus, preset: str) -> tuple[str, ...]:
    """The operators of a preset that made any of the negatives."""
    return tuple(name for name in PRESETS[preset] if name in corpus.operators)
