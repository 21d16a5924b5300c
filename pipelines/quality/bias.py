"""Blind baselines: how often a model that never sees the image tells a true caption from its negative.

50 % is perfect. Three baselines on (true, negative) pairs: a format rule, "the shorter is true", and a logistic
regression on n-gram differences, cross-validated by image. Needs the `quality` extra for the last.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from augment.rng import record_rng

NGRAMS = (1, 3)
FOLDS = 5
PENALTY = 1.0
MIN_PAIRS = 2
CUES = 15
SPACED = re.compile(r"\s[.,;:!?]")
LOWER_I = re.compile(r"(?<![\w.'’-])i(?:['’](?:m|ve|ll|d))?(?![\w.'’-])")
WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
Pick = Literal["first", "random"]


class Pair(NamedTuple):
    """A true caption, its negative, and the image both belong to."""

    true: str
    negative: str
    image_id: str


@dataclass(frozen=True)
class Accuracy:
    """Share of pairs told rightly, in %, with its 95 % Wilson interval; ties count half."""

    percent: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True)
class BlindReport:
    """The baselines on some pairs. Cues are (n-gram, weight): positive weights tell the true caption."""

    name: str
    format_rule: Accuracy
    shorter: Accuracy
    ngrams: Accuracy
    true_cues: tuple[tuple[str, float], ...]
    false_cues: tuple[tuple[str, float], ...]


def accuracy(right: float, pairs: int) -> Accuracy:
    """An accuracy with its Wilson interval. Raises ValueError without pairs."""
    if pairs < 1:
        raise ValueError(f"pairs must be >= 1, was: {pairs}")
    z, share = 1.96, right / pairs
    centre = (share + z * z / (2 * pairs)) / (1 + z * z / pairs)
    half = z * math.sqrt(share * (1 - share) / pairs + z * z / (4 * pairs * pairs)) / (1 + z * z / pairs)
    return Accuracy(100 * share, 100 * (centre - half), 100 * (centre + half), pairs)


def format_faults(text: str) -> int:
    """Faults of form that a careless script leaves in a text, counted.

    A lower-cased start or "i", a double space, a space before punctuation, no full stop, `<unk>`: 1 each, however
    often; each wrong a/an and each doubled word: 1.
    """
    from augment.language.grammar import article

    words = text.lower().split()
    faults = text[:1].islower() + ("  " in text) + bool(SPACED.search(text)) + ("<unk>" in text.lower())
    faults += bool(LOWER_I.search(text))
    faults += not text.rstrip().endswith((".", "!", "?", '"'))
    for word, following in zip(words, words[1:], strict=False):
        faults += word == following and word.isalpha()
        faults += word in ("a", "an") and following[:1].isalnum() and article(following) != word
    return faults


def format_rule(pairs: Iterable[Pair]) -> Accuracy:
    """Take the text with fewer faults of form for the true one."""
    return _fewer(pairs, format_faults)


def shorter(pairs: Iterable[Pair]) -> Accuracy:
    """Take the text of fewer characters for the true one."""
    return _fewer(pairs, len)


def _fewer(pairs: Iterable[Pair], measure: Callable[[str], int]) -> Accuracy:
    right, total = 0.0, 0
    for pair in pairs:
        true, negative = measure(pair.true), measure(pair.negative)
        right += 0.5 if true == negative else float(true < negative)
        total += 1
    return accuracy(right, total)


def grams(text: str) -> list[str]:
    """The lower-cased word n-grams of a text (1 to 3 words) with its bounds: "a dog" -> "<s>", "a", "<s> a" …"""
    words = ["<s>", *WORD.findall(text.lower()), "</s>"]
    low, high = NGRAMS
    return [" ".join(words[i : i + n]) for n in range(low, high + 1) for i in range(len(words) - n + 1)]


def ngram_regression(
    pairs: Sequence[Pair], seed: int = 0
) -> tuple[Accuracy, list[tuple[str, float]], list[tuple[str, float]]]:
    """Logistic regression on n-gram differences of pairs, 5-fold with an image's pairs in one fold.

    A row is f(true) - f(negative), f the set of a text's n-grams, negated for a random half: the label says which.
    Returns the accuracy on held-out folds and the strongest cues of the true and of the false side, by a fit on all.
    Raises ValueError with fewer images than folds, ImportError naming the extra to install.
    """
    try:
        import numpy as np
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GroupKFold
    except ImportError as error:
        raise ImportError("the n-gram baseline needs scikit-learn: pip install negcap[quality]") from error

    images = sorted({pair.image_id for pair in pairs})
    if len(images) < FOLDS:
        raise ValueError(f"images must be >= {FOLDS} for {FOLDS} folds, were: {len(images)}")
    number: dict[str, int] = {}
    seen: Counter[int] = Counter()
    columns, values, bounds = [], [], [0]
    for pair in pairs:
        true, negative = set(grams(pair.true)), set(grams(pair.negative))
        for gram, value in sorted([*((g, 1.0) for g in true - negative), *((g, -1.0) for g in negative - true)]):
            column = number.setdefault(gram, len(number))
            seen[column] += 1
            columns.append(column)
            values.append(value)
        bounds.append(len(columns))
    matrix = csr_matrix((values, columns, bounds), shape=(len(pairs), len(number)))
    kept = np.array([column for column in range(len(number)) if seen[column] >= MIN_PAIRS], int)
    names = np.array(list(number))[kept] if len(kept) else np.array([], str)
    matrix = matrix[:, kept]
    if matrix.nnz == 0:
        return accuracy(len(pairs) / 2, len(pairs)), [], []
    sign = np.random.default_rng(seed).choice([-1.0, 1.0], len(pairs))
    matrix = matrix.multiply(sign[:, None]).tocsr()
    label = sign > 0
    model = LogisticRegression(C=PENALTY, fit_intercept=False, solver="liblinear", max_iter=300, random_state=0)
    position = {image: i for i, image in enumerate(images)}
    groups = [position[pair.image_id] for pair in pairs]
    right = 0.0
    for train, test in GroupKFold(FOLDS).split(matrix, label, groups):
        scores = model.fit(matrix[train], label[train]).decision_function(matrix[test])
        right += float((((scores > 0) == label[test]) & (scores != 0)).sum() + 0.5 * (scores == 0).sum())
    weights = model.fit(matrix, label).coef_[0]
    order = np.argsort(weights, kind="stable")
    cues = [(str(names[i]), float(weights[i])) for i in order]
    return accuracy(right, len(pairs)), cues[::-1][:CUES], cues[:CUES]


def blind(name: str, pairs: Sequence[Pair], seed: int = 0) -> BlindReport:
    """All baselines on some pairs, one pair a caption for the intervals to hold.

    Raises ValueError naming `name` with too few pairs or images, ImportError as `ngram_regression`.
    """
    try:
        learned, true_cues, false_cues = ngram_regression(pairs, seed)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return BlindReport(name, format_rule(pairs), shorter(pairs), learned, tuple(true_cues), tuple(false_cues))


def one_per_caption(rows: Iterable[tuple[str, Pair]], seed: int = 0, pick: Pick = "first") -> list[Pair]:
    """One negative a caption and operator from (negative_id, pair) rows, in the order of their ids.

    "first" is the first draw (`…#noun:0`; the lowest there is), a fair sample of what the operator makes; "random" any
    of those kept, among which the unlikely are over-represented, since later draws exclude the earlier. The choice
    hangs on the seed and the caption's own ids, never on other captions. Raises ValueError for another pick.
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


