"""Encoders that map images and sentences to vectors of the joint space, finished as its similarity has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from .config import RecurrentConfig
from .corpus import pack_sentences
from .device import to_device
from .prefix_gru import pooled_states, prefix_tree
from .similarities import Similarity, unit

MAX_WORDS = 100  # of a sentence that are read, besides <start>
Finish = Callable[[Tensor], Tensor]  # (…, d) -> (…, d), see Similarity


@dataclass(frozen=True)
class TextShape:
    """The shape of an encoder of sentences.

    word_dim: the size of the word vectors. joint: the dimension of the result. bidirectional: two recurrent nets of
    joint / 2 units, one per reading direction. pooling: of the states, "max" (per dimension, over all words) or "last".
    heads, attention_dim: of attention, see AttentionHeads; attention_dim 0: joint / heads.
    """

    word_dim: int
    joint: int
    bidirectional: bool = True
    pooling: str = "max"
    heads: int = 3
    attention_dim: int = 0


class Attended(NamedTuple):
    """The result of K attention heads over N states of size H, for each of B sequences.

    weights: (B, K, N), 0 for padding; those of a head sum to 1. vectors: (B, K, H), the weighted sums of the states.
    """

    weights: Tensor
    vectors: Tensor


class AttentionHeads(nn.Module):
    """K attention heads, each with a learned context vector c and two matrices W_c and W (Huang et al. 2019).

    A head gives state g_i the weight softmax_i(tanh(W_c c) · tanh(W g_i)). size: H, of states and context vectors.
    width: the number of rows of the matrices.
    """

    def __init__(self, size: int, width: int, heads: int, generator: Generator) -> None:
        super().__init__()
        self.context = nn.Parameter(torch.empty(heads, size).normal_(generator=generator))
        self.of_context = nn.Parameter(torch.empty(heads, width, size))
        self.of_state = nn.Parameter(torch.empty(heads, width, size))
        for weight in (self.of_context, self.of_state):
            for matrix in weight.data:
                nn.init.xavier_uniform_(matrix, generator=generator)

    def forward(self, states: Tensor, present: Tensor) -> Attended:
        """Attend to states (B, N, H) where `present` (B, N), bool, is True; each sequence has at least one such."""
        heads, width, size = self.of_state.shape
        wanted = torch.einsum("kwh,kh->kw", self.of_context, self.context).tanh()
        found = functional.linear(states, self.of_state.view(heads * width, size)).tanh()
        scores = (found.view(*states.shape[:2], heads, width) * wanted).sum(-1)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float)).masked_fill(~present[..., None], -torch.inf)
        weights = scores.softmax(1).transpose(1, 2).to(states.dtype)
        return Attended(weights, weights @ states)


class SentenceEncoder(nn.Module):
    """Maps sentences of one language to vectors (B, joint): word vectors, bidirectional LSTM, K attention heads.

    embedding: word ids (n,) to (n, word_dim). shape: joint, the size of the heads' vectors together, must be a multiple
    of 2 K; a state has joint / K numbers, half of them per reading direction. finish: see Similarity.
    """

    def __init__(self, embedding: nn.Module, shape: TextShape, generator: Generator, finish: Finish = unit) -> None:
        super().__init__()
        self.finish = finish
        self.embedding = embedding
        size = shape.joint // shape.heads
        self.lstm = nn.LSTM(shape.word_dim, size // 2, bidirectional=True)
        for parameter in self.lstm.parameters():
            bound = (size // 2) ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        self.heads = AttentionHeads(size, shape.attention_dim or size, shape.heads, generator)

    def attend(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Attended:
        """The heads over the words of sentences `rows` (B,), from <start> to <end>.

        tokens: (total,) word ids, on the encoder's device. offsets: (n + 1,), where each sentence starts; on the CPU,
        like rows.
        """
        packed = pack_sentences(offsets, rows, MAX_WORDS + 1)
        words = self.embedding(tokens[to_device(packed.positions, tokens.device)])
        states, _ = self.lstm(PackedSequence(words, packed.sizes))
        padded, lengths = pad_packed_sequence(states, batch_first=True)
        present = torch.arange(padded.shape[1])[None, :] < lengths[:, None]
        attended = self.heads(padded, to_device(present, padded.device))
        inverse = to_device(packed.inverse, tokens.device)
        return Attended(*(part[inverse] for part in attended))

    def forward(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Vectors (B, joint), float32, of sentences; arguments as those of `attend`."""
        return self.finish(self.attend(tokens, offsets, rows).vectors.flatten(1))


