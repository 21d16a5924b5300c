"""Pairs of a true caption and its negative, the input of the blind baselines, read from a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...engine.tables import has_table, shards_of
from ...tables.columns import check_splits, kinds_of, read_columns
from ...tables.pairs import Pick, pair_tables

Row = TypeVar("Row")
CORPUS = 1_000_000  # captions that the language model is trained on, at most


class Pair(NamedTuple):
    """A true caption, its negative, and the image_id of both."""

    true: str
    negative: str
    image_id: str


def read_all(
    run: Path,
    table: str = "negatives",
    splits: Sequence[str] = (),
    seed: int = 0,
    pick: Pick = "first",
    limit: int | None = None,
) -> dict[str, list[Pair]]:
    """Pairs by operator, one per caption, from a run's table: of each shard in the order of the caption_ids.

    splits: only rows of these, all if empty. pick: "first" takes the first draw, a fair sample of what the operator
    makes; "random" takes any, which over-represents unlikely negatives, since later draws exclude earlier ones. limit:
    of each operator at most so many pairs, as by `limit_pairs`; then memory does not grow with the run. Raises
    FileNotFoundError if the run has no such table, ValueError for a missing column or a split without rows, and as
    `pair_tables`.
    """
    if splits:
        check_splits(splits, (kind.split for kind in kinds_of(run, table)), run / table)
    made: dict[str, list[Pair]] = {}
    columns = ("operator", "caption_id", "caption", "negative", "image_id")
    for rows in pair_tables(
        run, (), splits, table=table, columns=columns, per_caption=1, pick=pick, seed=seed, purpose="blind"
    ):
        ordered = rows.sort_by([("operator", "ascending"), ("caption_id", "ascending")]).to_pydict()
        for operator, _, *texts in zip(*ordered.values(), strict=True):
            made.setdefault(operator, []).append(Pair(*texts))
        for name, some in made.items():
            if limit is not None and len(some) > 2 * limit:
                made[name] = limit_pairs(some, limit, seed)
    if limit is not None:
        made = {name: limit_pairs(some, limit, seed) for name, some in made.items()}
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