def read_pairs(run: Path, operator: str, seed: int = 0, pick: Pick = "first") -> list[Pair]:
    """One pair a caption of a run's operator, shard by shard. Raises FileNotFoundError without negatives."""
    import pyarrow.compute as pc

    from pipelines.engine.shards import read_table

    pairs = []
    columns = ["negative_id", "operator", "caption", "text", "image_id"]
    for table in read_table(run, "negatives", columns):
        rows = table.filter(pc.equal(table["operator"], operator)).to_pydict()
        made = map(Pair, rows["caption"], rows["text"], rows["image_id"])
        pairs += one_per_caption(zip(rows["negative_id"], made, strict=True), seed, pick)
    return pairs


def operators_of(run: Path) -> list[str]:
    """The operators that a run has negatives of, sorted."""
    import pyarrow.compute as pc

    from pipelines.engine.shards import read_table

    return sorted(
        {
            name
            for table in read_table(run, "negatives", ["operator"])
            for name in pc.unique(table["operator"]).to_pylist()
        }
    )


def measure_run(
    run: Path, seed: int = 0, operators: Sequence[str] | None = None, pick: Pick = "first"
) -> list[BlindReport]:
    """The baselines on every operator of a run, or on those named.

    Raises FileNotFoundError without negatives, ValueError for an operator that the run has no rows of and as `blind`.
    """
    made = operators_of(run)
    for name in operators or ():
        if name not in made:
            raise ValueError(f"operator must be one of {', '.join(made)} in {run}, was: {name}")
    return [blind(name, read_pairs(run, name, seed, pick), seed) for name in operators or made]


def flow_table(run: Path, operator: str, top: int = 20) -> list[tuple[str, str, int, int]]:
    """The commonest exchanges (replaced, replacement, rows, rows of the reverse) of an operator, over all its rows."""
    import pyarrow.compute as pc

    from pipelines.engine.shards import read_table

    counts: Counter[tuple[str, str]] = Counter()
    for table in read_table(run, "negatives", ["operator", "replaced", "replacement"]):
        rows = table.filter(pc.equal(table["operator"], operator)).to_pydict()
        counts.update(zip(rows["replaced"], rows["replacement"], strict=True))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(old, new, n, counts[new, old]) for (old, new), n in ordered[:top]]


def to_markdown(reports: Sequence[BlindReport]) -> str:
    """The reports as a Markdown table."""
    lines = ["| operator | pairs | format rule | shorter is true | n-gram LR |", "|---|---|---|---|---|"]
    for report in reports:
        cells = [
            f"{a.percent:.1f} ({a.low:.1f}–{a.high:.1f})" for a in (report.format_rule, report.shorter, report.ngrams)
        ]
        lines.append(f"| {report.name} | {report.ngrams.pairs:,} | {' | '.join(cells)} |")
    return "\n".join(lines)
