"""Measures of what is written: against people's captions, and against each other. Sentences are lists of words."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence

Words = Sequence[str]
ORDERS = 4
SIGMA = 6.0


def ngrams(sentence: Words, n: int) -> list[tuple[str, ...]]:
    """All runs of n words, in order."""
    return list(zip(*(sentence[start:] for start in range(n)), strict=False))


def distinct(sentences: Sequence[Words], n: int) -> float:
    """The share of different n-grams among all n-grams of all sentences (Li et al. 2016); 0 without any."""
    all_of_them = [gram for sentence in sentences for gram in ngrams(sentence, n)]
    return len(set(all_of_them)) / len(all_of_them) if all_of_them else 0.0


def bleu(candidates: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """BLEU-1 to BLEU-4 of the corpus, in %; references: of each candidate."""
    from nltk.translate.bleu_score import corpus_bleu

    weights = [tuple(1 / n if k < n else 0.0 for k in range(ORDERS)) for n in range(1, ORDERS + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no common n-grams: the score is 0
        return [100 * value for value in corpus_bleu(references, candidates, weights=weights)]


def self_bleu(groups: Sequence[Sequence[Words]]) -> float:
    """BLEU-4 of every sentence against the others of its group, the mean in % (Zhu et al. 2018); low is diverse.

    Smoothed by adding 1 to the counts above one word, as sentences are short. Groups of one sentence do not count; 0
    without any other.
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

    n-grams of one to four words weigh by their inverse document frequency among the references (a document is all
    references of a candidate); a candidate's counts are clipped to the reference's, and a difference of length l costs
    exp(-l² / 72).
    """
    frequency: Counter[tuple[str, ...]] = Counter()
    for group in references:
        frequency.update({gram for one in group for n in range(1, ORDERS + 1) for gram in ngrams(one, n)})
    documents = math.log(max(len(references), 1))
    return [_cider_d(one, group, frequency, documents) for one, group in zip(candidates, references, strict=True)]


def _cider_d(candidate: Words, group: Sequence[Words], frequency: Counter[tuple[str, ...]], documents: float) -> float:
    def vector(sentence: Words, n: int) -> dict[tuple[str, ...], float]:
        counts = Counter(ngrams(sentence, n))
        return {gram: count * (documents - math.log(max(frequency[gram], 1))) for gram, count in counts.items()}

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
