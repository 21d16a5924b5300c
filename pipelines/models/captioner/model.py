"""The two nets of a captioner, the sentences that they read, and how they are built and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ....schemas.captions import LANGUAGE
from ...readers.files import first_line
from .. import checkpoint
from ..encoders import TRANSFORMS
from ..settings import CAPTIONER_RESUMABLE, CaptionerConfig
from ..vocabulary import PAD_ID, START_ID, UNKNOWN_ID

FORBIDDEN = (PAD_ID, START_ID, UNKNOWN_ID)  # words with probability 0
IMAGES = 1024  # images whose features are read and transformed at a time: a grid of all of them may not fit in memory
MLE, GAN = PHASES = ("mle", "gan")  # names of the generator's weights after the first and the last phase


class LSTMState(NamedTuple):
    """The state of an LSTM for B sentences: hidden and cell, both (B, hidden)."""

    hidden: Tensor
    cell: Tensor

    def select(self, rows: Tensor) -> LSTMState:
        """The states of the sentences `rows` (b,)."""
        return LSTMState(self.hidden[rows], self.cell[rows])


class PaddedSentences(NamedTuple):
    """B sentences of up to T words: words (B, T) int64, padded with <pad>; lengths (B,), with <end> counted."""

    words: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        """(B, T) bool: True for words, False for padding."""
        return torch.arange(self.words.shape[1], device=self.words.device)[None, :] < self.lengths[:, None]

    def select(self, rows: Tensor) -> PaddedSentences:
        """The sentences `rows` (b,)."""
        return PaddedSentences(self.words[rows], self.lengths[rows])


class NextWord(NamedTuple):
    """What a generator knows after it has read a word: the logits (B, V) of the next one, and its new state."""

    logits: Tensor
    state: LSTMState


class Generator(nn.Module):
    """The policy π(word | image, noise z, previous words): an LSTM that starts from image features and noise.

    Its first state is tanh of a linear map of the concatenated features and z, which is standard normal.

    Args:
        features: D, the size of an image's feature vector.
        words: V, the size of the vocabulary.
        word_dim, hidden, noise, dropout: see CaptionerConfig.
    """

    forbidden: Tensor

    def __init__(self, features: int, words: int, *, word_dim: int, hidden: int, noise: int, dropout: float) -> None:
        """Make the layers: image and noise to the first state, words to vectors, states to the next word."""
        super().__init__()
        self.noise = noise
        self.embedding = nn.Embedding(words, word_dim)
        self.first = nn.Linear(features + noise, 2 * hidden)
        self.lstm = nn.LSTM(word_dim, hidden)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, words)
        forbidden = torch.zeros(words)  # is added to the logits
        forbidden[list(FORBIDDEN)] = -torch.inf
        self.register_buffer("forbidden", forbidden, persistent=False)

    def first_state(self, features: Tensor, noise: Tensor) -> LSTMState:
        """The state before the first word; features: (B, D), noise: (B, z)."""
        hidden, cell = self.first(torch.cat([features, noise], 1)).tanh().chunk(2, 1)
        return LSTMState(hidden, cell)

    def step(self, state: LSTMState, words: Tensor) -> NextWord:
        """Read the next word of each of B sentences, `words` (B,), and tell what may follow; without dropout."""
        hidden, cell = torch.lstm_cell(self.embedding(words), state, *self.lstm.all_weights[0])
        return NextWord(self._logits(hidden), LSTMState(hidden, cell))

    def _logits(self, hidden: Tensor) -> Tensor:
        """The logits (…, V) of the next word after states (…, hidden); -inf for the forbidden words."""
        return linear(hidden, self.out.weight, self.out.bias + self.forbidden)

    def forward(self, state: LSTMState, sentences: PaddedSentences) -> Tensor:
        """log π (B, T) of each word of sentences, starting from `state`; 0 for padding and for forbidden words."""
        words, lengths = sentences
        start = torch.full_like(words[:, :1], START_ID)
        previous_words = torch.cat([start, words[:, :-1]], 1)
        # Word t is predicted from the words before it, so the net reads <start> first and never the last word.
        inputs = pack_sentences(self.dropout(self.embedding(previous_words)), lengths)
        states, _ = self.lstm(inputs, (state.hidden[None], state.cell[None]))
        # From here all is packed: one row per word of any sentence, so that no time goes into padding.
        target = pack_sentences(words[..., None], lengths).data[:, 0]
        scores = self._logits(self.dropout(states.data)).log_softmax(1)
        allowed = (target[:, None] != torch.tensor(FORBIDDEN, device=words.device)).all(1)
        log_probs = scores.gather(1, target[:, None])[:, 0].where(allowed, 0)
        packed = PackedSequence(log_probs, inputs.batch_sizes, inputs.sorted_indices, inputs.unsorted_indices)
        return pad_packed_sequence(packed, batch_first=True, total_length=words.shape[1])[0]


def pack_sentences(values: Tensor, lengths: Tensor) -> PackedSequence:
    """Values (B, T, d) of sentences with lengths (B,), packed for torch's recurrent nets."""
    return pack_padded_sequence(values, lengths.cpu(), batch_first=True, enforce_sorted=False)


