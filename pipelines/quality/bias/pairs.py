"""Pairs of a true caption and its negative, which the blind baselines tell apart, read from a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, get_args

from negcap.augment.rng import record_rng
from negcap.pipelines.tables.columns import columns_of

Pick = Literal["first", "random"]
COLUMNS = ("negative_id", "operator", "family", "caption", "text", "image_id", "split")


class Pair(NamedTuple):
    """A true caption, its negative, and the image both belong to."""

    true: str
    negative: str
    image_id: str


def one_per_caption(rows: Iterable[tuple[str, Pair]], seed: int = 0, pick: Pick = "first") -> list[Pair]:
    """One negative a caption and operator from (negative_id, pair) rows, in the order of their ids.

    "first" is the first draw (`…#noun:0`; the lowest there is), a fair sample of what the operator makes; "random" any
    of those kept, among which the unlikely are over-represented, since later draws exclude the earlier. The choice
    depends on the seed and the caption's own ids, never on other captions. Raises ValueError for another pick.
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
    run: Path, table: str = "negatives", splits: Sequence[str] = (), seed: int = 0, pick: Pick = "first"
) -> dict[str, list[Pair]]:
    """One pair a caption of each operator of a run's table, shard by shard; of these splits only, if any are named.

    Paraphrases, which are true, are left out. Raises FileNotFoundError without the table, ValueError naming a column
    that it lacks or a split that it has no rows of.
    """
    from negcap.schemas.negatives import POSITIVE  # imports pyarrow

    made: dict[str, list[Pair]] = {}
    seen: set[str] = set()
    for rows in columns_of(run, table, COLUMNS):
        seen.update(rows["split"].unique().to_pylist())
        columns = rows.to_pydict()
        by_operator: dict[str, list[tuple[str, Pair]]] = {}
        for negative_id, operator, family, *pair, split in zip(*(columns[name] for name in COLUMNS), strict=True):
            if family != POSITIVE and (not splits or split in splits):
                by_operator.setdefault(operator, []).append((negative_id, Pair(*pair)))
        for operator, some in by_operator.items():
            made.setdefault(operator, []).extend(one_per_caption(some, seed, pick))
    for split in splits:
        if split not in seen:
            known = ", ".join(repr(name) for name in sorted(seen))
            raise ValueError(f"split must be one of {known} in {run / table}, was: {split!r}")
    return {operator: made[operator] for operator in sorted(made)}


def read_corpus(run: Path) -> list[tuple[str, str]]:
    """(text, image_id) of all English captions of a run, for a language model; none where there is no table."""
    if not (run / "captions").is_dir():
        return []
    corpus: list[tuple[str, str]] = []
    for rows in columns_of(run, "captions", ("text", "image_id", "language")):
        columns = rows.to_pydict()
        triples = zip(columns["text"], columns["image_id"], columns["language"], strict=True)
        corpus += [(text, image) for text, image, language in triples if language == "en"]
    return corpus


def some_images(pairs: Sequence[Pair], limit: int, seed: int = 0) -> list[Pair]:
    """The pairs of as many random images as give at most `limit` pairs; all, where that is enough.

    Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be >= 1, was: {limit}")
    if len(pairs) <= limit:
        return list(pairs)
    sizes = Counter(pair.image_id for pair in pairs)
    images = sorted(sizes)
    Random(seed).shuffle(images)
    kept, total = set(), 0
    for image in images:
        total += sizes[image]
        if total > limit:
            break
        kept.add(image)
    return [pair for pair in pairs if pair.image_id in kept]
