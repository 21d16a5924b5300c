"""The hypernyms of WordNet's nouns as pairs of concepts: their transitive closure, its split, and false pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ....augment.data import data_path
from ....augment.language.wordnet import ABOVE, WordNet

Pairs = npt.NDArray[np.int64]  # (n, 2): a concept and one above it


@dataclass(frozen=True)
class Taxonomy:
    """N concepts and which lies above which.

    names: of the concepts, such as "dog.n.01". edges: (E, 2), each concept with those right above it. closure: (P, 2),
    with all above it, in ascending order.
    """

    names: list[str]
    edges: Pairs
    closure: Pairs


class SplitPairs(NamedTuple):
    """True pairs, each (n, 2): to train on, to stop training by, to set the threshold by, and to test."""

    train: Pairs
    validation: Pairs
    threshold: Pairs
    test: Pairs


def read_taxonomy(path: Path | None = None) -> Taxonomy:
    """The nouns of WordNet with their hypernyms, those of instances included (Rome is a city).

    path: a Parquet file with the schema `negcap.schemas.captions`; None: the shipped WordNet 3.0. Raises ValueError for
    a file without the columns or without hypernyms of nouns, FileNotFoundError if it is missing.
    """
    place = data_path("wordnet.parquet") if path is None else path
    try:
        with place.open("rb") as file:
            table = pq.ParquetFile(file).read().combine_chunks()
        wordnet = WordNet.load() if path is None else WordNet(table)
        nouns = np.flatnonzero(table["pos"].to_numpy() == "n")
        columns = [table[name].chunk(0) for name in ABOVE]
    except (pa.ArrowInvalid, KeyError, AttributeError, IndexError) as error:
        raise ValueError(
            f"wordnet must be a taxonomy in Parquet (negcap.schemas.captions), was: {place}: {error}"
        ) from None
    number = np.full(len(table), -1)
    number[nouns] = np.arange(len(nouns))
    owners = [np.repeat(np.arange(len(table)), np.diff(column.offsets.to_numpy())) for column in columns]
    above = [column.flatten().to_numpy() for column in columns]
    edges = number[np.stack([np.concatenate(owners), np.concatenate(above)], 1)]
    edges = edges[(edges >= 0).all(1)]
    if not len(edges):
        raise ValueError(f"wordnet must have nouns with hypernyms, {place} has {len(nouns)} nouns and no hypernyms")
    return Taxonomy([wordnet.name(int(row)) for row in nouns], edges, transitive_closure(edges, len(nouns)))


def transitive_closure(edges: Pairs, concepts: int) -> Pairs:
    """All pairs (P, 2) that chains of edges (E, 2) connect, in ascending order; without pairs of equal concepts."""
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    starts = np.searchsorted(edges[:, 0], np.arange(concepts + 1))
    known = new = _distinct(keys(edges, concepts))
    while len(new):
        below, middle = np.divmod(new, concepts)
        counts = np.diff(starts)[middle]
        at = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - starts[middle], counts)
        found = _distinct(np.repeat(below, counts) * concepts + edges[at, 1])
        new = found[~np.isin(found, known, kind="sort")]
        known = np.sort(np.concatenate([known, new]), kind="stable")  # merges the two, as both are in ascending order
    pairs = np.stack(np.divmod(known, concepts), 1)
    return pairs[pairs[:, 0] != pairs[:, 1]]


def _distinct(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The different ones of numbers (n,), in ascending order. By sorting: np.unique hashes, ten times as long."""
    numbers = np.sort(numbers)
    return numbers[np.concatenate([[True], numbers[1:] != numbers[:-1]])] if len(numbers) else numbers


def keys(pairs: Pairs, concepts: int) -> npt.NDArray[np.int64]:
    """One number (n,) for each pair (n, 2)."""
    return pairs[:, 0] * concepts + pairs[:, 1]


def split_pairs(closure: Pairs, held_out: int, rng: np.random.Generator) -> SplitPairs:
    """The pairs of a closure (P, 2), shuffled, with `held_out` in each part but train.

    Raises ValueError if fewer than half of the pairs are left to train on.
    """
    if len(closure) < 6 * held_out:
        raise ValueError(f"held_out must be at most a sixth of the {len(closure)} pairs, was: {held_out}")
    shuffled = closure[rng.permutation(len(closure))]
    parts = np.split(shuffled, [held_out, 2 * held_out, 3 * held_out])
    return SplitPairs(parts[3], parts[1], parts[2], parts[0])


def false_pairs(pairs: Pairs, closure: Pairs, concepts: int, rng: np.random.Generator) -> Pairs:
    """Each of the pairs (n, 2) with one end, either with equal chance, replaced by a random concept.

    Draws again what is in the closure (P, 2), which is in ascending order, or relates a concept to itself.
    """
    known = keys(closure, concepts)
    made = pairs.copy()
    left = np.arange(len(pairs))
    while len(left):
        made[left] = pairs[left]
        made[left, rng.integers(0, 2, len(left))] = rng.integers(0, concepts, len(left))
        below, above = made[left].T
        left = left[np.isin(keys(made[left], concepts), known, kind="sort") | (below == above)]
    return made
