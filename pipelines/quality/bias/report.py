"""The baselines on pairs, one report an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.quality.bias.accuracy import Accuracy, by_image
from negcap.pipelines.quality.bias.pairs import Pair, Pick, read_all, read_corpus, some_images
from negcap.pipelines.quality.bias.rules import format_rule, shorter
from negcap.pipelines.tables.columns import operators_of

if TYPE_CHECKING:
    from negcap.pipelines.quality.bias.learned import Features
    from negcap.pipelines.quality.bias.ngrams import Texts, Vocabulary

ALL = "all"
CUES = 15
SIGNIFICANT = 2.0
LIMIT = 100_000
NEEDED = "the blind baselines need scikit-learn: pip install negcap[quality]"
Weighted = tuple[str, float]


@dataclass(frozen=True)
class Cue:
    """A word that gives a text away: how often it stands in the true text only, and in the negative only."""

    word: str
    true: int
    negative: int


@dataclass(frozen=True)
class BlindReport:
    """The baselines on some pairs. Cues are (n-gram, weight): positive weights tell the true caption.

    words: those that fall on one side most significantly, by |true - negative| / sqrt(true + negative), at least 2.
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
        """Every baseline by its name, in the order of the tables."""
        return {
            "format rule": self.format_rule,
            "shorter is true": self.shorter,
            "word log-odds": self.odds,
            "language model": self.language_model,
            "n-gram regression": self.ngrams,
        }

    @property
    def worst(self) -> tuple[str, Accuracy]:
        """The baseline that tells most."""
        return max(self.baselines.items(), key=lambda item: item[1].percent)


def ngram_regression(pairs: Sequence[Pair], seed: int = 0) -> tuple[Accuracy, list[Weighted], list[Weighted]]:
    """Logistic regression on n-gram differences of pairs, 5-fold with an image's pairs in one fold.

    Returns the accuracy on held-out folds and the strongest cues of the true and of the false side, by a fit on all.
    Raises ValueError with fewer images than folds, ImportError naming the extra to install.
    """
    _needed()
    vocabulary, found, _, _ = _read(pairs)
    return _regression(pairs, vocabulary, found, seed)


def blind(name: str, pairs: Sequence[Pair], seed: int = 0, corpus: Sequence[tuple[str, str]] = ()) -> BlindReport:
    """All baselines on some pairs, one pair a caption.

    corpus: (text, image_id) of true captions for the language model, which reads those of no image of the fold it
    judges; without, it reads the pairs' true captions. Raises ValueError naming `name` with too few pairs or images,
    ImportError as `ngram_regression`.
    """
    _needed()
    from negcap.pipelines.quality.bias import learned

    try:
        vocabulary, found, true, negative = _read(pairs)
        ngrams, true_cues, false_cues = _regression(pairs, vocabulary, found, seed)
        images = [pair.image_id for pair in pairs]
        folds = learned.folds_of(images, seed=seed)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    single = learned.words(found)
    weights = learned.fold_weights(single.matrix, folds, learned.FOLDS, learned.log_odds)
    odds = learned.right(learned.scores(single.matrix, weights, folds))
    read = learned.right(_language_gaps(pairs, vocabulary, true, negative, corpus, seed))
    return BlindReport(
        name,
        format_rule(pairs),
        shorter(pairs),
        ngrams,
        tuple(true_cues),
        tuple(false_cues),
        by_image(odds.tolist(), images),
        by_image(read.tolist(), images),
        _words(single, vocabulary),
    )


def measure(
    pairs: Mapping[str, Sequence[Pair]],
    seed: int = 0,
    corpus: Sequence[tuple[str, str]] = (),
    limit: int = LIMIT,
) -> dict[str, BlindReport]:
    """The baselines on every operator's pairs, and on those of all operators together (`all`) where there are several.

    limit: on the pairs of so many random images as give at most that many. Raises as `blind`.
    """
    reports = {name: blind(name, some_images(some, limit, seed), seed, corpus) for name, some in pairs.items()}
    if len(pairs) > 1:
        everything = [pair for some in pairs.values() for pair in some]
        reports[ALL] = blind(ALL, some_images(everything, limit, seed), seed, corpus)
    return reports


