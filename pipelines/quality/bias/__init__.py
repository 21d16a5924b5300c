"""Blind baselines: how often a model that never sees the image tells a true caption from its negative.

50 % (chance) is ideal. `blind` measures pairs, `measure_run` a run; see `baselines` for what is measured. Needs the
`quality` extra.
"""

# ruff: noqa: F401
from .baselines import BlindReport, Cue, Pair, blind, format_faults, format_rule, most_telling, shorter
from .measure import (
    ALL,
    BlindConfig,
    Blindness,
    CachedReports,
    Unmeasured,
    measure_each,
    measure_run,
    measure_table,
    number_of_pairs,
    of_random_images,
    read_all,
    read_corpus,
    to_text,
    with_all,
)
