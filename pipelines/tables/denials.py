"""True denials of a run: the captions that negatives of the operator `negation` are compared with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from negcap.pipelines.engine.tables import Shard, has_table, shards_of
from negcap.pipelines.tables.columns import read_columns

NEGATION = "negation"
TRUE_NEGATION = "true_negation"


class Denial(NamedTuple):
    """A true caption that denies something, as in the table positives."""

    positive_id: str
    text: str


def true_denials(run: Path) -> Callable[[Shard], dict[str, Denial]] | None:
    """A function from a shard of negatives to the first true denial of each caption, by caption_id.

    A false denial differs from its caption in the word "not" or "without", which says nothing about a reader of images;
    a true denial has such a word as well. None if the run has no true denials: then negatives are compared with their
    captions. Raises as `shards_of`.
    """
    if not has_table(run, "positives"):
        return None
    shards = {shard.path.name: shard for shard in shards_of(run, "positives")}

    def of_shard(negatives: Shard) -> dict[str, Denial]:
        positives = shards.get(negatives.path.name)
        return {} if positives is None else _first(positives)

    return of_shard if any(map(_first, shards.values())) else None


def _first(positives: Shard) -> dict[str, Denial]:
    import pyarrow.compute as pc

    rows = read_columns(positives, ("positive_id", "caption_id", "operator", "text"))
    rows = rows.filter(pc.field("operator") == TRUE_NEGATION).to_pydict()
    found: dict[str, Denial] = {}
    for positive_id, caption_id, text in zip(rows["positive_id"], rows["caption_id"], rows["text"], strict=True):
        found.setdefault(caption_id, Denial(positive_id, text))
    return found
