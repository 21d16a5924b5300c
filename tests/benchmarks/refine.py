"""Refine two halves of a run's images separately, and test each with blind models trained on the other.

`python -m tests.benchmarks.refine RUN [--operator noun]` prints for every operator the share of captions kept, and the
accuracies at telling the kept negatives of the second half from their captions: of a regression on the kept negatives
of the first half, one on the first draws of the first half, its word log-odds, and a language model of its captions;
then the same for the first half with models of the second. 50 % (chance) is ideal. No model tests what it helped to
choose.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

from negcap.pipelines.quality.bias.baselines import CorpusText, folds_of, log_odds, regression, right
from negcap.pipelines.quality.bias.measure import read_corpus
from negcap.pipelines.quality.bias.ngrams import NgramVocabulary, ngram_differences, train
from negcap.pipelines.quality.selection import pool, select
from negcap.pipelines.stages.refine import RefineConfig, both_ways, read_rows
from negcap.pipelines.tables.columns import kinds_of
from negcap.pipelines.tables.pairs import earlier_draws

Corpus = list[CorpusText]
Texts = list[tuple[str, str]]  # true and negative


def kept(rows: pa.Table, corpus: Corpus, flows: bool) -> Texts:
    """Refine the candidates of some captions separately; returns the (true, negative) texts that are kept.

    flows: keep each exchange as often as its reverse.
    """
    chosen = select(pool(rows, corpus))
    some = rows.take(chosen[chosen >= 0])
    if flows:
        exchanges = list(zip(some["replaced"].to_pylist(), some["replacement"].to_pylist(), strict=True))
        some = some.take(pa.array(both_ways(exchanges), pa.int64()))
    return texts_of(some)


def texts_of(rows: pa.Table) -> Texts:
    return list(zip(rows["text"].to_pylist(), rows["negative"].to_pylist(), strict=True))


def accuracies(judged: Texts, refined: Texts, raw: Texts, corpus: Corpus) -> dict[str, float]:
    """Accuracies (%), by name, on the pairs `judged`, of models trained on the other half.

    refined, raw, corpus: the kept pairs, the pairs of first draws, and the captions of that other half.
    """
    vocabulary = NgramVocabulary()
    texts = [*judged, *refined, *raw]
    true, negative = (vocabulary.encode([pair[side] for pair in texts]) for side in (0, 1))
    read = vocabulary.encode([text for text, _ in corpus])
    differences = ngram_differences(true, negative)
    matrix = differences.matrix
    single = differences.take(differences.single_words()).matrix
    first, second = len(judged), len(judged) + len(refined)
    model = train(read, np.zeros(len(read), int), 2, len(vocabulary.number))
    some = np.arange(first)
    gaps = {
        "regression, refined": matrix[:first] @ regression(matrix[first:second]),
        "regression, first draws": matrix[:first] @ regression(matrix[second:]),
        "word log-odds": single[:first] @ log_odds(single[first:second]),
        "language model": model.gaps(true.take(some), negative.take(some), np.ones(first, int)),
    }
    return {name: 100 * float(right(gap).mean()) for name, gap in gaps.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a run, with its negatives")
    parser.add_argument("--operator", action="append", help="only this one; may be repeated")
    given = parser.parse_args()
    corpus = read_corpus(given.run)
    for operator in given.operator or sorted({kind.operator for kind in kinds_of(given.run)}):
        config = RefineConfig()
        captions, rows = read_rows(given.run, operator, config)
        if len(rows["image_id"].unique()) < 20:
            continue
        folds = folds_of([*rows["image_id"].to_pylist(), *(image for _, image in corpus)], 2)
        halves = [rows.filter(pa.array(folds[: len(rows)] == half)) for half in (0, 1)]
        labelled = list(zip(corpus, folds[len(rows) :].tolist(), strict=True))
        read = [[pair for pair, fold in labelled if fold == half] for half in (0, 1)]
        flows = operator in config.symmetric_operators
        sides = [kept(some, corpus, flows) for some, corpus in zip(halves, read, strict=True)]
        raw = [texts_of(some.filter(pa.array(earlier_draws(some) == 0))) for some in halves]
        share = 100 * sum(map(len, sides)) / captions
        there, back = (accuracies(sides[1 - half], sides[half], raw[half], read[half]) for half in (0, 1))
        said = ", ".join(f"{name} {percent:.1f} and {back[name]:.1f}" for name, percent in there.items())
        print(f"{operator}: {share:.1f} % kept; {said}", flush=True)


if __name__ == "__main__":
    main()
