"""The two nets of a captioner, and how they are built and loaded."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import checkpoint
from ..encoders import TRANSFORMS
from ..vocabulary import END_ID, PAD_ID, UNKNOWN_ID, WordVocabulary
from .config import RESUMABLE, CaptionerConfig
from .generator import Generator, GeneratorShape, PaddedSentences, pack_sentences

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64 (Steele et al. 2014)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))


class CaptionNoise(NamedTuple):
    """The random numbers of n captions: normal (n, z) for the generator, uniforms (n, words) to sample its words."""

    normal: Tensor
    uniforms: Tensor


def stream_keys(seed: int, names: Iterable[str]) -> npt.NDArray[np.uint64]:
    """A key (n,) per name, which selects its stream of random numbers."""
    digests = b"".join(blake2b(f"{seed}\x1fcaption\x1f{name}".encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def stream_uniforms(keys: npt.NDArray[np.uint64], first: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.float64]:
    """`count` numbers in (0, 1) from each stream, (n, count), by splitmix64.

    keys: (n,) of the streams. first: (n,) from 0, the position of the first number in the stream.
    """
    with np.errstate(over="ignore"):
        numbers = first[:, None] + np.arange(1, count + 1, dtype=np.uint64)
        bits = np.asarray(keys[:, None] + _STEP * numbers, np.uint64)
        for shift, factor in _MIX:
            bits = (bits ^ (bits >> shift)) * factor
        bits ^= bits >> np.uint64(31)
    return np.asarray(((bits >> np.uint64(12)) + 0.5) * 2.0**-52, np.float64)


def caption_noise(
    keys: npt.NDArray[np.uint64], numbers: npt.NDArray[np.uint64], noise: int, words: int
) -> CaptionNoise:
    """The noise of captions number `numbers` (n,) of the images with `keys` (n,).

    noise: the size of z. words: the maximum number of words of a caption.
    """
    values = torch.from_numpy(stream_uniforms(keys, numbers * np.uint64(noise + words), noise + words))
    return CaptionNoise(torch.special.ndtri(values[:, :noise]).float(), values[:, noise:])


MIN_WORDS = 4  # the full stop counts: "a dog runs ." has four
PHRASE = 4  # words; see `degeneracy`
_NO_SPACE_BEFORE = r" ([.,!?;:%)]|'(?:s|re|ve|ll|d|m)\b|n't\b|' )"


def join_words(sentences: PaddedSentences, vocabulary: WordVocabulary) -> pa.Array:
    """The words of B sentences joined by spaces, without <end>: `a dog 's ball .`"""
    words, inside = sentences.words, sentences.mask & (sentences.words != END_ID)
    flat = pa.array(words[inside].cpu().numpy().astype(np.int32))
    texts = pa.DictionaryArray.from_arrays(flat, pa.array(vocabulary.words)).cast(pa.string())
    offsets = torch.cat([inside.new_zeros(1, dtype=torch.long), inside.sum(1).cumsum(0)])
    lists = pa.ListArray.from_arrays(pa.array(offsets.cpu().numpy().astype(np.int32)), texts)
    return pc.binary_join(lists, " ")


def detokenize(texts: pa.Array) -> pa.Array:
    """Joined words as people write them: `a dog 's ball .` -> `A dog's ball.`"""
    text = pc.replace_substring_regex(texts, "`` | ''", '"')
    return pc.utf8_capitalize(pc.replace_substring_regex(text, _NO_SPACE_BEFORE, r"\1"))


def normalize(texts: pa.Array) -> pa.Array:
    """Texts in lower case and reduced to letters and digits, to compare captions: `A dog's ball.` -> `a dog s ball`."""
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\pL\pN]+", " "))


def degeneracy(sentences: PaddedSentences) -> Tensor:
    """(B,): 0 for an acceptable sentence, k for the first of CAPTION_REASONS that applies, counted from 1.

    unfinished: no <end>. unknown_word: contains <unk>. too_short: fewer than MIN_WORDS words. repeated_word: the same
    word twice in succession. repeated_phrase: 2 to PHRASE - 1 words twice in succession, or PHRASE words twice
    anywhere.
    """
    words, lengths = sentences
    mask = sentences.mask & (words != END_ID)
    ended = words.gather(1, (lengths - 1)[:, None])[:, 0] == END_ID
    repeated_word = ((words[:, 1:] == words[:, :-1]) & mask[:, 1:]).any(1)
    phrases = words.unfold(1, PHRASE, 1)
    equal = (phrases[:, :, None] == phrases[:, None, :]).all(-1)
    whole = mask[:, PHRASE - 1 :]
    repeated_phrase = (equal & whole[:, :, None] & whole[:, None, :]).flatten(1).sum(1) > whole.sum(1)
    for period in range(2, PHRASE):
        again = (words[:, period:] == words[:, :-period]) & mask[:, period:]
        repeated_phrase = repeated_phrase | again.unfold(1, period, 1).all(-1).any(1)
    unknown_word = ((words == UNKNOWN_ID) & mask).any(1)
    found = torch.stack([~ended, unknown_word, mask.sum(1) < MIN_WORDS, repeated_word, repeated_phrase], 1).long()
    return torch.where(found.any(1), found.argmax(1) + 1, 0)


class Discriminator(nn.Module):
    """r(I, S) = σ(⟨f(I), h(S)⟩), the probability that a person wrote sentence S about image I (eq. 1).

    f is a linear map of the image's features, h the last state of an LSTM over the words; both are L2-normalized.
    features: the size of an image's feature vector. words: the size of the vocabulary. joint: the dimension of f and h.
    """

    def __init__(self, features: int, words: int, *, word_dim: int, joint: int) -> None:
        super().__init__()
        self.image = nn.Linear(features, joint)
        self.embedding = nn.Embedding(words, word_dim, padding_idx=PAD_ID)
        self.lstm = nn.LSTM(word_dim, joint)

    def images(self, features: Tensor) -> Tensor:
        """f(I): unit vectors (B, joint) of images with features (B, D)."""
        return functional.normalize(self.image(features), dim=1)

    def sentences(self, sentences: PaddedSentences) -> Tensor:
        """h(S): unit vectors (B, joint) of B sentences."""
        _, (last, _) = self.lstm(pack_sentences(self.embedding(sentences.words), sentences.lengths))
        return functional.normalize(last[0], dim=1)

    def forward(self, images: Tensor, sentences: PaddedSentences) -> Tensor:
        """The logits (B,) of r: the dot product of each image vector (B, joint) with its encoded sentence."""
        return (images * self.sentences(sentences)).sum(1)


IMAGES = 1024  # whose features are transformed at a time
MLE, GAN = PHASES = ("mle", "gan")  # names of the generator's weights after the first and the last phase


class Nets(NamedTuple):
    """The generator and the discriminator."""

    generator: Generator
    discriminator: Discriminator


class Captioner(NamedTuple):
    """A trained captioner; features, backbone: the size of an image's feature vector and the network it is from."""

    nets: Nets
    vocabulary: WordVocabulary
    config: CaptionerConfig
    features: int
    backbone: str

    def require_features(self, values: Tensor, backbone: str) -> None:
        """Raise ValueError for features (…, D) of another size or backbone than those of the training."""
        if values.shape[-1] != self.features or backbone != self.backbone:
            raise ValueError(
                f"features must be {self.features} numbers of {self.backbone!r} as the captioner's, "
                f"are {values.shape[-1]} of {backbone!r}"
            )


