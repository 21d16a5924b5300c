"""Read captions for training the cloze model: tokens, vocabulary, and captions as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from ....augment.cloze.states import END, SPECIAL, START, Units, group_by_first_word, normalise_word, words_per_unit
from ....augment.data import data_path
from ....augment.language.parse import load_pipeline
from ....augment.language.semantic_classes import preposition_table
from ....schemas.captions import TRAIN_SPLITS
from ... import readers
from ...readers.files import name_of
from ...readers.record import image_id

# Longer captions are cut into pieces of this length.
MAX_UNITS = 40


class CaptionSource(NamedTuple):
    """What was read from a source. name: its file or folder, without the path. texts: its distinct captions in order.
    left_out, rejected: how many captions were left out for their image, and could not be read.
    """

    name: str
    texts: tuple[str, ...]
    left_out: int
    rejected: int


def read_source(source: str, left_out: Collection[str] = (), held_out: bool = False) -> CaptionSource:
    """Read captions in any format that `negcap build` reads, to train on or, with `held_out`, to measure on.

    Of a source with train splits, those are read to train on and the other splits to measure on; of a source without,
    everything. left_out: ids of photos (see `photo_id`) whose captions are not read. Raises ValueError or
    FileNotFoundError, naming the source, if it cannot be read or has no such captions.
    """
    # Distinct texts in order: texts[True] those of train splits, texts[False] the others; likewise the captions that
    # are left out. Only at the end it is known whether the source has train splits.
    texts: dict[bool, dict[str, None]] = {True: {}, False: {}}
    captions_left_out = Counter[bool]()
    has_train_split = False
    rejected = 0
    for record in readers.read(source, readers.detect(source), readers.ReadOptions.of({})):
        if isinstance(record, readers.Rejected):
            rejected += 1
            continue
        in_train = record.split in TRAIN_SPLITS
        has_train_split |= in_train
        if photo_id(str(record.image)) in left_out:
            captions_left_out[in_train] += 1
        else:
            texts[in_train].setdefault(record.text)
    read_train = has_train_split and not held_out
    if not texts[read_train]:
        raise ValueError(f"{source}: must have captions to {'measure' if held_out else 'train'} on, has none")
    return CaptionSource(name_of(source), tuple(texts[read_train]), captions_left_out[read_train], rejected)


def read_sources(sources: Sequence[str], leave_out: Path | None = None) -> list[CaptionSource]:
    """Read captions to train on, see `read_source`.

    Args:
        sources: where each kind of caption is, as given on the command line.
        leave_out: a file of the ids of photos whose captions are not read; None: all are.
    """
    left_out = read_photo_ids(leave_out) if leave_out else frozenset[str]()
    return [read_source(source, left_out) for source in sources]


def distinct_texts(sources: Iterable[CaptionSource]) -> list[str]:
    """The captions of some sources in order, each once."""
    return list(dict.fromkeys(text for source in sources for text in source.texts))


def photo_id(image: str) -> str:
    """The part of an image's name that says which photo it is: `images/1000268201_693b08cb0e.jpg` -> `1000268201`."""
    return re.split("[_.]", image_id(image), maxsplit=1)[0]


def read_photo_ids(path: Path) -> frozenset[str]:
    """The ids of photos in a text file, separated by white space. Raises ValueError if there are none."""
    ids = frozenset(path.read_text("utf-8").split())
    if not ids:
        raise ValueError(f"{path}: must list ids of photos, was empty")
    return ids


def tokenise(texts: Iterable[str]) -> Iterator[list[str]]:
    """The normalised words of each caption, as the shipped parser splits it."""
    tokenizer = load_pipeline(None).tokenizer
    for text in texts:
        yield [normalise_word(token.text) for token in tokenizer(text) if not token.is_space]


def phrases() -> list[str]:
    """The phrases that are read as one unit: prepositions of several words, and compounds of the reference lexicon."""
    lexicon = pq.read_table(data_path("reference_lexicon") / "lexicon.parquet").select(["kind", "entry", "place"])
    rows = lexicon.to_pylist()
    nouns = {row["entry"] for row in rows if row["kind"] == "noun" and " " in row["entry"]}
    # The forms of a noun are rows of the kind "surface"; their place is such as "nns:tennis balls".
    forms = [row["place"] for row in rows if row["kind"] == "surface" and row["entry"] in nouns]
    compounds = {form.partition(":")[2] for form in forms if form.startswith(("nn:", "nns:"))}
    return sorted(name for name in compounds | preposition_table().entries if " " in name)


class Vocabulary(NamedTuple):
    """The units of a model, and how often each occurs in its captions, (units,). The count of UNKNOWN is that of all
    rarer words; START and END have the number of captions.
    """

    units: Units
    counts: np.ndarray


def vocabulary(
    captions: Iterable[Sequence[str]], phrases: Iterable[str], min_count: int, known: Sequence[str] = SPECIAL
) -> Vocabulary:
    """The vocabulary of a model of some captions.

    Args:
        captions: tokenised captions.
        phrases: what is read as one unit, words with spaces between them.
        min_count: how often a word or phrase must occur to be a unit; the most frequent come first.
        known: the names of units that the model has in any case, before the others.
    """
    first = group_by_first_word(phrases)
    counter = Counter[str]()
    total = 0
    for words in captions:
        # How many words each unit has; 0 for a final full stop, which is no unit.
        sizes = words_per_unit(words, first)
        for size, end in zip(sizes, accumulate(sizes), strict=True):
            if size:
                counter[" ".join(words[end - size : end])] += 1
        total += 1
    frequent = {name for name, count in counter.items() if count >= min_count}.difference(known)
    names = [*known, *sorted(frequent, key=lambda name: (-counter[name], name))]
    counts = [counter[name] for name in names[len(SPECIAL) :]]
    unknown = sum(counter.values()) - sum(counts)
    # Every caption has one START and one END, the first two of SPECIAL; UNKNOWN stands for all that is no unit.
    return Vocabulary(Units(tuple(names)), np.array([total, total, unknown, *counts]))


def encode(captions: Iterable[Sequence[str]], units: Units) -> list[np.ndarray]:
    """Each tokenised caption as the numbers of its units, with START and END: int32. Captions without a word are left
    out, those of more than MAX_UNITS units are cut into several.
    """
    start = SPECIAL.index(START)
    end = SPECIAL.index(END)
    encoded = []
    for words in captions:
        inner = units.to_units(words).units[1:-1]  # without START and END, which each piece gets
        for first in range(0, len(inner), MAX_UNITS):
            encoded.append(np.array([start, *inner[first : first + MAX_UNITS], end], np.int32))
    return encoded
