"""The components of captions as flat arrays of word ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from negcap.pipelines.engine.shards import list_shards, read_table
from negcap.pipelines.models.data import Captions
from negcap.pipelines.models.texts import UNKNOWN_ID, Graphs, Lists
from negcap.pipelines.models.vocabulary import Vocabulary

TABLES = ("components", "component_vocabulary", "component_exclusions")
KINDS = ("noun", "attribute", "relation")
COLUMNS = {
    "objects": ("object",),
    "attributes": ("attribute", "object"),
    "relations": ("subject", "relation", "object"),
}


def read_whole(run: Path, name: str) -> pa.Table:
    """A table of components. Raises FileNotFoundError where the run lacks it."""
    if not list_shards(run / name):
        raise FileNotFoundError(f"{run} has no {name}: run negcap components first")
    return pa.concat_tables(read_table(run, name)).combine_chunks()


def component_words(run: Path) -> list[str]:
    """A run's frequent nouns, attributes and relations: "dog", "tennis racket", "sit on". Raises as `read_whole`."""
    vocabulary = read_whole(run, "component_vocabulary")
    pairs = zip(vocabulary["kind"].to_pylist(), vocabulary["words"].to_pylist(), strict=True)
    return [words[0] for kind, words in pairs if kind in KINDS]


def read_rows(run: Path, name: str, caption_ids: Sequence[str]) -> pa.Table:
    """A row of a table a caption, in order. Raises as `read_whole`, and ValueError where a caption has none."""
    rows = read_whole(run, name)
    row = {caption: n for n, caption in enumerate(rows["caption_id"].to_pylist())}
    try:
        return rows.take([row[caption] for caption in caption_ids]).combine_chunks()
    except KeyError as missing:
        raise ValueError(f"{name} of {run} must be of all captions, lack: {missing.args[0]}") from None


def read_graphs(run: Path, captions: Captions, vocabulary: Vocabulary, device: torch.device) -> Graphs:
    """The components of a run's captions. Raises as `read_rows`."""
    return to_graphs(read_rows(run, "components", captions.ids), vocabulary, device)


def to_graphs(components: pa.Table, vocabulary: Vocabulary, device: torch.device) -> Graphs:
    """A table of components as ids; the words on the device."""
    lists = []
    for column, names in COLUMNS.items():
        items = components[column].combine_chunks()
        sizes = items.value_lengths().to_numpy(zero_copy_only=False)
        inside = items.flatten()
        words = np.stack([ids_of(vocabulary, inside.field(name)) for name in names], 1)
        lists.append(Lists(torch.from_numpy(words).to(device), offsets_of(sizes)))
    return Graphs(*lists)


def ids_of(vocabulary: Vocabulary, names: pa.Array) -> np.ndarray:
    """Names of objects, attributes or relations as ids: of the name, or its last word ("soccer game": game)."""
    encoded = names.dictionary_encode()
    return np.array(lookup(vocabulary, encoded.dictionary.to_pylist()), np.int64)[encoded.indices.to_numpy()]


def lookup(vocabulary: Vocabulary, names: Iterable[str]) -> list[int]:
    """The id of each name, see `ids_of`; of <unk> where neither is known."""
    ids = vocabulary.ids
    return [ids.get(name, ids.get(name.rpartition(" ")[2], UNKNOWN_ID)) for name in names]


def offsets_of(sizes: Sequence[int] | np.ndarray) -> Tensor:
    """Where lists of these sizes begin, and the end."""
    return torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
