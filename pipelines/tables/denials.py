"""The true sentences of a run that its false ones of the operator `negation` are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.tables import Shard, has_table, shards_of
from .columns import read_columns

Row = dict[str, Any]
NEGATION = "negation"
TRUE_NEGATION = "true_negation"
# In `replaced` and `replacement`: before what is denied, and between what is asserted and what is denied.
DENIED, BOTH = "not ", " | "


class Denial(NamedTuple):
    """A true sentence about a caption's image, as in the table positives; its id is "" if it is the caption itself."""

    positive_id: str
    text: str


Denials = Mapping[tuple[str, str], Denial]  # by caption_id and `replacement`, which is what the sentence says


def beside(denials: Denials, caption_id: str, replaced: str, caption: str) -> Denial | None:
    """The true sentence that a row of `negation` contradicts.

    replaced, caption: of the row. It is the one whose `replacement` is the row's `replaced` ("not dog"); the caption
    itself if nothing is denied there ("hat", contradicted by "not hat"); None if the run lacks it.
    """
    found = denials.get((caption_id, replaced))
    return Denial("", caption) if found is None and DENIED not in replaced else found


def true_denials(run: Path) -> Callable[[Shard], Denials] | None:
    """A function from a shard of negatives to the true sentences about its captions, for `beside`.

    Nobody needs an image to tell a sentence with "without" from the caption that it was made of; beside a true sentence
    about the same two things it has such a word as often as that one. None if the run has no true denials: then
    negatives are compared with their captions. Raises ValueError if the table of them
    is unfinished.
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

    rows = read_columns(positives, ("positive_id", "caption_id", "operator", "text", "replacement"))
    rows = rows.filter(pc.field("operator") == TRUE_NEGATION).to_pydict()
    found: dict[tuple[str, str], Denial] = {}
    columns = (rows[name] for name in ("caption_id", "replacement", "positive_id", "text"))
    for caption_id, said, *denial in zip(*columns, strict=True):
        found.setdefault((caption_id, said), Denial(*denial))
    return found


def with_true(run: Path, rows: Sequence[Row]) -> list[Row]:
    """Rows of negatives whose `caption` is the true sentence that they contradict, for readers; see `beside`.

    rows: with caption_id, operator, caption and replaced. Those without such a sentence are left out. Raises as
    `shards_of`.
    """
    mine = {row["caption_id"] for row in rows if row["operator"] == NEGATION}
    found: dict[tuple[str, str], Denial] = {}
    for shard in shards_of(run, "positives") if mine and has_table(run, "positives") else ():
        found |= {key: denial for key, denial in _first(shard).items() if key[0] in mine}
    if not found:
        return list(rows)
    made = []
    for row in rows:
        if row["operator"] != NEGATION:
            made.append(row)
            continue
        denial = beside(found, row["caption_id"], row["replaced"], row["caption"])
        if denial is not None:
            made.append({**row, "caption": denial.text})
    return made
