"""A caption with its parse, which is the input of all operators, and bounded caches of what is found in captions.

`Caption`, `Evidence`, `Lexicon` and similar classes are frozen and compare by identity, so they are cheap cache keys.
Arrays that a cached function returns are shared: make them read-only with `read_only`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Function = TypeVar("Function", bound=Callable[..., Any])
Casing = Literal["upper", "title", "sentence", "lower"]
# A caption of more tokens is not parsed, and so costs nothing later; one of 1,000 words has 1,100 to 1,200.
MAX_TOKENS = 1300
# No negatives are made of a sentence of more tokens: making those of one with as many takes 0.4 GB.
MAX_SENTENCE = 250
STYLED = 0.7  # share of a caption's words in capitals, or beginning with one, that makes this its style
# Number of captions and contexts whose results are kept: enough for those that the cloze model reads together. More
# cost memory and slow down garbage collection.
CAPTIONS = 320
CONTEXTS = 64


class Token(NamedTuple):
    """One token: characters `start` to `end` (exclusive); `index` and `head` are token indices, a root is its own head.

    lemma: in lower case.
    tag: Penn Treebank tag.
    pos: universal part of speech.
    dep: dependency label.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    start: int
    end: int
    text: str
    lemma: str
    tag: str
    pos: str
    dep: str
    head: int

    @property
    def lower(self) -> str:
        """The text in lower case."""
        return self.text.lower()


class Chunk(NamedTuple):
    """A base noun phrase: tokens `start` to `end` (exclusive); `root` is the token index of its head noun."""

    start: int
    end: int
    root: int


