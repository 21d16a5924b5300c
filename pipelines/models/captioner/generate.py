"""Writing captions of images: decoding, the text of sentences, and captions that are rejected and written again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ....augment.reproducible import counted, hash_keys, uniform
from ....schemas.captions import CAPTION_REASONS
from ..data import starts_of
from ..settings import WritingConfig
from ..vocabulary import END_ID, PAD_ID, START_ID, UNKNOWN_ID, WordVocabulary
from .model import Captioner, Generator, LSTMState, PaddedSentences

MIN_WORDS = 4  # the full stop counts: "a dog runs ." has four
PHRASE = 4  # words; see `degeneracy`
_NO_SPACE_BEFORE = r" ([.,!?;:%)]|'(?:s|re|ve|ll|d|m)\b|n't\b|' )"
AT_ONCE = 1024  # captions written at a time
REASONS = np.array([None, *CAPTION_REASONS])  # by the number of `degeneracy`


def stream_keys(seed: int, image_ids: Iterable[str]) -> np.ndarray:
    """A key (n,) per image, which selects its stream of random numbers."""
    return hash_keys(f"{seed}\x1fcaption\x1f{name}" for name in image_ids)


def caption_noise(keys: np.ndarray, numbers: np.ndarray, noise: int, words: int) -> tuple[Tensor, Tensor]:
    """Normal numbers (n, noise) for the generator's z, and uniform ones (n, words) to sample its words, by splitmix64.
    They are those of captions number `numbers` (n,) of the images with `keys` (n,).
    """
    places = (numbers * np.uint64(noise + words))[:, None] + np.arange(1, noise + words + 1, dtype=np.uint64)
    values = torch.from_numpy(uniform(counted(keys[:, None], places)))
    return torch.special.ndtri(values[:, :noise]).float(), values[:, noise:]


def join_words(sentences: PaddedSentences, vocabulary: WordVocabulary) -> pa.Array:
    """The words of B sentences joined by spaces, without <end>: `a dog 's ball .`"""
    words = sentences.words
    inside = sentences.mask & (sentences.words != END_ID)
    flat = pa.array(words[inside].cpu().numpy().astype(np.int32))
    texts = pa.DictionaryArray.from_arrays(flat, pa.array(vocabulary.words)).cast(pa.string())
    offsets = pa.array(starts_of(inside.sum(1)).cpu().numpy().astype(np.int32))
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), " ")


def detokenize(texts: pa.Array) -> pa.Array:
    """Joined words as people write them: `a dog 's ball .` -> `A dog's ball.`"""
    text = pc.replace_substring_regex(texts, "`` | ''", '"')
    return pc.utf8_capitalize(pc.replace_substring_regex(text, _NO_SPACE_BEFORE, r"\1"))


def normalize(texts: pa.Array) -> pa.Array:
    """Texts in lower case and reduced to letters and digits, to compare captions: `A dog's ball.` -> `a dog s ball`."""
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\pL\pN]+", " "))


def degeneracy(sentences: PaddedSentences) -> Tensor:
    """(B,): 0 for an acceptable sentence, k for the first of CAPTION_REASONS that applies, counted from 1. unfinished:
    no <end>. unknown_word: contains <unk>. too_short: fewer than MIN_WORDS words. repeated_word: the same word twice in
    succession. repeated_phrase: 2 to PHRASE - 1 words twice in succession, or PHRASE words twice anywhere.
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


