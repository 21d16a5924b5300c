"""Fit the shipped concreteness score: ridge regression of published scores on WordNet ancestors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict

from ...augment.language.concreteness import Concreteness, features, read_norms
from ...augment.language.parse import parse
from ...augment.language.wordnet import WordNet
from ..readers import ReadOptions, detect, read
from ..readers.record import Record

THRESHOLD = 0.6
RECALL = 0.93
MIN_WORDS = 5
ALPHAS = (1.0, 3.0, 10.0, 30.0)
MIN_HEADS = 5


def head_lemmas(texts: Sequence[str]) -> list[str]:
    """The lemmas, sorted, of common nouns that head noun phrases in `texts` at least MIN_HEADS times."""
    roots = (caption.tokens[chunk.root] for caption in parse(texts) for chunk in caption.chunks)
    counts = Counter(root.lemma for root in roots if root.pos == "NOUN")
    return sorted(lemma for lemma, n in counts.items() if n >= MIN_HEADS and lemma.isalpha())


def fit(norms: dict[str, float], held_out: Iterable[str]) -> tuple[dict[str, float], float, float]:
    """Fit a ridge regression; returns the weight of each feature, the intercept, and the ridge penalty.

    norms: score by word; held_out: words not to fit on. The penalty is chosen by 5-fold cross-validation. Only words
    with noun counts in WordNet's tagged corpora are used, each weighted by the log of its count, since the others are
    names and rare words; features of fewer than MIN_WORDS words are left out. Since ridge predictions shrink towards
    the mean, the intercept is shifted such that THRESHOLD keeps a share of RECALL of the concrete words.
    """

    held = set(held_out)
    wordnet = WordNet.load()
    tagged = {word: sum(wordnet.tag_counts(word, "n")) for word in sorted(norms) if word not in held}
    known = [(word, present) for word, n in tagged.items() if n and (present := features(word))]
    weight = np.log1p([tagged[word] for word, _ in known])
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform([found for _, found in known]).tocsc()
    kept = np.flatnonzero(np.diff(matrix.indptr) >= MIN_WORDS)
    matrix = matrix[:, kept].tocsr()
    names = vectorizer.get_feature_names_out()[kept]
    target = np.array([norms[word] for word, _ in known])
    folds = KFold(5, shuffle=True, random_state=0)
    weighted = {"sample_weight": weight}
    models = {alpha: Ridge(alpha=alpha, solver="lsqr") for alpha in ALPHAS}
    fitted = {"cv": folds, "params": weighted}
    predictions = {a: cross_val_predict(model, matrix, target, **fitted) for a, model in models.items()}
    alpha = max(ALPHAS, key=lambda a: roc_auc_score(target > THRESHOLD, predictions[a], sample_weight=weight))
    model = models[alpha].fit(matrix, target, **weighted)
    shift = THRESHOLD - float(np.quantile(predictions[alpha][target > THRESHOLD], 1 - RECALL))
    weights = {str(name): round(float(w), 4) for name, w in zip(names, model.coef_, strict=True) if abs(w) >= 5e-4}
    return weights, round(float(model.intercept_) + shift, 4), alpha


def auc(scores: dict[str, float], norms: dict[str, float]) -> float:
    """Area under the ROC curve of the scores as predictors of `norm > THRESHOLD`, over the words in both tables."""
    words = sorted(word for word in scores if word in norms)
    return float(roc_auc_score([norms[word] > THRESHOLD for word in words], [scores[word] for word in words]))


def build(scores: Path, captions: Iterable[str], output: Path) -> None:
    """Fit the score to a list of scores, print its accuracy and write the coefficients as JSON. The lemmas that head
    noun phrases of the captions (sources that `negcap build` reads) are not fitted on, but measured on.
    """
    norms = read_norms(scores)
    records = (record for source in captions for record in read(source, detect(source), ReadOptions.of({})))
    texts = [record.text for record in records if isinstance(record, Record)]
    heads = [lemma for lemma in head_lemmas(texts) if lemma in norms and features(lemma)]
    weights, intercept, alpha = fit(norms, heads)
    model = Concreteness(weights=weights, intercept=intercept)
    held = auc({lemma: float(model.score(lemma) or 0.0) for lemma in heads}, norms)
    source = "fitted to the scores of Turney, Neuman, Assaf and Cohen (2011), as distributed with VSE-C (MIT)"
    described = {"source": source, "held_out": heads, "held_out_auc": round(held, 4), "ridge_alpha": alpha}
    described |= {"threshold": THRESHOLD, "intercept": intercept, "weights": weights}
    output.write_text(json.dumps(described, indent=0, sort_keys=True) + "\n", "utf-8")
    print(f"{len(weights)} weights; AUC {held:.4f} on {len(heads)} held-out heads; wrote {output}")
