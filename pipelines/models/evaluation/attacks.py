"""Attacks: negatives that join the captions as candidates, and the ranks of images' best captions among them.

VSE-C (Shi et al. 2018, Tables 2 to 4): the candidates of an image are all captions, and the negatives of its own ones.
UniVSE (Wu et al. 2019, Table 2): all images share one set of candidates, the captions and 5 negatives of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from negcap.augment.operators import OPERATORS, PRESETS
from negcap.pipelines.models.config import EvaluateConfig
from negcap.pipelines.models.corpus import Corpus
from negcap.pipelines.models.evaluation.embed import embed_in_parts
from negcap.pipelines.models.evaluation.retrieval import TIE, Ranks, count_outranking
from negcap.pipelines.models.evaluation.split import EmbeddedSplit

VSE_C = PRESETS["vse-c"]
FAMILIES: Mapping[str, tuple[str, ...]] = {
    family: tuple(name for name in VSE_C if OPERATORS[name].family == family)
    for family in dict.fromkeys(OPERATORS[name].family for name in VSE_C)
}  # the operators of VSE-C's attacks


class Attacks(NamedTuple):
    """Negatives (P,) of a split, by attack, as indices among the M of the corpus.

    own: VSE-C's attacks by family; shared: UniVSE's attacks by operator; pairs: the first negative of each caption, by
    operator, for the pairwise comparison.
    """

    own: dict[str, Tensor]
    shared: dict[str, Tensor]
    pairs: dict[str, Tensor]

    @property
    def negatives(self) -> Tensor:
        """All negatives of all attacks, each once, in order."""
        return torch.cat([rows for attacks in self for rows in attacks.values()]).unique()


class NegativeScores(NamedTuple):
    """A model's scores of the negatives.

    own: (M,) with the image of their captions, NaN for negatives of no attack. outranking: by shared attack, (I,) how
    many of its negatives score as high as the best caption of each image.
    """

    own: Tensor
    outranking: Mapping[str, Tensor]


def choose_attacks(corpus: Corpus, captions: Tensor, config: EvaluateConfig) -> Attacks:
    """The negatives of captions (n,) that the protocols ask for; config: how many of each."""
    univse = [name for name in PRESETS["univse"] if name in corpus.operators]
    return Attacks(
        {name: first_negatives(corpus, captions, made, config.per_family) for name, made in FAMILIES.items()},
        {name: first_negatives(corpus, captions, [name], config.per_attack) for name in univse},
        {name: first_negatives(corpus, captions, [name], 1) for name in corpus.operators},
    )


def first_negatives(corpus: Corpus, captions: Tensor, operators: Sequence[str], most: int) -> Tensor:
    """Up to `most` negatives of each of the captions (n,): first draw of each operator, then second draws, …; (P,)."""
    wanted = torch.zeros(corpus.captions, dtype=torch.bool)
    wanted[captions] = True
    rows = (corpus.made_by(operators) & wanted[corpus.negative_caption]).nonzero()[:, 0]
    key = (corpus.draw[rows].long() * (len(corpus.operators) + 1)) + corpus.operator[rows]
    rows = rows[key.argsort(stable=True)]
    rows = rows[corpus.negative_caption[rows].argsort(stable=True)]
    owner = corpus.negative_caption[rows]
    counts = torch.bincount(owner, minlength=corpus.captions)
    position = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[owner]
    return rows[position < most]


def score_negatives(split: EmbeddedSplit, attacks: Attacks, best: Tensor) -> NegativeScores:
    """Embed every negative of the attacks once and keep only its scores; best: (I,) score of images' best captions."""
    corpus, images = split.corpus, split.images
    shared = torch.zeros(len(corpus.operator), dtype=torch.int64)  # bit k: of the k-th shared attack
    for bit, rows in enumerate(attacks.shared.values()):
        shared[rows] |= 1 << bit
    negatives = attacks.negatives
    image_of = split.image_of_negative(negatives)
    own = torch.full((len(corpus.operator),), torch.nan)
    outranking = {name: torch.zeros(len(images), dtype=torch.long, device=images.device) for name in attacks.shared}
    for places, vectors in embed_in_parts(split.model.sentences, split.texts, corpus.captions + negatives):
        rows = negatives[places]
        own[rows] = (images[image_of[places].to(images.device)] * vectors).sum(1).cpu()
        for bit, name in enumerate(attacks.shared):
            inside = (shared[rows] >> bit & 1).bool().to(vectors.device)
            outranking[name] += count_outranking(images, best, vectors[inside])
    return NegativeScores(own, outranking)


def ranks_with_own_negatives(ranks: Ranks, own: Tensor, negatives: Tensor, owner: Tensor) -> Tensor:
    """Ranks (I,) of images' best captions when the negatives of its captions join each image's candidates.

    own: (M,) scores of negatives with the image of their captions; negatives: (P,); owner: (P,) the image of each.
    """
    outranks = (own[negatives] > ranks.best.cpu()[owner] - TIE).long()
    return ranks.images.cpu() + torch.zeros(len(ranks.images), dtype=torch.long).index_add(0, owner, outranks)
