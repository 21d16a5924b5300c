"""Words to text, and which sentences are not worth keeping."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from negcap.pipelines.models.captioner.generator import END_ID, UNKNOWN_ID, Sentences
from negcap.pipelines.models.vocabulary import Vocabulary
from negcap.schemas.captions import CAPTION_REASONS

REASONS = CAPTION_REASONS[:5]
LEAST_WORDS = 4  # "a dog runs ." has three and a full stop
PHRASE = 4
_ATTACHED = r" ([.,!?;:%)]|'(?:s|re|ve|ll|d|m)\b|n't\b|' )"


def plain(sentences: Sentences, vocabulary: Vocabulary) -> pa.Array:
    """The words between spaces, (B,): `a dog 's ball .`"""
    words, inside = sentences.words, sentences.there & (sentences.words != END_ID)
    flat = pa.array(words[inside].cpu().numpy().astype(np.int32))
    texts = pa.DictionaryArray.from_arrays(flat, pa.array(vocabulary.words)).cast(pa.string())
    offsets = torch.cat([inside.new_zeros(1, dtype=torch.long), inside.sum(1).cumsum(0)])
    lists = pa.ListArray.from_arrays(pa.array(offsets.cpu().numpy().astype(np.int32)), texts)
    return pc.binary_join(lists, " ")


def prose(plain: pa.Array) -> pa.Array:
    """As people write it: `a dog 's ball .` -> `A dog's ball.`"""
    text = pc.replace_substring_regex(plain, "`` | ''", '"')
    return pc.utf8_capitalize(pc.replace_substring_regex(text, _ATTACHED, r"\1"))


def bare(texts: pa.Array) -> pa.Array:
    """What two captions that say the same have in common: letters and digits, lower-case: `a dog s ball`."""
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\pL\pN]+", " "))


def degenerate(sentences: Sentences) -> Tensor:
    """(B,): 0 for a sentence worth keeping, n for the n-th of REASONS, the first that holds.

    unfinished: no <end>; unknown_word: has <unk>; too_short: fewer than LEAST_WORDS words; repeated_word: the same word
    twice running; repeated_phrase: fewer than PHRASE words twice running, or PHRASE words twice.
    """
    words, lengths = sentences
    there = sentences.there & (words != END_ID)
    ended = words.gather(1, (lengths - 1)[:, None])[:, 0] == END_ID
    twice = ((words[:, 1:] == words[:, :-1]) & there[:, 1:]).any(1)
    grams = words.unfold(1, PHRASE, 1)
    same = (grams[:, :, None] == grams[:, None, :]).all(-1)
    whole = there[:, PHRASE - 1 :]
    phrase = (same & whole[:, :, None] & whole[:, None, :]).flatten(1).sum(1) > whole.sum(1)
    for period in range(2, PHRASE):
        again = (words[:, period:] == words[:, :-period]) & there[:, period:]
        phrase = phrase | again.unfold(1, period, 1).all(-1).any(1)
    found = torch.stack(
        [~ended, ((words == UNKNOWN_ID) & there).any(1), there.sum(1) < LEAST_WORDS, twice, phrase], 1
    ).long()
    return torch.where(found.any(1), found.argmax(1) + 1, 0)
