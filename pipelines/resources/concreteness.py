"""Fit the shipped concreteness score: ridge regression of published scores on WordNet ancestors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict

from ...augment.language.concreteness import Concreteness, concreteness_features, read_norms
from ...augment.language.parse import parse
from ...augment.language.wordnet import WordNet
from ..readers import ReadOptions, detect, read
from ..readers.record import Record

# A noun with this score or more is concrete enough to replace another.
THRESHOLD = 0.6
# The share of concrete words that is to lie above the threshold.
RECALL = 0.93
# How many words must have a feature, at least; from fewer no weight can be learned.
MIN_WORDS = 5
RIDGE_PENALTIES = (1.0, 3.0, 10.0, 30.0)
MIN_HEADS = 5  # see `head_lemmas`
# Smaller weights are left out of the file.
LEAST_WEIGHT = 5e-4


def head_lemmas(texts: Sequence[str]) -> list[str]:
    """The lemmas, sorted, of common nouns that head noun phrases in `texts` at least MIN_HEADS times."""
    roots = (caption.tokens[chunk.root] for caption in parse(texts) for chunk in caption.chunks)
    counts = Counter(root.lemma for root in roots if root.pos == "NOUN")
    return sorted(lemma for lemma, count in counts.items() if count >= MIN_HEADS and lemma.isalpha())


class RidgeFit(NamedTuple):
    """A fitted score: the weight of each feature, the intercept, and the ridge penalty that was best."""

    weights: dict[str, float]
    intercept: float
    penalty: float


def fit(norms: dict[str, float], held_out: Iterable[str]) -> RidgeFit:
    """Fit a ridge regression of scores on the features of their words.

    Only words with noun counts in WordNet's tagged corpora are used, each weighted by the log of its count, since the
    others are names and rare words; features of fewer than MIN_WORDS words are left out. The penalty is chosen by
    5-fold cross-validation. Since ridge predictions shrink towards the mean, the intercept is shifted such that
    THRESHOLD keeps a share of RECALL of the concrete words.

    Args:
        norms: the score of each word.
        held_out: words not to fit on.
    """
    excluded = set(held_out)
    wordnet = WordNet.load()
    words: list[str] = []
    rows: list[dict[str, float]] = []
    tag_counts: list[int] = []
    for word in sorted(norms):
        tag_count = 0 if word in excluded else sum(wordnet.tag_counts(word, "n"))
        row = concreteness_features(word) if tag_count else None
        if row:
            words.append(word)
            rows.append(row)
            tag_counts.append(tag_count)

    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(rows).tocsc()  # (words, features)
    # `indptr` says where the entries of each column begin.
    frequent = np.flatnonzero(np.diff(matrix.indptr) >= MIN_WORDS)
    matrix = matrix[:, frequent].tocsr()
    names = vectorizer.get_feature_names_out()[frequent]
    target = np.array([norms[word] for word in words])
    is_concrete = target > THRESHOLD
    weight = np.log1p(tag_counts)

    folds = KFold(5, shuffle=True, random_state=0)
    models = {penalty: Ridge(alpha=penalty, solver="lsqr") for penalty in RIDGE_PENALTIES}
    predictions: dict[float, np.ndarray] = {}
    aucs: dict[float, float] = {}
    for penalty, model in models.items():
        predicted = cross_val_predict(model, matrix, target, cv=folds, params={"sample_weight": weight})
        predictions[penalty] = predicted
        aucs[penalty] = roc_auc_score(is_concrete, predicted, sample_weight=weight)
    best = max(aucs, key=aucs.__getitem__)
    fitted = models[best].fit(matrix, target, sample_weight=weight)
    shift = THRESHOLD - float(np.quantile(predictions[best][is_concrete], 1 - RECALL))
    coefficients = zip(names, fitted.coef_, strict=True)
    weights = {str(name): round(float(value), 4) for name, value in coefficients if abs(value) >= LEAST_WEIGHT}
    return RidgeFit(weights, round(float(fitted.intercept_) + shift, 4), best)


def auc(scores: dict[str, float], norms: dict[str, float]) -> float:
    """Area under the ROC curve of the scores as predictors of `norm > THRESHOLD`, over the words in both tables."""
    words = sorted(word for word in scores if word in norms)
    return float(roc_auc_score([norms[word] > THRESHOLD for word in words], [scores[word] for word in words]))


def build(scores: Path, captions: Iterable[str], output: Path) -> None:
    """Fit the score to a list of scores, print its accuracy and write the coefficients as JSON.

    The accuracy is measured on the lemmas that head noun phrases of the captions (sources that `negcap build` reads),
    to which the score is not fitted.
    """
    norms = read_norms(scores)
    records = (record for source in captions for record in read(source, detect(source), ReadOptions.of({})))
    texts = [record.text for record in records if isinstance(record, Record)]
    heads = [lemma for lemma in head_lemmas(texts) if lemma in norms and concreteness_features(lemma)]
    weights, intercept, penalty = fit(norms, heads)
    model = Concreteness(weights=weights, intercept=intercept)
    held_out_auc = auc({lemma: float(model.score(lemma) or 0.0) for lemma in heads}, norms)
    description = {
        "source": "fitted to the scores of Turney, Neuman, Assaf and Cohen (2011), as distributed with VSE-C (MIT)",
        "held_out": heads,
        "held_out_auc": round(held_out_auc, 4),
        "ridge_alpha": penalty,
        "threshold": THRESHOLD,
        "intercept": intercept,
        "weights": weights,
    }
    output.write_text(json.dumps(description, indent=0, sort_keys=True) + "\n", "utf-8")
    print(f"{len(weights)} weights; AUC {held_out_auc:.4f} on {len(heads)} held-out heads; wrote {output}")
