"""Encoders that map images and sentences to vectors of the joint space, finished as its similarity has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from .config import RecurrentConfig
from .data import RunTexts, pack_sentences
from .device import to_device
from .similarities import COSINE, VectorSimilarity, unit_vectors

MAX_WORDS = 100  # that attention heads read of a sentence, besides <start>
Finish = Callable[[Tensor], Tensor]  # (…, d) -> (…, d), see VectorSimilarity


class EmbeddingModel(nn.Module):
    """What all embedding models have in common: images and texts become vectors of one space, which it can compare.

    Attributes:
        image: maps features (B, …) of images to vectors (B, d).
        text: the encoder of texts; of several languages, one for each.
        similarity: how vectors of images and texts are compared.
        feature_size: how many numbers the features of an image, or of one of its regions, have.
    """

    image: nn.Module
    text: nn.Module
    similarity: VectorSimilarity = COSINE
    feature_size: int

    def sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """Vectors (B, d) of texts `rows` (B,)."""
        raise NotImplementedError

    def plain_sentences(self, texts: RunTexts, rows: Tensor) -> Tensor:
        """Vectors (B, d) from the words alone, for texts whose components (scene graph) are not known."""
        return self.sentences(texts, rows)


# images

MAX_K = 10  # values per dimension that max-k pooling averages
MEANS = ("average", "crop")  # poolings that average features


def signed_root(features: Tensor) -> Tensor:
    """sign(x) · sqrt(|x|) of features (…, D), scaled to unit length along the last dimension."""
    return functional.normalize(features.sign() * features.abs().sqrt(), dim=-1)


TRANSFORMS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "root": signed_root,
    "l2": lambda features: functional.normalize(features, dim=-1),
    "none": lambda features: features,
}


def linear_layer(size: int, joint: int, generator: Generator) -> nn.Linear:
    """A linear layer from `size` to `joint` numbers, with Glorot-uniform weights and biases of 0."""
    linear = nn.Linear(size, joint)
    nn.init.xavier_uniform_(linear.weight, generator=generator)
    nn.init.zeros_(linear.bias)
    return linear


class ImageVectors(NamedTuple):
    """The vectors of B images (B, joint), and those of their R regions (B, R, joint)."""

    images: Tensor
    regions: Tensor


class ImageEncoder(nn.Module):
    """Maps image features (B, D), or regions on a grid (B, R, D), to vectors: transform, linear layer, finish.

    Args:
        size: D.
        joint: the dimension of the result.
        transform: a key of TRANSFORMS.
        pooling: how R regions become one vector. average and crop (over crops) average features, before the linear
            layer. max and max-k pool each dimension after it; max-k is the mean of the 10 highest values (UniVSE,
            supplement A).
        finish: what the similarity does with a vector at last, such as scaling it to unit length.
    """

    def __init__(
        self,
        size: int,
        joint: int,
        transform: str,
        generator: Generator,
        pooling: str = "average",
        finish: Finish = unit_vectors,
    ) -> None:
        """Make the linear layer, with weights from a generator. transform: of features before it, see TRANSFORMS."""
        super().__init__()
        self.finish = finish
        self.transform = transform
        self.pooling = pooling
        self.linear = linear_layer(size, joint, generator)

    def forward(self, features: Tensor) -> Tensor:
        """Vectors (B, joint), float32, of features (B, D) or (B, R, D) of any float type."""
        features = features.float()
        if features.dim() == 3 and self.pooling in MEANS:
            features = features.mean(1)  # without vectors of regions, the layer is applied once per image
        return self.with_regions(features).images

    def with_regions(self, features: Tensor) -> ImageVectors:
        """Vectors of images and of their regions, from features (B, R, D), or (B, D), which count as R = 1 region."""
        features = features.float()
        regions = self._map(features)
        if features.dim() == 2:
            image = self.finish(regions)
            return ImageVectors(image, image[:, None])
        if self.pooling in MEANS:
            # The features are averaged, not the vectors: the transform need not be linear.
            image = self._map(features.mean(1))
        else:
            # a grid may have fewer than ten regions
            k = 1 if self.pooling == "max" else min(MAX_K, regions.shape[1])
            image = regions.topk(k, dim=1, sorted=False).values.mean(1)
        return ImageVectors(self.finish(image), self.finish(regions))

    def _map(self, features: Tensor) -> Tensor:
        """Features (…, D), transformed, then through the linear layer: (…, joint)."""
        return self.linear(TRANSFORMS[self.transform](features))


# words

GROUNDED_STD = 0.3785  # of the learned part of a word's vector when training begins


class WordEmbedding(nn.Embedding):
    """A word embedding (words, size). fixed: (words,) bool, True for the words whose vectors are not trained."""

    fixed: Tensor

    def __init__(self, words: int, size: int) -> None:
        super().__init__(words, size)
        self.register_buffer("fixed", torch.zeros(words, dtype=torch.bool), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """The vectors (…, size) of word ids (…); no gradient flows into the fixed ones."""
        vectors = super().forward(input)
        return torch.where(self.fixed[input.long()][..., None], vectors.detach(), vectors)


def word_embedding(words: int, size: int, generator: Generator, vectors: Tensor | None, tune: bool) -> WordEmbedding:
    """A new word embedding (words, size), with random or given vectors.

    Args:
        words: the size of the vocabulary.
        size: of a word's vector.
        generator: of random vectors, which are uniform in [-0.1, 0.1] and always trained.
        vectors: (words, size) the given ones, NaN for words that get a random one; None: all are random.
        tune: whether the given vectors are trained, too, as random ones are.
    """
    embedding = WordEmbedding(words, size)
    # all words get random numbers first, so that the generator is in the same state with and without given vectors
    nn.init.uniform_(embedding.weight, -0.1, 0.1, generator=generator)
    if vectors is not None:
        known = ~vectors.isnan().any(1)
        embedding.weight.data[known] = vectors[known]
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
        """Make both parts for `words` words; fixed, grounded: how many numbers of a word's vector each part has."""
        super().__init__()
        # a buffer: saved with the model, so that the file of vectors is not needed again
        self.register_buffer("fixed", torch.zeros(words, fixed) if vectors is None else vectors.nan_to_num())
        self.learned = nn.Embedding(words, grounded)
        nn.init.normal_(self.learned.weight, std=GROUNDED_STD, generator=generator)

    def forward(self, words: Tensor) -> Tensor:
        """The vectors (n, fixed + grounded) of word ids (n,)."""
        return torch.cat([self.fixed[words.long()], self.learned(words)], -1)


