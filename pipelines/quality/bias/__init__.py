"""Blind baselines: how often a model that never sees the image tells a true caption from its negative.

50 % (chance) is ideal. The baselines on (true, negative) pairs: a format rule, "the shorter is true", the log-odds of
words, a trigram language model of true captions, and a logistic regression on n-gram differences; the last three are
tested on images that they were not trained on. Needs the `quality` extra. `blind` takes pairs, `measure_run` a run.
"""

# ruff: noqa: F401
from .measure import ALL, BlindConfig, Blindness, CachedReports, measure_each, measure_run, to_json, to_text, with_all
from .pairs import (
    Accuracy,
    Pair,
    Pick,
    accuracy,
    by_image,
    format_faults,
    format_rule,
    limit_pairs,
    read_all,
    read_corpus,
    shorter,
)
from .report import BlindReport, Cue, blind, check_libraries, most_telling
