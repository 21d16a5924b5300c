"""The components of negatives, read from their texts as those of captions are; kept beside the run, so once.

A model is given no more of a negative than of a caption: its text. So nothing is taken from the edit that made it; the
parser that read the run's captions reads it, and its mistakes are those it makes in captions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from negcap.pipelines.engine.manifest import hash_table, read_manifest
from negcap.pipelines.engine.shards import read_table, write_atomically
from negcap.pipelines.models.components import to_graphs
from negcap.pipelines.models.data import ENCODED
from negcap.pipelines.models.texts import Graphs, Lists
from negcap.pipelines.models.vocabulary import Vocabulary

AT_ONCE = 1 << 14  # texts
LAYOUT = 1  # of the file
PARTS = Lists._fields


def with_negatives(
    run: Path, graphs: Graphs, rows: Tensor, negatives: int, vocabulary: Vocabulary, spacy_model: str | None = None
) -> Graphs:
    """The components of a run's captions and after them those of negatives rows (P,), in order; others have none.

    graphs: of the captions; negatives: how many the run has; spacy_model: the pipeline that parsed the run, where its
    manifest names none that can be loaded. Raises ValueError for a pipeline that is not there.
    """
    if not len(rows):
        return graphs
    told = {
        "spacy_model": spacy_model or _told(run, "parses", "spacy_model"),
        "parser": _told(run, "parses", "parser"),
        "simple": bool(_told(run, "components", "simple")),
    }
    asked = hashlib.sha256(rows.numpy().tobytes()).hexdigest()
    identity = [LAYOUT, vocabulary.sha256, hash_table(run, "negatives"), hash_table(run, "components"), told, asked]
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    path = run / ENCODED / f"components-{key}.safetensors"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        _write(path, _parsed(run, rows, vocabulary, told))
    return Graphs(*(_behind(*both, rows, negatives) for both in zip(graphs, _read(path), strict=True)))


def _told(run: Path, table: str, name: str) -> Any:
    manifest = read_manifest(run / table)
    return None if manifest is None else manifest.identity.config.get(name)


def _parsed(run: Path, rows: Tensor, vocabulary: Vocabulary, told: Mapping[str, Any]) -> Graphs:
    """The components of negatives rows (P,), in order."""
    from negcap.augment.caption import from_parses
    from negcap.augment.components.table import tabulate
    from negcap.augment.language.parse import parse_table
    from negcap.augment.scene_graph import scene_graph

    every = pa.chunked_array([table["text"].combine_chunks() for table in read_table(run, "negatives", ["text"])])
    texts = every.take(pa.array(rows.numpy())).combine_chunks()
    parts = []
    for start in range(0, len(texts), AT_ONCE):
        some = texts.slice(start, AT_ONCE)
        ids = pa.array([str(n) for n in range(len(some))])
        empty = pa.array([""] * len(some))
        captions = pa.table([ids, ids, empty, empty, some], ["caption_id", "image_id", "split", "origin", "text"])
        parses = parse_table(captions, told["spacy_model"])
        found = [scene_graph(caption, told["simple"]) for caption in from_parses(parses)]
        parts.append(tabulate(parses, found))
    return to_graphs(pa.concat_tables(parts), vocabulary, torch.device("cpu"))


def _behind(captions: Lists, negatives: Lists, rows: Tensor, total: int) -> Lists:
    """Lists of the captions, then of `total` negatives, of which rows (P,) have those given."""
    sizes = torch.zeros(total, dtype=torch.long)
    sizes[rows] = negatives.offsets.diff()
    words = torch.cat([captions.words, negatives.words.to(captions.words.device)])
    return Lists(words, torch.cat([captions.offsets, captions.offsets[-1] + sizes.cumsum(0)]))


def _write(path: Path, graphs: Graphs) -> None:
    from safetensors.torch import save

    tensors = {f"{name}.{part}": getattr(lists, part) for name, lists in graphs._asdict().items() for part in PARTS}
    write_atomically(path, save(tensors))


def _read(path: Path) -> Graphs:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
        return Graphs(*(Lists(*(tensors[f"{name}.{part}"] for part in PARTS)) for name in Graphs._fields))
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path} is damaged ({error}): remove it, it is made again") from None
