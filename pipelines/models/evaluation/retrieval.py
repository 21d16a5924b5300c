"""Ranks of true images and captions, recalls and their confidence intervals, computed in bounded memory.

A rank is 1 + the number of false candidates with a score as high or higher. So a tie counts against the model: one that
maps everything to the same vector is last, not first.

Unified text-to-image retrieval: objects, attributed objects and triples as queries (UniVSE, Table 3).

Queries are frequent components of the train captions; the captions of the evaluated split say which images are right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

import pyarrow as pa
import torch
from torch import Generator, Tensor

from ..data import PARTS, Corpus, Phrase, Texts
from ..device import take
from ..encoders import ImageEncoder
from ..similarities import COSINE, Similarity
from ..vocabulary import WordVocabulary

TIE = 1e-6  # scores this close count as equal: the accuracy of scores of unit vectors in float32
BLOCK = 1 << 23  # scores computed at a time: 32 MiB in float32
TOP = (1, 5, 10)  # the k of R@k
RESAMPLES = 2000  # of the bootstrap


class Ranks(NamedTuple):
    """The ranks, from 1, of a retrieval in both directions.

    images: (I,) the rank of each image's best caption among all captions. captions: (C,) the rank of each caption's
    image among all images. best: (I,) the score of each image's best caption.
    """

    images: Tensor
    captions: Tensor
    best: Tensor


def own_scores(images: Tensor, sentences: Tensor, owner: Tensor, similarity: Similarity = COSINE) -> Tensor:
    """The similarity (C,) of each sentence (C, d) with its image; owner: (C,) its index among images (I, d).

    Raises ValueError for vectors that are not finite.
    """
    blocks = max(1, BLOCK // images.shape[1])
    pairs = zip(sentences.split(blocks), owner.split(blocks), strict=True)
    scores = (
        torch.cat([similarity.pairs(images[at], part) for part, at in pairs]) if len(owner) else images.new_empty(0)
    )
    if not scores.isfinite().all():
        raise ValueError("the model's vectors must be finite, hold NaN or infinity")
    return scores


def rank(images: Tensor, captions: Tensor, owner: Tensor, similarity: Similarity = COSINE) -> Ranks:
    """Rank all captions (C, d) for every image (I, d), and all images for every caption.

    owner: (C,) the index of each caption's image; every image must have a caption. Raises ValueError for vectors that
    are not finite.
    """
    own = own_scores(images, captions, owner, similarity)
    best = own.new_full((len(images),), -torch.inf).scatter_reduce(0, owner, own, "amax")
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    ranks = []
    for part, at, true in zip(*(x.split(_rows(images)) for x in (captions, owner, own)), strict=True):
        scores = similarity.by_text(part, images)
        scores[torch.arange(len(at), device=at.device), at] = -torch.inf
        ranks.append(1 + (scores > true[:, None] - TIE).sum(1))
        above += (scores > best - TIE).sum(0)
    return Ranks(1 + above, torch.cat(ranks), best)


def count_outranking(images: Tensor, best: Tensor, sentences: Tensor, similarity: Similarity = COSINE) -> Tensor:
    """For each image (I, d), how many false sentences (n, d) score at least as high as its best caption: (I,).

    best: (I,) the score of each image's best caption; scores within TIE of it count as equal.
    """
    above = torch.zeros(len(images), dtype=torch.long, device=images.device)
    for part in sentences.split(_rows(images)):
        above += (similarity.by_text(part, images) > best - TIE).sum(0)
    return above


def _rows(images: Tensor) -> int:
    return max(1, BLOCK // len(images))


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
    images: Tensor, captions: Tensor, owner: Tensor, size: int = 1000, similarity: Similarity = COSINE
) -> dict[str, float]:
    """The means of the metrics over consecutive folds of `size` images, as is customary on COCO's 5,000 test images.

    images: (I, d). captions: (C, d). owner: (C,) the index of each caption's image. Images beyond the last full fold
    are left out. Raises ValueError for fewer than `size` images.
    """
    if len(images) < size:
        raise ValueError(f"a fold must have {size} images, there are: {len(images)}")
    folds = []
    for start in range(0, len(images) - size + 1, size):
        inside = (owner >= start) & (owner < start + size)
        ranks = rank(images[start : start + size], captions[inside], owner[inside] - start, similarity)
        folds.append(retrieval_metrics(ranks))
    return {name: sum(fold[name] for fold in folds) / len(folds) for name in folds[0]}


def count_hits(ranks: Tensor, owner: Tensor, images: int) -> Tensor:
    """Per image, the number of its queries with rank <= 1, <= 5 and <= 10, and the number of its queries: (I, 4).

    ranks: (n,) of queries, from 1. owner: (n,) the image index of each query. images: I.
    """
    values = torch.stack([*((ranks <= k).double() for k in TOP), torch.ones(len(ranks), device=ranks.device)], 1)
    return torch.zeros(images, 4, dtype=torch.double, device=ranks.device).index_add(0, owner, values.double())


def bootstrap_samples(tables: Sequence[Tensor], seed: int = 0) -> list[Tensor]:
    """RESAMPLES bootstrap samples of ratios in %, over images and trainings.

    tables: each (S, I, k + 1): for S trainings and I images, k counts and their denominator, as `count_hits` returns
    them. Every sample draws I images and S trainings with replacement, the same for all tables, and for every call with
    the same I, S and seed: samples of two models may be subtracted one by one (a paired bootstrap). Returns (RESAMPLES,
    k) per table, the ratios of the sums over the images and trainings drawn.
    """
    trainings, images = tables[0].shape[:2]
    of_images, of_trainings = (Generator().manual_seed(seed) for _ in range(2))
    samples: list[list[Tensor]] = [[] for _ in tables]
    for size in [100] * (RESAMPLES // 100):
        image_weights = _drawn(size, images, of_images)
        training_weights = _drawn(size, trainings, of_trainings)
        for table, values in zip(tables, samples, strict=True):
            per_training = torch.einsum("ri,sik->rsk", image_weights, table.cpu())
            sums = torch.einsum("rs,rsk->rk", training_weights, per_training)
            values.append(100 * sums[:, :-1] / sums[:, -1:].clamp(min=1))
    return [torch.cat(values) for values in samples]


def _drawn(samples: int, n: int, generator: Generator) -> Tensor:
    """How often each of n is drawn in n draws with replacement: (samples, n)."""
    chosen = torch.randint(n, (samples, n), generator=generator)
    counts = torch.zeros(samples, n, dtype=torch.double)
    return counts.scatter_add(1, chosen, torch.ones(samples, n, dtype=torch.double))


def interval(samples: Tensor) -> tuple[float, float]:
    """The 95 % interval, (low, high), of bootstrap samples (n,)."""
    low, high = samples.quantile(torch.tensor([0.025, 0.975], dtype=torch.double)).tolist()
    return low, high


def bootstrap_intervals(tables: Sequence[Tensor], seed: int = 0) -> list[list[tuple[float, float]]]:
    """95 % bootstrap intervals over images, as (low, high), of ratios in %.

    tables: each (I, k + 1), see `bootstrap_samples`. Returns one list per table: the intervals of its k ratios and of
    their sum; for several tables, a last list with the interval of the sum over all tables.
    """
    ratios = bootstrap_samples([table[None] for table in tables], seed)
    samples = [torch.cat([values, values.sum(1, keepdim=True)], 1) for values in ratios]
    if len(ratios) > 1:
        samples.append(torch.cat(ratios, 1).sum(1, keepdim=True))
    return [[interval(column) for column in values.T] for values in samples]


QUERIES = {  # by kind: column of `components`, kind in the table component_vocabulary, least number of images
    "object": ("objects", "noun", 5),
    "attribute": ("attributes", "attribute_noun", 3),
    "relation": ("relations", "triple", 3),
}


class Queries(NamedTuple):
    """Q queries of one kind; true: (Q, I) bool, True for images with a caption that has the query's component."""

    phrases: list[Phrase]
    true: Tensor


