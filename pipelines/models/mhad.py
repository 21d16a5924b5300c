"""MHA-D: multi-head attention with diversity, for images and captions of several languages (Huang et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from ...schemas.captions import LANGUAGE
from . import encoders
from .batches import Objective, SampledNegatives, Terms, TrainingBatch, autocast, negative_sampler
from .config import MhadConfig
from .data import Corpus, RunTexts, places_in_groups
from .device import to_device
from .losses import intra_pair_hinges, max_of_hinges, sum_of_hinges
from .similarities import unit_vectors


class RegionEncoder(nn.Module):
    """Maps the regions of images (B, R, D) to unit vectors (B, K · joint): transform, linear layer, K attention heads.
    Regions of zeros are padding; features (B, D) count as one region.
    """

    def __init__(self, config: MhadConfig, size: int, generator: Generator) -> None:
        """Make the layers, with weights from a generator; size: D, of a region's features."""
        super().__init__()
        # not pooled: the heads decide which regions count
        self.transform = config.transform
        self.tanh = config.region_tanh
        self.linear = encoders.linear_layer(size, config.joint, generator)
        width = config.attention_dim or config.joint
        self.heads = encoders.AttentionHeads(config.joint, width, config.heads, generator)

    def attend(self, features: Tensor) -> encoders.Attended:
        """The heads over the regions of features (B, R, D) of any float type; of an image of zeros, over all regions,
        as a softmax over no region would be NaN.
        """
        regions = (features if features.dim() == 3 else features[:, None]).to(self.linear.weight.dtype)
        # an image with fewer regions than the largest is padded with zeros in the table
        present = (regions != 0).any(-1)
        states = self.linear(encoders.TRANSFORMS[self.transform](regions))
        return self.heads(states.tanh() if self.tanh else states, present | ~present.any(1, keepdim=True))

    def forward(self, features: Tensor) -> Tensor:
        """Unit vectors (B, K · joint), float32, of features (B, R, D) or (B, D)."""
        return unit_vectors(self.attend(features).vectors.flatten(1))


class MultiHeadAttention(encoders.EmbeddingModel):
    """An encoder of image regions and one of sentences per language, each with K attention heads of its own.

    The vector of an image or sentence is the L2-normalized concatenation of its heads' vectors; similarity is the
    cosine.

    Args:
        config: of the model.
        size: how many numbers the features of a region have.
        words: the size of the first language's vocabulary.
        vectors: the initial word vectors of the first language, see `word_embedding`; None: random ones.
        more: words and vectors for each further language.
    """

    image: RegionEncoder
    text: nn.ModuleDict

    def __init__(
        self, config: MhadConfig, size: int, words: int, vectors: Tensor | None = None, *more: tuple[int, Tensor | None]
    ) -> None:
        super().__init__()
        generator = Generator().manual_seed(config.seed)
        self.feature_size = size
        self.languages = config.languages
        self.head_count = config.heads
        with torch.random.fork_rng(devices=[]):  # the layers' default initialization must not change the global state
            self.image = RegionEncoder(config, size, generator)
            self.text = nn.ModuleDict()  # the encoder of each language
            for language, (count, known) in zip(config.languages, [(words, vectors), *more], strict=True):
                embedding = encoders.word_embedding(count, config.word_dim, generator, known, config.tune_vectors)
                self.text[language] = encoders.SentenceEncoder(
                    embedding,
                    config.word_dim,
                    config.heads * config.joint,
                    generator,
                    heads=config.heads,
                    attention_dim=config.attention_dim,
                )

    def text_encoder(self, language: str) -> encoders.SentenceEncoder:
        """The encoder of sentences in a language."""
        encoder = self.text[language]
        assert isinstance(encoder, encoders.SentenceEncoder)
        return encoder

    def heads(self, joined: Tensor) -> Tensor:
        """The vectors of the K heads, (B, K, H), in joined vectors (B, K · H)."""
        return joined.view(len(joined), self.head_count, -1)

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """Unit vectors (B, K · H) of texts `rows` (B,), each by the encoder of its language."""
        language = torch.zeros(len(rows), dtype=torch.long) if texts.language is None else texts.language[rows]
        by_language = language.argsort(stable=True)
        # without texts, an empty tensor of this width is the result
        vectors = [self.image.linear.weight.new_empty(0, self.head_count * self.image.linear.out_features)]
        for number in language.unique().tolist():  # ascending, so that the vectors stand in the order by_language
            encoder = self.text_encoder(self.languages[number])
            vectors.append(encoder(texts.tokens, texts.offsets, rows[language == number]))
        position_of_text = by_language.argsort()  # (B,) where its vector stands in the order by_language
        return torch.cat(vectors)[position_of_text.to(texts.tokens.device)]


