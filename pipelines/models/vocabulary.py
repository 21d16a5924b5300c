"""The vocabulary of a model, texts as flat arrays of word ids, and pretrained word vectors.

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
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

if TYPE_CHECKING:
    from nltk.tokenize.destructive import NLTKWordTokenizer

PAD, START, END, UNKNOWN = SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
PAD_ID, START_ID, END_ID, UNKNOWN_ID = range(len(SPECIALS))


class EncodedTexts(NamedTuple):
    """n texts as word ids, int32; text i, with <start> and <end>, is `tokens[offsets[i]:offsets[i + 1]]`."""

    tokens: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]


class EncodedNegatives(NamedTuple):
    """n negatives as word ids, and (n,) whether each inserts a word that the vocabulary lacks."""

    texts: EncodedTexts
    inserts_unknown: npt.NDArray[np.bool_]


@lru_cache(maxsize=1)
def _tokenizer() -> NLTKWordTokenizer:
    """NLTK's word tokenizer, which is imported when the first text is read."""
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


@lru_cache(maxsize=1 << 16)
def _tokenize_piece(piece: str) -> tuple[str, ...]:
    """The words of a text without white space: "one's" -> one 's; of pieces seen before, they are remembered."""
    return tuple(_tokenizer().tokenize(piece))


def tokenize(text: str) -> list[str]:
    """The lower-cased words of a text: "Two dogs, one's wet." -> two dogs , one 's wet ."""
    # piece by piece: in a whole text, NLTK would split a full stop from its word only at the end
    return [word for piece in text.lower().split() for word in _tokenize_piece(piece)]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words that `tokenize` makes of a text are in it: "a cat's" -> [(0, 1), (2, 5), (5, 7)], in characters.

    A token that is not in the text as such (a quotation mark becomes ``) gets the rest of its piece, the characters
    between white space.
    """
    spans: list[tuple[int, int]] = []
    for match in re.finditer(r"\S+", _lower_in_place(text)):
        piece = match[0]
        position = 0  # in the piece, after the last token that was found in it
        for word in _tokenize_piece(piece):
            start = piece.find(word, position)
            if start >= 0:
                position = start + len(word)
                spans.append((match.start() + start, match.start() + position))
            else:
                spans.append((match.start() + position, match.end()))
    return spans


def _lower_in_place(text: str) -> str:
    """A text in lower case, of the same length: a letter that would become two, such as İ, is left as it is."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


@dataclass(frozen=True)
class WordVocabulary:
    """The words that a model knows; ids are indices. Raises ValueError unless SPECIALS come first, each word once."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ValueError unless the special words come first, and each word is there once."""
        if self.words[: len(SPECIALS)] != SPECIALS:
            raise ValueError(f"vocabulary must begin with {' '.join(SPECIALS)}, began with: {self.words[:4]}")
        if len(self.ids) != len(self.words):
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
        encoded = self._encode_with_new_ids(texts)
        # ids from len(self) on are those of unknown words
        np.putmask(encoded.tokens, encoded.tokens >= len(self), UNKNOWN_ID)
        return encoded

    def encode_negatives(
        self, negatives: pa.Array, captions: pa.Array, owner: npt.NDArray[np.integer]
    ) -> EncodedNegatives:
        """Encode the negatives (n) of captions (c), by their `owner` (n,), as `encode` does; and tell which insert an
        unknown word, one that its caption lacks: a model reads it as <unk>, whatever it means.

        >>> WordVocabulary((*SPECIALS, "a", "dog")).encode_negatives(pa.array(["a cat"]), pa.array(["a dog"]), [0])[1]
        array([ True])
        """
        texts = pa.chunked_array([captions, negatives], pa.string())
        tokens, offsets = self._encode_with_new_ids(texts)
        # for each occurrence of an unknown word: its position among the tokens, its text, and the caption of its text
        position = np.flatnonzero(tokens >= len(self))
        text = np.searchsorted(offsets, position, side="right") - 1
        is_in_negative = text >= len(captions)
        caption = np.where(is_in_negative, np.asarray(owner)[np.maximum(text - len(captions), 0)], text)
        # one number for a caption and a word: a negative's word is new if its caption does not have the same number
        word_of_caption = caption.astype(np.int64) * (int(tokens.max(initial=0)) + 1) + tokens[position]
        is_new = is_in_negative & ~np.isin(word_of_caption, word_of_caption[~is_in_negative])
        inserts_unknown = np.zeros(len(negatives), np.bool_)
        inserts_unknown[text[is_new] - len(captions)] = True

        tokens[position] = UNKNOWN_ID
        first = offsets[len(captions)]
        encoded = EncodedTexts(tokens[first:], offsets[len(captions) :] - first)
        return EncodedNegatives(encoded, inserts_unknown)

    def _encode_with_new_ids(self, texts: pa.Array | pa.ChunkedArray | Iterable[str]) -> EncodedTexts:
        """Texts as `encode` encodes them, except that each unknown word has its own id, from len(self) on.

        Of the vocabulary `<pad> <start> <end> <unk> a`, "a cat" becomes 1 4 5 2.
        """
        array = texts if isinstance(texts, (pa.Array, pa.ChunkedArray)) else pa.array(list(texts), pa.string())
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        # texts -> pieces between white space -> words of a piece, each distinct piece tokenized and looked up once
        pieces_of_texts = pc.utf8_split_whitespace(pc.utf8_lower(array))
        pieces = pieces_of_texts.flatten().dictionary_encode()
        # words of the vocabulary keep their ids; each further one gets the next number, in this call only
        numbers = dict(self.ids)
        ids_of_pieces = []
        for piece in pieces.dictionary.to_pylist():
            ids_of_pieces.append([numbers.setdefault(word, len(numbers)) for word in _tokenize_piece(piece)])
        words = pa.array(ids_of_pieces, pa.list_(pa.int32())).take(pieces.indices)
        text_ends = _list_ends(words)[_list_ends(pieces_of_texts)]
        # between two texts stand <end> of the first and <start> of the second
        marks = np.tile(np.array([START_ID, END_ID], np.int32), len(array))
        tokens = np.insert(words.flatten().to_numpy(), np.repeat(text_ends, 2)[1:-1], marks)
        return EncodedTexts(tokens, text_ends + 2 * np.arange(len(text_ends)))