def frequent_queries(
    components: pa.Table, vocabulary: pa.Table, image: Sequence[int], images: int, written: Mapping[str, str]
) -> dict[str, Queries]:
    """The components of a vocabulary that captions of enough images have, by kind as in QUERIES, sorted by their words.

    components: one row per caption of the split. vocabulary: the table component_vocabulary, counted on train captions.
    image: (n,) the image index of each caption. images: I. written: the written form of each relation, see
    `written_forms`.
    """
    known = set(zip(vocabulary["kind"].to_pylist(), map(tuple, vocabulary["words"].to_pylist()), strict=True))
    queries = {}
    for kind, (column, called, least) in QUERIES.items():
        found: dict[tuple[str, ...], set[int]] = {}
        for at, items in zip(image, components[column].to_pylist(), strict=True):
            for item in items:
                found.setdefault(tuple(item[part] for part in PARTS[column]), set()).add(at)
        kept = sorted((words, its) for words, its in found.items() if len(its) >= least and (called, words) in known)
        true = torch.zeros(len(kept), images, dtype=torch.bool)
        for row, (_, its) in enumerate(kept):
            true[row, sorted(its)] = True
        phrases = [Phrase(words, " ".join(written.get(word, word) for word in words)) for words, _ in kept]
        queries[kind] = Queries(phrases, true)
    return queries


