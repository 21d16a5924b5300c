"""Choose at most one negative per caption so that blind models, which never see the images, are at chance.

A candidate's gap is a model's score of the true text minus that of the negative; a model is at chance if the gaps of
the chosen are symmetric about 0. The choice balances several models at once, trained on images of other folds. Then
regressions, one of them by topic, are trained on the chosen pairs, their gaps are balanced, too, and the choice is
repeated, each time with other folds and topics.

(SugarCrepe, Hsieh et al. 2023, balances two given models in a grid; adversarial filtering, Zellers et al. 2018,
refits.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix
from sklearn.isotonic import IsotonicRegression

from ...augment.reproducible import exp
from .bias import baselines as blind
from .bias.baselines import FOLDS, CorpusText, folds_of, regression
from .bias.ngrams import NgramVocabulary, NumberedTexts, ngram_differences, train, windows
from .bias.topics import Documents, by_topic, documents, topics_of

ROUNDS = 8
# Added to the seed of all folds here, so that they differ from the folds on which the result is measured.
SEED_OFFSET = 1_000
# The captions are divided into so many parts, and each has a language model.
PARTS = 6
# The rounds end after two in a row in which the accuracies of all models are within so many percentage points of 50 %.
CHANCE_TOLERANCE = 1.0
# scikit-learn's C of the regression on the first POOL_DRAWS candidates of all captions, chosen or not.
POOL_PENALTY = 0.3
POOL_DRAWS = 3
# A candidate costs the imbalance that its choice adds; if it costs GAIN or more, it is not chosen.
GAIN = 0.1
# The cost of the imbalance of one pair in the gaps of a model.
DENSE = 0.05
# The cost of one occurrence of an n-gram that adds to an imbalance beyond chance: SPARSE / (its frequency + SMOOTH).
SPARSE = 5.0
SMOOTH = 10.0
# n-grams with fewer occurrences cost nothing.
COMMON = 5
# The cost of a later, less likely draw: so much for each draw before it.
DRAW = 0.05


class Pool(NamedTuple):
    """The candidates of one operator, grouped by caption, of each caption the likeliest draw first.

    Attributes:
        start: (captions + 1,); the candidates of caption i are the rows start[i] to start[i + 1].
        matrix: (candidates, n-grams) counts of the true text minus the negative's.
        documents: counts of words, from which the topics of images and candidates follow.
        words: the columns of the matrix that are single words.
        gaps: (candidates, 2 * models) of models not trained on pairs, two columns each (see `_sign_and_size`).
        images: (captions,) the image_id of each caption.
    """

    start: np.ndarray
    matrix: csr_matrix
    documents: Documents
    words: np.ndarray
    gaps: np.ndarray
    images: Sequence[str]

    @property
    def caption(self) -> np.ndarray:
        """The index of every candidate's caption: (candidates,)."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def pool(rows: pa.Table, corpus: Sequence[CorpusText] = (), seed: int = 0) -> Pool:
    """Score all candidates by rules and language models. Raises ValueError if there are fewer images than folds.

    Args:
        rows: the candidates, grouped by caption, with the columns caption_id, image_id, `text` (of the caption),
            `caption` (the true text that is compared), `negative`, and plausibility, which is not balanced if any is
            null.
        corpus: true captions to train language models on; if empty, those of the rows.
        seed: of folds and topics.
    """
    vocabulary = NgramVocabulary()
    caption_ids = rows["caption_id"].combine_chunks()
    # `value_counts` keeps the order of first occurrence, which is that of the captions, as rows are grouped.
    sizes = caption_ids.value_counts().field("counts").to_numpy()
    start = np.concatenate([[0], np.cumsum(sizes)])
    first_rows = rows.take(start[:-1])
    images = first_rows["image_id"].to_pylist()
    true_texts = rows["caption"].to_pylist()
    negative_texts = rows["negative"].to_pylist()
    captions = vocabulary.encode(first_rows["text"].to_pylist())
    negative = vocabulary.encode(negative_texts)
    true = vocabulary.encode(true_texts)
    texts = vocabulary.encode([caption.text for caption in corpus]) if corpus else captions
    text_images = [caption.image_id for caption in corpus] or images

    # Two columns of each model, see `_sign_and_size`.
    gaps = [
        _language_model_gaps(vocabulary, texts, text_images, true, negative, rows["image_id"].to_pylist(), seed),
        _sign_and_size(_gaps_of_rule(len, true_texts, negative_texts)),
        _sign_and_size(_gaps_of_rule(blind.format_faults, true_texts, negative_texts)),
    ]
    if not rows["plausibility"].null_count:
        # Plausibility is that of the negative minus that of the caption, the reverse of a gap.
        gaps.append(_sign_and_size(-rows["plausibility"].to_numpy().astype(float)))
    differences = ngram_differences(true, negative)
    return Pool(
        start=start,
        matrix=differences.matrix,
        documents=documents(texts, text_images, true, windows(true, negative).true, rows["image_id"].to_pylist()),
        words=differences.single_words(),
        gaps=np.concatenate(gaps, axis=1),
        images=images,
    )