# The hinge of a pair of heads, from their cosine s and the margin α_D, as the paper may be read in three ways. Its
# equation is `printed`, which is 0 for heads that are similar and so contradicts its text, "push apart up to a margin".
HINGES: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "distance": lambda cosine, margin: (margin - (1 - cosine)).clamp(min=0),
    "similarity": lambda cosine, margin: (cosine - margin).clamp(min=0),
    "printed": lambda cosine, margin: (margin - cosine).clamp(min=0),
}


def head_cosines(heads: Tensor, others: Tensor | None = None) -> Tensor:
    """The cosines (B, K · (K - 1)) of head k with head r ≠ k of the same instance, an image or caption of the batch.

    heads: (B, K, H), of which head k is taken. others: (B, K, H), of which head r is taken; None: `heads`, too.
    """
    cosines = unit_vectors(heads) @ unit_vectors(heads if others is None else others).transpose(1, 2)
    # the cosine of a head with itself is 1 and would only add a constant
    return cosines[:, ~torch.eye(heads.shape[1], dtype=torch.bool, device=heads.device)]


def diversity_loss(views: Sequence[Tensor], margin: float, reading: str) -> Tensor:
    """The sum of the hinges of all pairs of different heads of the same instance, in all pairs of views; a scalar.

    Pairs of views are unordered and include a view with itself; pairs of heads k ≠ r are ordered.

    Args:
        views: each (B, K, H): the heads of the images, then those of their captions in each language.
        margin: α_D.
        reading: the form of the hinge, a key of HINGES.
    """
    hinge = HINGES[reading]
    costs = []
    for first, second in combinations_with_replacement(views, 2):
        costs.append(hinge(head_cosines(first, second), margin).sum())
    return torch.stack(costs).sum()


class SampledCaptions(NamedTuple):
    """What is added to a batch of B captions: by further language, a caption (B,) of the same image as each of them;
    and negatives of the English captions.
    """

    captions: Mapping[str, Tensor]
    negatives: SampledNegatives | None


class EpochOrder(NamedTuple):
    """The order of captions in an epoch, for further languages. seed: that it is drawn by. rows: by language, the train
    captions (n,), sorted by image, those of an image shuffled among themselves.
    """

    seed: int
    rows: Mapping[str, Tensor]