# sentences: encoders are called with the flat array of word ids of n sentences (total,), on their device; with offsets
# (n + 1,), where each starts, and rows (B,), the sentences to encode, both on the CPU


class Attended(NamedTuple):
    """The result of K attention heads over N states of size H, for each of B sequences. weights: (B, K, N), 0 for
    padding; those of a head sum to 1. vectors: (B, K, H), the weighted sums of the states.
    """

    weights: Tensor
    vectors: Tensor


class AttentionHeads(nn.Module):
    """K attention heads, each with a learned context vector c and matrices W_c and W, (width, size) (Huang et al.
    2019). A head gives state g_i the weight softmax_i(tanh(W_c c) · tanh(W g_i)). The states are the sequence that is
    attended to, such as the outputs of an LSTM.
    """

    def __init__(self, size: int, width: int, heads: int, generator: Generator) -> None:
        """Make K = `heads` context vectors and two matrices for each, with weights from a generator.

        size: H, of a state and of a context vector. width: of the vectors that the matrices map both to.
        """
        super().__init__()
        self.context = nn.Parameter(torch.empty(heads, size).normal_(generator=generator))  # c
        self.of_context = nn.Parameter(torch.empty(heads, width, size))  # W_c
        self.of_state = nn.Parameter(torch.empty(heads, width, size))  # W
        for weight in (self.of_context, self.of_state):
            for matrix in weight.data:
                nn.init.xavier_uniform_(matrix, generator=generator)

    def forward(self, states: Tensor, present: Tensor) -> Attended:
        """Attend to states (B, N, H) where `present` (B, N), bool, is True; each sequence has at least one such."""
        queries = torch.einsum("kwh,kh->kw", self.of_context, self.context).tanh()  # (K, width)
        # one product with the matrices of all heads, (K * width, H), is faster than K of them
        keys = functional.linear(states, self.of_state.flatten(0, 1)).tanh()
        keys = keys.unflatten(-1, queries.shape)  # (B, N, K, width)
        scores = (keys * queries).sum(-1)  # (B, N, K)
        # the softmax is in float32, also where autocast computes the scores in bf16
        scores = scores.to(torch.promote_types(scores.dtype, torch.float)).masked_fill(~present[..., None], -torch.inf)
        weights = scores.softmax(1).transpose(1, 2).to(states.dtype)
        return Attended(weights, weights @ states)