class Discriminator(nn.Module):
    """r(I, S) = σ(⟨f(I), h(S)⟩), the probability that a person wrote sentence S about image I (eq. 1).

    f is a linear map of the image's features, h the last state of an LSTM over the words; both are L2-normalized, as in
    Chen et al. (2019), not in Dai et al. (2017). So r lies in [σ(-1), σ(1)] = [0.27, 0.73]: D is never sure, and the
    rewards of two sentences differ by 0.46 at most.

    Args:
        features: D, the size of an image's feature vector.
        words: V, the size of the vocabulary.
        word_dim: the size of a word's vector.
        joint: the dimension of f and h.
    """

    def __init__(self, features: int, words: int, *, word_dim: int, joint: int) -> None:
        """Make the layers of f (a linear map) and of h (word vectors and an LSTM)."""
        super().__init__()
        self.image = nn.Linear(features, joint)
        self.embedding = nn.Embedding(words, word_dim, padding_idx=PAD_ID)
        self.lstm = nn.LSTM(word_dim, joint)

    def images(self, features: Tensor) -> Tensor:
        """f(I): unit vectors (B, joint) of images with features (B, D)."""
        return normalize(self.image(features), dim=1)

    def sentences(self, sentences: PaddedSentences) -> Tensor:
        """h(S): unit vectors (B, joint) of B sentences."""
        _, (last, _) = self.lstm(pack_sentences(self.embedding(sentences.words), sentences.lengths))
        return normalize(last[0], dim=1)

    def forward(self, images: Tensor, sentences: PaddedSentences) -> Tensor:
        """The logits (B,) of r: the dot product of each image vector (B, joint) with its encoded sentence."""
        return (images * self.sentences(sentences)).sum(1)


class Nets(NamedTuple):
    """The generator and the discriminator."""

    generator: Generator
    discriminator: Discriminator


def build_nets(config: CaptionerConfig, features: int, words: int) -> Nets:
    """New nets, whose weights depend only on the config.

    Args:
        config: of the captioner; its seed decides the weights.
        features: how many numbers the features of an image have.
        words: how many words the vocabulary has.
    """
    # A generator of its own: neither what was drawn before nor what is drawn after depends on these nets.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        generator = Generator(
            features, words, word_dim=config.word_dim, hidden=config.hidden, noise=config.noise, dropout=config.dropout
        )
        discriminator = Discriminator(features, words, word_dim=config.word_dim, joint=config.joint)
        return Nets(generator, discriminator)


def transform_features(features: Tensor, transform: str) -> Tensor:
    """Features for both nets, (I, D) float32, by a transform of TRANSFORMS; a grid (I, R, D) is averaged over its R
    regions first.
    """
    # In blocks: a grid has R times the numbers of the result, which would all be in memory as float32.
    blocks = []
    for stored in features.split(IMAGES):
        block = stored.float()
        if block.dim() == 3:
            block = block.mean(1)
        blocks.append(TRANSFORMS[transform](block))
    return torch.cat(blocks)


def weights_file(folder: Path, phase: str) -> Path:
    """The weights of a phase, "mle" or "gan". Raises ValueError for others, FileNotFoundError if they are not there."""
    if phase not in PHASES:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, was: {phase}")
    checkpoint.read_identity(folder, "captioner")
    path = folder / f"{phase}.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the training has not reached this phase (negcap captioner)")
    return path


class Captioner:
    """A trained captioner: the generator in the file `weights` (see `weights_file`), its folder's latest discriminator.

    nets, vocabulary, config: what was trained. features, backbone: the size of an image's feature vector, and the
    network that it is from. Raises FileNotFoundError or ValueError for a folder without a captioner, or damaged files.
    """

    def __init__(self, weights: Path, device: torch.device) -> None:
        """Check the files, make the nets that config.json describes, and load both into them."""
        folder = weights.parent
        identity = checkpoint.read_identity(folder, "captioner")
        # The files of weights are checked before nets are made, as a damaged config.json could ask for huge ones.
        generator = checkpoint.read_weights(folder, weights.stem)
        last = checkpoint.read_weights(folder, checkpoint.LAST)
        self.vocabulary = checkpoint.read_vocabularies(folder, [LANGUAGE])[LANGUAGE]
        try:
            given = {name: value for name, value in identity.config.items() if name not in CAPTIONER_RESUMABLE}
            self.config = CaptionerConfig(run=Path(), output=folder, **given)
            self.features = identity.features
            self.backbone = identity.backbone
            self.nets = build_nets(self.config, self.features, len(self.vocabulary))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            rule = f"{folder / checkpoint.CONFIG} must be what negcap captioner wrote"
            raise ValueError(f"{rule}, lacks: {first_line(error)}") from None
        generator.load_into({"generator": self.nets.generator})
        last.load_into({"discriminator": self.nets.discriminator})
        for net in self.nets:
            net.to(device).eval()

    def require_features(self, values: Tensor, backbone: str) -> None:
        """Raise ValueError for features (…, D) of another size or backbone than those of the training."""
        if values.shape[-1] != self.features or backbone != self.backbone:
            rule = f"features must be {self.features} numbers of {self.backbone!r} as the captioner's"
            raise ValueError(f"{rule}, are {values.shape[-1]} of {backbone!r}")
