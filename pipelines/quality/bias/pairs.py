"""Pairs of a true caption and its negative, read from a run; rules that need no training; accuracies with intervals."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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


Z = 1.96


@dataclass(frozen=True)
class Accuracy:
    """The percentage of pairs that are right (ties count half), and the bounds of its 95 % Wilson interval in %."""

    percent: float
    low: float
    high: float
    pairs: int


def with_interval(share: Accuracy | None) -> str:
    """A share and its interval for a table, in %: "62.5 (44.1–78.0)"; a dash for None."""
    return "–" if share is None else f"{share.percent:.1f} ({max(share.low, 0.0):.1f}–{min(share.high, 100.0):.1f})"


def accuracy(right: float, pairs: int, effect: float = 1.0) -> Accuracy:
    """An accuracy with its Wilson interval, from the number of right pairs and of all pairs.

    effect: the design effect; the interval is that of pairs / effect independent pairs. Raises ValueError for no pairs
    or an effect below 1.
    """
    if pairs < 1:
        raise ValueError(f"pairs must be >= 1, was: {pairs}")
    if effect < 1:
        raise ValueError(f"effect must be >= 1, was: {effect}")
    n, share = pairs / effect, right / pairs
    centre = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
    return Accuracy(100 * share, 100 * (centre - half), 100 * (centre + half), pairs)


def by_image(right: Iterable[float], images: Iterable[str]) -> Accuracy:
    """The accuracy of pairs (1 right, 0.5 tie, 0 wrong), with the design effect of several pairs per image.

    images: the image_id of each pair. The effect is the variance of the share with images as clusters, divided by the
    variance for as many independent pairs (Kish 1965), at least 1; if all pairs have the same value, it is the mean
    number of pairs per image. Raises ValueError for no pairs.
    """
    sums: dict[str, float] = defaultdict(float)
    sizes: dict[str, int] = defaultdict(int)
    for value, image in zip(right, images, strict=True):
        sums[image] += value
        sizes[image] += 1
    pairs, clusters, total = sum(sizes.values()), len(sizes), sum(sums.values())
    if not pairs:
        return accuracy(0, 0)
    share = total / pairs
    plain = share * (1 - share) / pairs
    effect = pairs / clusters
    if plain > 0 and clusters > 1:
        spread = sum((sums[image] - share * size) ** 2 for image, size in sizes.items())
        effect = spread * clusters / (clusters - 1) / pairs**2 / plain
    return accuracy(total, pairs, max(effect, 1.0))


SPACED = re.compile(r"\s[.,;:!?]")
LOWER_I = re.compile(r"(?<![\w.'’-])i(?:['’](?:m|ve|ll|d))?(?![\w.'’-])")


def format_faults(text: str) -> int:
    """Count the formatting errors that careless scripts leave in a text.

    1 each, however often they occur: a lower-case start, a lower-case "i", a double space, a space before punctuation,
    no final punctuation, `<unk>`. 1 per occurrence: a wrong a/an, a doubled word.
    """
    from ....augment.language.grammar import article

    words = text.lower().split()
    faults = text[:1].islower() + ("  " in text) + bool(SPACED.search(text)) + ("<unk>" in text.lower())
    faults += bool(LOWER_I.search(text))
    faults += not text.rstrip().endswith((".", "!", "?", '"'))
    for word, following in zip(words, words[1:], strict=False):
        faults += word == following and word.isalpha()
        faults += word in ("a", "an") and following[:1].isalnum() and article(following) != word
    return faults


def format_rule(pairs: Iterable[Pair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer formatting errors is true; a tie counts half."""
    return _fewer(pairs, format_faults)


def shorter(pairs: Iterable[Pair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer characters is true; a tie counts half."""
    return _fewer(pairs, len)


def _fewer(pairs: Iterable[Pair], measure: Callable[[str], int]) -> Accuracy:
    right, images = [], []
    for pair in pairs:
        true, negative = measure(pair.true), measure(pair.negative)
        right.append(0.5 if true == negative else float(true < negative))
        images.append(pair.image_id)
    return by_image(right, images)
