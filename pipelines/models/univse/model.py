"""The model: images, words, relations and sentences to one space of unit vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from negcap.pipelines.models.components import lookup
from negcap.pipelines.models.encoders import encoders
from negcap.pipelines.models.sampling import to
from negcap.pipelines.models.texts import Graphs, Texts, spans
from negcap.pipelines.models.trainer.config import TrainConfig
from negcap.pipelines.models.trainer.unified import Phrase
from negcap.pipelines.models.univse.words import WordEncoder
from negcap.pipelines.models.vocabulary import Vocabulary


class UniVSE(nn.Module):
    """φ for words and attributed nouns, ψ for relations and sentences, and an image encoder that keeps regions.

    features: size of an image's features; words: size of the vocabulary; vectors: of the basic embeddings.
    """

    def __init__(self, config: TrainConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        self.components = config.components
        self.composition = config.composition
        self.alpha = config.alpha

        def embed(generator: Generator) -> nn.Module:
            sizes = (words, config.word_dim, config.modifier_dim, config.joint)
            return WordEncoder(*sizes, generator, vectors, config.tune_vectors)

        self.image, self.text = encoders(config, features, embed, config.joint)

    @property
    def word(self) -> WordEncoder:
        """φ, which ψ reads with."""
        assert isinstance(self.text.embedding, WordEncoder)
        return self.text.embedding

    def triples(self, words: Tensor) -> Tensor:
        """ψ of subject, relation and object (n, 3): (n, d)."""
        n = len(words)
        if not n:
            return self.image.linear.weight.new_empty(0, self.image.linear.out_features)
        return self.text(words.flatten(), torch.arange(0, 3 * n + 1, 3), torch.arange(n))

    def sequences(self, texts: Texts, rows: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """ψ of sentences rows (B,) and triples (n, 3) at once: (B, d), (n, d)."""
        at, _ = spans(texts.offsets, rows)
        sizes = texts.offsets[rows + 1] - texts.offsets[rows]
        sizes = torch.cat([sizes.new_zeros(1), sizes, sizes.new_full((len(triples),), 3)])
        tokens = torch.cat([texts.tokens[to(at, texts.tokens.device)], triples.flatten().to(texts.tokens.dtype)])
        vectors = self.text(tokens, sizes.cumsum(0), torch.arange(len(rows) + len(triples)))
        return vectors[: len(rows)], vectors[len(rows) :]

    def parts(self, texts: Texts, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """u_sent and u_comp of sentences rows (B,), both (B, d), and which have any components, (B,)."""
        graphs = components_of(texts)
        at, owner = graphs.triples.of(rows)
        sentences, triples = self.sequences(texts, rows, graphs.triples.words[to(at, texts.tokens.device)])
        objects, of_objects = graphs.objects.of(rows)
        pairs, of_pairs = graphs.pairs.of(rows)
        device = sentences.device
        nouns = self.word(graphs.objects.words[to(objects, device), 0])
        said = graphs.pairs.words[to(pairs, device)]
        vectors = {"obj": nouns, "attr": self.word(said[:, 1], said[:, 0]), "rel": triples}
        owners = {"obj": of_objects, "attr": of_pairs, "rel": owner}
        return sentences, *self.compose(vectors, owners, len(rows))

    def compose(self, vectors: dict[str, Tensor], owners: dict[str, Tensor], captions: int) -> tuple[Tensor, Tensor]:
        """u_comp of captions from their components' vectors (m, d) by kind: (B, d); and which have any, (B,).

        The normalised average (or sum, which has the same direction) or maximum of all that the model composes.
        """
        owner = torch.cat([owners[kind] for kind in self.components] or [torch.empty(0, dtype=torch.long)])
        some = next(iter(vectors.values()))
        every = torch.cat([vectors[kind] for kind in self.components] or [some[:0]])
        there = torch.zeros(captions, dtype=torch.bool)
        there[owner] = True
        at = to(owner, every.device)
        if self.composition == "max":
            index = at[:, None].expand_as(every)
            made = every.new_zeros(captions, every.shape[1]).scatter_reduce(0, index, every, "amax", include_self=False)
        else:
            made = every.new_zeros(captions, every.shape[1]).index_add(0, at, every)
        return functional.normalize(made, dim=-1), to(there, every.device)

    def sentences(self, texts: Texts, rows: Tensor) -> Tensor:
        """u_cap of sentences rows (B,), (B, d): see `blend`."""
        return blend(*self.parts(texts, rows), self.alpha)

    def queries(self, vocabulary: Vocabulary, phrases: Sequence[Phrase]) -> Tensor:
        """Objects, attributed objects or triples, of one kind: (Q, d)."""
        device = self.image.linear.weight.device
        ids = torch.tensor([lookup(vocabulary, phrase.words) for phrase in phrases], device=device)
        with torch.inference_mode():
            if ids.shape[1] == 3:
                return self.triples(ids)
            return self.word(ids[:, -1], ids[:, 0])


def blend(sentences: Tensor, components: Tensor, there: Tensor, alpha: float) -> Tensor:
    """u_cap = Norm(α u_sent + (1 - α) u_comp), (B, d); u_sent for a caption without components."""
    mixed = torch.where(there[:, None], alpha * sentences + (1 - alpha) * components, sentences)
    return functional.normalize(mixed, dim=-1)


def components_of(texts: Texts) -> Graphs:
    """The components of texts. Raises ValueError for texts without."""
    if texts.graphs is None:
        raise ValueError("UniVSE reads components: these texts have none")
    return texts.graphs
