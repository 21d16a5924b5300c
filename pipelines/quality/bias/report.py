"""The blind baselines on pairs of a caption and its negative: one report per operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .pairs import Accuracy, Pair, by_image, format_rule, shorter

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from .learned import Features
    from .ngrams import NgramVocabulary, Texts

CUES = 15
SIGNIFICANT = 2.0
NEEDED = 'the blind baselines need scikit-learn: pip install "negcap[quality]"'
FIXED = ("format rule", "shorter is true", "language model")  # not trained on negatives; inverted, equally informative
Weighted = tuple[str, float]


@dataclass(frozen=True)
class Cue:
    """A word, the number of pairs where only the true text has it, and the number where only the negative has it."""

    word: str
    true: int
    negative: int


@dataclass(frozen=True)
class BlindReport:
    """The accuracies of the blind baselines on some pairs, and the words and n-grams by which negatives can be guessed.

    format_rule, shorter: rules; odds: word log-odds; language_model: a trigram model of true captions; ngrams: a
    logistic regression on n-gram differences. true_cues, false_cues: its n-grams of the largest positive and negative
    weights, as (n-gram, weight); a positive weight indicates the true text. words: up to 15 words with
    |true - negative| / sqrt(true + negative) above 2 (see `Cue`), the largest first.
    """

    name: str
    format_rule: Accuracy
    shorter: Accuracy
    ngrams: Accuracy
    true_cues: tuple[Weighted, ...]
    false_cues: tuple[Weighted, ...]
    odds: Accuracy
    language_model: Accuracy
    words: tuple[Cue, ...] = ()

    @property
    def baselines(self) -> dict[str, Accuracy]:
        """Accuracy by the baseline's name, in the order of the tables' columns."""
        return {
            "format rule": self.format_rule,
            "shorter is true": self.shorter,
            "word log-odds": self.odds,
            "language model": self.language_model,
            "n-gram regression": self.ngrams,
        }

    @property
    def worst(self) -> tuple[str, Accuracy]:
        """Name and accuracy of the baseline with the highest accuracy."""
        return max(self.baselines.items(), key=lambda item: item[1].percent)


def most_telling(report: BlindReport) -> tuple[str, Accuracy, bool]:
    """The baseline whose 95 % interval has the highest lower bound: its name, accuracy, and whether it is inverted.

    Baselines that are not trained on negatives are inverted if they are wrong more often than right: 30 % for "the
    shorter is true" is 70 % for "the longer is true".
    """
    tried = []
    for name, found in report.baselines.items():
        turned = name in FIXED and found.percent < 50
        if turned:
            found = Accuracy(100 - found.percent, 100 - found.high, 100 - found.low, found.pairs)
        tried.append((name, found, turned))
    return max(tried, key=lambda one: (one[1].low, one[1].percent))


def blind(name: str, pairs: Sequence[Pair], seed: int = 0, corpus: Sequence[tuple[str, str]] = ()) -> BlindReport:
    """Measure all baselines on some pairs, one pair per caption: each text read as n-grams around what differs.

    name: of the report, usually the operator; corpus: (text, image_id) of true captions that the language model is
    trained on, except the images of the fold that it is tested on; if empty, it is trained on the pairs' true captions.
    Raises ValueError naming `name` if there are too few pairs or images, ImportError if scikit-learn is missing.
    """
    check_libraries()
    import numpy as np

    from . import learned
    from .ngrams import NgramVocabulary

    images = [pair.image_id for pair in pairs]
    try:
        vocabulary = NgramVocabulary()
        true = vocabulary.encode([pair.true for pair in pairs])
        negative = vocabulary.encode([pair.negative for pair in pairs])
        folds = learned.folds_of(images, seed=seed)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    found = learned.features(true, negative)
    single = learned.words(found)

    def cross_validated(matrix: csr_matrix, fit: learned.Fit) -> Accuracy:
        weights = learned.fold_weights(matrix, folds, learned.FOLDS, fit)
        return by_image(learned.right(learned.scores(matrix, weights, folds)).tolist(), images)

    cues = []
    weights = learned.regression(found.matrix)
    order = np.argsort(weights, kind="stable")
    for side, sign in ((order[::-1][:CUES], 1), (order[:CUES], -1)):
        side = side[weights[side] * sign > 0]
        cues.append(tuple(zip(vocabulary.spell(found.keys[side]), weights[side].tolist(), strict=True)))
    gaps = _language_gaps(pairs, vocabulary, true, negative, corpus, seed)
    return BlindReport(
        name,
        format_rule(pairs),
        shorter(pairs),
        cross_validated(found.matrix, learned.regression),
        cues[0],
        cues[1],
        cross_validated(single.matrix, learned.log_odds),
        by_image(learned.right(gaps).tolist(), images),
        _words(single, vocabulary),
    )


def check_libraries() -> None:
    """Raise ImportError, with the extra to install, if scikit-learn is missing."""
    try:
        import scipy.sparse  # noqa: F401
        import sklearn.linear_model  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error


def _language_gaps(
    pairs: Sequence[Pair],
    vocabulary: NgramVocabulary,
    true: Texts,
    negative: Texts,
    corpus: Sequence[tuple[str, str]],
    seed: int,
) -> Any:
    """(pairs,): log p(true) - log p(negative) by the language model that was trained without the pair's fold."""
    from . import learned
    from . import ngrams as language_model

    images = [pair.image_id for pair in pairs]
    texts = true
    if corpus:
        texts = vocabulary.encode([text for text, _ in corpus])
        images += [image for _, image in corpus]
    folds = learned.folds_of(images, seed=seed)
    of_texts = folds[len(pairs) :] if corpus else folds
    model = language_model.train(texts, of_texts, learned.FOLDS, len(vocabulary.number))
    return model.gaps(true, negative, folds[: len(pairs)])


def _words(single: Features, vocabulary: NgramVocabulary) -> tuple[Cue, ...]:
    import numpy as np

    from .learned import sides

    true, negative = sides(single.matrix)
    strength = np.abs(true - negative) / np.sqrt(np.maximum(true + negative, 1))
    top = np.argsort(-strength, kind="stable")[:CUES]
    top = top[strength[top] > SIGNIFICANT]
    counts = true[top].astype(int).tolist(), negative[top].astype(int).tolist()
    return tuple(map(Cue, vocabulary.spell(single.keys[top]), *counts))
