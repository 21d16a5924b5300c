"""The blind baselines on pairs of a caption and its negative, and the report on them: a format rule; "the shorter is
true"; a trigram language model of true captions; and, cross-validated, word log-odds and logistic regressions on n-gram
differences, with one weight per n-gram: a pair's gap is the weighted sum of the true text's counts minus the
negative's. "regression by topic" has more weights of each n-gram in each topic of images: it finds what could be
told if there were only images of few topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....augment.reproducible import log
from ...engine.errors import require_libraries
from ..accuracy import Accuracy, by_image
from .ngrams import BITS, NgramVocabulary, Texts, differences, train, windows
from .topics import by_topic, documents, topics_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


NEEDED = 'the blind baselines need scikit-learn: pip install "negcap[quality]"'
CUES = 15
SIGNIFICANT = 2.0
FOLDS = 5
PENALTY = 1.0
MIN_PAIRS = 2  # n-grams in fewer pairs have weight 0 in the regression
STEP = 2.0**-10  # weights are multiples: what the fit rounds differs with the processor, near the 14th digit
Fit = Callable[["csr_matrix"], "np.ndarray"]


class Pair(NamedTuple):
    """A true caption, its negative, and the image_id of both."""

    true: str
    negative: str
    image_id: str


@dataclass(frozen=True)
class Cue:
    """A word, the number of pairs where only the true text has it, and the number where only the negative has it."""

    word: str
    true: int
    negative: int


@dataclass(frozen=True)
class BlindReport:
    """The accuracies of the blind baselines on some pairs. true_cues, false_cues: the n-grams with the largest weights
    for and against the true text, with these. words: up to 15 `Cue`s with |true - negative| / sqrt(true + negative)
    above 2.
    """

    name: str
    format_rule: Accuracy
    shorter: Accuracy
    ngrams: Accuracy
    true_cues: tuple[tuple[str, float], ...]
    false_cues: tuple[tuple[str, float], ...]
    odds: Accuracy
    language_model: Accuracy
    words: tuple[Cue, ...] = ()
    topics: Accuracy | None = None

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return self.ngrams.pairs

    @property
    def baselines(self) -> dict[str, Accuracy]:
        """Accuracy by the baseline's name, in the order of the tables' columns."""
        return {
            "format rule": self.format_rule,
            "shorter is true": self.shorter,
            "word log-odds": self.odds,
            "language model": self.language_model,
            "n-gram regression": self.ngrams,
            **({} if self.topics is None else {"regression by topic": self.topics}),
        }


def most_telling(baselines: Mapping[str, Accuracy]) -> tuple[str, Accuracy]:
    """The baseline with the highest lower bound of its 95 % interval, and its accuracy, each as the cue that it is: 30
    % for "the shorter is true" is 70 % for "…, reversed".
    """
    tried = ((f"{name}, reversed" if found.reversed else name, found.cue) for name, found in baselines.items())
    return max(tried, key=lambda one: (one[1].low, one[1].percent))


def check_libraries() -> None:
    """Raise ImportError, with the extra to install, if scikit-learn is missing."""
    require_libraries(NEEDED, "scipy.sparse", "sklearn", "sklearn.linear_model")


def blind(name: str, pairs: Sequence[Pair], seed: int = 0, corpus: Sequence[tuple[str, str]] = ()) -> BlindReport:
    """Measure all baselines on some pairs, one per caption, read as n-grams around what differs. name: of the report;
    corpus: (text, image_id) of true captions for the language model, but for the fold tested on, and for the topics of
    images; empty: the pairs' own. Raises ValueError naming `name` for too few pairs or images, ImportError without
    scikit-learn.
    """
    check_libraries()
    images = [pair.image_id for pair in pairs]
    try:
        vocabulary = NgramVocabulary()
        true = vocabulary.encode([pair.true for pair in pairs])
        negative = vocabulary.encode([pair.negative for pair in pairs])
        folds = folds_of(images, seed=seed)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    found = features(true, negative)
    single = words(found)

    def cross_validated(matrix: csr_matrix, fit: Fit) -> Accuracy:
        return by_image(right(scores(matrix, fold_weights(matrix, folds, FOLDS, fit), folds)).tolist(), images)

    weights = regression(found.matrix)
    order = np.argsort(weights, kind="stable")

    def cues(columns: np.ndarray) -> tuple[tuple[str, float], ...]:
        return tuple(zip(vocabulary.spell(found.keys[columns]), weights[columns].tolist(), strict=True))

    strongest = [side[weights[side] * sign > 0] for side, sign in ((order[::-1][:CUES], 1), (order[:CUES], -1))]
    read = vocabulary.encode([text for text, _ in corpus]) if corpus else true
    parts = folds_of([*images, *(image for _, image in corpus)], seed=seed)
    model = train(read, parts[len(pairs) if corpus else 0 :], FOLDS, len(vocabulary.number))
    gaps = model.gaps(true, negative, parts[: len(pairs)])
    in_true, in_negative = sides(single.matrix)
    strength = np.abs(in_true - in_negative) / np.sqrt(np.maximum(in_true + in_negative, 1))
    top = np.argsort(-strength, kind="stable")[:CUES]
    top = top[strength[top] > SIGNIFICANT]
    counts = (side[top].astype(int).tolist() for side in (in_true, in_negative))
    rule = format_rule(pairs)
    short = shorter(pairs)
    spelt = tuple(map(Cue, vocabulary.spell(single.keys[top]), *counts))
    grams = cross_validated(found.matrix, regression)
    odds = cross_validated(single.matrix, log_odds)
    captions = corpus or list(dict.fromkeys((pair.true, pair.image_id) for pair in pairs))
    said = read if corpus else vocabulary.encode([text for text, _ in captions])
    of = [image for _, image in captions]
    topic = topics_of(documents(said, of, true, windows(true, negative).true, images), seed)
    topics = cross_validated(by_topic(found.matrix, topic), regression)
    likely = by_image(right(gaps).tolist(), images)
    return BlindReport(name, rule, short, grams, cues(strongest[0]), cues(strongest[1]), odds, likely, spelt, topics)


SPACED = re.compile(r"\s[.,;:!?]")
LOWER_I = re.compile(r"(?<![\w.'’-])i(?:['’](?:m|ve|ll|d))?(?![\w.'’-])")


def format_faults(text: str) -> int:
    """Count careless scripts' formatting errors. Once: a lower-case start or "i", a double space, a space before
    punctuation, no final punctuation, `<unk>`. Each time: a wrong a/an, a doubled word.
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