def _init_recurrent(net: nn.Module, hidden: int, generator: Generator) -> None:
    """Draw the weights of a net, uniform in ±1 / √hidden, as torch does by default, but from this generator."""
    bound = hidden**-0.5
    for parameter in net.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)


class SentenceEncoder(nn.Module):
    """Maps sentences of one language to vectors (B, joint): word vectors, bidirectional LSTM, K attention heads.

    Args:
        embedding: word ids (n,) to (n, word_dim).
        word_dim: the size of a word's vector.
        joint: a multiple of 2 K; a state has joint / K numbers, half of them per reading direction.
        generator: of the initial weights.
        finish: what the similarity does with a vector at last, such as scaling it to unit length.
        heads: K.
        attention_dim: rows of the heads' matrices; 0: as many as a state has numbers, joint / K.
    """

    def __init__(
        self,
        embedding: nn.Module,
        word_dim: int,
        joint: int,
        generator: Generator,
        finish: Finish = unit_vectors,
        heads: int = 3,
        attention_dim: int = 0,
    ) -> None:
        """Make the LSTM, whose states have joint / heads numbers, and the heads that attend to them."""
        super().__init__()
        self.finish = finish
        self.embedding = embedding
        # The vectors of the heads are joined to one of `joint` numbers, so a state has the share of one head.
        size = joint // heads
        self.lstm = nn.LSTM(word_dim, size // 2, bidirectional=True)
        _init_recurrent(self.lstm, size // 2, generator)
        self.heads = AttentionHeads(size, attention_dim or size, heads, generator)

    def attend(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Attended:
        """What each head attends to in sentences `rows` (B,), from <start> to <end>, and the vectors that it makes."""
        packed = pack_sentences(offsets, rows, MAX_WORDS + 1)
        words = self.embedding(tokens[to_device(packed.positions, tokens.device)])
        states, _ = self.lstm(PackedSequence(words, packed.sizes))
        padded, lengths = pad_packed_sequence(states, batch_first=True)
        present = torch.arange(padded.shape[1])[None, :] < lengths[:, None]
        attended = self.heads(padded, to_device(present, padded.device))
        inverse = to_device(packed.inverse, tokens.device)  # from longest first to the order of `rows`
        return Attended(attended.weights[inverse], attended.vectors[inverse])

    def forward(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Vectors (B, joint), float32, of sentences."""
        return self.finish(self.attend(tokens, offsets, rows).vectors.flatten(1))


class TextEncoder(nn.Module):
    """A GRU or LSTM over word vectors, whose states are pooled and finished.

    Args:
        embedding: word ids (n,) to (n, word_dim).
        word_dim: the size of a word's vector.
        joint: the dimension of the result.
        generator: of the initial weights, which are uniform in ±1 / √(units of the net).
        finish: what the similarity does with a vector at last, such as scaling it to unit length.
        bidirectional: two nets of joint / 2 units, one per reading direction.
        pooling: of the states: "max", per dimension over all words, or "last".
        kind: of the net.
    """

    def __init__(
        self,
        embedding: nn.Module,
        word_dim: int,
        joint: int,
        generator: Generator,
        finish: Finish = unit_vectors,
        bidirectional: bool = True,
        pooling: str = "max",
        kind: type[nn.GRU] | type[nn.LSTM] = nn.GRU,
    ) -> None:
        """Make the recurrent net, with weights from a generator."""
        super().__init__()
        self.finish = finish
        self.pooling = pooling
        self.embedding = embedding
        hidden = joint // 2 if bidirectional else joint
        self.net = kind(word_dim, hidden, bidirectional=bidirectional)
        _init_recurrent(self.net, hidden, generator)

    def forward(self, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
        """Vectors (B, joint), float32, of sentences."""
        # the prefix tree has many small steps, slow on a GPU, and is implemented for the equations of a GRU only
        if tokens.is_cuda or isinstance(self.net, nn.LSTM):
            return self.finish(run_packed(self.net, self.embedding, self.pooling, tokens, offsets, rows))
        return self.finish(run_prefix_tree(self.net, self.embedding, self.pooling, tokens, offsets, rows))


def run_packed(
    net: nn.GRU | nn.LSTM, embed: nn.Module, pool: str, tokens: Tensor, offsets: Tensor, rows: Tensor
) -> Tensor:
    """The pooled states (B, joint) of a recurrent net over sentences, all of them in parallel.

    Args:
        net: the GRU or LSTM.
        embed: word ids (n,) to vectors.
        pool: of the states: "max", per dimension over all words, or "last".
        tokens, offsets: the word ids of all sentences, and where each begins.
        rows: (B,) the sentences to encode.
    """
    packed = pack_sentences(offsets, rows)
    words = tokens[to_device(packed.positions, tokens.device)]
    states, last = net(PackedSequence(embed(words), packed.sizes))
    if pool == "last":
        last = last if isinstance(net, nn.GRU) else last[0]  # an LSTM also has the states of its cells
        pooled = last.transpose(0, 1).flatten(1)
    else:
        pooled = pad_packed_sequence(states, padding_value=float("-inf"))[0].amax(0)
    return pooled[to_device(packed.inverse, tokens.device)]


def run_prefix_tree(net: nn.GRU, embed: nn.Module, pool: str, tokens: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
    """The pooled states of a GRU over sentences, as `run_packed` gives them, but faster for captions with negatives.

    The state after a common prefix is computed once, however many sentences begin with it. A negative shares with its
    caption all words before the first edit and, read backwards, all after the last. The input's part of the gates is
    computed once per distinct word. On a CPU, captions with 8 negatives each take a quarter of the time.

    Args:
        net: the GRU, of one direction or two.
        embed: word ids (n,) to vectors.
        pool: of the states: "max" or "last".
        tokens, offsets: the word ids of all sentences, and where each begins.
        rows: (B,) the sentences to encode.
    """
    pooled = []
    vectors = None
    for suffix in ("", "_reverse") if net.bidirectional else ("",):  # as in torch's names of the weights
        tree = prefix_tree(tokens, offsets, rows, backwards=bool(suffix))
        words, word_of_node = torch.cat(tree.words).unique(return_inverse=True)
        # the embedding may be UniVSE's word encoder, which costs more than a look-up
        vectors = embed(words) if vectors is None else vectors  # the distinct words are the same in both directions
        nodes = _states_of_nodes(net, suffix, tree, vectors, word_of_node, pool)
        pooled.append(nodes.index_select(0, tree.leaf))
    return torch.cat(pooled, 1)


def _states_of_nodes(
    net: nn.GRU, suffix: str, tree: PrefixTree, vectors: Tensor, word_of_node: Tensor, pool: str
) -> Tensor:
    """The pooled state (nodes, hidden) of one direction of a GRU after each prefix of a tree, by the GRU's equations.

    Args:
        net: the GRU.
        suffix: of the names of its weights in this direction.
        tree: the prefixes.
        vectors: (distinct words, word_dim).
        word_of_node: (nodes,) the last word of each prefix, as an index into `vectors`.
        pool: "last": the state itself; "max": per dimension, the maximum over the states of the prefix.
    """
    size = net.hidden_size
    weight_of_input = getattr(net, f"weight_ih_l0{suffix}")
    bias_of_input = getattr(net, f"bias_ih_l0{suffix}")
    weight_of_state = getattr(net, f"weight_hh_l0{suffix}")
    bias_of_state = getattr(net, f"bias_hh_l0{suffix}")

    by_word = functional.linear(vectors, weight_of_input, bias_of_input)  # (distinct words, 3 · hidden)
    # index_select, unlike [], has a gradient that is added up by rows
    inputs = by_word.index_select(0, word_of_node).split([len(words) for words in tree.words])

    states = vectors.new_zeros(1, size)  # the root, from which all prefixes of one word come
    highest = states
    steps: list[Tensor] = []
    for gates, parent in zip(inputs, tree.parents, strict=True):
        # parents ascend, so that each state is multiplied by the weights once
        distinct_parents, branch = parent.unique_consecutive(return_inverse=True)
        parent_states = states.index_select(0, distinct_parents)
        hidden = functional.linear(parent_states, weight_of_state, bias_of_state).index_select(0, branch)
        before = parent_states.index_select(0, branch)

        # torch's order of gates is reset, update, new
        reset_update, new = gates.split([2 * size, size], 1)
        reset_update_hidden, new_hidden = hidden.split([2 * size, size], 1)
        reset, update = torch.sigmoid(reset_update + reset_update_hidden).chunk(2, 1)
        states = torch.lerp(torch.tanh(new.addcmul(reset, new_hidden)), before, update)
        # the maximum begins with the state after the first word, not with the root
        highest = torch.maximum(highest.index_select(0, parent), states) if steps and pool == "max" else states
        steps.append(highest)
    return torch.cat(steps)


class PrefixTree(NamedTuple):
    """The distinct prefixes (nodes) of B sentences, by their length: "a dog runs", "a dog sits" have four.

        step        0      1       2
        nodes       a      a dog   a dog runs, a dog sits
        words       [a]    [dog]   [runs, sits]
        parents     [0]    [0]     [0, 0]
        leaf                       [2, 3]

    words: for each step, the id of the last word of each prefix. parents: for each step, the position in the step
    before of the prefix that is one word shorter, ascending, 0 in the first step. leaf: (B,) the node of each whole
    sentence, counted over all steps.
    """

    words: list[Tensor]
    parents: list[Tensor]
    leaf: Tensor


ABOVE_ANY_WORD = 1 << 31  # ids of words are less


def prefix_tree(tokens: Tensor, offsets: Tensor, rows: Tensor, *, backwards: bool = False) -> PrefixTree:
    """The distinct prefixes of sentences, as a tree: a node for each prefix, and the leaf of each sentence.

    Args:
        tokens, offsets: the word ids of all sentences, and where each begins.
        rows: (B,) the sentences to look at; none of them is empty.
        backwards: whether they are read from their ends.
    """
    starts = offsets[rows]
    ends = offsets[rows + 1]
    lengths, order = (ends - starts).sort(descending=True, stable=True)
    first = (ends - 1 if backwards else starts)[order]
    direction = -1 if backwards else 1
    # at step k, how many sentences are longer than k words: in `order`, these are the first ones
    longer_than = (len(rows) - torch.bincount(lengths).cumsum(0))[:-1].tolist()

    words = []
    parents = []
    leaf = torch.empty_like(order)
    nodes = 0
    node = torch.zeros_like(order)  # the prefix of each sentence in the step before, as a position in that step
    for step, longer in enumerate(longer_than):
        # one number for a prefix: the prefix that is one word shorter, then the word
        keys = node[:longer] * ABOVE_ANY_WORD + tokens[first[:longer] + step * direction]
        distinct, node = keys.unique(return_inverse=True)
        words.append(distinct % ABOVE_ANY_WORD)
        parents.append(torch.div(distinct, ABOVE_ANY_WORD, rounding_mode="floor"))
        leaf[order[:longer]] = nodes + node  # a later step overwrites this for sentences that go on
        nodes += len(distinct)
    return PrefixTree(words, parents, leaf)


class Encoders(NamedTuple):
    """An encoder of images and one of texts, into one space."""

    image: ImageEncoder
    text: TextEncoder | SentenceEncoder


def build_encoders(
    config: RecurrentConfig,
    features: int,
    embedding: Callable[[Generator], nn.Module],
    word_dim: int,
    similarity: VectorSimilarity,
) -> Encoders:
    """New encoders of images, and of texts as the config names it, whose initial weights depend only on the config.

    Args:
        config: of the model.
        features: the size of an image's features.
        embedding: makes the word embedding, by a torch generator.
        word_dim: the size of the vectors that it gives words.
        similarity: of the vectors; its `finish` is the last step of both encoders.
    """
    generator = Generator().manual_seed(config.seed)
    finish = similarity.finish
    with torch.random.fork_rng(devices=[]):  # the layers' default initialization must not change the global state
        # the order matters: all parts draw their weights from one generator
        image = ImageEncoder(features, config.joint, config.transform, generator, config.image_pooling, finish)
        words = embedding(generator)
        text: TextEncoder | SentenceEncoder
        if config.text_encoder == "attention":
            text = SentenceEncoder(
                words, word_dim, config.joint, generator, finish, heads=config.heads, attention_dim=config.attention_dim
            )
        else:
            text = TextEncoder(
                words,
                word_dim,
                config.joint,
                generator,
                finish,
                bidirectional=config.bidirectional,
                pooling=config.pooling,
                kind=nn.LSTM if config.text_encoder == "lstm" else nn.GRU,
            )
    return Encoders(image, text)
