"""MHA-D: multi-head attention with diversity, for images and captions of several languages (Huang et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from ...schemas.captions import LANGUAGE
from . import encoders
from .batches import CaptionBatch, Objective, SampledNegatives, Terms, autocast, negative_sampler
from .config import MhadConfig
from .data import Corpus, RunTexts, places_in_groups
from .device import to_device
from .losses import intra_pair_hinges, max_of_hinges, sum_of_hinges
from .similarities import COSINE, unit_vectors


class RegionEncoder(nn.Module):
    """Maps the regions of images (B, R, D) to unit vectors (B, K · joint): transform, linear layer, K attention heads.
    Regions of zeros are padding; features (B, D) count as one region. size: D.
    """

    def __init__(self, config: MhadConfig, size: int, generator: Generator) -> None:
        super().__init__()
        self.transform = config.transform
        self.tanh = config.region_tanh
        self.linear = encoders.linear_layer(size, config.joint, generator)
        width = config.attention_dim or config.joint
        self.heads = encoders.AttentionHeads(config.joint, width, config.heads, generator)

    def attend(self, features: Tensor) -> encoders.Attended:
        """The heads over the regions of features (B, R, D) of any float type; an image of zeros attends to all."""
        regions = (features if features.dim() == 3 else features[:, None]).to(self.linear.weight.dtype)
        present = (regions != 0).any(-1)
        states = self.linear(encoders.TRANSFORMS[self.transform](regions))
        return self.heads(states.tanh() if self.tanh else states, present | ~present.any(1, keepdim=True))

    def forward(self, features: Tensor) -> Tensor:
        """Unit vectors (B, K · joint), float32, of features (B, R, D) or (B, D)."""
        return unit_vectors(self.attend(features).vectors.flatten(1))


class MultiHeadAttention(nn.Module):
    """An encoder of image regions and one of sentences per language, each with K attention heads of its own.

    The vector of an image or sentence is the L2-normalized concatenation of its heads' vectors; similarity is the
    cosine. size: of a region's features. words, vectors: the size of the first language's vocabulary, and
    initial word vectors, see `word_embedding`. more: both for each further language.
    """

    def __init__(
        self, config: MhadConfig, size: int, words: int, vectors: Tensor | None = None, *more: tuple[int, Tensor | None]
    ) -> None:
        super().__init__()
        generator = Generator().manual_seed(config.seed)
        self.similarity = COSINE
        self.languages = config.languages
        self.head_count = config.heads
        joint = config.heads * config.joint
        heads = (config.heads, config.attention_dim)
        with torch.random.fork_rng(devices=[]):  # the layers' default initialization must not change the global state
            self.image = RegionEncoder(config, size, generator)
            self.text: Any = nn.ModuleDict()  # a SentenceEncoder for each language
            for language, (count, known) in zip(config.languages, [(words, vectors), *more], strict=True):
                embedding = encoders.word_embedding(count, config.word_dim, generator, known, config.tune_vectors)
                sizes = config.word_dim, joint, generator, unit_vectors, *heads
                self.text[language] = encoders.SentenceEncoder(embedding, *sizes)

    def heads(self, joined: Tensor) -> Tensor:
        """The vectors of the K heads, (B, K, H), in joined vectors (B, K · H)."""
        return joined.view(len(joined), self.head_count, -1)

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """Unit vectors (B, K · H) of texts `rows` (B,), each by the encoder of its language."""
        language = torch.zeros(len(rows), dtype=torch.long) if texts.language is None else texts.language[rows]
        numbers = language.unique().tolist()
        order = language.argsort(stable=True)
        parts = rows[order].split([int((language == number).sum()) for number in numbers])
        vectors = [self.image.linear.weight.new_empty(0, self.head_count * self.image.linear.out_features)]
        for number, rows in zip(numbers, parts, strict=True):
            vectors.append(self.text[self.languages[number]](texts.tokens, texts.offsets, rows))
        return torch.cat(vectors)[order.argsort().to(texts.tokens.device)]


# The hinge of a pair of heads, from their cosine s and the margin α_D, in three readings. The paper's equation has the
# hinge of `printed`, which is 0 for heads that are similar, and so contradicts its text, "push apart up to a margin".
HINGES: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "distance": lambda cosine, margin: (margin - (1 - cosine)).clamp(min=0),
    "similarity": lambda cosine, margin: (cosine - margin).clamp(min=0),
    "printed": lambda cosine, margin: (margin - cosine).clamp(min=0),
}


def head_cosines(heads: Tensor, others: Tensor | None = None) -> Tensor:
    """The cosines (B, K · (K - 1)) of all pairs of different heads of the same instance; heads: (B, K, H). others: (B,
    K, H), the second head of each pair; None: `heads`, too.
    """
    cosines = unit_vectors(heads) @ unit_vectors(heads if others is None else others).transpose(1, 2)
    return cosines[:, ~torch.eye(heads.shape[1], dtype=torch.bool, device=heads.device)]


def diversity_loss(views: Sequence[Tensor], margin: float, reading: str) -> Tensor:
    """The sum of the hinges of all pairs of different heads of the same instance, in all pairs of views; a scalar.
    views: each (B, K, H), the heads of the images, and of their captions in each language. Pairs of views are unordered
    and include a view with itself; pairs of heads k ≠ r are ordered. margin: α_D. reading: a key of HINGES.
    """
    pairs = combinations_with_replacement(views, 2)
    return torch.stack([HINGES[reading](head_cosines(*pair), margin).sum() for pair in pairs]).sum()


class Sample(NamedTuple):
    """What joins the B captions of a batch: those of each further language, (B,), and negatives of the English ones."""

    captions: Mapping[str, Tensor]
    negatives: SampledNegatives | None


class CaptionPool:
    """The captions `train` (n,) by image and language, from which the further captions of each batch are drawn. In an
    epoch, the captions of an image in one language are paired with a random permutation of those in another (repeated
    if there are fewer). Raises ValueError if negatives are wanted and there are none.
    """

    def __init__(self, config: MhadConfig, corpus: Corpus, train: Tensor) -> None:
        captions = corpus.captions
        image = corpus.captions.image
        by_image = train[image[train].argsort(stable=True)]
        rows = {language: captions.in_language(by_image, language) for language in captions.languages}
        first = rows.pop(captions.languages[0])
        # of the captions of the first language, of which a batch is made, the place among those of their image
        self.position = torch.zeros(len(image), dtype=torch.long)
        self.position[first] = places_in_groups(image[first])
        numbers = torch.arange(len(captions.image_ids) + 1)
        self.starts = {language: torch.searchsorted(image[own], numbers) for language, own in rows.items()}
        self.image = image
        self.rows = rows
        self.negatives = negative_sampler(config, corpus, train) if config.negative_families else None
        self.epoch: tuple[int, dict[str, Tensor]] = (-1, {})  # the seed of an epoch, and the order of the rows in it

    def __str__(self) -> str:
        return str(self.negatives or "")

    def sample(self, captions: Tensor, generator: Generator) -> Sample:
        """The further captions of a batch, given those of the first language (B,), and negatives of the English ones;
        the permutations depend on the seed with which the generator, that of the epoch, began.
        """
        if self.epoch[0] != generator.initial_seed():
            chance = Generator().manual_seed(generator.initial_seed())
            order = {}
            for language, rows in self.rows.items():
                shuffled = rows[torch.randperm(len(rows), generator=chance)]
                order[language] = shuffled[self.image[shuffled].argsort(stable=True)]
            self.epoch = generator.initial_seed(), order
        image = self.image[captions]
        drawn = {}
        for language, rows in self.epoch[1].items():
            starts = self.starts[language][image]
            ends = self.starts[language][image + 1]
            drawn[language] = rows[starts + self.position[captions] % (ends - starts)]
        english = drawn.get(LANGUAGE, captions)
        return Sample(drawn, None if self.negatives is None else self.negatives.sample(english, generator))


def mhad_losses(
    model: MultiHeadAttention, batch: CaptionBatch, sampled: Sample, config: MhadConfig, epoch: int
) -> Terms:
    """The terms of the loss on a batch by name, each a weighted scalar summed over the batch. `en`, `de`, …: images
    with the captions of a language. `en-de`, …: captions of two languages, times gamma. `diversity`: see
    `diversity_loss`. `negatives`: of images with the negatives of their English captions, as in VSE-C. epoch: from 1.
    """
    size = len(batch.captions)
    device = batch.features.device
    negatives = sampled.negatives if epoch > config.negatives_after else None
    rows = {config.languages[0]: batch.captions, **sampled.captions}
    if negatives is not None:
        rows[LANGUAGE] = torch.cat([rows[LANGUAGE], batch.texts.captions + negatives.rows])
    with autocast(config, device):
        images = model.image(batch.features)
        words = batch.texts.tokens, batch.texts.offsets
        texts = {language: model.text[language](*words, captions) for language, captions in rows.items()}
    pair_loss = sum_of_hinges if epoch <= config.warm_up else max_of_hinges
    terms = {}
    if negatives is not None:
        owner = to_device(negatives.owner, device)
        texts[LANGUAGE], false = texts[LANGUAGE].tensor_split([size])
        true = (images * texts[LANGUAGE]).sum(1)
        terms["negatives"] = intra_pair_hinges(true, (images[owner] * false).sum(1), owner, config.margin)
    for language, vectors in texts.items():
        terms[language] = pair_loss(images @ vectors.T, config.margin, batch.same_image)
    if config.gamma:
        for (one, first_vectors), (other, other_vectors) in combinations(texts.items(), 2):
            loss = pair_loss(first_vectors @ other_vectors.T, config.margin, batch.same_image)
            terms[f"{one}-{other}"] = config.gamma * loss
    if config.diversity != "none":
        views = [model.heads(vectors) for vectors in (images, *texts.values())]
        terms["diversity"] = config.diversity_weight * diversity_loss(views, config.diversity_margin, config.diversity)
    return terms


MHA_D = Objective(MultiHeadAttention, mhad_losses, sampler=CaptionPool)
