"""Images and sentences to unit vectors of the joint space."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from negcap.pipelines.models.prefixes import prefix_tree, states
from negcap.pipelines.models.sampling import pack, to
from negcap.pipelines.models.trainer.config import TrainConfig


def root(features: Tensor) -> Tensor:
    """The signed square root of features, at length 1: (B, D) -> (B, D)."""
    return functional.normalize(features.sign() * features.abs().sqrt(), dim=-1)


HIGHEST = 10  # k of max-k pooling
TRANSFORMS = {"root": root, "none": lambda features: features}


class ImageEncoder(nn.Module):
    """A linear map of features, L2-normalised: (B, D) -> (B, joint). A grid (B, R, D) has its regions pooled.

    pooling: average, of the regions before the map; after it and channel by channel max, or max-k, the mean of the 10
    highest (UniVSE, supplementary A).
    """

    def __init__(self, size: int, joint: int, transform: str, generator: Generator, pooling: str = "average") -> None:
        super().__init__()
        self.transform = transform
        self.pooling = pooling
        self.linear = nn.Linear(size, joint)
        nn.init.xavier_uniform_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Features in any float type, (B, D) or (B, R, D), to unit vectors (B, joint) in float32."""
        if self.pooling == "average" or features.dim() == 2:
            features = features.float()
            return self._mapped(features.mean(1) if features.dim() == 3 else features)
        return self._pooled(self._map(features))

    def with_regions(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors of images and of their regions: (B, joint), (B, R, joint); one region where there is no grid."""
        if features.dim() == 2:
            image = self(features)
            return image, image[:, None]
        regions = self._map(features)
        image = self(features) if self.pooling == "average" else self._pooled(regions)
        return image, functional.normalize(regions.float(), dim=-1)

    def _map(self, features: Tensor) -> Tensor:
        return self.linear(TRANSFORMS[self.transform](features.float()))

    def _mapped(self, features: Tensor) -> Tensor:
        return functional.normalize(self._map(features).float(), dim=-1)

    def _pooled(self, regions: Tensor) -> Tensor:
        highest = 1 if self.pooling == "max" else min(HIGHEST, regions.shape[1])
        return functional.normalize(regions.topk(highest, dim=1, sorted=False).values.mean(1).float(), dim=-1)


def word_embedding(words: int, size: int, generator: Generator, vectors: Tensor | None, tune: bool) -> nn.Embedding:
    """Vectors of words to learn; vectors: (V, size) to begin from, rows of NaN where there is none; tune: on them."""
    embedding = nn.Embedding(words, size)
    nn.init.uniform_(embedding.weight, -0.1, 0.1, generator=generator)
    if vectors is not None:
        known = ~vectors.isnan().any(1)
        with torch.no_grad():
            embedding.weight[known] = vectors[known]
        embedding.weight.requires_grad_(tune)
    return embedding


class TextEncoder(nn.Module):
    """A (bidirectional) GRU over words, its states pooled, L2-normalised; embedding: ids (n,) to vectors (n, size)."""

    def __init__(
        self,
        embedding: nn.Module,
        size: int,
        joint: int,
        generator: Generator,
        *,
        bidirectional: bool = True,
        pooling: str = "max",
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.embedding = embedding
        hidden = joint // 2 if bidirectional else joint
        self.gru = nn.GRU(size, hidden, bidirectional=bidirectional)
        for parameter in self.gru.parameters():
            bound = hidden**-0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Sentences `rows` (B,) of a flat array of words to unit vectors (B, joint) in float32.

        tokens: (total,) on the device of the encoder; offsets: (n + 1,) and rows on the CPU.
        """
        pooled = self._packed if tokens.is_cuda else self._shared
        return functional.normalize(pooled(tokens, offsets, rows).float(), dim=-1)

    def _packed(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """All sentences side by side: what a GPU does best."""
        packed = pack(offsets, rows)
        words = tokens[to(packed.positions, tokens.device)]
        states, last = self.gru(PackedSequence(self.embedding(words), packed.sizes))
        if self.pooling == "last":
            pooled = last.transpose(0, 1).flatten(1)
        else:
            pooled = pad_packed_sequence(states, padding_value=float("-inf"))[0].amax(0)
        return pooled[to(packed.inverse, tokens.device)]

    def _shared(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """What sentences have in common computed once: fewer operations, in more steps."""
        parts = []
        for suffix in ("", "_reverse") if self.gru.bidirectional else ("",):
            tree = prefix_tree(tokens, offsets, rows, backwards=bool(suffix))
            words, which = tree.word.unique(return_inverse=True)
            given, hidden = (
                (getattr(self.gru, f"weight_{x}_l0{suffix}"), getattr(self.gru, f"bias_{x}_l0{suffix}"))
                for x in ("ih", "hh")
            )
            parts.append(states(functional.linear(self.embedding(words), *given), *hidden, which, tree, self.pooling))
        return torch.cat(parts, 1)


def encoders(
    config: TrainConfig, features: int, embed: Callable[[Generator], nn.Module], size: int
) -> tuple[ImageEncoder, TextEncoder]:
    """The encoders of a model, their weights drawn from its seed.

    features: size of an image's features; embed: makes the embedding of words, in vectors of `size`.
    """
    generator = Generator().manual_seed(config.seed)
    with torch.random.fork_rng(devices=[]):  # what torch draws before the own draws replace it
        image = ImageEncoder(features, config.joint, config.transform, generator, config.image_pooling)
        text = TextEncoder(
            embed(generator),
            size,
            config.joint,
            generator,
            bidirectional=config.bidirectional,
            pooling=config.pooling,
        )
    return image, text
