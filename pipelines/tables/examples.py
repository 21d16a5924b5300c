"""The captions of a run with the negatives that are to be published or scored, image by image.

Multiple choice in NegBench's templates: questions about a noun that the image shows and one that it does not.

The false options are of all three templates ("with a helmet", "without a hat", "with a helmet but no hat"). One of
them, drawn at random, is that of the true option ("with a hat", "without a helmet", "with a hat but no helmet"), so
that neither the words of denial nor the nouns tell which is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random
from typing import NamedTuple

from ...augment.rng import record_rng
from .columns import UNSPLIT, check_file_name, check_operators, check_splits, kinds_of, splits_of
from .pairs import BOTH, DENIED, MEASURES, NEGATION, TRUE_NEGATION, Pick, Row, pair_tables

DIGITS = 4  # decimals of the measures of a negative
COLUMNS = (
    *("caption_id", "image_id", "image", "split", "text", "caption", "positive_id", "negative_id", "negative"),
    *("operator", "family", "draw", "replaced", "replacement", *MEASURES),
)


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

        The negatives of the operator negation are those of the true sentence that they contradict (see `pair_tables`):
        if it is not the caption, an example of its own, with the sentence's positive_id as caption_id. Raises as
        `pair_tables`.
        """
        most, pick, seed = self.draws
        for table in pair_tables(
            self.run,
            self.operators,
            self.splits,
            table=self.table if self.operators else "",
            columns=COLUMNS,
            accepted=self.accepted,
            left_out=self.left_out,
            per_caption=most,
            pick=pick,
            seed=seed,
            every_caption=True,
        ):
            for _, rows in groupby(table.to_pylist(), key=lambda row: row["image_id"]):
                examples = self.prepare([*self._examples(rows)])
                if examples:
                    yield examples

    def _examples(self, rows: Iterator[Row]) -> Iterator[Example]:
        """The examples of an image: each caption, and after it the other true sentences about what it says."""
        place = {name: number for number, name in enumerate(self.operators)}
        by_caption = {key: list(some) for key, some in groupby(rows, key=lambda row: row["caption_id"])}
        captions = [some[0] for some in by_caption.values()]
        for first, some in zip(captions, by_caption.values(), strict=True):
            split, text = first["split"], first["text"]
            same = [other for other in captions if other is not first and other["split"] == split]
            siblings = tuple(Sibling(other["caption_id"], other["text"]) for other in same)
            by_true: dict[tuple[str, str], list[Negative]] = {(first["caption_id"], text): []}
            made = (row for row in some if row["negative_id"] is not None)
            for row in sorted(made, key=lambda row: (place[row["operator"]], row["draw"])):
                true = (row["positive_id"], row["caption"]) if row["positive_id"] else (first["caption_id"], text)
                by_true.setdefault(true, []).append(self._negative(row))
            for (caption_id, true_text), negatives in by_true.items():
                about = first["image_id"], first["image"], split or UNSPLIT
                yield Example(caption_id, *about, true_text, siblings, tuple(negatives))

    def _negative(self, row: Row) -> Negative:
        p_true = self.p_true.get(row["negative_id"], row["p_true"])
        measures = [p_true, *(row[name] for name in MEASURES if name != "p_true")]
        texts = (row[name] for name in ("negative_id", "operator", "family", "negative", "replaced", "replacement"))
        return Negative(*texts, *(None if number is None else round(number, DIGITS) for number in measures))


def source_of(example: Example) -> str:
    """The id of the caption that an example is, or that its sentence was made of."""
    return example.caption_id.partition("#")[0] if is_denial(example) else example.caption_id


def is_denial(example: Example) -> bool:
    """Whether an example is a true sentence that `true_negation` made of a caption."""
    return f"#{TRUE_NEGATION}:" in example.caption_id


def select(
    run: Path,
    splits: Sequence[str] = (),
    operators: Sequence[str] = (),
    draws: Draws = ALL,
    prepare: Prepare = with_negatives,
    table: str = "negatives",
) -> Selection:
    """Select captions and negatives of some splits and operators.

    splits, operators: all if empty. The other arguments are the fields of `Selection`. Raises ValueError for a split
    the run lacks, for an operator without negatives in the splits, for a name that cannot be a file name, and what
    `kinds_of` and `splits_of` raise.
    """
    from ...schemas.negatives import POSITIVE

    there = splits_of(run)
    check_splits(splits, there, run)
    wanted = tuple(dict.fromkeys(splits)) or there
    made: list[str] = []
    if table:
        kinds = [kind for kind in kinds_of(run, table) if (kind.split or UNSPLIT) in wanted]
        for name in {name for kind in kinds for name in (kind.operator, kind.family)}:
            check_file_name("operator or family", name)
        made = sorted({kind.operator for kind in kinds if kind.family != POSITIVE})
        check_operators(operators, made, f"{run / table} ({', '.join(wanted)})")
    for name in wanted:
        check_file_name("split", name)
    return Selection(run, wanted, tuple(dict.fromkeys(operators)) or tuple(made), draws, prepare, table)


OPTIONS = 4
POSITIVE, NEGATIVE, HYBRID = "positive", "negative", "hybrid"


class Question(NamedTuple):
    """An example whose text is the true option, three false ones, and the true one's template.

    The template is that of NegBench: positive, negative (denies something) or hybrid (asserts one thing and denies
    another).
    """

    example: Example
    false: tuple[str, ...]
    template: str


def template(said: str) -> str:
    """NegBench's template of a sentence, from the column `replaced` or `replacement` that says what is in it."""
    return HYBRID if BOTH in said else NEGATIVE if DENIED in said else POSITIVE


def questions(examples: Sequence[Example]) -> Iterator[Question]:
    """The question of each caption of an image that has one about two nouns; `examples` are all of the image."""
    found: dict[str, list[Example]] = {}
    for example in examples:
        found.setdefault(source_of(example), []).append(example)
    for source, own in found.items():
        rng = record_rng(0, "question", source)
        pairs = [*_about_two(own)]
        if pairs:
            yield rng.choice(rng.choice(pairs))


def _about_two(examples: Sequence[Example]) -> Iterator[list[Question]]:
    """For each two nouns of a caption, the questions about them, one for each template of the true option.

    examples: of one caption. All three false sentences, and what they contradict, must be there.
    """
    said: dict[str, tuple[Example, str, str]] = {}  # by what is said: what it contradicts, false text and true template
    for example in examples:
        for one in example.negatives:
            if one.operator == NEGATION:
                said.setdefault(one.replacement, (example, one.text, template(one.replaced)))
    for key in said:
        if template(key) == HYBRID:
            missing, _, there = key.partition(BOTH)
            parts = [said[name] for name in (missing, there, key) if name in said]
            if len(parts) == OPTIONS - 1:
                false = tuple(text for _, text, _ in parts)
                yield [Question(example, false, true) for example, _, true in parts]


def shuffled(question: Question, rng: Random) -> tuple[list[str], int]:
    """The options in random order, and the position of the true one among them, from 0."""
    texts = [question.example.text, *question.false]
    rng.shuffle(texts)
    return texts, texts.index(question.example.text)