class CaptionPool:
    """The captions `train` (n,) by image and language, from which the further captions of each batch are drawn.

    In an epoch, the captions of an image in the first language are paired with a random permutation of those in each
    further one (repeated if there are fewer). Raises ValueError if negatives are wanted and there are none.
    """

    def __init__(self, config: MhadConfig, corpus: Corpus, train: Tensor) -> None:
        """Sort the captions `train` (n,) of a corpus by image and language."""
        captions = corpus.captions
        image = captions.image
        by_image = train[image[train].argsort(stable=True)]
        first_language, *further_languages = captions.languages
        # (C,) the position of a caption of the first language, of which batches are made, among those of its image
        in_first_language = captions.in_language(by_image, first_language)
        self.position = torch.zeros(len(image), dtype=torch.long)
        self.position[in_first_language] = places_in_groups(image[in_first_language])
        self.image = image
        # by further language, the train captions (n,), those of an image together, and where those of each image begin
        self.rows = {language: captions.in_language(by_image, language) for language in further_languages}
        images = torch.arange(len(captions.image_ids) + 1)
        self.starts = {language: torch.searchsorted(image[rows], images) for language, rows in self.rows.items()}
        self.negatives = negative_sampler(config, corpus, train) if config.negative_families else None
        self.order = EpochOrder(-1, {})

    def __str__(self) -> str:
        return str(self.negatives or "")

    def sample(self, captions: Tensor, generator: Generator) -> SampledCaptions:
        """A caption in each further language for every caption of a batch, and negatives of the English captions.

        captions: (B,) the batch, numbers of captions in the first language. generator: that of the epoch. Its initial
        seed decides the permutations, which stay the same in all batches of the epoch; its state draws the negatives.
        """
        if self.order.seed != generator.initial_seed():
            self.order = self._shuffle(generator.initial_seed())
        image = self.image[captions]
        partners = {}
        for language, shuffled in self.order.rows.items():
            starts = self.starts[language][image]
            ends = self.starts[language][image + 1]
            # the k-th caption of an image gets the k-th of its shuffled ones, counted around if there are fewer
            partners[language] = shuffled[starts + self.position[captions] % (ends - starts)]
        english = partners.get(LANGUAGE, captions)
        negatives = None if self.negatives is None else self.negatives.sample(english, generator)
        return SampledCaptions(partners, negatives)

    def _shuffle(self, seed: int) -> EpochOrder:
        """Shuffle the captions of each image among themselves; the images stay in order, so that `starts` holds.

        The generator is made anew from the seed, so that the order does not depend on the batches before.
        """
        generator = Generator().manual_seed(seed)
        order = {}
        for language, rows in self.rows.items():
            shuffled = rows[torch.randperm(len(rows), generator=generator)]
            # The stable sort by image brings the captions of an image together again, in their shuffled order.
            order[language] = shuffled[self.image[shuffled].argsort(stable=True)]
        return EpochOrder(seed, order)


def mhad_losses(
    model: MultiHeadAttention, batch: TrainingBatch, sampled: SampledCaptions, config: MhadConfig, epoch: int
) -> Terms:
    """The terms of the loss on a batch by name, each a weighted scalar summed over the batch. epoch: from 1.

    `en`, `de`, …: images with the captions of a language. `en-de`, …: captions of two languages, times gamma.
    `diversity`: of the heads, see `diversity_loss`. `negatives`: images with the negatives of their English captions,
    by VSE-C's loss.
    """
    device = batch.features.device
    negatives = sampled.negatives if epoch > config.negatives_after else None
    rows = {config.languages[0]: batch.captions, **sampled.captions}
    if negatives is not None:
        # English captions and their negatives in one pass of the English encoder
        # (the texts of the run are its captions, then its negatives)
        rows[LANGUAGE] = torch.cat([rows[LANGUAGE], batch.texts.captions + negatives.rows])
    with autocast(config.amp, device):
        images = model.image(batch.features)
        texts = {}
        for language, captions in rows.items():
            texts[language] = model.text_encoder(language)(batch.texts.tokens, batch.texts.offsets, captions)
    pair_loss = sum_of_hinges if epoch <= config.warm_up else max_of_hinges

    terms = {}
    if negatives is not None:
        owner = to_device(negatives.owner, device)
        texts[LANGUAGE], false = texts[LANGUAGE].tensor_split([len(batch.captions)])
        true_scores = (images * texts[LANGUAGE]).sum(1)
        false_scores = (images[owner] * false).sum(1)
        terms["negatives"] = intra_pair_hinges(true_scores, false_scores, owner, config.margin)
    for language, vectors in texts.items():
        terms[language] = pair_loss(images @ vectors.T, config.margin, batch.same_image)
    if config.gamma:
        for first, second in combinations(texts, 2):
            loss = pair_loss(texts[first] @ texts[second].T, config.margin, batch.same_image)
            terms[f"{first}-{second}"] = config.gamma * loss
    if config.diversity != "none":
        views = [model.heads(vectors) for vectors in (images, *texts.values())]
        terms["diversity"] = config.diversity_weight * diversity_loss(views, config.diversity_margin, config.diversity)
    return terms


MHA_D = Objective(MultiHeadAttention, mhad_losses, sampler=CaptionPool)
