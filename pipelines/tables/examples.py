"""The rows of a run to publish or to score models on: captions of some splits with some negatives, image by image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...augment.rng import record_rng
from ..engine.tables import Shard, shards_of
from .columns import UNSPLIT, check_file_name, check_splits, operators_of, read_columns, splits_of, stored_splits
from .denials import NEGATION, TRUE_NEGATION, Denials, beside, true_denials

Pick = Literal["first", "random"]  # of the negatives of a caption: the first drawn, or a random one
CAPTIONS = ("caption_id", "image_id", "image", "split", "language", "text")
NEGATIVES = ("negative_id", "caption_id", "split", "family", "operator", "text", "replaced", "replacement")
MEASURES = ("p_true", "plausibility", "context_loss", "concreteness")  # of a negative
DIGITS = 4  # decimals of these


class Negative(NamedTuple):
    """A negative of a caption, with the columns of these names in the table negatives.

    p_true, plausibility, context_loss, concreteness: rounded to DIGITS decimals; None if they are null there.
    """

    negative_id: str
    operator: str
    family: str
    text: str
    replaced: str
    replacement: str
    p_true: float | None = None
    plausibility: float | None = None
    context_loss: float | None = None
    concreteness: float | None = None


class Sibling(NamedTuple):
    """Another caption of the same image and split."""

    caption_id: str
    text: str


class Example(NamedTuple):
    """A caption, the other captions of its image, and its published negatives.

    `image` is the path of its image, as found in the image folder if there is one, else as the source gives it.
    """

    caption_id: str
    image_id: str
    image: str
    split: str
    text: str
    siblings: tuple[Sibling, ...]
    negatives: tuple[Negative, ...]


def other_wordings(example: Example) -> list[str]:
    """The other captions of an example's image whose text differs from its own (ignoring case)."""
    return [text for _, text in example.siblings if text.casefold() != example.text.casefold()]


Prepare = Callable[[list[Example]], list[Example]]


def with_negatives(examples: list[Example]) -> list[Example]:
    """Those examples (captions of one image) that have negatives."""
    return [example for example in examples if example.negatives]


def all_captions(examples: list[Example]) -> list[Example]:
    """The same examples (captions of one image), also those without negatives."""
    return examples


class Draws(NamedTuple):
    """Which negatives of each caption and operator: at most `per_caption` (None: all).

    pick: the first ones drawn ("first") or a random choice with `seed` ("random").
    """

    per_caption: int | None = None
    pick: Pick = "first"
    seed: int = 0


ALL = Draws()


@dataclass(frozen=True)
class Selection:
    """Captions of a run and the negatives of each that are to be published or scored.

    run: its folder. splits, operators: of which. draws: which negatives of each caption and operator. prepare: keeps
    those captions of an image that a format can hold. table: "negatives", "refined", or "" for captions without
    negatives. left_out: caption_ids to leave out. accepted: the only negative_ids to take, None for all. p_true: by
    negative_id, instead of the estimate in the table.
    """

    run: Path
    splits: tuple[str, ...]
    operators: tuple[str, ...]
    draws: Draws = ALL
    prepare: Prepare = with_negatives
    table: str = "negatives"
    left_out: frozenset[str] = field(default=frozenset(), repr=False)
    accepted: frozenset[str] | None = field(default=None, repr=False)
    p_true: Mapping[str, float] = field(default_factory=dict, repr=False)

    def images(self) -> Iterator[list[Example]]:
        """Yield the examples of each image, in the order of the run.

        If the run has true denials, the negatives of the operator negation are those of the true sentence that they
        contradict: if it is not the caption, an example of its own, with the sentence's positive_id as caption_id.
        Raises ValueError for a shard without a required column or for a negative whose caption is missing,
        DamagedShardError for a shard that is not as recorded.
        """
        denials = true_denials(self.run) if NEGATION in self.operators else None
        negatives = {shard.path.name: shard for shard in shards_of(self.run, self.table)} if self.operators else {}
        for shard in shards_of(self.run, "captions"):
            denied = None if denials is None else denials(shard)
            found = self._negatives(negatives.pop(shard.path.name, None))
            rows = read_columns(shard, CAPTIONS).to_pylist()
            missing = found.keys() - {row["caption_id"] for row in rows}
            if missing:
                raise ValueError(f"{self.table}/{shard.path.name} has {min(missing)}, which {shard.name} lacks")
            for _, group in groupby(rows, key=lambda row: row["image_id"]):
                examples = self._examples(list(group), found)
                if denied is not None:
                    examples = [part for example in examples for part in _with_denial(example, denied)]
                examples = self.prepare(examples)
                if examples:
                    yield examples
        for name in negatives:
            raise ValueError(f"{self.table}/{name} has no captions/{name} beside it: build the run again")

    def _examples(self, rows: Sequence[Mapping[str, Any]], found: Mapping[str, list[Negative]]) -> list[Example]:
        from ...schemas.captions import LANGUAGE  # imports pyarrow

        kept = [
            {**row, "split": row["split"] or UNSPLIT}
            for row in rows
            if (row["split"] or UNSPLIT) in self.splits
            and row["language"] == LANGUAGE
            and row["caption_id"] not in self.left_out
        ]
        return [
            Example(
                row["caption_id"],
                row["image_id"],
                row["image"],
                row["split"],
                row["text"],
                tuple(
                    Sibling(other["caption_id"], other["text"])
                    for other in kept
                    if other is not row and other["split"] == row["split"]
                ),
                tuple(found.get(row["caption_id"], ())),
            )
            for row in kept
        ]

    def _negatives(self, shard: Shard | None) -> dict[str, list[Negative]]:
        """A shard's chosen negatives by caption_id, in the order of `operators`, then of their draw."""
        if shard is None:
            return {}
        rows = read_columns(shard, (*NEGATIVES, *MEASURES)).filter(self._wanted()).to_pydict()
        drawn: dict[str, dict[str, list[tuple[int, Negative]]]] = {}
        columns = [rows[name] for name in ("negative_id", "operator", "family", "text", "replaced", "replacement")]
        columns += [[None if n is None else round(n, DIGITS) for n in rows[name]] for name in MEASURES]
        for caption_id, *values in zip(rows["caption_id"], *columns, strict=True):
            negative = Negative(*values)
            if self.accepted is not None and negative.negative_id not in self.accepted:
                continue
            if negative.negative_id in self.p_true:
                negative = negative._replace(p_true=round(self.p_true[negative.negative_id], DIGITS))
            by_operator = drawn.setdefault(caption_id, {})
            by_operator.setdefault(negative.operator, []).append((_draw(negative.negative_id), negative))
        return {
            caption_id: [
                negative
                for name in self.operators
                for negative in self._choose(f"{caption_id}#{name}", by_operator.get(name, []))
            ]
            for caption_id, by_operator in drawn.items()
        }

    def _choose(self, key: str, drawn: list[tuple[int, Negative]]) -> list[Negative]:
        most, pick, seed = self.draws
        drawn = sorted(drawn)
        if most is not None and len(drawn) > most:
            drawn = drawn[:most] if pick == "first" else sorted(record_rng(seed, "publish", key).sample(drawn, most))
        return [negative for _, negative in drawn]

    def _wanted(self) -> Any:
        import pyarrow.compute as pc

        from ...schemas.negatives import POSITIVE

        wanted = pc.field("split").isin(stored_splits(self.splits)) & pc.field("operator").isin(self.operators)
        return wanted & (pc.field("family") != POSITIVE)