@dataclass(frozen=True, eq=False)
class Caption:
    """A caption with its parse, or one sentence of a caption (see negcap.augment.sentences).

    tokens, chunks: in text order; one that is too long has none.
    part_of: of a sentence among several, the caption that it stands in.
    first_token: the number of its first token there.
    """

    caption_id: str
    image_id: str
    text: str
    tokens: tuple[Token, ...]
    chunks: tuple[Chunk, ...]
    part_of: Caption | None = None
    first_token: int = 0

    @property
    def too_long(self) -> bool:
        """Whether the caption has more than MAX_TOKENS tokens, or the sentence more than MAX_SENTENCE."""
        return bool(self.text) and not self.tokens

    @property
    def whole(self) -> Caption:
        """The caption that a sentence stands in, which may be the caption itself."""
        return self.part_of or self

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each token, the indices of its dependents, in text order."""
        children: list[list[int]] = [[] for _ in self.tokens]
        for token in self.tokens:
            if token.head != token.index:
                children[token.head].append(token.index)
        return tuple(map(tuple, children))

    @cached_property
    def lowered(self) -> tuple[str, ...]:
        """The text of each token in lower case."""
        return tuple([token.text.lower() for token in self.tokens])

    @cached_property
    def token_starts(self) -> tuple[int, ...]:
        """The first character of each token, by which an edit's characters are found among the tokens."""
        return tuple([token.start for token in self.tokens])

    @cached_property
    def casing(self) -> Casing:
        """How the words are written: "upper" (in capitals), "title" (most begin with a capital), "lower" (no capital
        at all), or else "sentence".
        """
        if self.part_of is not None:  # one sentence of a caption
            return self.part_of.casing
        if self.text.islower():
            return "lower"
        # Not the first word, which has a capital in any case.
        words = [token.text for token in self.tokens[1:] if token.text.isalpha() and len(token.text) > 1]
        if words and sum(map(str.isupper, words)) >= STYLED * len(words):
            return "upper"
        long_words = [word for word in words if len(word) > 3]  # titles have "of" and "the" in small letters
        capitals = sum(word[0].isupper() for word in long_words)
        return "title" if len(long_words) > 1 and capitals >= STYLED * len(long_words) else "sentence"

    @cached_property
    def pronouns(self) -> tuple[Token, ...]:
        """The personal and possessive pronouns."""
        return tuple(token for token in self.tokens if token.tag in ("PRP", "PRP$"))

    def dependents(self, index: int, *deps: str) -> Iterator[Token]:
        """The tokens that depend on token `index` with one of these dependency labels, in text order."""
        for child in self.children[index]:
            if self.tokens[child].dep in deps:
                yield self.tokens[child]

    def first_dependent(self, index: int, *deps: str) -> Token | None:
        """The first of `dependents`, such as the subject ("nsubj") of a verb; None: there is none."""
        return next(self.dependents(index, *deps), None)

    def has_dependent(self, index: int, *deps: str) -> bool:
        """Whether any token depends on token `index` with one of these dependency labels."""
        return any(self.tokens[child].dep in deps for child in self.children[index])

    def word(self, index: int) -> str:
        """The text of token `index` in lower case; "" before the first and behind the last."""
        return self.lowered[index] if 0 <= index < len(self.tokens) else ""

    def first_conjunct(self, token: Token) -> Token:
        """The first word of the coordination that a token belongs to: "bed" for "chair" in "a bed and a chair"."""
        while token.dep == "conj" and token.head != token.index:
            token = self.tokens[token.head]
        return token

    def phrase_start(self, noun: int) -> int:
        """The first token of the noun phrase that the noun at token index `noun` heads; itself if it heads none."""
        return next((chunk.start for chunk in self.chunks if chunk.root == noun), noun)

    def span(self, start: int, end: int) -> str:
        """The text from token `start` to token `end` (exclusive), as written."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]


class FlatLists(NamedTuple):
    """A column of lists of structs: where the list of each row starts and ends, and the fields of all, by name."""

    offsets: list[int]
    fields: dict[str, list]


def from_parses(parses: pa.Table) -> list[Caption]:
    """The captions of a `parses` table (see negcap.schemas.captions), in table order."""
    import pyarrow as pa

    parses = parses.combine_chunks()  # each column is one array then, or none if the table is empty

    def flattened(column: str) -> FlatLists:
        """The lists of a column, such as the tokens of each caption, one list after the other."""
        lists = parses.column(column)
        array = lists.chunk(0) if lists.num_chunks else pa.array([], lists.type)
        structs = array.flatten()  # the items of all lists
        columns = {}
        for field, child in zip(structs.type, structs.flatten(), strict=True):  # an array for each field
            if pa.types.is_string(child.type):  # share one str object per distinct value
                encoded = child.dictionary_encode()
                words = encoded.dictionary.to_pylist()
                columns[field.name] = [words[i] for i in encoded.indices.to_pylist()]
            else:
                columns[field.name] = child.to_pylist()
        offsets = array.offsets.to_numpy()  # the first is not 0 in a slice of a table
        return FlatLists((offsets - offsets[0]).tolist(), columns)

    all_tokens = flattened("tokens")
    all_chunks = flattened("chunks")
    captions = []
    columns = (parses.column(name).to_pylist() for name in ("caption_id", "image_id", "text"))
    for row, (caption_id, image_id, text) in enumerate(zip(*columns, strict=True)):
        here = slice(all_tokens.offsets[row], all_tokens.offsets[row + 1])  # the tokens of this caption among all
        starts = all_tokens.fields["start"][here]
        ends = all_tokens.fields["end"][here]
        texts = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        parsed = (all_tokens.fields[name][here] for name in ("lemma", "tag", "pos", "dep", "head"))
        tokens = tuple(map(Token._make, zip(range(len(starts)), starts, ends, texts, *parsed, strict=True)))
        here = slice(all_chunks.offsets[row], all_chunks.offsets[row + 1])  # its noun phrases among all
        chunks = tuple(map(Chunk._make, zip(*(all_chunks.fields[name][here] for name in Chunk._fields), strict=True)))
        captions.append(Caption(caption_id=caption_id, image_id=image_id, text=text, tokens=tokens, chunks=chunks))
    return captions


def by_image(captions: Iterable[Caption]) -> list[list[Caption]]:
    """One list of captions per image. Captions of the same image must be consecutive."""
    return [list(group) for _, group in groupby(captions, key=lambda caption: caption.image_id)]


def cached(size: int) -> Callable[[Function], Function]:
    """A decorator that caches the `size` most recently used results of a function or method."""

    def decorate(function: Function) -> Function:
        return cast(Function, lru_cache(maxsize=size)(function))

    return decorate


cached_on_caption = cached(CAPTIONS)  # for functions of a caption
cached_on_context = cached(CONTEXTS)  # for functions of a caption and what the other captions of its image say


def read_only(array: np.ndarray) -> np.ndarray:
    """Make an array read-only, in place, and return it."""
    array.setflags(write=False)
    return array
