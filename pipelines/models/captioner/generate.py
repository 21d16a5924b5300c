"""Writing captions of images: rejected ones get a reason and are written again. Captions are held in arrays."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ....schemas.captions import CAPTION_REASONS
from ...engine.tables import read_table
from ..figures import new_figure, write_png
from ..vocabulary import END_ID, PAD_ID, START_ID
from .config import WritingConfig
from .generator import Generator, LSTMState, PaddedSentences
from .model import Captioner, caption_noise, degeneracy, detokenize, join_words, normalize, stream_keys

WIDTH = 68  # characters per line


def draw_samples(
    run: Path, folder: Path, image_ids: Sequence[str], written: Mapping[str, Sequence[str]], path: Path
) -> None:
    """Draw images with their captions beside them as a PNG.

    folder: of the image files. written: by way of writing, one caption per image of image_ids. Raises FileNotFoundError
    for an image file that is missing, ValueError for one outside the folder.
    """
    from PIL import Image

    files = _files(run, set(image_ids))
    figure = new_figure(9, 2.1 * len(image_ids))
    for row, image_id in enumerate(image_ids):
        file = (folder / files[image_id]).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"image must be inside {folder}, was: {files[image_id]}")
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: --images must name the folder of the images")
        picture, text = (
            figure.add_subplot(len(image_ids), 4, cells) for cells in (4 * row + 1, (4 * row + 2, 4 * row + 4))
        )
        with Image.open(file) as image:
            picture.imshow(image.convert("RGB"))
        lines = (
            textwrap.fill(f"{how}: {texts[row]}", WIDTH, subsequent_indent="    ") for how, texts in written.items()
        )
        text.text(0, 0.5, "\n".join(lines), va="center", fontsize=8.5, family="DejaVu Sans", parse_math=False)
        for axes in (picture, text):
            axes.axis("off")
    write_png(figure, path, 110)


def _files(run: Path, image_ids: set[str]) -> dict[str, str]:
    """The file name of each image, as the run's captions state it."""
    found: dict[str, str] = {}
    for rows in read_table(run, "captions", ["image_id", "image"]):
        for image_id, image in zip(rows["image_id"].to_pylist(), rows["image"].to_pylist(), strict=True):
            if image_id in image_ids:
                found[image_id] = image
    return found


ChooseWord = Callable[[Tensor, Tensor, Tensor], Tensor]  # logits (b, V), rows (b,), positions (b,) -> words (b,)
OnStep = Callable[
    [int, Tensor, LSTMState], None
]  # step, unfinished rows (b,), their states before the last word was read


def sample_by(uniforms: Tensor) -> ChooseWord:
    """A function that samples words: word t of row b is where the cumulative probability passes uniforms[b, t].

    uniforms: (B, T), numbers in (0, 1).
    """

    def choose(logits: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
        cumulative = logits.softmax(1).cumsum(1)
        at = uniforms[rows, positions].to(cumulative.dtype)[:, None] * cumulative[:, -1:]
        return torch.searchsorted(cumulative, at, right=True)[:, 0].clamp(max=logits.shape[1] - 1)

    return choose


def choose_likeliest(logits: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
    """The words (b,) with the highest logits (b, V): greedy decoding; rows and positions are ignored."""
    return logits.argmax(1)


@torch.no_grad()
def complete(
    generator: Generator,
    state: LSTMState,
    prefixes: PaddedSentences,
    choose: ChooseWord,
    on_step: OnStep = lambda step, rows, state: None,
) -> PaddedSentences:
    """Complete prefixes, each until <end> or until it has T words, the width of `prefixes`.

    state: of the generator after all words of each prefix but the last one; for an empty prefix, before the first word.
    choose: picks the next words. on_step: called before each step, see OnStep. Completed rows take no further part.
    """
    words, lengths = prefixes.words.clone(), prefixes.lengths.clone()
    max_words = words.shape[1]
    rows = (lengths < max_words).nonzero()[:, 0]
    state = state.select(rows)
    for step in range(max_words):
        if not len(rows):
            break
        on_step(step, rows, state)
        positions = lengths[rows]
        last = words[rows, (positions - 1).clamp(min=0)].where(positions > 0, START_ID)
        logits, state = generator.step(state, last)
        chosen = choose(logits, rows, positions)
        words[rows, positions] = chosen
        lengths[rows] = positions + 1
        unfinished = ((chosen != END_ID) & (positions + 1 < max_words)).nonzero()[:, 0]
        rows, state = rows[unfinished], state.select(unfinished)
    return PaddedSentences(words, lengths)


def empty_sentences(rows: int, max_words: int, device: torch.device) -> PaddedSentences:
    """`rows` sentences of 0 words, with room for `max_words` words each."""
    words = torch.full((rows, max_words), PAD_ID, device=device)
    return PaddedSentences(words, torch.zeros(rows, dtype=torch.long, device=device))


def generate_sentences(
    generator: Generator, features: Tensor, noise: Tensor, max_words: int, choose: ChooseWord
) -> PaddedSentences:
    """One sentence per image of up to `max_words` words, <end> included; features: (B, D), noise: (B, z)."""
    with torch.no_grad():
        state = generator.first_state(features, noise)
    return complete(generator, state, empty_sentences(len(features), max_words, features.device), choose)


@torch.no_grad()
def beam_search(generator: Generator, features: Tensor, noise: Tensor, max_words: int, width: int) -> PaddedSentences:
    """Per image, the sentence of its beam with the highest mean log-probability per word.

    features: (B, D). noise: (B, z). max_words: <end> included. The beam holds the `width` likeliest prefixes; a
    finished sentence stays in it while it is among them.
    """
    rows, device = len(features), features.device
    state = generator.first_state(features, noise)
    empty = empty_sentences(rows * width, max_words, device)
    words, lengths = empty.words.view(rows, width, max_words), empty.lengths.view(rows, width)
    total = torch.full((rows, width), -torch.inf, device=device)
    total[:, 0] = 0  # at first all prefixes are equal, so only one may count
    state = LSTMState(*(part.repeat_interleave(width, 0) for part in state))
    last = torch.full((rows * width,), START_ID, device=device)
    ended = torch.zeros(rows, width, dtype=torch.bool, device=device)
    for step in range(max_words):
        logits, state = generator.step(state, last)
        scores = logits.log_softmax(1).view(rows, width, -1)
        stay = torch.full_like(scores[0, 0], -torch.inf)
        stay[PAD_ID] = 0
        sums = total[..., None] + torch.where(ended[..., None], stay, scores)
        total, at = sums.flatten(1).topk(width, 1)
        source, chosen = at // scores.shape[2], at % scores.shape[2]
        words, lengths, ended = (
            part.gather(1, source if part.dim() == 2 else source[..., None].expand_as(part))
            for part in (words, lengths, ended)
        )
        words[..., step] = chosen
        lengths = lengths + ~ended
        ended = ended | (chosen == END_ID)
        state = state.select((torch.arange(rows, device=device)[:, None] * width + source).flatten())
        last = chosen.flatten()
        if bool(ended.all()):
            break
    best = (total / lengths).argmax(1)
    row = torch.arange(rows, device=device)
    return PaddedSentences(words[row, best], lengths[row, best])


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
