"""The tables of components (objects, attributes, relations) of a run, and components as arrays of word ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ..engine.tables import read_table
from .captions import Captions
from .texts import ComponentLists, SceneGraphs
from .vocabulary import UNKNOWN_ID, WordVocabulary

TABLES = ("components", "component_vocabulary", "component_exclusions")
KINDS = ("noun", "attribute", "relation")
PARTS = {
    "objects": ("object",),
    "attributes": ("attribute", "object"),
    "relations": ("subject", "relation", "object"),
}  # columns of `components`, and the words that make up an entry of each


def read_whole_table(run: Path, name: str) -> pa.Table:
    """Read all shards of a table that `negcap components` writes. Raises FileNotFoundError if there are none."""
    return pa.concat_tables(read_table(run, name)).combine_chunks()


def component_names(run: Path) -> list[str]:
    """The nouns, attributes and relations in a run's component_vocabulary: "dog", "tennis racket", "sit on".

    Raises FileNotFoundError if the run lacks that table.
    """
    vocabulary = read_whole_table(run, "component_vocabulary")
    pairs = zip(vocabulary["kind"].to_pylist(), vocabulary["words"].to_pylist(), strict=True)
    return [words[0] for kind, words in pairs if kind in KINDS]


def read_caption_rows(run: Path, name: str, caption_ids: Sequence[str]) -> pa.Table:
    """The rows of a table with one row per caption, for these captions and in their order.

    Raises FileNotFoundError for a missing table, ValueError for a caption without a row.
    """
    rows = read_whole_table(run, name)
    row = {caption: n for n, caption in enumerate(rows["caption_id"].to_pylist())}
    try:
        return rows.take([row[caption] for caption in caption_ids]).combine_chunks()
    except KeyError as missing:
        raise ValueError(f"{name} of {run} must have a row for each caption, has none for: {missing.args[0]}") from None


def read_graphs(run: Path, captions: Captions, vocabulary: WordVocabulary, device: torch.device) -> SceneGraphs:
    """The scene graphs of a run's captions, as word ids on `device`. Raises as `read_caption_rows`."""
    return encode_components(read_caption_rows(run, "components", captions.ids), vocabulary, device)


def encode_components(components: pa.Table, vocabulary: WordVocabulary, device: torch.device) -> SceneGraphs:
    """The rows of a table `components` as scene graphs: word ids on `device`, offsets on the CPU."""
    lists = []
    for column, parts in PARTS.items():
        entries = components[column].combine_chunks()
        sizes = entries.value_lengths().to_numpy(zero_copy_only=False)
        flat = entries.flatten()
        words = np.stack([_encode_names(vocabulary, flat.field(part)) for part in parts], 1)
        lists.append(ComponentLists(torch.from_numpy(words).to(device), _offsets(sizes)))
    return SceneGraphs(*lists)


def component_ids(vocabulary: WordVocabulary, names: Iterable[str]) -> list[int]:
    """The word id of each name of an object, attribute or relation.

    A name that is not in the vocabulary gets the id of its last word ("soccer game": that of "game"), or else that of
    <unk>.
    """
    ids = vocabulary.ids
    return [ids.get(name, ids.get(name.rpartition(" ")[2], UNKNOWN_ID)) for name in names]


def _encode_names(vocabulary: WordVocabulary, names: pa.Array) -> np.ndarray:
    encoded = names.dictionary_encode()
    return np.array(component_ids(vocabulary, encoded.dictionary.to_pylist()), np.int64)[encoded.indices.to_numpy()]


def _offsets(sizes: np.ndarray) -> Tensor:
    """Offsets (n + 1,) of n consecutive lists of these sizes: list i covers offsets[i] to offsets[i + 1]."""
    return torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
