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

from ....augment.cloze.states import SPECIAL, Units, by_first_word, joined, normalised
from ....augment.data import data_path
from ....augment.language.parse import load
from ....augment.language.semantic_classes import prepositions
from ....schemas.captions import TRAIN_SPLITS
from ... import readers
from ...readers.files import name_of
from ...readers.record import image_id

MAX_UNITS = 40  # longer captions are cut into pieces of this length


class Source(NamedTuple):
    """What was read from a source. name: its file or folder, without the path. texts: its distinct captions in order.
    left_out, rejected: how many captions were left out for their image, and could not be read.
    """

    name: str
    texts: tuple[str, ...]
    left_out: int
    rejected: int


def read_source(source: str, left_out: Collection[str] = (), held_out: bool = False) -> Source:
    """Read captions in any format that `negcap build` reads, to train on or, with `held_out`, to measure on.

    Of a source with train splits, those are read to train on and the other splits to measure on; of a source without,
    everything. left_out: ids of photos (see `photo_id`) whose captions are not read. Raises ValueError or
    FileNotFoundError, naming the source, if it cannot be read or has no such captions.
    """
    texts: dict[bool, dict[str, None]] = {}  # by whether in a train split
    without = Counter[bool]()
    rejected = 0
    for record in readers.read(source, readers.detect(source), readers.ReadOptions.of({})):
        if isinstance(record, readers.Rejected):
            rejected += 1
            continue
        train = record.split in TRAIN_SPLITS
        known = texts.setdefault(train, {})
        if photo_id(str(record.image)) in left_out:
            without[train] += 1
        else:
            known.setdefault(record.text)
    part = not held_out and True in texts
    if not texts.get(part):
        raise ValueError(f"{source}: must have captions to {'measure' if held_out else 'train'} on, has none")
    return Source(name_of(source), tuple(texts[part]), without[part], rejected)


def photo_id(image: str) -> str:
    """The part of an image's name that says which photo it is: `images/1000268201_693b08cb0e.jpg` -> `1000268201`."""
    return re.split("[_.]", image_id(image), maxsplit=1)[0]


def read_photo_ids(path: Path) -> frozenset[str]:
    """The ids of photos in a text file, separated by white space. Raises ValueError if there are none."""
    ids = frozenset(path.read_text("utf-8").split())
    if not ids:
        raise ValueError(f"{path}: must list ids of photos, was empty")
    return ids


def tokenised(texts: Iterable[str]) -> Iterator[list[str]]:
    """The normalised words of each caption, as the shipped parser splits it."""
    tokenizer = load(None).tokenizer
    for text in texts:
        yield [normalised(token.text) for token in tokenizer(text) if not token.is_space]


def phrases() -> list[str]:
    """The phrases that are read as one unit: prepositions of several words, and compounds of the reference lexicon."""
    rows = pq.read_table(data_path("reference_lexicon") / "lexicon.parquet").select(["kind", "entry", "place"])
    entries = list(zip(*rows.to_pydict().values(), strict=True))
    nouns = {entry for kind, entry, _ in entries if kind == "noun" and " " in entry}
    places = (place for kind, entry, place in entries if kind == "surface" and entry in nouns)
    compounds = {place.partition(":")[2] for place in places if place.startswith(("nn:", "nns:"))}
    return sorted(name for name in compounds | prepositions().entries if " " in name)


def vocabulary(
    captions: Iterable[Sequence[str]], phrases: Iterable[str], min_count: int, known: Sequence[str] = SPECIAL
) -> tuple[Units, np.ndarray]:
    """The units of a model of some tokenised captions, and how often each occurs in them, (units,).

    known: the names of units that it has in any case; then come words and phrases that occur `min_count` times, the
    most frequent first. The count of UNKNOWN is that of all rarer words; START and END have the number of captions.
    """
    first = by_first_word(phrases)
    counter = Counter[str]()
    total = 0
    for words in captions:
        sizes = joined(words, first)
        units = (words[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True) if size)
        counter.update(map(" ".join, units))
        total += 1
    frequent = {name for name, n in counter.items() if n >= min_count}.difference(known)
    names = [*known, *sorted(frequent, key=lambda name: (-counter[name], name))]
    kept = [counter[name] for name in names[len(SPECIAL) :]]
    return Units(tuple(names)), np.array([total, total, sum(counter.values()) - sum(kept), *kept])


def encode(captions: Iterable[Sequence[str]], units: Units) -> list[np.ndarray]:
    """Each tokenised caption as the numbers of its units, with START and END: int32. Captions without a word are left
    out, those of more than MAX_UNITS units are cut into several.
    """
    encoded = []
    for words in captions:
        inner = units.read(words)[0][1:-1]
        encoded += [np.array([0, *inner[at : at + MAX_UNITS], 1], np.int32) for at in range(0, len(inner), MAX_UNITS)]
    return encoded
