"""UniVSE's model: images, words, relations and sentences as unit vectors of one space."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from ..checkpoint import Tensors
from ..config import UniVseConfig
from ..data import QueryPhrase, RunTexts, SceneGraphs, component_ids, places_in_groups, ragged_rows, starts_of
from ..device import to_device
from ..encoders import EmbeddingModel, ImageEncoder, build_encoders, linear_layer, word_embedding
from ..similarities import COSINE
from ..vocabulary import WordVocabulary


class DistinctWords(NamedTuple):
    """n pairs of a word and a modifier, u of which are distinct. vectors: (u, joint), of the distinct pairs. which:
    (n,), for each pair, the row of its vector.
    """

    vectors: Tensor
    which: Tensor


class WordEncoder(nn.Module):
    """φ(w) = Norm(σ(W₁w + b₁) · tanh(W₂w + b₂)), where w concatenates a basic and a modifier embedding (section 3.1).

    The modifier embedding of an attributed noun is that of its attribute; of any other word, its own. words: the size
    of the vocabulary. vectors: initial basic embeddings (words, word_dim), see `word_embedding`.
    """

    def __init__(self, config: UniVseConfig, words: int, generator: Generator, vectors: Tensor | None = None) -> None:
        """Make the embeddings of a vocabulary of `words` words and the layer, with weights from a generator."""
        super().__init__()
        self.basic = word_embedding(words, config.word_dim, generator, vectors, config.tune_vectors)
        # Pretrained vectors are of words, not of modifiers: these begin at random, and are always trained.
        self.modifier = word_embedding(words, config.modifier_dim, generator, vectors=None, tune=True)
        # W₁ and W₂ in one product.
        self.linear = linear_layer(config.word_dim + config.modifier_dim, 2 * config.joint, generator)

    def forward(self, words: Tensor, modifiers: Tensor | None = None) -> Tensor:
        """Unit vectors (n, joint), float32, of word ids (n,) with modifiers (n,), also word ids; None: a word is its
        own modifier.
        """
        distinct = self.distinct(words, modifiers)
        return distinct.vectors[distinct.which]  # for each of the n words, the row of its distinct pair

    def distinct(self, words: Tensor, modifiers: Tensor | None = None) -> DistinctWords:
        """The vectors of the distinct pairs among words (n,) with modifiers (n,), both word ids; modifiers None: a word
        is its own modifier.

        Every distinct word, modifier and pair is computed only once: the linear layer reads a word's embedding joined
        with a modifier's, so its output is a sum of one part for the word and one for the modifier.
        """
        word_weight, modifier_weight = self.linear.weight.split(
            [self.basic.embedding_dim, self.modifier.embedding_dim], 1
        )
        vocabulary = self.basic.num_embeddings
        pairs = words.long() * vocabulary + (words if modifiers is None else modifiers)  # one number for each pair
        distinct, which = pairs.unique(return_inverse=True)
        distinct_words, word = torch.div(distinct, vocabulary, rounding_mode="floor").unique(return_inverse=True)
        distinct_modifiers, modifier = (distinct % vocabulary).unique(return_inverse=True)

        from_words = functional.linear(self.basic(distinct_words), word_weight, self.linear.bias)
        from_modifiers = functional.linear(self.modifier(distinct_modifiers), modifier_weight)
        # the nonlinearities in float32, also under autocast
        gate, value = (from_words[word] + from_modifiers[modifier]).float().chunk(2, -1)
        vectors = functional.normalize(torch.sigmoid(gate) * torch.tanh(value), dim=-1)
        return DistinctWords(vectors, which)


ATTENTION = 128  # hidden units of the self-attention, which the paper does not state


class Composition(nn.Module):
    """Composes the vectors u_j of a caption's components to one unit vector.

    kind: `average` or `sum` (the same here, since the result is scaled to length 1), `max` per dimension,
    `self-attention`, the mean with the weights softmax_j(w₂ᵀ tanh(W₁ u_j)), or `gru`, the last state of a GRU that
    reads the components. size: d.
    """

    def __init__(self, kind: str, size: int, generator: Generator) -> None:
        """Make the layers that the kind needs, if any, with weights from a generator."""
        super().__init__()
        self.kind = kind
        if kind == "self-attention":
            self.hidden = nn.Linear(size, ATTENTION, bias=False)
            self.weight = nn.Linear(ATTENTION, 1, bias=False)
        if kind == "gru":
            self.gru = nn.GRU(size, size, batch_first=True)
        for parameter in self.parameters():
            # 1 / √inputs for a matrix, as torch has it. A bias of the GRU, (3 d,), gets 1 / √(3 d), which is less.
            bound = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, vectors: Tensor, owner: Tensor, captions: int, order: Tensor | None = None) -> Tensor:
        """The composed vectors (B, d) of B captions; 0 for one without components.

        Args:
            vectors: (m, d) of the components.
            owner: (m,) the caption of each component, on the CPU.
            captions: B.
            order: (m,) numbers by which a GRU reads a caption's components; None: as they come.
        """
        if self.kind == "gru":
            composed = self._read_by_gru(pad_by_caption(vectors, owner, captions, order))
        elif self.kind == "self-attention":
            composed = self._weighted_mean(pad_by_caption(vectors, owner, captions, order))
        else:
            row = to_device(owner, vectors.device)
            zeros = vectors.new_zeros(captions, vectors.shape[1])
            if self.kind == "max":
                composed = zeros.scatter_reduce(0, row[:, None].expand_as(vectors), vectors, "amax", include_self=False)
            else:  # average and sum differ only in length, which is made 1 below
                composed = zeros.index_add(0, row, vectors)
        return functional.normalize(composed, dim=-1)

    def _read_by_gru(self, padded: PaddedComponents) -> Tensor:
        """The last state (B, d) of a GRU that reads the components of each caption; 0 without components."""
        lengths = padded.lengths.clamp(min=1)  # a packed sequence must not be empty
        packed = pack_padded_sequence(padded.vectors, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)
        return last[0] * padded.present[:, :1]  # whether there is a first component: (B, 1)

    def _weighted_mean(self, padded: PaddedComponents) -> Tensor:
        """The mean (B, d) of the components of each caption by learned weights; 0 without components."""
        scores = self.weight(torch.tanh(self.hidden(padded.vectors)))[:, :, 0]
        # not -inf, whose softmax is NaN for a caption without components; its vectors are all 0
        scores = scores.masked_fill(~padded.present, -1e9)
        return (scores.softmax(1)[:, None] @ padded.vectors)[:, 0]


class PaddedComponents(NamedTuple):
    """The components of B captions, a row for each: vectors (B, T, d), 0 where present (B, T), bool, is False.
    lengths: (B,) how many components a caption has, on the CPU.
    """

    vectors: Tensor
    present: Tensor
    lengths: Tensor


def pad_by_caption(vectors: Tensor, owner: Tensor, captions: int, order: Tensor | None = None) -> PaddedComponents:
    """The components of each caption side by side, filled up to the longest.

    Args:
        vectors: (m, d) of components.
        owner: (m,) the caption of each, on the CPU.
        captions: how many captions there are.
        order: (m,) numbers by which a caption's components are sorted; None: as they come.
    """
    by_order = torch.arange(len(owner)) if order is None else order.argsort(stable=True)
    by_caption = by_order[owner[by_order].argsort(stable=True)]
    caption = owner[by_caption]
    lengths = torch.bincount(caption, minlength=captions)
    row = to_device(caption, vectors.device)
    column = to_device(places_in_groups(caption), vectors.device)
    # at least one column: a caption may have no component, a tensor needs one
    padded = vectors.new_zeros(captions, max(1, int(lengths.max())), vectors.shape[1])
    padded = padded.index_put((row, column), vectors[to_device(by_caption, vectors.device)])
    present = torch.arange(padded.shape[1]) < lengths[:, None]
    return PaddedComponents(padded, to_device(present, vectors.device), lengths)


class Sequences(NamedTuple):
    """Unit vectors of B texts (B, d) and of n triples (n, d), by the text encoder ψ."""

    sentences: Tensor
    triples: Tensor


class ComponentVectors(NamedTuple):
    """The vectors u_comp of B captions, (B, d), 0 for a caption without components of the kinds that the model
    composes, and a mask (B,), False for those.
    """

    vectors: Tensor
    present: Tensor


class CaptionParts(NamedTuple):
    """The parts that `blend` mixes to a caption's vector: u_sent and u_comp of B texts, both (B, d), and a mask (B,),
    True for texts with components of the kinds that the model composes.
    """

    sentences: Tensor
    components: Tensor
    present: Tensor


class UniVSE(EmbeddingModel):
    """An image encoder, a word encoder φ, and a GRU ψ over the vectors of φ (UniVSE, section 3).

    φ embeds nouns and attributed nouns, ψ triples and sentences. A caption's vector u_cap combines u_sent, its sentence
    by ψ, and u_comp, the composition of its components' vectors. features: the size of an image's feature vector.
    words: the size of the vocabulary. vectors: (words, word_dim) initial basic embeddings of φ, None: random.
    """

    image: ImageEncoder

    def __init__(self, config: UniVseConfig, features: int, words: int, vectors: Tensor | None = None) -> None:
        """Make the encoders; all initial weights follow from the config's seed."""
        super().__init__()
        self.feature_size = features
        self.components = config.components
        # if α is learned, this is its initial value
        self.fixed_alpha = config.alpha
        self.composition = Composition(config.composition, config.joint, Generator().manual_seed(config.seed))
        if config.learn_alpha:
            # its logit is learned, so that α stays between 0 and 1
            self.alpha_logit = nn.Parameter(torch.tensor(config.alpha).logit())

        word_encoder = partial(WordEncoder, config, words, vectors=vectors)
        encoders = build_encoders(config, features, word_encoder, config.joint, COSINE)
        self.image = encoders.image
        self.text = encoders.text

    @property
    def learns_alpha(self) -> bool:
        """Whether α is trained."""
        return hasattr(self, "alpha_logit")

    @property
    def alpha(self) -> Tensor | float:
        """α, the weight of the sentence in a caption's vector: a learned scalar, or that of the config."""
        return self.alpha_logit.sigmoid() if self.learns_alpha else self.fixed_alpha

    @property
    def alpha_value(self) -> float:
        """α as a number."""
        return self.alpha.item() if isinstance(self.alpha, Tensor) else self.alpha

    @property
    def word_encoder(self) -> WordEncoder:
        """The encoder of single words, φ in the paper; ψ, the encoder of texts, reads the vectors that it gives."""
        assert isinstance(self.text.embedding, WordEncoder)
        return self.text.embedding

    def triples(self, words: Tensor) -> Tensor:
        """Unit vectors (n, d), by ψ, of triples (n, 3), the word ids of subject, relation and object."""
        n = len(words)
        if not n:
            return self.image.linear.weight.new_empty(0, self.image.linear.out_features)
        offsets = torch.arange(0, 3 * n + 1, 3)  # a triple is a text of three words
        return self.text(words.flatten(), offsets, torch.arange(n))  # of all n texts, in their order

    def sequences(self, texts: RunTexts, rows: Tensor, triples: Tensor) -> Sequences:
        """Unit vectors, by ψ in one pass, of texts `rows` (B,) and of triples (n, 3), word ids."""
        positions, _ = ragged_rows(texts.offsets, rows)
        sizes = texts.offsets[rows + 1] - texts.offsets[rows]
        # a triple is a sentence of three words without <start> and <end>
        sizes = torch.cat([sizes, sizes.new_full((len(triples),), 3)])
        words = texts.tokens[to_device(positions, texts.tokens.device)]
        tokens = torch.cat([words, triples.flatten().to(texts.tokens.dtype)])
        vectors = self.text(tokens, starts_of(sizes), torch.arange(len(rows) + len(triples)))
        return Sequences(vectors[: len(rows)], vectors[len(rows) :])

    def sentences_and_components(self, texts: RunTexts, rows: Tensor) -> CaptionParts:
        """The sentence vectors u_sent and component vectors u_comp of texts `rows` (B,).

        u_sent is of all words of a text; u_comp is composed of the vectors of its objects, of its attributed objects,
        and of its relations as triples of words.
        """
        graphs = require_graphs(texts)
        device = texts.tokens.device
        triples = graphs.triples.known_components(rows)
        sequences = self.sequences(texts, rows, graphs.triples.words[to_device(triples.rows, device)])
        objects = graphs.objects.known_components(rows)
        nouns = graphs.objects.words[to_device(objects.rows, device), 0]
        pairs = graphs.pairs.known_components(rows)
        attributed = graphs.pairs.words[to_device(pairs.rows, device)]  # attribute, noun
        vectors = {
            "obj": self.word_encoder(nouns),
            "attr": self.word_encoder(attributed[:, 1], attributed[:, 0]),
            "rel": sequences.triples,
        }
        owners = {"obj": objects.owner, "attr": pairs.owner, "rel": triples.owner}
        composed = self.compose(vectors, owners, len(rows))
        return CaptionParts(sequences.sentences, composed.vectors, composed.present)

    def compose(
        self, vectors: Tensors, owners: Tensors, captions: int, order: Tensors | None = None
    ) -> ComponentVectors:
        """u_comp of B captions, composed of the vectors of their components as `Composition` says.

        Args:
            vectors: (m, d) per kind (obj, attr, rel).
            owners: (m,) per kind, the caption of each component.
            captions: B.
            order: (m,) per kind, numbers that sort the components of a caption for a GRU, which reads one after the
                other; None: they stay in the order of `vectors`.
        """
        # self.components are the kinds that are composed. There may be none, so an empty part is joined in any case.
        no_owner = torch.empty(0, dtype=torch.long)
        no_vector = next(iter(vectors.values()))[:0]
        all_owners = torch.cat([no_owner, *(owners[kind] for kind in self.components)])
        all_vectors = torch.cat([no_vector, *(vectors[kind] for kind in self.components)])
        whole_order = torch.cat([order[kind] for kind in self.components]) if order and self.components else None
        has_components = torch.zeros(captions, dtype=torch.bool)
        has_components[all_owners] = True
        composed = self.composition(all_vectors, all_owners, captions, whole_order)
        return ComponentVectors(composed, to_device(has_components, all_vectors.device))

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """The caption vectors u_cap (B, d) of texts `rows` (B,), see `blend`."""
        parts = self.sentences_and_components(texts, rows)
        return blend(parts.sentences, parts.components, parts.present, self.alpha)

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
    """The scene graphs of texts, which hold their components. Raises ValueError if the texts have none."""
    if texts.graphs is None:
        raise ValueError("UniVSE needs components, these texts have none")
    return texts.graphs