def _with_denial(example: Example, denied: Denials) -> Iterator[Example]:
    """An example without the negatives of other true sentences; and each of these as an example that has them."""
    own, others = [], dict[tuple[str, str], list[Negative]]()
    for negative in example.negatives:
        denial = beside(denied, example.caption_id, negative.replaced, example.text)
        if negative.operator != NEGATION or (denial is not None and not denial.positive_id):
            own.append(negative)
        elif denial is not None:
            others.setdefault(denial, []).append(negative)
    yield example._replace(negatives=tuple(own))
    for (positive_id, text), negatives in others.items():
        yield example._replace(caption_id=positive_id, text=text, negatives=tuple(negatives))


def source_of(example: Example) -> str:
    """The id of the caption that an example is, or that its sentence was made of."""
    return example.caption_id.partition("#")[0] if is_denial(example) else example.caption_id


def is_denial(example: Example) -> bool:
    """Whether an example is a true sentence that `true_negation` made of a caption."""
    return f"#{TRUE_NEGATION}:" in example.caption_id


def _draw(negative_id: str) -> int:
    number = negative_id.rpartition(":")[2]
    if not number.isdigit():
        raise ValueError(f"negative_id must end with :<k>, was: {negative_id}")
    return int(number)


def select(
    run: Path,
    splits: Sequence[str] = (),
    operators: Sequence[str] = (),
    draws: Draws = ALL,
    prepare: Prepare = with_negatives,
    table: str = "negatives",
) -> Selection:
    """Select captions and negatives of some splits and operators.

    splits, operators: all if empty, except operators that make true captions (paraphrases). The other arguments are
    the fields of `Selection`. Raises ValueError for a split the run lacks or whose name cannot be a file name, for an
    operator that makes true captions or has no rows in the splits, and what `operators_of` and `splits_of` raise.
    """
    from ...schemas.negatives import POSITIVE

    there = splits_of(run)
    check_splits(splits, there, run)
    wanted = tuple(dict.fromkeys(splits)) or there
    made: dict[str, str] = {}
    if table:
        families = operators_of(run, wanted, table)
        made = {name: family for name, family in families.items() if family != POSITIVE}
        for name in operators:
            if families.get(name) == POSITIVE:
                raise ValueError(f"operator {name} makes true captions, which are not published as negatives")
            if name not in made:
                raise ValueError(
                    f"operator {name} has no negatives in {run} ({', '.join(wanted)}), "
                    f"must be one of: {', '.join(made) or 'none'}"
                )
        made = {name: made[name] for name in dict.fromkeys(operators)} if operators else made
    for name in wanted:
        check_file_name("split", name)
    return Selection(run, wanted, tuple(made), draws, prepare, table)
