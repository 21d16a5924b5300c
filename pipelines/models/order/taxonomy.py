"""The hypernyms of WordNet's nouns as pairs of concepts: their transitive closure, its split, and false pairs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scipy.sparse import csr_array
from torch import Tensor

from ....augment.data import data_path
from ....augment.language.wordnet import ABOVE, WordNet

Pairs = npt.NDArray[np.int64]  # (n, 2): a concept and one above it


class Taxonomy(NamedTuple):
    """Concepts by number. names: such as "dog.n.01". closure: (P, 2), the pairs of each concept and every one above it,
    in ascending order. chains: (P,), by how many chains of hypernyms a pair is connected.
    """

    names: list[str]
    closure: Pairs
    chains: npt.NDArray[np.int64]


class HeldOut(NamedTuple):
    """Pairs of concepts (n, 2); related: (n,) bool, whether the first lies below the second, which half of them do."""

    pairs: Tensor
    related: Tensor


class Split(NamedTuple):
    """True pairs (n, 2) to train on; and true and false pairs that choose the best epoch (validation), that set the
    threshold, and that test.
    """

    train: Pairs
    validation: HeldOut
    threshold: HeldOut
    test: HeldOut


def read_taxonomy(path: Path | None = None) -> Taxonomy:
    """The nouns of WordNet with their hypernyms, those of instances included (Rome is a city). path: a Parquet file
    with the schema `negcap.schemas.captions`; None: the shipped WordNet 3.0. Raises ValueError for a file without the
    columns or without hypernyms of nouns, or with a circle of them; FileNotFoundError if it is missing.
    """
    file_path = data_path("wordnet.parquet") if path is None else path
    try:
        with file_path.open("rb") as file:
            table = pq.ParquetFile(file).read().combine_chunks()
        wordnet = WordNet.load() if path is None else WordNet(table)
        nouns = np.flatnonzero(table["pos"].to_numpy() == "n")
        above = pa.concat_arrays([table[name].chunk(0) for name in ABOVE])  # lists of rows, for each row in turn
    except (pa.ArrowInvalid, KeyError, AttributeError, IndexError) as error:
        rule = "wordnet must be a taxonomy in Parquet (negcap.schemas.captions)"
        raise ValueError(f"{rule}, was: {file_path}: {error}") from None
    # The columns of hypernyms stand one after another, so the row of a list is its index modulo the rows.
    below_rows = above.value_parent_indices().to_numpy() % len(table)
    edges = np.stack([below_rows, above.flatten().to_numpy()], 1)
    concept_of_row = np.full(len(table), -1)
    concept_of_row[nouns] = np.arange(len(nouns))
    edges = concept_of_row[edges]
    edges = edges[(edges >= 0).all(1)]
    if not len(edges):
        raise ValueError(f"wordnet must have nouns with hypernyms, {file_path} has {len(nouns)} nouns and no hypernyms")
    closure, chains = count_chains(edges, len(nouns))
    return Taxonomy([wordnet.name(int(row)) for row in nouns], closure, chains)


class Chains(NamedTuple):
    """A closure (P, 2) in ascending order, and by how many chains of edges each pair is connected, (P,)."""

    closure: Pairs
    counts: npt.NDArray[np.int64]


def count_chains(edges: Pairs, concepts: int) -> Chains:
    """The transitive closure of edges (E, 2), and how many chains of edges connect each pair of it. Raises ValueError
    for a circle.
    """
    direct = csr_array((np.ones(len(edges), np.int64), edges.T), shape=(concepts, concepts))
    # Power k of the matrix of edges counts the chains of k edges; their sum counts all of them.
    power = direct
    counts = direct
    while power.nnz:
        power = power @ direct
        counts = counts + power
        if counts.diagonal().any():
            raise ValueError(f"wordnet must have no concept above itself, has {counts.diagonal().nonzero()[0][0]}")
    counts.sort_indices()
    return Chains(np.stack(counts.nonzero(), 1).astype(np.int64), counts.data)


def transitive_closure(edges: Pairs, concepts: int) -> Pairs:
    """All pairs (P, 2) that chains of edges (E, 2) connect, in ascending order; without pairs of equal concepts."""
    reached = csr_array((np.ones(len(edges), bool), edges.T), shape=(concepts, concepts))
    known = -1
    while known < reached.nnz:
        known = reached.nnz
        reached = reached + reached @ reached  # chains of twice the length
    reached.sort_indices()
    pairs = np.stack(reached.nonzero(), 1).astype(np.int64)
    return pairs[pairs[:, 0] != pairs[:, 1]]


def in_closure(pairs: Pairs, closure: Pairs) -> npt.NDArray[np.bool_]:
    """Which of the pairs (n, 2) are in a closure (P, 2), which is in ascending order: (n,) bool."""
    # Each pair becomes one number, in the order of the closure, to search by bisection; np.isin is slower.
    concepts = 1 + max(pairs.max(), closure.max())
    wanted = pairs[:, 0] * concepts + pairs[:, 1]
    known = closure[:, 0] * concepts + closure[:, 1]
    nearest = known[np.searchsorted(known, wanted).clip(max=len(known) - 1)]
    return np.asarray(nearest == wanted)


def split_pairs(taxonomy: Taxonomy, held_out: int, rng: np.random.Generator, *, clean: bool = True) -> Split:
    """The true pairs of concepts, shuffled and split: `held_out` in each part but train, with as many false pairs.

    threshold: the part on which a threshold of penalties is chosen that tells true pairs from false ones.
    clean: each pair occurs once, and all false pairs are false. Else, as in Vendrov et al. (2016), a pair occurs once
    for each chain that connects it, so that train shares pairs with the other parts, and false pairs may be true.
    Raises ValueError if fewer than half of the pairs are left to train on.
    """
    closure = taxonomy.closure if clean else np.repeat(taxonomy.closure, taxonomy.chains, 0)
    if len(closure) < 6 * held_out:
        raise ValueError(f"held_out must be at most a sixth of the {len(closure)} pairs, was: {held_out}")
    shuffled = closure[rng.permutation(len(closure))]
    test, validation, threshold, train = np.split(shuffled, [held_out, 2 * held_out, 3 * held_out])
    # In this order, since each draws its false pairs from rng.
    return Split(
        train=train,
        validation=with_false_pairs(validation, taxonomy, rng, clean=clean),
        threshold=with_false_pairs(threshold, taxonomy, rng, clean=clean),
        test=with_false_pairs(test, taxonomy, rng, clean=clean),
    )


def with_false_pairs(true: Pairs, taxonomy: Taxonomy, rng: np.random.Generator, *, clean: bool = True) -> HeldOut:
    """True pairs (n, 2), and after them as many false ones made of them, see `false_pairs`."""
    pairs = np.concatenate([true, false_pairs(true, taxonomy, rng, clean=clean)])
    return HeldOut(torch.from_numpy(pairs), torch.arange(len(pairs)) < len(true))


def false_pairs(pairs: Pairs, taxonomy: Taxonomy, rng: np.random.Generator, *, clean: bool = True) -> Pairs:
    """Each of the pairs (n, 2) with one end, either with equal chance, replaced by a random concept.

    clean: whether pairs that are in the closure, or relate a concept to itself, are drawn again. Else some 14 % of
    WordNet's false pairs are true: whatever replaces "dog" in (dog, entity) lies below entity, too.
    """
    concepts = len(taxonomy.names)
    false = pairs.copy()
    rows = np.arange(len(pairs))  # those still to draw, at first all
    while len(rows):
        false[rows] = pairs[rows]
        other = rng.integers(0, concepts, len(rows))
        end = rng.integers(0, 2, len(rows))
        false[rows, end] = other
        if not clean:
            break
        drawn = false[rows]
        is_not_false = in_closure(drawn, taxonomy.closure) | (drawn[:, 0] == drawn[:, 1])
        rows = rows[is_not_false]
    return false
