"""Words as numbers: which words a corpus knows, and sentences as flat arrays of them.

A word is a token of NLTK's word tokenizer, lower-cased, on each stretch of text between white space; so the same
stretch always gives the same words, and texts are encoded stretch by stretch, each distinct one looked up once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

PAD, START, END, UNKNOWN = SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")


class Sentences(NamedTuple):
    """n sentences: `tokens[offsets[i]:offsets[i + 1]]` are the words of the i-th, from <start> to <end>.

    tokens: (total,) int32; offsets: (n + 1,) int64.
    """

    tokens: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


@lru_cache(maxsize=1 << 16)
def _words(stretch: str) -> tuple[str, ...]:
    return tuple(_tokenizer().tokenize(stretch))


def words(text: str) -> list[str]:
    """The words of a text: "Two dogs, one's wet." -> two dogs , one 's wet ."""
    return [word for stretch in text.lower().split() for word in _words(stretch)]


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs."""
    stretches = Counter(stretch for text in texts for stretch in text.lower().split())
    counts: Counter[str] = Counter()
    for stretch, times in stretches.items():
        for word in _words(stretch):
            counts[word] += times
    return counts


@dataclass(frozen=True)
class Vocabulary:
    """The words a model knows, the four specials first; a word's id is its place."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.words[: len(SPECIALS)] != SPECIALS:
            raise ValueError(f"vocabulary must begin with {' '.join(SPECIALS)}, began with: {self.words[:4]}")
        if len(set(self.words)) != len(self.words):
            twice = Counter(self.words).most_common(1)[0][0]
            raise ValueError(f"vocabulary must hold a word once, holds twice: {twice}")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """The id of each word."""
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def sha256(self) -> str:
        """The hash of the words in order."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def encode(self, texts: pa.Array | pa.ChunkedArray | Iterable[str]) -> Sentences:
        """Texts as ids between <start> and <end>; a word that is not known becomes <unk>."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else pa.array(list(texts), pa.string())
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        split = pc.utf8_split_whitespace(pc.utf8_lower(array))
        stretches = split.flatten().dictionary_encode()
        ends = np.concatenate([[0], np.cumsum(pc.list_value_length(split).to_numpy(zero_copy_only=False))])
        table, starts = self._table(stretches.dictionary.to_pylist())
        which = stretches.indices.to_numpy(zero_copy_only=False)
        lengths = np.diff(starts)[which]  # words of each stretch
        behind = np.concatenate([[0], np.cumsum(lengths)])
        sizes = np.diff(behind[ends])  # words of each sentence
        offsets = np.concatenate([[0], np.cumsum(sizes + 2)]).astype(np.int64)
        inside = np.arange(behind[-1])
        tokens = np.empty(offsets[-1], np.int32)
        tokens[offsets[:-1]] = self.ids[START]
        tokens[offsets[1:] - 1] = self.ids[END]
        place = inside + 1 + 2 * np.repeat(np.arange(len(sizes)), sizes)
        tokens[place] = table[np.repeat(starts[which] - behind[:-1], lengths) + inside]
        return Sentences(tokens, offsets)

    def _table(self, stretches: list[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The ids of the words of distinct stretches, one after the other, and where each stretch starts."""
        unknown = self.ids[UNKNOWN]
        encoded = [[self.ids.get(word, unknown) for word in _words(stretch)] for stretch in stretches]
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in encoded])]).astype(np.int64)
        return np.array([number for ids in encoded for number in ids], np.int32), starts


def build_vocabulary(texts: Iterable[str], min_count: int = 4, more: Iterable[str] = ()) -> Vocabulary:
    """The words that occur at least `min_count` times, the most frequent first, equals by name; then more, if new.

    Raises ValueError for a min_count below 1.
    """
    if min_count < 1:
        raise ValueError(f"min_count must be >= 1, was: {min_count}")
    counts = count_words(texts)
    kept = sorted((-count, word) for word, count in counts.items() if count >= min_count and word not in SPECIALS)
    return Vocabulary(tuple(dict.fromkeys((*SPECIALS, *(word for _, word in kept), *more))))
