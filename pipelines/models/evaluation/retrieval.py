"""Ranks of true images and captions, and recalls, computed in bounded memory; and the embedding of a split.

A rank is 1 + the number of false candidates with a score as high or higher. So a tie counts against the model: one that
maps everything to the same vector is last, not first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data import Corpus, RunTexts, SceneGraphs
from ..device import rows_to_device
from ..similarities import COSINE, VectorSimilarity
from ..vocabulary import EncodedTexts

TIE = 1e-6  # scores this close count as equal: the accuracy of scores of unit vectors in float32
BLOCK = 1 << 23  # scores computed at a time: 32 MiB in float32
TOP = (1, 5, 10)  # the k of R@k


class Ranks(NamedTuple):
    """The ranks, from 1, of a retrieval in both directions: images (I,), of each image's best caption among all
    captions; captions (C,), of each caption's image among all images. best: (I,) the score of each image's best
    caption.
    """

    images: Tensor
    captions: Tensor
    best: Tensor


def own_scores(images: Tensor, sentences: Tensor, owner: Tensor, similarity: VectorSimilarity = COSINE) -> Tensor:
    """The similarity (C,) of sentences (C, d) with their images (I, d), by `owner`. Raises ValueError if not finite."""
    blocks = max(1, BLOCK // images.shape[1])
    pairs = zip(sentences.split(blocks), owner.split(blocks), strict=True)
    scores = torch.cat([images.new_empty(0), *(similarity.pairs(images[at], part) for part, at in pairs)])
    if not scores.isfinite().all():
        raise ValueError("the model's vectors must be finite, hold NaN or infinity")
    return scores


def rank(images: Tensor, captions: Tensor, owner: Tensor, similarity: VectorSimilarity = COSINE) -> Ranks:
    """Rank all captions (C, d) for every image (I, d), and all images for every caption. owner: (C,) the index of each
    caption's image; every image must have a caption. Raises ValueError for vectors that are not finite.
    """
    own = own_scores(images, captions, owner, similarity)
    best = own.new_full((len(images),), -torch.inf).scatter_reduce(0, owner, own, "amax")
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    ranks = []
    for part, at, true in zip(*(x.split(max(1, BLOCK // len(images))) for x in (captions, owner, own)), strict=True):
        scores = similarity.by_text(part, images)
        scores[torch.arange(len(at), device=at.device), at] = -torch.inf
        ranks.append(1 + (scores > true[:, None] - TIE).sum(1))
        above += (scores > best - TIE).sum(0)
    return Ranks(1 + above, torch.cat(ranks), best)


def ranks_in_rows(scores: Tensor, true: Tensor) -> Tensor:
    """The rank (n,), from 1, of column true (n,) in each row of scores (n, m); a tie counts against it."""
    own = scores.gather(1, true[:, None])
    return 1 + (scores.scatter(1, true[:, None], -torch.inf) > own - TIE).sum(1)


def count_outranking(images: Tensor, best: Tensor, sentences: Tensor, similarity: VectorSimilarity = COSINE) -> Tensor:
    """For each image (I, d), how many false sentences (n, d) score at least as high as its best caption: (I,). best:
    (I,) the score of each image's best caption; scores within TIE of it count as equal.
    """
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    for part in sentences.split(max(1, BLOCK // len(images))):
        above += (similarity.by_text(part, images) > best - TIE).sum(0)
    return above


def recall_metrics(ranks: Tensor) -> dict[str, float]:
    """R@1, R@5 and R@10 in %, the median rank (rounded down) and the mean rank; ranks: (n,), from 1."""
    found = {f"R@{k}": 100.0 * (ranks <= k).double().mean().item() for k in TOP}
    ordered = ranks.sort().values
    middle = (ordered[(len(ranks) - 1) // 2] + ordered[len(ranks) // 2]).item() // 2
    return {**found, "median rank": float(middle), "mean rank": ranks.double().mean().item()}


def retrieval_metrics(ranks: Ranks) -> dict[str, float]:
    """The metrics of both directions, "i2t R@1" … "t2i mean rank", and rsum, the sum of their six recalls in %."""
    metrics = {f"i2t {name}": value for name, value in recall_metrics(ranks.images).items()}
    metrics |= {f"t2i {name}": value for name, value in recall_metrics(ranks.captions).items()}
    metrics["rsum"] = sum(value for name, value in metrics.items() if "R@" in name)
    return metrics


def mean_over_folds(
    images: Tensor, captions: Tensor, owner: Tensor, size: int = 1000, similarity: VectorSimilarity = COSINE
) -> dict[str, float]:
    """The means of the metrics over consecutive full folds of `size` images, as is customary on COCO's 5,000 test
    images. images: (I, d), at least `size`. captions: (C, d). owner: (C,) the index of each caption's image.
    """
    folds = []
    for start in range(0, len(images) - size + 1, size):
        inside = (owner >= start) & (owner < start + size)
        ranks = rank(images[start : start + size], captions[inside], owner[inside] - start, similarity)
        folds.append(retrieval_metrics(ranks))
    return {name: sum(fold[name] for fold in folds) / len(folds) for name in folds[0]}


def count_hits(ranks: Tensor, owner: Tensor, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Per image, the number of its queries with rank <= 1, <= 5 and <= 10, (I, 3), and that of all, (I, 1). ranks: (n,)
    of queries, from 1. owner: (n,) the image index of each query. images: I.
    """
    own = ranks.cpu().numpy()
    of = owner.cpu().numpy()
    counts = [np.bincount(of, own <= k, images) for k in TOP]
    return np.stack(counts, 1), np.bincount(of, minlength=images)[:, None]


