"""Writing captions of images: decoding, the text of sentences, and captions that are rejected and written again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ....augment.reproducible import hash_keys, stream_bits, uniform_from_bits
from ....schemas.captions import CAPTION_REASONS
from ..data import places_in_groups, starts_of
from ..settings import WritingConfig
from ..vocabulary import END_ID, PAD_ID, START_ID, UNKNOWN_ID, WordVocabulary
from .model import Captioner, Generator, LSTMState, PaddedSentences

MIN_WORDS = 4  # the full stop counts: "a dog runs ." has four
PHRASE = 4  # words that may not occur twice in a caption; shorter phrases may not follow themselves (`degeneracy`)
_NO_SPACE_BEFORE = r" ([.,!?;:%)]|'(?:s|re|ve|ll|d|m)\b|n't\b|' )"
AT_ONCE = 1024  # captions written at a time
REASONS = np.array([None, *CAPTION_REASONS])  # by the number that `degeneracy` gives a sentence


def stream_keys(seed: int, image_ids: Iterable[str]) -> np.ndarray:
    """A key (n,) per image, which selects its stream of random numbers."""
    return hash_keys(f"{seed}\x1fcaption\x1f{name}" for name in image_ids)


class CaptionNoise(NamedTuple):
    """All random numbers of n captions: normal (n, z) for the generator's z, uniforms (n, T) to sample its words by."""

    normal: Tensor
    uniforms: Tensor


def caption_noise(keys: np.ndarray, numbers: np.ndarray, noise: int, words: int) -> CaptionNoise:
    """The random numbers of captions, by splitmix64: they depend on the image's key and the caption's number alone.

    Args:
        keys: (n,) the key of each caption's image, see `stream_keys`.
        numbers: (n,) uint64, the number of each caption among those of its image.
        noise: z, how many normal numbers a caption gets.
        words: T, how many uniform numbers a caption gets.
    """
    # The stream of an image is cut into pieces of noise + words numbers, one piece for each caption, counted from 1.
    piece_starts = (numbers * np.uint64(noise + words))[:, None]
    stream_positions = piece_starts + np.arange(1, noise + words + 1, dtype=np.uint64)
    values = torch.from_numpy(uniform_from_bits(stream_bits(keys[:, None], stream_positions)))
    # The inverse of the normal distribution makes normal numbers of uniform ones.
    return CaptionNoise(normal=torch.special.ndtri(values[:, :noise]).float(), uniforms=values[:, noise:])


def join_words(sentences: PaddedSentences, vocabulary: WordVocabulary) -> pa.Array:
    """The words of B sentences joined by spaces, without <end>: `a dog 's ball .`"""
    is_word = sentences.mask & (sentences.words != END_ID)
    word_ids = pa.array(sentences.words[is_word].cpu().numpy().astype(np.int32))  # of all sentences, one after another
    words = pa.DictionaryArray.from_arrays(word_ids, pa.array(vocabulary.words)).cast(pa.string())
    offsets = pa.array(starts_of(is_word.sum(1)).cpu().numpy().astype(np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, words), " ")


def detokenize(texts: pa.Array) -> pa.Array:
    """Joined words as people write them: `a dog 's ball .` -> `A dog's ball.`"""
    # Opening and closing quotation marks as treebanks write them
    text = pc.replace_substring_regex(texts, "`` | ''", '"')
    return pc.utf8_capitalize(pc.replace_substring_regex(text, _NO_SPACE_BEFORE, r"\1"))


def normalize(texts: pa.Array) -> pa.Array:
    """Texts in lower case and reduced to letters and digits, to compare captions: `A dog's ball.` -> `a dog s ball`."""
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\pL\pN]+", " "))


