"""parses -> components, component_vocabulary, component_exclusions: what negative components are sampled from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ...augment.caption import Caption, by_image, from_parses
from ...augment.components import vocabulary
from ...augment.components.vocabulary import Exclusion, Exclusions
from ...augment.language.concreteness import Concreteness
from ...augment.lexicon.lexicon import default_min_count
from ...augment.scene_graph import SceneGraph, scene_graph
from ...augment.settings import Settings
from ...schemas.captions import COMPONENT_EXCLUSIONS, COMPONENT_VOCABULARY, COMPONENTS
from ...schemas.fields import table_of
from ..engine.stage import ReduceStage, Stage, StageResult
from ..engine.tables import WholeTable
from .lexicon import TRAIN, MinConcreteness, MinCount, Norms, counted_by_split, of_train_splits


class ComponentsConfig(Settings):
    """How components are read from parses, and which enter the vocabulary."""

    simple: bool = Field(
        False,
        description="simplify components as UniVSE does: one word per name, only the first attribute of an object",
    )
    min_count: MinCount = None  # by default UniVSE's "more than 100", scaled to the corpus
    min_concreteness: MinConcreteness = 0.6
    concreteness: Norms = None


def read_components(parses: pa.Table, config: ComponentsConfig) -> StageResult:
    """Read the components (objects, attributes, relations) of each caption in a shard of parses.

    Counters: captions; the number of components of each kind; `without.<kind>`, the captions that have none of it.
    """
    graphs = _scene_graphs(from_parses(parses), config)
    counts = {"captions": len(graphs)}
    for kind in ("objects", "attributes", "relations"):
        counts[kind] = sum(len(getattr(graph, kind)) for graph in graphs)
        counts[f"without.{kind}"] = sum(not getattr(graph, kind) for graph in graphs)
    return StageResult({"components": vocabulary.components_table(parses, graphs)}, counts)


def _scene_graphs(captions: Sequence[Caption], config: ComponentsConfig) -> list[SceneGraph]:
    """The scene graph of each caption."""
    return [scene_graph(caption, config.simple) for caption in captions]


def count_shard(components: pa.Table, config: ComponentsConfig) -> pa.Table:
    """The component counts of a shard, see `counted_by_split`."""
    return counted_by_split(components, vocabulary.count_components)


def add_counts(tables: Sequence[pa.Table], config: ComponentsConfig) -> pa.Table:
    """The sum of the counts of several shards (tables as of `count_shard`)."""
    return vocabulary.sum_counts(tables, TRAIN)


def choose(counts: pa.Table, config: ComponentsConfig) -> StageResult:
    """Choose the components that are frequent and concrete enough for the table component_vocabulary.

    counts: of all captions by split, see `counted_by_split`; those of train splits decide, if there are any. Counters:
    captions, train_only, min_count, and the number of components of each kind.
    """
    of_splits = of_train_splits(counts)
    counters = of_splits.counters
    min_count = config.min_count or default_min_count(counters["captions"], vocabulary.PAPER_RARE)
    table = vocabulary.select_vocabulary(
        of_splits.counts, min_count, Concreteness.load(config.concreteness), config.min_concreteness
    )
    kinds = {f"{entry['values']}s": entry["counts"] for entry in pc.value_counts(table["kind"]).to_pylist()}
    return StageResult({"component_vocabulary": table}, {**counters, "min_count": min_count, **kinds})


@lru_cache(maxsize=2)
def load_exclusions(component_vocabulary: WholeTable) -> Exclusions:
    """The index of what may be true of an image, for a vocabulary; made once per process and content."""
    return Exclusions(vocabulary.ComponentVocabulary(component_vocabulary.read()))


def find_exclusions(parses: pa.Table, config: ComponentsConfig, component_vocabulary: WholeTable) -> StageResult:
    """Find the components that may be true of each image of a shard, which must not be sampled as negatives of it.

    Counters: captions, images, rows.
    """
    exclusions = load_exclusions(component_vocabulary)
    rows: list[Exclusion] = []
    images = 0
    captions = from_parses(parses)
    for captions_of_image in by_image(captions):
        rows += exclusions.rows(captions_of_image, _scene_graphs(captions_of_image, config))
        images += 1
    return StageResult(
        {"component_exclusions": table_of(rows, COMPONENT_EXCLUSIONS)},
        {"captions": len(captions), "images": images, "rows": len(rows)},
    )


COLUMNS = ("split", "objects", "attributes", "relations")
VOCABULARY = {"component_vocabulary": COMPONENT_VOCABULARY}
EXCLUSIONS = {"component_exclusions": COMPONENT_EXCLUSIONS}
STAGES = (
    Stage("components", "parses", {"components": COMPONENTS}, read_components),
    ReduceStage("component_vocabulary", "components", VOCABULARY, count_shard, add_counts, choose, COLUMNS),
    Stage("component_exclusions", "parses", EXCLUSIONS, find_exclusions, whole=("component_vocabulary",)),
)