def signed_root(features: Tensor) -> Tensor:
    """sign(x) · sqrt(|x|) of features (…, D), scaled to unit length along the last dimension."""
    return functional.normalize(features.sign() * features.abs().sqrt(), dim=-1)


GROUNDED_STD = 0.3785  # of the learned part of a word's vector when training begins
MAX_K = 10  # values per dimension that max-k pooling averages
MEANS = ("average", "crop")  # poolings that average features
TRANSFORMS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "root": signed_root,
    "l2": lambda features: functional.normalize(features, dim=-1),
    "none": lambda features: features,
}


class ImageEncoder(nn.Module):
    """Maps image features (B, D), or regions on a grid (B, R, D), to vectors: transform, linear layer, finish.

    size: D. joint: the dimension of the result. transform: a key of TRANSFORMS. pooling, over regions: average, before
    the linear layer, as is crop, over crops; max or max-k, after it and per dimension (max-k: the mean of the 10
    highest values; UniVSE, supplement A). finish: see Similarity; unit vectors by default.
    """

    def __init__(
        self,
        size: int,
        joint: int,
        transform: str,
        generator: Generator,
        pooling: str = "average",
        finish: Finish = unit,
    ) -> None:
        super().__init__()
        self.finish = finish
        self.transform = transform
        self.pooling = pooling
        self.linear = nn.Linear(size, joint)
        nn.init.xavier_uniform_(self.linear.weight, generator=generator)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Vectors (B, joint), float32, of features (B, D) or (B, R, D) of any float type."""
        if self.pooling in MEANS or features.dim() == 2:
            features = features.float()
            return self._mapped(features.mean(1) if features.dim() == 3 else features)
        return self._pooled(self._map(features))

    def with_regions(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (B, joint) and (B, R, joint) of features (B, R, D); R = 1 for features (B, D) without a grid."""
        if features.dim() == 2:
            image = self(features)
            return image, image[:, None]
        regions = self._map(features)
        image = self(features) if self.pooling in MEANS else self._pooled(regions)
        return image, self.finish(regions)

    def _map(self, features: Tensor) -> Tensor:
        return self.linear(TRANSFORMS[self.transform](features.float()))

    def _mapped(self, features: Tensor) -> Tensor:
        return self.finish(self._map(features))

    def _pooled(self, regions: Tensor) -> Tensor:
        highest = 1 if self.pooling == "max" else min(MAX_K, regions.shape[1])
        return self.finish(regions.topk(highest, dim=1, sorted=False).values.mean(1))


