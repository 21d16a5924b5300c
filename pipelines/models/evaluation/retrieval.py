"""Ranks of true images and captions, and recalls, computed in bounded memory; and the embedding of a split.

What a rank is, and what a tie counts, is said in `models.ranking`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data import Corpus, RunTexts, SceneGraphs
from ..device import rows_to_device
from ..encoders import EmbeddingModel
from ..ranking import BLOCK, blocks, outranks
from ..similarities import COSINE, VectorSimilarity
from ..vocabulary import EncodedTexts

TOP = (1, 5, 10)  # the k of R@k


class Ranks(NamedTuple):
    """The ranks, from 1, of a retrieval in both directions.

    images: (I,), of each image's best caption among all captions. captions: (C,), of each caption's image among all
    images. best: (I,) the score of each image's best caption.
    """

    images: Tensor
    captions: Tensor
    best: Tensor


def own_scores(
    images: Tensor, captions: Tensor, image_of_caption: Tensor, similarity: VectorSimilarity = COSINE
) -> Tensor:
    """The similarity (C,) of captions (C, d) with their own images (I, d). Raises ValueError if one is not finite.

    image_of_caption: (C,) the index of each caption's image. similarity: how vectors are compared.
    """
    scores_of_blocks = []
    for rows in blocks(len(captions), images.shape[1]):
        scores_of_blocks.append(similarity.pairs(images[image_of_caption[rows]], captions[rows]))
    scores = torch.cat(scores_of_blocks)
    if not scores.isfinite().all():
        raise ValueError("the model's vectors must be finite, hold NaN or infinity")
    return scores


def rank(
    images: Tensor,
    captions: Tensor,
    image_of_caption: Tensor,
    similarity: VectorSimilarity = COSINE,
    numbers: int = BLOCK,
) -> Ranks:
    """Rank all captions for every image, and all images for every caption.

    Args:
        images: vectors (I, d).
        captions: vectors (C, d).
        image_of_caption: (C,) the index of each caption's image; every image must have a caption.
        similarity: how vectors are compared.
        numbers: how many scores are in memory together.

    Raises:
        ValueError: a vector is not finite.
    """
    own = own_scores(images, captions, image_of_caption, similarity)
    # An image's own caption with the highest score gives its rank: a search is right if it finds any of them.
    best = own.new_full((len(images),), -torch.inf).scatter_reduce(0, image_of_caption, own, "amax")
    captions_above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    ranks_of_captions = []
    for rows in blocks(len(captions), len(images), numbers):
        scores = similarity.by_text(captions[rows], images)  # (b, I)
        own_image = image_of_caption[rows]
        # A caption and its own image are no false candidates of each other: -inf is never counted as above.
        scores[torch.arange(len(own_image), device=own_image.device), own_image] = -torch.inf
        ranks_of_captions.append(1 + outranks(scores, own[rows, None]).sum(1))
        captions_above += outranks(scores, best).sum(0)
    return Ranks(1 + captions_above, torch.cat(ranks_of_captions), best)


def ranks_in_rows(scores: Tensor, true: Tensor) -> Tensor:
    """The rank (n,), from 1, of column true (n,) in each row of scores (n, m); a tie counts against it."""
    columns = true[:, None]
    # The true column itself never counts as false, though its score equals its own.
    false = scores.scatter(1, columns, -torch.inf)
    return 1 + outranks(false, scores.gather(1, columns)).sum(1)


def recall_metrics(ranks: Tensor) -> dict[str, float]:
    """R@1, R@5 and R@10 in %, the median rank (rounded down) and the mean rank; ranks: (n,), from 1."""
    # R@k: the share of queries whose true candidate is among the first k
    metrics = {f"R@{k}": 100.0 * (ranks <= k).double().mean().item() for k in TOP}
    ordered = ranks.sort().values
    # The median of an even number of ranks is the mean of the middle two; of an odd number both are the middle one.
    lower_middle = ordered[(len(ranks) - 1) // 2]
    upper_middle = ordered[len(ranks) // 2]
    metrics["median rank"] = float((lower_middle + upper_middle).item() // 2)
    metrics["mean rank"] = ranks.double().mean().item()
    return metrics


def retrieval_metrics(ranks: Ranks) -> dict[str, float]:
    """The metrics of both directions, "i2t R@1" … "t2i mean rank", and rsum, the sum of their six recalls in %."""
    metrics = {f"i2t {name}": value for name, value in recall_metrics(ranks.images).items()}
    metrics |= {f"t2i {name}": value for name, value in recall_metrics(ranks.captions).items()}
    metrics["rsum"] = sum(value for name, value in metrics.items() if "R@" in name)
    return metrics


def mean_over_folds(
    images: Tensor, captions: Tensor, image_of_caption: Tensor, size: int = 1000, similarity: VectorSimilarity = COSINE
) -> dict[str, float]:
    """The means of the metrics over consecutive full folds of images, as is customary on COCO's 5,000 test images.

    Args:
        images: vectors (I, d), at least `size`.
        captions: vectors (C, d).
        image_of_caption: (C,) the index of each caption's image.
        size: images of a fold.
        similarity: how vectors are compared.
    """
    folds = []
    # A last fold that is not full is left out: among fewer candidates the right one is found more easily.
    for start in range(0, len(images) - size + 1, size):
        inside = (image_of_caption >= start) & (image_of_caption < start + size)
        ranks = rank(images[start : start + size], captions[inside], image_of_caption[inside] - start, similarity)
        folds.append(retrieval_metrics(ranks))
    return {name: sum(fold[name] for fold in folds) / len(folds) for name in folds[0]}


class Hits(NamedTuple):
    """What a bootstrap over images resamples. counts: (I, 3), how many of each image's queries have a rank <= 1, <= 5
    and <= 10. sizes: (I, 1), how many queries each image has.
    """

    counts: np.ndarray
    sizes: np.ndarray


def count_hits(ranks: Tensor, image_of_query: Tensor, images: int) -> Hits:
    """How many queries of each image find their true candidate among the first 1, 5 and 10.

    Args:
        ranks: (n,) of the true candidate of each query, from 1.
        image_of_query: (n,) the image that is the query, or the image of the caption that is.
        images: I, how many there are.
    """
    rank = ranks.cpu().numpy()
    image = image_of_query.cpu().numpy()
    # The weights of bincount are True or False: it adds up the hits of each image.
    counts = [np.bincount(image, rank <= k, images) for k in TOP]
    return Hits(np.stack(counts, 1), np.bincount(image, minlength=images)[:, None])


EmbedTexts = Callable[[RunTexts, Tensor], Tensor]  # texts, rows (B,) -> (B, d)
# The most that a batch has, so that activations fit in memory.
IMAGES = 4096
WORDS = 1 << 15
NUMBERS = 1 << 25  # of all features: an image with region features has many


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
        if not len(vectors):  # only the first batch tells how wide vectors are, and of which type
            vectors = part.new_empty(len(rows), part.shape[1])
        vectors[places.to(part.device)] = part
    return vectors


def embed_texts(
    embed: EmbedTexts, encoded: EncodedTexts, device: torch.device, graphs: SceneGraphs | None = None, language: int = 0
) -> Tensor:
    """Vectors (n, d) of n texts in one language.

    Args:
        embed: the part of a model that embeds texts.
        encoded: the texts as word ids.
        device: where the model is.
        graphs: the components of the texts, if the model reads them.
        language: the number of the language among those of the model.
    """
    tokens = torch.from_numpy(encoded.tokens).to(device)
    offsets = torch.from_numpy(encoded.offsets)
    rows = torch.arange(len(offsets) - 1)
    texts = RunTexts(tokens, offsets, len(rows), graphs, torch.full_like(rows, language))
    return embed_sentences(embed, texts, rows)


class EmbeddedTexts(NamedTuple):
    """Vectors (b, d) of a batch of texts; places: (b,) where in the list of all texts each stands."""

    places: Tensor
    vectors: Tensor


def embed_in_batches(embed: EmbedTexts, texts: RunTexts, rows: Tensor) -> Iterator[EmbeddedTexts]:
    """Embed texts `rows` (n,), a CPU tensor, in batches of about WORDS words.

    On a GPU, texts of a batch are of similar length; on a CPU consecutive, so that negatives share common prefixes.
    """
    if not len(rows):
        return
    lengths = texts.offsets[rows + 1] - texts.offsets[rows]
    order = lengths.argsort(descending=True, stable=True) if texts.tokens.is_cuda else torch.arange(len(rows))
    # Batch k has the texts that end within words k * WORDS to (k + 1) * WORDS. A text of more words leaves empty ones.
    batch_of_text = torch.div(lengths[order].cumsum(0), WORDS, rounding_mode="floor")
    sizes = batch_of_text.bincount()
    for places in order.split(sizes[sizes > 0].tolist()):
        with torch.inference_mode():
            yield EmbeddedTexts(places, embed(texts, rows[places]))


@dataclass(frozen=True)
class EmbeddedSplit:
    """The I images and n captions of a split as vectors of a model.

    Attributes:
        model: the one that made the vectors.
        corpus: the run that the captions and images are of.
        captions: (n,) indices into the corpus, on the CPU, as are the next two.
        image_rows: (I,) indices into the images of the corpus.
        image_of_caption: (n,) the image of each caption, 0 … I - 1.
        image_vectors: (I, d), on the device.
        caption_vectors: (n, d), on the device.
        seed: for the bootstrap's random numbers.
    """

    model: EmbeddingModel
    corpus: Corpus
    captions: Tensor
    image_rows: Tensor
    image_of_caption: Tensor
    image_vectors: Tensor
    caption_vectors: Tensor
    seed: int = 0

    @property
    def caption_ids(self) -> list[str]:
        """The ids of the captions."""
        return [self.corpus.captions.ids[n] for n in self.captions.tolist()]

    @property
    def image_ids(self) -> list[str]:
        """The ids of the images."""
        return [self.corpus.captions.image_ids[n] for n in self.image_rows.tolist()]

    def rank(self, language: int = 0) -> Ranks:
        """The ranks of the split's images and of its captions in one language, without attack.

        language: its index in the languages of the corpus, 0 for the first.
        """
        in_language = self.corpus.captions.language[self.captions] == language
        device = self.image_vectors.device
        captions = self.caption_vectors[in_language.to(device)]
        images = self.image_of_caption[in_language].to(device)
        return rank(self.image_vectors, captions, images, self.model.similarity)

    def image_of_negative(self, negatives: Tensor) -> Tensor:
        """(P,) the image of the caption that each of the negatives (P,) was made from, 0 … I - 1."""
        # (C,) for all captions of the corpus; those of other splits get 0, which nothing reads
        image_of_every_caption = torch.zeros(self.corpus.texts.captions, dtype=torch.long)
        image_of_every_caption[self.captions] = self.image_of_caption
        return image_of_every_caption[self.corpus.negative_caption[negatives]]


def embed_split(model: EmbeddingModel, corpus: Corpus, captions: Tensor, seed: int = 0) -> EmbeddedSplit:
    """The captions of a split and their images as vectors of a model.

    Args:
        model: maps both to vectors.
        corpus: the run's captions and features.
        captions: (n,) those to embed, by index.
        seed: of bootstraps over the images.
    """
    image_rows, image_of_caption = corpus.captions.image[captions].unique(return_inverse=True)
    return EmbeddedSplit(
        model=model,
        corpus=corpus,
        captions=captions,
        image_rows=image_rows,
        image_of_caption=image_of_caption,
        image_vectors=embed_images(model.image, corpus.features.values, image_rows, corpus.device),
        caption_vectors=embed_sentences(model.sentences, corpus.texts, captions),
        seed=seed,
    )
