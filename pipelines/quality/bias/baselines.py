"""The blind baselines on pairs of a caption and its negative, and the report on them.

They are a format rule; "the shorter is true"; a trigram language model of true captions; and, cross-validated, word
log-odds and logistic regressions on n-gram differences, with one weight per n-gram: a pair's gap is the weighted sum of
the true text's counts minus the negative's. "regression by topic" has further weights for each n-gram in each topic of
images: it finds what could be told if there were only images of few topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....augment.reproducible import log
from ...engine.errors import require_libraries
from ..accuracy import Accuracy, by_image
from .ngrams import NgramDifferences, NgramVocabulary, NumberedTexts, ngram_differences, train, windows
from .topics import by_topic, documents, topics_of

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


NEEDED = 'the blind baselines need scikit-learn: pip install "negcap[quality]"'
# A report lists at most so many words, n-grams for the true text, and n-grams against it.
CUES = 15
# A word is called one-sided if its counts are further apart than so many standard deviations of coin flips.
SIGNIFICANT = 2.0
FOLDS = 5
PENALTY = 1.0  # scikit-learn's C
# n-grams in fewer pairs have weight 0 in the regression.
MIN_PAIRS = 2
# Weights are rounded to multiples of this: the fit differs from processor to processor near the 14th digit.
STEP = 2.0**-10
# (pairs, n-grams) differences -> (n-grams,) weights.
Fit = Callable[["csr_matrix"], "np.ndarray"]
NamedWeights = tuple[tuple[str, float], ...]  # n-grams, each with its weight


class TextPair(NamedTuple):
    """A true caption, its negative, and the image_id of both."""

    true: str
    negative: str
    image_id: str


class CorpusText(NamedTuple):
    """A true caption, and the image_id of its image."""

    text: str
    image_id: str


@dataclass(frozen=True)
class Cue:
    """A word, the number of pairs where only the true text has it, and the number where only the negative has it."""

    word: str
    true: int
    negative: int


@dataclass(frozen=True)
class BlindReport:
    """The accuracies of the blind baselines on some pairs.

    Attributes:
        name: of the pairs, usually the operator that made the negatives.
        format_rule, shorter: accuracies of two rules: the text with fewer formatting errors, or the shorter, is true.
        ngrams, odds, topics: accuracies of the regression on n-grams, the word log-odds, and the regression by topic.
        language_model: its accuracy.
        true_cues, false_cues: the n-grams with the largest weights for and against the true text.
        words: up to CUES one-sided words: |true - negative| / sqrt(true + negative) is above SIGNIFICANT.
    """

    name: str
    format_rule: Accuracy
    shorter: Accuracy
    ngrams: Accuracy
    true_cues: NamedWeights
    false_cues: NamedWeights
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


class MostTelling(NamedTuple):
    """The baseline that tells most about which text is true: its name, and its accuracy as a cue."""

    baseline: str
    cue: Accuracy


def most_telling(baselines: Mapping[str, Accuracy]) -> MostTelling:
    """The baseline with the highest lower bound of its 95 % interval.

    One below chance counts reversed: 30 % for "the shorter is true" is 70 % for "the shorter is true, reversed".
    """
    cues = []
    for name, accuracy in baselines.items():
        cues.append(MostTelling(f"{name}, reversed" if accuracy.reversed else name, accuracy.cue))
    return max(cues, key=lambda telling: (telling.cue.low, telling.cue.percent))


def check_libraries() -> None:
    """Raise ImportError, with the extra to install, if scikit-learn is missing."""
    require_libraries(NEEDED, "scipy.sparse", "sklearn", "sklearn.linear_model")


def blind(name: str, pairs: Sequence[TextPair], seed: int = 0, corpus: Sequence[CorpusText] = ()) -> BlindReport:
    """Measure all text-only baselines: how well they tell which text of a pair is the true one.

    Those that learn read the n-grams around the words in which the texts of a pair differ.

    Args:
        name: of the report, and of the pairs in errors.
        pairs: a true text and a negative each.
        seed: of the folds, and of the topics.
        corpus: true captions, for the language model and for the topics of images; if empty, those of the pairs. The
            language model that reads a pair was not trained on captions of its fold.

    Raises:
        ValueError: for too few pairs or images, or too many words; it begins with the name.
        ImportError: without scikit-learn.
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
    differences = ngram_differences(true, negative)  # its matrix: (pairs, n-grams), true text minus negative
    words = differences.take(differences.single_words())

    def cross_validated(matrix: csr_matrix, fit: Fit) -> Accuracy:
        """The accuracy of weights that `fit` fits to a matrix (pairs, n-grams): each pair is judged by weights fitted
        to the other folds. All pairs of an image are in one fold.
        """
        gaps = scores(matrix, fold_weights(matrix, folds, FOLDS, fit), folds)  # above 0: the true text is found
        return by_image(right(gaps).tolist(), images)

    if corpus:
        captions = vocabulary.encode([caption.text for caption in corpus])
        caption_images = [caption.image_id for caption in corpus]
    else:
        # For the topics of images each caption counts once, although it may be the true text of several pairs.
        distinct = list(dict.fromkeys(CorpusText(pair.true, pair.image_id) for pair in pairs))
        captions = vocabulary.encode([caption.text for caption in distinct])
        caption_images = [caption.image_id for caption in distinct]
    window_of_true = windows(true, negative).true  # where each true text differs from its negative
    topics = topics_of(documents(captions, caption_images, true, window_of_true, images), seed)
    weights = regression(differences.matrix)
    # Without a corpus, the language model is trained on the true text of every pair, with repeats, as regressions are.
    texts = captions if corpus else true
    text_images = caption_images if corpus else images
    language_model = _accuracy_of_language_model(
        texts, text_images, true, negative, images, len(vocabulary.number), seed
    )
    return BlindReport(
        name=name,
        format_rule=format_rule(pairs),
        shorter=shorter(pairs),
        ngrams=cross_validated(differences.matrix, regression),
        true_cues=_strongest_ngrams(vocabulary, differences.keys, weights, 1),
        false_cues=_strongest_ngrams(vocabulary, differences.keys, weights, -1),
        odds=cross_validated(words.matrix, log_odds),
        language_model=language_model,
        words=_one_sided_words(vocabulary, words),
        topics=cross_validated(by_topic(differences.matrix, topics), regression),
    )


