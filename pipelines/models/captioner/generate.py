"""Writing captions of images: rejected ones get a reason and are written again. Captions are held in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ....schemas.captions import CAPTION_REASONS
from .config import WritingConfig
from .decoding import (
    beam_search,
    choose_likeliest,
    generate_sentences,
    sample_by,
)
from .generator import PaddedSentences
from .model import Captioner
from .noise import caption_noise, stream_keys
from .text import degeneracy, detokenize, join_words, normalize

AT_ONCE = 1024  # captions written at a time
OWN, REPEAT = CAPTION_REASONS.index("own_caption") + 1, CAPTION_REASONS.index("repeat") + 1


class ImagesToCaption(NamedTuple):
    """I images to write captions of.

    ids: image ids. features: (I, D), transformed. existing_keys: the `caption_keys` of all captions that the images
    already have.
    """

    ids: Sequence[str]
    features: Tensor
    existing_keys: pa.Array


class Attempts(NamedTuple):
    """n captions that were written, sorted by image and number.

    image: (n,) image index. number: (n,) from 0, counts the attempts per image. reason: (n,) 0 for an accepted caption,
    k for one rejected for the k-th of CAPTION_REASONS, counted from 1. text: (n,).
    """

    image: np.ndarray
    number: np.ndarray
    reason: np.ndarray
    text: pa.Array


def generate_captions(captioner: Captioner, images: ImagesToCaption, config: WritingConfig) -> Attempts:
    """Write captions until each image has config.n accepted ones, in at most config.tries rounds.

    Rejected are degenerate captions (see `degeneracy`), and those that repeat a caption the image already has or an
    accepted one. The captions of an image depend only on the seed, its id, its features and the captions it has, not on
    other images.
    """
    keys, names = stream_keys(config.seed, images.ids), pa.array(images.ids, pa.string())
    missing, begun = np.full(len(images.ids), config.n), np.zeros(len(images.ids), np.int64)
    rounds: list[Attempts] = []
    kept: list[pa.Array] = []
    for _ in range(config.tries):
        image = np.repeat(np.arange(len(images.ids)), missing)
        if not len(image):
            break
        number = begun[image] + np.arange(len(image)) - np.repeat(missing.cumsum() - missing, missing)
        begun += missing
        sentences = write_sentences(captioner, images.features, keys, (image, number), config)
        text = detokenize(join_words(sentences, captioner.vocabulary))
        new = caption_keys(names.take(pa.array(image)), text)
        reason = _rejection_reasons(sentences, new, images.existing_keys, kept)
        kept.append(new.filter(pa.array(reason == 0)))
        rounds.append(Attempts(image, number, reason, text))
        missing = missing - np.bincount(image[reason == 0], minlength=len(images.ids))
    return _sorted(rounds)


def caption_keys(image_ids: pa.Array, texts: pa.Array) -> pa.Array:
    """One string per caption, equal for captions of the same image with the same normalized text."""
    return pc.binary_join_element_wise(image_ids, normalize(texts), "\x1f")


@torch.inference_mode()
def write_sentences(
    captioner: Captioner,
    features: Tensor,
    keys: np.ndarray,
    wanted: tuple[np.ndarray, np.ndarray],
    config: WritingConfig,
) -> PaddedSentences:
    """Write n captions, AT_ONCE at a time; the result is on the CPU.

    features: (I, D), transformed. keys: (I,) `stream_keys` of the images. wanted: the image index and the number of
    each caption, both (n,).
    """
    sizes, device = captioner.config, features.device
    generator = captioner.nets.generator
    words, lengths = [], []
    for part in np.split(np.arange(len(wanted[0])), range(AT_ONCE, len(wanted[0]), AT_ONCE)):
        image, number = (values[part] for values in wanted)
        normal, uniforms = caption_noise(keys[image], number.astype(np.uint64), sizes.noise, sizes.words)
        of_images, noise = features[torch.from_numpy(image).to(device)], normal.to(device)
        if config.decoding == "beam":
            sentences = beam_search(generator, of_images, noise, sizes.words, config.width)
        else:
            choose = sample_by(uniforms.to(device)) if config.decoding == "sample" else choose_likeliest
            sentences = generate_sentences(generator, of_images, noise, sizes.words, choose)
        words.append(sentences.words.cpu())
        lengths.append(sentences.lengths.cpu())
    return PaddedSentences(torch.cat(words), torch.cat(lengths))


def _rejection_reasons(
    sentences: PaddedSentences, new: pa.Array, existing: pa.Array, kept: Sequence[pa.Array]
) -> np.ndarray:
    """(n,) as Attempts.reason; new: keys of the captions; existing: of those images have; kept: of accepted ones."""
    reason = degeneracy(sentences).numpy()
    is_own = pc.is_in(new, existing).to_numpy(zero_copy_only=False)
    before = pc.is_in(new, pa.concat_arrays([*kept, new.slice(0, 0)])).to_numpy(zero_copy_only=False)
    codes = new.dictionary_encode().indices.to_numpy()
    acceptable = np.flatnonzero((reason == 0) & ~is_own & ~before)
    first = np.zeros(len(new), bool)
    first[acceptable[np.unique(codes[acceptable], return_index=True)[1]]] = True
    return np.where(reason > 0, reason, np.where(is_own, OWN, np.where(first, 0, REPEAT)))


def _sorted(rounds: Sequence[Attempts]) -> Attempts:
    image, number, reason = (np.concatenate([attempts[k] for attempts in rounds]) for k in range(3))
    text = pa.concat_arrays([attempts.text for attempts in rounds])
    order = np.lexsort((number, image))
    return Attempts(image[order], number[order], reason[order], text.take(pa.array(order)))
