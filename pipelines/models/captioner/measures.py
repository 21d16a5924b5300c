"""Measures of generated captions: agreement with human captions, and diversity. A sentence is a list of words."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence

Words = Sequence[str]
ORDERS = 4  # n-grams of 1 to 4 words
SIGMA = 6.0  # of CIDEr-D's length penalty


def ngrams(sentence: Words, n: int) -> list[tuple[str, ...]]:
    """All n-grams of a sentence, in order."""
    return list(zip(*(sentence[start:] for start in range(n)), strict=False))


def distinct(sentences: Sequence[Words], n: int) -> float:
    """distinct-n: number of distinct n-grams divided by that of all n-grams, in all sentences (Li et al. 2016)."""
    grams = [gram for sentence in sentences for gram in ngrams(sentence, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def bleu(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """Corpus BLEU-1 to BLEU-4 in %; references: one or more sentences per candidate."""
    from nltk.translate.bleu_score import corpus_bleu

    weights = [tuple(1 / n if k < n else 0.0 for k in range(ORDERS)) for n in range(1, ORDERS + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no n-grams in common: the score is 0
        return [100 * value for value in corpus_bleu(references, candidates, weights=weights)]


def self_bleu(groups: Sequence[Sequence[Words]]) -> float:
    """The mean BLEU-4, in %, of each sentence against the others of its group (Zhu et al. 2018); low means diverse.

    Smoothed by adding 1 to the counts of 2- to 4-grams, as captions are short. Groups of one sentence are ignored; 0 if
    there are no others.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method2
    scores = [
        sentence_bleu([other for k, other in enumerate(group) if k != at], sentence, smoothing_function=smoothing)
        for group in groups
        if len(group) > 1
        for at, sentence in enumerate(group)
    ]
    return 100 * sum(scores) / len(scores) if scores else 0.0


def cider_d(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """CIDEr-D of each candidate against its references, 0 to 10 (Vedantam et al. 2015, eq. 3 and section 7).

    n-grams of 1 to 4 words are weighted by inverse document frequency, where a document is all references of one
    candidate. A candidate's counts are clipped to the reference's; a length difference of l words multiplies by exp(-l²
    / 72).
    """
    frequency: Counter[tuple[str, ...]] = Counter()
    for group in references:
        frequency.update({gram for one in group for n in range(1, ORDERS + 1) for gram in ngrams(one, n)})
    log_documents = math.log(max(len(references), 1))
    return [_cider_d(one, group, frequency, log_documents) for one, group in zip(candidates, references, strict=True)]


def _cider_d(
    candidate: Words, group: Sequence[Words], frequency: Counter[tuple[str, ...]], log_documents: float
) -> float:
    def vector(sentence: Words, n: int) -> dict[tuple[str, ...], float]:
        counts = Counter(ngrams(sentence, n))
        return {gram: count * (log_documents - math.log(max(frequency[gram], 1))) for gram, count in counts.items()}

    total = 0.0
    for n in range(1, ORDERS + 1):
        given = vector(candidate, n)
        length = math.sqrt(sum(value**2 for value in given.values()))
        for one in group:
            true = vector(one, n)
            norm = length * math.sqrt(sum(value**2 for value in true.values()))
            if norm:
                shared = sum(min(value, true.get(gram, 0.0)) * true.get(gram, 0.0) for gram, value in given.items())
                total += shared / norm * math.exp(-((len(candidate) - len(one)) ** 2) / (2 * SIGMA**2))
    return 10 * total / (ORDERS * len(group)) if group else 0.0
