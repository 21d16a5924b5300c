"""MHA-D's model: images, and sentences of each of its languages, as unit vectors of one space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from ..attention import SentenceEncoder, TextShape
from ..config import TrainConfig
from ..encoders import word_embedding
from ..similarities import COSINE
from ..texts import Phrase, Texts
from ..vocabulary import WordVocabulary
from .regions import RegionEncoder


class MultiHeadAttention(nn.Module):
    """An encoder of image regions and one of sentences per language, each with K attention heads of its own.

    The vector of an image or sentence is the L2-normalized concatenation of its heads' vectors; similarity is the
    cosine. Images and sentences are encoded apart from each other. features: the size of a region's feature vector.
    words, vectors: the size of the first language's vocabulary, and initial word vectors, see `word_embedding`. others:
    the same two for each further language.
    """

    def __init__(
        self,
        config: TrainConfig,
        features: int,
        words: int,
        vectors: Tensor | None = None,
        others: Sequence[tuple[int, Tensor | None]] = (),
    ) -> None:
        super().__init__()
        generator = Generator().manual_seed(config.seed)
        self.similarity = COSINE
        self.languages = config.languages
        self.head_count = config.heads
        width = config.attention_dim or config.joint
        joint = config.heads * config.joint
        shape = TextShape(config.word_dim, joint, heads=config.heads, attention_dim=width)
        with torch.random.fork_rng(devices=[]):  # the layers' default initialization must not change the global state
            self.image = RegionEncoder(
                features, config.joint, width, config.heads, config.transform, config.region_tanh, generator
            )
            self.text = nn.ModuleDict()
            for language, (size, known) in zip(config.languages, [(words, vectors), *others], strict=True):
                embedding = word_embedding(size, config.word_dim, generator, known, config.tune_vectors)
                self.text[language] = SentenceEncoder(embedding, shape, generator)

    def encoder(self, language: str) -> SentenceEncoder:
        """The encoder of sentences in one of the model's languages."""
        found = self.text[language]
        assert isinstance(found, SentenceEncoder)
        return found

    def heads(self, joined: Tensor) -> Tensor:
        """The vectors of the K heads, (B, K, H), in joined vectors (B, K · H)."""
        return joined.view(len(joined), self.head_count, -1)

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """Unit vectors (B, K · H) of texts `rows` (B,), each by the encoder of its language."""
        spoken = torch.zeros(len(rows), dtype=torch.long) if texts.language is None else texts.language[rows]
        found = spoken.unique().tolist()
        encoders = [self.encoder(language) for language in self.languages]
        if len(found) == 1:
            return encoders[found[0]](texts.tokens, texts.offsets, rows)
        places = [(spoken == language).nonzero()[:, 0] for language in found]
        parts = [encoders[at](texts.tokens, texts.offsets, rows[its]) for at, its in zip(found, places, strict=True)]
        back = torch.cat(places).argsort() if places else rows
        empty = self.image.linear.weight.new_empty(0, self.head_count * self.image.linear.out_features)
        return torch.cat([empty, *parts])[back.to(empty.device)]

    def queries(self, vocabulary: WordVocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Unit vectors (Q, K · H) of Q phrases of the first language, each encoded as a sentence."""
        tokens, offsets = map(torch.from_numpy, vocabulary.encode([phrase.text for phrase in phrases]))
        encoder = self.encoder(self.languages[0])
        with torch.inference_mode():
            return encoder(tokens.to(self.image.linear.weight.device), offsets, torch.arange(len(phrases)))