Vocabularies = Mapping[str, WordVocabulary]  # by language


def _list_ends(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    """0, and where each of n lists ends among the values of all: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False))]).astype(np.int64)


def build_vocabulary(texts: Iterable[str], min_count: int = 4, more: Iterable[str] = ()) -> WordVocabulary:
    """A vocabulary of SPECIALS, then the words that occur at least `min_count` times, by descending count (ties by
    name), then those of `more` that are not among them.
    """
    pieces = Counter(piece for text in texts for piece in text.lower().split())
    counts: Counter[str] = Counter()
    for piece, times in pieces.items():
        for word in _tokenize_piece(piece):
            counts[word] += times
    frequent = [word for word, count in counts.items() if count >= min_count and word not in SPECIALS]
    frequent.sort(key=lambda word: (-counts[word], word))
    return WordVocabulary(tuple(dict.fromkeys((*SPECIALS, *frequent, *more))))


# pretrained word vectors: GloVe's text format, or npz with one array of words and one of vectors

Vectors = Iterable[tuple[str, npt.NDArray[np.float32]]]


def read_vectors(path: Path, vocabulary: WordVocabulary, size: int) -> Tensor:
    """Read the vectors of a vocabulary's words, (V, size); the row of a word that the file lacks is NaN.

    A name of several words that the file lacks gets the mean of its words' vectors. A text file holds a word and its
    numbers per line, separated by spaces; an npz file two arrays of any names, words (n,) and vectors (n, size). Raises
    ValueError, naming file and line, for another format or size, or if the file has none of the words.
    """
    vectors = torch.full((len(vocabulary), size), torch.nan)
    for word, values in _read_npz(path, size) if _is_zip(path) else _read_text(path, size):
        number = vocabulary.ids.get(word)
        if number is not None:
            vectors[number] = torch.from_numpy(np.array(values, np.float32))
    if vectors.isnan().any(1).all():
        raise ValueError(f"{path}: must have vectors of the vocabulary's words, has none of {len(vocabulary)}")
    for name, number in vocabulary.ids.items():
        if " " in name and vectors[number].isnan().any():
            of_words = vectors[[vocabulary.ids[word] for word in name.split() if word in vocabulary.ids]]
            vectors[number] = of_words[~of_words.isnan().any(1)].mean(0)  # NaN if none is known
    return vectors


def vector_size(path: Path) -> int:
    """How many numbers the vectors of a file have. Raises ValueError for a file of another format."""
    if _is_zip(path):
        with np.load(path, allow_pickle=False) as arrays:
            sizes = [arrays[name].shape[1] for name in arrays.files if arrays[name].ndim == 2]
    else:
        with path.open(encoding="utf-8", errors="replace") as text:
            # not of the first line, which may be word2vec's: number of words, size
            sizes = [len(line.split()) - 1 for line in islice(text, 1, 10)]
    if not sizes or min(sizes) < 1:
        raise ValueError(f"{path}: must hold words with their vectors, holds none")
    return min(sizes)  # a word with spaces in it makes its line longer


def _is_zip(path: Path) -> bool:
    """Whether a file is a ZIP archive, as npz files are: these begin with PK."""
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _read_text(path: Path, size: int) -> Vectors:
    """The words and vectors of a text file."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            word, *values = line.rstrip().rsplit(" ", size)  # some published words contain spaces
            if number == 1 and len(values) == 1 and size > 1:
                continue  # word2vec's first line: number of words, size
            # if the last part of the "word" is a number, the vectors are longer than `size`
            if len(values) != size or _is_number(word.rpartition(" ")[2] if " " in word else ""):
                raise ValueError(f"{path}:{number}: must have a word and {size} numbers, has other numbers")
            try:
                yield word, np.array(values, np.float32)
            except ValueError:
                raise ValueError(f"{path}:{number}: must have a word and {size} numbers, has other text") from None


def _is_number(text: str) -> bool:
    """Whether Python's float reads the text, as it also does `nan` and `1e-3`."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_npz(path: Path, size: int) -> Vectors:
    """The words and vectors of an npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in file.files]
    except ValueError as error:
        raise ValueError(f"{path}: must hold plain arrays: {error}") from None
    words = [array for array in arrays if array.ndim == 1 and array.dtype.kind == "U"]
    values = [array for array in arrays if array.ndim == 2 and array.dtype.kind == "f"]
    if len(words) != 1 or len(values) != 1 or values[0].shape != (len(words[0]), size):
        shapes = ", ".join(f"{array.dtype.kind}{list(array.shape)}" for array in arrays)
        raise ValueError(f"{path}: must have words (n,) and numbers (n, {size}), has: {shapes}")
    return zip(words[0].tolist(), values[0], strict=True)