def degeneracy(sentences: PaddedSentences) -> Tensor:
    """Why each of B sentences is not acceptable: (B,), 0 for one that is, else the number of the reason, from 1.

    The reasons are CAPTION_REASONS, of which the first that applies is taken:
    unfinished: there is no <end>.
    unknown_word: there is an <unk>.
    too_short: there are fewer than MIN_WORDS words.
    repeated_word: the same word stands twice in succession.
    repeated_phrase: 2 to PHRASE - 1 words stand twice in succession, or PHRASE words twice anywhere.
    """
    words = sentences.words
    is_word = sentences.mask & (words != END_ID)  # (B, T)
    last_words = words.gather(1, (sentences.lengths - 1)[:, None])[:, 0]
    unfinished = last_words != END_ID
    unknown_word = ((words == UNKNOWN_ID) & is_word).any(1)
    too_short = is_word.sum(1) < MIN_WORDS
    repeated_word = ((words[:, 1:] == words[:, :-1]) & is_word[:, 1:]).any(1)
    repeated_phrase = _repeats_anywhere(words, is_word)
    for length in range(2, PHRASE):
        # (B, T - length): whether a word is the same as the one that stands `length` words before it
        same_as_before = (words[:, length:] == words[:, :-length]) & is_word[:, length:]
        repeated_phrase = repeated_phrase | same_as_before.unfold(1, length, 1).all(-1).any(1)
    # The columns are in the order of CAPTION_REASONS; argmax is the first column that is True.
    reasons = torch.stack([unfinished, unknown_word, too_short, repeated_word, repeated_phrase], 1).long()
    return torch.where(reasons.any(1), reasons.argmax(1) + 1, 0)


def _repeats_anywhere(words: Tensor, is_word: Tensor) -> Tensor:
    """(B,): whether the same PHRASE words begin at two places of a sentence; words, is_word: (B, T)."""
    phrases = words.unfold(1, PHRASE, 1)  # (B, P, PHRASE): the phrase that begins at each of P places
    is_phrase = is_word[:, PHRASE - 1 :]  # (B, P): whether it ends before the sentence does
    equal = (phrases[:, :, None] == phrases[:, None, :]).all(-1)  # (B, P, P)
    equal_pairs = (equal & is_phrase[:, :, None] & is_phrase[:, None, :]).flatten(1).sum(1)
    # Each phrase equals itself, so that without repetition there are as many equal pairs as phrases.
    return equal_pairs > is_phrase.sum(1)