EmbedTexts = Callable[[RunTexts, Tensor], Tensor]  # texts, rows (B,) -> (B, d)
IMAGES = 4096
WORDS = 1 << 15  # per batch; this bounds the memory for activations
NUMBERS = 1 << 25  # of features per batch


def embed_images(embed: Callable[[Tensor], Tensor], features: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """Vectors (n, d) of images `rows` (n,), whose features are in `features` (I, …)."""
    with torch.inference_mode():
        return torch.cat(
            [embed(rows_to_device(features, part, device)) for part in rows.split(images_at_once(features))]
        )


def images_at_once(features: Tensor) -> int:
    """How many images with these features (I, …) are embedded at a time."""
    return max(1, min(IMAGES, NUMBERS // features[0].numel()))


def embed_sentences(embed: EmbedTexts, texts: RunTexts, rows: Tensor) -> Tensor:
    """Vectors (n, d) of texts `rows` (n,), in the order of `rows`."""
    vectors = torch.empty(0)
    for places, part in embed_in_batches(embed, texts, rows):
        if not len(vectors):
            vectors = part.new_empty(len(rows), part.shape[1])
        vectors[places.to(part.device)] = part
    return vectors


def embed_texts(
    embed: EmbedTexts, encoded: EncodedTexts, device: torch.device, graphs: SceneGraphs | None = None, language: int = 0
) -> Tensor:
    """Vectors (n, d) of n texts in one language, by its number; graphs: their components, if a model reads them."""
    tokens = torch.from_numpy(encoded.tokens).to(device)
    offsets = torch.from_numpy(encoded.offsets)
    every = torch.arange(len(offsets) - 1)
    return embed_sentences(
        embed, RunTexts(tokens, offsets, len(every), graphs, torch.full_like(every, language)), every
    )


def embed_in_batches(embed: EmbedTexts, texts: RunTexts, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Embed texts `rows` (n,), a CPU tensor, in batches: yields indices into `rows` (b,) and vectors (b, d). On a GPU,
    texts of a batch are of similar length; on a CPU consecutive, so that negatives share common prefixes.
    """
    lengths = texts.offsets[rows + 1] - texts.offsets[rows]
    order = lengths.argsort(descending=True, stable=True) if texts.tokens.is_cuda else torch.arange(len(rows))
    cuts = torch.div(lengths[order].cumsum(0), WORDS, rounding_mode="floor").bincount() if len(rows) else lengths
    for places in order.split(cuts[cuts > 0].tolist()) if len(rows) else ():
        with torch.inference_mode():
            yield places, embed(texts, rows[places])


@dataclass(frozen=True)
class EmbeddedSplit:
    """The I images and n captions of a split as vectors of a model, see `Objective`. captions: (n,) indices into the
    corpus. image: (I,) indices into its images. owner: (n,) the image of each caption, 0 … I - 1. All are on the CPU.
    images: (I, d). vectors: (n, d), of the captions. Both are on the device. seed: the seed of the bootstrap.
    """

    model: Any
    corpus: Corpus
    captions: Tensor
    image: Tensor
    owner: Tensor
    images: Tensor
    vectors: Tensor
    seed: int = 0

    @property
    def caption_ids(self) -> list[str]:
        """The ids of the captions."""
        return [self.corpus.captions.ids[n] for n in self.captions.tolist()]

    @property
    def image_ids(self) -> list[str]:
        """The ids of the images."""
        return [self.corpus.captions.image_ids[n] for n in self.image.tolist()]

    def rank(self, language: int = 0) -> Ranks:
        """The ranks of its images and its captions in a language, by its number, without attack."""
        its = self.corpus.captions.language[self.captions] == language
        device = self.images.device
        return rank(self.images, self.vectors[its.to(device)], self.owner[its].to(device), self.model.similarity)

    def image_of_negative(self, negatives: Tensor) -> Tensor:
        """(P,) the image of the caption that each of the negatives (P,) was made from, 0 … I - 1."""
        image = torch.zeros(self.corpus.texts.captions, dtype=torch.long)
        image[self.captions] = self.owner
        return image[self.corpus.negative_caption[negatives]]


def embed_split(model: Any, corpus: Corpus, captions: Tensor, seed: int = 0) -> EmbeddedSplit:
    """The captions (n,) of a corpus and their images as vectors of a model; seed: of the bootstrap."""
    image, owner = corpus.captions.image[captions].unique(return_inverse=True)
    images = embed_images(model.image, corpus.features.values, image, corpus.device)
    vectors = embed_sentences(model.sentences, corpus.texts, captions)
    return EmbeddedSplit(model, corpus, captions, image, owner, images, vectors, seed)
