"""The blind baselines on pairs of a caption and its negative: a report an operator."""

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
    from negcap.pipelines.quality.bias.ngrams import NgramVocabulary, Texts

ALL = "all"
CUES = 15
SIGNIFICANT = 2.0
LIMIT = 100_000
NEEDED = "the blind baselines need scikit-learn: pip install negcap[quality]"
Weighted = tuple[str, float]


@dataclass(frozen=True)
class Cue:
    """A word and the number of pairs where the true text alone has it, and where the negative alone has it."""

    word: str
    true: int
    negative: int


@dataclass(frozen=True)
class BlindReport:
    """The accuracies of the blind baselines on some pairs, and what gives the negatives away.

    format_rule, shorter: rules; odds: word log-odds; language_model: a trigram model of true captions; ngrams: a
    logistic regression on n-gram differences. true_cues, false_cues: its strongest (n-gram, weight), of positive weight
    where the n-gram speaks for the true text. words: the words of |true - negative| / sqrt(true + negative) above 2,
    the greatest first.
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
        """The baseline of the highest accuracy."""
        return max(self.baselines.items(), key=lambda item: item[1].percent)


def ngram_regression(pairs: Sequence[Pair], seed: int = 0) -> tuple[Accuracy, list[Weighted], list[Weighted]]:
    """Fit logistic regression to the n-gram differences of pairs, 5-fold with an image's pairs in one fold.

    Returns the accuracy on held-out folds and the strongest cues of the true and of the false side, by a fit on all.
    Raises ValueError with fewer images than folds, ImportError naming the extra to install.
    """
    check_libraries()
    vocabulary, found, _, _ = _read(pairs)
    return _regression(pairs, vocabulary, found, seed)


def blind(name: str, pairs: Sequence[Pair], seed: int = 0, corpus: Sequence[tuple[str, str]] = ()) -> BlindReport:
    """Measure all baselines on some pairs, one pair a caption.

    corpus: (text, image_id) of true captions that the language model is trained on, but for those of the images of the
    fold that it is tested on; without, it is trained on the pairs' true captions. Raises ValueError naming `name` with
    too few pairs or images, ImportError as `ngram_regression`.
    """
    check_libraries()
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
    """Measure the baselines on every operator's pairs, and where there are several on all together, under `all`.

    limit: on the pairs of so many random images as give at most that many. Raises as `blind`.
    """
    return {name: blind(name, some_images(some, limit, seed), seed, corpus) for name, some in with_all(pairs).items()}


def with_all(pairs: Mapping[str, Sequence[Pair]]) -> dict[str, Sequence[Pair]]:
    """The pairs of every operator, and where there are several those of all together, under `all`."""
    together = {ALL: [pair for some in pairs.values() for pair in some]} if len(pairs) > 1 else {}
    return {**pairs, **together}


@dataclass(frozen=True)
class BlindConfig:
    """Which negatives of a run are measured.

    operators, splits: only these, all if empty; table: negatives or refined; pick: the first draw of a caption or a
    random one; limit: pairs an operator at most, of random images; together: all operators as one too.
    """

    seed: int = 0
    operators: tuple[str, ...] = ()
    pick: Pick = "first"
    table: str = "negatives"
    splits: tuple[str, ...] = ()
    limit: int = LIMIT
    together: bool = False


def measure_run(run: Path, config: BlindConfig | None = None) -> list[BlindReport]:
    """The accuracies of the blind baselines on a run's negatives, an operator after the other.

    Raises FileNotFoundError without negatives, ValueError for an operator or split that the run has no rows of and as
    `blind`.
    """
    config = config or BlindConfig()
    table, splits, operators = config.table, config.splits, config.operators
    pairs = read_all(run, table, splits, config.seed, config.pick)
    for name in operators:
        if name not in pairs:
            made = ", ".join(pairs or operators_of(run, table=table))
            raise ValueError(f"operator must be one of {made} in {run / table}, was: {name}")
    if not pairs:
        raise ValueError(f"{run / table} has no negatives{' of ' + ', '.join(splits) if splits else ''}")
    wanted = {name: pairs[name] for name in operators or pairs}
    reports = measure(wanted, config.seed, read_corpus(run), config.limit)
    return [report for name, report in reports.items() if config.together or name in wanted]


def check_libraries() -> None:
    """Raise ImportError naming the extra to install, where scikit-learn is missing."""
    try:
        import scipy.sparse  # noqa: F401
        import sklearn.linear_model  # noqa: F401
    except ImportError as error:
        raise ImportError(NEEDED) from error


def _read(pairs: Sequence[Pair]) -> tuple[NgramVocabulary, Features, Texts, Texts]:
    from negcap.pipelines.quality.bias.learned import features
    from negcap.pipelines.quality.bias.ngrams import NgramVocabulary

    vocabulary = NgramVocabulary()
    true = vocabulary.encode([pair.true for pair in pairs])
    negative = vocabulary.encode([pair.negative for pair in pairs])
    return vocabulary, features(true, negative), true, negative


def _regression(
    pairs: Sequence[Pair], vocabulary: NgramVocabulary, found: Features, seed: int
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
    vocabulary: NgramVocabulary,
    true: Texts,
    negative: Texts,
    corpus: Sequence[tuple[str, str]],
    seed: int,
) -> Any:
    """log p(true) - log p(negative) of every pair by the language model trained without the images of its fold."""
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


def _words(single: Features, vocabulary: NgramVocabulary) -> tuple[Cue, ...]:
    import numpy as np

    from negcap.pipelines.quality.bias.learned import sides

    true, negative = sides(single.matrix)
    strength = np.abs(true - negative) / np.sqrt(np.maximum(true + negative, 1))
    top = np.argsort(-strength, kind="stable")[:CUES]
    top = top[strength[top] > SIGNIFICANT]
    counts = true[top].astype(int).tolist(), negative[top].astype(int).tolist()
    return tuple(map(Cue, vocabulary.spell(single.keys[top]), *counts))