def measure_run(
    run: Path,
    seed: int = 0,
    operators: Sequence[str] | None = None,
    pick: Pick = "first",
    *,
    table: str = "negatives",
    splits: Sequence[str] = (),
    limit: int = LIMIT,
    together: bool = False,
) -> list[BlindReport]:
    """The baselines on every operator of a run's table, or on those named; together: also on all of them as one.

    Raises FileNotFoundError without negatives, ValueError for an operator or split that the run has no rows of and as
    `blind`.
    """
    pairs = read_all(run, table, splits, seed, pick)
    for name in operators or ():
        if name not in pairs:
            made = ", ".join(pairs or operators_of(run, table=table))
            raise ValueError(f"operator must be one of {made} in {run / table}, was: {name}")
    if not pairs:
        raise ValueError(f"{run / table} has no negatives{' of ' + ', '.join(splits) if splits else ''}")
    wanted = {name: pairs[name] for name in operators or pairs}
    reports = measure(wanted, seed, read_corpus(run), limit)
    return [report for name, report in reports.items() if together or name in wanted]


def _needed() -> None:
    try:
        import scipy.sparse  # noqa: F401
        import sklearn.linear_model  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error


def _read(pairs: Sequence[Pair]) -> tuple[Vocabulary, Features, Texts, Texts]:
    from negcap.pipelines.quality.bias.learned import features
    from negcap.pipelines.quality.bias.ngrams import Vocabulary

    vocabulary = Vocabulary()
    true = vocabulary.encode([pair.true for pair in pairs])
    negative = vocabulary.encode([pair.negative for pair in pairs])
    return vocabulary, features(true, negative), true, negative


def _regression(
    pairs: Sequence[Pair], vocabulary: Vocabulary, found: Features, seed: int
) -> tuple[Accuracy, list[Weighted], list[Weighted]]:
    import numpy as np

    from negcap.pipelines.quality.bias import learned

    images = [pair.image_id for pair in pairs]
    folds = learned.folds_of(images, seed=seed)
    weights = learned.fold_weights(found.matrix, folds, learned.FOLDS, learned.regression)
    told = learned.right(learned.scores(found.matrix, weights, folds))
    final = learned.regression(found.matrix)
    order = np.argsort(final, kind="stable")
    low, high = order[:CUES], order[::-1][:CUES]
    cues = []
    for side, sign in ((high, 1), (low, -1)):
        side = side[final[side] * sign > 0]
        cues.append(list(zip(vocabulary.spell(found.keys[side]), final[side].tolist(), strict=True)))
    return by_image(told.tolist(), images), cues[0], cues[1]


def _language_gaps(
    pairs: Sequence[Pair],
    vocabulary: Vocabulary,
    true: Texts,
    negative: Texts,
    corpus: Sequence[tuple[str, str]],
    seed: int,
) -> Any:
    """The gap of every pair by the language model that has read no caption of the images of its fold."""
    from negcap.pipelines.quality.bias import language_model, learned

    images = [pair.image_id for pair in pairs]
    texts = true
    if corpus:
        texts = vocabulary.encode([text for text, _ in corpus])
        images += [image for _, image in corpus]
    folds = learned.folds_of(images, seed=seed)
    of_texts = folds[len(pairs) :] if corpus else folds
    model = language_model.train(texts, of_texts, learned.FOLDS, len(vocabulary.number))
    return model.gaps(true, negative, folds[: len(pairs)])


def _words(single: Features, vocabulary: Vocabulary) -> tuple[Cue, ...]:
    import numpy as np

    from negcap.pipelines.quality.bias.learned import sides

    true, negative = sides(single.matrix)
    strength = np.abs(true - negative) / np.sqrt(np.maximum(true + negative, 1))
    top = np.argsort(-strength, kind="stable")[:CUES]
    top = top[strength[top] > SIGNIFICANT]
    counts = true[top].astype(int).tolist(), negative[top].astype(int).tolist()
    return tuple(map(Cue, vocabulary.spell(single.keys[top]), *counts))