def _language_model_gaps(
    vocabulary: NgramVocabulary,
    texts: NumberedTexts,
    text_images: Sequence[str],
    true: NumberedTexts,
    negative: NumberedTexts,
    images: Sequence[str],
    seed: int,
) -> np.ndarray:
    """How much more probable language models find the true text than the negative: (candidates, 2).

    These are the gaps expected of one more model, from those of PARTS models (see `_expect_gaps`).

    Args:
        vocabulary: that knows all words.
        texts, text_images: what the models are trained on; the model that scores a candidate has not seen its fold.
        true, negative, images: the texts and the image of each candidate.
        seed: of folds and parts.
    """
    # Images of texts and candidates are divided at once, so that an image is in the same fold in both.
    folds = folds_of([*images, *text_images], seed=seed + SEED_OFFSET)
    folds_of_candidates = folds[: len(images)]
    folds_of_texts = folds[len(images) :]
    parts_of_texts = folds_of([*images, *text_images], PARTS, seed=seed + SEED_OFFSET + 1)[len(images) :]
    gaps = []
    for part in range(PARTS):
        in_part = np.flatnonzero(parts_of_texts == part)
        model = train(texts.take(in_part), folds_of_texts[in_part], FOLDS, len(vocabulary.number))
        gaps.append(model.gaps(true, negative, folds_of_candidates))
    return _expect_gaps(gaps)


def _expect_gaps(gaps: Sequence[np.ndarray]) -> np.ndarray:
    """Predict what gaps one more model like these would have.

    A candidate chosen for its large gap under one model has a smaller one under the next (regression to the mean). So
    the gaps of each model are predicted from the mean of the other models' by a rising function (isotonic regression),
    and the predictions are averaged.

    Args:
        gaps: of each of several models, the score of the true text minus the negative's, (candidates,).

    Returns:
        (candidates, 2): the expected sign, -1 to 1, and the expected size, see `_sign_and_size`.
    """
    total = np.sum(gaps, axis=0)
    predictions = []
    for gaps_of_model in gaps:
        mean_of_others = (total - gaps_of_model) / max(len(gaps) - 1, 1)  # (candidates,)
        isotonic = IsotonicRegression(out_of_bounds="clip")
        sign_and_size = _sign_and_size(gaps_of_model).T
        predicted = [isotonic.fit(mean_of_others, column).predict(mean_of_others) for column in sign_and_size]
        predictions.append(np.column_stack(predicted))
    return np.mean(predictions, axis=0).astype(np.float32)


def _gaps_of_rule(measure: Callable[[str], float], true: Sequence[str], negatives: Sequence[str]) -> np.ndarray:
    """The gaps of the rule "the text of smaller measure is true": measure(negative) - measure(true), (candidates,)."""
    # Each text is measured once: most occur in many candidates.
    measures = {text: measure(text) for text in {*true, *negatives}}
    gaps = [measures[negative] - measures[text] for text, negative in zip(true, negatives, strict=True)]
    return np.array(gaps, float)


def select(candidates: Pool, seed: int = 0, rounds: int = ROUNDS) -> np.ndarray:
    """Choose a candidate for every caption, or none, so that blind models are at chance.

    A candidate's gap is a model's score of its true text minus that of its negative. What is balanced are two columns
    for each model, the sign and the size of its gaps (see `_sign_and_size`).

    Returns the chosen row of `candidates` for every caption, -1 for none: (captions,). The same for the same pool and
    seed. Raises ValueError if there are fewer images than folds.
    """
    rng = np.random.default_rng(seed)
    matrix = candidates.matrix
    caption = candidates.caption
    folds = folds_of(candidates.images, seed=seed + SEED_OFFSET)[caption]  # of each candidate
    # The rank of each candidate among those of its caption.
    draw = np.arange(matrix.shape[0]) - candidates.start[caption]
    first_draws = np.flatnonzero(draw < POOL_DRAWS)
    gaps_of_pool = _gaps_of_fitted_model(matrix, first_draws, folds, partial(regression, penalty=POOL_PENALTY))
    gaps_to_balance = [candidates.gaps, _sign_and_size(gaps_of_pool)]  # each (candidates, 2 * models)
    # The likeliest draw of every caption, to begin with.
    chosen = candidates.start[:-1].copy()
    rounds_at_chance = 0
    for turn in range(rounds):
        kept = chosen[chosen >= 0]
        # A seed of its own for every round: models must be at chance not only on one division of the images.
        turn_seed = seed + SEED_OFFSET + turn + 1
        folds = folds_of(candidates.images, seed=turn_seed)[caption]
        matrix_by_topic = by_topic(matrix, topics_of(candidates.documents, turn_seed))
        gaps = [
            _gaps_of_fitted_model(matrix, kept, folds, regression),
            _gaps_of_fitted_model(matrix_by_topic, kept, folds, regression),
            _gaps_of_fitted_model(matrix[:, candidates.words], kept, folds, blind.log_odds),
        ]
        accuracies = [100 * blind.right(gaps_of_model[kept]).mean() for gaps_of_model in gaps]
        at_chance = all(abs(accuracy - 50) <= CHANCE_TOLERANCE for accuracy in accuracies)
        rounds_at_chance = rounds_at_chance + 1 if at_chance else 0
        if rounds_at_chance == 2:  # once may be luck with one division of the images
            break
        # The gaps of all rounds are balanced together, so that none undoes what another has balanced.
        gaps_to_balance += map(_sign_and_size, gaps)
        chosen = _choose_most_balanced(candidates, chosen, np.concatenate(gaps_to_balance, axis=1), rng)
    return chosen


