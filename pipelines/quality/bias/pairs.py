"""Pairs of a true caption and its negative, the input of the blind baselines, read from a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar, get_args

from ....augment.rng import record_rng
from ...engine.tables import has_table, shards_of
from ...tables.columns import check_splits, read_columns, stored_splits
from ...tables.denials import NEGATION, beside, true_denials
from ...tables.examples import Pick

Row = TypeVar("Row")
CORPUS = 1_000_000  # captions that the language model is trained on, at most
COLUMNS = ("negative_id", "operator", "family", "caption", "text", "image_id", "split")


class Pair(NamedTuple):
    """A true caption, its negative, and the image_id of both."""

    true: str
    negative: str
    image_id: str


def one_per_caption(rows: Iterable[tuple[str, Pair]], seed: int = 0, pick: Pick = "first") -> list[Pair]:
    """One pair per caption and operator, chosen from (negative_id, pair) rows; in the order of the ids.

    pick: "first" takes the first draw (`…#noun:0`, or the lowest number there is), a fair sample of what the operator
    makes; "random" takes any, which over-represents unlikely negatives, since later draws exclude earlier ones. The
    choice depends only on the seed and the ids of the caption's own negatives. Raises ValueError for another pick.
    """
    if pick not in get_args(Pick):
        raise ValueError(f"pick must be one of {', '.join(get_args(Pick))}, was: {pick}")
    by_caption: dict[str, list[tuple[int, Pair]]] = {}
    for negative_id, pair in rows:
        key, _, draw = negative_id.rpartition(":")
        by_caption.setdefault(key, []).append((int(draw), pair))
    chosen = []
    for key in sorted(by_caption):
        drawn = sorted(by_caption[key])
        chosen.append((drawn[0] if pick == "first" else record_rng(seed, "blind", key).choice(drawn))[1])
    return chosen


def read_all(
    run: Path,
    table: str = "negatives",
    splits: Sequence[str] = (),
    seed: int = 0,
    pick: Pick = "first",
    limit: int | None = None,
) -> dict[str, list[Pair]]:
    """Pairs by operator, one per caption (see `one_per_caption`), from a run's table in shard order.

    splits: only rows of these, all if empty. limit: of each operator at most so many pairs, as by `limit_pairs`; then
    memory does not grow with the run. Paraphrases, which are true, are left out. If the run has true denials (see
    `negcap.pipelines.tables.denials`), a negative of the operator negation is paired with the true sentence that it
    contradicts, and left out if there is none. Raises FileNotFoundError if the run has no such table, ValueError for a
    missing column or a split without rows.
    """
    from ....schemas.negatives import POSITIVE  # imports pyarrow

    made: dict[str, list[Pair]] = {}
    seen: set[str] = set()
    wanted = stored_splits(splits)
    denials = true_denials(run)
    for shard in shards_of(run, table):
        rows = read_columns(shard, (*COLUMNS, "replaced"))
        denied = None if denials is None else denials(shard)
        seen.update(rows["split"].unique().to_pylist())
        columns = rows.to_pydict()
        by_operator: dict[str, list[tuple[str, Pair]]] = {}
        for negative_id, operator, family, true, text, image, split, replaced in zip(
            *(columns[name] for name in (*COLUMNS, "replaced")), strict=True
        ):
            if family == POSITIVE or (wanted and split not in wanted):
                continue
            if operator == NEGATION and denied is not None:
                denial = beside(denied, negative_id.rpartition("#")[0], replaced, true)
                if denial is None:
                    continue
                true = denial.text
            by_operator.setdefault(operator, []).append((negative_id, Pair(true, text, image)))
        for operator, some in by_operator.items():
            found = made.setdefault(operator, [])
            found += one_per_caption(some, seed, pick)
            if limit is not None and len(found) > 2 * limit:
                made[operator] = limit_pairs(found, limit, seed)
    check_splits(splits, seen, run / table)
    if limit is not None:
        made = {operator: limit_pairs(some, limit, seed) for operator, some in made.items()}
    return {operator: made[operator] for operator in sorted(made)}


def read_corpus(run: Path, shards: slice = slice(None), limit: int = CORPUS) -> list[tuple[str, str]]:
    """(text, image_id) of all English captions of a run, or of some shards; empty if it has no captions table.

    limit: at most so many captions, those of random images.
    """
    if not has_table(run, "captions"):
        return []
    corpus: list[tuple[str, str]] = []
    for shard in shards_of(run, "captions")[shards]:
        columns = read_columns(shard, ("text", "image_id", "language")).to_pydict()
        triples = zip(columns["text"], columns["image_id"], columns["language"], strict=True)
        corpus += [(text, image) for text, image, language in triples if language == "en"]
        if len(corpus) > 2 * limit:
            corpus = of_random_images(corpus, [image for _, image in corpus], limit, 0)
    return of_random_images(corpus, [image for _, image in corpus], limit, 0)


def limit_pairs(pairs: Sequence[Pair], limit: int, seed: int = 0) -> list[Pair]:
    """All pairs if there are at most `limit`; else those of random images, as many as stay within `limit` pairs.

    Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be >= 1, was: {limit}")
    return of_random_images(pairs, [pair.image_id for pair in pairs], limit, seed)


def of_random_images(rows: Sequence[Row], images: Sequence[str], limit: int, seed: int) -> list[Row]:
    """All rows if there are at most `limit`; else those of random images, as many as stay within `limit` rows.

    images: the image_id of each row. The order in which images are taken depends on the seed and their ids only, so
    that rows may be left out as soon as there are too many, before all have been read.
    """
    if len(rows) <= limit:
        return list(rows)
    kept, total = set(), 0
    for image, size in sorted(Counter(images).items(), key=lambda item: (_order(seed, item[0]), item[0])):
        total += size
        if total > limit:
            break
        kept.add(image)
    return [row for row, image in zip(rows, images, strict=True) if image in kept]


def _order(seed: int, image: str) -> bytes:
    return blake2b(f"{seed}:{image}".encode(), digest_size=8).digest()