def sample_words(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Words (b,): where the cumulative probability of logits (b, V) passes uniforms (b,), numbers in (0, 1)."""
    cumulative = logits.softmax(1).cumsum(1)
    # The last sum is not exactly 1 in floating point, so the thresholds are a share of it.
    thresholds = uniforms.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, thresholds, right=True)[:, 0].clamp(max=logits.shape[1] - 1)


class Stop(NamedTuple):
    """A moment of `complete` to continue from. position: how many words had been added to each sentence. rows: (b,) the
    sentences that were not finished then. state: of the generator, before it reads their last word.
    """

    position: int
    rows: Tensor
    state: LSTMState


class Completion(NamedTuple):
    """Completed sentences, and the stops that were asked for and reached, in ascending order."""

    sentences: PaddedSentences
    stops: list[Stop]


@torch.no_grad()
def complete(
    generator: Generator, state: LSTMState, prefixes: PaddedSentences, uniforms: Tensor, positions: Sequence[int] = ()
) -> Completion:
    """Complete prefixes by sampled words, each until <end> or until it has T words, the width of `prefixes`.

    Args:
        generator: the policy that the words are sampled from.
        state: of the generator after all words of each prefix but the last one; for an empty prefix, before the first.
        prefixes: B sentences, of 0 words or more.
        uniforms: (B, T) in (0, 1), one for each word.
        positions: the numbers of added words to stop at.
    """
    words = prefixes.words.clone()
    lengths = prefixes.lengths.clone()
    max_words = words.shape[1]
    rows = (lengths < max_words).nonzero()[:, 0]  # the unfinished sentences; only these are computed further
    state = state.select(rows)
    stops = []
    for step in range(max_words):
        if not len(rows):
            break
        if step in positions:
            stops.append(Stop(step, rows, state))
        # The last word that was written is read now; an empty sentence begins with <start>.
        position = lengths[rows]
        last = words[rows, (position - 1).clamp(min=0)].where(position > 0, START_ID)
        logits, state = generator.step(state, last)
        chosen = sample_words(logits, uniforms[rows, position])
        words[rows, position] = chosen
        lengths[rows] = position + 1
        unfinished = ((chosen != END_ID) & (position + 1 < max_words)).nonzero()[:, 0]
        rows = rows[unfinished]
        state = state.select(unfinished)
    return Completion(PaddedSentences(words, lengths), stops)


def empty_sentences(rows: int, max_words: int, device: torch.device) -> PaddedSentences:
    """`rows` sentences of 0 words, with room for `max_words` words each."""
    words = torch.full((rows, max_words), PAD_ID, device=device)
    return PaddedSentences(words, torch.zeros(rows, dtype=torch.long, device=device))


@torch.no_grad()
def sample_sentences(generator: Generator, features: Tensor, noise: Tensor, uniforms: Tensor) -> PaddedSentences:
    """A sampled sentence per image, of up to T words; features: (B, D), noise: (B, z), uniforms: (B, T) in (0, 1)."""
    empty = empty_sentences(len(features), uniforms.shape[1], features.device)
    return complete(generator, generator.first_state(features, noise), empty, uniforms).sentences


@torch.no_grad()
def beam_search(generator: Generator, features: Tensor, noise: Tensor, max_words: int, width: int) -> PaddedSentences:
    """Per image, the sentence of its beam with the highest mean log-probability per word.

    The beam holds the `width` likeliest prefixes; a finished sentence stays in it while it is among them. A width of 1
    is greedy decoding.

    Args:
        generator: the policy that is decoded.
        features: (B, D) of the images.
        noise: (B, z).
        max_words: T, with <end> counted.
        width: W, the prefixes in a beam.
    """
    rows = len(features)
    device = features.device
    vocabulary_size = generator.out.out_features
    row = torch.arange(rows, device=device)
    words = torch.full((rows, width, max_words), PAD_ID, device=device)
    log_p = torch.full((rows, width), -torch.inf, device=device)  # of each prefix
    log_p[:, 0] = 0  # at first all prefixes are empty, and so equal: only one of them may be continued
    first = generator.first_state(features, noise)
    state = LSTMState(first.hidden.repeat_interleave(width, 0), first.cell.repeat_interleave(width, 0))
    last = torch.full((rows * width,), START_ID, device=device)
    # A finished sentence is continued by padding alone, which leaves its log-probability as it is.
    scores_after_end = torch.full((vocabulary_size,), -torch.inf, device=device)
    scores_after_end[PAD_ID] = 0
    for step in range(max_words):
        logits, state = generator.step(state, last)
        ended = (words == END_ID).any(2, keepdim=True)
        scores = torch.where(ended, scores_after_end, logits.log_softmax(1).view(rows, width, -1))  # (B, W, V)
        # The candidates of an image are numbered prefix * V + word.
        log_p, candidate = (log_p[..., None] + scores).flatten(1).topk(width, 1)  # both (B, W)
        prefix = candidate // vocabulary_size
        chosen = candidate % vocabulary_size
        words = words[row[:, None], prefix]
        words[..., step] = chosen
        state = state.select((row[:, None] * width + prefix).flatten())
        last = chosen.flatten()
        if bool((words == END_ID).any(2).all()):
            break
    # Compared per word, as the sum of log-probabilities prefers short sentences.
    lengths = (words != PAD_ID).sum(2)
    best = (log_p / lengths).argmax(1)
    return PaddedSentences(words[row, best], lengths[row, best])


def caption_keys(image_ids: pa.Array, texts: pa.Array) -> pa.Array:
    """One string per caption, equal for captions of the same image with the same normalized text."""
    return pc.binary_join_element_wise(image_ids, normalize(texts), "\x1f")


class CaptionSlots(NamedTuple):
    """n captions to write: image (n,), the index of each one's image; number (n,), its number among the image's."""

    image: np.ndarray
    number: np.ndarray


@torch.inference_mode()
def write_sentences(
    writer: Captioner, features: Tensor, keys: np.ndarray, slots: CaptionSlots, config: WritingConfig
) -> PaddedSentences:
    """Write n captions, AT_ONCE at a time; the result is on the CPU.

    Args:
        writer: whose generator writes.
        features: (I, D) of the images, transformed.
        keys: (I,) `stream_keys` of the images.
        slots: which captions to write.
        config: how to decode.
    """
    sizes = writer.config
    device = features.device
    generator = writer.nets.generator
    words = []
    lengths = []
    count = len(slots.image)
    for part in np.split(np.arange(count), range(AT_ONCE, count, AT_ONCE)):
        image = slots.image[part]
        random = caption_noise(keys[image], slots.number[part].astype(np.uint64), sizes.noise, sizes.words)
        image_features = features[torch.from_numpy(image).to(device)]
        normal = random.normal.to(device)
        if config.decoding == "sample":
            sentences = sample_sentences(generator, image_features, normal, random.uniforms.to(device))
        else:
            width = config.width if config.decoding == "beam" else 1
            sentences = beam_search(generator, image_features, normal, sizes.words, width)
        words.append(sentences.words.cpu())
        lengths.append(sentences.lengths.cpu())
    return PaddedSentences(torch.cat(words), torch.cat(lengths))


def generate_captions(
    captioner: Captioner, ids: Sequence[str], features: Tensor, existing: pa.Array, config: WritingConfig
) -> pa.Table:
    """Write captions until each image has config.per_image accepted ones, in at most config.tries rounds.

    Rejected are degenerate captions (see `degeneracy`), and those that repeat a caption the image already has or an
    accepted one. The captions of an image depend only on the seed, its id, its features and the captions it has, not on
    other images.

    Args:
        captioner: the one that writes them.
        ids: I image ids.
        features: (I, D) of these images, transformed.
        existing: the `caption_keys` of all captions that the images already have.
        config: how captions are written, and how many.

    Returns:
        One row per caption, in the order of images and numbers. image: the index of its image. number: of the attempts
        for this image, from 0. reason: of CAPTION_REASONS, null for an accepted caption. text.
    """
    keys = stream_keys(config.seed, ids)
    names = pa.array(ids, pa.string())
    missing = np.full(len(ids), config.per_image)  # how many captions each image still lacks
    attempts = np.zeros(len(ids), np.int64)  # how many were written for each image so far
    accepted = pa.array([], pa.string())  # their `caption_keys`
    rounds: list[pa.Table] = []
    # A round writes what is still missing of all images together. The noise of a caption depends on its image and
    # number, so that what an image gets does not depend on how many rounds other images need.
    for _ in range(config.tries):
        slots = _next_slots(attempts, missing)
        if not len(slots.image):
            break
        attempts += missing
        sentences = write_sentences(captioner, features, keys, slots, config)
        text = detokenize(join_words(sentences, captioner.vocabulary))
        written = caption_keys(names.take(pa.array(slots.image)), text)
        degenerate = degeneracy(sentences).numpy()
        is_existing = pc.is_in(written, existing).to_numpy(zero_copy_only=False)
        is_accepted_before = pc.is_in(written, accepted).to_numpy(zero_copy_only=False)
        acceptable = np.flatnonzero((degenerate == 0) & ~is_existing & ~is_accepted_before)
        # Of captions of this round that are equal, the first is accepted.
        codes = written.dictionary_encode().indices.to_numpy()[acceptable]
        _, first_of_equal = np.unique(codes, return_index=True)
        fresh = acceptable[first_of_equal]
        reason = np.where(degenerate > 0, REASONS[degenerate], np.where(is_existing, "own_caption", "repeat"))
        reason[fresh] = None
        accepted = pa.concat_arrays([accepted, written.take(pa.array(fresh))])
        missing = missing - np.bincount(slots.image[fresh], minlength=len(ids))
        columns = {
            "image": slots.image,
            "number": slots.number.astype(np.int32),
            "reason": pa.array(reason, pa.string()),
        }
        rounds.append(pa.table({**columns, "text": text}))
    return pa.concat_tables(rounds).sort_by([("image", "ascending"), ("number", "ascending")])


def _next_slots(attempts: np.ndarray, missing: np.ndarray) -> CaptionSlots:
    """The next missing[i] captions of each image i, numbered from attempts[i]; both (I,)."""
    image = np.repeat(np.arange(len(missing)), missing)
    return CaptionSlots(image, number=attempts[image] + places_in_groups(torch.from_numpy(image)).numpy())