def _gaps_of_fitted_model(matrix: csr_matrix, rows: np.ndarray, folds: np.ndarray, fit: blind.Fit) -> np.ndarray:
    """The gap of each candidate, a model's score of its true text minus that of its negative: (candidates,).

    Args:
        matrix: (candidates, n-grams): how often an n-gram is in the true text, less how often in the negative.
        rows: indices of the candidates that the model learns from.
        folds: (candidates,): each candidate is judged by weights that were fitted without candidates of its fold.
        fit: fits the weights of n-grams.
    """
    return blind.scores(matrix, blind.fold_weights(matrix[rows], folds[rows], FOLDS, fit), folds)


def _sign_and_size(gaps: np.ndarray) -> np.ndarray:
    """(candidates, 2): the sign of a model's gaps (candidates,), and the gaps scaled and squashed by tanh to -1 to 1.

    An accuracy counts only the sign; a small size marks pairs that a slightly different model would decide otherwise.
    """
    nonzero = np.abs(gaps[gaps != 0])
    # A gap of median size becomes tanh(1/2) = 0.46, the middle of the range.
    scale = 2 * np.median(nonzero) if len(nonzero) else 1.0
    # tanh(x) = 1 - 2 / (exp(2 x) + 1), by an `exp` that is the same on every processor.
    x = gaps / scale
    squashed = 1 - 2 / (exp(2 * x) + 1)
    return np.column_stack([np.sign(gaps), squashed]).astype(np.float32)


def _choose_most_balanced(
    candidates: Pool, before: np.ndarray, dense: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Visit the captions in random order and give each the candidate, or none, that adds least imbalance to the others.

    The imbalance of an n-gram costs only beyond the standard deviation of as many coin flips: if it were more even than
    chance, one half of the pairs would predict the other half.

    Args:
        candidates: of all captions.
        before: (captions,) the choice so far, which stays that of a caption until it is visited.
        dense: (candidates, columns) the gaps to balance.
        rng: of the order.

    Returns:
        The new choice: (captions,).
    """
    chosen = before.copy()
    matrix = candidates.matrix
    # The n-grams of candidate r, sparse: columns and values from cell_start[r] to cell_start[r + 1].
    cell_start = matrix.indptr
    columns = matrix.indices
    values = matrix.data

    # frequency, deviation, price: (n-grams,). The sum of n coin flips of 1 or -1 has the standard deviation √n.
    kept = matrix[chosen[chosen >= 0]]
    frequency = np.bincount(kept.indices, np.abs(kept.data), matrix.shape[1])
    deviation = np.sqrt(frequency)
    price = np.where(frequency >= COMMON, SPARSE / (frequency + SMOOTH), 0.0)
    priced_values = price[columns] * values
    # The imbalance of the present choice, kept up to date: positive where the true texts have more.
    ngram_lean = np.bincount(kept.indices, kept.data, matrix.shape[1])
    dense_lean = dense[chosen[chosen >= 0]].sum(axis=0, dtype=np.float64)

    start = candidates.start.tolist()
    draw_costs = DRAW * np.arange(np.diff(candidates.start).max(initial=0))
    for caption in rng.permutation(len(chosen)).tolist():
        # The caption's present choice is taken out of the balance while a new one is looked for.
        old = chosen[caption]
        if old >= 0:
            cells = slice(cell_start[old], cell_start[old + 1])
            ngram_lean[columns[cells]] -= values[cells]
            dense_lean -= dense[old]
        low = start[caption]
        high = start[caption + 1]
        # The cells of all candidates of the caption, one after the other; running sums give the sum of each.
        first_cell = cell_start[low]
        cells = slice(first_cell, cell_start[high])
        lean = ngram_lean[columns[cells]]
        lean_beyond_chance = np.copysign(np.maximum(np.abs(lean) - deviation[columns[cells]], 0), lean)
        running = np.concatenate([[0.0], np.cumsum(lean_beyond_chance * priced_values[cells])])
        sparse_cost = running[cell_start[low + 1 : high + 1] - first_cell] - running[cell_start[low:high] - first_cell]
        dense_cost = DENSE * np.add.reduce(dense[low:high] * dense_lean, axis=1)
        cost = sparse_cost + (dense_cost + draw_costs[: high - low])
        # A candidate that improves the balance has a negative cost.
        best = int(cost.argmin())
        new = low + best if cost[best] < GAIN else -1
        if new >= 0:
            cells = slice(cell_start[new], cell_start[new + 1])
            ngram_lean[columns[cells]] += values[cells]
            dense_lean += dense[new]
        chosen[caption] = new
    return chosen