def build_nets(config: CaptionerConfig, features: int, words: int) -> Nets:
    """New nets, whose initial weights depend only on the config.

    features: the size of an image's feature vector. words: the size of the vocabulary.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        shape = GeneratorShape(config.word_dim, config.hidden, config.noise, config.dropout)
        generator = Generator(features, words, shape)
        discriminator = Discriminator(features, words, word_dim=config.word_dim, joint=config.joint)
        return Nets(generator, discriminator)


def transform_features(features: Tensor, transform: str) -> Tensor:
    """Features for both nets, (I, D) float32: transformed; a grid (I, R, D) is first averaged over its regions.

    transform: a key of TRANSFORMS. A block of images is read at a time.
    """
    parts = []
    for part in features.split(IMAGES):
        values = part.float()
        parts.append(TRANSFORMS[transform](values.mean(1) if values.dim() == 3 else values))
    return torch.cat(parts)


def weights_file(folder: Path, phase: str) -> Path:
    """The weights file of a phase, "mle" or "gan".

    Raises ValueError for another phase, FileNotFoundError if the folder holds no captioner or not yet this file.
    """
    if phase not in PHASES:
        raise ValueError(f"phase must be one of {', '.join(PHASES)}, was: {phase}")
    checkpoint.read_identity(folder, "captioner")
    path = folder / f"{phase}.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the training has not reached this phase (negcap captioner)")
    return path


def load_captioner(weights: Path, device: torch.device) -> Captioner:
    """A captioner with the generator in the file `weights` (see `weights_file`) and its folder's latest discriminator.

    Raises FileNotFoundError or ValueError for a folder without a captioner, or damaged files.
    """
    folder = weights.parent
    identity, vocabulary = checkpoint.read_identity(folder, "captioner")
    try:
        if "mle_epochs" not in identity["config"]:
            raise KeyError("mle_epochs")
        config = checkpoint.restore_config(CaptionerConfig, folder, identity, RESUMABLE)
        features = int(identity["features"])
        nets = build_nets(config, features, len(vocabulary))
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        why = checkpoint.first_line(error)
        raise ValueError(f"{folder / checkpoint.CONFIG} must be what negcap captioner wrote, lacks: {why}") from None
    state = checkpoint.restore(folder, weights.stem, {"generator": nets.generator}, entries={"vocabulary": str})
    if state["vocabulary"] != vocabulary.sha256:
        raise ValueError(f"{weights} must match the vocabulary in its folder, is from another training")
    checkpoint.restore(folder, checkpoint.LAST, {"discriminator": nets.discriminator})
    for net in nets:
        net.to(device).eval()
    return Captioner(nets, vocabulary, config, features, identity["backbone"])