def format_rule(pairs: Sequence[Pair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer formatting errors is true; a tie counts half."""
    return _fewer(pairs, format_faults)


def shorter(pairs: Sequence[Pair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer characters is true; a tie counts half."""
    return _fewer(pairs, len)


def _fewer(pairs: Sequence[Pair], measure: Callable[[str], int]) -> Accuracy:
    gaps = (measure(pair.negative) - measure(pair.true) for pair in pairs)
    return by_image([(gap > 0) + (gap == 0) / 2 for gap in gaps], [pair.image_id for pair in pairs])


def right(gaps: np.ndarray) -> np.ndarray:
    """For each gap (score of the true text minus the negative's): 1 if it is above 0, 0.5 if it is 0, else 0."""
    return (gaps > 0) + (gaps == 0) / 2


class Features(NamedTuple):
    """n-gram differences of pairs. matrix: (pairs, n-grams), sparse; keys: the n-grams of the columns, ascending."""

    matrix: csr_matrix
    keys: np.ndarray


def features(true: Texts, negative: Texts) -> Features:
    """The n-gram counts of each true text minus those of its negative."""
    from scipy.sparse import coo_array, csr_matrix

    (rows, columns, values), keys = differences(true, negative)
    return Features(csr_matrix(coo_array((values, (rows, columns)), (len(true), len(keys)))), keys)


def words(found: Features) -> Features:
    """Only those columns that are single words."""
    kept = np.flatnonzero(found.keys < 1 << BITS)
    return Features(found.matrix[:, kept], found.keys[kept])


def folds_of(images: Sequence[str], count: int = FOLDS, seed: int = 0) -> np.ndarray:
    """The random fold, of `count`, of each image's entries: (n,). Raises ValueError for fewer images than folds."""
    names, number = np.unique(np.asarray(images, dtype=object).astype(str), return_inverse=True)
    if len(names) < count:
        raise ValueError(f"too few images: {len(names)}, needs {count}")
    return np.random.default_rng(seed).permutation(np.arange(len(names)) % count)[number]


def regression(matrix: csr_matrix, penalty: float = PENALTY) -> np.ndarray:
    """(n-grams,): weights of a logistic regression that tells a pair's true text, 0 for n-grams of one pair. matrix:
    (pairs, n-grams) differences, every second row negated as the other class; penalty: scikit-learn's C.
    """
    from sklearn.linear_model import LogisticRegression

    weights = np.zeros(matrix.shape[1])
    kept = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= MIN_PAIRS)
    if not len(kept) or matrix.shape[0] < 2:
        return weights
    sign = np.where(np.arange(matrix.shape[0]) % 2, -1.0, 1.0)
    signed = matrix[:, kept].multiply(sign[:, None]).tocsr()
    model = LogisticRegression(C=penalty, fit_intercept=False, solver="liblinear", tol=1e-3, random_state=0)
    weights[kept] = np.rint(model.fit(signed, sign > 0).coef_[0] / STEP) * STEP
    return weights


def log_odds(matrix: csr_matrix) -> np.ndarray:
    """(n-grams,): log of (count in true texts only + 1) / (count in negatives only + 1)."""
    true, negative = sides(matrix)
    return log((true + 1) / (negative + 1))


def sides(matrix: csr_matrix) -> tuple[Any, Any]:
    """Two arrays (n-grams,): how often only the true text has each n-gram, and how often only the negative has it."""
    up, down = (np.bincount(matrix.indices, np.maximum(n, 0), matrix.shape[1]) for n in (matrix.data, -matrix.data))
    return up, down


def fold_weights(matrix: csr_matrix, folds: np.ndarray, count: int, fit: Fit) -> np.ndarray:
    """(n-grams, folds): for each fold, the weights that `fit` learns from the pairs of all other folds."""
    return np.column_stack([fit(matrix[np.flatnonzero(folds != fold)]) for fold in range(count)])


def scores(matrix: csr_matrix, weights: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """(pairs,): the score of every pair by the weights of its fold (a column of `fold_weights`)."""
    return (matrix @ weights)[np.arange(matrix.shape[0]), folds]