def sample_words(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Words (b,): where the cumulative probability of logits (b, V) passes uniforms (b,), numbers in (0, 1)."""
    cumulative = logits.softmax(1).cumsum(1)
    at = uniforms.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, at, right=True)[:, 0].clamp(max=logits.shape[1] - 1)


@torch.no_grad()
def complete(
    generator: Generator, state: LSTMState, prefixes: PaddedSentences, uniforms: Tensor, positions: Sequence[int] = ()
) -> tuple[PaddedSentences, list[tuple[int, Tensor, LSTMState]]]:
    """Complete prefixes by sampled words, each until <end> or until it has T words, the width of `prefixes`.

    state: of the generator after all words of each prefix but the last one; for an empty prefix, before the first word.
    uniforms: (B, T) in (0, 1), one for each word. Completed rows take no further part. Returns the sentences and, for
    each of `positions`, a number of further words, that was reached: it, the sentences (b,) that went on there, and
    their states before their last word.
    """
    words = prefixes.words.clone()
    lengths = prefixes.lengths.clone()
    max_words = words.shape[1]
    rows = (lengths < max_words).nonzero()[:, 0]
    state = state.select(rows)
    stops = []
    for step in range(max_words):
        if not len(rows):
            break
        if step in positions:
            stops.append((step, rows, state))
        at = lengths[rows]
        last = words[rows, (at - 1).clamp(min=0)].where(at > 0, START_ID)
        logits, state = generator.step(state, last)
        chosen = sample_words(logits, uniforms[rows, at])
        words[rows, at] = chosen
        lengths[rows] = at + 1
        unfinished = ((chosen != END_ID) & (at + 1 < max_words)).nonzero()[:, 0]
        rows = rows[unfinished]
        state = state.select(unfinished)
    return PaddedSentences(words, lengths), stops


def empty_sentences(rows: int, max_words: int, device: torch.device) -> PaddedSentences:
    """`rows` sentences of 0 words, with room for `max_words` words each."""
    words = torch.full((rows, max_words), PAD_ID, device=device)
    return PaddedSentences(words, torch.zeros(rows, dtype=torch.long, device=device))


@torch.no_grad()
def sample_sentences(generator: Generator, features: Tensor, noise: Tensor, uniforms: Tensor) -> PaddedSentences:
    """A sampled sentence per image, of up to T words; features: (B, D), noise: (B, z), uniforms: (B, T) in (0, 1)."""
    empty = empty_sentences(len(features), uniforms.shape[1], features.device)
    return complete(generator, generator.first_state(features, noise), empty, uniforms)[0]


@torch.no_grad()
def beam_search(generator: Generator, features: Tensor, noise: Tensor, max_words: int, width: int) -> PaddedSentences:
    """Per image, the sentence of its beam with the highest mean log-probability per word. features: (B, D). noise: (B,
    z). max_words: <end> included. The beam holds the `width` likeliest prefixes; a finished sentence stays in it while
    it is among them. A width of 1 is greedy decoding.
    """
    rows = len(features)
    device = features.device
    state = generator.first_state(features, noise)
    words = torch.full((rows, width, max_words), PAD_ID, device=device)
    row = torch.arange(rows, device=device)
    total = torch.full((rows, width), -torch.inf, device=device)
    total[:, 0] = 0  # at first all prefixes are equal, so only one may count
    state = LSTMState(*(part.repeat_interleave(width, 0) for part in state))
    last = torch.full((rows * width,), START_ID, device=device)
    stay = torch.full((generator.out.out_features,), -torch.inf, device=device)
    stay[PAD_ID] = 0  # of a finished sentence
    for step in range(max_words):
        logits, state = generator.step(state, last)
        ended = (words == END_ID).any(2, keepdim=True)
        scores = logits.log_softmax(1).view(rows, width, -1)
        sums = total[..., None] + torch.where(ended, stay, scores)
        total, at = sums.flatten(1).topk(width, 1)
        source = at // scores.shape[2]
        chosen = at % scores.shape[2]
        words = words[row[:, None], source]
        words[..., step] = chosen
        state = state.select((row[:, None] * width + source).flatten())
        last = chosen.flatten()
        if bool((words == END_ID).any(2).all()):
            break
    lengths = (words != PAD_ID).sum(2)
    best = (total / lengths).argmax(1)
    return PaddedSentences(words[row, best], lengths[row, best])


def caption_keys(image_ids: pa.Array, texts: pa.Array) -> pa.Array:
    """One string per caption, equal for captions of the same image with the same normalized text."""
    return pc.binary_join_element_wise(image_ids, normalize(texts), "\x1f")


@torch.inference_mode()
def write_sentences(
    writer: Captioner, features: Tensor, keys: np.ndarray, wanted: tuple[np.ndarray, np.ndarray], config: WritingConfig
) -> PaddedSentences:
    """Write n captions, AT_ONCE at a time; the result is on the CPU. features: (I, D), transformed. keys: (I,)
    `stream_keys` of the images. wanted: the image index and the number of each caption, both (n,).
    """
    sizes = writer.config
    device = features.device
    generator = writer.nets.generator
    parts = []
    for part in np.split(np.arange(len(wanted[0])), range(AT_ONCE, len(wanted[0]), AT_ONCE)):
        image, number = (values[part] for values in wanted)
        normal, uniforms = caption_noise(keys[image], number.astype(np.uint64), sizes.noise, sizes.words)
        of_images = features[torch.from_numpy(image).to(device)]
        noise = normal.to(device)
        if config.decoding == "sample":
            sentences = sample_sentences(generator, of_images, noise, uniforms.to(device))
        else:
            width = config.width if config.decoding == "beam" else 1
            sentences = beam_search(generator, of_images, noise, sizes.words, width)
        parts.append(PaddedSentences(sentences.words.cpu(), sentences.lengths.cpu()))
    return PaddedSentences(*(torch.cat(each) for each in zip(*parts, strict=True)))


def generate_captions(
    captioner: Captioner, ids: Sequence[str], features: Tensor, existing: pa.Array, config: WritingConfig
) -> pa.Table:
    """Write captions until each image has config.per_image accepted ones, in at most config.tries rounds.

    Rejected are degenerate captions (see `degeneracy`), and those that repeat a caption the image already has or an
    accepted one. The captions of an image depend only on the seed, its id, its features and the captions it has, not on
    other images. ids, features: of the images (I,) and (I, D), transformed. existing: the `caption_keys` of all
    captions that they already have. Returns one row per caption, in the order of images and numbers: image, its index;
    number, of the attempts for this image, from 0; reason, of CAPTION_REASONS, null for an accepted caption; text.
    """
    keys = stream_keys(config.seed, ids)
    names = pa.array(ids, pa.string())
    missing = np.full(len(ids), config.per_image)
    begun = np.zeros(len(ids), np.int64)
    rounds: list[pa.Table] = []
    kept = pa.array([], pa.string())
    for _ in range(config.tries):
        image = np.repeat(np.arange(len(ids)), missing)
        if not len(image):
            break
        number = begun[image] + np.arange(len(image)) - np.repeat(missing.cumsum() - missing, missing)
        begun += missing
        sentences = write_sentences(captioner, features, keys, (image, number), config)
        text = detokenize(join_words(sentences, captioner.vocabulary))
        new = caption_keys(names.take(pa.array(image)), text)
        degenerate = degeneracy(sentences).numpy()
        own, before = (pc.is_in(new, known).to_numpy(zero_copy_only=False) for known in (existing, kept))
        acceptable = np.flatnonzero((degenerate == 0) & ~own & ~before)
        codes = new.dictionary_encode().indices.to_numpy()[acceptable]
        fresh = acceptable[np.unique(codes, return_index=True)[1]]  # the first of equal ones
        reason = np.where(degenerate > 0, REASONS[degenerate], np.where(own, "own_caption", "repeat"))
        reason[fresh] = None
        kept = pa.concat_arrays([kept, new.take(pa.array(fresh))])
        columns = {"image": image, "number": number.astype(np.int32), "reason": pa.array(reason, pa.string())}
        rounds.append(pa.table({**columns, "text": text}))
        missing = missing - np.bincount(image[fresh], minlength=len(ids))
    return pa.concat_tables(rounds).sort_by([("image", "ascending"), ("number", "ascending")])
