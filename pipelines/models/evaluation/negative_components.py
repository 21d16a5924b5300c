"""The components of negatives, parsed from their texts as those of captions are, and cached in the run's folder.

A model must not know more of a negative than of a caption, of which it sees only the text. So the edit that made the
negative is not used: the parser of the run's captions parses it, and makes the same kinds of mistakes as in captions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from ...engine.manifest import read_manifest
from ...engine.tables import hash_table, read_table
from ..cache import cached_arrays
from ..components import encode_components
from ..corpus import Corpus
from ..texts import ComponentLists, SceneGraphs
from ..vocabulary import WordVocabulary

AT_ONCE = 1 << 14  # texts parsed at a time
LAYOUT = 1  # version of the arrays in the cache


def with_negatives(
    run: Path,
    graphs: SceneGraphs,
    negatives: Tensor,
    corpus: Corpus,
    vocabulary: WordVocabulary,
    spacy_model: str | None = None,
) -> SceneGraphs:
    """The components of a run's C captions followed by those of its M negatives; only `negatives` (P,) have any.

    graphs: of the captions. spacy_model: the pipeline that parsed the run, needed if the run's manifest names none that
    can be loaded; None: the one it names. Raises ValueError for a pipeline that is not installed, or a damaged cache.
    """
    if not len(negatives):
        return graphs
    settings = parser_settings(run, spacy_model)
    tables = [hash_table(run, "negatives"), hash_table(run, "components")]
    identity = [LAYOUT, vocabulary.sha256, *tables, settings, hashlib.sha256(negatives.numpy().tobytes()).hexdigest()]
    found, _ = cached_arrays(
        run, "components-", identity, lambda: _to_bytes(_extract(run, negatives, vocabulary, settings))
    )
    lists = []
    for kind, captions in graphs._asdict().items():
        new = ComponentLists(found[f"{kind}.words"], found[f"{kind}.offsets"])
        lists.append(_append(captions, new, negatives, len(corpus.operator)))
    return SceneGraphs(*lists)


def parser_settings(run: Path, spacy_model: str | None = None) -> dict[str, Any]:
    """How a run's captions were parsed, for `parse_graphs`; spacy_model: another pipeline, None for the run's own."""
    return {
        "spacy_model": spacy_model or _setting(run, "parses", "spacy_model"),
        "parser": _setting(run, "parses", "parser"),
        "simple": bool(_setting(run, "components", "simple")),
    }


def _setting(run: Path, table: str, name: str) -> Any:
    """A setting of the stage that wrote a table; None if the table has no manifest."""
    manifest = read_manifest(run / table)
    return None if manifest is None else manifest.identity.config.get(name)


def _extract(run: Path, negatives: Tensor, vocabulary: WordVocabulary, settings: Mapping[str, Any]) -> SceneGraphs:
    """The components of negatives (P,), in their order."""
    every = pa.chunked_array([table["text"].combine_chunks() for table in read_table(run, "negatives", ["text"])])
    return parse_graphs(every.take(pa.array(negatives.numpy())).combine_chunks(), vocabulary, settings)


def parse_graphs(texts: pa.Array, vocabulary: WordVocabulary, settings: Mapping[str, Any]) -> SceneGraphs:
    """The components of texts, parsed as the captions of a run are; settings: see `parser_settings`."""
    from ....augment.caption import from_parses
    from ....augment.components.table import tabulate
    from ....augment.language.parse import parse_table
    from ....augment.scene_graph import scene_graph

    parts = []
    for start in range(0, len(texts), AT_ONCE):
        part = texts.slice(start, AT_ONCE)
        ids = pa.array([str(n) for n in range(len(part))])
        empty = pa.array([""] * len(part))
        captions = pa.table([ids, ids, empty, empty, part], ["caption_id", "image_id", "split", "origin", "text"])
        parses = parse_table(captions, settings["spacy_model"])
        found = [scene_graph(caption, settings["simple"]) for caption in from_parses(parses)]
        parts.append(tabulate(parses, found))
    return encode_components(pa.concat_tables(parts), vocabulary, torch.device("cpu"))


def _append(captions: ComponentLists, found: ComponentLists, negatives: Tensor, total: int) -> ComponentLists:
    """The captions' lists, then one per negative (`total`): from `found` for `negatives` (P,), empty for others."""
    sizes = torch.zeros(total, dtype=torch.long)
    sizes[negatives] = found.offsets.diff()
    words = torch.cat([captions.words, found.words.to(captions.words.device)])
    return ComponentLists(words, torch.cat([captions.offsets, captions.offsets[-1] + sizes.cumsum(0)]))


def _to_bytes(graphs: SceneGraphs) -> bytes:
    from safetensors.torch import save

    return save(
        {
            f"{kind}.{part}": tensor
            for kind, lists in graphs._asdict().items()
            for part, tensor in lists._asdict().items()
        }
    )
