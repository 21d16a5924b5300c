"""UniVSE's model: images, words, relations and sentences as unit vectors of one space."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from ..checkpoint import Tensors
from ..config import UniVseConfig
from ..data import QueryPhrase, RunTexts, SceneGraphs, component_ids, places_in_groups, ragged_rows, starts_of
from ..device import to_device
from ..encoders import build_encoders, linear_layer, word_embedding
from ..similarities import COSINE
from ..vocabulary import WordVocabulary


class WordEncoder(nn.Module):
    """φ(w) = Norm(σ(W₁w + b₁) · tanh(W₂w + b₂)), where w concatenates a basic and a modifier embedding (section 3.1).

    A word has its own modifier embedding, an attributed noun that of the attribute. words: the size of the vocabulary.
    vectors: initial basic embeddings (words, word_dim), see `word_embedding`.
    """

    def __init__(self, config: UniVseConfig, words: int, generator: Generator, vectors: Tensor | None = None) -> None:
        super().__init__()
        self.basic = word_embedding(words, config.word_dim, generator, vectors, config.tune_vectors)
        self.modifier = word_embedding(words, config.modifier_dim, generator, None, True)
        self.linear = linear_layer(config.word_dim + config.modifier_dim, 2 * config.joint, generator)

    def forward(self, words: Tensor, modifiers: Tensor | None = None) -> Tensor:
        """Unit vectors (n, joint), float32, of words (n,) with modifiers (n,), both ids; None: each word's own."""
        vectors, which = self.distinct(words, modifiers)
        return vectors[which]

    def distinct(self, words: Tensor, modifiers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The vectors (u, joint) of the distinct pairs of a word and a modifier, and which of them each pair is (n,).
        Arguments as those of `forward`. Every distinct word, modifier and pair is computed only once.
        """
        basic, modifier = self.linear.weight.split([self.basic.embedding_dim, self.modifier.embedding_dim], 1)
        size = self.basic.num_embeddings
        pairs = words.long() * size + (words if modifiers is None else modifiers)
        distinct, which = pairs.unique(return_inverse=True)
        nouns, noun = torch.div(distinct, size, rounding_mode="floor").unique(return_inverse=True)
        attributes, attribute = (distinct % size).unique(return_inverse=True)
        from_nouns = functional.linear(self.basic(nouns), basic, self.linear.bias)
        from_attributes = functional.linear(self.modifier(attributes), modifier)
        gate, value = (from_nouns[noun] + from_attributes[attribute]).float().chunk(2, -1)
        return functional.normalize(torch.sigmoid(gate) * torch.tanh(value), dim=-1), which


ATTENTION = 128  # hidden units of the self-attention, which the paper does not state


class Composition(nn.Module):
    """One vector of length 1 of the vectors of a caption's components.

    kind: `average`, `sum` (the same but for its length, which is 1), `max` per dimension, `self-attention`, the mean
    with the weights softmax_j(w₂ᵀ tanh(W₁ u_j)), or `gru`, the last state of a GRU that reads the components. size: d.
    """

    def __init__(self, kind: str, size: int, generator: Generator) -> None:
        super().__init__()
        self.kind = kind
        if kind == "self-attention":
            self.hidden = nn.Linear(size, ATTENTION, bias=False)
            self.weight = nn.Linear(ATTENTION, 1, bias=False)
        if kind == "gru":
            self.gru = nn.GRU(size, size, batch_first=True)
        for parameter in self.parameters():
            bound = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, vectors: Tensor, owner: Tensor, captions: int, order: Tensor | None = None) -> Tensor:
        """The composed vectors (B, d) of B captions, 0 without components. vectors: (m, d). owner: (m,) the caption of
        each, on the CPU. order: (m,) numbers by which a GRU reads a caption's components; None: as they come.
        """
        if self.kind in ("self-attention", "gru"):
            by = torch.arange(len(owner)) if order is None else order.argsort(stable=True)
            by = by[owner[by].argsort(stable=True)]
            owner, lengths = owner[by], torch.bincount(owner, minlength=captions)
            row, column = (to_device(part, vectors.device) for part in (owner, places_in_groups(owner)))
            padded = vectors.new_zeros(captions, max(1, int(lengths.max())), vectors.shape[1])
            padded = padded.index_put((row, column), vectors[to_device(by, vectors.device)])
            present = to_device(torch.arange(padded.shape[1]) < lengths[:, None], vectors.device)
            if self.kind == "gru":
                read = pack_padded_sequence(padded, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
                composed = self.gru(read)[1][0] * present[:, :1]
            else:
                scores = self.weight(torch.tanh(self.hidden(padded)))[:, :, 0].masked_fill(~present, -1e9)
                composed = (scores.softmax(1)[:, None] @ padded)[:, 0]
        else:
            at = to_device(owner, vectors.device)
            zeros = vectors.new_zeros(captions, vectors.shape[1])
            if self.kind == "max":
                composed = zeros.scatter_reduce(0, at[:, None].expand_as(vectors), vectors, "amax", include_self=False)
            else:
                composed = zeros.index_add(0, at, vectors)
        return functional.normalize(composed, dim=-1)


class UniVSE(nn.Module):
    """An image encoder, a word encoder φ, and a GRU ψ over the vectors of φ (UniVSE, section 3).

    φ embeds nouns and attributed nouns, ψ triples and sentences. A caption's vector u_cap combines u_sent, its sentence
    by ψ, and u_comp, the composition of its components' vectors. features: the size of an image's feature vector.
    words: the size of the vocabulary. vectors: (words, word_dim) initial basic embeddings of φ, None: random.
    """

    def __init__(self, config: UniVseConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        self.similarity = COSINE
        self.components = config.components
        self.fixed_alpha = config.alpha
        self.composition = Composition(config.composition, config.joint, Generator().manual_seed(config.seed))
        if config.learn_alpha:
            self.alpha_logit = nn.Parameter(torch.tensor(config.alpha).logit())

        word_encoder = partial(WordEncoder, config, words, vectors=vectors)
        self.image, self.text = build_encoders(config, features, word_encoder, config.joint, COSINE)

    @property
    def alpha(self) -> Tensor | float:
        """α, the weight of the sentence in a caption's vector: a learned scalar, or that of the config."""
        return self.alpha_logit.sigmoid() if hasattr(self, "alpha_logit") else self.fixed_alpha

    @property
    def alpha_value(self) -> float:
        """α as a number."""
        return self.alpha.item() if isinstance(self.alpha, Tensor) else self.alpha

    @property
    def word_encoder(self) -> WordEncoder:
        """The word encoder φ; it also is the word embedding of ψ, the text encoder."""
        assert isinstance(self.text.embedding, WordEncoder)
        return self.text.embedding

    def triples(self, words: Tensor) -> Tensor:
        """Unit vectors (n, d), by ψ, of triples (n, 3), the word ids of subject, relation and object."""
        n = len(words)
        if not n:
            return self.image.linear.weight.new_empty(0, self.image.linear.out_features)
        return self.text(words.flatten(), torch.arange(0, 3 * n + 1, 3), torch.arange(n))

    def sequences(self, texts: RunTexts, rows: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors, by ψ in one pass, of texts `rows` (B,) and of triples (n, 3): (B, d) and (n, d)."""
        at, _ = ragged_rows(texts.offsets, rows)
        sizes = texts.offsets[rows + 1] - texts.offsets[rows]
        sizes = torch.cat([sizes, sizes.new_full((len(triples),), 3)])
        tokens = torch.cat([texts.tokens[to_device(at, texts.tokens.device)], triples.flatten().to(texts.tokens.dtype)])
        vectors = self.text(tokens, starts_of(sizes), torch.arange(len(rows) + len(triples)))
        return vectors[: len(rows)], vectors[len(rows) :]

    def sentences_and_components(self, texts: RunTexts, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sentence vectors u_sent and component vectors u_comp of texts `rows` (B,), both (B, d), and a mask (B,). The
        mask is True for texts with components of the kinds that the model composes.
        """
        graphs = require_graphs(texts)
        triples, of_triples = graphs.triples.known_components(rows)
        words = graphs.triples.words[to_device(triples, texts.tokens.device)]
        sentences, relations = self.sequences(texts, rows, words)
        objects, of_objects = graphs.objects.known_components(rows)
        pairs, of_pairs = graphs.pairs.known_components(rows)
        device = sentences.device
        nouns = self.word_encoder(graphs.objects.words[to_device(objects, device), 0])
        attributed = graphs.pairs.words[to_device(pairs, device)]
        vectors = {"obj": nouns, "attr": self.word_encoder(attributed[:, 1], attributed[:, 0]), "rel": relations}
        owners = {"obj": of_objects, "attr": of_pairs, "rel": of_triples}
        return sentences, *self.compose(vectors, owners, len(rows))

    def compose(
        self, vectors: Tensors, owners: Tensors, captions: int, order: Tensors | None = None
    ) -> tuple[Tensor, Tensor]:
        """u_comp of B captions, composed of the vectors of their components as `Composition` says.

        vectors: (m, d) per kind (obj, attr, rel). owners: (m,) per kind, the caption of each component. captions: B.
        order: (m,) per kind, see Composition. Returns (B, d), 0 for a caption without components of the kinds that the
        model composes, and a mask (B,), False for those.
        """
        owner = torch.cat([owners[kind] for kind in self.components] or [torch.empty(0, dtype=torch.long)])
        first = next(iter(vectors.values()))
        every = torch.cat([vectors[kind] for kind in self.components] or [first[:0]])
        keys = torch.cat([order[kind] for kind in self.components]) if order and self.components else None
        present = torch.zeros(captions, dtype=torch.bool)
        present[owner] = True
        return self.composition(every, owner, captions, keys), to_device(present, every.device)

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """The caption vectors u_cap (B, d) of texts `rows` (B,), see `blend`."""
        return blend(*self.sentences_and_components(texts, rows), self.alpha)

    def queries(self, vocabulary: WordVocabulary, phrases: Sequence[QueryPhrase]) -> Tensor:
        """Unit vectors (Q, d) of Q phrases of one kind: by φ for objects and attributed objects, by ψ for triples."""
        device = self.image.linear.weight.device
        ids = torch.tensor([component_ids(vocabulary, phrase.words) for phrase in phrases], device=device)
        with torch.inference_mode():
            if ids.shape[1] == 3:
                return self.triples(ids)
            return self.word_encoder(ids[:, -1], ids[:, 0])

    def plain_sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """u_sent (B, d) of texts `rows` (B,), which need no components; the paper's other way to encode a query."""
        return self.text(texts.tokens, texts.offsets, rows)


def blend(sentences: Tensor, components: Tensor, present: Tensor, alpha: Tensor | float) -> Tensor:
    """Caption vectors u_cap = Norm(α u_sent + (1 - α) u_comp), (B, d); u_sent for captions without components.
    sentences, components: u_sent and u_comp, both (B, d). present: (B,) bool, captions with components. alpha: α.
    """
    mixed = torch.where(present[:, None], alpha * sentences + (1 - alpha) * components, sentences)
    return functional.normalize(mixed, dim=-1)


def require_graphs(texts: RunTexts) -> SceneGraphs:
    """The scene graphs of texts. Raises ValueError if the texts have none."""
    if texts.graphs is None:
        raise ValueError("UniVSE needs components, these texts have none")
    return texts.graphs