def written_forms(components: pa.Table, parses: pa.Table) -> dict[str, str]:
    """The most frequent written form of each relation: "run on" -> "running on". Both tables: one row per caption."""
    counts: dict[str, dict[str, int]] = {}
    for relations, tokens, text in zip(
        components["relations"].to_pylist(), parses["tokens"].to_pylist(), parses["text"].to_pylist(), strict=True
    ):
        for item in relations:
            form = " ".join(text[tokens[at]["start"] : tokens[at]["end"]] for at in item["tokens"]).lower()
            forms = counts.setdefault(item["relation"], {})
            forms[form or item["relation"]] = forms.get(form or item["relation"], 0) + 1
    return {word: max(sorted(forms), key=forms.__getitem__) for word, forms in counts.items()}


def average_precision(scores: Tensor, true: Tensor) -> Tensor:
    """The average precision (Q,), 0 to 1, of scores (Q, I); true: (Q, I) bool. A false image wins a tie."""
    order = true.long().argsort(dim=1, stable=True)
    order = order.gather(1, scores.gather(1, order).argsort(dim=1, descending=True, stable=True))
    found = true.gather(1, order).double()
    precision = found.cumsum(1) / torch.arange(1, scores.shape[1] + 1, device=scores.device)
    return (precision * found).sum(1) / found.sum(1)


def unified_retrieval(
    queries: Mapping[str, Queries],
    embed: Callable[[Sequence[Phrase]], Tensor],
    images: Tensor,
    similarity: Similarity = COSINE,
) -> dict[str, dict[str, float]]:
    """For each kind of query: the number of queries, mAP in %, and the mean share of true images in %.

    embed: maps phrases to vectors (Q, d). images: (I, d). Kinds without queries are left out.
    """
    metrics = {}
    for kind, (phrases, true) in queries.items():
        if phrases:
            scores = similarity.by_text(embed(phrases), images)
            metrics[kind] = {
                "queries": len(phrases),
                "mAP": 100 * average_precision(scores, true.to(images.device)).mean().item(),
                "images": 100 * true.double().mean().item(),
            }
    return metrics


DETECTED = "detected object"  # the kind of these queries


