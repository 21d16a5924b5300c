"""The vocabulary of a model, and texts as flat arrays of word ids.

Texts are lower-cased and split at white space; each piece is tokenized on its own by NLTK's word tokenizer. A piece
thus yields the same words in every context, and every distinct piece is tokenized and looked up only once.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

PAD, START, END, UNKNOWN = SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
PAD_ID, START_ID, END_ID, UNKNOWN_ID = range(len(SPECIALS))


class EncodedTexts(NamedTuple):
    """n texts as word ids: text i, from <start> to <end>, is `tokens[offsets[i]:offsets[i + 1]]`.

    tokens: (total,) int32. offsets: (n + 1,) int64.
    """

    tokens: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


@lru_cache(maxsize=1 << 16)
def _tokenize_piece(piece: str) -> tuple[str, ...]:
    return tuple(_tokenizer().tokenize(piece))


def tokenize(text: str) -> list[str]:
    """The lower-cased words of a text: "Two dogs, one's wet." -> two dogs , one 's wet ."""
    return [word for piece in text.lower().split() for word in _tokenize_piece(piece)]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words that `tokenize` makes of a text are in it, as (start, end) in characters, the end exclusive.

    A word that is not written as its token (a quotation mark becomes two) gets what is left of its piece.
    """
    spans, lower = [], text.lower()
    if len(lower) != len(text):
        lower = "".join(one if len(one) == 1 else char for char, one in ((char, char.lower()) for char in text))
    for found in re.finditer(r"\S+", lower):
        piece, at = found[0], 0
        for word in _tokenize_piece(piece):
            start = piece.find(word, at)
            start, end = (start, start + len(word)) if start >= 0 else (at, len(piece))
            spans.append((found.start() + start, found.start() + end))
            at = end if piece.find(word, at) >= 0 else at
    return spans


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs in all texts together."""
    pieces = Counter(piece for text in texts for piece in text.lower().split())
    counts: Counter[str] = Counter()
    for piece, times in pieces.items():
        for word in _tokenize_piece(piece):
            counts[word] += times
    return counts


@dataclass(frozen=True)
class WordVocabulary:
    """The words that a model knows; a word's id is its index. The first four are <pad>, <start>, <end>, <unk>.

    Raises ValueError if these four do not come first, or a word occurs twice.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.words[: len(SPECIALS)] != SPECIALS:
            raise ValueError(f"vocabulary must begin with {' '.join(SPECIALS)}, began with: {self.words[:4]}")
        if len(set(self.words)) != len(self.words):
            twice = Counter(self.words).most_common(1)[0][0]
            raise ValueError(f"vocabulary must hold each word once, holds twice: {twice}")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """The id of each word; read-only."""
        return MappingProxyType({word: number for number, word in enumerate(self.words)})

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the words in order, as hex digits."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def encode(self, texts: pa.Array | pa.ChunkedArray | Iterable[str]) -> EncodedTexts:
        """Encode texts as word ids, each from <start> to <end>; unknown words become <unk>."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else pa.array(list(texts), pa.string())
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        split = pc.utf8_split_whitespace(pc.utf8_lower(array))
        pieces = split.flatten().dictionary_encode()
        text_starts = np.concatenate([[0], np.cumsum(pc.list_value_length(split).to_numpy(zero_copy_only=False))])
        ids, starts = self._encode_pieces(pieces.dictionary.to_pylist())
        piece = pieces.indices.to_numpy(zero_copy_only=False)
        lengths = np.diff(starts)[piece]  # number of words per piece
        word_starts = np.concatenate([[0], np.cumsum(lengths)])  # where each piece starts among the words of all texts
        sizes = np.diff(word_starts[text_starts])  # number of words per text
        offsets = np.concatenate([[0], np.cumsum(sizes + 2)]).astype(np.int64)
        word = np.arange(word_starts[-1])
        tokens = np.empty(offsets[-1], np.int32)
        tokens[offsets[:-1]] = self.ids[START]
        tokens[offsets[1:] - 1] = self.ids[END]
        position = word + 1 + 2 * np.repeat(np.arange(len(sizes)), sizes)
        tokens[position] = ids[np.repeat(starts[piece] - word_starts[:-1], lengths) + word]
        return EncodedTexts(tokens, offsets)

    def _encode_pieces(self, pieces: list[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The word ids of distinct pieces, concatenated, and where each piece starts (and the last one ends)."""
        unknown = self.ids[UNKNOWN]
        encoded = [[self.ids.get(word, unknown) for word in _tokenize_piece(piece)] for piece in pieces]
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in encoded])]).astype(np.int64)
        return np.array([id for ids in encoded for id in ids], np.int32), starts


def build_vocabulary(texts: Iterable[str], min_count: int = 4, more: Iterable[str] = ()) -> WordVocabulary:
    """Special tokens, then the words that occur often enough by descending count (ties by name), then those of `more`.

    min_count: the minimum number of occurrences. more: words added at any count, unless they are present already.
    Raises ValueError for a min_count below 1.
    """
    if min_count < 1:
        raise ValueError(f"min_count must be >= 1, was: {min_count}")
    counts = count_words(texts)
    kept = sorted((-count, word) for word, count in counts.items() if count >= min_count and word not in SPECIALS)
    return WordVocabulary(tuple(dict.fromkeys((*SPECIALS, *(word for _, word in kept), *more))))