def _accuracy_of_language_model(
    texts: NumberedTexts,
    text_images: Sequence[str],
    true: NumberedTexts,
    negative: NumberedTexts,
    images: Sequence[str],
    vocabulary_size: int,
    seed: int,
) -> Accuracy:
    """How often a trigram model finds the true text of a pair more probable than the negative, by cross-validation.

    Args:
        texts, text_images: what the models are trained on, and the image of each; the model that reads a pair has not
            seen texts of its fold.
        true, negative, images: the texts and the image of each pair.
        vocabulary_size: the number of words in the vocabulary.
        seed: of the folds.
    """
    # The images of pairs and of texts are divided together, so that an image is in the same fold in both.
    folds = folds_of([*images, *text_images], seed=seed)
    folds_of_pairs = folds[: len(images)]
    model = train(texts, folds[len(images) :], FOLDS, vocabulary_size)
    gaps = model.gaps(true, negative, folds_of_pairs)
    return by_image(right(gaps).tolist(), images)


def _strongest_ngrams(vocabulary: NgramVocabulary, keys: np.ndarray, weights: np.ndarray, sign: int) -> NamedWeights:
    """The n-grams with the largest weights for the true text (sign 1) or against it (-1), at most CUES.

    Args:
        vocabulary: spells n-grams.
        keys, weights: (n-grams,) the code of each n-gram in the vocabulary, and its weight.
        sign: 1 or -1; weights of the other sign, and 0, are left out.
    """
    order = np.argsort(weights, kind="stable")
    columns = (order[::-1] if sign > 0 else order)[:CUES]
    columns = columns[weights[columns] * sign > 0]
    return tuple(zip(vocabulary.spell(keys[columns]), weights[columns].tolist(), strict=True))


def _one_sided_words(vocabulary: NgramVocabulary, words: NgramDifferences) -> tuple[Cue, ...]:
    """The words that are significantly more often in only the true text, or in only the negative, the most significant
    first.
    """
    only = sides(words.matrix)
    total = only.true + only.negative
    # If a word were as likely in either text, true - negative would have the standard deviation sqrt(true + negative).
    # (words,): how many such standard deviations the difference is.
    deviation = np.abs(only.true - only.negative) / np.sqrt(np.maximum(total, 1))
    columns = np.argsort(-deviation, kind="stable")[:CUES]
    columns = columns[deviation[columns] > SIGNIFICANT]
    spelt = vocabulary.spell(words.keys[columns])
    true = only.true[columns].astype(int).tolist()
    negative = only.negative[columns].astype(int).tolist()
    return tuple(map(Cue, spelt, true, negative))


SPACE_BEFORE_PUNCTUATION = re.compile(r"\s[.,;:!?]")
# "i" or "i'm" as a word of its own; not in "i.e.", "i-beam" or "e.g. i."
LOWER_CASE_I = re.compile(r"(?<![\w.'’-])i(?:['’](?:m|ve|ll|d))?(?![\w.'’-])")


def format_faults(text: str) -> int:
    """Count formatting errors as careless scripts make them.

    Counted at most once: a lower-case start, a lower-case "i", a double space, a space before punctuation, no final
    punctuation, `<unk>`. Counted each time: a wrong a/an, a doubled word.
    """
    from ....augment.language.grammar import indefinite_article

    faults = [
        text[:1].islower(),
        "  " in text,
        SPACE_BEFORE_PUNCTUATION.search(text) is not None,
        "<unk>" in text.lower(),
        LOWER_CASE_I.search(text) is not None,
        not text.rstrip().endswith((".", "!", "?", '"')),
    ]
    words = text.lower().split()
    for word, following in zip(words, words[1:], strict=False):
        faults.append(word == following and word.isalpha())
        faults.append(word in ("a", "an") and following[:1].isalnum() and indefinite_article(following) != word)
    return sum(faults)