def detected_queries(instances: Path, images: Sequence[str]) -> Queries:
    """The names of all categories that some image has a box of, in the file's order, as queries.

    Its `true` is (queries, I) bool: True where the image has a box of the category.

    instances: COCO's instances_*.json. images: (I,) the files of the images, of which only the names count. Raises
    ValueError for a file of another kind, or one that has none of the images.
    """
    index = {PurePosixPath(image).name: n for n, image in enumerate(images)}
    try:
        content = json.loads(instances.read_text("utf-8"))
        place = {item["id"]: index[item["file_name"]] for item in content["images"] if item["file_name"] in index}
        categories = {item["id"]: n for n, item in enumerate(content["categories"])}
        names = [str(item["name"]) for item in content["categories"]]
        boxes = [(categories[item["category_id"]], item["image_id"]) for item in content["annotations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{instances} must be COCO's instance annotations, is not: {error}") from None
    if not place:
        raise ValueError(
            f"{instances} must have the images of the split by their file names, has none, e.g. {images[0]}"
        )
    true = torch.zeros(len(names), len(images), dtype=torch.bool)
    for category, image in boxes:
        if image in place:
            true[category, place[image]] = True
    some = true.any(1)
    return Queries([Phrase((name,), name) for name, kept in zip(names, some.tolist(), strict=True) if kept], true[some])


EmbedTexts = Callable[[Texts, Tensor], Tensor]  # texts, rows (B,) -> (B, d)
IMAGES, WORDS = 4096, 1 << 15  # per batch; this bounds the memory for activations
NUMBERS = 1 << 25  # of features per batch


class JointEmbedding(Protocol):
    """A model that maps images and sentences to vectors of one space."""

    @property
    def similarity(self) -> Similarity:
        """What compares the vectors."""

    @property
    def image(self) -> ImageEncoder:
        """The image encoder: features (B, …) to vectors (B, d)."""

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """Vectors (B, d) of texts `rows` (B,)."""

    def queries(self, vocabulary: WordVocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Vectors (Q, d) of Q phrases of the same kind (objects, attributed objects or triples)."""


def embed_images(embed: Callable[[Tensor], Tensor], features: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """Vectors (n, d) of images `rows` (n,), whose features are in `features` (I, …)."""
    with torch.inference_mode():
        return torch.cat([embed(take(features, part, device)) for part in rows.split(images_at_once(features))])


def images_at_once(features: Tensor) -> int:
    """How many images with these features (I, …) are embedded at a time."""
    return max(1, min(IMAGES, NUMBERS // features[0].numel()))


def embed_sentences(embed: EmbedTexts, texts: Texts, rows: Tensor) -> Tensor:
    """Vectors (n, d) of texts `rows` (n,), in the order of `rows`."""
    vectors = torch.empty(0)
    for places, part in embed_in_batches(embed, texts, rows):
        if not len(vectors):
            vectors = part.new_empty(len(rows), part.shape[1])
        vectors[places.to(part.device)] = part
    return vectors


def embed_in_batches(embed: EmbedTexts, texts: Texts, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Embed texts `rows` (n,), a CPU tensor, in batches: yields indices into `rows` (b,) and vectors (b, d).

    On a GPU, a batch holds texts of similar length; on a CPU, consecutive texts, so that a caption's negatives share
    the computation of common prefixes.
    """
    lengths = texts.offsets[rows + 1] - texts.offsets[rows]
    order = lengths.argsort(descending=True, stable=True) if texts.tokens.is_cuda else torch.arange(len(rows))
    cuts = torch.div(lengths[order].cumsum(0), WORDS, rounding_mode="floor").bincount() if len(rows) else lengths
    for places in order.split(cuts[cuts > 0].tolist()) if len(rows) else ():
        with torch.inference_mode():
            yield places, embed(texts, rows[places])


@dataclass(frozen=True)
class EmbeddedSplit:
    """The I images and n captions of a split as vectors of a model.

    captions: (n,) indices into the corpus. owner: (n,) the image of each caption, 0 … I - 1. Both are on the CPU.
    images: (I, d). vectors: (n, d), of the captions. Both are on the device. seed: the seed of the bootstrap.
    """

    model: JointEmbedding
    corpus: Corpus
    texts: Texts
    captions: Tensor
    owner: Tensor
    caption_ids: list[str]
    image_ids: list[str]
    images: Tensor
    vectors: Tensor
    seed: int

    @property
    def image_of_caption(self) -> Tensor:
        """(C,) the image of every caption of the corpus, 0 … I - 1; 0 for captions of other splits."""
        rows = torch.zeros(self.corpus.captions, dtype=torch.long)
        rows[self.captions] = self.owner
        return rows

    def image_of_negative(self, negatives: Tensor) -> Tensor:
        """(P,) the image of the caption that each of the negatives (P,) was made from, 0 … I - 1."""
        return self.image_of_caption[self.corpus.negative_caption[negatives]]
