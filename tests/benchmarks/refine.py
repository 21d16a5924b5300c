"""Refine the images of a run in two halves apart, and let models of one half judge the other.

`python -m tests.benchmarks.refine RUN [--operator noun]`: for every operator the share of captions kept, and how often
the kept negatives of the second half are told by a regression on what was kept of the first, by one on the first draws
of the first, by its word log-odds, and by a language model of its captions; then those of the first half by models of
the second. 50 % is perfect. Nothing that judges has had any part in choosing.
"""

import argparse
from pathlib import Path

import numpy as np

from negcap.pipelines.quality.bias import read_corpus
from negcap.pipelines.quality.bias.language_model import train
from negcap.pipelines.quality.bias.learned import features, folds_of, log_odds, regression, right, words
from negcap.pipelines.quality.bias.ngrams import NgramVocabulary
from negcap.pipelines.quality.selection import pool, select
from negcap.pipelines.stages.refine import RefineConfig, Rows, both_ways, read_rows
from negcap.pipelines.tables.columns import operators_of

Corpus = list[tuple[str, str]]
Texts = list[tuple[str, str]]


def kept(rows: Rows, which: list[int], corpus: Corpus, flows: bool) -> Texts:
    """The (true, negative) texts that are kept of some captions refined alone; flows: as often one way as back."""
    candidates = pool(
        [rows.captions[i] for i in which],
        [rows.images[i] for i in which],
        [rows.texts[i] for i in which],
        corpus,
    )
    chosen = (select(candidates) - candidates.start[:-1]).tolist()
    draws = [(i, draw) for i, draw in zip(which, chosen, strict=True) if draw >= 0]
    if flows:
        draws = [draws[position] for position in both_ways([rows.flows[i][draw] for i, draw in draws])]
    return [(rows.captions[i], rows.texts[i][draw]) for i, draw in draws]


def told(judged: Texts, refined: Texts, raw: Texts, corpus: Corpus) -> dict[str, float]:
    """How often, in %, models of another half tell the judged."""
    vocabulary = NgramVocabulary()
    texts = [*judged, *refined, *raw]
    true, negative = (vocabulary.encode([pair[side] for pair in texts]) for side in (0, 1))
    read = vocabulary.encode([text for text, _ in corpus])
    found = features(true, negative)
    single = words(found).matrix
    first, second = len(judged), len(judged) + len(refined)
    model = train(read, np.zeros(len(read), int), 2, len(vocabulary.number))
    some = np.arange(first)
    gaps = {
        "regression, refined": found.matrix[:first] @ regression(found.matrix[first:second]),
        "regression, first draws": found.matrix[:first] @ regression(found.matrix[second:]),
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
    for operator in given.operator or operators_of(given.run):
        config = RefineConfig()
        rows = read_rows(given.run, operator, config)
        if len(set(rows.images)) < 20:
            continue
        folds = folds_of([*rows.images, *(image for _, image in corpus)], 2).tolist()
        halves = [[i for i in range(len(rows.captions)) if folds[i] == half] for half in (0, 1)]
        read = [
            [pair for pair, fold in zip(corpus, folds[len(rows.captions) :], strict=True) if fold == half]
            for half in (0, 1)
        ]
        flows = operator in config.flows
        sides = [kept(rows, which, some, flows) for which, some in zip(halves, read, strict=True)]
        raw = [[(rows.captions[i], rows.texts[i][0]) for i in which] for which in halves]
        share = 100 * sum(map(len, sides)) / len(rows.captions)
        there, back = (told(sides[1 - half], sides[half], raw[half], read[half]) for half in (0, 1))
        said = ", ".join(f"{name} {percent:.1f} and {back[name]:.1f}" for name, percent in there.items())
        print(f"{operator}: {share:.1f} % kept; {said}", flush=True)


if __name__ == "__main__":
    main()