def format_rule(pairs: Sequence[TextPair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer formatting errors is true; a tie counts half."""
    return _guess_by_smaller(pairs, format_faults)


def shorter(pairs: Sequence[TextPair]) -> Accuracy:
    """Accuracy of guessing that the text with fewer characters is true; a tie counts half."""
    return _guess_by_smaller(pairs, len)


def _guess_by_smaller(pairs: Sequence[TextPair], measure: Callable[[str], int]) -> Accuracy:
    """Accuracy of guessing that the text whose measure is smaller is the true one."""
    gaps = np.array([measure(pair.negative) - measure(pair.true) for pair in pairs])
    return by_image(right(gaps).tolist(), [pair.image_id for pair in pairs])


def right(gaps: np.ndarray) -> np.ndarray:
    """For each gap (score of the true text minus the negative's): 1 if it is above 0, 0.5 if it is 0, else 0."""
    return (gaps > 0) + (gaps == 0) / 2


def folds_of(images: Sequence[str], count: int = FOLDS, seed: int = 0) -> np.ndarray:
    """(entries,): the random fold, 0 to `count` - 1, of each entry, a pair or text; images: the image_id of each entry.

    All entries of an image are in one fold, so that no baseline is tested on images that it was trained on. Raises
    ValueError for fewer images than folds.
    """
    distinct, image_of_entry = np.unique(np.asarray(images, dtype=object).astype(str), return_inverse=True)
    if len(distinct) < count:
        raise ValueError(f"too few images: {len(distinct)}, needs {count}")
    fold_of_image = np.random.default_rng(seed).permutation(np.arange(len(distinct)) % count)
    return fold_of_image[image_of_entry]


def regression(matrix: csr_matrix, penalty: float = PENALTY) -> np.ndarray:
    """Fit a logistic regression that tells which text of a pair is the true one.

    Args:
        matrix: (pairs, n-grams): how often an n-gram is in the true text, less how often in the negative.
        penalty: scikit-learn's C.

    Returns:
        (n-grams,): the weight of each, 0 for those in fewer than MIN_PAIRS pairs.
    """
    from sklearn.linear_model import LogisticRegression

    weights = np.zeros(matrix.shape[1])
    pairs_with_ngram = np.bincount(matrix.indices, minlength=matrix.shape[1])
    kept = np.flatnonzero(pairs_with_ngram >= MIN_PAIRS)
    if not len(kept) or matrix.shape[0] < 2:
        return weights
    # A difference "true minus negative" is of class 1. Every second row is negated, "negative minus true", to give the
    # solver the other class; without an intercept this changes nothing in the model.
    sign = np.where(np.arange(matrix.shape[0]) % 2, -1.0, 1.0)
    signed = matrix[:, kept].multiply(sign[:, None]).tocsr()
    model = LogisticRegression(C=penalty, fit_intercept=False, solver="liblinear", tol=1e-3, random_state=0)
    fitted = model.fit(signed, sign > 0).coef_[0]
    weights[kept] = np.rint(fitted / STEP) * STEP
    return weights


def log_odds(matrix: csr_matrix) -> np.ndarray:
    """(n-grams,): log of (count in true texts only + 1) / (count in negatives only + 1)."""
    only = sides(matrix)
    return log((only.true + 1) / (only.negative + 1))


class Sides(NamedTuple):
    """How much more often the true texts have each n-gram, summed over the pairs where they have it more often; and the
    same of the negatives: both (n-grams,).
    """

    true: np.ndarray
    negative: np.ndarray


def sides(matrix: csr_matrix) -> Sides:
    """Add up differences (pairs, n-grams) by column: positive ones are of true texts, negative ones of negatives."""
    ngrams = matrix.shape[1]
    true = np.bincount(matrix.indices, np.maximum(matrix.data, 0), ngrams)
    negative = np.bincount(matrix.indices, np.maximum(-matrix.data, 0), ngrams)
    return Sides(true, negative)


def fold_weights(matrix: csr_matrix, folds: np.ndarray, count: int, fit: Fit) -> np.ndarray:
    """(n-grams, folds): for each fold, the weights that `fit` learns from the pairs of all other folds."""
    training = [np.flatnonzero(folds != fold) for fold in range(count)]
    return np.column_stack([fit(matrix[rows]) for rows in training])


def scores(matrix: csr_matrix, weights: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """(pairs,): the score of every pair by the weights of its fold (a column of `fold_weights`)."""
    by_every_fold = matrix @ weights  # (pairs, folds)
    return by_every_fold[np.arange(matrix.shape[0]), folds]
