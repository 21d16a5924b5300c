"""Blind baselines: how often a model that never sees the image tells a true caption from its negative.

50 % (chance) is ideal. The baselines on (true, negative) pairs: a format rule, "the shorter is true", the log-odds of
words, a trigram language model of true captions, and a logistic regression on n-gram differences; the last three are
tested on images that they were not trained on. Needs the `quality` extra. `measure` takes pairs, `measure_run` a run.
"""

from .accuracy import Accuracy, accuracy, by_image
from .measure import ALL, BlindConfig, Blindness, CachedReports, measure, measure_each, measure_run, with_all
from .pairs import Pair, Pick, limit_pairs, of_random_images, read_all, read_corpus
from .report import BlindReport, Cue, blind, check_libraries, most_telling, ngram_regression
from .rules import format_faults, format_rule, shorter
from .table import to_json, to_markdown, to_text

__all__ = [
    "ALL",
    "Accuracy",
    "BlindConfig",
    "BlindReport",
    "Blindness",
    "CachedReports",
    "Cue",
    "Pair",
    "Pick",
    "accuracy",
    "blind",
    "by_image",
    "check_libraries",
    "format_faults",
    "format_rule",
    "measure",
    "measure_each",
    "measure_run",
    "most_telling",
    "ngram_regression",
    "read_all",
    "read_corpus",
    "shorter",
    "limit_pairs",
    "of_random_images",
    "to_json",
    "to_markdown",
    "to_text",
    "with_all",
]
