"""Build the tables negatives, positives and rejections column by column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.negatives import EDITS
from .cache import cached
from .edits import Accepted, Edit, Rejected
from .language.concreteness import Concreteness
from .operators import OPERATORS
from .recovery.recover import FAMILIES_OF

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = ("caption_id", "image_id", "split", "origin")
CHANGES = ("replaced", "replacement", "replaced_synset", "replacement_synset")
NOUNS = 1 << 14  # number of nouns whose concreteness is cached


class Rows:
    """Collects accepted or rejected candidates, in order, for one table."""

    def __init__(self) -> None:
        self._batches: list[tuple[int, str, int]] = []
        self._candidates: list[Accepted | Rejected] = []

    def add(self, row: int, operator: str, candidates: Sequence[Accepted] | Sequence[Rejected]) -> None:
        """Add the results of one operator for the caption in row number `row` of the parses."""
        if candidates:
            self._batches.append((row, operator, len(candidates)))
            self._candidates.extend(candidates)

    def table(self, parses: pa.Table, schema: pa.Schema) -> pa.Table:
        """The collected rows as a table of `schema` (negatives or rejections); the ids of a caption's rows by one
        operator count from 0.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._candidates:
            return schema.empty_table()
        rows, operators, sizes = zip(*self._batches, strict=True)
        batch = np.repeat(np.arange(len(sizes)), sizes)
        source = pa.array(np.repeat(np.array(rows, np.int32), sizes))
        number = np.arange(len(batch)) - (np.cumsum(sizes, dtype=int) - sizes)[batch]
        columns = {name: parses[name].combine_chunks().take(source) for name in KEYS}
        columns["caption"] = parses["text"].combine_chunks().take(source)
        columns["operator"] = _repeated(operators, batch)
        columns["family"] = _repeated([_family(name) for name in operators], batch)
        made = pc.binary_join_element_wise(columns["caption_id"], columns["operator"], "#")
        label = pc.binary_join_element_wise(made, pa.array(number).cast(pa.string()), ":")
        columns |= {"negative_id": label, "positive_id": label}
        candidates, words, likely, plausible, lost, *detail = zip(*self._candidates, strict=True)
        columns |= dict.fromkeys(("text", "reason"), pa.array(words, pa.string()))
        kinds, edits, _, *changes, _, _, _ = zip(*candidates, strict=True)
        columns |= {name: pa.array(column, pa.string()) for name, column in zip(CHANGES, changes, strict=True)}
        columns["p_true"] = pa.array(likely, pa.float32())
        columns["plausibility"] = pa.array(plausible, pa.float32())
        columns["context_loss"] = pa.array(lost, pa.float32())
        if detail:  # of the rejected
            columns["detail"] = pa.array(detail[0], pa.string())
        if "concreteness" in schema.names:
            columns["concreteness"] = pa.array(map(concreteness, kinds, changes[1]), pa.float32())
        texts = parses["text"].to_pylist()
        columns["edits"] = _edits(edits, chain.from_iterable([texts[row]] * size for row, _, size in self._batches))
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def concreteness(change: str, replacement: str) -> float | None:
    """The concreteness of the noun that a candidate puts in, or the lowest of those it moves, by the shipped score.

    change, replacement: of the candidate, see `negcap.augment.edits.Candidate`. None if it puts in no noun, or one
    without a score.
    """
    if change == "noun":
        return _score(replacement)
    if change == "swap":
        scores = [_score(noun) for noun in replacement.split(" | ")]
        known = [score for score in scores if score is not None]
        return min(known) if len(known) == len(scores) else None
    return None


def _family(operator: str) -> str:
    return OPERATORS[operator].family if operator in OPERATORS else FAMILIES_OF[operator]


@cached(NOUNS)
def _score(noun: str) -> float | None:
    return Concreteness.load().score(noun)


def _repeated(words: Sequence[str], at: np.ndarray) -> pa.Array:
    import pyarrow as pa

    return pa.array(words, pa.string()).take(pa.array(at))


def _edits(edits: Sequence[Sequence[Edit]], captions: Iterable[str]) -> pa.Array:
    """The edits of each caption as lists of structs, as in `negcap.schemas.negatives`."""
    import pyarrow as pa

    lengths = list(map(len, edits))
    old = [caption[start:end] for caption, own in zip(captions, edits, strict=True) for start, end, _ in own]
    start, end, new = zip(*chain.from_iterable(edits), strict=True) if old else [()] * 3
    values = [pa.array(v, f.type) for v, f in zip((start, end, old, new), EDITS.value_type, strict=True)]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays(values, fields=list(EDITS.value_type)), type=EDITS
    )
