"""Captions of images: drawn, refused with reasons, drawn again where too few are left; no loop over captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from negcap.pipelines.models.captioner.decoding import beam, likeliest, sampled, write
from negcap.pipelines.models.captioner.generator import Sentences
from negcap.pipelines.models.captioner.model import Captioner
from negcap.pipelines.models.captioner.noise import draws, keys
from negcap.pipelines.models.captioner.text import bare, degenerate, plain, prose
from negcap.schemas.captions import CAPTION_REASONS

AT_ONCE = 1024  # captions
OWN, REPEAT = CAPTION_REASONS.index("own_caption") + 1, CAPTION_REASONS.index("repeat") + 1
DECODINGS = ("sample", "greedy", "beam")


class Drawn(NamedTuple):
    """Captions drawn, in the order of images and draws: image, number, reason (n,), 0 where it is kept; words, text."""

    image: np.ndarray
    number: np.ndarray
    reason: np.ndarray
    words: pa.Array
    text: pa.Array


@torch.inference_mode()
def decode(captioner: Captioner, features: Tensor, noise: Tensor, uniforms: Tensor, how: str, width: int) -> Sentences:
    """A sentence a row: features (B, D), noise (B, z), uniforms (B, words); width: of a beam."""
    generator, most = captioner.nets.generator, captioner.config.words
    if how == "beam":
        return beam(generator, features, noise, most, width)
    return write(generator, features, noise, most, sampled(uniforms) if how == "sample" else likeliest)


def draw(
    captioner: Captioner,
    features: Tensor,
    images: Sequence[str],
    own: pa.Array,
    *,
    n: int,
    seed: int,
    decoding: str = "sample",
    width: int = 3,
    tries: int = 4,
) -> Drawn:
    """n captions of each image, features (I, D), that are neither degenerate, nor one of its own, nor the same twice.

    own: `owned` captions. What is refused is drawn again while an image lacks captions, `tries` times at most. All
    hangs on the seed and the image's name.
    """
    streams, names = keys(seed, images), pa.array(images, pa.string())
    lacking, begun = np.full(len(images), n), np.zeros(len(images), np.int64)
    parts: list[Drawn] = []
    kept: list[pa.Array] = []
    for _ in range(tries):
        image = np.repeat(np.arange(len(images)), lacking)
        if not len(image):
            break
        number = begun[image] + np.arange(len(image)) - np.repeat(lacking.cumsum() - lacking, lacking)
        begun += lacking
        sentences = _written(captioner, features, streams, image, number, decoding, width)
        words = plain(sentences, captioner.vocabulary)
        text = prose(words)
        said = owned(names.take(pa.array(image)), text)
        reason = _refused(sentences, said, own, kept)
        kept.append(said.filter(pa.array(reason == 0)))
        parts.append(Drawn(image, number, reason, words, text))
        lacking = lacking - np.bincount(image[reason == 0], minlength=len(images))
    return _in_order(parts)


def owned(image_ids: pa.Array, texts: pa.Array) -> pa.Array:
    """Keys that are equal where captions of the same image say the same."""
    return pc.binary_join_element_wise(image_ids, bare(texts), "\x1f")


def _written(
    captioner: Captioner,
    features: Tensor,
    streams: np.ndarray,
    image: np.ndarray,
    number: np.ndarray,
    decoding: str,
    width: int,
) -> Sentences:
    """Draw `number` (n,) of each of these images (n,), AT_ONCE at a time."""
    config, device = captioner.config, features.device
    words, lengths = [], []
    for some in np.split(np.arange(len(image)), range(AT_ONCE, len(image), AT_ONCE)):
        at = image[some]
        noise, uniforms = draws(streams[at], number[some].astype(np.uint64), config.noise, config.words)
        given = features[torch.from_numpy(at).to(device)]
        made = decode(captioner, given, noise.to(device), uniforms.to(device), decoding, width)
        words.append(made.words.cpu())
        lengths.append(made.lengths.cpu())
    return Sentences(torch.cat(words), torch.cat(lengths))


def _refused(sentences: Sentences, said: pa.Array, own: pa.Array, kept: Sequence[pa.Array]) -> np.ndarray:
    """(n,): 0 for a caption that is kept, else the number of its reason."""
    reason = degenerate(sentences).numpy()
    mine = pc.is_in(said, own).to_numpy(zero_copy_only=False)
    again = pc.is_in(said, pa.concat_arrays([*kept, said.slice(0, 0)])).to_numpy(zero_copy_only=False)
    numbers = said.dictionary_encode().indices.to_numpy()
    good = np.flatnonzero((reason == 0) & ~mine & ~again)
    first = np.zeros(len(said), bool)
    first[good[np.unique(numbers[good], return_index=True)[1]]] = True
    return np.where(reason > 0, reason, np.where(mine, OWN, np.where(first, 0, REPEAT)))


def _in_order(parts: Sequence[Drawn]) -> Drawn:
    image, number, reason = (np.concatenate([part[k] for part in parts]) for k in range(3))
    words, text = (pa.concat_arrays([part[k] for part in parts]) for k in (3, 4))
    order = np.lexsort((number, image))
    return Drawn(image[order], number[order], reason[order], words.take(pa.array(order)), text.take(pa.array(order)))
