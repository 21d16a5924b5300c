"""Words as text, the normal form in which captions are compared, and the detection of degenerate sentences."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from ..vocabulary import END_ID, UNKNOWN_ID, WordVocabulary
from .generator import PaddedSentences

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
