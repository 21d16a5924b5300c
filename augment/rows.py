"""The rows of the tables negatives, positives and rejections: what is changed in a caption, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..schemas.negatives import EDITS
from .caption import cached
from .edits import Edit, apply_edits
from .language.concreteness import Concreteness
from .language.grammar import NUMBERS
from .slots.sides import OPPOSITE

if TYPE_CHECKING:
    import pyarrow as pa

# What a row changes in its caption. It selects the check of truth, and is told to the raters' model in this order.
Change = Literal[
    "noun", "numeral", "preposition", "swap", "attribute", "attribute_swap", "verb", "negated_noun", "negated_verb",
    "none",
]  # fmt: skip
NO = "not "  # precedes a noun that is negated, in `replaced` and `replacement` of a row
BOTH = " | "  # between two words: one asserted and one negated ("hat | not dog"), or two that change places
# Reasons of rejections that several modules give; all are in negcap.schemas.negatives.REASONS.
UNNATURAL = "unnatural"
COMPATIBLE = "compatible"
LIKELY_TRUE = "likely_true"
NO_CANDIDATE = "no_candidate"
OPERATOR_ERROR = "operator_error"
TOO_LONG = "too_long"
SAID_AGAIN = "said_again"

KEYS = ("caption_id", "image_id", "split", "origin")  # columns that all rows of a caption share
NOUNS = 1 << 14  # number of replacements whose concreteness is cached


@dataclass(slots=True)
class Row:
    """A negative of one caption (or a positive), proposed, accepted or rejected.

    An operator fills in what is changed; the checks fill in the text, the estimates, and the reason of a rejection.

    change: the kind of change.
    edits: disjoint, in text order.
    tokens: the token indices that the check of truth reads: a head; a counted noun; a preposition and its object; two
        swapped heads; an attribute and its noun.
    replaced, replacement: entries of the lexicon: what the caption says, and what the negative says in its place.
        For a swap "a | b" and "b | a". For a negation, what is true and what is said: "hat" (there is a hat), "not dog"
        (there is no dog), or both, "hat | not dog". `replaced` is "" if a word is added.
    replaced_synset, replacement_synset: WordNet names ("dog.n.01"); None if there is none.
    absent: of a negation, the noun or verb that it takes to be false of the image.
    asserts_denied: whether it asserts what its caption denies: "a man without a hat" -> "a man with a hat".
    text: the negative; "" until the edits are applied.
    p_true: the estimated probability that one more caption of the image would make it true; None if not estimated.
    plausibility: the log-odds of the negative to its caption in nats (see negcap.augment.plausibility).
    p_unnatural, p_compatible: the estimated probabilities that raters call it unnatural, and that they say that it and
        its caption may be true of one photo (see negcap.augment.raters); None if not estimated.
    reason: why it is rejected; None if it is not.
    detail: the word of a caption that decided, or the limit that it exceeds; for a caption that is rejected whole, the
        rule that it breaks, or which operator failed and how.
    sibling_id: the caption_id of the first other caption of the image that decided, if one did.
    """

    change: Change
    edits: tuple[Edit, ...]
    tokens: tuple[int, ...]
    replaced: str
    replacement: str
    replaced_synset: str | None = None
    replacement_synset: str | None = None
    absent: str | None = None
    asserts_denied: bool = False
    text: str = ""
    p_true: float | None = None
    plausibility: float | None = None
    p_unnatural: float | None = None
    p_compatible: float | None = None
    reason: str | None = None
    detail: str | None = None
    sibling_id: str | None = None

    @property
    def swaps_numbers(self) -> bool:
        """Whether two numbers change places, not two phrases: "two boys next to a dog"."""
        words = self.replaced.split(BOTH)
        return self.change == "swap" and all(word == "a" or word in NUMBERS or word.isdigit() for word in words)

    @property
    def moves_side(self) -> bool:
        """Whether it puts a thing on another side: "a barn on the left", "on the right"."""
        return self.change == "preposition" and self.replaced.partition(BOTH)[0] in OPPOSITE

    @property
    def assertion(self) -> Row | None:
        """The row that asserts the noun or verb that a negation denies; None if it denies none."""
        if self.absent is None:
            return None
        change: Change = "verb" if self.change == "negated_verb" else "noun"
        present = self.replaced.partition(BOTH)[0]  # "hat | not dog" -> "hat"
        return replace(self, change=change, replaced=present, replacement=self.absent)

    @property
    def negates_caption(self) -> bool:
        """Whether it negates what its caption says, and nothing else: "hat" -> "not hat"."""
        return self.replacement == NO + self.replaced


def reject_whole_caption(reason: str, detail: str | None = None) -> Row:
    """The rejection that stands for all that an operator could have made of a caption."""
    return Row(change="none", edits=(), tokens=(), replaced="", replacement="", reason=reason, detail=detail)


def exchange_row(change: Change, edits: tuple[Edit, ...], tokens: tuple[int, ...], left: str, right: str) -> Row:
    """The row of two words, or phrases, that change places: it has "cat | dog" replaced by "dog | cat".

    change, edits, tokens: as those of `Row`. left, right: the two, in the order in which the caption has them.
    """
    return Row(change=change, edits=edits, tokens=tokens, replaced=left + BOTH + right, replacement=right + BOTH + left)


class OperatorResult(NamedTuple):
    """What one operator made of one caption: accepted rows (positives for a paraphrase) and rejected ones."""

    accepted: list[Row]
    rejected: list[Row]


class RowCollector:
    """Collects accepted or rejected rows, in order, and makes one table of them."""

    def __init__(self, family_of: Callable[[str], str]) -> None:
        """`family_of`: the family of an operator."""
        self._family_of = family_of
        # For each row: its caption's row in the parses, its operator, and its number among those of both.
        self._captions: list[int] = []
        self._operators: list[str] = []
        self._numbers: list[int] = []
        self._rows: list[Row] = []

    def add(self, caption: int, operator: str, rows: Sequence[Row]) -> None:
        """Add the rows of one operator for the caption in row number `caption` of the parses."""
        self._captions += [caption] * len(rows)
        self._operators += [operator] * len(rows)
        self._numbers += range(len(rows))
        self._rows += rows

    def table(self, parses: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows as a table of `schema` (negatives, positives or rejections)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._rows:
            return schema.empty_table()
        # The columns of captions are taken from the parses by Arrow, without a Python object for each row.
        captions = pa.array(self._captions, pa.int32())
        columns = {name: parses[name].combine_chunks().take(captions) for name in (*KEYS, "text")}
        columns["caption"] = columns["text"]
        columns["operator"] = pa.array(self._operators, pa.string())
        columns["family"] = pa.array([self._family_of(name) for name in self._operators], pa.string())
        # The id of a row: "CAPTION_ID#OPERATOR:NUMBER". Each schema has one of the two columns for it.
        made_by = pc.binary_join_element_wise(columns["caption_id"], columns["operator"], "#")
        row_id = pc.binary_join_element_wise(made_by, pa.array(self._numbers).cast(pa.string()), ":")
        columns |= {"negative_id": row_id, "positive_id": row_id}
        columns["draw"] = pa.array(self._numbers, pa.int32())
        texts = columns["caption"].to_pylist()
        # Fields of `Row` stand in columns of their own name, except two that need the text of the caption.
        fields_as_columns = {*Row.__slots__} - {"edits", "text"}
        for name in fields_as_columns.intersection(schema.names):
            columns[name] = pa.array([getattr(row, name) for row in self._rows], schema.field(name).type)
        columns["text"] = pa.array(
            [_text_after_edits(row, caption) for row, caption in zip(self._rows, texts, strict=True)]
        )
        columns["edits"] = pa.array(
            [
                [(start, end, caption[start:end], new) for start, end, new in row.edits]
                for row, caption in zip(self._rows, texts, strict=True)
            ],
            EDITS,
        )
        if "concreteness" in schema.names:
            scores = [concreteness_of_change(row.change, row.replacement) for row in self._rows]
            columns["concreteness"] = pa.array(scores, pa.float32())
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _text_after_edits(row: Row, caption: str) -> str:
    """The row's text, also of one that was rejected before it was made; "" if nothing is edited."""
    if row.text or not row.edits:
        return row.text
    return apply_edits(caption, row.edits)


@cached(NOUNS)
def concreteness_of_change(change: str, replacement: str) -> float | None:
    """The concreteness of the noun that a row inserts, or the lowest of those it moves, by the shipped score.

    change, replacement: of the row. None if it inserts no noun, or one without a score.
    """
    if change not in ("noun", "swap"):
        return None
    # A noun that is inserted stands alone, two that change places as "cat | dog".
    scores = [Concreteness.load().score(noun) for noun in replacement.split(BOTH)]
    known = [score for score in scores if score is not None]
    return min(known) if len(known) == len(scores) else None
