"""Count pairs of captions of one image by what the first mentions and the second entails, per fold of images.

A caption entails a lexicon entry that must be true of the image if the caption is. A table of counts has the columns
kind, said, of and entry of negcap.schemas.captions, and numbers of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..caption import Caption
from ..lexicon.lexicon import Lexicon
from ..mentions import mentioned_nouns, mentioned_verbs
from ..rng import record_rng
from . import associations, exchange
from .contradiction import Entailment
from .exchange import ASSERTIONS

if TYPE_CHECKING:
    import pyarrow as pa

WORDS = ("noun", "verb")
KEYS = ("kind", "said", "of", "entry")
PAIRS = "pairs"
FOLDS = 6
MIN_PAIRS = 20  # words mentioned by the first caption of fewer pairs are left out


@dataclass(frozen=True)
class EntailedEntries:
    """Finds, of the words in a lexicon (its entries), those that a caption entails: that must be true of the image if
    it is.
    """

    lexicon: Lexicon

    @cached_property
    def _nouns(self) -> Entailment:
        return Entailment(self.lexicon.nouns.names)

    def __call__(self, kind: str, caption: Caption) -> np.ndarray:
        """Entry numbers: for kind "noun", those that its nouns entail; for "verb", those that it mentions."""
        if kind == "noun":
            return self._nouns.entries(mentioned_nouns(caption))
        known = self.lexicon.verbs.number
        return np.array([known[verb] for verb in mentioned_verbs(caption) if verb in known], int)


def fold(image_id: str) -> int:
    """The fold of an image, from 0 to FOLDS - 1."""
    return record_rng(0, "truth fold", image_id).randrange(FOLDS)


def count(images: Sequence[Sequence[Caption]], entailed: EntailedEntries) -> pa.Table:
    """A table of counts of caption pairs in some images, each a list of its captions."""
    import pyarrow as pa

    read = [
        [(mentioned_nouns(caption), {kind: entailed(kind, caption) for kind in WORDS}) for caption in captions]
        for captions in images
    ]
    words = sorted({noun for nouns, _ in chain.from_iterable(read) for noun in nouns})
    number = {word: row for row, word in enumerate(words)}

    def rows(kind: str, said: Any, of: Any, entry: Any, pairs: Any) -> pa.Table:
        texts = [pa.array(column, pa.string()) for column in (said, of, entry)]
        return pa.table([pa.repeat(kind, len(pairs)), *texts, pa.array(pairs, pa.int64())], [*KEYS, PAIRS])

    tables = []
    for kind in WORDS:  # pairs by the word that the first caption mentions and the entry that the second entails
        names = entailed.lexicon.entries(kind).names
        of_images = (
            [(np.array([number[noun] for noun in nouns], int), entries[kind]) for nouns, entries in captions]
            for captions in read
        )
        pairs = associations.count(of_images, len(words), len(names))
        whole = np.block([[np.array([[pairs.all]]), pairs.true[None]], [pairs.mentioned[:, None], pairs.together]])
        row, column = whole.nonzero()
        firsts = pa.array(["", *words], pa.string()).take(pa.array(row))
        seconds = pa.array(["", *names], pa.string()).take(pa.array(column))
        tables.append(rows(kind, firsts, pa.repeat("", len(row)), seconds, whole[row, column].astype(int)))
    for kind, assertions in ASSERTIONS.items():  # by the assertion of the first and the value that the second gives
        counts = exchange.count(kind, (list(map(assertions, captions)) for captions in images))
        said, of, entry = zip(*counts, strict=True) if counts else ((), (), ())
        tables.append(rows(kind, said, of, entry, list(counts.values())))
    return pa.concat_tables(tables)


def add(folds: Sequence[pa.Table]) -> pa.Table:
    """Join the counts of the folds, sorted, with one column of pairs per fold; counts of rare words are dropped."""
    import pyarrow as pa
    import pyarrow.compute as pc

    owner = np.repeat(np.arange(len(folds)), [len(own) for own in folds])
    rows = pa.concat_tables(map(encoded, folds)).unify_dictionaries()
    numbers, texts = zip(*(_numbered(rows[key].combine_chunks()) for key in KEYS), strict=True)
    shape = [len(own) for own in texts]
    keys, at = np.unique(np.ravel_multi_index(numbers, shape), return_inverse=True)
    pairs = np.zeros((len(folds), len(keys)), int)
    np.add.at(pairs, (owner, at), rows[PAIRS].to_numpy())
    columns = [own.take(pa.array(n)) for own, n in zip(texts, np.unravel_index(keys, shape), strict=True)]
    table = pa.table([*columns, *map(pa.array, pairs)], [*KEYS, *(f"{PAIRS}_{number}" for number in range(len(folds)))])
    word = pc.and_(pc.is_in(table["kind"], pa.array(WORDS)), pc.not_equal(table["said"], ""))
    few = pc.and_(pc.equal(table["entry"], ""), pc.less(_total(table), MIN_PAIRS))
    rare = table["said"].filter(pc.and_(word, few)).combine_chunks()
    return table.filter(pc.invert(pc.and_(word, pc.is_in(table["said"], rare)))).combine_chunks()


def encoded(table: pa.Table) -> pa.Table:
    """A table with its string columns dictionary-encoded, which makes it smaller to send to workers."""
    import pyarrow as pa

    texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    for name in texts:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].dictionary_encode())
    return table


def _numbered(coded: pa.DictionaryArray) -> tuple[np.ndarray, pa.Array]:
    """Integer codes of texts, and the sorted vocabulary that they index."""
    import pyarrow.compute as pc

    order = pc.sort_indices(coded.dictionary)
    number = np.empty(len(order), int)
    number[order.to_numpy()] = np.arange(len(order))
    return number[coded.indices.to_numpy()], coded.dictionary.take(order)


def _total(counts: pa.Table) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return reduce(pc.add, counts.drop_columns(list(KEYS)).columns)


def total(counts: pa.Table, left_out: int | None = None) -> pa.Table:
    """The sum of the counts of all folds, or of all except fold `left_out`; columns KEYS and `pairs`."""
    import pyarrow.compute as pc

    pairs = _total(counts)
    if left_out is not None:
        pairs = pc.subtract(pairs, counts[f"{PAIRS}_{left_out}"])
    return counts.select(KEYS).append_column(PAIRS, pairs).filter(pc.greater(pairs, 0))