class WordEmbedding(nn.Embedding):
    """A word embedding (words, size), some of whose rows are not trained; `fixed`: (words,) bool, which."""

    fixed: Tensor

    def __init__(self, words: int, size: int) -> None:
        super().__init__(words, size)
        self.register_buffer("fixed", torch.zeros(words, dtype=torch.bool), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """The vectors (…, size) of words (…), ids; the fixed ones are constants."""
        vectors = super().forward(input)
        return torch.where(self.fixed[input.long()][..., None], vectors.detach(), vectors)


def word_embedding(words: int, size: int, generator: Generator, vectors: Tensor | None, tune: bool) -> WordEmbedding:
    """A word embedding, initialized uniformly in [-0.1, 0.1], or from `vectors`.

    words: the size of the vocabulary. size: the dimension. vectors: (words, size), with NaN rows for words to
    initialize at random, which are always trained; None: all are. tune: whether the words with a vector are trained.
    """
    embedding = WordEmbedding(words, size)
    nn.init.uniform_(embedding.weight, -0.1, 0.1, generator=generator)
    if vectors is not None:
        known = ~vectors.isnan().any(1)
        with torch.no_grad():
            embedding.weight[known] = vectors[known]
        if not tune:
            embedding.fixed.copy_(known)
    return embedding


class TwoPartEmbedding(nn.Module):
    """A word as a fixed distributional vector joined with a learned, visually grounded one (VSE-C, section 3.1).

    vectors: (words, fixed) from a file, NaN for words that it lacks, whose fixed part is 0; None: all 0, to be loaded.
    The learned parts (words, grounded) are drawn from N(0, 0.3785²), as in VSE-C's released code.
    """

    fixed: Tensor

    def __init__(self, words: int, fixed: int, grounded: int, generator: Generator, vectors: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("fixed", torch.zeros(words, fixed) if vectors is None else vectors.nan_to_num())
        self.learned = nn.Embedding(words, grounded)
        nn.init.normal_(self.learned.weight, std=GROUNDED_STD, generator=generator)

    def forward(self, words: Tensor) -> Tensor:
        """The vectors (n, fixed + grounded) of words (n,), ids."""
        return torch.cat([self.fixed[words.long()], self.learned(words)], -1)


class TextEncoder(nn.Module):
    """A GRU or LSTM over word vectors, whose states are pooled and finished.

    embedding: word ids (n,) to (n, word_dim). finish: see Similarity; unit vectors by default. kind: of the net, whose
    weights begin uniformly in ±1 / √(its number of hidden units).
    """

    def __init__(
        self,
        embedding: nn.Module,
        shape: TextShape,
        generator: Generator,
        finish: Finish = unit,
        kind: type[nn.GRU] | type[nn.LSTM] = nn.GRU,
    ) -> None:
        super().__init__()
        self.finish = finish
        self.pooling = shape.pooling
        self.embedding = embedding
        hidden = shape.joint // 2 if shape.bidirectional else shape.joint
        self.net = kind(shape.word_dim, hidden, bidirectional=shape.bidirectional)
        for parameter in self.net.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5, generator=generator)

    def forward(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Vectors (B, joint), float32, of sentences `rows` (B,) in a flat array of word ids.

        tokens: (total,) on the encoder's device. offsets: (n + 1,), where each sentence starts; rows: sentence indices;
        both on the CPU.
        """
        if tokens.is_cuda or isinstance(self.net, nn.LSTM):
            return self.finish(run_packed(self.net, self.embedding, self.pooling, tokens, offsets, rows))
        return self.finish(self._run_prefix_tree(tokens, offsets, rows))

    def _run_prefix_tree(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Each common prefix is computed only once: fewer operations in more steps, fastest on a CPU."""
        parts = []
        vectors = None  # of the distinct words, which are the same in both directions
        for suffix in ("", "_reverse") if self.net.bidirectional else ("",):
            tree = prefix_tree(tokens, offsets, rows, backwards=bool(suffix))
            words, which = tree.word.unique(return_inverse=True)
            from_input, from_hidden = (
                (getattr(self.net, f"weight_{x}_l0{suffix}"), getattr(self.net, f"bias_{x}_l0{suffix}"))
                for x in ("ih", "hh")
            )
            vectors = self.embedding(words) if vectors is None else vectors
            gates = functional.linear(vectors, *from_input)
            parts.append(pooled_states(gates, *from_hidden, which, tree, self.pooling))
        return torch.cat(parts, 1)


def run_packed(
    net: nn.GRU | nn.LSTM, embedding: nn.Module, pooling: str, tokens: Tensor, offsets: Tensor, rows: Tensor
) -> Tensor:
    """The pooled states (B, joint) of a recurrent net over sentences `rows` (B,), all in parallel.

    pooling: max or last. The other arguments are those of TextEncoder.
    """
    packed = pack_sentences(offsets, rows)
    words = tokens[to_device(packed.positions, tokens.device)]
    states, last = net(PackedSequence(embedding(words), packed.sizes))
    if pooling == "last":
        last = last if isinstance(net, nn.GRU) else last[0]  # an LSTM also has the states of its cells
        pooled = last.transpose(0, 1).flatten(1)
    else:
        pooled = pad_packed_sequence(states, padding_value=float("-inf"))[0].amax(0)
    return pooled[to_device(packed.inverse, tokens.device)]


# Encoders of sentences by name: each is built from a word embedding, a TextShape, a generator and a finish.
TEXT_ENCODERS: Mapping[str, Callable[..., nn.Module]] = {
    "gru": TextEncoder,
    "lstm": partial(TextEncoder, kind=nn.LSTM),
    "attention": SentenceEncoder,
}


def build_encoders(
    config: RecurrentConfig,
    features: int,
    embedding: Callable[[Generator], nn.Module],
    word_dim: int,
    similarity: Similarity,
) -> tuple[ImageEncoder, Any]:
    """New encoders of images and texts (one of TEXT_ENCODERS), whose initial weights depend only on the config.

    features: the size of an image's feature vector. embedding: called with a torch generator, makes the word embedding.
    word_dim: the size of its vectors.
    """
    generator = Generator().manual_seed(config.seed)
    with torch.random.fork_rng(devices=[]):  # the layers' default initialization must not change the global state
        image = ImageEncoder(
            features, config.joint, config.transform, generator, config.image_pooling, similarity.finish
        )
        recurrent = config.bidirectional, config.pooling
        shape = TextShape(word_dim, config.joint, *recurrent, config.heads, config.attention_dim)
        return image, TEXT_ENCODERS[config.text_encoder](embedding(generator), shape, generator, similarity.finish)
