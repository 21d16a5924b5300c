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
    """A true caption that denies something, as in the table positives; replacement: what it denies."""

    positive_id: str
    text: str
    replacement: str


Denials = dict[tuple[str, str], Denial]  # by caption_id and the word in whose place something is denied


def true_denials(run: Path) -> Callable[[Shard], Denials] | None:
    """A function from a shard of negatives to the true denials of its captions, the first for each word of a caption.

    A false denial differs from its caption in the word "not" or "without", which says nothing about a reader of images;
    a true denial has such a word as well. None if the run has no true denials: then negatives are compared with their
    captions. Raises ValueError if the table of them is unfinished.
    """
    if not has_table(run, "positives"):
        return None
    shards = {shard.path.name: shard for shard in shards_of(run, "positives")}

    def of_shard(negatives: Shard) -> Denials:
        positives = shards.get(negatives.path.name)
        return {} if positives is None else _first(positives)

    return of_shard if any(map(_first, shards.values())) else None


def _first(positives: Shard) -> Denials:
    import pyarrow.compute as pc

    rows = read_columns(positives, ("positive_id", "caption_id", "operator", "text", "replaced", "replacement"))
    rows = rows.filter(pc.field("operator") == TRUE_NEGATION).to_pydict()
    found: Denials = {}
    columns = (rows[name] for name in ("caption_id", "replaced", "positive_id", "text", "replacement"))
    for caption_id, replaced, *denial in zip(*columns, strict=True):
        found.setdefault((caption_id, replaced), Denial(*denial))
    return found
